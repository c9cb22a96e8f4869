"""Files that Spark's own scan cannot read (with deletes, ORC, Avro, odd names and schemes): read by Arrow in tasks of Spark."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as s

from frazil.arrow.read.read_context import ReadContext
from frazil.arrow.read.read_tasks import read_task
from frazil.errors import Unsupported
from frazil.scan.combine import combine_for
from frazil.scan.plan import Plan
from frazil.scan.tasks import FileScanTask, PlannedFiles, TaskSequence
from frazil.spark.host.workers import check_workers, parallelism
from frazil.spark.tasks.numbered_groups import over_groups
from frazil.spark.types.arrow_types import arrow_schema
from frazil.spark.types.fitted import fitted
from frazil.spark.types.logical import from_arrow, transfer_type
from frazil.spark.types.spark_types import spark_type
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
    groups = (c.tasks for c in combine_for(tasks, plan.options.split, parallelism(spark)))
    # Spark finds columns by name, and trips over dots and names that differ in case only: until they are named they are numbered
    schema = s.StructType(
        [s.StructField(f"c{at}", spark_type(transfer_type(f.field_type), f.name, time=time), True) for at, f in enumerate(wanted.fields)]
    )
    frame = over_groups(spark, groups, schema, __name__, "read_group", context, arrow_schema(schema))
    columns = []
    for at, f in enumerate(wanted.fields):
        column = from_arrow(F.col(f"c{at}"), f.field_type)
        columns.append(column.alias(f.name, metadata={"comment": f.doc} if f.doc else {}))
    return frame.select(*columns)


def read_group(_: int, tasks: Sequence[FileScanTask], context: ReadContext, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The worker's side: the rows of one group of tasks."""
    for task in tasks:
        for batch in read_task(task, context):
            yield fitted(batch, schema)
