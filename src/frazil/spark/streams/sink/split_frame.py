"""Split the DataFrame of a micro-batch by the table that each row names. Spark's cache holds the
rows, so that the batch is evaluated once and not once per table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from frazil.ops.engine import Engine
from frazil.spark.host.interruptible import interruptible
from frazil.spark.host.settings import is_case_sensitive
from frazil.spark.streams.sink.batch_rows import FrameRows
from frazil.spark.types.spark_types import from_spark
from frazil.spec.metadata import TableMetadata
from frazil.spec.schema import Schema
from frazil.stream.sink.rows import BatchRows
from frazil.stream.sink.split import NamedRows, Rejected


class SplitFrame:
    """Implement `stream.sink.split.SplitRows` on a DataFrame. `cached`: the DataFrame in Spark's
    cache, whose columns have the names of `_name`, since its own may hold dots or differ in case
    only. `name_column`: the position of the column with the table names."""

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
        """Return the rows that no table takes, with the columns of `stream.sink.split.SET_ASIDE`,
        among them the reason.
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
