"""Commit the partitions of a streaming query: find the watermark of a batch, and commit due
partitions also when the query is idle or its input has ended."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING

from pyspark.sql.streaming import StreamingQuery, StreamingQueryListener

from frazil.errors import InvalidInput
from frazil.ops.session import Session
from frazil.spark.host.fall_back import fall_back
from frazil.spark.host.jvm import NOT_AS_KNOWN
from frazil.spark.host.jvm_plans import (
    batch_watermark_ms,
    has_read_all,
    running_query,
)
from frazil.stream.partitions.options import PartitionCommitOptions

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import (
        QueryIdleEvent,
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
    )

log = logging.getLogger(__name__)


def batch_watermark(spark: Session, query_id: str) -> int | None:
    """Find the watermark with which the running batch of a query was planned, in milliseconds since
    1970; None if it has none yet.

    If the JVM does not give it, the watermark of an earlier batch is returned, which is never ahead
    of the batch's own.
    """
    query = None
    try:
        if (query := running_query(spark, query_id)) is None:
            return None
        return batch_watermark_ms(query) or None
    except NOT_AS_KNOWN as error:
        fall_back("The watermark of a batch", error, "Partitions are committed a batch later.")
    query = query or spark.streams.get(query_id)
    progress = query and query.lastProgress
    text = ((progress or {}).get("eventTime") or {}).get("watermark")
    return None if text is None else int(datetime.fromisoformat(text).timestamp() * 1000) or None


def require_watermark(found: bool, options: PartitionCommitOptions) -> None:
    """Check, before a query writes, that a stream has the watermark that partition commit needs.
    Raises InvalidInput.
    """
    if options.needs_watermark and not found:
        text = "sink.partition-commit.trigger=partition-time needs a watermark, and the stream has none."
        hint = "Call withWatermark on the streaming frame, or give the option watermark-column (and watermark-delay)."
        raise InvalidInput(text, hint=hint, option="sink.partition-commit.trigger")


def require_end(options: PartitionCommitOptions, ends: bool) -> None:
    """Raise InvalidInput for `end-input` with a trigger under which the input of a query never
    ends.
    """
    if options.enabled and options.end_input and not ends:
        name = "sink.partition-commit.end-input"
        hint = "Give the query trigger(availableNow=True), or leave the option out."
        raise InvalidInput(
            f"{name}=true needs a query that ends, and this query's trigger never ends.",
            hint=hint,
            option=name,
        )


class PartitionListener(StreamingQueryListener):  # type: ignore[misc]
    """Commit the due partitions of one run of a query when it is idle, and those that are left when
    its input has ended.

    All runs of one checkpoint share the query's id, and Spark tells of the end of a run late,
    perhaps when the next run has begun. So events are taken by the id of the run. `announce`:
    commits partitions; called with True if the input has ended. `ends`: the query's trigger reads
    the input to its end.
    """

    def __init__(
        self, spark: Session, query: StreamingQuery, announce: Callable[[bool], object], ends: bool
    ):
        self._spark, self._query, self._announce, self._ends = spark, query, announce, ends
        self._query_id, self._run_id = str(query.id), str(query.runId)
        self._stopped = self._over = False
        self._turn = threading.Lock()

    def onQueryStarted(self, event: QueryStartedEvent) -> None: ...

    def onQueryProgress(self, event: QueryProgressEvent) -> None: ...

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        if str(event.runId) == self._run_id:
            self._call(last=False)

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        if str(event.runId) == self._run_id:
            self.over(failed=event.exception is not None)

    def over(self, failed: bool) -> None:
        """Commit, once, the partitions that are left when the input of a run has ended. A run that
        failed or was stopped has rows left to read, so its partitions are not complete."""
        with self._turn:
            first, self._over = not self._over, True
            if first and self._ends and not failed and not self._stopped and self._has_read_all():
                self._call(last=True)
        if first:
            self._spark.streams.removeListener(self)

    def stopped(self) -> None:
        self._stopped = True

    def _has_read_all(self) -> bool:
        """Tell whether the run has found that its input is read. A run may also be stopped through
        another object of its query, or by the start of the next run of its checkpoint, and then
        ends without an error, too."""
        try:
            return has_read_all(self._query)
        except NOT_AS_KNOWN as error:
            fall_back(
                "The end of a query's input",
                error,
                "Partitions of a query that another one stops may be committed too early.",
            )
            return True

    def _call(self, last: bool) -> None:
        try:
            self._announce(last)
        except Exception:  # raised here it would end in the log of the JVM
            log.exception("Could not commit the partitions of streaming query %s.", self._query_id)


def announce_without_batches(
    spark: Session, query: StreamingQuery, announce: Callable[[bool], object], ends: bool
) -> None:
    """Commit the due partitions of a query also while it is idle and, if `ends`, those that are
    left when its input has ended: before awaitTermination returns, at the latest. `announce`
    commits partitions; it is called with True if the input has ended."""
    listener = PartitionListener(spark, query, announce, ends)
    spark.streams.addListener(listener)
    if not ends:
        return
    wait, stop = query.awaitTermination, query.stop

    def awaited(timeout: int | None = None) -> bool | None:
        ended: bool | None = wait() if timeout is None else wait(timeout)
        if ended is not False:
            listener.over(failed=query.exception() is not None)
        return ended

    def stopped() -> None:
        if query.isActive:
            listener.stopped()
        stop()

    query.awaitTermination, query.stop = awaited, stopped
    if not query.isActive:  # a query that ended before the listener was there
        listener.over(failed=query.exception() is not None)
