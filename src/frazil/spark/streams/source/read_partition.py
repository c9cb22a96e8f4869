"""Read one partition of a streaming batch in a worker. The partition carries its files and
settings: a worker sees no catalog.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql import types as s
from pyspark.sql.datasource import InputPartition

from frazil.arrow.changelog.changelog_groups import partition_rows
from frazil.arrow.read.read_tasks import read_task
from frazil.spark.host.workers import prepare
from frazil.spark.types.arrow_types import arrow_schema, fitted


@dataclass
class StreamPartition(InputPartition):  # type: ignore[misc]
    """Hold one partition of a batch: its pickled scan tasks, and the pickled read context that all
    partitions share. `changes`: the tasks are those of a changelog."""

    context: bytes
    tasks: bytes
    changes: bool

    def __init__(self, context: bytes, tasks: bytes, changes: bool = False):
        self.context, self.tasks, self.changes = context, tasks, changes


def batches_of(partition: StreamPartition, schema: s.StructType) -> Iterator[pa.RecordBatch]:
    """Read the rows as Arrow batches of exactly this schema."""
    prepare()
    context, tasks = cloudpickle.loads(partition.context), cloudpickle.loads(partition.tasks)
    wanted = arrow_schema(schema)
    if partition.changes:
        for batch in partition_rows(tasks, context):
            yield fitted(batch, wanted)
        return
    for task in tasks:
        for batch in read_task(task, context):
            yield fitted(batch, wanted)
