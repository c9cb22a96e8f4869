"""Stage DELETE, UPDATE and OVERWRITE by rows, as steps of an operation.

plan -> files that match wholly (they just go) and the rest -> groups -> Runner -> Changed -> one action.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from frazil.arrow.deletes.delete_files import DeleteCache, positions_of
from frazil.commit.actions import DeleteFiles
from frazil.errors import InvalidInput, Unsupported
from frazil.expr.bind import bind, bind_term
from frazil.expr.nodes import AlwaysTrue, Expression, Predicate
from frazil.ops.engine import RowChanges
from frazil.ops.frames import is_spark_column
from frazil.ops.reading import predicate_of
from frazil.ops.stage import InputFrame, StagedWrite, overwritten, written
from frazil.ops.step import Step
from frazil.ops.target import check_overwrite
from frazil.rows.assign import bind_update
from frazil.rows.change import ChangeContext, Changed
from frazil.rows.delete import DeleteDecider
from frazil.rows.modes import COPY_ON_WRITE, Kind, Mode, mode_of
from frazil.rows.update import UpdateDecider
from frazil.scan.plan import Plan
from frazil.scan.tasks import TaskSequence
from frazil.spec.data_file import DataFileContent
from frazil.storage import Storage

_DELETE_CACHE = 64 << 20


def condition_of(where: Any) -> Predicate:
    """A condition as typed. Raises ParseError for text outside the grammar, InvalidInput for what is no condition."""
    if isinstance(where, bool):
        where = "true" if where else "false"
    if is_spark_column(where):  # Spark may know what to do with it
        raise Unsupported("A Spark Column is a condition for Spark only.", hint="Give spark=, or a string.")
    return predicate_of(where)


def delete(step: Step, where: Any, mode: str | None = None) -> StagedWrite:
    """DELETE: whole files go by metadata alone; of the others the rows for which the condition is TRUE."""
    chosen = mode_of("delete", step.metadata, mode, step.to.options)
    bound = step.in_grammar(lambda: _bound(step, where))
    if bound is None:
        return _staged_by_sql(step, "delete", chosen, where)
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
    bind(predicate, step.schema, case_sensitive=step.case_sensitive, zone=step.settings.zone, ansi=step.settings.ansi)
    return predicate


def _whole_files(step: Step, where: Predicate, wholly: TaskSequence) -> StagedWrite:
    """As Java's metadata delete: the filter is asked again at each attempt, files that match only in part by then are refused."""
    action = DeleteFiles(row_filter=where, **step.names, **step.to.snapshot_fields)
    metrics = {"rows_deleted": live_rows(wholly, step.storage)}
    return StagedWrite((action,), (), time.perf_counter() - step.started, metrics)


def overwrite(step: Step, rows: InputFrame, where: Any) -> StagedWrite:
    """OVERWRITE by a filter: the rows that match go, those of the frame come. Files that match in part keep their other rows, as
    write.delete.mode says; then at least the deletes of others are checked, as for any row-level change."""
    given = COPY_ON_WRITE if isinstance(where, AlwaysTrue) else None
    check_overwrite(step.to, where)
    bound = step.in_grammar(lambda: _bound(step, where))
    if bound is None:
        chosen = mode_of("delete", step.metadata, given)
        made = _by_sql(step, "delete", chosen, where)
        return _replaced(step, chosen, rows, made.changed, made.conflict_filter, made.deleted)
    found = step.plan(bound, to_remove=True)
    wholly, rest = step.split(found)
    if not rest:
        staged = overwritten(written(rows, step.to), step.to, bound, step.start, step.settings)
        return replace(staged, metrics={**staged.metrics, "rows_deleted": live_rows(wholly, step.storage)})
    chosen = mode_of("delete", step.metadata, given)
    changed = step.change(rest, step.context(found, chosen, DeleteDecider.of(step.read(found))), found)
    deleted = changed.deleted + live_rows(wholly, step.storage)
    return _replaced(step, chosen, rows, replace(changed, removed=(*changed.removed, *(t.file for t in wholly))), bound, deleted)


def _replaced(step: Step, mode: Mode, rows: InputFrame, changed: Changed, where: Predicate, deleted: int) -> StagedWrite:
    """Rows that went and the frame's, as one action."""
    with step.nothing_left():
        new = written(rows, step.to)
    counts = {**new.metrics, "rows_deleted": deleted}
    both = replace(changed, added=(*changed.added, *new.files))
    staged = step.staged_change("delete", mode, both, where, counts, step.to.options.isolation_level or "snapshot")
    return replace(staged, actions=(*new.actions, *staged.actions[-1:]))


def live_rows(wholly: TaskSequence, storage: Storage) -> int:
    """Rows of whole files, less those deleted by position; rows that equality deletes have deleted still count, as in Java's summaries."""
    total, cache = 0, DeleteCache(_DELETE_CACHE)
    for group in wholly.groups:
        total += pc.sum(group.table.column("record_count")).as_py() or 0
        for task in TaskSequence((group.chosen(pa.array(group.has_deletes)),)):
            if positional := [d for d in task.delete_files if d.content == DataFileContent.POSITION_DELETES]:
                total -= len(positions_of(task.file, positional, storage, cache))
    return total


def update(step: Step, given: Mapping[str, Any], where: Any = None, mode: str | None = None) -> StagedWrite:
    """UPDATE: new values for the rows for which the condition is TRUE (None: all rows)."""
    if not given:
        raise InvalidInput("update needs at least one column: set={'column': 'expression'}.")
    chosen = mode_of("update", step.metadata, mode, step.to.options)
    where = AlwaysTrue() if where is None else where

    def bound_update() -> tuple[Predicate, Any]:
        def term(expression: Expression) -> Any:
            return bind_term(expression, step.schema, case_sensitive=step.case_sensitive, zone=step.settings.zone, ansi=step.settings.ansi)

        if any(is_spark_column(v) for v in given.values()):
            raise Unsupported("A Spark Column is a value for Spark only.", hint="Give spark=, or an expression as text.")
        return _bound(step, where), bind_update(
            step.schema, given.items(), term, zone=step.settings.zone, case_sensitive=step.case_sensitive
        )

    bound = None if step.shuffles("update") else step.in_grammar(bound_update)
    if bound is None:
        return _staged_by_sql(step, "update", chosen, where, given)
    predicate, assignments = bound
    found = step.plan(predicate)
    decider = UpdateDecider.of(step.read(found), assignments, step.lineage)
    changed = step.change(list(step.tasks(found)), step.context(found, chosen, decider), found)
    return step.staged_change("update", chosen, changed, predicate)


def _staged_by_sql(step: Step, kind: Kind, mode: Mode, where: Any, given: Mapping[str, Any] | None = None) -> StagedWrite:
    made = _by_sql(step, kind, mode, where, given)
    metrics = {"rows_updated": made.updated, "rows_deleted": made.deleted}
    return step.staged_change(kind, mode, made.changed, made.conflict_filter, metrics)


def _by_sql(step: Step, kind: Kind, mode: Mode, where: Any, given: Mapping[str, Any] | None = None) -> RowChanges:
    """The engine finds the rows by its own SQL; its tasks take them away as for any other change."""

    def context_of(planned: Plan) -> ChangeContext:
        return step.context(planned, mode, DeleteDecider.of(step.read(planned)))

    with step.nothing_left(), step.engine.as_meant(step.settings):
        if kind == "delete":
            return step.engine.delete(step.settled_plan, where, context_of, case_sensitive=step.case_sensitive)
        return step.engine.update(step.settled_plan, given or {}, where, context_of, case_sensitive=step.case_sensitive)
