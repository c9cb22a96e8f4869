"""Collect a small DataFrame as Arrow rows in the driver's memory: the source of a MERGE whose tasks
run in the driver.

No Python worker is started for it and nothing is written, while `staging` needs workers to write
files that other processes can read. Only a frame that Spark itself would collect, to broadcast it
in a join, is collected here. A larger one is staged.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from functools import cached_property, partial

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import types as s

from frazil.arrow.values.arrow_schema import from_arrow_schema
from frazil.arrow.write.conform import conform
from frazil.rows.source import MergeSource
from frazil.spark.dml.staging import StagedFrame, plain, stage_table
from frazil.spark.host.failures import failure
from frazil.spark.host.interruptible import interruptible
from frazil.spark.host.jvm import setting
from frazil.spark.host.jvm_plans import arrow_batches, taking_nulls
from frazil.spark.host.session import is_small
from frazil.spark.tasks.spark_runner import settle
from frazil.spark.types.arrow_types import arrow_schema, fitted
from frazil.spec.options import size_in_bytes
from frazil.storage import Storage

_BROADCAST = "spark.sql.autoBroadcastJoinThreshold"
# names the setting in the error of a job whose results Spark does not take
_TOO_LARGE = "spark.driver.maxResultSize"


@dataclass(frozen=True, eq=False)
class CollectedFrame:
    """Hold the rows of a DataFrame. `spark_schema`: as `staging.plain` returns it; the table's
    columns have its names.
    """

    table: pa.Table = field(repr=False)
    spark_schema: s.StructType = field(repr=False)

    @cached_property
    def source(self) -> MergeSource:
        """Return the rows as the source of a MERGE, with the types that staged rows have."""
        rows = conform(self.table, from_arrow_schema(self.table.schema))
        return MergeSource(pa.Table.from_batches(list(rows), schema=rows.schema))

    def staged(self, folder: str, storage: Storage) -> StagedFrame:
        """Write the rows to a file in a new folder under `folder`, from where Spark can read them."""
        return stage_table(
            self.table, self.spark_schema, f"{folder}/source-{uuid.uuid4()}", storage
        )


def collect(frame: DataFrame, folder: str) -> CollectedFrame | None:
    """Evaluate a frame that Spark expects to be as small as what it broadcasts, and return its
    rows; None for other frames, and for variants, of which PySpark hands no nulls to Arrow.

    `folder`: named in errors of disks and stores. Raises the error of the evaluation, Unsupported
    for a type that cannot be staged.
    """
    spark = frame.sparkSession
    by_place = taking_nulls(frame)
    types = zip(frame.columns, by_place.schema, strict=True)
    schema = plain(s.StructType([s.StructField(name, f.dataType) for name, f in types]))
    if _has_variants(schema) or not is_small(
        by_place, _limit(str(setting(spark, _BROADCAST, "10MB")))
    ):
        return None
    try:
        collected = interruptible(spark, partial(arrow_batches, by_place))
    except BaseException as e:
        settle(spark)
        if isinstance(e, Exception) and _TOO_LARGE in str(e):
            return None
        raise failure(e, folder) or e from e
    wanted = arrow_schema(schema)
    batches = [fitted(b, wanted) for b in collected]
    return CollectedFrame(pa.Table.from_batches(batches, schema=wanted), schema)


def _has_variants(type_: s.DataType) -> bool:
    match type_:
        case s.StructType():
            return any(_has_variants(f.dataType) for f in type_.fields)
        case s.ArrayType():
            return _has_variants(type_.elementType)
        case s.MapType():
            return _has_variants(type_.keyType) or _has_variants(type_.valueType)
    return isinstance(type_, s.VariantType)


def _limit(broadcast: str) -> int:
    """Return the bytes that Spark broadcasts at most, by its setting; -1: nothing."""
    return -1 if broadcast.startswith("-") else size_in_bytes(broadcast)
