"""Stage MERGE and upsert as steps of an operation.

The source is evaluated once and bound to the table. Files that its keys can match are planned and
joined file by file, then source rows that matched no file are inserted. A MERGE with conditions
beyond Frazil's grammar, or with a very large source, is joined by Spark instead.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from frazil.arrow.write.write_context import WriteContext
from frazil.arrow.write.write_options import meaningless
from frazil.commit.actions import Action, MetadataChange, SnapshotAction
from frazil.commit.apply import apply_updates
from frazil.errors import InvalidInput, Unsupported
from frazil.expr.grammar import is_in_grammar
from frazil.expr.nodes import Expression
from frazil.expr.sql_text import back_quoted
from frazil.ops.arguments import is_spark_column
from frazil.ops.engine import InputFrame, ReadySource
from frazil.ops.stage import StagedWrite, evolve_to
from frazil.ops.step import Step, lineage_of, staged_change
from frazil.rows.bound_merge import BoundMerge, bind_merge, columns_to_add
from frazil.rows.change import Changed, DeleteDecider
from frazil.rows.clauses import Do, Merge, When
from frazil.rows.inserts import InsertContext, Inserted, insert_rows, stretches
from frazil.rows.merge import NO_ROW_ID, MergeCounts, MergeDecider, MergeReport
from frazil.rows.modes import Mode, mode_of
from frazil.rows.pairing import Pairing
from frazil.rows.reach import reach
from frazil.rows.sides import sides_of
from frazil.rows.source import MergeSource, forget
from frazil.rows.upsert import refuse_duplicates, refuse_unknown, refuse_without_key
from frazil.spec.schema import Schema

# the most source rows that each task joins by itself; Spark's own join takes larger sources
IN_TASKS = 4_000_000
_SUMMARY = "spark.merge-into.num-target-rows-"


def stage_merge(
    step: Step,
    rows: InputFrame,
    merge: Merge,
    mode: str | None = None,
    *,
    unique: Sequence[str] = (),
) -> StagedWrite:
    """Write the files of a MERGE, and return them with the action that commits them.

    `mode`: copy-on-write or merge-on-read; None: the table's write.merge.mode. `unique`: for an
    upsert, its key columns. The source must hold each key once, and rows that would not change are
    left as they are.
    """
    chosen = mode_of("merge", step.metadata, mode, step.to.options)
    merge = replace(merge, merge_schema=merge.merge_schema or step.to.options.merge_schema)
    merge.check()
    writes = any(clause.do is not Do.DELETE for clause in merge.clauses)
    if unique or not writes:
        _refuse_shuffling(step, bool(unique))
    checked = not unique and _checked_by_sql(step, rows, merge)
    # The engine that joins stages the source. A Spark frame is evaluated by Spark even if this
    # process joins.
    staging_engine = step.engine if step.engine.evaluates_sql else rows.engine
    lineage = lineage_of(step, rows)

    def source_of(step: Step) -> ReadySource:
        frame = rows.frame if lineage.over is None else lineage.over(step.metadata, step.storage)
        return step.resources.enter_context(
            staging_engine.stage_source(
                frame, step.write_context, step.schema, step.settings.case_sensitive
            )
        )

    ready = source_of(step)
    step, before = _evolved(step, ready.schema, merge)
    if unique:
        refuse_without_key(ready.schema, unique, step.case_sensitive)
    if unique and not merge.merge_schema:
        refuse_unknown(ready.schema, step.schema, step.case_sensitive)
    same = str if step.case_sensitive else str.lower
    collated = [n for n in ready.collated if not unique or same(n) in map(same, unique)]
    if collated and (unique or not step.engine.evaluates_sql):
        raise _compared_otherwise(collated[0])
    has_spark_columns = any(map(is_spark_column, merge.words))

    def merged(now: Step) -> StagedWrite:
        anew = now is not step and lineage.over is not None
        return _merged(now, source_of(now) if anew else ready)

    def _merged(step: Step, ready: ReadySource) -> StagedWrite:
        bound = None
        by_sql = (
            has_spark_columns
            or bool(collated)
            or (writes and not unique and step.shuffles("merge", ready.schema))
        )
        if not by_sql and (not step.engine.evaluates_sql or unique or ready.rows <= IN_TASKS):
            bound = step.in_grammar(partial(_bound, step, ready.schema, merge, bool(unique)))
        return (
            _by_sql(step, ready, merge, chosen, checked)
            if bound is None
            else _in_tasks(step, ready, bound, chosen, unique)
        )

    staged = staged_change(step, merged, lineage)
    return replace(staged, actions=(*before, *staged.actions)) if staged.actions else staged


def stage_ready(step: Step, source: MergeSource, merge: Merge, mode: Mode) -> StagedWrite:
    """Write the files of a stream's upsert whose source is staged and holds each key once, and
    return them with the action that commits them. Columns that only the source has are ignored.

    Where the source holds whole rows, every one of them is written, into as few files as an append
    would make: tasks that look for the keys would each write a file for the rows that they find,
    and a stream would add that many files with every batch.
    """

    def merged(step: Step) -> StagedWrite:
        bound = _bound(step, source.schema, merge, True)
        return (
            _replaced(step, source, bound, mode)
            if bound.takes_whole_rows
            else _joined(step, source, bound, mode, ())
        )

    return staged_change(step, merged)


def _compared_otherwise(column: str) -> InvalidInput:
    text = f"Column {column} of the source has a collation, but Iceberg tables hold text without one, which is compared byte by byte."
    hint = f"Cast it in the source: CAST({back_quoted([column])} AS STRING COLLATE UTF8_BINARY)."
    return InvalidInput(text, hint=hint, column=column)


def _refuse_shuffling(step: Step, upserts: bool) -> None:
    """Refuse options of the shuffle for an upsert, and for a MERGE that only deletes rows."""
    options = step.to.options
    where = (
        "to an upsert: rows are written by the tasks that find them"
        if upserts
        else "to a merge that only deletes rows"
    )
    hint = "Use merge(), which shuffles rows." if upserts else "Leave it out."
    for name in ("distribution_mode", "advisory_partition_size"):
        if options.asks_for(name) and getattr(options, name) != "none":
            raise meaningless(name, where, hint)


def _bound(step: Step, source: Schema, merge: Merge, changed_only: bool) -> BoundMerge:
    if not changed_only:  # the texts of an upsert are no one's own
        step.check_texts(merge.words)
    sides = sides_of(
        step.schema,
        source,
        target_alias=merge.target_alias,
        source_alias=merge.source_alias,
        case_sensitive=step.case_sensitive,
        zone=step.settings.zone,
        ansi=step.settings.ansi or changed_only,
        spark=step.settings.spark,
    )
    return bind_merge(merge, sides, changed_only=changed_only)


def _in_tasks(
    step: Step, ready: ReadySource, bound: BoundMerge, mode: Mode, unique: Sequence[str]
) -> StagedWrite:
    source = ready.open()
    try:
        return _joined(step, source, bound, mode, unique)
    finally:
        forget(source)


def _joined(
    step: Step, source: MergeSource, bound: BoundMerge, mode: Mode, unique: Sequence[str]
) -> StagedWrite:
    """Join the source with the table's files in the tasks of the runner, then insert the source
    rows that matched no file.
    """
    pairing = Pairing(bound, source)
    if unique:
        refuse_duplicates(pairing, unique)
    where = bound.target_filter(reach(pairing))
    plan = step.plan(where)
    context = step.context(
        plan,
        mode,
        lambda read: MergeDecider(read, bound, source, step.lineage, bool(bound.not_matched)),
    )
    changed = step.change(list(step.tasks(plan)), context, plan)
    inserted = _inserted(step, source, bound, changed.reports) if bound.not_matched else Inserted()
    counts = MergeCounts()
    for report in changed.reports:
        counts.add(report.counts)
    return _finished(step, mode, changed, inserted, counts, where, bool(bound.not_matched))


def _replaced(step: Step, source: MergeSource, bound: BoundMerge, mode: Mode) -> StagedWrite:
    """Find the rows that the source replaces or removes in the tasks of the runner, then write the
    source's rows in tasks of their own.

    The source holds whole rows, and each key once, so that its rows are written alike whether their
    key was there or not; with row lineage, a row that replaces another takes its row id.
    """
    where = bound.target_filter(reach(Pairing(bound, source)))
    plan = step.plan(where)
    change = step.context(
        plan, mode, lambda read: MergeDecider(read, bound, source, step.lineage, only_finds=True)
    )
    changed = step.change(list(step.tasks(plan)), change, plan)
    counts, replaces, row_ids = (
        MergeCounts(),
        np.zeros(source.num_rows, bool),
        np.full(source.num_rows, NO_ROW_ID),
    )
    for report in changed.reports:
        counts.add(report.counts)
        replaces |= report.flags(source.num_rows)
        report.fill_row_ids(row_ids)
    write = WriteContext.of(
        step.metadata, step.storage, step.to.options, step.write_context.operation_id
    )
    lineage = row_ids if (row_ids != NO_ROW_ID).any() else None
    context = InsertContext(write if lineage is None else write.keeping_lineage(), bound, source)
    parts = step.run(
        partial(insert_rows, context),
        stretches(source, np.zeros(source.num_rows, bool), step.runner.parallelism, lineage),
    )
    inserted = Inserted(
        tuple(f for p in parts for f in p.files), sum(p.rows for p in parts) - int(replaces.sum())
    )
    return _finished(step, mode, changed, inserted, counts, where, True)


def _inserted(
    step: Step, source: MergeSource, bound: BoundMerge, reports: Sequence[MergeReport]
) -> Inserted:
    """Write the source rows that no task matched, in tasks of their own."""
    matched = np.zeros(source.num_rows, bool)
    for report in reports:
        matched |= report.flags(source.num_rows)
    write = WriteContext.of(
        step.metadata, step.storage, step.to.options, step.write_context.operation_id
    )
    parts = step.run(
        partial(insert_rows, InsertContext(write, bound, source)),
        stretches(source, matched, step.runner.parallelism),
    )
    return Inserted(tuple(f for p in parts for f in p.files), sum(p.rows for p in parts))


def _finished(
    step: Step,
    mode: Mode,
    changed: Changed,
    inserted: Inserted,
    counts: MergeCounts,
    where: Expression,
    inserts: bool,
) -> StagedWrite:
    changed = replace(changed, added=(*changed.added, *inserted.files))
    staged = step.staged_change(
        "merge", mode, changed, where, {"rows_inserted": inserted.rows}, inserts=inserts
    )
    extras = {
        "copied": changed.copied,
        "deleted": changed.deleted,
        "updated": changed.updated,
        "inserted": inserted.rows,
        "matched-updated": counts.matched_updated,
        "matched-deleted": counts.matched_deleted,
        "not-matched-by-source-updated": counts.by_source_updated,
        "not-matched-by-source-deleted": counts.by_source_deleted,
    }
    return replace(
        staged,
        actions=tuple(
            _with_summary(a, {_SUMMARY + k: str(v) for k, v in extras.items()})
            for a in staged.actions
        ),
    )


def _with_summary(action: Action, extras: Mapping[str, str]) -> Action:
    """Add properties to the summary of the snapshot that an action makes; those of the caller take
    precedence.
    """
    if not isinstance(action, SnapshotAction):
        return action
    return replace(action, snapshot_properties={**extras, **action.snapshot_properties})


def _checked_by_sql(step: Step, rows: InputFrame, merge: Merge) -> bool:
    """Let the engine check a MERGE that needs its SQL, before the source is evaluated, which may
    take long. Returns whether it was checked: with schema evolution it is not, because the table's
    new columns are not known yet. Raises what the engine refuses."""
    both_evaluate_sql = step.engine.evaluates_sql and rows.engine.evaluates_sql
    if (
        not both_evaluate_sql
        or merge.merge_schema
        or all(is_in_grammar(w) and not is_spark_column(w) for w in merge.words)
    ):
        return False
    step.engine.check_merge(step.metadata, rows.frame, merge, case_sensitive=step.case_sensitive)
    return True


def _by_sql(step: Step, ready: ReadySource, merge: Merge, mode: Mode, checked: bool) -> StagedWrite:
    """Join by the engine's SQL: for conditions beyond the grammar, rows to shuffle, and sources too
    large for tasks.
    """
    if not step.engine.evaluates_sql:
        raise Unsupported(
            "A Spark Column in a MERGE needs Spark.",
            hint="Pass spark=, or give the condition as text.",
        )
    context_of = partial(step.context, mode=mode, decider_of=DeleteDecider.of)
    with step.removing_files_on_error(), step.engine.as_meant(step.settings):
        changes = step.engine.merge(
            step.plan_withholding_row_ids,
            ready,
            merge.for_engine(),
            context_of,
            case_sensitive=step.case_sensitive,
            checked=checked,
        )
    rows = changes.counts
    counts = MergeCounts(
        rows["matched-updated"],
        rows["matched-deleted"],
        rows["not-matched-by-source-updated"],
        rows["not-matched-by-source-deleted"],
    )
    inserts = bool(merge.of(When.NOT_MATCHED))
    staged = _finished(
        step,
        mode,
        changes.changed,
        Inserted((), changes.inserted),
        counts,
        changes.conflict_filter,
        inserts,
    )
    return replace(staged, reads_table=changes.reads_table)


def _evolved(step: Step, source: Schema, merge: Merge) -> tuple[Step, tuple[Action, ...]]:
    """Add to the table the source columns that are assigned and that it lacks, if `merge_schema`
    asks for it, in the same commit.
    """
    if not merge.merge_schema:
        return step, ()
    new_columns = columns_to_add(merge, step.schema, source, step.case_sensitive)
    update = (
        evolve_to(new_columns, step.metadata, step.case_sensitive) if new_columns.fields else None
    )
    if update is None:
        return step, ()
    evolved = apply_updates(step.metadata, update.updates(step.metadata))
    return replace(step, to=step.to.with_metadata(evolved)), (MetadataChange(update.updates),)
