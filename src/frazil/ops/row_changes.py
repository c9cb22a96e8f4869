"""Stage DELETE, UPDATE and OVERWRITE by a filter as steps of an operation.

Plan the files that may match. Files that match as a whole are removed without being read; the
runner changes the others, in groups. One action commits both.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from frazil.arrow.deletes.delete_files import DeleteCache, positions_of
from frazil.commit.actions import DeleteFiles
from frazil.errors import InvalidInput, Unsupported
from frazil.expr.bind import bind, bind_term
from frazil.expr.nodes import AlwaysTrue, Predicate
from frazil.ops.arguments import is_spark_column
from frazil.ops.engine import InputFrame, RowChanges
from frazil.ops.reading import RowFilter, predicate_of
from frazil.ops.stage import StagedWrite, overwritten, written
from frazil.ops.step import Step, lineage_of, staged_change
from frazil.ops.target import check_overwrite
from frazil.rows.assign import bind_update
from frazil.rows.change import Changed, DeleteDecider, UpdateDecider
from frazil.rows.modes import COPY_ON_WRITE, Kind, Mode, mode_of
from frazil.scan.tasks import TaskSequence
from frazil.spec.manifest import DataFileContent
from frazil.storage import Storage

_DELETE_CACHE = 64 << 20


def condition_of(where: RowFilter | bool) -> Predicate:
    """Return a caller's condition as a predicate. Raises ParseError for text outside the grammar,
    Unsupported for a Spark Column, InvalidInput for anything that is not a condition."""
    if isinstance(where, bool):
        where = "true" if where else "false"
    if is_spark_column(where):
        # Unsupported, since Spark can still evaluate it: see Step.in_grammar
        raise Unsupported(
            "A Spark Column as a condition needs Spark.",
            hint="Pass spark=, or give the condition as text.",
        )
    return predicate_of(where)


def delete(step: Step, where: RowFilter, mode: str | None = None, alias: str = "") -> StagedWrite:
    """Delete the rows for which the condition is TRUE. Files whose rows all match are removed by
    metadata alone.

    `mode`: copy-on-write or merge-on-read; None: the table's write.delete.mode. `alias`: by what
    name a Column calls the table.
    """
    return staged_change(step, partial(_deleted, where=where, mode=mode, alias=alias))


def _deleted(step: Step, where: RowFilter, mode: str | None, alias: str) -> StagedWrite:
    chosen = mode_of("delete", step.metadata, mode, step.to.options)
    bound = step.in_grammar(partial(_bound, step, where))
    if bound is None:
        if (values := _evaluated(step, [where], alias)) is not None:
            return _deleted(replace(step, any_row_counts=True), values[0], mode, alias)
        return _staged_by_sql(step, "delete", chosen, where, alias=alias)
    plan = step.plan(bound, to_remove=True)
    wholly, to_read = step.split(plan)
    if not to_read and not step.any_row_counts:
        # As Java's metadata delete: each commit attempt evaluates the filter again, and refuses
        # files that match only in part by then.
        action = DeleteFiles(row_filter=bound, **step.binding_arguments, **step.to.snapshot_fields)
        metrics = {"rows_deleted": live_rows(wholly, step.storage)}
        return StagedWrite((action,), (), time.perf_counter() - step.started, metrics)
    changed = step.change(to_read, step.context(plan, chosen, DeleteDecider.of), plan)
    deleted = changed.deleted + live_rows(wholly, step.storage)
    changed = replace(
        changed, removed=(*changed.removed, *(t.file for t in wholly)), deleted=deleted
    )
    return step.staged_change("delete", chosen, changed, bound)


def _evaluated(step: Step, words: Sequence[Any], alias: str = "") -> list[Any] | None:
    """Return conditions and values with the values of sub-queries that do not depend on the row;
    None where there are none. A change that is planned anew evaluates them again."""
    with step.engine.as_meant(step.settings):
        return step.engine.evaluated(
            step.metadata, words, case_sensitive=step.case_sensitive, alias=alias
        )


def _bound(step: Step, where: RowFilter) -> Predicate:
    """Return the condition as a predicate, after checking its columns and types against the table."""
    step.check_texts([where])
    predicate = condition_of(where)
    bind(
        predicate,
        step.schema,
        case_sensitive=step.case_sensitive,
        zone=step.settings.zone,
        ansi=step.settings.ansi,
        spark=step.settings.spark,
    )
    return predicate


def overwrite(step: Step, rows: InputFrame, where: RowFilter) -> StagedWrite:
    """Replace the rows for which the filter is TRUE by the rows of a frame.

    Files that match in part keep their other rows, copied or with deletes as write.delete.mode
    says. The commit then checks at least for concurrent deletes in these files, as for any
    row-level change.
    """
    check_overwrite(step.to, where)
    lineage = lineage_of(step, rows)
    first = cache(partial(written, rows, step.to))

    def overwritten(now: Step) -> StagedWrite:
        if now is step or lineage.over is None:
            return _overwritten(now, first, where)
        again = replace(rows, frame=lineage.over(now.metadata, now.storage))
        return _overwritten(now, cache(partial(written, again, now.to)), where)

    return staged_change(step, overwritten, lineage)


def _overwritten(step: Step, new: Callable[[], StagedWrite], where: RowFilter) -> StagedWrite:
    """Remove the rows, and stage their removal together with the new rows, which are written once."""
    mode = COPY_ON_WRITE if isinstance(where, AlwaysTrue) else None
    bound = step.in_grammar(partial(_bound, step, where))
    if bound is None:
        if (values := _evaluated(step, [where])) is not None:
            return _overwritten(replace(step, any_row_counts=True), new, values[0])
        chosen = mode_of("delete", step.metadata, mode)
        changes = _by_sql(step, "delete", chosen, where)
        staged = _replaced(
            step, chosen, new, changes.changed, changes.conflict_filter, changes.deleted
        )
        return replace(staged, reads_table=staged.reads_table or changes.reads_table)
    plan = step.plan(bound, to_remove=True)
    wholly, to_read = step.split(plan)
    if not to_read and not step.any_row_counts:
        staged = overwritten(new(), step.to, bound, step.start, step.settings)
        return replace(
            staged, metrics={**staged.metrics, "rows_deleted": live_rows(wholly, step.storage)}
        )
    chosen = mode_of("delete", step.metadata, mode)
    changed = step.change(to_read, step.context(plan, chosen, DeleteDecider.of), plan)
    deleted = changed.deleted + live_rows(wholly, step.storage)
    return _replaced(
        step,
        chosen,
        new,
        replace(changed, removed=(*changed.removed, *(t.file for t in wholly))),
        bound,
        deleted,
    )


def _replaced(
    step: Step,
    mode: Mode,
    new: Callable[[], StagedWrite],
    changed: Changed,
    where: Predicate,
    deleted: int,
) -> StagedWrite:
    """Return the new rows and the removed ones as one action."""
    with step.removing_files_on_error():
        new_rows = new()
    counts = {**new_rows.metrics, "rows_deleted": deleted}
    replaced = replace(changed, added=(*changed.added, *new_rows.files))
    staged = step.staged_change(
        "delete", mode, replaced, where, counts, step.to.options.isolation_level or "snapshot"
    )
    return replace(staged, actions=(*new_rows.actions, *staged.actions[-1:]))


def live_rows(wholly: TaskSequence, storage: Storage) -> int:
    """Count the rows of whole files, less those deleted by position. Rows deleted by equality
    deletes still count, as in Java's snapshot summaries."""
    total, cache = 0, DeleteCache(_DELETE_CACHE)
    for group in wholly.groups:
        total += pc.sum(group.table.column("record_count")).as_py() or 0
        for task in TaskSequence((group.chosen(pa.array(group.has_deletes)),)):
            if positional := [
                d for d in task.delete_files if d.content == DataFileContent.POSITION_DELETES
            ]:
                total -= len(positions_of(task.file, positional, storage, cache))
    return total


