"""Run procedures as a stream's maintenance tasks, with the arguments that the options
`maintenance.<task>.<argument>` give.

Arguments are checked when the query starts. Times are given as ages, since a fixed moment would be
wrong after the query has run for a while.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from frazil.commit.apply import now_millis
from frazil.errors import InvalidInput
from frazil.maintain.compact.options import compaction_options
from frazil.maintain.compact.procedure import rewrite_data_files
from frazil.maintain.orphans.remove_orphan_files import (
    OrphanRequest,
    remove_orphan_files,
    request_of,
)
from frazil.maintain.position_deletes.convert_equality import convert_equality_deletes
from frazil.maintain.procedure import MaintainedTable, ProcedureResult
from frazil.maintain.procedures import PROCEDURES
from frazil.maintain.rewrite_manifests import rewrite_manifests
from frazil.maintain.snapshots.expire_snapshots import expire_snapshots
from frazil.maintain.snapshots.retention import RetentionRequest
from frazil.maintain.stream_upkeep.triggers import PREFIX, UpkeepOptions
from frazil.maintain.stream_upkeep.upkeep import RunTask, Told, Upkeep
from frazil.spec.metadata import TableMetadata
from frazil.spec.options import BOOLEAN, DURATION, NATURAL, POSITIVE, ValueKind

T = TypeVar("T")
Arguments = Mapping[str, Any]
_LEAST_AGE_MS = 86_400_000
_WORDS = {p.task.name: p.task for p in PROCEDURES if p.task is not None}


def upkeep(options: UpkeepOptions, metadata: TableMetadata, on_task: Told | None = None) -> Upkeep:
    """Make the object that maintains a stream's table. Raises InvalidInput for arguments that a
    task does not have or cannot take.
    """
    return Upkeep(
        options, {t.task: _TASKS[t.task](t.arguments, metadata) for t in options.tasks}, on_task
    )


def _rewrite(arguments: Arguments, metadata: TableMetadata) -> RunTask:
    """Check the arguments of a compaction: all but `strategy`, `sort-order` and `where` are its
    options, such as `min-input-files`.
    """
    words = _WORDS["rewrite"].words
    strategy, sort_order, where = (arguments.get(word) for word in words)
    options = {k: v for k, v in arguments.items() if k not in words}
    chosen = strategy or ("binpack" if sort_order is None else "sort")
    compaction_options(options, metadata, str(chosen).lower())
    return lambda table, branch: rewrite_data_files(
        table, strategy, sort_order, options, where, branch
    )


def _convert(arguments: Arguments, metadata: TableMetadata) -> RunTask:
    _refuse_others("convert", arguments)
    return lambda table, branch: convert_equality_deletes(table, arguments.get("where"), branch)


def _manifests(arguments: Arguments, metadata: TableMetadata) -> RunTask:
    """Rewrite the manifests of main; a stream into another branch cannot have it."""
    _refuse_others("manifests", arguments)
    spec_id = _value("manifests", "spec-id", NATURAL, arguments)
    return lambda table, branch: rewrite_manifests(table, spec_id)


def _expire(arguments: Arguments, metadata: TableMetadata) -> RunTask:
    _refuse_others("expire", arguments)
    age = _value("expire", "max-snapshot-age", DURATION, arguments)
    retain = _value("expire", "retain-last", POSITIVE, arguments)
    clean = _value("expire", "clean-expired-metadata", BOOLEAN, arguments) or False

    def run(table: MaintainedTable, branch: str) -> ProcedureResult:
        older_than = None if age is None else now_millis() - age
        return expire_snapshots(
            table, RetentionRequest(older_than, retain), clean_expired_metadata=clean
        )

    return run


def _orphans(arguments: Arguments, metadata: TableMetadata) -> RunTask:
    _refuse_others("orphans", arguments)
    age = _value("orphans", "min-age", DURATION, arguments)
    if age is not None and age < _LEAST_AGE_MS:
        name = f"{PREFIX}orphans.min-age"
        raise InvalidInput(
            f"{name} must be at least a day, since younger files may belong to writes that are running.",
            option=name,
        )
    location, mode = arguments.get("location"), arguments.get("prefix-mismatch-mode")

    def request() -> OrphanRequest:
        return request_of(
            None if age is None else now_millis() - age - 1000,
            location,
            None,
            None,
            None,
            mode,
            False,
            False,
        )

    request()
    return lambda table, branch: remove_orphan_files(table, request())


_TASKS: Mapping[str, Callable[[Arguments, TableMetadata], RunTask]] = {
    "convert": _convert, "rewrite": _rewrite, "manifests": _manifests, "expire": _expire, "orphans": _orphans,
}  # fmt: skip


def _refuse_others(task: str, arguments: Arguments) -> None:
    words = _WORDS[task].words
    for word in arguments:
        if word not in words:
            hint = f"It has {', '.join(words)}; triggers begin with every-."
            raise InvalidInput(
                f"{PREFIX}{task} has no argument {word!r}.",
                hint=hint,
                option=f"{PREFIX}{task}.{word}",
            )


def _value(task: str, word: str, kind: ValueKind[T], arguments: Arguments) -> T | None:
    name = f"{PREFIX}{task}.{word}"
    return None if (value := arguments.get(word)) is None else kind.parse(name, value, option=name)
