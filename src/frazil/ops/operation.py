"""Collect the changes of one operation on a table, and publish them as one commit at its end.
Metadata is written only then. `CommitResult` tells the outcome: the new snapshot, its summary and
the counts of rows and files.

Counts are the sums over the snapshots' summaries, except where a change counts its rows itself.
Updated, deleted and copied rows are counted by the deciders of each data file
(`rows.rewrite`, summed in `rows.change`) or by Spark's plan (`spark.dml`), inserted rows of a
MERGE in `rows.inserts`; `ops.step` and `ops.merge` hand them over as `StagedWrite.metrics`.
"""

from __future__ import annotations

import contextlib
import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType, TracebackType
from typing import Any, Protocol, Self

from frazil.catalog import CatalogBackend, LoadedTable
from frazil.catalog.backend import reloaded, reporter_of
from frazil.commit.actions import Action, MetadataChange
from frazil.commit.apply import apply_updates
from frazil.commit.context import Context, remove
from frazil.commit.done_once import AlreadyDone, DoneOnce, SetMarks, Txn, already_done, tell
from frazil.commit.manifests import Output
from frazil.commit.multi_table import TablePart, commit_together
from frazil.commit.queue import PATIENCE, goes_first, note_race, turn
from frazil.commit.table_commit import CommitOutcome, commit
from frazil.errors import CommitStateUnknownException, FrazilError, InvalidInput, ValidationError
from frazil.ops import in_process
from frazil.ops.engine import Engine, Engines, InputFrame
from frazil.ops.stage import StagedWrite
from frazil.ops.step import Step
from frazil.ops.target import WriteArguments, WriteTarget, start_of, target
from frazil.spec import logs
from frazil.spec.fact_tree import FactNode, html_of
from frazil.spec.metadata import TableMetadata
from frazil.spec.properties import COMMIT_RETRY, PLAN_ANEW
from frazil.spec.snapshot import MAIN_BRANCH, Snapshot
from frazil.storage import Storage
from frazil.tasks.runner import Runner

_log = logging.getLogger("frazil.ops")
METRICS = (
    "rows_inserted", "rows_updated", "rows_deleted", "rows_copied", "files_added", "files_removed", "delete_files_added",
    "attempts", "planned_anew", "seconds_writing", "seconds_committing", "seconds_planning_anew",
)  # fmt: skip
NOTHING: Mapping[str, Any] = MappingProxyType(
    {name: 0.0 if name.startswith("seconds") else 0 for name in METRICS}
)


@dataclass(frozen=True)
class CommitResult:
    """Hold the result of one write.

    `snapshot_id` is None when no snapshot was made: nothing changed, or only metadata did.
    `operation`: append, overwrite, delete or replace; None without a snapshot. `summary` is the
    summary of the snapshot. `metrics` holds counts of rows and files, the number of commit
    attempts, how often the write was planned anew since others had committed first, and seconds;
    each is also an attribute, as in `result.rows_inserted`. `seconds_committing` includes
    `seconds_planning_anew`. `skipped`: the
    write's `txn` was committed before, in the snapshot `done_in` (None: it changed no rows), and
    nothing was written this time.
    """

    snapshot_id: int | None
    operation: str | None
    summary: Mapping[str, str] = field(default_factory=dict)
    metrics: Mapping[str, Any] = field(default_factory=dict)
    skipped: bool = False
    done_in: int | None = None

    def __getattr__(self, name: str) -> Any:
        if name in METRICS:
            return self.metrics.get(name, 0)
        raise AttributeError(name)

    def __dir__(self) -> list[str]:
        """List the metrics beside the other attributes, for completion."""
        return sorted({*super().__dir__(), *METRICS})

    def _repr_html_(self) -> str:
        """Show the result as a table in notebooks."""
        outcome = repr(self).removeprefix("CommitResult(").removesuffix(")").partition(":")[0]
        counts = [
            (k, f"{v:.3f}" if isinstance(v, float) else f"{v:,}")
            for k, v in self.metrics.items()
            if v
        ]
        return html_of(FactNode(outcome, tuple(counts)))

    def __repr__(self) -> str:
        if self.skipped:
            return f"CommitResult(skipped: done already{'' if self.done_in is None else f', in snapshot {self.done_in}'})"
        if self.snapshot_id is None:
            return (
                "CommitResult(metadata only, no new snapshot)"
                if self.metrics.get("attempts")
                else "CommitResult(nothing changed)"
            )
        shown = ", ".join(
            f"{k}={v:.3f}" if isinstance(v, float) else f"{k}={v:,}"
            for k, v in self.metrics.items()
            if v
        )
        return f"CommitResult({self.operation}, snapshot {self.snapshot_id}: {shown})"


