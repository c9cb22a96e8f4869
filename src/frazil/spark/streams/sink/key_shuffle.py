"""Bring the rows of a micro-batch to the Spark tasks that reduce and write them: all rows of a key
to one task, and those of a partition of the table to as few as their number allows.

A task holds its rows in memory and writes a file for each partition that it has rows of. Shuffled
by key alone, every task has rows of every partition. So where the keys determine the partition,
rows are shuffled by partition, and those of one partition are split by key into parts that follow
one another: adaptive execution joins neighbouring parts as long as their rows are few, and cannot
join others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from math import isqrt

import numpy as np
import numpy.typing as npt
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as s

from frazil.arrow.write.write_context import WriteContext
from frazil.ops.session import Session
from frazil.spark.host.session import is_small
from frazil.spark.host.settings import temporarily
from frazil.spark.host.workers import parallelism
from frazil.spark.types.spark_types import spark_type
from frazil.spark.write.catalyst_transforms import transformed
from frazil.spark.write.layout import distribution_mode
from frazil.spec import types as i
from frazil.spec.partitioning import field_of_other_column
from frazil.spec.transforms import Transform, VoidTransform

_SMALL = 16 << 20  # bytes for each task, mostly of compressed files
_MANY = 200  # Spark's default of spark.sql.shuffle.partitions
_SPLITS = 32  # of the rows of one partition: so many tasks can share them
# below 2000, where Spark still knows the size of each part of a shuffle
# (minNumPartitionsToHighlyCompress)
_PLACES = 60 * _SPLITS
_FEW_SPLITS = 4  # where no adaptive execution joins them, so that each is a task
_INITIAL, _SHUFFLE = (
    "spark.sql.adaptive.coalescePartitions.initialPartitionNum",
    "spark.sql.shuffle.partitions",
)
_JOINS = ("spark.sql.adaptive.enabled", "spark.sql.adaptive.coalescePartitions.enabled")
_PLACE = "__frazil_place"
_AS_MICROS: Mapping[type[i.IcebergType], type[i.IcebergType]] = {
    i.TimestampNanoType: i.TimestampType,
    i.TimestamptzNanoType: i.TimestamptzType,
}


@dataclass(frozen=True)
class BatchKey:
    """Hold a key of a batch: its column in the frame, the type that it has there, and the table's
    column.
    """

    column: Column
    type: s.DataType
    field: i.NestedField

    @property
    def shuffled_by(self) -> Column:
        """Return the column by which rows are shuffled. Keys that are equal in the table are equal
        in it: a uuid may be written with or without hyphens, and in either case."""
        if not isinstance(self.field.field_type, i.UUIDType):
            return self.column
        return F.lower(F.replace(self.column.cast("string"), F.lit("-"), F.lit("")))

    @property
    def as_stored(self) -> Column:
        """Return the column in the type that Spark shows the table's column in, for partition
        transforms.
        """
        if isinstance(self.field.field_type, i.UUIDType):
            return self.shuffled_by
        type_ = self._micros()
        if isinstance(type_, i.TimeType) or self.type == (
            wanted := spark_type(type_, self.field.name)
        ):
            return self.column
        # a value that does not fit is refused by the task that gets the row
        return self.column.try_cast(wanted)

    def partition_value(self, transform: Transform) -> Column:
        """Return the value of a partition field that is made of this key."""
        return transformed(transform, self._micros(), self.as_stored)

    def _micros(self) -> i.IcebergType:
        """Return the type with microseconds for nanoseconds, which Spark lacks: partition
        transforms of both agree.
        """
        micros = _AS_MICROS.get(type(self.field.field_type))
        return self.field.field_type if micros is None else micros()


@contextmanager
def shuffled(
    frame: DataFrame,
    rows: DataFrame,
    keys: Sequence[BatchKey],
    context: WriteContext,
    tasks: int | None,
) -> Iterator[DataFrame]:
    """Shuffle `rows`, those of `frame` with columns added, for a job that runs inside the block.
    `tasks`: how many shall get them, if the caller says so."""
    spark: Session = frame.sparkSession
    values = _partition_values(keys, context) if _by_partition(spark, context, tasks) else []
    by_key = [k.shuffled_by for k in keys]
    if not values:
        few = tasks or _few_tasks(frame)
        with _beginning_with(spark, _MANY):
            yield rows.repartition(*by_key) if few is None else rows.repartition(few, *by_key)
        return
    partition = F.hash(*values)
    if tasks is None and _joins_small_parts(spark):
        with _beginning_with(spark, _PLACES) as places:
            yield _by_place(rows, _place(partition, F.hash(*by_key), places), None)
        return
    few = tasks or _few_tasks(frame)
    # the rows of all partitions are few enough for one task
    whole = tasks is not None or is_small(frame, _SMALL)
    splits = max(_FEW_SPLITS, isqrt(few or int(spark.conf.get(_SHUFFLE))))
    split = F.hash(partition, F.pmod(F.hash(*by_key), F.lit(splits)))
    yield _by_place(rows, partition if whole else split, few)


def _by_partition(spark: Session, context: WriteContext, tasks: int | None) -> bool:
    """Tell whether rows are shuffled by partition: unless the distribution mode is none. Where the
    caller says how many tasks there are, they get equal shares of the rows, as in an append, unless
    the option distribution-mode is given as well. Range, which the table may say for its appends,
    brings the rows of a partition together, too."""
    if tasks is not None and not context.options.asks_for("distribution_mode"):
        return False
    return distribution_mode(spark, context, context.properties) != "none"


def _partition_values(keys: Sequence[BatchKey], context: WriteContext) -> list[Column]:
    """Return the values of the partition fields; none for tables without partitions, and where the
    keys do not determine the partition, since the rows of a key could then come to several tasks.
    """
    by_id = {k.field.field_id: k for k in keys}
    if field_of_other_column(context.spec, by_id) is not None:
        return []
    fields = [f for f in context.spec.fields if not isinstance(f.transform, VoidTransform)]
    return [by_id[f.source_id].partition_value(f.transform) for f in fields]


def _by_place(rows: DataFrame, place: Column, tasks: int | None) -> DataFrame:
    # a column first: Spark evaluates no Python function, as some transforms are, in a shuffle
    placed = rows.withColumn(_PLACE, place)
    return (
        placed.repartition(_PLACE) if tasks is None else placed.repartition(tasks, _PLACE)
    ).drop(_PLACE)


def _place(partition: Column, key: Column, places: int) -> Column:
    """Return a number by which Spark's shuffle puts the splits of a partition next to each other,
    and in the same order for all.
    """
    # more where the session asks for more parts
    splits = min(max(_SPLITS, places * _SPLITS // _PLACES), isqrt(places))
    at = F.pmod(partition, F.lit(places // splits)) * splits + F.pmod(key, F.lit(splits))
    return F.get(F.expr(f"array({', '.join(map(str, numbers_by_place(places)))})"), at)


@cache
def numbers_by_place(places: int) -> tuple[int, ...]:
    """Find, for each part of a shuffle into so many parts, a number that Spark's hash (Murmur3,
    seed 42) puts there.
    """
    numbers = np.full(places, -1, np.int64)
    start, count = 0, 16 * places
    while (numbers < 0).any():
        tried = np.arange(start, start + count)
        at = _hash(tried.astype(np.uint32)).astype(np.int32).astype(np.int64) % places
        numbers[at] = tried
        start += count
    return tuple(numbers.tolist())


def _hash(values: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
    """Hash whole numbers of 32 bits as Spark does."""

    def turned(words: npt.NDArray[np.uint32], bits: int) -> npt.NDArray[np.uint32]:
        return (words << np.uint32(bits)) | (words >> np.uint32(32 - bits))

    words = np.uint32(42) ^ (turned(values * np.uint32(0xCC9E2D51), 15) * np.uint32(0x1B873593))
    words = (turned(words, 13) * np.uint32(5) + np.uint32(0xE6546B64)) ^ np.uint32(4)
    words = (words ^ (words >> np.uint32(16))) * np.uint32(0x85EBCA6B)
    words = (words ^ (words >> np.uint32(13))) * np.uint32(0xC2B2AE35)
    return words ^ (words >> np.uint32(16))


def _joins_small_parts(spark: Session) -> bool:
    return all(str(spark.conf.get(setting, "true")).lower() == "true" for setting in _JOINS)


@contextmanager
def _beginning_with(spark: Session, parts: int) -> Iterator[int]:
    """Let adaptive execution begin with at least so many shuffle partitions inside the block,
    unless the session says with how many; yield their number.

    It joins small partitions, and cannot divide large ones; spark.sql.shuffle.partitions is often
    low in streams, whose state has as many parts.
    """
    if (of_session := spark.conf.get(_INITIAL, None)) is not None:
        yield int(of_session)
        return
    parts = max(parts, int(spark.conf.get(_SHUFFLE)))
    with temporarily(spark, {_INITIAL: str(parts)}, shared=False):
        yield parts


def _few_tasks(frame: DataFrame) -> int | None:
    """Return as many tasks as there are slots for a batch that is known to be small. None for
    others: a task holds its rows in memory, so their number follows from the rows that were
    shuffled (adaptive execution), or from spark.sql.shuffle.partitions."""
    slots = parallelism(frame.sparkSession)
    return slots if is_small(frame, slots * _SMALL) else None
