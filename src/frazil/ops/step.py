"""Carry out one row-level change (DELETE, UPDATE, MERGE) of a transaction: plan, run the tasks, and
make the action that commits it.

A step sees what earlier steps of its transaction have staged. Conflicts with other writers are
looked for from the snapshot that the transaction loaded.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from frazil.arrow.read.read_context import UNSETTLED, ReadContext
from frazil.arrow.write.write_context import WriteContext
from frazil.arrow.write.write_options import meaningless
from frazil.catalog.reporting import TableReporter
from frazil.commit.actions import Action, MetadataChange, OverwriteFiles, RowDelta, WrittenFor
from frazil.commit.planned_change import PlannedChange
from frazil.commit.produce import parent_of
from frazil.errors import ParseError, Unsupported
from frazil.expr.bound import Bound
from frazil.expr.nodes import AlwaysTrue, Predicate
from frazil.ops.engine import Engine, InputFrame, Lineage
from frazil.ops.reading import note_plan
from frazil.ops.session import SessionSettings
from frazil.ops.stage import StagedWrite
from frazil.ops.target import WriteTarget
from frazil.rows.change import ChangeContext, Changed, Decider, change_files, combined
from frazil.rows.groups import grouped, in_few_groups
from frazil.rows.modes import (
    COPY_ON_WRITE,
    MERGE_ON_READ,
    Kind,
    Mode,
    distribution_of,
    granularity_of,
    isolation_of,
)
from frazil.scan.columns import LINEAGE, metadata_columns
from frazil.scan.plan import Plan, ScanOptions, plan
from frazil.scan.tasks import WHOLLY, FileScanTask, PlannedFiles, TaskSequence
from frazil.spec.metadata import TableMetadata
from frazil.spec.schema import Schema
from frazil.spec.snapshot import Snapshot
from frazil.storage import Storage
from frazil.tasks.attempts import attempts_of, removing_files_on_error
from frazil.tasks.runner import Runner

G = TypeVar("G")
R = TypeVar("R")


@dataclass(frozen=True)
class Step:
    """Hold what one row-level change works with.

    `to`: the target; `to.metadata` includes what the transaction has staged. `engine`: finds rows
    by SQL beyond Frazil's grammar, if it can. `runner`: runs the tasks that read and write files.
    `settings`: how names and literals are read. `start`: the id of the snapshot from which
    conflicts are looked for (None: the branch was empty). `staged`: the ids of the transaction's
    own snapshots. `started`: when the step began, as a time.perf_counter() reading. `reporter`:
    takes the metrics reports of the scans that it plans. `resources`: what has to be there until
    the operation ends, such as the source of a MERGE. `any_row_counts`: sub-queries, which may have
    read the table, were evaluated, so that rows of others conflict whether or not they match.
    `plans_anew`: the change may be run again on a state that others have committed meanwhile.
    """

    to: WriteTarget
    engine: Engine
    runner: Runner
    settings: SessionSettings = SessionSettings()
    start: int | None = None
    staged: frozenset[int] = frozenset()
    started: float = field(default_factory=time.perf_counter)
    reporter: TableReporter | None = field(default=None, repr=False, compare=False)
    resources: ExitStack = field(default_factory=ExitStack, repr=False, compare=False)
    any_row_counts: bool = False
    plans_anew: bool = False

    @property
    def metadata(self) -> TableMetadata:
        return self.to.metadata

    @property
    def storage(self) -> Storage:
        return self.to.storage

    @property
    def case_sensitive(self) -> bool:
        return self.settings.case_sensitive

    @cached_property
    def head(self) -> Snapshot | None:
        """Return the snapshot that the step reads: the head of its branch. Raises ValidationError
        for a tag.
        """
        return parent_of(self.metadata, self.to.branch)

    @property
    def read(self) -> int | None:
        """Return the id of the newest snapshot that the step reads and that is not of its own
        transaction; None: there is none.
        """
        others = (
            s.snapshot_id
            for s in self.metadata.ancestors(self.head)
            if s.snapshot_id not in self.staged
        )
        return next(others, None)

    @property
    def schema(self) -> Schema:
        return self.metadata.schema()

    def shuffles(self, kind: Kind, *others: Schema) -> bool:
        """Tell whether Spark shall shuffle new rows before they are written: distribution-mode is
        hash or range, or advisory-partition-size is given. Otherwise the task that finds a row also
        writes its new version.

        `others`: schemas of further rows that would pass through the shuffle. Rows with columns of
        types that Spark lacks are not shuffled; where a write option asks for it, InvalidInput is
        raised.
        """
        options = self.to.options
        distribution = distribution_of(kind, self.metadata, options)
        if (
            distribution in (None, "none")
            and options.asks_for("advisory_partition_size")
            and self.engine.evaluates_sql
        ):
            if distribution == "none":
                raise meaningless(
                    "advisory_partition_size",
                    "where rows are not shuffled",
                    "distribution-mode: hash or range.",
                )
            distribution = "hash"
        if (
            distribution == "range"
            and self.write_context.spec.unpartitioned
            and self.write_context.sort_order.is_unsorted
        ):
            distribution = (
                "none"  # without partitions and a sort order there is no key to make ranges of
            )
        if not self.engine.evaluates_sql or distribution in (None, "none"):
            return False
        for schema in (self.schema, *others):
            if (f := self.engine.lacking(schema)) is not None:
                option = next(
                    (
                        n
                        for n in ("distribution_mode", "advisory_partition_size")
                        if options.asks_for(n)
                    ),
                    None,
                )
                if option is not None:
                    raise meaningless(
                        option,
                        f"to rows with column {f.name} of type {f.field_type}, which Spark cannot shuffle",
                    )
                return False
        return True

    # --- reading

    def plan(self, predicate: Predicate, *, to_remove: bool = False) -> Plan:
        """Plan the files of the branch that may hold rows for which the predicate is TRUE, with the
        deletes that apply to them. `to_remove`: files that match as a whole will be removed without
        being read."""
        planned = plan(
            self.metadata,
            self.storage,
            snapshot=self.head,
            schema=self.schema,
            row_filter=predicate,
            case_sensitive=self.case_sensitive,
            zone=self.settings.zone,
            options=ScanOptions.of({}, self.metadata.properties),
            to_remove=to_remove,
        )
        if self.head is None or self.head.snapshot_id not in self.staged:
            note_plan(planned, self.reporter, self.metadata.schema, {})
        return planned

    def tasks(self, plan: Plan) -> Iterator[FileScanTask]:
        """Yield the plan's tasks. For files that this transaction itself adds, the first row id and
        the sequence number are withheld: they are not settled before the commit, so rows of these
        files have no lineage but what the files store."""
        return self._tasks(plan.tasks(), plan.row_filter)

    def _tasks(self, tasks: Iterable[FileScanTask], row_filter: Bound) -> Iterator[FileScanTask]:
        for task in tasks:
            if (
                self.staged
                and task.facts.snapshot_id in self.staged
                and task.file.first_row_id is not None
            ):
                file = replace(task.file, first_row_id=UNSETTLED)
                facts = replace(task.facts, file=file, data_sequence_number=None)
                yield FileScanTask(None, 0, row_filter, task.spec, facts, None, task.delete_files)
            else:
                yield task

    def plan_withholding_row_ids(self, predicate: Predicate) -> Plan:
        """Plan as `plan` does, with the first row ids withheld in the plan itself that `tasks`
        withholds.
        """
        planned = self.plan(predicate)
        if not (self.staged and self.lineage):
            return planned
        staged = pa.array(sorted(self.staged), pa.int64())
        groups = []
        for group in planned.groups:
            index, ids = (
                group.table.column_names.index("first_row_id"),
                group.table.column("first_row_id"),
            )
            unsettled = pc.and_(pc.is_in(group.table.column("snapshot_id"), staged), ids.is_valid())
            masked_ids = pc.if_else(unsettled, pa.scalar(UNSETTLED, ids.type), ids)
            groups.append(
                PlannedFiles(
                    group.spec,
                    group.table.set_column(index, "first_row_id", masked_ids),
                    group.deletes,
                )
            )
        return replace(planned, groups=tuple(groups))

    def split(self, plan: Plan) -> tuple[TaskSequence, list[FileScanTask]]:
        """Split the planned files into those whose rows all match, and those that must be read to
        find the matching rows.
        """
        masks = [pc.equal(g.table.column("_match"), WHOLLY) for g in plan.groups]
        wholly = tuple(g.chosen(m) for g, m in zip(plan.groups, masks, strict=True))
        to_read = tuple(g.chosen(pc.invert(m)) for g, m in zip(plan.groups, masks, strict=True))
        return TaskSequence(wholly, plan.row_filter), list(
            self._tasks(TaskSequence(to_read, plan.row_filter), plan.row_filter)
        )

    def in_grammar(self, bind: Callable[[], R]) -> R | None:
        """Return what `bind` returns; None where the expression is beyond Frazil's grammar and the
        engine evaluates SQL.

        Raises what `bind` raises where the engine does not.
        """
        try:
            return bind()
        except (ParseError, Unsupported):
            if not self.engine.evaluates_sql:
                raise
            return None

    def check_texts(self, words: Iterable[object]) -> None:
        """Raise Unsupported for a text among conditions and values in a session whose settings may
        give it another meaning than Frazil's grammar does.
        """
        if not self.settings.is_usual and any(isinstance(word, str) for word in words):
            raise Unsupported("The session's settings change what texts of Spark SQL mean.")

    # --- working

    @property
    def lineage(self) -> bool:
        """Tell whether rows keep their row ids: format version 3 (spec, "Row Lineage")."""
        return self.metadata.format_version >= 3

    @cached_property
    def write_context(self) -> WriteContext:
        context = WriteContext.of(self.metadata, self.storage, self.to.options)
        # reading the property checks it before any file is written
        assert context.settings is not None
        return context.keeping_lineage() if self.lineage else context

    def read_context(self, plan: Plan) -> ReadContext:
        """Return how to read a plan's files with all columns that a rewritten file has, those of
        row lineage included.
        """
        columns_by_name = metadata_columns(self.metadata)
        extra = [columns_by_name[n] for n in LINEAGE] if self.lineage else []
        return ReadContext.of(plan, Schema(*self.schema.fields, *extra), self.storage)

    def context(
        self, plan: Plan, mode: Mode, decider_of: Callable[[ReadContext], Decider]
    ) -> ChangeContext:
        """Return what the tasks of a change share. `decider_of` makes the decider from the plan's
        read context, with which the files are rewritten as well: so each delete file is decoded
        once per task."""
        read, granularity = self.read_context(plan), granularity_of(self.metadata, self.to.options)
        return ChangeContext(
            read,
            self.write_context,
            mode,
            granularity,
            self.metadata.format_version,
            self.lineage,
            decider_of(read),
            not self.staged,
        )

    def change(self, tasks: Sequence[FileScanTask], context: ChangeContext, plan: Plan) -> Changed:
        """Let the runner change these files as the context's decider says, and combine the results
        of its tasks.
        """
        split = (
            in_few_groups(plan.options.split)
            if context.mode == MERGE_ON_READ
            else plan.options.split
        )
        groups = grouped(tasks, self.runner.parallelism, split)
        return combined(self.run(partial(change_files, context), groups))

    def run(self, work: Callable[[G], R], groups: Sequence[G]) -> list[R]:
        """Run the work on all groups, and return its results in their order. After an error no file
        of this operation is left.
        """
        with self.removing_files_on_error():
            return list(self.runner.run(work, groups)) if groups else []

    def removing_files_on_error(self) -> AbstractContextManager[None]:
        """Remove the files that this operation has written, if the `with` block raises an error."""
        return removing_files_on_error(self.write_context, self.runner)

    # --- committing

    def staged_change(
        self,
        kind: Kind,
        mode: Mode,
        changed: Changed,
        where: Predicate,
        metrics: Mapping[str, int] = {},
        isolation: str | None = None,
        inserts: bool = False,
    ) -> StagedWrite:
        """Stage the files of a change with the action that commits them; nothing when no rows
        changed.

        `where`: the filter of the rows that the change depends on, for conflict detection.
        `inserts`: whether rows were inserted because no match was found, so that concurrently added
        rows that match are a conflict. `metrics`: counts that replace those of `changed`.
        """
        attempts_of(self.write_context, self.runner).remove_unreported(
            f.file_path for f in changed.written
        )
        seconds = time.perf_counter() - self.started
        if changed.is_empty:
            return StagedWrite((), (), seconds)
        counts = {
            "rows_inserted": 0,
            "rows_updated": changed.updated,
            "rows_deleted": changed.deleted,
            "rows_copied": changed.copied,
        }
        rewrites = bool(changed.removed or changed.added_deletes)
        before = (
            (WrittenFor(self.metadata, self.to.known_columns, changed.added, rewrites),)
            if changed.added
            else ()
        )
        action = self._action(
            kind,
            mode,
            changed,
            where,
            isolation or isolation_of(kind, self.metadata, self.to.options),
            inserts,
        )
        metrics = {**counts, **metrics}
        reads_table = self.any_row_counts
        return StagedWrite((*before, action), changed.written, seconds, metrics, reads_table)

    def _action(
        self,
        kind: Kind,
        mode: Mode,
        changed: Changed,
        where: Predicate,
        isolation: str,
        inserts: bool,
    ) -> Action:
        """Return the action that commits a change, with the validations of Java's SparkWrite and
        SparkPositionDeltaWrite.
        """
        common: dict[str, Any] = {
            **self.to.snapshot_fields,
            **self.binding_arguments,
            "isolation": isolation,
            "starting_snapshot_id": self.start,
            "conflict_filter": AlwaysTrue() if self.any_row_counts else where,
            "check_absent": inserts,
        }
        if mode == COPY_ON_WRITE or not (changed.added_deletes or changed.removed_deletes):
            return OverwriteFiles(added=changed.added, removed=changed.removed, **common)
        checks_all = kind != "delete"
        return RowDelta(
            added=changed.added,
            added_deletes=changed.added_deletes,
            removed=changed.removed,
            removed_deletes=changed.removed_deletes,
            referenced=changed.referenced,
            check_deleted_files=checks_all,
            check_new_deletes=checks_all,
            **common,
        )

    @property
    def binding_arguments(self) -> dict[str, Any]:
        """Return the arguments by which an action binds its predicates: case sensitivity and time
        zone.
        """
        return {"case_sensitive": self.settings.case_sensitive, "zone": self.settings.zone}


def lineage_of(step: Step, rows: InputFrame) -> Lineage:
    """Tell how the input of a change depends on the table. Where the change is not run again, as in
    a transaction, it is read as it was given."""
    return rows.engine.lineage(rows.frame, step.metadata) if step.plans_anew else Lineage()


def staged_change(
    step: Step, work: Callable[[Step], StagedWrite], lineage: Lineage = Lineage()
) -> StagedWrite:
    """Stage what `work` makes of a step. Where the commit finds that others were first
    (`commit.planned_change`), it calls `work` again with the step on the table as it is then; the
    metrics of the staged write become those of the last call.

    What `work` reads beside the table is read once, and has to be there until the end of the
    operation (`Step.resources`). `lineage`: of the frame that it reads; rows that come from the
    table itself are to be computed again by `lineage.over`.
    """
    always = step.plans_anew and (lineage.over is not None or not lineage.reads_table)

    def run(step: Step) -> StagedWrite:
        staged = work(step)
        return replace(staged, reads_table=staged.reads_table or lineage.reads_table)

    staged = run(step)
    if not staged.actions:
        return staged
    metrics = dict(staged.metrics)

    def anew(metadata: TableMetadata, start: int | None, own: frozenset[int]) -> StagedWrite:
        now = replace(
            step,
            to=step.to.with_metadata(metadata),
            start=start,
            staged=own,
            started=time.perf_counter(),
        )
        again = run(now)
        metrics.clear()
        metrics.update(again.metrics)
        return replace(again, actions=tuple(_without_metadata_changes(again)))

    planned = replace(staged, actions=tuple(_without_metadata_changes(staged)))
    changes: list[Action] = [a for a in staged.actions if isinstance(a, MetadataChange)]
    action = PlannedChange(planned, anew, step.to.branch, step.read, always)
    return replace(staged, actions=(*changes, action), metrics=metrics)


def _without_metadata_changes(staged: StagedWrite) -> list[Action]:
    """Leave out the changes of schema: they are actions of their own, which the commit applies
    before.
    """
    return [a for a in staged.actions if not isinstance(a, MetadataChange)]
