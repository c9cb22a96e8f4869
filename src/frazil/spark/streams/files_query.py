"""Start streaming queries that write plain folders: with a checkpoint, and with their last partitions committed when no data comes."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import datetime
from functools import partial
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.streaming import StreamingQuery, StreamingQueryListener
from pyspark.sql.streaming.readwriter import DataStreamWriter

from frazil.errors import InvalidInput
from frazil.spark.host import jvm
from frazil.stream.partitions.directories.announce import FolderCommit
from frazil.stream.partitions.options import PartitionCommitOptions

_CHECKPOINT = "spark.sql.streaming.checkpointLocation"
log = logging.getLogger(__name__)


def batch_watermark(spark: Any, query_id: str) -> int | None:
    """Find the watermark that the running batch of a query was planned with; None: it has none yet.

    Where the JVM does not tell, the watermark of an earlier batch stands in, which is never ahead of it.
    """
    query = spark.streams.get(query_id)
    if query is None:
        return None
    try:
        return jvm.batch_watermark_ms(query) or None
    except jvm.NOT_AS_KNOWN as error:
        jvm.fall_back("the watermark of a batch", error)
    progress = query.lastProgress
    text = ((progress or {}).get("eventTime") or {}).get("watermark")
    return None if text is None else int(datetime.fromisoformat(text).timestamp() * 1000) or None


def require_watermark(frame: DataFrame, options: PartitionCommitOptions) -> None:
    """Check, before a query starts, that a stream has the watermark that partition commit needs. Raises InvalidInput."""
    if options.needs_watermark and not jvm.has_watermark(frame):
        text = "sink.partition-commit.trigger=partition-time needs a watermark, and the stream has none."
        hint = "Call withWatermark on it, or give watermark-column (and watermark-delay)."
        raise InvalidInput(text, hint=hint, option="sink.partition-commit.trigger")


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
            self._spark.streams.addListener(PartitionListener(self._spark, query.id, announce, ends))
            if ends:
                announce_before_it_returns(query, announce)
        return query


def announce_before_it_returns(query: StreamingQuery, announce: Callable[[bool], object]) -> None:
    """Let awaitTermination return only when the last partitions of a query that has ended are announced."""
    wait = query.awaitTermination

    def awaited(timeout: int | None = None) -> bool | None:
        ended: bool | None = wait() if timeout is None else wait(timeout)
        if ended is not False and query.exception() is None:
            announce(True)
        return ended

    query.awaitTermination = awaited


class PartitionListener(StreamingQueryListener):  # type: ignore[misc]
    """Announce the due partitions of a query when it is idle, and those that are left when its input ends.

    `announce`: called with whether the input has ended. `ends`: whether it does when the query ends without an error.
    """

    def __init__(self, spark: Any, query_id: str, announce: Callable[[bool], object], ends: bool):
        self._spark, self._query_id, self._announce, self._ends = spark, query_id, announce, ends

    def onQueryStarted(self, event: Any) -> None: ...

    def onQueryProgress(self, event: Any) -> None: ...

    def onQueryIdle(self, event: Any) -> None:
        if str(event.id) == self._query_id:
            self._call(last=False)

    def onQueryTerminated(self, event: Any) -> None:
        if str(event.id) != self._query_id:
            return
        if self._ends and event.exception is None:
            self._call(last=True)
        self._spark.streams.removeListener(self)

    def _call(self, last: bool) -> None:
        try:
            self._announce(last)
        except Exception:  # raised here it would end in the log of the JVM
            log.exception("Could not commit the partitions of streaming query %s.", self._query_id)
