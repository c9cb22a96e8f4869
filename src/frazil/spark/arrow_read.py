"""Files that Spark's own scan cannot read (with deletes, ORC, Avro, odd names and schemes): read by Arrow in tasks of Spark."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as s

from frazil.arrow.read import read_task
from frazil.arrow.read_context import ReadContext
from frazil.arrow.variant import json_to_variant
from frazil.errors import Unsupported
from frazil.scan.combine import combine_for
from frazil.scan.plan import Plan
from frazil.scan.tasks import PlannedFiles, TaskSequence
from frazil.spark.arrow_types import arrow_schema
from frazil.spark.logical import arrow_type, from_arrow
from frazil.spark.types import spark_type
from frazil.spark.workers import check_workers, guarded
from frazil.spec.schema import Schema
from frazil.storage import Storage
from frazil.storage.locations import scheme_of


def arrow_frame(spark: Any, plan: Plan, files: Sequence[PlannedFiles], wanted: Schema, storage: Storage, time: bool) -> DataFrame:
    """A DataFrame over these files of a plan, a task of Spark for each group of about one split size."""
    tasks = TaskSequence(tuple(files), plan.row_filter)
    for task in tasks[:1]:
        if scheme_of(task.file.file_path) == "memory":
            raise Unsupported(
                "A table in memory: lives in this process; Spark's workers cannot see it.",
                hint="Use to_arrow().",
                table=plan.metadata.location,
            )
    check_workers(spark)
    context = ReadContext.of(plan, wanted, storage)
    packed = [cloudpickle.dumps(c.tasks) for c in combine_for(tasks, plan.options.split, parallelism(spark))]
    # Spark finds columns by name, and trips over dots and names that differ in case only: until they are named they are numbered
    schema = s.StructType(
        [s.StructField(f"c{at}", spark_type(arrow_type(f.field_type), f.name, time=time), True) for at, f in enumerate(wanted.fields)]
    )
    frame = spark.range(0, len(packed), 1, len(packed)).mapInArrow(
        guarded("frazil.spark.arrow_read", "read_groups", context, packed, arrow_schema(schema)), schema
    )
    columns = []
    for at, f in enumerate(wanted.fields):
        column = from_arrow(F.col(f"c{at}"), f.field_type)
        columns.append(column.alias(f.name, metadata={"comment": f.doc} if f.doc else {}))
    return frame.select(*columns)


def parallelism(spark: Any) -> int:
    context = getattr(spark, "sparkContext", None) if hasattr(spark, "_jsc") else None
    return context.defaultParallelism if context is not None else int(spark.conf.get("spark.sql.shuffle.partitions", "200"))


def read_groups(
    context: ReadContext, packed: Sequence[bytes], schema: pa.Schema, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """The worker's side: each number that comes in is a group of tasks to read."""
    for numbers in batches:
        for number in numbers.column(0).to_pylist():
            for task in cloudpickle.loads(packed[number]):
                for batch in read_task(task, context):
                    yield fitted(batch, schema)


def fitted(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The same rows in exactly these types."""
    if batch.schema.equals(schema):
        return batch
    columns = [_cast(c, f.type) for c, f in zip(batch.columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _cast(column: pa.Array, type_: pa.DataType) -> pa.Array:
    if column.type.equals(type_):
        return column
    if pa.types.is_null(column.type):
        return pa.nulls(len(column), type_)
    if pa.types.is_struct(type_) and pa.types.is_string(column.type):
        return _as_variant(column, type_)
    return column.cast(type_)


def _as_variant(texts: pa.Array, type_: pa.DataType) -> pa.Array:
    """JSON texts as Spark hands variants over: a struct of value and metadata."""
    pairs = [p or (b"", b"") for p in json_to_variant(texts.to_pylist())]
    parts = {"metadata": pa.array([p[0] for p in pairs], pa.binary()), "value": pa.array([p[1] for p in pairs], pa.binary())}
    return pa.StructArray.from_arrays([parts[f.name] for f in type_], fields=list(type_), mask=texts.is_null())
