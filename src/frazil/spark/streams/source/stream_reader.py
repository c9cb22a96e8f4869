"""Read a table as a stream through PySpark's Python data source: the DataSourceStreamReader that
Spark calls.

Spark makes the reader in three kinds of processes, one after the other before the first row: one
that plans, one that only pickles `read`, and workers. Imports take most of the time before the
first batch, so this module imports nothing else of Frazil: planning and reading are modules of
their own, each imported at the first call that needs it.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Sequence
from typing import Any

from pyspark import cloudpickle
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

try:
    AvailableNow: Any = importlib.import_module(
        "pyspark.sql.streaming.datasource"
    ).SupportsTriggerAvailableNow
except ImportError:  # in PySpark 4.1 availableNow reads one batch up to the head
    AvailableNow = object
_PLANNER, _READ = (
    "frazil.spark.streams.source.stream_planner",
    "frazil.spark.streams.source.read_partition",
)


class TableStreamReader(DataSourceStreamReader, AvailableNow):  # type: ignore[misc]
    """Serve `spark.readStream.format("iceberg")`. `spec`: a pickled StreamSpec. Spark asks one
    instance for offsets, which lives as long as the query; tasks read with copies of another
    instance."""

    def __init__(self, spec: bytes, schema: StructType):
        self._spec, self._schema = spec, schema
        self._made: Any = None

    def __getstate__(self) -> dict[str, Any]:
        # tasks know all they need from their partition
        return {
            "_spec": b"",
            "_schema": self._schema,
            "_made": None,
        }

    @property
    def _planner(self) -> Any:
        if self._made is None:
            module = importlib.import_module(_PLANNER)
            self._made = module.StreamPlanner(cloudpickle.loads(self._spec))
        return self._made

    def prepareForTriggerAvailableNow(self) -> None:
        self._planner.source.freeze()

    def initialOffset(self) -> dict[str, Any]:
        offset: dict[str, Any] = self._planner.source.initial_offset()
        return offset

    def getDefaultReadLimit(self) -> Any:
        return self._planner.default_limit()

    def latestOffset(
        self, start: dict[str, Any] | None = None, limit: object = None
    ) -> dict[str, Any]:
        offset: dict[str, Any] = self._planner.latest_offset(start, limit)
        return offset

    def reportLatestOffset(self) -> dict[str, Any] | None:
        offset: dict[str, Any] | None = self._planner.source.report()
        return offset

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        input_partitions: Sequence[InputPartition] = self._planner.partitions(start, end)
        return input_partitions

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return iter(importlib.import_module(_READ).batches_of(partition, self._schema))
