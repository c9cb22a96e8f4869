"""Parse the options of a streaming read: Flink's, Java's and Frazil's names, checked against each
other.

Options that contradict each other, have no effect or are unknown are refused by name, with a hint
of what to write instead.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from frazil.errors import InvalidInput, Unsupported
from frazil.expr.nodes import Predicate
from frazil.ops.reading import predicate_of
from frazil.scan.options import split_options
from frazil.scan.read_hints import VECTORIZATION, VECTORIZED, ReadHint, check_hints
from frazil.scan.snapshot_ref import to_milliseconds
from frazil.spec.kinds import DURATION
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
_POLICIES = ("fail", "earliest", "latest")
_START = ("start-snapshot-id", "start-snapshot-timestamp", "start-tag")
_WORKERS = "table.exec.iceberg.worker-pool-size"
_FLINK = (
    "starting-strategy",
    *_START,
    "monitor-interval",
    "max-planning-snapshot-count",
    "max-allowed-planning-failures",
    _WORKERS,
)
_ONLY_FLINKS = {
    *_FLINK,
    "watermark-column",
    "watermark-column-time-unit",
    "case-sensitive",
    "streaming",
    "split-lookback",
    "split-file-open-cost",
}
"""Options by which a read is one of a Flink user. The jar has `branch` and `split-size`, too, and
Frazil's own say nothing of it.
"""
_JAVA_SKIPS = {
    "streaming-skip-overwrite-snapshots": "overwrite",
    "streaming-skip-delete-snapshots": "delete",
}
_JAVA_LIMITS = ("streaming-max-files-per-micro-batch", "streaming-max-rows-per-micro-batch")
_JAVA = ("stream-from-timestamp", *_JAVA_SKIPS, *_JAVA_LIMITS)
_BYTES = "streaming-max-bytes-per-micro-batch"
_SPLITS = {"split-size": "split-size", "lookback": "lookback", "split-lookback": "lookback", "file-open-cost": "file-open-cost",
           "split-file-open-cost": "file-open-cost"}  # fmt: skip
_HINTS = {
    VECTORIZATION: VECTORIZED,
    "locality": ReadHint(False, "the tasks of a Python source name no hosts"),
}
_OWN = (
    "branch", _BYTES, "on-non-append", "on-expired", "on-rollback", "watermark-column", "watermark-column-time-unit", "order-by",
    "selected-fields", "row-filter", "case-sensitive", "streaming",
)  # fmt: skip
KNOWN = (*_FLINK, *_JAVA, *_OWN, *_SPLITS, *_HINTS)
_STREAMS_START = "a stream starts where starting-strategy says: use start-snapshot-id, start-tag or start-snapshot-timestamp"
_REFUSED = {
    "snapshot-id": _STREAMS_START, "tag": _STREAMS_START, "as-of-timestamp": _STREAMS_START, "versionasof": _STREAMS_START,
    "timestampasof": _STREAMS_START, "start-timestamp": _STREAMS_START,
    "end-snapshot-id": "a stream has no end; trigger(availableNow=True) reads up to the newest snapshot",
    "end-tag": "a stream has no end; trigger(availableNow=True) reads up to the newest snapshot",
    "end-timestamp": "a stream has no end; trigger(availableNow=True) reads up to the newest snapshot",
    "limit": "a stream has no last row; use limit() of the frame in a batch read",
    "async-micro-batch-planning-enabled": "batches are planned when they are wanted; leave it out",
    "streaming-snapshot-polling-interval-ms": "use monitor-interval",
    "async-queue-preload-file-limit": "batches are planned when they are wanted; leave it out",
    "async-queue-preload-row-limit": "batches are planned when they are wanted; leave it out",
    "include-column-stats": "statistics of files are not part of rows; leave it out",
    "table.exec.iceberg.infer-source-parallelism": "tasks follow from split-size",
    "table.exec.iceberg.infer-source-parallelism.max": "tasks follow from split-size",
    "table.exec.iceberg.fetch-batch-record-count": "set spark.sql.parquet.columnarReaderBatchSize",
    "table.exec.iceberg.split-assigner-type": "use order-by",
    "table.exec.iceberg.expose-split-locality-info": "leave it out",
}  # fmt: skip
_UNITS = {
    "days": 86_400_000.0, "hours": 3_600_000.0, "minutes": 60_000.0, "seconds": 1000.0, "milliseconds": 1.0, "microseconds": 1e-3,
    "nanoseconds": 1e-6,
}  # fmt: skip


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

    strategy: StartingStrategy = StartingStrategy.LATEST
    start_snapshot_id: int | None = None
    start_tag: str | None = None
    start_timestamp_ms: int | None = None
    branch: str = MAIN_BRANCH
    monitor_interval_ms: int = 60_000
    max_failures: int = 3
    limits: Limits = Limits()
    skips: tuple[str, ...] = ()
    changes: bool = False
    on_expired: str = "fail"
    on_rollback: str = "fail"
    order: str | None = None
    watermark_column: str | None = None
    watermark_unit: str = "microseconds"
    selected_fields: tuple[str, ...] = ("*",)
    row_filter: str | Predicate | None = None
    case_sensitive: bool = True
    zone: str = "UTC"
    split: Mapping[str, str] = field(default_factory=dict, hash=False)
    workers: int | None = None

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
    """Parse options by their names in any case, `_` for `-`. `changes` and `branch`: as the table's
    name says (`db.t.changes`). `as_jar`: the read was asked for as scripts for Java's jar do, so
    that without an option of Flink's it begins where the jar does.

    Raises InvalidInput for options that are unknown, malformed or contradictory, Unsupported for
    those of batch reads.
    """
    texts = _by_name(options)
    _refuse_unknown(texts)
    strategy = _strategy(texts, as_jar)
    skips, with_changes = _non_append(texts, changes)
    order, column = _order(texts, with_changes)
    if branch is not None and texts.get("branch", branch) != branch:
        raise InvalidInput(
            f"The name of the table says branch {branch!r}, the option branch {texts['branch']!r}.",
            hint="Give one of them.",
        )
    if order is not None and (
        lookback := next((k for k in ("lookback", "split-lookback") if k in texts), None)
    ):
        text = f"Read option {lookback!r} contradicts the order of files, in which they are packed into tasks."
        raise InvalidInput(
            text, hint=f"Leave it out, or {'watermark-column' if column else 'order-by'}."
        )
    splits = {_SPLITS[k]: v for k, v in texts.items() if k in _SPLITS}
    split_options(
        {}, splits
    )  # so that sizes that are not valid are refused before the query starts
    names = texts.get("selected-fields")
    return StreamOptions(
        strategy,
        _number(texts, "start-snapshot-id", low=None),
        texts.get("start-tag"),
        _time(texts, zone),
        branch or texts.get("branch", MAIN_BRANCH),
        DURATION.parse(
            "monitor-interval", texts.get("monitor-interval", "60s"), option="monitor-interval"
        ),
        _failures(texts),
        _limits(texts),
        skips,
        with_changes,
        _one_of(texts, "on-expired"),
        _one_of(texts, "on-rollback"),
        order,
        column,
        _unit(texts, column),
        ("*",) if names is None else _names(names),
        _filter(options, texts),
        _flag(texts, "case-sensitive", case_sensitive),
        zone,
        splits,
        _number(texts, _WORKERS),
    )


def _by_name(options: Mapping[str, Any]) -> dict[str, str]:
    """Return options by their names in lower case with dashes. Raises InvalidInput for one that is
    given twice with different values.
    """
    texts: dict[str, str] = {}
    for key, value in options.items():
        name = str(key).lower().replace("_", "-")
        if value is None:
            continue
        text = (
            str(value).lower()
            if isinstance(value, bool)
            else _joined(value)
            if isinstance(value, list | tuple)
            else str(value)
        )
        if texts.setdefault(name, text) != text:
            raise InvalidInput(
                f"Read option {name!r} is given twice, as {texts[name]!r} and as {text!r}."
            )
    for name_a, name_b in (
        ("lookback", "split-lookback"),
        ("file-open-cost", "split-file-open-cost"),
    ):
        if name_a in texts and name_b in texts:
            raise InvalidInput(
                f"Read options {name_a!r} and {name_b!r} are two names of one thing.",
                hint="Give one of them.",
            )
    return texts


def _joined(names: list[Any] | tuple[Any, ...]) -> str:
    return ",".join(str(n) for n in names)


def _refuse_unknown(texts: Mapping[str, str]) -> None:
    for key in texts:
        if reason := _REFUSED.get(key):
            raise Unsupported(f"Read option {key!r} is not for streams: {reason}.")
        if key not in KNOWN:
            similar = difflib.get_close_matches(key, KNOWN, 1, 0.8)
            suggestion = f" Did you mean {similar[0]!r}?" if similar else ""
            raise InvalidInput(
                f"Unknown option of a streaming read: {key!r}.{suggestion}",
                hint=f"Known: {', '.join(sorted(KNOWN))}.",
            )
    check_hints(texts, _HINTS)
    if not _flag(texts, "streaming", True):
        raise InvalidInput(
            "Read option 'streaming' is false, but this is a streaming read.",
            hint="Use spark.read for a batch read.",
        )


def _strategy(texts: Mapping[str, str], as_jar: bool) -> StartingStrategy:
    """Choose the strategy and refuse options that belong to another one. Without a choice, Flink
    begins at the latest snapshot, and Java at the first one."""
    if "stream-from-timestamp" in texts:
        for key in ("starting-strategy", *_START):
            if key in texts:
                text = f"Read options 'stream-from-timestamp' and {key!r} both say where the stream starts."
                raise InvalidInput(text, hint="Give one of them.")
        return StartingStrategy.JAVA_TIMESTAMP
    named = texts.get("starting-strategy")
    if named is None:
        if early := [k for k in _START if k in texts]:
            kind = "TIMESTAMP" if early[0].endswith("timestamp") else "ID"
            text = f"Read option {early[0]!r} needs a starting-strategy that uses it."
            raise InvalidInput(
                text, hint=f"Set starting-strategy=INCREMENTAL_FROM_SNAPSHOT_{kind} as well."
            )
        return (
            StartingStrategy.EARLIEST
            if as_jar and not _ONLY_FLINKS & texts.keys()
            else StartingStrategy.LATEST
        )
    strategy = next((s for s in FLINK_STRATEGIES if s.value == named.strip().upper()), None)
    if strategy is None:
        raise InvalidInput(
            f"Unknown starting-strategy {named!r}.", hint=f"Known: {', '.join(FLINK_STRATEGIES)}."
        )
    wanted = {
        StartingStrategy.SNAPSHOT_ID: ("start-snapshot-id", "start-tag"),
        StartingStrategy.SNAPSHOT_TIMESTAMP: (_START[1],),
    }.get(strategy, ())
    for key in _START:
        if key in texts and key not in wanted:
            text = f"Read option {key!r} means nothing to starting-strategy={strategy.value}."
            raise InvalidInput(text, hint="Leave it out, or choose the strategy that uses it.")
    if wanted and sum(k in texts for k in wanted) != 1:
        each = " or ".join(wanted)
        raise InvalidInput(
            f"starting-strategy={strategy.value} needs {each}{', and not both' if len(wanted) > 1 else ''}."
        )
    return strategy


def _non_append(texts: Mapping[str, str], changes: bool) -> tuple[tuple[str, ...], bool]:
    """Return the operations to pass over, and whether rows are returned with their change type."""
    policy = texts.get("on-non-append")
    java = [k for k in _JAVA_SKIPS if k in texts]
    if policy is not None and java:
        text = f"Read options 'on-non-append' and {java[0]!r} both say what becomes of snapshots that are not appends."
        raise InvalidInput(
            text,
            hint=f"Give one of them; {java[0]}=true is on-non-append=skip-{_JAVA_SKIPS[java[0]]}.",
        )
    if policy is not None and policy.lower() not in _SKIPS:
        raise InvalidInput(f"Read option 'on-non-append' is {', '.join(_SKIPS)}, not {policy!r}.")
    if changes and (java or policy not in (None, CHANGES)):
        text = f"Read option {java[0] if java else 'on-non-append'!r} contradicts the table's name, which asks for its changes."
        raise InvalidInput(text, hint="Leave it out, or load the table itself.")
    if policy is not None:
        return _SKIPS[policy.lower()], changes or policy.lower() == CHANGES
    return tuple(_JAVA_SKIPS[k] for k in java if _flag(texts, k, False)), changes


def _order(texts: Mapping[str, str], changes: bool) -> tuple[str | None, str | None]:
    order, column = texts.get("order-by"), texts.get("watermark-column")
    if order is not None and order.lower() not in (SEQUENCE, WATERMARK):
        raise InvalidInput(f"Read option 'order-by' is {SEQUENCE} or {WATERMARK}, not {order!r}.")
    if order is not None and order.lower() == WATERMARK and column is None:
        raise InvalidInput(
            "order-by=watermark needs watermark-column.",
            hint="Name the column by whose lowest values files are ordered.",
        )
    if order is not None and order.lower() == SEQUENCE and column is not None:
        text = "order-by=sequence and watermark-column contradict each other: that column orders files."
        raise InvalidInput(text, hint="Leave one of them out.")
    if changes and (order is not None or column is not None):
        key = "order-by" if order is not None else "watermark-column"
        raise InvalidInput(
            f"Read option {key!r} means nothing to changes, which come in the order of snapshots.",
            hint="Leave it out.",
        )
    return (
        WATERMARK if column is not None else order.lower() if order is not None else None
    ), column


def _unit(texts: Mapping[str, str], column: str | None) -> str:
    unit = texts.get("watermark-column-time-unit")
    if unit is not None and column is None:
        raise InvalidInput("Read option 'watermark-column-time-unit' needs watermark-column.")
    if unit is not None and unit.lower() not in _UNITS:
        raise InvalidInput(
            f"Read option 'watermark-column-time-unit' is one of {', '.join(_UNITS)}, not {unit!r}."
        )
    return (unit or "microseconds").lower()


def _limits(texts: Mapping[str, str]) -> Limits:
    files, rows = (_number(texts, k) for k in _JAVA_LIMITS)
    return Limits(
        files, rows, _number(texts, _BYTES), _number(texts, "max-planning-snapshot-count")
    )


def _failures(texts: Mapping[str, str]) -> int:
    number = _number(texts, "max-allowed-planning-failures", low=-1)
    return 3 if number is None else number


def _time(texts: Mapping[str, str], zone: str) -> int | None:
    key = next(
        (k for k in ("start-snapshot-timestamp", "stream-from-timestamp") if k in texts), None
    )
    return None if key is None else to_milliseconds(texts[key], zone)


def _one_of(texts: Mapping[str, str], key: str) -> str:
    text = texts.get(key, "fail").lower()
    if text not in _POLICIES:
        raise InvalidInput(f"Read option {key!r} is {', '.join(_POLICIES)}, not {texts[key]!r}.")
    return text


def _number(texts: Mapping[str, str], key: str, low: int | None = 1) -> int | None:
    if (text := texts.get(key)) is None:
        return None
    digits = text.strip()
    if re.fullmatch(r"[+-]?[0-9]+", digits) is None or (low is not None and int(digits) < low):
        raise InvalidInput(
            f"Read option {key!r} is a whole number{'' if low is None else f' of at least {low}'}, not {text!r}."
        )
    return int(digits)


def _flag(texts: Mapping[str, str], key: str, otherwise: bool) -> bool:
    text = texts.get(key, str(otherwise)).strip().lower()
    if text not in ("true", "false"):
        raise InvalidInput(f"Read option {key!r} is true or false, not {texts[key]!r}.")
    return text == "true"


def _names(text: str) -> tuple[str, ...]:
    names = tuple(n.strip() for n in text.split(",") if n.strip())
    if not names:
        raise InvalidInput(
            "Read option 'selected_fields' names no column.",
            hint="selected_fields=id,name reads these two.",
        )
    return names


def _filter(options: Mapping[str, Any], texts: Mapping[str, str]) -> str | Predicate | None:
    """Return the filter as it was given: text, or an expression of Python. Raises InvalidInput for
    a Spark Column.
    """
    values = (v for k, v in options.items() if str(k).lower().replace("_", "-") == "row-filter")
    condition = next((v for v in values if v is not None), None)
    return (
        texts.get("row-filter")
        if condition is None or isinstance(condition, str)
        else predicate_of(condition)
    )
