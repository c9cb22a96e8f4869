"""Define and check the options of a streaming read: Flink's, Java's and Frazil's.

Options that contradict each other, have no effect or are unknown are refused by name, with a hint
of what to write instead.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from frazil.errors import InvalidInput
from frazil.expr.nodes import Predicate
from frazil.ops.reading import RowFilter, predicate_of
from frazil.scan.options import VECTORIZATION
from frazil.scan.snapshot_ref import to_milliseconds
from frazil.spec.options import (
    BOOLEAN,
    DURATION,
    INTEGER,
    NAMES,
    NATURAL,
    POSITIVE,
    TEXT,
    Option,
    OptionTable,
    ValueKind,
    folded,
    one_of,
    whole,
)
from frazil.spec.snapshot import MAIN_BRANCH


class StartingStrategy(StrEnum):
    """Name where a stream starts. The first six are Flink's (FLIP-27); `JAVA_TIMESTAMP` is Java's
    `stream-from-timestamp`.
    """

    TABLE_SCAN_THEN_INCREMENTAL = "TABLE_SCAN_THEN_INCREMENTAL"
    LATEST = "INCREMENTAL_FROM_LATEST_SNAPSHOT"
    LATEST_EXCLUSIVE = "INCREMENTAL_FROM_LATEST_SNAPSHOT_EXCLUSIVE"
    EARLIEST = "INCREMENTAL_FROM_EARLIEST_SNAPSHOT"
    SNAPSHOT_ID = "INCREMENTAL_FROM_SNAPSHOT_ID"
    SNAPSHOT_TIMESTAMP = "INCREMENTAL_FROM_SNAPSHOT_TIMESTAMP"
    JAVA_TIMESTAMP = "stream-from-timestamp"


FLINK_STRATEGIES = tuple(s for s in StartingStrategy if s is not StartingStrategy.JAVA_TIMESTAMP)
CHANGES, SEQUENCE, WATERMARK = "changes", "sequence", "watermark"
_SKIPS = {
    "fail": (),
    "skip": ("overwrite", "delete"),
    "skip-overwrite": ("overwrite",),
    "skip-delete": ("delete",),
    CHANGES: (),
}
_UNITS = {
    "days": 86_400_000.0, "hours": 3_600_000.0, "minutes": 60_000.0, "seconds": 1000.0, "milliseconds": 1.0, "microseconds": 1e-3,
    "nanoseconds": 1e-6,
}  # fmt: skip


def _filter(given: RowFilter) -> str | Predicate:
    return given if isinstance(given, str) else predicate_of(given)


_FILTER = ValueKind(_filter, "a condition, as text or as a predicate", as_given=True)
_TIME = ValueKind(str, "milliseconds since 1970, or ISO text")
_LOST = one_of("fail", "earliest", "latest")
_STRATEGY = Option(
    "starting-strategy", one_of(*FLINK_STRATEGIES), None, origin="Flink",
    text="The stream starts there, see [below](#where-a-stream-starts).",
    otherwise="`INCREMENTAL_FROM_LATEST_SNAPSHOT`; in scripts for Java's jar as in Java, see below",
)  # fmt: skip
_START_ID = Option("start-snapshot-id", INTEGER, None, "start_snapshot_id",
    "The stream starts with this snapshot, if the strategy is `INCREMENTAL_FROM_SNAPSHOT_ID`.", origin="Flink")  # fmt: skip
_START_TAG = Option("start-tag", TEXT, None, "start_tag",
    "The stream starts with the snapshot of this tag, if the strategy is `INCREMENTAL_FROM_SNAPSHOT_ID`.", origin="Flink")  # fmt: skip
_START_TIME = Option("start-snapshot-timestamp", _TIME, None,
    text="The stream starts with the first snapshot at this time or later, if the strategy is `INCREMENTAL_FROM_SNAPSHOT_TIMESTAMP`. "
    "The time is a number of milliseconds since 1970, or ISO text, which without an offset is in the zone of the session.",
    origin="Flink")  # fmt: skip
_JAVA_TIME = Option("stream-from-timestamp", _TIME, None,
    text="The stream starts with the first snapshot at this time or later, and waits for it. If the history before that time has "
    "expired, it starts with the oldest snapshot that is kept.", origin="Java")  # fmt: skip
_SNAPSHOTS = Option("max-planning-snapshot-count", POSITIVE, None,
    text="A batch takes at most this many snapshots, of any kind.", otherwise="no limit", origin="Flink")  # fmt: skip
_FILES = Option("streaming-max-files-per-micro-batch", POSITIVE, None,
    text="A batch takes at most this many files.", otherwise="no limit", origin="Java")  # fmt: skip
_ROWS = Option("streaming-max-rows-per-micro-batch", POSITIVE, None,
    text="A batch takes at most this many rows, but always one file.", otherwise="no limit", origin="Java")  # fmt: skip
_BYTES = Option("streaming-max-bytes-per-micro-batch", POSITIVE, None,
    text="A batch takes at most this many bytes, but always one file.", otherwise="no limit", origin="Frazil")  # fmt: skip
_NON_APPEND = Option("on-non-append", one_of(*_SKIPS), None, otherwise="`fail`", origin="Frazil",
    text="This is what the stream does at a snapshot that is not an append, see [below](#snapshots-that-are-not-appends).")  # fmt: skip
_JAVA_SKIPS = {
    Option(f"streaming-skip-{operation}-snapshots", BOOLEAN, False, origin="Java",
        text=f"`true` is the same as `on-non-append=skip-{operation}`."): operation for operation in ("overwrite", "delete")
}  # fmt: skip
_ORDER = Option("order-by", one_of(SEQUENCE, WATERMARK), None,
    text="Files of a batch are read in this order: by data sequence number, or by the lowest value of `watermark-column`.",
    otherwise="as they are listed", origin="Frazil")  # fmt: skip
_COLUMN = Option("watermark-column", TEXT, None, "watermark_column",
    "Files are read in the order of the lowest value of this column (of type long or timestamp).", origin="Flink")  # fmt: skip
_UNIT = Option("watermark-column-time-unit", one_of(*_UNITS), "microseconds", "watermark_unit",
    "A watermark column of type long counts in this unit.", origin="Flink")  # fmt: skip
_SPLIT = (
    Option("split-size", POSITIVE, None, text="A task reads about this many bytes.",
        otherwise="`read.split.target-size`, 128 MB", origin="Flink, Java"),
    Option("lookback", POSITIVE, None, aliases=("split-lookback",),
        text="While files are packed into tasks, this many tasks are kept open. More than one takes files out of their order, so the "
        "option cannot be combined with `order-by` and `watermark-column`.", otherwise="1", origin="Flink, Java"),
    Option("file-open-cost", NATURAL, None, aliases=("split-file-open-cost",),
        text="When files are packed into tasks, each counts as at least this many bytes.",
        otherwise="`read.split.open-file-cost`, 256 kB", origin="Flink, Java"),
)  # fmt: skip
_STARTS = "a stream starts where starting-strategy says: use start-snapshot-id, start-tag or start-snapshot-timestamp"
_NO_END = "a stream has no end; trigger(availableNow=True) reads up to the newest snapshot"
_PLANNED = "batches are planned when they are wanted; leave it out"
OPTIONS = OptionTable("read option of streams", (
    _STRATEGY, _START_ID, _START_TAG, _START_TIME, _JAVA_TIME,
    Option("branch", TEXT, MAIN_BRANCH, "branch",
        "The stream follows this branch, which is not a tag. It also starts in it (Flink starts in main).", origin="Flink, Java"),
    Option("monitor-interval", DURATION, 60_000, "monitor_interval_ms",
        "The catalog is asked for new snapshots once in this time at most, whatever the trigger: use "
        '`trigger(processingTime="5 seconds")` with `monitor-interval=5s`.', origin="Flink"),
    _SNAPSHOTS,
    Option("table.exec.iceberg.worker-pool-size", POSITIVE, None, "workers",
        "This many threads read manifests while a batch is planned.", "the number of cores, at least 2", origin="Flink"),
    Option("max-allowed-planning-failures", whole(-1), 3, "max_failures",
        "This many failures of planning in a row are retried; -1 stands for any number. A lost position, or a snapshot that may not be "
        "read, is an error at once.", origin="Flink"),
    _FILES, _ROWS, _BYTES, _NON_APPEND, *_JAVA_SKIPS,
    Option("on-expired", _LOST, "fail", "on_expired",
        "The stream goes on there when the snapshots that it has not read have expired: with `earliest` rows may come twice, with "
        "`latest` rows are lost, see [below](#when-the-position-is-lost).", origin="Frazil"),
    Option("on-rollback", _LOST, "fail", "on_rollback",
        "The stream goes on there when the branch was rolled back or replaced.", origin="Frazil"),
    _ORDER, _COLUMN, _UNIT,
    Option("selected-fields", NAMES, ("*",), "selected_fields",
        "Only these columns are read: a list, or text with commas between the names.", "all columns", origin="Frazil"),
    Option("row-filter", _FILTER, None, "row_filter",
        "Only rows for which this condition is true are read. It skips manifests, files and row groups.", "all rows", origin="Frazil"),
    Option("case-sensitive", BOOLEAN, True, "case_sensitive",
        "`true`: names of columns must have the same case.", "as the session says", origin="Flink"),
    *_SPLIT, VECTORIZATION,
    Option("locality", BOOLEAN, False, fixed=True, why="the tasks of a Python source name no hosts", origin="Java",
        text="Tasks name no hosts, so `true` is refused."),
    Option("streaming", BOOLEAN, True, fixed=True, why="this is a streaming read, and spark.read reads a batch", origin="Flink",
        text="`false` is refused: use `spark.read`."),
), {
    **dict.fromkeys(("snapshot-id", "tag", "as-of-timestamp", "versionAsOf", "timestampAsOf", "start-timestamp"), _STARTS),
    **dict.fromkeys(("end-snapshot-id", "end-tag", "end-timestamp"), _NO_END),
    "limit": "a stream has no last row; use limit() of the frame in a batch read",
    "async-micro-batch-planning-enabled": _PLANNED, "async-queue-preload-*": _PLANNED,
    "streaming-snapshot-polling-interval-ms": "use monitor-interval",
    "include-column-stats": "statistics of files are not part of rows; leave it out",
    "table.exec.iceberg.infer-source-parallelism*": "tasks follow from split-size",
    "table.exec.iceberg.fetch-batch-record-count": "set spark.sql.parquet.columnarReaderBatchSize",
    "table.exec.iceberg.split-assigner-type": "use order-by",
    "table.exec.iceberg.expose-split-locality-info": "leave it out",
})  # fmt: skip


@dataclass(frozen=True)
class Limits:
    """Bound one micro-batch; None: no bound. A batch always takes at least one file, however large
    it is.
    """

    files: int | None = None
    rows: int | None = None
    bytes: int | None = None
    snapshots: int | None = None

    @property
    def any(self) -> bool:
        return any(n is not None for n in (self.files, self.rows, self.bytes, self.snapshots))

    def and_(
        self, files: int | None = None, rows: int | None = None, bytes: int | None = None
    ) -> Limits:
        """Return the tighter of these limits and others."""
        tighter = (_least(self.files, files), _least(self.rows, rows), _least(self.bytes, bytes))
        return Limits(*tighter, self.snapshots)


def _least(first: int | None, second: int | None) -> int | None:
    return second if first is None else first if second is None else min(first, second)


@dataclass(frozen=True)
class StreamOptions:
    """Hold the checked options of a streaming read. `skips`: operations of snapshots that are
    passed over; `changes`: rows are returned with their change type. `max_failures` -1: planning
    failures never end the query. `order`: that of a batch's files, None as listed. `workers`:
    threads that read manifests, None: as in batch reads."""

    strategy: StartingStrategy
    start_snapshot_id: int | None
    start_tag: str | None
    start_timestamp_ms: int | None
    branch: str
    monitor_interval_ms: int
    max_failures: int
    limits: Limits
    skips: tuple[str, ...]
    changes: bool
    on_expired: str
    on_rollback: str
    order: str | None
    watermark_column: str | None
    watermark_unit: str
    selected_fields: tuple[str, ...]
    row_filter: str | Predicate | None
    case_sensitive: bool
    zone: str
    split: Mapping[str, str] = field(hash=False)
    workers: int | None

    @property
    def lookback(self) -> int:
        """Return among how many tasks one is chosen for a file: one, which keeps files in their
        order, unless an option says more.
        """
        return int(self.split.get("lookback", 1))

    @property
    def watermark_factor(self) -> float:
        """Return milliseconds per unit of a watermark column of numbers."""
        return _UNITS[self.watermark_unit]


def stream_options(
    options: Mapping[str, Any],
    *,
    changes: bool = False,
    branch: str | None = None,
    case_sensitive: bool = True,
    zone: str = "UTC",
    as_jar: bool = False,
) -> StreamOptions:
    """Parse options by their names in any spelling. `changes` and `branch`: as the table's name
    says (`db.t.changes`). `as_jar`: the read was asked for as scripts for Java's jar do, so that
    without an option of Flink's it begins where the jar does.

    Raises InvalidInput for options that are unknown, malformed or contradictory, Unsupported for
    those of batch reads.
    """
    values = OPTIONS.read(options)
    if branch is not None and values.setdefault("branch", branch) != branch:
        raise InvalidInput(
            f"The name of the table says branch {branch!r}, the option branch {values['branch']!r}.",
            hint="Give one of them.",
        )
    flinks = any(_only_flinks(key) for key, value in options.items() if value is not None)
    skips, with_changes = _non_append(values, changes)
    time = values.get(_START_TIME.name, values.get(_JAVA_TIME.name))
    return StreamOptions(
        strategy=_strategy(values, as_jar and not flinks),
        start_timestamp_ms=None if time is None else to_milliseconds(time, zone),
        limits=Limits(*(o.of(values) for o in (_FILES, _ROWS, _BYTES, _SNAPSHOTS))),
        skips=skips,
        changes=with_changes,
        order=_order(values, with_changes),
        zone=zone,
        split={o.name: str(values[o.name]) for o in _SPLIT if o.name in values},
        **OPTIONS.fields({"case-sensitive": case_sensitive, **values}),
    )


def _only_flinks(key: str) -> bool:
    """Tell whether an option, or this spelling of one, is Flink's alone, so that the caller is a
    user of Flink.
    """
    return OPTIONS.named(key).origin == "Flink" or folded(key) in (
        "split-lookback",
        "split-file-open-cost",
    )


def _strategy(values: Mapping[str, Any], as_jar: bool) -> StartingStrategy:
    """Choose the strategy and refuse options that belong to another one. Without a choice, Flink
    begins at the latest snapshot, and Java at the first one."""
    starts = [o.name for o in (_START_ID, _START_TAG, _START_TIME) if o.name in values]
    strategy: StartingStrategy | None = _STRATEGY.of(values)
    if _JAVA_TIME.name in values:
        for key in (*([_STRATEGY.name] if strategy else []), *starts):
            text = f"Read options {_JAVA_TIME.name!r} and {key!r} both say where the stream starts."
            raise InvalidInput(text, hint="Give one of them.")
        return StartingStrategy.JAVA_TIMESTAMP
    if strategy is None:
        if starts:
            kind = "TIMESTAMP" if starts[0] == _START_TIME.name else "ID"
            raise InvalidInput(
                f"{OPTIONS.label(starts[0])} needs a starting-strategy that uses it.",
                hint=f"Set starting-strategy=INCREMENTAL_FROM_SNAPSHOT_{kind} as well.",
            )
        return StartingStrategy.EARLIEST if as_jar else StartingStrategy.LATEST
    wanted = {
        StartingStrategy.SNAPSHOT_ID: (_START_ID.name, _START_TAG.name),
        StartingStrategy.SNAPSHOT_TIMESTAMP: (_START_TIME.name,),
    }.get(strategy, ())
    if others := [key for key in starts if key not in wanted]:
        raise InvalidInput(
            f"{OPTIONS.label(others[0])} means nothing to starting-strategy={strategy}.",
            hint="Leave it out, or choose the strategy that uses it.",
        )
    if wanted and len(starts) != 1:
        each = " or ".join(wanted)
        raise InvalidInput(
            f"starting-strategy={strategy} needs {each}{', and not both' if len(wanted) > 1 else ''}."
        )
    return strategy


def _non_append(values: Mapping[str, Any], changes: bool) -> tuple[tuple[str, ...], bool]:
    """Return the operations to pass over, and whether rows are returned with their change type."""
    policy = _NON_APPEND.of(values)
    java = [o for o in _JAVA_SKIPS if o.name in values]
    if policy is not None and java:
        name = java[0].name
        raise InvalidInput(
            f"Read options 'on-non-append' and {name!r} both say what becomes of snapshots that are not appends.",
            hint=f"Give one of them; {name}=true is on-non-append=skip-{_JAVA_SKIPS[java[0]]}.",
        )
    if changes and (java or policy not in (None, CHANGES)):
        name = java[0].name if java else _NON_APPEND.name
        raise InvalidInput(
            f"{OPTIONS.label(name)} contradicts the table's name, which asks for its changes.",
            hint="Leave it out, or load the table itself.",
        )
    if policy is not None:
        return _SKIPS[policy], changes or policy == CHANGES
    return tuple(operation for o, operation in _JAVA_SKIPS.items() if o.of(values)), changes


def _order(values: Mapping[str, Any], changes: bool) -> str | None:
    """Return by what files are ordered, None as listed."""
    order, column = _ORDER.of(values), _COLUMN.of(values)
    if order == WATERMARK and column is None:
        raise InvalidInput(
            "order-by=watermark needs watermark-column.",
            hint="Name the column by whose lowest values files are ordered.",
        )
    if order == SEQUENCE and column is not None:
        text = "order-by=sequence and watermark-column contradict each other: that column orders files."
        raise InvalidInput(text, hint="Leave one of them out.")
    if _UNIT.name in values and column is None:
        raise InvalidInput(f"{OPTIONS.label(_UNIT.name)} needs watermark-column.")
    ordering = [o.name for o in (_ORDER, _COLUMN) if o.name in values]
    if changes and ordering:
        raise InvalidInput(
            f"{OPTIONS.label(ordering[0])} means nothing to changes, which come in the order of snapshots.",
            hint="Leave it out.",
        )
    if ordering and "lookback" in values:
        raise InvalidInput(
            "Read option 'lookback' contradicts the order of files, in which they are packed into tasks.",
            hint=f"Leave it out, or {ordering[-1]}.",
        )
    return WATERMARK if column is not None else order