def update(
    step: Step,
    new_values: Mapping[str, Any],
    where: RowFilter | None = None,
    mode: str | None = None,
    alias: str = "",
) -> StagedWrite:
    """Set columns of the rows for which the condition is TRUE (None: all rows).

    `new_values`: expressions or values by column name. `mode`: copy-on-write or merge-on-read;
    None: the table's write.update.mode. `alias`: by what name a Column calls the table.
    """
    if not new_values:
        raise InvalidInput("update needs at least one column: set={'column': 'expression'}.")
    condition = AlwaysTrue() if where is None else where
    return staged_change(
        step, partial(_updated, new_values=new_values, where=condition, mode=mode, alias=alias)
    )


def _updated(
    step: Step, new_values: Mapping[str, Any], where: RowFilter, mode: str | None, alias: str
) -> StagedWrite:
    chosen = mode_of("update", step.metadata, mode, step.to.options)
    bind_both = partial(_bound_update, step, new_values, where)
    bound = None if step.shuffles("update") else step.in_grammar(bind_both)
    if bound is None:
        if (values := _evaluated(step, [where, *new_values.values()], alias)) is not None:
            where, *assigned = values
            new_values = dict(zip(new_values, assigned, strict=True))
            return _updated(replace(step, any_row_counts=True), new_values, where, mode, alias)
        return _staged_by_sql(step, "update", chosen, where, new_values, alias)
    predicate, assignments = bound
    plan = step.plan(predicate)
    context = step.context(
        plan, chosen, lambda read: UpdateDecider.of(read, assignments, step.lineage)
    )
    changed = step.change(list(step.tasks(plan)), context, plan)
    return step.staged_change("update", chosen, changed, predicate)


