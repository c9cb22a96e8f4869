"""Commit the partitions of streaming queries: the watermark of a batch, and announcements when a query is idle or its input has ended."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import datetime
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.streaming import StreamingQuery, StreamingQueryListener

from frazil.errors import InvalidInput
from frazil.spark.host import jvm
from frazil.stream.partitions.options import PartitionCommitOptions

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


def announce_without_batches(spark: Any, query: StreamingQuery, announce: Callable[[bool], object], ends: bool) -> None:
    """Announce the due partitions of a query also while it is idle and, if `ends`, those that are left when its input has ended: before
    awaitTermination returns, at the latest. `announce` is called with whether the input has ended."""
    spark.streams.addListener(PartitionListener(spark, query.id, announce, ends))
    if ends:
        announce_before_it_returns(query, announce)
