"""Distribute rows over Spark tasks and sort them within each before they are written, for both
writers.

Honours write.distribution-mode, the table's sort order and the advisory partition size. Without a
shuffle every task would write a file into each partition that it has rows of.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from frazil.arrow.write.write_context import WriteContext
from frazil.errors import InvalidInput, ValidationError
from frazil.expr.sql_text import back_quoted
from frazil.ops.session import Session
from frazil.spark.host.jvm import setting
from frazil.spark.host.settings import FEWEST_PARTITIONS
from frazil.spark.host.workers import parallelism
from frazil.spark.write.catalyst_transforms import as_directory, transformed
from frazil.spec import types as i
from frazil.spec.options import size_in_bytes
from frazil.spec.properties import DISTRIBUTION, DISTRIBUTIONS, SPARK_ADVISORY_PARTITION_SIZE
from frazil.spec.sorting import NullOrder, SortDirection, SortField
from frazil.spec.transforms import VoidTransform

_CONF = "spark.sql.iceberg."
ADVISORY = "spark.sql.adaptive.advisoryPartitionSizeInBytes"
_WHOLE = 128 << 20  # bytes of a file that a task should fill
# tasks that Spark does not coalesce, so that each writes few partitions, with few open writers or
# little to sort
_FEW = 64
_RATIO = 3  # about so many bytes of a shuffle become one byte of a Parquet file
KEY = "__frazil_p"  # how the names of helper columns begin


@dataclass(frozen=True)
class PartitionColumn:
    """Hold the helper column of a partition field: its name in the frame (None for a void field,
    which has no column) and its type.
    """

    name: str | None
    type: i.IcebergType


@dataclass(frozen=True)
class Spread:
    """Hold a distributed frame with its helper columns, and the session settings that its job
    needs. `is_sorted`: the rows of each file are in the table's sort order."""

    frame: DataFrame
    keys: tuple[PartitionColumn, ...]
    settings: Mapping[str, str]
    is_sorted: bool

    @property
    def key_names(self) -> list[str]:
        """Return the names of the helper columns."""
        return [k.name for k in self.keys if k.name is not None]


def path_column(context: WriteContext, field_id: int) -> Column:
    """Return the column of a field, at any depth of structs."""
    schema = context.schema
    top, *members = [schema.by_id[p].name for p in (*schema.parents[field_id], field_id)]
    column = F.col(back_quoted([top]))
    for name in members:
        column = column.getField(name)
    return column


def spread(
    spark: Session,
    frame: DataFrame,
    context: WriteContext,
    metadata_properties: Mapping[str, str],
    *,
    folders: bool,
) -> Spread:
    """Shuffle and sort a frame as distribution mode and sort order ask. `folders`: Spark's writer
    will put partition values into names of folders, so the helper columns are added even without a
    shuffle, and rows are sorted here."""
    mode = distribution_mode(spark, context, metadata_properties)
    keys, columns = _keys(context)
    needs_keys = bool(columns) and (folders or mode != "none")
    if needs_keys:
        frame = frame.withColumns(columns)
    names = list(columns) if needs_keys else []
    order = [_order(context, f) for f in context.sort_order.fields]
    settings: dict[str, str] = {}
    if (mode == "hash" and names) or (mode == "range" and (names or order)):
        by_hash = mode == "hash"
        frame = (
            rebalanced(spark, frame, names)
            if by_hash
            else frame.repartitionByRange(*(F.col(n) for n in names), *order)
        )
        settings[ADVISORY] = str(advisory_size(spark, context, metadata_properties))
        if folders and names and spark.conf.get(FEWEST_PARTITIONS, None) is None:
            # the Arrow writer keeps no row groups in the JVM
            # A range ends within a partition, as a rule, which then has a file of either task: no
            # more ranges than the size asks for.
            settings[FEWEST_PARTITIONS] = str(max(_FEW, parallelism(spark))) if by_hash else "1"
    if order and folders:  # the Arrow writer sorts by itself
        frame = frame.sortWithinPartitions(*(F.col(n) for n in names), *order)
    return Spread(frame, keys, settings, bool(order))


