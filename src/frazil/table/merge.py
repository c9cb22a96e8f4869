"""MERGE and upsert for users: the builder, and the step of a transaction that it ends in.

source staged once -> bound to the table -> what its keys can reach is planned -> matched file by file -> what no file matched is inserted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Generic, TypeVar

import numpy as np

from frazil.arrow.values.arrow_schema import from_arrow_schema, to_arrow_schema
from frazil.arrow.write.write_context import WriteContext
from frazil.arrow.write.write_options import meaningless
from frazil.commit.actions import Action, MetadataChange
from frazil.commit.apply import apply_updates
from frazil.errors import ParseError, Unsupported
from frazil.expr.functions.by_name import find_function
from frazil.expr.nodes import Call, Expression, walk
from frazil.expr.parse import parse
from frazil.rows import clauses as c
from frazil.rows.bound_merge import BoundMerge, bind_merge
from frazil.rows.change import ChangeContext, Changed
from frazil.rows.clauses import Clause, Merge
from frazil.rows.delete import DeleteDecider
from frazil.rows.evolve import columns_to_add
from frazil.rows.inserts import InsertContext, Inserted, insert_rows, stretches
from frazil.rows.merge import MergeCounts, MergeDecider, MergeReport
from frazil.rows.modes import Mode, mode_of
from frazil.rows.pairing import Pairing
from frazil.rows.reach import reach
from frazil.rows.sides import sides_of
from frazil.rows.source import MergeSource, SourceFiles, forget, on_storage, open_source, stage
from frazil.rows.upsert import refuse_duplicates, refuse_unknown
from frazil.scan.plan import Plan
from frazil.spec.schema import Schema
from frazil.storage.locations import data_root
from frazil.table.frames import is_spark_column, is_spark_frame, spark_room
from frazil.table.rows import in_grammar
from frazil.table.step import Step
from frazil.table.write import StagedWrite, evolve_to_frame

R = TypeVar("R")
WITH_TASKS = 8 << 20  # bytes of a source that travel with the tasks themselves
IN_TASKS = 4_000_000  # rows of a source up to which tasks join it themselves; Spark's own join takes more
_TESTS = ("isnull", "isnotnull", "isnan")  # functions by name that are predicates of their own
_SUMMARY = "spark.merge-into.num-target-rows-"


@dataclass(frozen=True)
class MergeBuilder(Generic[R]):
    """A MERGE that is being described; every `when_…` returns a new builder, `execute` does it.

    Clauses of a kind are tried in the order given, the first whose condition is TRUE acts. Conditions and values are Spark SQL text over
    `target.…` and `source.…` (or the aliases given), expressions, or constants; on Spark also Columns.
    """

    frame: Any
    merge: Merge
    run: Callable[[Any, Merge, str | None], R]

    def _with(self, clause: Clause) -> MergeBuilder[R]:
        return replace(self, merge=replace(self.merge, clauses=(*self.merge.clauses, clause)))

    def when_matched_update(self, set: Mapping[str, Any], condition: Any = None) -> MergeBuilder[R]:
        """Sets columns (or members of structs, "s.x") of target rows that match."""
        return self._with(c.matched_update(set, condition))

    def when_matched_update_all(self, condition: Any = None) -> MergeBuilder[R]:
        """Sets every column to the source's of the same name."""
        return self._with(c.matched_update_all(condition))

    def when_matched_delete(self, condition: Any = None) -> MergeBuilder[R]:
        return self._with(c.matched_delete(condition))

    def when_not_matched_insert(self, values: Mapping[str, Any], condition: Any = None) -> MergeBuilder[R]:
        """Inserts source rows that match nothing; columns that are not named take their default, or null."""
        return self._with(c.not_matched_insert(values, condition))

    def when_not_matched_insert_all(self, condition: Any = None) -> MergeBuilder[R]:
        """Inserts source rows that match nothing, columns by name."""
        return self._with(c.not_matched_insert_all(condition))

    def when_not_matched_by_source_update(self, set: Mapping[str, Any], condition: Any = None) -> MergeBuilder[R]:
        """Sets columns of target rows that no source row matches."""
        return self._with(c.not_matched_by_source_update(set, condition))

    def when_not_matched_by_source_delete(self, condition: Any = None) -> MergeBuilder[R]:
        return self._with(c.not_matched_by_source_delete(condition))

    def with_schema_evolution(self) -> MergeBuilder[R]:
        """Columns that only the source has are added to the table where they are assigned; those it lacks stay as they are."""
        return replace(self, merge=replace(self.merge, merge_schema=True))

    def execute(self, mode: str | None = None) -> R:
        """Does it: one snapshot. `mode`: copy-on-write, merge-on-read, None: the table's write.merge.mode."""
        self.merge.check()
        return self.run(self.frame, self.merge, mode)


