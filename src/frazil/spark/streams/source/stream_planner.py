"""Plan the batches of a streaming read, in the Python process that Spark keeps for a query: their
offsets, limits and partitions.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pyspark import cloudpickle

from frazil.arrow.changelog.changelog_groups import partitions_of
from frazil.spark.streams.source.read_limits import default_limit, limits_of
from frazil.spark.streams.source.read_partition import StreamPartition
from frazil.spark.streams.source.stream_spec import StreamSpec
from frazil.stream.source.packing import packed
from frazil.stream.source.source import StreamSource


class StreamPlanner:
    """Plan the batches of one run of a query."""

    def __init__(self, spec: StreamSpec):
        self.spec = spec
        self.source = StreamSource(spec.table.loader(), spec.options, spec.schema)

    def default_limit(self) -> Any:
        """Return the Spark limit that stands for the limits of the options."""
        return default_limit(self.spec.options.limits)

    def latest_offset(self, start: dict[str, Any] | None, limit: Any) -> dict[str, Any]:
        """Return the end of the next batch within Spark's limit."""
        return self.source.latest_offset(start, limits_of(limit, self.spec.options.limits))

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[StreamPartition]:
        """Return the partitions of a batch; they are the same at each call, also after a restart,
        so that a batch can be repeated.
        """
        planned = self.source.plan(start, end)
        if planned.changes is not None:
            context = cloudpickle.dumps(planned.changelog_read)
            return [
                StreamPartition(context, cloudpickle.dumps(tasks), True)
                for tasks in partitions_of(planned.changes)
            ]
        partitions: list[StreamPartition] = []
        for rows in planned.rows:
            context = cloudpickle.dumps(
                replace(rows.context, options=replace(rows.context.options, workers=1))
            )
            groups = packed(
                rows.tasks, planned.options.split, self.spec.parallelism, self.spec.options.lookback
            )
            partitions += [StreamPartition(context, cloudpickle.dumps(tasks)) for tasks in groups]
        return partitions
