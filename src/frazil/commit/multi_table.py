"""Commit to several tables at once: all of them or none, with conflicts and retries as for one
table.

Each table's part is planned as for a commit of its own, then the catalog swaps the metadata of all
in one step (`swap_together`). When one table has changed meanwhile, all parts are planned again on
fresh metadata. Tables that are only read are not checked.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

from frazil.catalog.backend import CatalogBackend
from frazil.catalog.base import (
    Conflict,
    LoadedTable,
    OutcomeTogether,
    Swap,
    Unknown,
)
from frazil.commit.actions import Action
from frazil.commit.done_once import AlreadyDone
from frazil.commit.queue import PATIENCE, turn
from frazil.commit.table_commit import (
    CommitOutcome,
    PreparedCommit,
    Sleep,
    TableCommit,
    context_of,
    plan,
    report,
    table_name,
)
from frazil.errors import (
    CommitFailedException,
    CommitStateUnknownException,
    FrazilError,
    NoSuchFileError,
    NoSuchTableError,
    ValidationException,
)


@dataclass(frozen=True)
class TablePart:
    """Hold what is committed to one of the tables: the arguments of `transaction.commit`."""

    base: LoadedTable
    actions: Sequence[Action]
    written: Iterable[str] = ()
    environment: Mapping[str, str] = field(default_factory=dict)


def commit_together(
    backend: CatalogBackend, parts: Sequence[TablePart], *, sleep: Sleep = time.sleep
) -> list[CommitOutcome]:
    """Commit the parts of several tables, each at most once among them, as one change of the
    catalog; return their outcomes in order.

    Raises CommitFailedException (retries used up), ValidationException (others changed what a part
    relies on): then no table is changed, and the files written for it are removed.
    CommitStateUnknownException: every file is kept. Unsupported: the catalog cannot do it.
    """
    works: list[TableCommit] = []
    for part in parts:
        context = context_of(backend, part.base.storage, part.environment)
        works.append(
            TableCommit(backend, part.base, list(part.actions), list(part.written), context, sleep)
        )
    commit = _CommitTogether(backend, works, sleep)
    try:
        outcomes = commit.run()
    except CommitStateUnknownException:
        raise
    except BaseException as e:
        # also KeyboardInterrupt and SystemExit, which may come after the moment that counts
        if not any(work.swapping for work in works):
            for work in works:
                work.give_up()
        elif isinstance(e, Exception):
            raise commit.unknown(e) from e
        raise
    for part, outcome in zip(parts, outcomes, strict=True):
        report(backend, outcome, part.environment)
    return outcomes


_Plans = list[PreparedCommit | AlreadyDone | None]


def _planned(work: TableCommit) -> PreparedCommit | AlreadyDone | None:
    try:
        return plan(work.base.metadata, work.actions, work.context)
    except FrazilError as error:
        error.of_table(table_name(work.base), work.base.metadata.location)
        raise


@dataclass
class _CommitTogether:
    backend: CatalogBackend
    works: Sequence[TableCommit]
    sleep: Sleep

    def run(self) -> list[CommitOutcome]:
        lost = 0.0  # seconds that the last attempt took, if one was lost
        while True:
            with ExitStack() as turns:
                # All commits wait for their turns in the same order of tables, so that no two wait
                # for each other.
                for work in sorted(
                    self.works,
                    key=lambda w: (w.base.metadata.table_uuid or "", w.base.metadata.location),
                ):
                    patience = min(
                        PATIENCE, work.longest, work.total - (time.monotonic() - work.started)
                    )
                    if turns.enter_context(turn(work.base, patience)) or lost:
                        work.next_base()
                begun = time.monotonic()
                outcomes = self.attempt()
                if outcomes is None and not lost:  # the tables were loaded long ago, as a rule
                    begun = time.monotonic()
                    outcomes = self.attempt()
            if outcomes is not None:
                return outcomes
            lost = time.monotonic() - begun
            self.sleep(max(work.pause(lost) for work in self.works))

    def attempt(self) -> list[CommitOutcome] | None:
        """Plan all parts on the present state of their tables, and swap once. Returns None after a
        conflict, when the tables have been loaded again for the next attempt, and where others have
        expired the state that a table was loaded with."""
        plans: _Plans = []
        for work in self.works:
            try:
                plans.append(_planned(work))
            except NoSuchFileError as missing:
                work.leave_outdated(missing)
                self.begin_next(str(missing))
                return None
        changes = [
            (work, ready)
            for work, ready in zip(self.works, plans, strict=True)
            if isinstance(ready, PreparedCommit)
        ]
        if not changes:
            return self.succeeded(plans, ())
        outcome = self.swap(changes)
        match outcome:
            case Conflict(reason=reason):
                return (
                    self.succeeded(plans, [work.base for work, _ in changes])
                    if self.landed(changes, reason)
                    else None
                )
            case Unknown(cause=cause):
                return self.succeeded(
                    plans, [self.recognised(work, ready, cause) for work, ready in changes]
                )
            case _:
                return self.succeeded(plans, [committed.table for committed in outcome])

    def swap(self, changes: Sequence[tuple[TableCommit, PreparedCommit]]) -> OutcomeTogether:
        """Swap the metadata of the tables that change. A FrazilError is raised only when nothing
        was applied.
        """
        for work, _ in changes:
            work.swapping = True
        swaps = [
            Swap(work.base, ready.metadata, ready.updates, ready.requirements)
            for work, ready in changes
        ]
        try:
            return self.backend.swap_together(swaps)
        except CommitFailedException as e:
            return Conflict(str(e))
        except CommitStateUnknownException as e:
            return Unknown(e)
        except FrazilError:
            self.not_applied()
            raise
        except Exception as e:
            return Unknown(e)

    def not_applied(self) -> None:
        for work in self.works:
            work.swapping = False

    def landed(self, changes: Sequence[tuple[TableCommit, PreparedCommit]], reason: str) -> bool:
        """Load the tables again after a conflict, and tell whether an attempt of this commit is in
        them, as when a request was sent twice. Where it is in some of them only, the catalog did
        not keep its promise, and the outcome is unknown.

        Raises CommitFailedException when no retry is left, NoSuchTableError and ValidationException
        for a table that was dropped.
        """
        applied: list[bool] = []
        gone: FrazilError | None = None
        for work, ready in changes:
            try:
                work.next_base()
            except (NoSuchTableError, ValidationException) as error:
                gone = gone or error
                applied.append(False)
            else:
                applied.append(work.landed(work.base.metadata, ready))
        if all(applied):
            return True
        if any(applied):
            raise self.unknown(CommitFailedException(reason))
        self.not_applied()
        if gone is not None:
            raise gone
        self.begin_next(reason)
        return False

    def begin_next(self, reason: str) -> None:
        """Begin the next attempt of all parts. Raises CommitFailedException when no retry is left."""
        for work in self.works:
            work.begin_next(reason)

    def recognised(self, work: TableCommit, ready: PreparedCommit, cause: Exception) -> LoadedTable:
        """Look for an attempt of this commit in a table after an unclear answer. Raises
        CommitStateUnknownException unless it is there.
        """
        try:
            return work.recognised(ready, cause).table
        except CommitStateUnknownException as error:
            raise self.unknown(cause) from error

    def unknown(self, cause: BaseException) -> CommitStateUnknownException:
        names = ", ".join(table_name(work.base) for work in self.works)
        return CommitStateUnknownException(
            f"Cannot tell whether the commit to {names} was applied: {cause}",
            table=names,
            hint="All its files are kept. Load the tables and look for their new snapshots before you try again.",
        )

    def succeeded(self, plans: _Plans, tables: Sequence[LoadedTable]) -> list[CommitOutcome]:
        """Clean up after each part, and return the outcomes. `tables`: the new states of those that
        changed, in their order.
        """
        changed, outcomes = iter(tables), []
        for work, ready in zip(self.works, plans, strict=True):
            if isinstance(ready, PreparedCommit):
                outcomes.append(work.succeeded(next(changed)))
            elif (
                isinstance(ready, AlreadyDone) and ready.snapshot_id in work.context.snapshot_ids()
            ):
                # by an attempt of this commit, whose snapshot others have expired since
                outcomes.append(work.succeeded(work.base))
            else:
                work.take_back()
                outcomes.append(work.outcome(work.base, 0, ready))
        return outcomes
