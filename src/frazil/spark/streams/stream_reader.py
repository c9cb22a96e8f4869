"""Read a table as a stream through PySpark's Python data source: offsets and partitions on the driver's side, Arrow batches in tasks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql import types as s
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from frazil.arrow.read.read_tasks import read_task
from frazil.spark.host.workers import prepare
from frazil.spark.read.changelog_frame import partition_rows, partitions_of
from frazil.spark.streams.read_limits import AvailableNow, default_limit, limits_of
from frazil.spark.streams.stream_spec import StreamSpec
from frazil.spark.types.arrow_types import arrow_schema
from frazil.spark.types.fitted import fitted
from frazil.stream.source.packing import packed
from frazil.stream.source.source import StreamSource


@dataclass
class StreamPartition(InputPartition):  # type: ignore[misc]
    """Hold the pickled tasks of one partition and what reading them needs, which all partitions of a batch share."""

    context: bytes
    tasks: bytes
    changes: bool

    def __init__(self, context: bytes, tasks: bytes, changes: bool = False):
        self.context, self.tasks, self.changes = context, tasks, changes


class TableStreamReader(DataSourceStreamReader, AvailableNow):  # type: ignore[misc]
    """Serve `spark.readStream.format("iceberg")`. Offsets are asked of one instance in a long-lived process; tasks read with another."""

    def __init__(self, spec: StreamSpec, schema: s.StructType):
        self._spec, self._schema = spec, schema
        self._source: StreamSource | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_source": None}

    @property
    def source(self) -> StreamSource:
        """Return what plans the batches, made when it is first asked: tasks need none."""
        if self._source is None:
            spec = self._spec
            self._source = StreamSource(spec.table.loader(), spec.options, spec.schema)
        return self._source

    def prepareForTriggerAvailableNow(self) -> None:
        self.source.freeze()

    def initialOffset(self) -> dict[str, Any]:
        return self.source.initial_offset()

    def getDefaultReadLimit(self) -> Any:
        return default_limit(self._spec.options.limits)

    def latestOffset(self, start: dict[str, Any] | None = None, limit: Any = None) -> dict[str, Any]:
        return self.source.latest_offset(start, limits_of(limit, self._spec.options.limits))

    def reportLatestOffset(self) -> dict[str, Any] | None:
        return self.source.report()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        planned = self.source.plan(start, end)
        if planned.changes is not None:
            context = cloudpickle.dumps(planned.change_read)
            return [StreamPartition(context, cloudpickle.dumps(tasks), True) for tasks in partitions_of(planned.changes)]
        found: list[InputPartition] = []
        for rows in planned.rows:
            context = cloudpickle.dumps(replace(rows.context, options=replace(rows.context.options, workers=1)))
            groups = packed(rows.tasks, planned.options.split, self._spec.parallelism)
            found += [StreamPartition(context, cloudpickle.dumps(tasks)) for tasks in groups]
        return found

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, StreamPartition)
        prepare()
        context, tasks = cloudpickle.loads(partition.context), cloudpickle.loads(partition.tasks)
        schema = arrow_schema(self._schema)
        if partition.changes:
            for batch in partition_rows(tasks, context):
                yield fitted(batch, schema)
            return
        for task in tasks:
            for batch in read_task(task, context):
                yield fitted(batch, schema)
