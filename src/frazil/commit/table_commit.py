"""Commit actions in a loop: apply them to the metadata, swap once, and try again on fresh metadata
when another writer was first.

When another writer was first, `swap` returns `Conflict` instead of raising. Only metadata is made
again: data files are written once, manifests are reused, the snapshot id stays, so that an attempt
that was applied without an answer is recognised. When it is not known whether the commit was
applied, nothing is deleted; when it is known to have failed, exactly the files that this commit
wrote are.
"""

from __future__ import annotations

import contextlib
import logging
import random
import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from frazil.catalog.backend import CatalogBackend
from frazil.catalog.base import Committed, Conflict, LoadedTable, Outcome, Unknown
from frazil.catalog.names import full_name
from frazil.commit.actions import Action, ReplaceTable
from frazil.commit.apply import apply_updates, check_schema
from frazil.commit.context import Context, remove
from frazil.commit.done_once import AlreadyDone
from frazil.commit.manifests import Output
from frazil.commit.new_table import creation_updates
from frazil.commit.queue import PATIENCE, turn
from frazil.errors import (
    CommitFailedException,
    CommitStateUnknownException,
    FrazilError,
    NoSuchFileError,
    NoSuchTableError,
    TableAlreadyExistsError,
    ValidationException,
)
from frazil.spec import logs
from frazil.spec.metadata import TableMetadata
from frazil.spec.properties import COMMIT_RETRY, COMMIT_STATUS_CHECK
from frazil.spec.snapshot import Snapshot
from frazil.spec.updates import AssignUUID, Requirement, Update, requirements_for
from frazil.storage import Storage

log = logging.getLogger(__name__)
Sleep = Callable[[float], None]


@dataclass(frozen=True)
class CommitOutcome:
    """Hold the result of a commit. `snapshots`: those this commit made, in order; `attempts` 0:
    nothing to change, nothing committed. `done`: an action found that the same commit was done
    before. `planned_anew`: how often a change of rows was run again after others had committed, in
    all attempts; it took `seconds_planning` of the `seconds`."""

    table: LoadedTable
    snapshots: tuple[Snapshot, ...]
    attempts: int
    seconds: float
    done: AlreadyDone | None = None
    planned_anew: int = 0
    seconds_planning: float = 0.0

    @property
    def snapshot(self) -> Snapshot | None:
        """Return the last snapshot that the commit made, None when it made none."""
        return self.snapshots[-1] if self.snapshots else None


@dataclass(frozen=True)
class PreparedCommit:
    """Hold the metadata of one attempt: what the actions make of one state of the table."""

    metadata: TableMetadata
    updates: tuple[Update, ...]
    requirements: tuple[Requirement, ...]


def plan(
    base: TableMetadata, actions: Sequence[Action], context: Context
) -> PreparedCommit | AlreadyDone | None:
    """Apply the actions one after the other; return None when they change nothing, AlreadyDone when
    one of them finds its commit done before."""
    updates: list[Update] = []
    current = base
    for index, action in enumerate(actions):
        context.begin(index)
        wanted = action.apply(current, context)
        if isinstance(wanted, AlreadyDone):
            return wanted
        updates += wanted
        if index < len(actions) - 1 and wanted:
            current = apply_updates(current, wanted, now_ms=context.now_ms)
    if updates and base.table_uuid is None:
        updates.insert(0, AssignUUID(str(uuid.uuid4())))
    final = apply_updates(base, updates, now_ms=context.now_ms)
    if final is base:
        return None
    replaces = any(isinstance(a, ReplaceTable) for a in actions)
    return PreparedCommit(final, tuple(updates), requirements_for(base, updates, replace=replaces))


