"""Start streaming queries that write plain folders: with a checkpoint, and with their last partitions committed when no data comes."""

from __future__ import annotations

from functools import partial
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.streaming import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from frazil.errors import InvalidInput
from frazil.spark.streams.partition_commits import announce_without_batches
from frazil.stream.partitions.directories.announce import FolderCommit

_CHECKPOINT = "spark.sql.streaming.checkpointLocation"


class FilesStreamWriter(DataStreamWriter):  # type: ignore[misc]
    """Start the query of `write_stream_files` (Spark's DataStreamWriter, which wants a checkpoint).

    With `sink.partition-commit.end-input`, the partitions that are left are committed when a query with trigger availableNow or once has
    ended: before awaitTermination returns, at the latest.
    """

    def __init__(self, frame: DataFrame, commit: FolderCommit):
        super().__init__(frame)
        self._commit, self._has_checkpoint, self._ends = commit, False, False

    def option(self, key: str, value: Any) -> DataStreamWriter:
        self._has_checkpoint |= key.lower() == "checkpointlocation"
        return super().option(key, value)

    def options(self, **options: Any) -> DataStreamWriter:
        self._has_checkpoint |= any(key.lower() == "checkpointlocation" for key in options)
        return super().options(**options)

    def trigger(self, **when: Any) -> DataStreamWriter:
        self._ends = bool(when.get("availableNow") or when.get("once"))
        return super().trigger(**when)

    def start(self, *arguments: Any, **options: Any) -> StreamingQuery:
        named = any(key.lower() == "checkpointlocation" for key in options)
        if not (self._has_checkpoint or named or self._spark.conf.get(_CHECKPOINT, None)):
            hint = 'Write .option("checkpointLocation", "…") before start(): without it a restart writes all rows again.'
            raise InvalidInput("write_stream_files needs a checkpoint location.", hint=hint)
        query = super().start(*arguments, **options)
        if self._commit.options.enabled:
            ends = self._ends and self._commit.options.end_input
            announce = partial(self._commit.commit_due, None)
            announce_without_batches(self._spark, query, announce, ends)
        return query
