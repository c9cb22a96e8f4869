"""Write a DataFrame by Arrow in Spark tasks, for the types, file formats and stores that Spark's
Parquet writer does not serve. Each task reports its files to the driver.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as s

from frazil.arrow.values.arrow_schema import to_arrow_schema
from frazil.arrow.write.write_context import WriteContext
from frazil.arrow.write.write_rows import write
from frazil.errors import Unsupported
from frazil.ops.session import Session
from frazil.spark.host.interruptible import interruptible
from frazil.spark.host.settings import temporarily
from frazil.spark.host.workers import guarded
from frazil.spark.tasks.spark_runner import attempts_on
from frazil.spark.tasks.this_task import input_errors, this_task
from frazil.spark.types.arrow_types import fitted
from frazil.spark.types.spark_types import contains
from frazil.spark.write.layout import spread
from frazil.spec import types as i
from frazil.spec.manifest import DataFile
from frazil.storage.locations import scheme_of

REPORT = s.StructType(
    [s.StructField("files", s.BinaryType()), s.StructField("retried", s.BooleanType())]
)


def write_by_arrow(spark: Session, frame: DataFrame, context: WriteContext) -> list[DataFile]:
    """Write the rows of a conformed frame in tasks and return the data files, which lie in their
    final places.

    Files of attempts that failed or were repeated are removed; after an error every file is. Raises
    Unsupported for a table whose location is in memory, and for a variant inside a struct, list or
    map.
    """
    if scheme_of(context.location) == "memory":
        raise Unsupported(
            "A table at a memory: location lives in this process; Spark's workers cannot write to it.",
            hint="Append Arrow frames instead.",
        )
    rows = spread(spark, frame, context, context.properties, folders=False)
    # names may contain dots or differ only in case
    by_place = rows.frame.toDF(*(f"c{n}" for n in range(len(rows.frame.columns))))
    columns = by_place.select(
        *(
            _to_arrow(F.col(f"c{n}"), f.field_type).alias(f"c{n}")
            for n, f in enumerate(context.schema.fields)
        )
    )
    attempts = attempts_on(spark, context)
    with attempts.removing_files_on_error(), temporarily(spark, rows.settings):
        job = columns.mapInArrow(guarded(__name__, "write_part", context), REPORT)
        reports = interruptible(spark, job.collect)
    files = [f for r in reports for f in cloudpickle.loads(bytes(r["files"]))]
    attempts.retried = any(r["retried"] for r in reports)
    attempts.remove_unreported(f.file_path for f in files)
    return files


def shown_to_arrow(frame: DataFrame) -> DataFrame:
    """Convert the variants of a frame to JSON text, as Arrow tasks take them."""
    variants = {
        f.name: F.to_json(F.col(f.name))
        for f in frame.schema.fields
        if isinstance(f.dataType, s.VariantType)
    }
    return frame.withColumns(variants) if variants else frame


def _to_arrow(column: Column, type_: i.IcebergType) -> Any:
    """Return a column as the Arrow writer takes it: a variant as JSON text, as everywhere outside
    Spark (docs/adr/0018).
    """
    if not contains(type_, i.VariantType):
        return column
    if isinstance(type_, i.VariantType):
        return F.to_json(column)
    raise Unsupported(
        "A variant inside a struct, list or map cannot be written together with types that need the Arrow writer.",
        hint="Make the variant a column of its own.",
    )


def write_part(
    context: WriteContext, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Write in a worker the rows of one task to data files and yield one report."""
    task, schema = this_task(), to_arrow_schema(context.schema)
    context = replace(context, partition_id=task.partition, task_id=task.attempt, workers=1)
    with input_errors():
        files = write((fitted(b, schema) for b in batches), context)
    yield pa.record_batch(
        {
            "files": pa.array([cloudpickle.dumps(files)], pa.binary()),
            "retried": pa.array([task.retried]),
        }
    )
