"""DELETE, UPDATE and OVERWRITE by rows, as steps of a transaction.

plan -> files that match wholly (they just go) and the rest -> groups -> Runner -> Changed -> one action.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from frazil.arrow.deletes.delete_files import DeleteCache, positions_of
from frazil.commit.actions import DeleteFiles, OverwriteFiles
from frazil.errors import InvalidInput, ParseError, Unsupported
from frazil.expr.bind import bind, bind_term
from frazil.expr.nodes import AlwaysTrue, Expression, Predicate
from frazil.rows.assign import bind_update
from frazil.rows.change import ChangeContext, Changed
from frazil.rows.delete import DeleteDecider
from frazil.rows.modes import COPY_ON_WRITE, OF_DELETES, Kind, Mode, mode_of
from frazil.rows.update import UpdateDecider
from frazil.scan.plan import Plan
from frazil.scan.tasks import TaskSequence
from frazil.spec.data_file import DataFileContent
from frazil.storage import Storage
from frazil.table import write
from frazil.table.frames import is_spark_column, spark_room
from frazil.table.scan import predicate_of
from frazil.table.step import Step
from frazil.table.write import StagedWrite

R = TypeVar("R")
_DELETE_CACHE = 64 << 20


def condition_of(where: Any) -> Predicate:
    """A condition as typed. Raises ParseError for text outside the grammar, InvalidInput for what is no condition."""
    if isinstance(where, bool):
        where = "true" if where else "false"
    if is_spark_column(where):  # Spark may know what to do with it
        raise Unsupported("A Spark Column is a condition for Spark only.", hint="Give spark=, or a string.")
    return predicate_of(where)


def in_grammar(step: Step, make: Callable[[], R]) -> R | None:
    """What `make` binds; None: it is beyond Frazil's grammar, and there is a session whose SQL may know it."""
    try:
        return make()
    except (ParseError, Unsupported):
        if step.spark is None:
            raise
        return None


def stage_delete(step: Step, where: Any, mode: str | None = None) -> StagedWrite:
    """DELETE: whole files go by metadata alone; of the others the rows for which the condition is TRUE."""
    chosen = mode_of("delete", step.metadata, mode, step.to.options)
    bound = in_grammar(step, lambda: _bound(step, where))
    if bound is None:
        return _by_spark(step, "delete", chosen, where)
    found = step.plan(bound, to_remove=True)
    wholly, rest = step.split(found)
    if not rest:
        return _whole_files(step, bound, wholly)
    read = step.read(found)
    changed = step.change(rest, step.context(found, chosen, DeleteDecider.of(read)), found)
    deleted = changed.deleted + live_rows(wholly, step.storage)
    changed = replace(changed, removed=(*changed.removed, *(t.file for t in wholly)), deleted=deleted)
    return step.staged_change("delete", chosen, changed, bound)


def _bound(step: Step, where: Any) -> Predicate:
    """The condition, known to fit the table."""
    predicate = condition_of(where)
    bind(predicate, step.schema, case_sensitive=step.case_sensitive, zone=step.zone, ansi=step.ansi)
    return predicate


def _whole_files(step: Step, where: Predicate, wholly: TaskSequence) -> StagedWrite:
    """As Java's metadata delete: the filter is asked again at each attempt, files that match only in part by then are refused."""
    action = DeleteFiles(row_filter=where, **step.names, **step.target_fields)
    metrics = {"rows_deleted": live_rows(wholly, step.storage)}
    return StagedWrite((action,), (), time.perf_counter() - step.started, metrics)


def stage_overwrite(step: Step, frame: Any, where: Any) -> StagedWrite:
    """OVERWRITE by a filter: the rows that match go, those of the frame come. Files that match in part keep their other rows, as
    write.delete.mode says; then at least the deletes of others are checked, as for any row-level change."""
    given = COPY_ON_WRITE if isinstance(where, AlwaysTrue) else None
    if any(step.to.options.asks_for(name) for name in OF_DELETES):  # refused before anything is read
        mode_of("delete", step.metadata, given, step.to.options)
    bound = in_grammar(step, lambda: _bound(step, where))
    if bound is None:
        chosen = mode_of("delete", step.metadata, given)
        made = _made_by_spark(step, "delete", chosen, where)
        return _replaced(step, chosen, frame, made.changed, made.conflict_filter, made.deleted)
    found = step.plan(bound, to_remove=True)
    wholly, rest = step.split(found)
    if not rest:
        checks = {"starting_snapshot_id": step.start, **step.names}
        written = write.stage_overwrite(frame, step.metadata, step.storage, step.to, bound, checks)
        return replace(written, metrics={**written.metrics, "rows_deleted": live_rows(wholly, step.storage)})
    chosen = mode_of("delete", step.metadata, given)
    changed = step.change(rest, step.context(found, chosen, DeleteDecider.of(step.read(found))), found)
    deleted = changed.deleted + live_rows(wholly, step.storage)
    return _replaced(step, chosen, frame, replace(changed, removed=(*changed.removed, *(t.file for t in wholly))), bound, deleted)


