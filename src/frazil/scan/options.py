"""Read the options of scan planning and their defaults (table properties read.split.*)."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from frazil.errors import InvalidInput
from frazil.spec.options import BOOLEAN, NATURAL, POSITIVE, Option, OptionTable
from frazil.spec.properties import (
    SPLIT_ADAPTIVE,
    SPLIT_LOOKBACK,
    SPLIT_OPEN_FILE_COST,
    SPLIT_SIZE,
    TableProperty,
)

MIN_ADAPTIVE_SPLIT = 16 * 1024 * 1024
_SIZE = Option("split-size", POSITIVE, None, text="A task reads about this many bytes. Spark's own Parquet scan takes at least 4 KB.",
    otherwise="`read.split.target-size`, 128 MB, or less for few bytes; Spark's own scan: `spark.sql.files.maxPartitionBytes`")  # fmt: skip
_LOOKBACK = Option("lookback", POSITIVE, None, otherwise="`read.split.planning-lookback`, 10",
    text="While files are packed into tasks, this many tasks are kept open. Spark's own scan does not use it.")  # fmt: skip
_OPEN_FILE_COST = Option("file-open-cost", NATURAL, None, otherwise="`read.split.open-file-cost`, 4 MB",
    text="When files are packed into tasks, each counts as at least this many bytes.")  # fmt: skip
AGGREGATES = Option("aggregate-push-down-enabled", BOOLEAN, None, origin="Java",
    otherwise="the session's `spark.sql.iceberg.aggregate-push-down.enabled`, `true`",
    text="On Spark, the statistics of files tell counts, least and greatest values where they can; `false`: rows do.")  # fmt: skip
_CHOSEN = "to select a snapshot, use the arguments of scan(): snapshot_id, branch, tag, as_of"
OPTIONS = OptionTable(
    "read option", (_SIZE, _LOOKBACK, _OPEN_FILE_COST, AGGREGATES),
    dict.fromkeys(("snapshot-id", "branch", "tag", "as-of-timestamp", "versionAsOf", "timestampAsOf"), _CHOSEN),
)  # fmt: skip
SPLIT_OPTIONS = OPTIONS.names
VECTORIZATION = Option("vectorization-enabled", BOOLEAN, True, fixed=True, why="rows are always read in batches of columns",
    text="Rows are always read in batches of columns, so `false` is refused.", origin="Java")  # fmt: skip


@dataclass(frozen=True)
class SplitOptions:
    """Control how files are split and combined: target bytes, bins kept open, the least bytes that
    a file weighs. `adaptive`: use smaller splits when there would be fewer splits than slots."""

    split_size: int = SPLIT_SIZE.default
    lookback: int = SPLIT_LOOKBACK.default
    open_file_cost: int = SPLIT_OPEN_FILE_COST.default
    adaptive: bool = SPLIT_ADAPTIVE.default

    def __post_init__(self) -> None:
        if self.split_size <= 0:
            raise InvalidInput(f"Split size must be > 0: {self.split_size}")
        if self.lookback <= 0:
            raise InvalidInput(f"Split planning lookback must be > 0: {self.lookback}")
        if self.open_file_cost < 0:
            raise InvalidInput(f"File open cost must be >= 0: {self.open_file_cost}")


@dataclass(frozen=True)
class ScanOptions:
    """Hold the options of planning. `workers`: threads that read manifests; `with_stats`: keep
    counts and bounds in the planned files, so that each `DataFile` has them; `aggregates`: whether
    statistics may tell aggregates, None: as the session says."""

    workers: int = field(default_factory=lambda: default_workers())
    with_stats: bool = False
    split: SplitOptions = SplitOptions()
    aggregates: bool | None = None

    @classmethod
    def of(
        cls,
        options: Mapping[str, Any] | None,
        properties: Mapping[str, str],
        *,
        with_stats: bool = False,
    ) -> ScanOptions:
        """Parse read options (Java's names) and table properties. Raises InvalidInput for an
        unknown option.
        """
        return cls(
            with_stats=with_stats,
            split=split_options(properties, options),
            aggregates=AGGREGATES.of(OPTIONS.read(options or {})),
        )


_planning_threads: ContextVar[int | None] = ContextVar("frazil_planning_threads", default=None)


@contextmanager
def planning_threads(count: int | None) -> Iterator[None]:
    """Bound the threads that read manifests in what runs inside; None: as everywhere. An operation
    that plans in many places, such as a stream's source, says it once by this."""
    before = _planning_threads.set(count)
    try:
        yield
    finally:
        _planning_threads.reset(before)


def default_workers() -> int:
    """Return the number of planning threads: that of `planning_threads`, else by Java's rule
    `ICEBERG_WORKER_NUM_THREADS`, else the number of cores, at least 2."""
    if (chosen := _planning_threads.get()) is not None:
        return chosen
    text = os.environ.get("ICEBERG_WORKER_NUM_THREADS", "")
    return max(1, int(text)) if text.isdigit() else max(2, os.cpu_count() or 2)


def workers_are_given() -> bool:
    """Tell whether the number of planning threads was configured."""
    return (
        _planning_threads.get() is not None
        or os.environ.get("ICEBERG_WORKER_NUM_THREADS", "").isdigit()
    )


def split_options(
    properties: Mapping[str, str], options: Mapping[str, Any] | None = None
) -> SplitOptions:
    """Read split options from table properties (read.split.*) and from read options (split-size,
    lookback, file-open-cost), which win.

    An explicit split-size turns adaptive sizes off, as in Java.
    """
    values = OPTIONS.read(options or {})

    def number(option: Option[int, None], otherwise: TableProperty[int, int]) -> int:
        return otherwise.of(properties) if (value := option.of(values)) is None else value

    return SplitOptions(
        number(_SIZE, SPLIT_SIZE),
        number(_LOOKBACK, SPLIT_LOOKBACK),
        number(_OPEN_FILE_COST, SPLIT_OPEN_FILE_COST),
        SPLIT_ADAPTIVE.of(properties) and _SIZE.name not in values,
    )


def adjusted_split_size(scan_size: int, parallelism: int, split_size: int) -> int:
    """Adapt the split size as Java does: when there would be fewer splits than slots, splits get
    smaller, but not below 16 MB.
    """
    if parallelism <= 0:
        raise InvalidInput(f"Parallelism must be > 0: {parallelism}")
    if -(-scan_size // split_size) >= parallelism:
        return split_size
    return max(scan_size // parallelism, min(MIN_ADAPTIVE_SPLIT, split_size))