def stage_merge(step: Step, frame: Any, merge: Merge, mode: str | None = None, *, unique: Sequence[str] = ()) -> StagedWrite:
    """The files of a MERGE and the action that commits them. `unique`: an upsert by these columns of the source, which must not repeat;
    rows that it would not change are left alone."""
    chosen = mode_of("merge", step.metadata, mode, step.to.options)
    merge = replace(merge, merge_schema=merge.merge_schema or step.to.options.merge_schema)
    merge.check()
    if unique:
        _check_upsert(step)
    checked = not unique and _checked_by_spark(step, frame, merge)
    with _staged(step, frame) as ready:
        step, before = _evolved(step, ready.schema, merge)
        if unique and not merge.merge_schema:
            refuse_unknown(ready.schema, step.schema, step.case_sensitive)
        bound = None
        writes = any(x.do is not c.Do.DELETE for x in merge.clauses)
        by_spark = _has_columns(merge) or (writes and not unique and step.shuffles("merge", ready.schema))
        if not by_spark and (step.spark is None or unique or ready.rows <= IN_TASKS):
            bound = in_grammar(step, partial(_bound, step, ready.schema, merge, bool(unique)))
        staged = _by_spark(step, ready, merge, chosen, checked) if bound is None else _in_tasks(step, ready, bound, chosen, unique)
    return replace(staged, actions=(*before, *staged.actions)) if staged.actions else staged


def _check_upsert(step: Step) -> None:
    options = step.to.options
    for name in ("distribution_mode", "advisory_partition_size"):
        if options.asks_for(name) and getattr(options, name) != "none":
            raise meaningless(name, "to an upsert: rows are written by the tasks that find them", "merge() shuffles rows as asked.")


def _bound(step: Step, source: Schema, merge: Merge, changed_only: bool) -> BoundMerge:
    sides = sides_of(
        step.schema, source, target_alias=merge.target_alias, source_alias=merge.source_alias, case_sensitive=step.case_sensitive,
        zone=step.zone, ansi=step.ansi or changed_only,
    )  # fmt: skip
    return bind_merge(merge, sides, changed_only=changed_only)


def _in_tasks(step: Step, ready: _Ready, bound: BoundMerge, mode: Mode, unique: Sequence[str]) -> StagedWrite:
    source = ready.open()
    try:
        return _joined(step, source, bound, mode, unique)
    finally:
        forget(source)


def _joined(step: Step, source: MergeSource, bound: BoundMerge, mode: Mode, unique: Sequence[str]) -> StagedWrite:
    pairing = Pairing(bound, source)
    if unique:
        refuse_duplicates(pairing, unique)
    where = bound.target_filter(reach(pairing))
    found = step.plan(where)
    decider = MergeDecider(step.read(found), bound, source, step.lineage, bool(bound.not_matched))
    changed = step.change(list(step.tasks(found)), step.context(found, mode, decider), found)
    inserted = Inserted()
    if bound.not_matched:
        inserted = _inserted(step, source, bound, changed.reports)
    counts = MergeCounts()
    for report in changed.reports:
        counts.add(report.counts)
    return _finished(step, mode, changed, inserted, counts, where, bool(bound.not_matched))


def _inserted(step: Step, source: MergeSource, bound: BoundMerge, reports: Sequence[MergeReport]) -> Inserted:
    """What no task saw matched, written by tasks of its own."""
    matched = np.zeros(source.num_rows, bool)
    for report in reports:
        matched |= report.flags(source.num_rows)
    write = WriteContext.of(step.metadata, step.storage, step.to.options, step.write.operation_id)
    parts = step.run(partial(insert_rows, InsertContext(write, bound, source)), stretches(source, matched, step.runner.parallelism))
    return Inserted(tuple(f for p in parts for f in p.files), sum(p.rows for p in parts))


def _finished(
    step: Step, mode: Mode, changed: Changed, inserted: Inserted, counts: MergeCounts, where: Expression, inserts: bool
) -> StagedWrite:
    changed = replace(changed, added=(*changed.added, *inserted.files))
    staged = step.staged_change("merge", mode, changed, where, {"rows_inserted": inserted.rows}, inserts=inserts)
    extras = {
        "copied": changed.copied, "deleted": changed.deleted, "updated": changed.updated, "inserted": inserted.rows,
        "matched-updated": counts.matched_updated, "matched-deleted": counts.matched_deleted,
        "not-matched-by-source-updated": counts.by_source_updated, "not-matched-by-source-deleted": counts.by_source_deleted,
    }  # fmt: skip
    return replace(staged, actions=tuple(_with_summary(a, {_SUMMARY + k: str(v) for k, v in extras.items()}) for a in staged.actions))


