"""One row-level step of a transaction: what it reads, who works on it, and the one action that commits it.

A step sees what earlier steps of its transaction have staged; conflicts with others count from the snapshot that was loaded.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from frazil.arrow.read.metadata_columns import UNSETTLED
from frazil.arrow.read.read_context import ReadContext
from frazil.arrow.write.write_context import WriteContext
from frazil.arrow.write.write_options import meaningless
from frazil.commit.actions import Action, OverwriteFiles, RowDelta
from frazil.commit.produce import parent_of
from frazil.commit.written import WrittenFor
from frazil.errors import ParseError, Unsupported
from frazil.expr.bound import Bound
from frazil.expr.nodes import Predicate
from frazil.ops.engine import Engine
from frazil.ops.session import SessionSettings
from frazil.ops.stage import StagedWrite
from frazil.ops.target import WriteTarget
from frazil.rows.change import ChangeContext, Changed, Decider, change_files, combined
from frazil.rows.groups import grouped
from frazil.rows.modes import COPY_ON_WRITE, Kind, Mode, distribution_of, granularity_of, isolation_of
from frazil.scan.columns import metadata_columns
from frazil.scan.plan import Plan, ScanOptions, plan
from frazil.scan.tasks import WHOLLY, FileScanTask, PlannedFiles, TaskSequence
from frazil.spec.metadata import TableMetadata
from frazil.spec.schema import Schema
from frazil.spec.snapshot import Snapshot
from frazil.storage import Storage
from frazil.tasks.attempts import attempts_of
from frazil.tasks.runner import Runner

G = TypeVar("G")
R = TypeVar("R")
LINEAGE = ("_row_id", "_last_updated_sequence_number")


@dataclass(frozen=True)
class Step:
    """One row-level step. `to.metadata` holds what the transaction has staged, `start` is the snapshot others' changes count from (None:
    the branch was empty), `staged` the ids of the transaction's own snapshots. `engine` says how names and literals are read, and finds
    rows by SQL where it can; `runner` works on files."""

    to: WriteTarget
    engine: Engine
    runner: Runner
    settings: SessionSettings = SessionSettings()
    start: int | None = None
    staged: frozenset[int] = frozenset()
    started: float = field(default_factory=time.perf_counter)

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
        return parent_of(self.metadata, self.to.branch)

    @property
    def schema(self) -> Schema:
        return self.metadata.schema()

    def shuffles(self, kind: Kind, *others: Schema) -> bool:
        """Whether new rows are to be shuffled before they are written, which only Spark does: somebody asks for hash or range, or says how
        much a task of the shuffle should hold. Else they are written by the task that found them, as are rows with columns that Spark
        lacks (`others`: schemas of more rows that would pass through it), unless an option asks: then InvalidInput names it."""
        options = self.to.options
        asked = distribution_of(kind, self.metadata, options)
        if asked in (None, "none") and options.asks_for("advisory_partition_size") and self.engine.evaluates_sql:
            if asked == "none":
                raise meaningless("advisory_partition_size", "where rows are not shuffled", "distribution-mode: hash or range.")
            asked = "hash"
        if asked == "range" and self.write.spec.unpartitioned and self.write.sort_order.is_unsorted:
            asked = "none"  # nothing that ranges could be made of
        if not self.engine.evaluates_sql or asked in (None, "none"):
            return False
        for schema in (self.schema, *others):
            if (f := self.engine.lacking(schema)) is not None:
                given = next((n for n in ("distribution_mode", "advisory_partition_size") if options.asks_for(n)), None)
                if given is not None:
                    raise meaningless(given, f"to rows with column {f.name} of type {f.field_type}, which Spark cannot shuffle")
                return False
        return True

    # --- reading

    def plan(self, predicate: Predicate, *, to_remove: bool = False) -> Plan:
        """The files of the branch that may hold rows for which the predicate is TRUE, with the deletes that apply to them. `to_remove`:
        those that match wholly will not be read."""
        return plan(
            self.metadata, self.storage, snapshot=self.head, schema=self.schema, row_filter=predicate, case_sensitive=self.case_sensitive,
            zone=self.settings.zone, options=ScanOptions.of({}, self.metadata.properties), to_remove=to_remove,
        )  # fmt: skip

    def tasks(self, plan: Plan) -> Iterator[FileScanTask]:
        """The plan's tasks. Rows of files that this transaction adds have no lineage yet but what the files store: row ids and sequence
        numbers shift when the commit is tried again."""
        return self._tasks(plan.tasks(), plan.row_filter)

    def _tasks(self, tasks: Iterable[FileScanTask], row_filter: Bound) -> Iterator[FileScanTask]:
        for task in tasks:
            if self.staged and task.facts.snapshot_id in self.staged and task.file.first_row_id is not None:
                file = replace(task.file, first_row_id=UNSETTLED)
                facts = replace(task.facts, file=file, data_sequence_number=None)
                yield FileScanTask(None, 0, row_filter, task.spec, facts, None, task.delete_files)
            else:
                yield task

    def settled_plan(self, predicate: Predicate) -> Plan:
        """`plan`, with what `tasks` does to a file's row ids done in the plan itself."""
        planned = self.plan(predicate)
        if not (self.staged and self.lineage):
            return planned
        own = pa.array(sorted(self.staged), pa.int64())
        groups = []
        for g in planned.groups:
            at, ids = g.table.column_names.index("first_row_id"), g.table.column("first_row_id")
            mine = pc.and_(pc.is_in(g.table.column("snapshot_id"), own), ids.is_valid())
            kept = pc.if_else(mine, pa.scalar(UNSETTLED, ids.type), ids)
            groups.append(PlannedFiles(g.spec, g.table.set_column(at, "first_row_id", kept), g.deletes))
        return replace(planned, groups=tuple(groups))

    def split(self, plan: Plan) -> tuple[TaskSequence, list[FileScanTask]]:
        """Files all of whose rows match, and those that must be read to know."""
        masks = [pc.equal(g.table.column("_match"), WHOLLY) for g in plan.groups]
        wholly = tuple(g.chosen(m) for g, m in zip(plan.groups, masks, strict=True))
        rest = tuple(g.chosen(pc.invert(m)) for g, m in zip(plan.groups, masks, strict=True))
        return TaskSequence(wholly, plan.row_filter), list(self._tasks(TaskSequence(rest, plan.row_filter), plan.row_filter))

    def in_grammar(self, bind: Callable[[], R]) -> R | None:
        """What `bind` binds; None: it is beyond Frazil's grammar, and the engine's SQL may know it."""
        try:
            return bind()
        except (ParseError, Unsupported):
            if not self.engine.evaluates_sql:
                raise
            return None

    # --- working

    @property
    def lineage(self) -> bool:
        """Whether rows keep their ids (v3)."""
        return self.metadata.format_version >= 3

    @cached_property
    def write(self) -> WriteContext:
        context = WriteContext.of(self.metadata, self.storage, self.to.options)
        assert context.settings is not None  # checked before the first byte
        return context.keeping_lineage() if self.lineage else context

    def read(self, plan: Plan) -> ReadContext:
        """All columns that a rewritten file has."""
        known = metadata_columns(self.metadata)
        extra = [known[n] for n in LINEAGE] if self.lineage else []
        return ReadContext.of(plan, Schema(*self.schema.fields, *extra), self.storage)

    def context(self, plan: Plan, mode: Mode, decider: Decider) -> ChangeContext:
        options = self.to.options
        return ChangeContext(
            self.read(plan), self.write, mode, granularity_of(self.metadata, options), self.metadata.format_version, self.lineage, decider
        )

    def change(self, tasks: Sequence[FileScanTask], context: ChangeContext, plan: Plan) -> Changed:
        """The decider's changes to these files, by the runner."""
        groups = grouped(tasks, self.runner.parallelism, plan.options.split)
        return combined(self.run(partial(change_files, context), groups))

    def run(self, work: Callable[[G], R], groups: Sequence[G]) -> list[R]:
        """The results of all groups. Any error: nothing of this operation is left."""
        with self.nothing_left():
            return list(self.runner.run(work, groups)) if groups else []

    @contextmanager
    def nothing_left(self) -> Iterator[None]:
        """An error inside removes the files that this operation has written."""
        try:
            yield
        except BaseException:
            attempts_of(self.write, self.runner).remove_all()
            raise

    # --- committing

    def staged_change(
        self, kind: Kind, mode: Mode, changed: Changed, where: Predicate, metrics: Mapping[str, int] = {}, isolation: str | None = None,
        inserts: bool = False,
    ) -> StagedWrite:  # fmt: skip
        """The files of a change and the action that commits them; nothing when nothing changed. `where`: the rows it relied on.
        `inserts`: rows are added because none like them was found."""
        attempts_of(self.write, self.runner).keep(f.file_path for f in changed.written)
        seconds = time.perf_counter() - self.started
        if changed.is_empty:
            return StagedWrite((), (), seconds)
        counts = {"rows_inserted": 0, "rows_updated": changed.updated, "rows_deleted": changed.deleted, "rows_copied": changed.copied}
        rewrites = bool(changed.removed or changed.added_deletes)
        before = (WrittenFor(self.metadata, self.to.known_columns, changed.added, rewrites),) if changed.added else ()
        action = self._action(kind, mode, changed, where, isolation or isolation_of(kind, self.metadata, self.to.options), inserts)
        return StagedWrite((*before, action), changed.written, seconds, {**counts, **metrics})

    def _action(self, kind: Kind, mode: Mode, changed: Changed, where: Predicate, isolation: str, inserts: bool) -> Action:
        """Validations are Java's (SparkWrite, SparkPositionDeltaWrite)."""
        common: dict[str, Any] = {
            **self.to.snapshot_fields, **self.names, "isolation": isolation, "starting_snapshot_id": self.start, "conflict_filter": where,
            "check_absent": inserts,
        }  # fmt: skip
        if mode == COPY_ON_WRITE or not (changed.added_deletes or changed.removed_deletes):
            return OverwriteFiles(added=changed.added, removed=changed.removed, **common)
        checks_all = kind != "delete"
        return RowDelta(
            added=changed.added, added_deletes=changed.added_deletes, removed=changed.removed, removed_deletes=changed.removed_deletes,
            referenced=changed.referenced, check_deleted_files=checks_all, check_new_deletes=checks_all, **common,
        )  # fmt: skip

    @property
    def names(self) -> dict[str, Any]:
        """How predicates of an action are bound."""
        return {"case_sensitive": self.settings.case_sensitive, "zone": self.settings.zone}
