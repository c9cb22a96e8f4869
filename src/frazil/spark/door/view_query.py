"""Run the query of an Iceberg view on Spark: its tables are found by Frazil, the rest of the query is Spark's.

Spark parses the text as a query, so that a view cannot hold a statement that changes anything. The parser tells where each table stands
in the text; there the text gets the name of a temporary view over the table's rows, which lives until Spark has resolved the query.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from frazil.catalog.names import identifier_parts
from frazil.errors import InvalidInput, SchemaMismatch, Unsupported
from frazil.expr.quoted import back_quoted
from frazil.spark.host.jvm import can_up_cast, each, frame_of, is_subquery, jvm_of
from frazil.spark.types.spark_types import to_spark
from frazil.spec.schema import Schema

_NAME = re.compile(r"(?:`(?:[^`]|``)*`|\w+)(?:\s*\.\s*(?:`(?:[^`]|``)*`|\w+))*")
Resolve = Callable[[tuple[str, ...]], "DataFrame | tuple[str, ...]"]
"""Return the rows of the table that a query names, or the full name of a table that Spark is to look up."""


def query_frame(spark: Any, name: str, sql: str, schema: Schema, query_columns: Sequence[str], resolve: Resolve) -> DataFrame:
    """Return the rows of a view, with the names and types of its schema. `query_columns`: the names that the query's columns had when the
    view was made; none: its columns count by position. Raises Unsupported on Spark Connect, InvalidInput where Spark refuses the query."""
    if jvm_of(spark) is None:
        hint = "The SQL is that of view.sql_for('spark'); on a classic session view.to_spark() runs it."
        raise Unsupported(f"View {name} cannot be run on Spark Connect.", hint=hint, view=name)
    temporary_views: list[str] = []
    try:
        pieces, end = [], 0
        for start, stop, parts, aliased in sorted(set(_relations(spark, _parsed(spark, sql), sql, frozenset(), False))):
            found = resolve(parts)
            if isinstance(found, DataFrame):
                temporary_views.append(f"frazil_view_{uuid.uuid4().hex}")
                found.createOrReplaceTempView(temporary_views[-1])
                source = temporary_views[-1] if aliased else f"{temporary_views[-1]} AS {back_quoted(parts[-1:])}"
            else:
                source = back_quoted(found)
            pieces += [sql[end:start], source]
            end = stop
        frame = frame_of(spark, _parsed(spark, "".join([*pieces, sql[end:]])))
    except (AnalysisException, ParseException) as error:
        reason = str(error).strip().partition("\n")[0][:500]
        raise InvalidInput(f"Spark refuses the query of view {name}: {reason}", hint=f"The query is: {sql}", view=name) from error
    finally:
        for view in temporary_views:  # not by spark.catalog, which would drop what is cached of the table, too
            spark._jsparkSession.sessionState().catalog().dropTempView(view)
    return _shaped(spark, name, frame, schema, query_columns)


def _parsed(spark: Any, sql: str) -> Any:
    return spark._jsparkSession.sessionState().sqlParser().parseQuery(sql)


def _relations(spark: Any, plan: Any, sql: str, hidden: frozenset[str], aliased: bool) -> Iterator[tuple[int, int, tuple[str, ...], bool]]:
    """Yield where in the text each table stands: start, end, the parts of its name, and whether the query gives it another name.

    `hidden`: names in small letters that the query itself defines by WITH.
    """
    kind = plan.getClass().getSimpleName()
    if kind == "UnresolvedRelation":
        parts = tuple(each(plan.multipartIdentifier()))
        if not (len(parts) == 1 and parts[0].lower() in hidden):
            start, stop = _place(plan, sql, parts)
            yield start, stop, parts, aliased
        return
    if kind == "UnresolvedWith":
        inside = hidden
        for relation in each(plan.cteRelations()):
            name = str(relation._1())
            within = inside | {name.lower()} if plan.allowRecursion() else inside
            yield from _relations(spark, relation._2(), sql, within, False)
            inside = inside | {name.lower()}
        yield from _relations(spark, plan.child(), sql, inside, False)
        return
    for expression in each(plan.expressions()):
        yield from _of_expression(spark, expression, sql, hidden)
    for child in each(plan.children()):
        yield from _relations(spark, child, sql, hidden, kind == "SubqueryAlias")


def _of_expression(spark: Any, expression: Any, sql: str, hidden: frozenset[str]) -> Iterator[tuple[int, int, tuple[str, ...], bool]]:
    if is_subquery(spark, expression):
        yield from _relations(spark, expression.plan(), sql, hidden, False)
    for child in each(expression.children()):
        yield from _of_expression(spark, child, sql, hidden)


def _place(plan: Any, sql: str, parts: tuple[str, ...]) -> tuple[int, int]:
    """Return where the name of a table stands, as the parser tells. Raises Unsupported where the text there is another one."""
    start = plan.origin().startIndex()
    offset = start.get() if start.isDefined() else len(sql)  # the parser counts code points, as Python does
    match = _NAME.match(sql, offset)
    if match is None or identifier_parts(re.sub(r"\s*\.\s*(?=(?:[^`]*`[^`]*`)*[^`]*$)", ".", match[0])) != parts:
        raise Unsupported(f"The name {'.'.join(parts)} cannot be found in the text of the view's query.", hint=f"The query is: {sql}")
    return offset, match.end()


def _shaped(spark: Any, name: str, frame: DataFrame, schema: Schema, query_columns: Sequence[str]) -> DataFrame:
    """Give the columns of a query the names and types of the view's schema. Raises SchemaMismatch where that loses anything."""
    wanted = to_spark(schema)
    positional = len(query_columns) != len(wanted.fields) or not set(query_columns) <= set(frame.columns)
    if positional and len(frame.columns) != len(wanted.fields):
        text = f"The query of view {name} has {len(frame.columns)} columns ({', '.join(frame.columns)}), its schema {len(wanted.fields)}."
        raise SchemaMismatch(text, hint="A table under it has other columns than when the view was made: replace the view.", view=name)
    order = list(range(len(wanted.fields))) if positional else [frame.columns.index(c) for c in query_columns]
    numbered = frame.toDF(*(f"c{n}" for n in range(len(frame.columns))))
    columns = []
    for field, place in zip(wanted.fields, order, strict=True):
        found = frame.schema.fields[place].dataType
        column = f.col(f"c{place}")
        if found.simpleString() != field.dataType.simpleString():
            if not can_up_cast(spark, found.json(), field.dataType.json()):
                text = f"Column {field.name} of view {name} is {field.dataType.simpleString()}, but its query gives {found.simpleString()}."
                hint = "Replace the view, with a cast in its query or another schema."
                raise SchemaMismatch(text, hint=hint, view=name, column=field.name)
            column = column.cast(field.dataType)
        columns.append(column.alias(field.name))
    return numbered.select(*columns)
