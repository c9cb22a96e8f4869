"""Decide when a pending partition is due: by the clock since it was first seen, by the watermark,
or when no more data comes.
"""

from __future__ import annotations

from collections.abc import Callable

from frazil.stream.partitions.options import IDLE, PARTITION_TIME, PartitionCommitOptions
from frazil.stream.partitions.state import Pending


def is_due(
    options: PartitionCommitOptions,
    pending: Pending,
    now_ms: int,
    watermark_ms: int | None,
    time_ms: Callable[[], int | None],
) -> bool:
    """Tell whether a partition is due. `time_ms`: its time, for partition-time only; None: the time
    cannot be determined, and the partition is never due.

    process-time: at once without a delay, else after it, from when the partition was first seen.
    partition-time: the watermark is past the partition's time and the delay. idle: no data came for
    longer than the delay.
    """
    if options.trigger == PARTITION_TIME:
        time = time_ms()
        return (
            time is not None and watermark_ms is not None and watermark_ms > time + options.delay_ms
        )
    if options.trigger == IDLE:
        return now_ms > pending.last_ms + options.delay_ms
    return options.delay_ms == 0 or now_ms > pending.first_ms + options.delay_ms
