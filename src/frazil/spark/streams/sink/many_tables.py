"""Start streaming writes into many tables, which the rows name in a column. The commits are those
of `stream.sink.many_tables`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark.sql import DataFrame

from frazil.catalog import LoadedTable
from frazil.errors import InvalidInput
from frazil.ops.engine import Engine
from frazil.ops.operation import writable
from frazil.spark.host.settings import is_case_sensitive
from frazil.spark.streams.checkpoints import digest_of_batch
from frazil.spark.streams.sink.split_frame import split_frame
from frazil.spark.streams.sink.writer import (
    adaptive,
    check_frame,
    modes,
    query_id_of,
    require_checkpoint,
    without_sparks,
)
from frazil.spark.types.spark_types import from_spark
from frazil.spec.types import StringType
from frazil.stream.sink.arguments import ManyTables, SinkArguments
from frazil.stream.sink.many_options import many_options
from frazil.stream.sink.many_tables import ManyTablesSink, position_of, with_query


def start_many(
    writer: Any,
    frame: DataFrame,
    tables: ManyTables,
    given: SinkArguments,
    engine_of: Callable[[Any], Engine],
    shown: Callable[[LoadedTable], object],
) -> Any:
    """Start the query. `writer`: Spark's DataStreamWriter, with its trigger, name and checkpoint.
    `engine_of`: returns the engine of a session. `shown`: called with each new state of a table.
    Everything that can be checked is checked first."""
    check_frame(frame, f"named by column {tables.table_column}")
    writable(tables.places.backend, tables.table_column)
    options = without_sparks(given.options)
    output, mode = modes(given.output_mode, given.mode, options, lambda: "append")
    named = (
        mode
        if given.mode is not None or given.output_mode is not None and mode != "append"
        else None
    )
    checked = many_options(
        tables.table_column,
        named,
        options,
        create=tables.create,
        evolve=tables.evolve,
        on_bad_table=tables.on_bad_table,
        set_aside_table=tables.set_aside_table,
    )
    if tables.on_tables is not None and not callable(tables.on_tables):
        raise InvalidInput(
            f"on_commit is a function that takes the batch's number and its TablesResult, not {tables.on_tables!r}."
        )
    if tables.set_aside_table is not None:
        tables.places.parts(tables.set_aside_table)
    position = _table_column(frame, tables.table_column, given.case_sensitive)
    sink = ManyTablesSink(
        tables.places,
        checked,
        "",
        dict(given.snapshot_properties),
        tables.on_tables,
        shown,
        given.case_sensitive,
    )
    require_checkpoint(frame.sparkSession, given.options, "A stream into many tables")
    return (
        writer.outputMode(output)
        .foreachBatch(_RoutedBatches(sink, position, engine_of, frame.sparkSession))
        .start()
    )


def _table_column(frame: DataFrame, name: str, case_sensitive: bool | None) -> int:
    """Find the position of the column that names the tables. Raises InvalidInput if there is no
    such column, or if it is not of text.
    """
    schema = from_spark(frame.schema)
    position = position_of(name, schema, is_case_sensitive(frame.sparkSession, case_sensitive))
    if position is None:
        raise InvalidInput(
            f"table_column names {name}, which is no column.",
            hint=f"Columns: {', '.join(frame.columns)}.",
        )
    if not isinstance(type_ := schema.fields[position].field_type, StringType):
        raise InvalidInput(
            f"table_column: {name} is of type {type_}, and names of tables are text.",
            hint="Cast the column to string.",
        )
    return position


class _RoutedBatches:
    """Write the micro-batches of a query, each row to the table that it names, as the function for
    foreachBatch. `position`: that of the column with the names; `owner`: the session in which the
    query was defined."""

    def __init__(
        self, sink: ManyTablesSink, position: int, engine_of: Callable[[Any], Engine], owner: Any
    ):
        self._sink, self._position, self._engine_of, self._owner = sink, position, engine_of, owner

    def __call__(self, frame: DataFrame, batch_id: int) -> None:
        session: Any = frame.sparkSession
        self._sink = with_query(self._sink, query_id_of(session))
        digest = digest_of_batch(self._owner, self._sink.query_id, batch_id)
        with (
            adaptive(session, self._owner),
            split_frame(frame, self._position, self._engine_of(session)) as split,
        ):
            result = self._sink.commit(batch_id, split, digest)
            # no row was evaluated, but Spark advances watermark and state only over rows that it
            # has read
            if result.skipped:
                frame.write.format("noop").mode("append").save()