def rebalanced(spark: Session, frame: DataFrame, names: Sequence[str]) -> DataFrame:
    """Shuffle rows with the same values of the named columns to as few tasks as the advisory size
    allows; without columns, to few tasks.

    Without adaptive execution, on which Spark's REBALANCE hint relies, rows with the same values go
    to one task.
    """
    if str(spark.conf.get("spark.sql.adaptive.enabled", "true")).lower() == "true":
        return frame.hint("rebalance", *names)
    return frame.repartition(*map(F.col, names)) if names else frame


def distribution_mode(spark: Session, context: WriteContext, properties: Mapping[str, str]) -> str:
    """Return the distribution mode: none, hash or range.

    Taken from the write option, the session, the table property, in this order; by default range
    for sorted tables, hash for partitioned ones, else none. Raises ValidationError for another
    mode.
    """
    partitioned, is_sorted = not context.spec.unpartitioned, not context.sort_order.is_unsorted
    if not context.options.use_table_distribution_and_ordering:
        return "none"
    chosen = (
        context.options.distribution_mode
        or setting(spark, _CONF + "distribution-mode")
        or DISTRIBUTION.of(properties)
    )
    if chosen is None:
        return "range" if is_sorted else "hash" if partitioned else "none"
    mode = str(chosen).lower()
    if mode not in DISTRIBUTIONS:
        raise ValidationError(f"{DISTRIBUTION.name} is none, hash or range, not {chosen!r}.")
    if mode == "hash" and not partitioned:
        return "none"
    return "none" if mode == "range" and not (partitioned or is_sorted) else mode


def advisory_size(spark: Session, context: WriteContext, properties: Mapping[str, str]) -> int:
    """Return how many bytes of a shuffle make one task: the size that an option, a setting or a
    property gives, else enough bytes to fill a file of the target size.

    The default is 384 MB (the session's advisory size, where that is larger), less where the target
    file size is below 128 MB. Raises InvalidInput for a text that is no size.
    """
    named = (
        ("Write option advisory-partition-size", context.options.advisory_partition_size),
        (
            f"The setting {_CONF}advisory-partition-size",
            setting(spark, _CONF + "advisory-partition-size"),
        ),
        ("Table property", SPARK_ADVISORY_PARTITION_SIZE.of(properties)),
    )
    for name, size in named:
        if size is not None:
            return parse_size(str(size), name)
    advisory = parse_size(str(spark.conf.get(ADVISORY, "64MB")))
    return max(1 << 10, min(max(advisory, _WHOLE * _RATIO), context.target_size * _RATIO))


def parse_size(text: str, name: str = "The size") -> int:
    """Parse a size in bytes, as in 64MB. Raises InvalidInput that calls the size by `name`."""
    try:
        return size_in_bytes(text)
    except ValueError:
        raise InvalidInput(
            f"{name} is a size in bytes, not {text!r}.",
            hint="Write it as 134217728, or with a unit, as 128MB.",
        ) from None


def _keys(context: WriteContext) -> tuple[tuple[PartitionColumn, ...], dict[str, Column]]:
    """Return the helper columns of the partition fields, and their expressions by name."""
    keys, columns = [], {}
    taken = {f.name.lower() for f in context.schema.fields}
    for field in context.spec.fields:
        source = context.schema.by_id.get(field.source_id)
        if isinstance(field.transform, VoidTransform) or source is None:
            keys.append(PartitionColumn(None, i.StringType()))
            continue
        name = f"{KEY}{field.field_id}"
        while name.lower() in taken:
            name += "_"
        kind = field.transform.result_type(source.field_type)
        value = transformed(
            field.transform, source.field_type, path_column(context, field.source_id)
        )
        as_number = isinstance(kind, i.DateType) and not isinstance(source.field_type, i.DateType)
        is_day = isinstance(kind, i.DateType) and str(field.transform) == "day"
        columns[name] = value if as_number or is_day else as_directory(kind, value)
        keys.append(PartitionColumn(name, kind))
    return tuple(keys), columns


def _order(context: WriteContext, field: SortField) -> Column:
    """Return a field of the sort order as an ordering of Spark."""
    value = path_column(context, field.source_id)
    value = transformed(field.transform, context.schema.by_id[field.source_id].field_type, value)
    first = field.null_order is NullOrder.NULLS_FIRST
    if field.direction is SortDirection.ASC:
        return value.asc_nulls_first() if first else value.asc_nulls_last()
    return value.desc_nulls_first() if first else value.desc_nulls_last()