def skipped(done_in: int | None) -> CommitResult:
    """Return the result of a write whose txn was committed before."""
    return CommitResult(None, None, {}, dict(NOTHING), skipped=True, done_in=done_in)


def result_of(
    snapshots: Sequence[Snapshot],
    *,
    attempts: int,
    seconds_writing: float,
    seconds_committing: float,
    planned_anew: int = 0,
    seconds_planning_anew: float = 0.0,
    metrics: Mapping[str, int] = {},
) -> CommitResult:
    """Return the result of one commit. Its snapshot is the last of `snapshots` (none: the commit
    changed only metadata); its counts are the sums over all their summaries, except for those that
    are given as `metrics`."""
    spent = {
        "attempts": attempts,
        "planned_anew": planned_anew,
        "seconds_writing": seconds_writing,
        "seconds_committing": seconds_committing,
        "seconds_planning_anew": seconds_planning_anew,
    }
    if not snapshots:
        return CommitResult(None, None, {}, {**NOTHING, **spent})

    def count(key: str, counted: Sequence[Snapshot] = snapshots) -> int:
        texts = [s.summary.get(key, "0") for s in counted]
        return sum(int(t) for t in texts if t.isdigit())

    def removed(counted: Sequence[Snapshot]) -> int:
        """Count the rows of removed files, without those that position deletes, removed as well,
        had deleted before.
        """
        return max(
            0, count("deleted-records", counted) - count("removed-position-deletes", counted)
        )

    counts = {
        "rows_inserted": count("added-records"),
        "rows_updated": 0,
        "rows_deleted": removed(snapshots),
        "rows_copied": 0,
        "files_added": count("added-data-files"),
        "files_removed": count("deleted-data-files"),
        "delete_files_added": count("added-delete-files"),
        **spent,
        **metrics,
    }
    if "rows_deleted" in metrics:
        # a partition overwrite knows how many rows it replaces only once it is committed
        counts["rows_deleted"] += removed(
            [s for s in snapshots if s.summary.get("replace-partitions") == "true"]
        )
    last = snapshots[-1]
    return CommitResult(last.snapshot_id, last.operation, last.summary, counts)


class TableWrite(Protocol):
    """Stage a write on an operation: a change of `ops.changes`, or the batch of a stream. Its text
    is what logs show."""

    def staged(self, operation: TableOperation) -> StagedWrite:
        """Write the files, and return them with the actions that commit them."""


