"""Start streaming writes into many tables, which the rows name in a column. The commits are those
of `stream.sink.many_tables`.

The DataFrame of a micro-batch is split by the table that each row names. Spark's cache holds the
rows, so that the batch is evaluated once and not once per table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from frazil.catalog import LoadedTable
from frazil.errors import InvalidInput
from frazil.ops.engine import Engine
from frazil.ops.operation import writable
from frazil.ops.session import Session
from frazil.spark.host.interruptible import interruptible
from frazil.spark.host.settings import is_case_sensitive
from frazil.spark.streams.checkpoints import digest_of_batch
from frazil.spark.streams.sink.batch_rows import FrameRows
from frazil.spark.streams.sink.writer import (
    adaptive,
    check_frame,
    modes,
    query_id_of,
    require_checkpoint,
    without_sparks,
)
from frazil.spark.types.spark_types import from_spark
from frazil.spec.metadata import TableMetadata
from frazil.spec.schema import Schema
from frazil.spec.types import StringType
from frazil.stream.sink.arguments import ManyTables, SinkArguments
from frazil.stream.sink.many_tables import (
    ManyTablesSink,
    NamedRows,
    Rejected,
    many_options,
    position_of,
    with_query,
)
from frazil.stream.sink.options import sink_options
from frazil.stream.sink.reduce import check_named
from frazil.stream.sink.rows import BatchRows

if TYPE_CHECKING:
    from pyspark.sql.streaming import DataStreamWriter


def start_many(
    writer: DataStreamWriter,
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
    sensitive = is_case_sensitive(frame.sparkSession, given.case_sensitive)
    position = _table_column(frame, tables.table_column, sensitive)
    # else each table would refuse all of its rows, which on_bad_table may set aside
    check_named(sink_options(checked.of_table, mode=named), frame.columns, sensitive)
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


def _table_column(frame: DataFrame, name: str, case_sensitive: bool) -> int:
    """Find the position of the column that names the tables. Raises InvalidInput if there is no
    such column, or if it is not of text.
    """
    schema = from_spark(frame.schema)
    position = position_of(name, schema, case_sensitive)
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
        self,
        sink: ManyTablesSink,
        position: int,
        engine_of: Callable[[Any], Engine],
        owner: Session,
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


class SplitFrame:
    """Implement `stream.sink.many_tables.SplitRows` on a DataFrame. `cached`: the DataFrame in
    Spark's cache, whose columns have the names of `_name`, since its own may hold dots or differ in
    case only. `name_column`: the position of the column with the table names."""

    def __init__(self, frame: DataFrame, cached: DataFrame, name_column: int, engine: Engine):
        self._frame, self._cached, self._name_column, self._engine = (
            frame,
            cached,
            name_column,
            engine,
        )

    @property
    def engine(self) -> Engine:
        """Return the engine that writes the rows."""
        return self._engine

    @cached_property
    def schema(self) -> Schema:
        """Return the columns of the frame."""
        return from_spark(self._frame.schema)

    @property
    def case_sensitive(self) -> bool:
        """Tell whether names of columns that differ in case only are different columns."""
        return is_case_sensitive(self._frame.sparkSession)

    @cached_property
    def groups(self) -> Sequence[NamedRows]:
        """Return the table names in the batch, each with its number of rows and the columns that
        hold a value in at least one of them. One Spark job finds them, which also fills the cache.
        """
        width = len(self._frame.columns)
        filled = [F.max(F.col(_name(i)).isNotNull()).alias(f"filled{i}") for i in range(width)]
        counted = self._cached.groupBy(F.col(_name(self._name_column)).alias("name")).agg(
            F.count(F.lit(1)).alias("n"), *filled
        )
        rows_by_name = interruptible(self._frame.sparkSession, counted.collect)
        return [
            NamedRows(r["name"], r["n"], frozenset(i for i in range(width) if r[f"filled{i}"]))
            for r in rows_by_name
        ]

    def rows(
        self, names: Sequence[str], columns: Sequence[int], metadata: TableMetadata | None = None
    ) -> BatchRows:
        """Return the rows that name one of these tables. `columns`: the positions of the columns to
        return.
        """
        column_names = self._frame.columns
        named = self._cached.where(F.col(_name(self._name_column)).isin(*names))
        return FrameRows(
            named.select(*(F.col(_name(i)).alias(column_names[i]) for i in columns)),
            self._engine,
            metadata,
        )

    def rejected(self, rejected: Rejected) -> BatchRows:
        """Return the rows that no table takes, with the columns of
        `stream.sink.many_tables.SET_ASIDE`, among them the reason.
        """
        table = F.col(_name(self._name_column))
        reasons = {name: why for name, why in rejected.reasons.items() if name is not None}
        chosen, reason = F.lit(False), F.lit(None).cast("string")
        if reasons:
            chosen = F.coalesce(table.isin(*reasons), F.lit(False))
            reason = F.element_at(
                F.create_map(*(F.lit(text) for pair in reasons.items() for text in pair)), table
            )
        if None in rejected.reasons:
            chosen, reason = (
                chosen | table.isNull(),
                F.coalesce(reason, F.lit(rejected.reasons[None])),
            )
        row = F.to_json(
            F.struct(*(F.col(_name(i)).alias(n) for i, n in enumerate(self._frame.columns)))
        )
        frame = self._cached.where(chosen).select(
            table.alias("table_name"),
            reason.alias("reason"),
            F.lit(rejected.query_id).alias("query_id"),
            F.lit(rejected.batch_id).cast("long").alias("batch_id"),
            F.current_timestamp().alias("set_aside_at"),
            row.alias("row"),
        )
        return FrameRows(frame, self._engine, None)


@contextmanager
def split_frame(frame: DataFrame, name_column: int, engine: Engine) -> Iterator[SplitFrame]:
    """Keep a DataFrame in Spark's cache inside the block, and split it. `name_column`: the position
    of the column with the table names.
    """
    cached: Any = frame.toDF(*(_name(i) for i in range(len(frame.columns)))).persist()
    try:
        yield SplitFrame(frame, cached, name_column, engine)
    finally:
        cached.unpersist()


def _name(position: int) -> str:
    return f"c{position}"
