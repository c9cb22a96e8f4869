"""Plan the batches of a streaming read, in the Python process that Spark keeps for a query: their
offsets, partitions and limits, which are Spark's (ReadLimit, which PySpark has from 4.2 on) or
those of Frazil's options.
"""

from __future__ import annotations

import importlib
from dataclasses import replace
from typing import Any

from pyspark import cloudpickle

from frazil.arrow.changelog.changelog_groups import partitions_of
from frazil.spark.streams.source.read_partition import StreamPartition
from frazil.spark.streams.stream_table import StreamSpec
from frazil.stream.source.options import Limits
from frazil.stream.source.plan_batch import packed
from frazil.stream.source.source import StreamSource


class StreamPlanner:
    """Plan the batches of one run of a query."""

    def __init__(self, spec: StreamSpec):
        self.spec = spec
        self.source = StreamSource(spec.table.loader(), spec.options, spec.schema)

    def default_limit(self) -> Any:
        """Return the Spark limit that stands for the limits of the options."""
        return default_limit(self.spec.options.limits)

    def latest_offset(self, start: dict[str, Any] | None, limit: object) -> dict[str, Any]:
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


try:
    _limits: Any = importlib.import_module("pyspark.sql.streaming.datasource")
except ImportError:
    # PySpark 4.1 has no limits, and its availableNow reads one batch up to the head
    _limits = None

_MANY = 2**63 - 1


def default_limit(limits: Limits) -> Any:
    """Return a Spark limit that stands for the limits of the options. PySpark has no limit that
    combines several, so one of them is returned, and `limits_of` applies all of them."""
    if not limits.any:
        return _limits.ReadAllAvailable()
    if limits.files is not None:
        return _limits.ReadMaxFiles(limits.files)
    if limits.rows is not None:
        return _limits.ReadMaxRows(limits.rows)
    return (
        _limits.ReadMaxRows(_MANY) if limits.bytes is None else _limits.ReadMaxBytes(limits.bytes)
    )


def limits_of(limit: object, options: Limits) -> Limits:
    """Return the limits of one batch: those of the options and Spark's own; no limit where Spark
    asks for all rows (trigger once).
    """
    if limit is None or _limits is None:
        return options
    if isinstance(limit, _limits.ReadAllAvailable):
        return Limits()
    maxima = {name: getattr(limit, f"max_{name}", None) for name in ("files", "rows", "bytes")}
    return options.and_(**maxima)