def _replaced(step: Step, mode: Mode, frame: Any, changed: Changed, where: Predicate, deleted: int) -> StagedWrite:
    """Rows that went and the frame's, as one action."""
    with step.nothing_left():
        written = write.stage_overwrite(frame, step.metadata, step.storage, step.to, where)
    counts = {"rows_inserted": sum(f.record_count for f in written.files), "rows_deleted": deleted}
    both = replace(changed, added=(*changed.added, *written.files))
    staged = step.staged_change("delete", mode, both, where, counts, step.to.options.isolation_level or "snapshot")
    evolved = tuple(a for a in written.actions if not isinstance(a, OverwriteFiles))
    return replace(staged, actions=(*evolved, *staged.actions[-1:]))


def live_rows(wholly: TaskSequence, storage: Storage) -> int:
    """Rows of whole files, less those deleted by position; rows that equality deletes have deleted still count, as in Java's summaries."""
    total, cache = 0, DeleteCache(_DELETE_CACHE)
    for group in wholly.groups:
        total += pc.sum(group.table.column("record_count")).as_py() or 0
        for task in TaskSequence((group.chosen(pa.array(group.has_deletes)),)):
            if positional := [d for d in task.delete_files if d.content == DataFileContent.POSITION_DELETES]:
                total -= len(positions_of(task.file, positional, storage, cache))
    return total


def stage_update(step: Step, given: Mapping[str, Any], where: Any = None, mode: str | None = None) -> StagedWrite:
    """UPDATE: new values for the rows for which the condition is TRUE (None: all rows)."""
    if not given:
        raise InvalidInput("update needs at least one column: set={'column': 'expression'}.")
    chosen = mode_of("update", step.metadata, mode, step.to.options)
    where = AlwaysTrue() if where is None else where

    def made() -> tuple[Predicate, Any]:
        def term(expression: Expression) -> Any:
            return bind_term(expression, step.schema, case_sensitive=step.case_sensitive, zone=step.zone, ansi=step.ansi)

        if any(is_spark_column(v) for v in given.values()):
            raise Unsupported("A Spark Column is a value for Spark only.", hint="Give spark=, or an expression as text.")
        return _bound(step, where), bind_update(step.schema, given.items(), term, zone=step.zone, case_sensitive=step.case_sensitive)

    bound = None if step.shuffles("update") else in_grammar(step, made)
    if bound is None:
        return _by_spark(step, "update", chosen, where, given)
    predicate, assignments = bound
    found = step.plan(predicate)
    decider = UpdateDecider.of(step.read(found), assignments, step.lineage)
    changed = step.change(list(step.tasks(found)), step.context(found, chosen, decider), found)
    return step.staged_change("update", chosen, changed, predicate)


def _by_spark(step: Step, kind: Kind, mode: Mode, where: Any, given: Mapping[str, Any] | None = None) -> StagedWrite:
    made = _made_by_spark(step, kind, mode, where, given)
    metrics = {"rows_updated": made.updated, "rows_deleted": made.deleted}
    return step.staged_change(kind, mode, made.changed, made.conflict_filter, metrics)


def _made_by_spark(step: Step, kind: Kind, mode: Mode, where: Any, given: Mapping[str, Any] | None = None) -> Any:
    """Spark finds the rows by its own SQL; its tasks take them away as for any other change."""
    room = spark_room("dml.row_changes")

    def context_of(found: Plan) -> ChangeContext:
        return step.context(found, mode, DeleteDecider.of(step.read(found)))

    with step.nothing_left(), step.as_meant():
        if kind == "delete":
            return room.delete(step.spark, step.spark_plan, where, context_of, case_sensitive=step.case_sensitive)
        return room.update(step.spark, step.spark_plan, given, where, context_of, case_sensitive=step.case_sensitive)