class TableOperation:
    """Stage writes and metadata changes on one table. As a context manager it commits at the end of
    the block; after an error it commits nothing and removes the files that were written.

    `base`: the table as it was loaded. `metadata`: its metadata with the staged changes of schema,
    specs and properties. `engine`: the engine whose session settings count where a step has no
    engine of its own, and which the snapshot summary names. `on_commit`: called with the table's
    new state. `txn`: makes the operation idempotent (see commit.done_once). `plans_anew`: changes of
    rows may be run again on a state that others have committed meanwhile; not where the caller has
    seen the table in between, as in a transaction. `engines`: chooses the engine of each change.
    """

    def __init__(
        self,
        backend: CatalogBackend | None,
        base: LoadedTable,
        name: str,
        engine: Engine = in_process.IN_PROCESS,
        on_commit: Callable[[LoadedTable], object] = lambda _: None,
        txn: Txn | None = None,
        engines: Engines = in_process,
    ):
        self.backend, self.base, self.name, self.engine, self.on_commit, self.engines = (
            backend,
            base,
            name,
            engine,
            on_commit,
            engines,
        )
        self.txn, self.plans_anew = txn, True
        self._spared = False  # this change went first, and would have lost a race else
        self.metadata: TableMetadata = base.metadata
        self.actions: list[Action] = []
        self.written: list[str] = []
        self.seconds = 0.0
        self.resources = contextlib.ExitStack()
        self._metrics: list[Mapping[str, int]] = []
        self.result = CommitResult(None, None, {}, dict(NOTHING))
        self._preview: Preview | None = None
        self._ended = False
        self._branches: dict[str, None] = {}
        self._done: AlreadyDone | None = None

    @property
    def storage(self) -> Storage:
        return self.base.storage

    # --- staging

    def target(
        self, arguments: WriteArguments, engine: Engine, works: Engine | None = None
    ) -> WriteTarget:
        """Resolve where and how a write goes. `engine`: the engine whose settings count; a Spark
        engine stays the operation's engine from then on. `works`: the engine that writes the rows,
        if it is another one.

        Raises InvalidInput for contradictory arguments, ValidationError for a read-only table.
        """
        self.check_open()
        if engine.evaluates_sql:
            self.engine = engine
        defaults = engine.write_defaults()
        writable(self.backend, self.name)
        to = target(
            arguments,
            self.metadata,
            self.storage,
            self.known_columns,
            self.engine,
            defaults,
            works or engine,
        )
        if self.txn is None:
            return to
        if (done := already_done(self.base.metadata, self.txn, to.branch)) is not None:
            raise _DoneBefore(done)
        self._branches[to.branch] = None
        return replace(to, properties={**to.properties, **self.txn.summary})

    def step(
        self,
        arguments: WriteArguments,
        engine: Engine,
        runner: Runner,
        rows: InputFrame | None = None,
        named: bool = True,
    ) -> Step:
        """Begin a row-level change of the table as staged so far. Conflicts with other writers are
        looked for from the snapshot that was loaded. `named`: whether the caller chose the Spark
        session. Only then do its settings (case, zone, ANSI) apply: a session that merely happens
        to run does the work, but does not change what conditions mean. Nor does it say where the
        rows of an Arrow frame go and how they are written (write-audit-publish, write options); a
        change without a frame goes where the session's SQL would write."""
        self.check_open()
        of_frame = rows is not None and (rows.engine.evaluates_sql or not named)
        # The rows of an overwrite are written by the frame's own engine, those of a MERGE by the
        # engine that joins.
        works = rows.engine if rows is not None and arguments.verb == "overwrite" else engine
        to = self.target(arguments, rows.engine if rows is not None and of_frame else engine, works)
        self._preview = self._preview or Preview(self.base.metadata, self.storage)
        to_staged = to.with_metadata(self._preview.metadata(self.actions))
        settings = (engine if named else in_process.IN_PROCESS).settings(arguments.case_sensitive)
        reporter, start = (
            reporter_of(self.backend, self.base.identifier),
            start_of(self.base.metadata, to),
        )
        staged = self._preview.snapshot_ids
        return Step(
            to_staged,
            engine,
            runner,
            settings,
            start,
            staged,
            reporter=reporter,
            resources=self.resources,
            plans_anew=self.plans_anew
            and to.options.validate_from_snapshot_id is None
            and PLAN_ANEW.of(self.base.metadata.properties),
        )

    def go_first(self, rows: InputFrame | None) -> None:
        """Take the turn of this commit, and load the newest state, before anything is read, where
        the last change of the table was planned in vain: among several writers each change is
        planned once then. Not where the rows come from a state of the table that was read before.

        The turn lasts until the end of the operation.
        """
        if (
            not goes_first(self.base)
            or not (self.plans_anew and PLAN_ANEW.of(self.metadata.properties))
            or self.backend is None
            or self.actions
            or (rows is not None and rows.engine.lineage(rows.frame, self.metadata).reads_table)
        ):
            return
        properties = self.base.metadata.properties
        waits = (p.of(properties) / 1000 for p in (COMMIT_RETRY.longest, COMMIT_RETRY.total))
        self.resources.enter_context(turn(self.base, min(PATIENCE, *waits)))
        newest = reloaded(self.backend, self.base)
        if newest.metadata_location == self.base.metadata_location:
            return
        self._spared = True
        if newest.metadata.table_uuid == self.base.metadata.table_uuid:
            self.base, self.metadata = newest, newest.metadata

    def run(self, write: TableWrite) -> None:
        """Run a write and stage its result. Nothing is read or written where the operation's txn
        was committed before.
        """
        _log.debug("Write to %s: %r", self.name, write, extra=logs.facts(self.name, "write"))
        try:
            self.add(write.staged(self))
        except _DoneBefore as before:
            self._done = before.done

    def add(self, staged: StagedWrite) -> None:
        """Stage the files and actions of a write, and add up its metrics."""
        self.written += staged.written
        self.seconds += staged.seconds
        self._metrics.append(staged.metrics)
        self.stage(*staged.actions)

    @property
    def metrics(self) -> dict[str, int]:
        """Return the sums of the metrics of all writes; the commit may change those of a write that
        it plans anew.
        """
        total = Counter[str]()
        for metrics in self._metrics:
            total.update(metrics)
        return dict(total)

    def stage(self, *actions: Action) -> None:
        """Stage actions for the commit; later steps see the new schema, spec and properties."""
        self.check_open()
        for action in actions:
            if isinstance(action, MetadataChange):
                self.metadata = apply_updates(self.metadata, action.build(self.metadata))
            self.actions.append(action)

    def check_open(self) -> None:
        """Raise InvalidInput when the operation has been committed or has failed."""
        if self._ended:
            raise InvalidInput(
                "This transaction has been committed or has failed already.",
                hint="Start a new one with t.transaction().",
            )

    # --- the end

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if isinstance(error, FrazilError):
            error.of_table(self.name, self.base.metadata.location)
        if error is None:
            self.commit()
        else:
            self.abandon(error)

    def abandon(self, error: BaseException) -> None:
        """End the operation without a commit, and remove the files that were written for it."""
        if not self._ended:
            self._ended = True
            if not isinstance(error, CommitStateUnknownException):
                remove(self.storage, self.written, "a transaction that failed")
            self._release()

    def commit(self) -> CommitResult:
        """Commit everything that is staged, as one new state of the table; afterwards nothing more
        can be staged.

        Raises CommitFailedException, ValidationException, CommitStateUnknownException.
        """
        if self.close():
            with naming(self.name, self.base.metadata.location), self.releasing():
                outcome = self.publish()
            self.conclude(outcome)
        return self.result

    def close(self) -> bool:
        """End the staging, and tell whether there is anything to commit."""
        self.check_open()
        self._ended = True
        if self._done is not None:
            remove(self.storage, self.written, "a transaction that is done already")
            self._skip(self._done)
        commits = self._done is None and self.has_work
        if not commits:
            self._release()
        return commits

    @contextlib.contextmanager
    def releasing(self) -> Iterator[None]:
        """Remove what the operation needs until its end at the end of the block, be it by an error:
        the files of the preview, the sources of MERGEs."""
        try:
            yield
        finally:
            self._release()

    def conclude(self, outcome: CommitOutcome) -> None:
        """Take over the outcome of the commit as the operation's result."""
        self.on_commit(outcome.table)
        if outcome.done is not None:
            self._skip(outcome.done, outcome.table.metadata)
            return
        if outcome.planned_anew or self._spared:
            note_race(self.base, outcome.seconds_planning or self.seconds)
        self.result = result_of(
            outcome.snapshots,
            attempts=outcome.attempts,
            seconds_writing=self.seconds,
            seconds_committing=outcome.seconds,
            planned_anew=outcome.planned_anew,
            seconds_planning_anew=outcome.seconds_planning,
            metrics=self.metrics,
        )

    def _skip(self, done: AlreadyDone, metadata: TableMetadata | None = None) -> None:
        tell(done, self.name, metadata or self.base.metadata)
        self.result = skipped(done.snapshot_id)

    def _release(self) -> None:
        if self._preview is not None:
            self._preview.remove()
        self.resources.close()

    @property
    def is_done(self) -> bool:
        """Tell whether the operation's txn was found done already, so that nothing is written."""
        return self._done is not None

    # --- what ops.creation overrides

    @property
    def has_work(self) -> bool:
        """Tell whether there is anything to commit; a txn is marked as done even when no rows
        changed.
        """
        return bool(self.actions) or self.txn is not None

    @property
    def known_columns(self) -> int:
        """Return the highest field id of the table as it was loaded."""
        return self.base.metadata.last_column_id

    def publish(self) -> CommitOutcome:
        """Commit the staged actions through the catalog."""
        part = self.part()
        return commit(
            writable(self.backend, self.name),
            part.base,
            part.actions,
            written=part.written,
            environment=part.environment,
        )

    def part(self) -> TablePart:
        """Return the staged changes as a table's part of a commit."""
        actions = self.actions
        if self.txn is not None:
            branches = tuple(self._branches) or (MAIN_BRANCH,)
            actions = [DoneOnce(self.txn, branches), *actions, SetMarks(self.txn, branches)]
        return TablePart(self.base, actions, self.written, self.engine.facts())


