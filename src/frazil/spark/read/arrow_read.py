"""Read data files as a DataFrame by Arrow, in Python tasks of Spark: those that Spark's own Parquet
scan cannot read (ORC, Avro, schemes that the JVM cannot open, deletes and names that the scan
cannot handle; `groups` decides)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import types as s

from frazil.arrow.read.read_context import ReadContext
from frazil.arrow.read.read_tasks import read_task
from frazil.errors import Unsupported
from frazil.ops.session import Session
from frazil.scan.combine import combine_for
from frazil.scan.plan import Plan
from frazil.scan.tasks import FileScanTask, PlannedFiles, TaskSequence
from frazil.spark.host.workers import check_workers, parallelism
from frazil.spark.scan.read_schema import column_of, renamed
from frazil.spark.tasks.numbered_groups import over_groups
from frazil.spark.types.arrow_types import arrow_schema, fitted
from frazil.spark.types.logical import from_arrow, transfer_type
from frazil.spark.types.spark_types import spark_type
from frazil.spec.schema import Schema
from frazil.storage import Storage
from frazil.storage.locations import scheme_of


def arrow_frame(
    spark: Session,
    plan: Plan,
    files: Sequence[PlannedFiles],
    projection: Schema,
    storage: Storage,
    time: bool,
) -> DataFrame:
    """Return a DataFrame over these files of a plan, in tasks of about one split size each.
    `projection`: the columns to read.

    Raises Unsupported for tables in this process's memory, and NotInstalledError for workers that
    cannot run Frazil.
    """
    tasks = TaskSequence(tuple(files), plan.row_filter)
    for task in tasks[:1]:
        refuse_memory(task.file.file_path, plan.metadata.location)
    check_workers(spark)
    context = ReadContext.of(plan, projection, storage)
    groups = (c.tasks for c in combine_for(tasks, plan.options.split, parallelism(spark)))
    schema = s.StructType(transfer_fields(projection, time))
    frame = over_groups(
        spark, groups, schema, __name__, "read_group", context, arrow_schema(schema)
    )
    return frame.select(*table_columns(spark, projection))


def read_group(
    _: int, tasks: Sequence[FileScanTask], context: ReadContext, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    """Yield, in a worker, the rows of one group of file scan tasks."""
    for task in tasks:
        for batch in read_task(task, context):
            yield fitted(batch, schema)


def refuse_memory(file_path: str, table: str) -> None:
    """Raise Unsupported if a file of a table has a `memory:` location, which exists in this process
    only.
    """
    if scheme_of(file_path) == "memory":
        text = "Spark's workers cannot read a table with a memory: location, which exists in this process only."
        raise Unsupported(text, hint="Use to_arrow().", table=table)


def transfer_fields(columns: Schema, time: bool) -> list[s.StructField]:
    """Return the fields in which Python tasks hand columns to Spark: c0, c1, … They get the
    columns' names last (`table_columns`), since Spark looks up columns by name and would fail for
    names with dots or that differ only in case."""
    return [
        s.StructField(f"c{n}", spark_type(transfer_type(f.field_type), f.name, time=time), True)
        for n, f in enumerate(columns.fields)
    ]


def table_columns(spark: Session, columns: Schema) -> list[Column]:
    """Return the columns that Python tasks handed over as `transfer_fields`, with the table's
    names, types and comments.
    """
    return [
        renamed(spark, from_arrow(column_of(spark, f"c{n}"), f.field_type), f.name, f.doc)
        for n, f in enumerate(columns.fields)
    ]
