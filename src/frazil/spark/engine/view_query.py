"""Run the query of an Iceberg view on Spark: its tables are found by Frazil, the rest of the query
is Spark's.

Spark parses the text as a query, so that a view cannot hold a statement that changes anything. The
parser tells where each table stands in the text; there the text gets the name of a temporary view
over the table's rows, which lives until Spark has resolved the query.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Sequence

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from frazil.catalog.names import IN_SQL, identifier_parts, without_blanks
from frazil.errors import InvalidInput, SchemaMismatch, Unsupported
from frazil.expr.sql_text import back_quoted
from frazil.ops.session import Session
from frazil.spark.host.jvm import jvm_of
from frazil.spark.host.jvm_plans import (
    NamedTable,
    can_up_cast,
    frame_of,
    named_tables,
    parsed_query,
)
from frazil.spark.host.jvm_views import drop_temporary_view
from frazil.spark.types.spark_types import to_spark
from frazil.spec.schema import Schema

_NAME = re.compile(IN_SQL)
Resolve = Callable[[tuple[str, ...]], "DataFrame | tuple[str, ...]"]
"""Return the rows of the table that a query names, or the full name of a table that Spark is to
look up.
"""


def query_frame(
    spark: Session,
    name: str,
    sql: str,
    schema: Schema,
    query_columns: Sequence[str],
    resolve: Resolve,
) -> DataFrame:
    """Return the rows of a view, with the names and types of its schema. `query_columns`: the names
    that the query's columns had when the view was made; none, or names that several columns have:
    they count by position. Raises Unsupported on Spark Connect, InvalidInput where Spark refuses
    the query."""
    if jvm_of(spark) is None:
        hint = "The SQL is that of view.sql_for('spark'); on a classic session view.to_spark() runs it."
        raise Unsupported(f"View {name} cannot be run on Spark Connect.", hint=hint, view=name)
    temporary_views: list[str] = []
    try:
        pieces, end = [], 0
        places = {
            (*_place(table, sql), table.parts, table.has_alias)
            for table in named_tables(spark, parsed_query(spark, sql))
        }
        for start, stop, parts, has_alias in sorted(places):
            relation = resolve(parts)
            if isinstance(relation, DataFrame):
                temporary_views.append(f"frazil_view_{uuid.uuid4().hex}")
                relation.createOrReplaceTempView(temporary_views[-1])
                source = (
                    temporary_views[-1]
                    if has_alias
                    else f"{temporary_views[-1]} AS {back_quoted(parts[-1:])}"
                )
            else:
                source = back_quoted(relation)
            pieces += [sql[end:start], source]
            end = stop
        frame = frame_of(spark, parsed_query(spark, "".join([*pieces, sql[end:]])))
    except (AnalysisException, ParseException) as error:
        reason = str(error).strip().partition("\n")[0][:500]
        raise InvalidInput(
            f"Spark refuses the query of view {name}: {reason}",
            hint=f"The query is: {sql}",
            view=name,
        ) from error
    finally:
        for view in temporary_views:  # what is cached of the tables stays cached
            drop_temporary_view(spark, view)
    return _shaped(spark, name, frame, schema, query_columns)


def _place(table: NamedTable, sql: str) -> tuple[int, int]:
    """Return where the name of a table stands, as the parser tells. Raises Unsupported where the
    text there is another one.
    """
    # the parser counts code points, as Python does
    offset = len(sql) if table.offset is None else table.offset
    match = _NAME.match(sql, offset)
    if match is None or identifier_parts(without_blanks(match[0])) != table.parts:
        raise Unsupported(
            f"The name {'.'.join(table.parts)} cannot be found in the text of the view's query.",
            hint=f"The query is: {sql}",
        )
    return offset, match.end()


def _shaped(
    spark: Session, name: str, frame: DataFrame, schema: Schema, query_columns: Sequence[str]
) -> DataFrame:
    """Give the columns of a query the names and types of the view's schema. Raises SchemaMismatch
    where that loses anything.
    """
    wanted = to_spark(schema)
    is_ambiguous = any(frame.columns.count(column) > 1 for column in query_columns)
    positional = (
        is_ambiguous
        or len(query_columns) != len(wanted.fields)
        or not set(query_columns) <= set(frame.columns)
    )
    if positional and len(frame.columns) != len(wanted.fields):
        text = f"The query of view {name} has {len(frame.columns)} columns ({', '.join(frame.columns)}), its schema {len(wanted.fields)}."
        raise SchemaMismatch(
            text,
            hint="A table under it has other columns than when the view was made: replace the view.",
            view=name,
        )
    order = (
        list(range(len(wanted.fields)))
        if positional
        else [frame.columns.index(c) for c in query_columns]
    )
    numbered = frame.toDF(*(f"c{n}" for n in range(len(frame.columns))))
    columns = []
    for field, place in zip(wanted.fields, order, strict=True):
        type_ = frame.schema.fields[place].dataType
        column = f.col(f"c{place}")
        if type_.simpleString() != field.dataType.simpleString():
            if not can_up_cast(spark, type_.json(), field.dataType.json()):
                text = f"Column {field.name} of view {name} is {field.dataType.simpleString()}, but its query gives {type_.simpleString()}."
                hint = "Replace the view, with a cast in its query or another schema."
                raise SchemaMismatch(text, hint=hint, view=name, column=field.name)
            column = column.cast(field.dataType)
        columns.append(column.alias(field.name))
    return numbered.select(*columns)