def commit_operations(backend: CatalogBackend, operations: Sequence[TableOperation]) -> None:
    """Commit the staged changes of several tables as one: all of them, or none.

    Raises as `TableOperation.commit` does, and Unsupported where the catalog cannot do it.
    """
    to_commit = [operation for operation in operations if operation.close()]
    with contextlib.ExitStack() as stack:
        for operation in to_commit:
            stack.enter_context(operation.releasing())
        outcomes = commit_together(backend, [operation.part() for operation in to_commit])
    for operation, outcome in zip(to_commit, outcomes, strict=True):
        operation.conclude(outcome)


class _DoneBefore(Exception):
    """End a write before it reads or writes anything, because the loaded table has the mark of its
    txn.
    """

    def __init__(self, done: AlreadyDone):
        super().__init__(done)
        self.done = done


def writable(backend: CatalogBackend | None, name: str) -> CatalogBackend:
    """Return the catalog that takes the commits to a table. Raises ValidationError for a table that
    was opened from a metadata file.
    """
    if backend is None:
        raise ValidationError(
            f"{name} was opened from a metadata file and is read-only.",
            hint="Load it by its location or name.",
        )
    return backend


@contextlib.contextmanager
def naming(name: str, location: str) -> Iterator[None]:
    """Add the table's name to any FrazilError that leaves the `with` block and does not name it
    yet.
    """
    try:
        yield
    except FrazilError as e:
        e.of_table(name, location)
        raise


class Preview:
    """Hold a table's metadata with staged actions applied. As the list of actions grows, each
    action is applied once.
    """

    def __init__(self, base: TableMetadata, storage: Storage):
        self._current, self._applied = base, 0
        self._context = Context(Output(storage), attempt=0)

    def metadata(self, actions: Sequence[Action]) -> TableMetadata:
        """Return the table's metadata with these actions applied. Raises what an action raises, as
        the commit would.
        """
        for index in range(self._applied, len(actions)):
            self._context.begin(index)
            updates = actions[index].apply(self._current, self._context)
            assert not isinstance(updates, AlreadyDone), "marks are looked for at the commit"
            if updates:
                self._current = apply_updates(self._current, updates, now_ms=self._context.now_ms)
            self._applied = index + 1
        return self._current

    @property
    def snapshot_ids(self) -> frozenset[int]:
        """Return the ids of the preview's snapshots, which the commit replaces by snapshots of its
        own.
        """
        return frozenset(self._context.snapshot_ids())

    def remove(self) -> None:
        """Remove the manifests of the preview, which no table refers to."""
        remove(self._context.storage, self._context.output.written, "the preview of a transaction")
