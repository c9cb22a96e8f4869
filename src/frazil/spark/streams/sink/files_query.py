"""Start streaming queries that write plain folders: require a checkpoint, and commit due partitions
also while no data arrives.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, Protocol

from pyspark.sql import DataFrame
from pyspark.sql.streaming import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from frazil.errors import InvalidInput
from frazil.spark.streams.sink.partition_commits import announce_without_batches, require_end
from frazil.stream.partitions.directories.announce import FolderCommit, LastBatch

_CHECKPOINT = "spark.sql.streaming.checkpointLocation"


class FolderBatches(Protocol):
    """Write the batches of one run of a query. `newest`: the newest batch of each query that the
    folder had after the run's last one.
    """

    newest: Mapping[str, int]

    def reload(self) -> None:
        """Read which batches are in the folder."""


class FilesStreamWriter(DataStreamWriter):  # type: ignore[misc]
    """Start the query of `write_stream_files`: Spark's DataStreamWriter, with the options that have
    a meaning here, and never without a checkpoint.

    With `sink.partition-commit.end-input`, the partitions that are left are committed when a query
    with trigger availableNow or once has ended: before awaitTermination returns, at the latest.
    """

    def __init__(self, frame: DataFrame, commit: FolderCommit, batches: FolderBatches):
        super().__init__(frame)
        self._commit, self._batches, self._has_checkpoint, self._ends = (
            commit,
            batches,
            False,
            False,
        )

    def option(self, key: str, value: Any) -> DataStreamWriter:
        """Set Spark's checkpointLocation. Raises InvalidInput for any other option, which Spark
        would ignore here.
        """
        if key.lower() != "checkpointlocation":
            hint = f"Give it to write_stream_files(…, **{{{key!r}: {value!r}}})."
            raise InvalidInput(f"{key} is not an option of the query.", hint=hint, option=key)
        self._has_checkpoint = True
        return super().option(key, value)

    def options(self, **options: Any) -> DataStreamWriter:
        """Set options as `option` does."""
        for key, value in options.items():
            self.option(key, value)
        return self

    def outputMode(self, outputMode: str) -> DataStreamWriter:
        """Set Spark's output mode. Raises InvalidInput for any but append: the other modes send a
        row more than once, and plain files would hold it as often."""
        if outputMode.lower() != "append":
            hint = "An Iceberg table takes the other modes: t.write_stream(frame, mode='complete') or mode='upsert'."
            raise InvalidInput(
                f"write_stream_files takes output mode append, not {outputMode}.", hint=hint
            )
        return super().outputMode(outputMode)

    def trigger(self, **when: Any) -> DataStreamWriter:
        self._ends = bool(when.get("availableNow") or when.get("once"))
        return super().trigger(**when)

    def start(
        self, queryName: str | None = None, outputMode: str | None = None, **options: Any
    ) -> StreamingQuery:
        """Start the query. Raises InvalidInput without a checkpoint, and for end-input with a
        trigger that does not end.
        """
        if queryName is not None:
            self.queryName(queryName)
        if outputMode is not None:
            self.outputMode(outputMode)
        self.options(**options)
        require_end(self._commit.options, self._ends)
        if not (self._has_checkpoint or self._spark.conf.get(_CHECKPOINT, None)):
            hint = 'Write .option("checkpointLocation", "…") before start(): without it a restart writes all rows again.'
            raise InvalidInput("write_stream_files needs a checkpoint location.", hint=hint)
        if not self._commit.options.enabled:
            return super().start()
        self._batches.reload()
        query = super().start()
        announce_without_batches(
            self._spark,
            query,
            partial(self._announce, query.id),
            self._ends and self._commit.options.end_input,
        )
        return query

    def _announce(self, query_id: str, last: bool) -> None:
        self._commit.commit_due(
            None, LastBatch(query_id, self._batches.newest.get(query_id)) if last else None
        )