def _bound_update(
    step: Step, new_values: Mapping[str, Any], where: RowFilter
) -> tuple[Predicate, Any]:
    """Return the condition and the assignments of an UPDATE, bound to the table."""
    step.check_texts(new_values.values())
    if any(is_spark_column(v) for v in new_values.values()):
        raise Unsupported(
            "A Spark Column as a value needs Spark.",
            hint="Pass spark=, or give an expression as text.",
        )
    settings = step.settings
    term = partial(
        bind_term,
        schema=step.schema,
        case_sensitive=settings.case_sensitive,
        zone=settings.zone,
        ansi=settings.ansi,
        spark=settings.spark,
    )
    return _bound(step, where), bind_update(
        step.schema,
        new_values.items(),
        term,
        zone=settings.zone,
        case_sensitive=settings.case_sensitive,
    )


def _staged_by_sql(
    step: Step,
    kind: Kind,
    mode: Mode,
    where: RowFilter,
    new_values: Mapping[str, Any] | None = None,
    alias: str = "",
) -> StagedWrite:
    changes = _by_sql(step, kind, mode, where, new_values, alias)
    metrics = {"rows_updated": changes.updated, "rows_deleted": changes.deleted}
    staged = step.staged_change(kind, mode, changes.changed, changes.conflict_filter, metrics)
    return replace(staged, reads_table=staged.reads_table or changes.reads_table)


def _by_sql(
    step: Step,
    kind: Kind,
    mode: Mode,
    where: RowFilter,
    new_values: Mapping[str, Any] | None = None,
    alias: str = "",
) -> RowChanges:
    """Let the engine find the rows by its own SQL; its tasks then write the change as for any other
    condition.
    """
    context_of = partial(step.context, mode=mode, decider_of=DeleteDecider.of)
    with step.removing_files_on_error(), step.engine.as_meant(step.settings):
        planned, sensitive = step.plan_withholding_row_ids, step.case_sensitive
        if kind == "delete":
            return step.engine.delete(
                planned, where, context_of, case_sensitive=sensitive, alias=alias
            )
        return step.engine.update(
            planned, new_values or {}, where, context_of, case_sensitive=sensitive, alias=alias
        )
