"""Decide when a stream's maintenance tasks are due: `maintenance.<task>.every-…`, counted since the
task ran last, as in Flink's triggers.

Counts come from the summaries of the snapshots that operations other than maintenance have added to
the branch. So they include the commits of all writers, and cost one look at the newest snapshots
per batch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import islice
from typing import Any

from frazil.commit.history import holds_the_same_rows
from frazil.errors import InvalidInput
from frazil.maintain.procedures import PROCEDURES
from frazil.maintain.stream_upkeep.lease import LEASE_SECONDS
from frazil.spec import options
from frazil.spec.metadata import TableMetadata
from frazil.spec.options import BOOLEAN, DURATION, POSITIVE, TEXT, Option, OptionTable
from frazil.spec.snapshot import Snapshot

PREFIX = "maintenance."
TASKS = tuple(p.task.name for p in PROCEDURES if p.task is not None)
"""In the order in which tasks run that are due at the same time: what one leaves, the next removes.
"""
READ_BACK = 100
"""How many snapshots are looked at to count what happened before a query began, as in Flink."""

COUNTS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "commits": ("this many commits", ()),
    "data-files": ("this many data files", ("added-data-files",)),
    "data-file-size": ("data files of this many bytes", ("added-files-size",)),
    "delete-files": ("this many delete files", ("added-delete-files",)),
    "delete-records": ("this many deletes of rows", ("added-position-deletes", "added-equality-deletes")),
    "position-delete-records": ("this many position deletes", ("added-position-deletes",)),
    "equality-delete-records": ("this many equality deletes", ("added-equality-deletes",)),
    "equality-delete-files": ("this many equality delete files", ("added-equality-delete-files",)),
}  # fmt: skip
"""What is counted: its name in a text, and the entries of snapshot summaries that say how much."""
INTERVAL = "interval"
DEFAULTS: Mapping[
    str, Mapping[str, int]
] = {  # of `maintenance.<task>.enabled=true`: those of Flink's sink, where it has the task
    "convert": {"equality-delete-files": 100, "commits": 100},
    "rewrite": {"commits": 10, "data-files": 1000, "data-file-size": 100 << 30, INTERVAL: 600_000},
    "manifests": {"commits": 100},
    "expire": {"commits": 10, INTERVAL: 3_600_000},
    "orphans": {INTERVAL: 86_400_000},
}


@dataclass(frozen=True)
class TaskOptions:
    """Hold when a task runs (`limits`: it is due when one of these counts is reached; `interval` in
    milliseconds), and its arguments.
    """

    task: str
    limits: Mapping[str, int]
    arguments: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class UpkeepOptions:
    """Hold the options `maintenance.…` of a stream. `lease_seconds`: after this time another owner
    may begin a task. `rest_seconds`: the least time between the beginnings of tasks that are due
    after different commits (the rate limit)."""

    tasks: tuple[TaskOptions, ...]
    lease_seconds: float = LEASE_SECONDS
    rest_seconds: float = 0.0


_ENABLED, _EVERY = "enabled", "every-"
_TASK = f"{PREFIX}<task>."
_LEASE = Option(f"{PREFIX}lease-duration", DURATION, LEASE_SECONDS * 1000,
    text="Only one task at a time maintains a table, whichever query it belongs to. After this time another one may begin, or as soon as "
    "the first one's process, on the same machine, has ended.")  # fmt: skip
_REST = Option(f"{PREFIX}rate-limit", DURATION, 0, otherwise="none (Flink: 60 s)",
    text="Between the beginnings of two tasks that are due after different commits there is at least this time.")  # fmt: skip
_TRIGGERS: tuple[Option[Any, None], ...] = (
    Option(f"{_TASK}{_ENABLED}", BOOLEAN, None, otherwise="the task runs if one of its triggers is given",
        text="`true`: the task runs with Flink's triggers, unless others are given; see below. `false`: it does not run."),
    Option(f"{_TASK}{_EVERY}{INTERVAL}", options.INTERVAL, None, text="The task is due when this time has passed since it ran last."),
    *(Option(f"{_TASK}{_EVERY}{count}", POSITIVE, None,
        text=f"The task is due when {text} were added to the branch since it ran last.") for count, (text, _) in COUNTS.items()),
)  # fmt: skip
OPTIONS = OptionTable(f"option of maintenance (tasks: {', '.join(sorted(TASKS))})", (
    _LEASE, _REST, *(replace(o, name=o.name.replace("<task>", task)) for task in TASKS for o in _TRIGGERS),
), families=(*_TRIGGERS, Option(f"{_TASK}<argument>", TEXT, None,
    text="This is an argument of the task's procedure, see below.")))  # fmt: skip


def upkeep_options(options: Mapping[str, Any]) -> tuple[UpkeepOptions | None, dict[str, Any]]:
    """Separate the options of upkeep from others, and check them; None where there are none.

    Raises InvalidInput for tasks and values that are not valid, and for arguments of a task without
    anything that triggers it.
    """
    own = {k: v for k, v in options.items() if k.lower().startswith(PREFIX) and v is not None}
    rest = {k: v for k, v in options.items() if not k.lower().startswith(PREFIX)}
    if not own:
        return None, rest
    arguments = {k: v for k, v in own.items() if _is_argument(k)}
    values = OPTIONS.read({k: v for k, v in own.items() if k not in arguments})
    names = {k: k.lower().replace("_", "-") for k in arguments}
    tasks = (
        _task(t, _of_task(t, values), _of_task(t, {names[k]: v for k, v in arguments.items()}))
        for t in TASKS
    )
    return UpkeepOptions(
        tuple(t for t in tasks if t is not None), _LEASE.of(values) / 1000, _REST.of(values) / 1000
    ), rest


def _is_argument(key: str) -> bool:
    """Tell whether an option is an argument of a task's procedure: neither one of maintenance nor a
    misspelt trigger.
    """
    task, _, word = key.lower().replace("_", "-").removeprefix(PREFIX).partition(".")
    return (
        OPTIONS.find(key) is None and task in TASKS and word != "" and not word.startswith(_EVERY)
    )


def _of_task(task: str, values: Mapping[str, Any]) -> dict[str, Any]:
    prefix = f"{PREFIX}{task}."
    return {name[len(prefix) :]: value for name, value in values.items() if name.startswith(prefix)}


def _task(task: str, words: Mapping[str, Any], arguments: Mapping[str, Any]) -> TaskOptions | None:
    enabled = words.get(_ENABLED)
    limits = {word.removeprefix(_EVERY): value for word, value in words.items() if word != _ENABLED}
    if enabled is False or not (words or arguments):
        return None
    if not limits and not enabled:
        hint = f"{PREFIX}{task}.every-commits=10, for example, or {PREFIX}{task}.enabled=true for the usual triggers."
        raise InvalidInput(
            f"Nothing says when the maintenance task {task} shall run.",
            hint=hint,
            option=f"{PREFIX}{task}",
        )
    return TaskOptions(task, limits or DEFAULTS[task], arguments)


@dataclass(frozen=True)
class Counted:
    """Hold the counts of a branch since a task ran last. `seen`: the snapshot up to which commits
    are counted; `since_ms`: when the task ran last, or when counting began."""

    since_ms: int
    seen: int | None = None
    counts: Mapping[str, int] = field(default_factory=dict)

    def up_to(self, metadata: TableMetadata, branch: str) -> Counted:
        """Add the snapshots that the branch has had since."""
        counts = dict(self.counts)
        head = metadata.branch_head(branch)
        for snapshot in islice(metadata.ancestors(head), READ_BACK):
            if snapshot.snapshot_id == self.seen or snapshot.timestamp_ms < self.since_ms:
                break
            if holds_the_same_rows(snapshot):
                continue
            for name, (_, entries) in COUNTS.items():
                counts[name] = counts.get(name, 0) + (
                    sum(_number(snapshot, e) for e in entries) if entries else 1
                )
        return replace(self, seen=None if head is None else head.snapshot_id, counts=counts)

    def is_due(self, options: TaskOptions, now_ms: int) -> str | None:
        """Return why a task is due, as "commits 12 of 10"; None: it is not."""
        for name, limit in options.limits.items():
            count = now_ms - self.since_ms if name == INTERVAL else self.counts.get(name, 0)
            if count >= limit:
                since = datetime.fromtimestamp(self.since_ms / 1000, UTC).isoformat(
                    timespec="seconds"
                )
                return (
                    f"the last run was at {since}"
                    if name == INTERVAL
                    else f"{name} {count:,} of {limit:,}"
                )
        return None


def _number(snapshot: Snapshot, entry: str) -> int:
    text = snapshot.summary.get(entry, "0")
    return int(text) if text.isdigit() else 0