@dataclass
class TableCommit:
    """Commit actions to one table in a loop of attempts (`run`), and remove the files that its
    outcome leaves without use.

    `base`: the state of the table that the next attempt starts from. `written`: data files that
    were made for this commit. `swapping`: a swap was sent, and it is not certain yet that it was
    not applied. As long as it is True the table may refer to files of this commit, so that an error
    must not remove any.
    """

    backend: CatalogBackend
    base: LoadedTable
    actions: Sequence[Action]
    written: Sequence[str]
    context: Context
    sleep: Sleep
    started: float = field(default_factory=time.monotonic)
    swapping: bool = False

    def __post_init__(self) -> None:
        properties = (
            self.base.metadata.properties
        )  # as the table was loaded: what others change meanwhile counts for the next commit
        self.retries = COMMIT_RETRY.retries.of(properties)
        self.longest, self.total = (
            p.of(properties) / 1000 for p in (COMMIT_RETRY.longest, COMMIT_RETRY.total)
        )
        self.shortest = (
            COMMIT_RETRY.shortest.of(properties) / 1000
            if COMMIT_RETRY.shortest.name in properties
            else self.longest
        )

    def run(self) -> CommitOutcome:
        """Commit the actions and return the outcome. The steps of the loop:

        1. Wait for the turn of this commit among those of this process (`queue.turn`), and write
           new manifests meanwhile.
        2. Load the table again where others committed in between, or where the last attempt was
           lost.
        3. Apply the actions and swap (`attempt`). If the first attempt is lost, the second follows
           at once, within the same turn.
        4. After another conflict, pause and begin again with step 1, as long as there are retries.

        When the swap was applied, the manifests of lost attempts are removed (`succeeded`). When
        there is nothing to commit, or an action finds that this commit was done before, all files
        of this commit are removed (`take_back`). After an unclear answer the snapshot is looked for
        (`recognised`); unless it is found, no file is removed. Files of a commit that raises are
        left to the caller, which removes all of them (`give_up`) unless `swapping`.
        """
        lost = 0.0  # seconds that the last attempt took that met a conflict; 0.0: none did so far
        while True:
            patience = min(PATIENCE, self.longest, self.total - (time.monotonic() - self.started))
            with turn(self.base, patience, self.write_new_manifests) as others_were_first:
                if others_were_first or lost:
                    # an attempt on metadata that is known to be stale would be lost
                    self.next_base()
                begun, planning = time.monotonic(), self.context.seconds_planning
                ready, outcome = self.attempt()
                if isinstance(outcome, Conflict) and not (
                    others_were_first or lost
                ):  # the table was loaded long ago, as a rule
                    begun, planning = time.monotonic(), self.context.seconds_planning
                    ready, outcome = self.attempt()
            if isinstance(ready, AlreadyDone) and ready.snapshot_id in self.context.snapshot_ids():
                # An earlier attempt of this commit was applied, and its snapshot has been expired
                # since.
                return self.succeeded(self.base)
            match outcome:
                case Conflict():
                    lost = max(
                        1e-3, time.monotonic() - begun - (self.context.seconds_planning - planning)
                    )
                    self.sleep(self.pause(lost))
                case _ if ready is None or isinstance(ready, AlreadyDone):
                    self.take_back()
                    return self.outcome(self.base, 0, ready)
                case Committed(table=table):
                    return self.succeeded(table)
                case Unknown(cause=cause):
                    return self.recognised(ready, cause)

    def write_new_manifests(self) -> None:
        """Write the new manifests while other commits have their turn, so that the attempt finds
        them written. Errors are suppressed here: the attempt meets and reports them."""
        self.context.only_new = True
        try:
            with contextlib.suppress(FrazilError):
                plan(self.base.metadata, self.actions, self.context)
        finally:
            self.context.only_new = False

    def attempt(self) -> tuple[PreparedCommit | AlreadyDone | None, Outcome]:
        """Plan the actions on the table's present state (see `plan`) and swap; return the plan and
        the outcome of the swap. After a conflict the base is loaded again, and the next attempt may
        begin. Raises CommitFailedException when no retry is left."""
        try:
            ready = plan(self.base.metadata, self.actions, self.context)
        except NoSuchFileError as missing:
            return None, self.outdated(missing)
        if ready is None or isinstance(ready, AlreadyDone):
            return ready, Committed(self.base)
        outcome = self.swap(ready)
        if isinstance(outcome, Conflict):
            self.next_base()
            if self.landed(self.base.metadata, ready):
                return ready, Committed(self.base)
            self.swapping = False
            self.begin_next(outcome.reason)
        return ready, outcome

    def outdated(self, missing: NoSuchFileError) -> Conflict:
        """Load the table again after a file of its present state was not found: others have
        committed, and expired this state. Raises the error where nobody has committed, since the
        table itself lacks the file then."""
        self.leave_outdated(missing)
        self.begin_next(str(missing))
        return Conflict(str(missing))

    def leave_outdated(self, missing: NoSuchFileError) -> None:
        """Load the state that follows on one that others have expired; see `outdated`."""
        stale = self.base.metadata_location
        self.next_base()
        if self.base.metadata_location == stale:
            raise missing

    def begin_next(self, reason: str) -> None:
        """Begin the next attempt. Raises CommitFailedException when no retry is left."""
        self.check_retries(reason)
        self.context.attempt += 1
        self.context.now_ms = max(self.context.now_ms, time.time_ns() // 1_000_000)

    def check_retries(self, reason: str) -> None:
        """Check that retries are left. Raises CommitFailedException when commit.retry.num-retries
        or commit.retry.total-timeout-ms is used up."""
        attempt, waited = self.context.attempt, time.monotonic() - self.started
        if attempt > self.retries or waited > self.total:
            raise CommitFailedException(
                f"Could not commit to {table_name(self.base)} after {attempt} attempts: {reason}",
                table=table_name(self.base),
                attempts=attempt,
                hint="Others commit to it at the same time; try again, or raise commit.retry.num-retries.",
            )

    def pause(self, lost: float) -> float:
        """Compute the seconds before the next attempt: the time that the lost attempt took, four
        times as long with each attempt, at most max-wait-ms and, where the table sets it,
        min-wait-ms, which is doubled. Slow stores need long pauses: who tries again sooner than the
        others can commit loses again."""
        attempt = self.context.attempt
        return min(
            lost * random.uniform(1.0, 2.0) * 4.0 ** (attempt - 3),
            self.shortest * 2.0 ** (attempt - 2),
            self.longest,
        )

    def swap(self, ready: PreparedCommit) -> Committed | Conflict | Unknown:
        """Swap the table's metadata and return the catalog's answer. A FrazilError is raised only
        when nothing was applied; any other error leaves the outcome unknown."""
        # until the table has been looked at: a request that was sent twice conflicts with itself
        self.swapping = True
        return self._swap(ready)

    def _swap(self, ready: PreparedCommit) -> Committed | Conflict | Unknown:
        try:
            return self.backend.swap(
                self.base, ready.metadata, updates=ready.updates, requirements=ready.requirements
            )
        except CommitFailedException as e:
            return Conflict(str(e))
        except CommitStateUnknownException as e:
            return Unknown(e)
        except FrazilError:  # the back end's promise: nothing was applied and nothing is left
            self.swapping = False
            raise
        except Exception as e:
            return Unknown(e)

    def next_base(self) -> None:
        """Load fresh metadata of the same table. Another uuid means another table under the same
        name, which is left alone.
        """
        try:
            fresh = self.backend.load(self.base.identifier)
        except NoSuchTableError:
            self.swapping = False
            raise
        base_uuid, now = self.base.metadata.table_uuid, fresh.metadata.table_uuid
        if base_uuid is not None and now is not None and base_uuid != now:
            self.swapping = False
            raise ValidationException(
                f"Table UUID does not match: {table_name(self.base)} was {base_uuid}, is {now}: it was dropped and made again meanwhile.",
                hint="Load the table again.",
                table=table_name(self.base),
            )
        self.base = fresh

    def landed(self, metadata: TableMetadata, ready: PreparedCommit) -> bool:
        """Tell whether one of our attempts is in this state of the table."""
        ids = self.context.snapshot_ids()
        if ids:
            return any(metadata.snapshots.by_id(i) is not None for i in ids)
        return same_state(metadata, ready.metadata)

    def recognised(self, ready: PreparedCommit, cause: BaseException) -> CommitOutcome:
        """Look for our snapshot after an unclear answer: success if it is found; else the outcome
        stays unknown and every file stays.
        """
        properties = self.base.metadata.properties
        retries, begun = COMMIT_STATUS_CHECK.retries.of(properties), time.monotonic()
        pause, longest = (
            p.of(properties) / 1000
            for p in (COMMIT_STATUS_CHECK.shortest, COMMIT_STATUS_CHECK.longest)
        )
        for check in range(retries + 1):
            try:
                fresh = self.backend.load(self.base.identifier)
            except Exception as e:
                log.warning(
                    "Could not look at %s after an unclear commit: %s",
                    table_name(self.base),
                    e,
                    extra=logs.facts(table_name(self.base), "commit"),
                )
                if (
                    check == retries
                    or time.monotonic() - begun > COMMIT_STATUS_CHECK.total.of(properties) / 1000
                ):
                    break
                self.sleep(min(longest, pause * 2**check))
                continue
            same = (
                fresh.metadata.table_uuid in (None, self.base.metadata.table_uuid)
                or self.base.metadata.table_uuid is None
            )
            if same and self.landed(fresh.metadata, ready):
                return self.succeeded(fresh)
            break
        raise self.unknown(cause) from (cause if isinstance(cause, Exception) else None)

    def unknown(self, cause: BaseException) -> CommitStateUnknownException:
        return CommitStateUnknownException(
            f"Cannot tell whether the commit to {table_name(self.base)} was applied: {cause}",
            table=table_name(self.base),
            snapshot_id=next(iter(self.context.snapshot_ids()), None),
            hint="All its files are kept. Load the table and look for the snapshot before you try again.",
        )

    def succeeded(self, table: LoadedTable) -> CommitOutcome:
        """Remove the files that lost attempts left; a failure to remove them does not fail the
        commit.
        """
        try:
            used = self.used(table)
            if used is not None:
                unused = [w for w in self.context.output.written if w not in used]
                remove(
                    self.context.storage,
                    [*unused, *self.context.unneeded_files()],
                    "attempts that lost",
                )
        except Exception as e:
            log.warning(
                "Could not clean up after the commit to %s: %s",
                table_name(table),
                e,
                extra=logs.facts(table_name(table), "commit"),
            )
        return self.outcome(table, self.context.attempt)

    def used(self, table: LoadedTable) -> set[str] | None:
        """List our manifests and manifest lists that the table refers to; None when that is not
        certain, because an attempt before the last one landed."""
        used_files: set[str] = set()
        for state in self.context.states.values():
            saved = table.metadata.snapshots.by_id(state.snapshot_id) if state.used else None
            if state.used and (saved is None or saved.manifest_list not in state.used):
                return None
            used_files |= state.used
        return used_files

    def outcome(
        self, table: LoadedTable, attempts: int, done: AlreadyDone | None = None
    ) -> CommitOutcome:
        snapshots = (table.metadata.snapshots.by_id(i) for i in self.context.snapshot_ids())
        return CommitOutcome(
            table,
            tuple(s for s in snapshots if s is not None),
            attempts,
            time.monotonic() - self.started,
            done,
            sum(self.context.planned_anew.values()),
            self.context.seconds_planning,
        )

    def take_back(self) -> None:
        """Remove the files that this commit wrote, and the data files that were written for it,
        since there is nothing to commit.
        """
        unneeded = self.context.unneeded_files()
        remove(
            self.context.storage,
            [*self.context.output.written, *self.written, *unneeded],
            "a commit that changes nothing",
        )

    def give_up(self) -> None:
        """Remove the files that this commit wrote, and the data files that were written for it,
        since the commit was certainly not applied."""
        remove(
            self.context.storage, [*self.context.output.written, *self.written], "a failed commit"
        )


def same_state(state: TableMetadata, other: TableMetadata) -> bool:
    """Tell whether two states are equal but for the metadata log, which the catalog keeps."""
    return state.last_updated_ms == other.last_updated_ms and replace(
        state, metadata_log=()
    ) == replace(other, metadata_log=())


def table_name(table: LoadedTable) -> str:
    return ".".join(table.identifier) or table.metadata.location


def context_of(
    backend: CatalogBackend, storage: Storage, environment: Mapping[str, str] | None
) -> Context:
    return Context(
        Output(storage, sync_folder=not backend.writes_metadata_files), dict(environment or {})
    )


def commit(
    backend: CatalogBackend,
    base: LoadedTable,
    actions: Sequence[Action],
    *,
    written: Iterable[str] = (),
    environment: Mapping[str, str] | None = None,
    sleep: Sleep = time.sleep,
) -> CommitOutcome:
    """Commit all actions as one new version of the table's metadata; several are one transaction.

    `written`: data files made for this commit; they are deleted when it certainly failed.
    `environment` goes into the summaries. Raises CommitFailedException (retries used up),
    ValidationException (others changed what it relies on), CommitStateUnknownException.
    """
    context = context_of(backend, base.storage, environment)
    work = TableCommit(backend, base, list(actions), list(written), context, sleep)
    try:
        outcome = work.run()
    except CommitStateUnknownException:
        raise
    except (
        BaseException
    ) as e:  # also KeyboardInterrupt and SystemExit, which may come after the moment that counts
        if not work.swapping:
            work.give_up()
        elif isinstance(e, Exception):
            raise work.unknown(e) from e
        raise
    report(backend, outcome, environment)
    return outcome


def report(
    backend: CatalogBackend, outcome: CommitOutcome, environment: Mapping[str, str] | None
) -> None:
    """Log a commit, and report it to the catalog's metrics reporters, if it has any."""
    if outcome.attempts and log.isEnabledFor(logging.INFO):
        _log_commit(full_name((backend.name, *outcome.table.identifier)), outcome)
    if (
        outcome.attempts
        and outcome.snapshots
        and (reporter := backend.reporting.reporter(outcome.table.identifier)) is not None
    ):
        reporter.committed(outcome.snapshots, outcome.attempts, outcome.seconds, environment or {})


def _log_commit(name: str, outcome: CommitOutcome) -> None:
    """Log one record for each snapshot of a commit; for one without snapshots, which changed
    metadata only, one record.
    """
    facts = {
        "location": outcome.table.metadata.location,
        "attempts": outcome.attempts,
        "seconds": outcome.seconds,
        "planned_anew": outcome.planned_anew,
        "seconds_planning_anew": outcome.seconds_planning,
    }
    for snapshot in outcome.snapshots:
        operation = snapshot.operation or "append"
        log.info(
            "Committed snapshot %d of %s: %s",
            snapshot.snapshot_id,
            name,
            operation,
            extra=logs.facts(
                name,
                operation,
                snapshot_id=snapshot.snapshot_id,
                sequence_number=snapshot.sequence_number,
                result=dict(snapshot.summary),
                **facts,
            ),
        )
    if not outcome.snapshots:
        log.info("Committed to %s", name, extra=logs.facts(name, "metadata", **facts))


def create(
    backend: CatalogBackend,
    staged: LoadedTable,
    actions: Sequence[Action] = (),
    *,
    written: Iterable[str] = (),
    environment: Mapping[str, str] | None = None,
) -> CommitOutcome:
    """Create a table that the back end staged (`stage_create`), with snapshots if there are
    actions, in one step.

    Raises TableAlreadyExistsError when the name is taken.
    """
    check_schema(staged.metadata.schema(), staged.metadata.format_version)
    context = context_of(backend, staged.storage, environment)
    work = TableCommit(backend, staged, list(actions), list(written), context, time.sleep)
    try:
        created = _create(work, context)
    except CommitStateUnknownException:
        raise
    except BaseException:
        if not work.swapping:
            work.give_up()
        raise
    report(backend, created, environment)
    return created


def _create(work: TableCommit, context: Context) -> CommitOutcome:
    metadata = work.base.metadata
    ready = plan(metadata, work.actions, context) or PreparedCommit(metadata, (), ())
    assert not isinstance(ready, AlreadyDone), "a table that is not there yet holds no mark"
    work.swapping = True
    match _try_create(work, ready):
        case Committed(table=table):
            return work.outcome(table, 1)
        case Conflict(reason=reason):
            return _created_before(work, ready.metadata, reason)
        case Unknown(cause=cause):
            return _created(work, ready.metadata, cause)


def _try_create(work: TableCommit, ready: PreparedCommit) -> Committed | Conflict | Unknown:
    staged = work.base
    updates = (*creation_updates(staged.metadata), *ready.updates)
    try:
        return work.backend.create(
            staged.identifier,
            ready.metadata,
            updates=updates,
            requirements=requirements_for(None, updates),
        )
    except CommitStateUnknownException:
        raise
    except FrazilError:
        work.swapping = False
        raise
    except Exception as e:
        return Unknown(e)


def _created_before(work: TableCommit, final: TableMetadata, reason: str) -> CommitOutcome:
    """Look whether the table that has the name is ours: a request that was sent twice on its way
    conflicts with itself. Raises TableAlreadyExistsError; where the table cannot be loaded, all
    files are kept."""
    name = table_name(work.base)
    taken = TableAlreadyExistsError(f"Table already exists: {name} ({reason})", table=name)
    try:
        fresh = work.backend.load(work.base.identifier)
    except NoSuchTableError:
        work.swapping = False
        raise taken from None
    except Exception as e:
        raise taken from e
    ours = final.table_uuid is not None and fresh.metadata.table_uuid == final.table_uuid
    if ours and (
        not work.context.snapshot_ids()
        or work.landed(fresh.metadata, PreparedCommit(final, (), ()))
    ):
        return work.outcome(fresh, 1)
    work.swapping = False
    raise taken


def _created(work: TableCommit, final: TableMetadata, cause: Exception) -> CommitOutcome:
    """Look up the outcome of an unclear create: the table is ours if it has our uuid."""
    name = table_name(work.base)
    try:
        fresh = work.backend.load(work.base.identifier)
        if fresh.metadata.table_uuid == final.table_uuid:
            return work.outcome(fresh, 1)
    except NoSuchTableError:
        pass
    except Exception as e:
        log.warning(
            "Could not look for %s after an unclear creation: %s",
            name,
            e,
            extra=logs.facts(name, "create"),
        )
    text = f"Cannot tell whether table {name} was created: {cause}"
    raise CommitStateUnknownException(text, table=name, hint="All files are kept.") from cause