def _with_summary(action: Action, extras: Mapping[str, str]) -> Action:
    known = getattr(action, "snapshot_properties", None)
    return action if known is None else replace(action, snapshot_properties={**extras, **known})  # type: ignore[type-var]


def _checked_by_spark(step: Step, frame: Any, merge: Merge) -> bool:
    """Has Spark look at a MERGE that only its SQL can do before the source, which may take long, is evaluated. Evolution is the exception:
    the table's new columns are known later. Raises what Spark refuses."""
    if step.spark is None or not is_spark_frame(frame) or merge.merge_schema or all(map(_is_ours, merge.words)):
        return False
    spark_room("dml.merge_by_sql").check(step.spark, step.schema, frame, merge, case_sensitive=step.case_sensitive)
    return True


def _is_ours(value: Any) -> bool:
    """Whether Frazil's grammar has an expression, as far as its text tells."""
    try:
        found = parse(value) if isinstance(value, str) else value
    except ParseError:
        return False
    called = {x.function for x in walk(found) if isinstance(x, Call)} if isinstance(found, Expression) else set()
    return not is_spark_column(value) and all(find_function(name) or name in _TESTS for name in called)


def _by_spark(step: Step, ready: _Ready, merge: Merge, mode: Mode, checked: bool) -> StagedWrite:
    """Conditions beyond the grammar, and sources too large for tasks: Spark joins."""
    if step.spark is None:
        raise Unsupported("A Spark Column in a MERGE needs Spark.", hint="Give spark=, or strings.")

    def context_of(found: Plan) -> ChangeContext:
        return step.context(found, mode, DeleteDecider.of(step.read(found)))

    source = ready.native if ready.native is not None else step.spark.createDataFrame(ready.open().table)
    with step.nothing_left(), step.as_meant():
        made = spark_room("dml.merge_by_sql").merge(
            step.spark,
            step.spark_plan,
            source,
            merge,
            context_of,
            case_sensitive=step.case_sensitive,
            like=ready.frame,
            checked=checked,
        )
    done = made.counts
    counts = MergeCounts(
        done["matched-updated"], done["matched-deleted"], done["not-matched-by-source-updated"], done["not-matched-by-source-deleted"]
    )
    inserts = bool(merge.of(c.When.NOT_MATCHED))
    return _finished(step, mode, made.changed, Inserted((), made.inserted), counts, made.conflict_filter, inserts)


def _has_columns(merge: Merge) -> bool:
    """Whether a condition or value is a Spark Column."""
    return any(is_spark_column(v) for v in merge.words)


# The source -----------------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Ready:
    """A staged source before anybody looks into it. `native`: how the Spark room knows it; `frame`: the Spark frame it was made of."""

    schema: Schema
    rows: int
    open: Callable[[], MergeSource]
    native: Any = None
    frame: Any = None

    @classmethod
    def of(cls, source: MergeSource) -> _Ready:
        return cls(source.schema, source.num_rows, lambda: source)


@contextmanager
def _staged(step: Step, frame: Any) -> Iterator[_Ready]:
    """The frame, evaluated once, where all tasks can read it; gone at the end, however it ends."""
    if is_spark_frame(frame):
        room = spark_room("dml.staging")
        folder = room.folder_of(step.write)
        try:
            made = room.stage(frame, folder, step.storage)
            files = SourceFiles(tuple(f.location for f in made.files), step.storage)
            opened = partial(open_source, files) if made.files else partial(MergeSource, made.schema.empty_table())
            yield _Ready(from_arrow_schema(made.schema), made.rows, opened, made, frame)
        finally:
            room.remove(folder, step.storage)
        return
    with stage(frame, like=step.schema, case_sensitive=step.case_sensitive) as source:
        if step.spark is None or source.nbytes <= WITH_TASKS:
            yield _Ready.of(source)
            return
        folder = f"{data_root(step.write.location, step.write.properties)}/staging-{step.write.operation_id}"
        with on_storage(source, folder, step.storage) as shared:
            yield _Ready.of(shared)


def _evolved(step: Step, source: Schema, merge: Merge) -> tuple[Step, tuple[Action, ...]]:
    """With `merge_schema` the table gets the source's columns that are assigned and that it lacks, in the same commit."""
    if not merge.merge_schema:
        return step, ()
    wanted = columns_to_add(merge, step.schema, source, step.case_sensitive)
    options = replace(step.to.options, merge_schema=True)
    update = evolve_to_frame(step.metadata, to_arrow_schema(wanted), options, step.case_sensitive) if wanted.fields else None
    if update is None:
        return step, ()
    return replace(step, metadata=apply_updates(step.metadata, update.updates(step.metadata))), (MetadataChange(update.updates),)
