"""Plan a change of rows anew when maintenance, such as a compaction, was committed between its plan
and its commit.

Such a snapshot changes no row, but files that the change was planned for are gone, or have other
delete files. Java refuses the commit then. Here what other writers did to rows is validated as
ever, with no regard to maintenance; if nothing speaks against the commit, the change is planned
again on the table as it is now, and its new files are committed instead. It happens within the
attempt, in the turn of this commit, so that the next compaction of this machine comes after it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from frazil.commit.actions import Action, SnapshotAction
from frazil.commit.context import Context
from frazil.commit.done_once import AlreadyDone
from frazil.commit.history import holds_the_same_rows
from frazil.commit.produce import parent_of
from frazil.errors import ValidationException
from frazil.spec.metadata import TableMetadata
from frazil.spec.snapshot import Snapshot
from frazil.spec.updates import Update

log = logging.getLogger(__name__)


class PlannedAnew(Protocol):
    """Hold the actions of a planned change, in order, and the locations of the files that were
    written for them.
    """

    @property
    def actions(self) -> Sequence[Action]: ...

    @property
    def written(self) -> Sequence[str]: ...


PlanAnew = Callable[[TableMetadata, int | None, frozenset[int]], PlannedAnew]
"""Plan the change for this state of the table, and write its files. Further arguments: the snapshot
from which conflicts are looked for, and the snapshots of this commit itself, which are not settled
yet."""


@dataclass
class PlannedChange:
    """Apply a planned change of rows to `branch`, planned anew where maintenance came in between.

    `read`: the newest snapshot of other commits that the plan has read. `earlier`: how often
    earlier changes of the same commit had been planned anew when this one was planned; it may have
    read their files.
    """

    planned: PlannedAnew
    anew: PlanAnew
    branch: str
    read: int | None
    earlier: int = 0
    first: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        self.first = frozenset(self.planned.written)

    def apply(self, metadata: TableMetadata, context: Context) -> Sequence[Update] | AlreadyDone:
        if not context.only_new and context.planned_anew_before() != self.earlier:
            self._plan(metadata, context)
        try:
            return self._applied(metadata, context)
        except ValidationException as conflict:
            if context.only_new or not self._was_maintained(metadata, context):
                raise
            self._validate(metadata, context)
            log.info(
                "A change of %s is planned anew, since maintenance was committed meanwhile: %s",
                metadata.location,
                conflict,
            )
        self._plan(metadata, context)
        return self._applied(metadata, context)

    def _applied(self, metadata: TableMetadata, context: Context) -> Sequence[Update] | AlreadyDone:
        updates: list[Update] = []
        for action in self.planned.actions:
            wanted = action.apply(metadata, context)
            if isinstance(wanted, AlreadyDone):
                return wanted
            updates += wanted
        now = frozenset(self.planned.written)
        context.unneeded.setdefault(context.action, set()).update(self.first - now)
        if updates and now - self.first:
            context.state(metadata).used |= now  # else they are removed as files of a lost attempt
        return updates

    def _was_maintained(self, metadata: TableMetadata, context: Context) -> bool:
        """Tell whether the branch goes on from the snapshot that was read, with maintenance in
        between.
        """
        own, maintained = frozenset(context.snapshot_ids()), False
        last: Snapshot | None = None
        for snapshot in metadata.ancestors(parent_of(metadata, self.branch)):
            if snapshot.snapshot_id == self.read:
                return maintained
            maintained |= snapshot.snapshot_id not in own and holds_the_same_rows(snapshot)
            last = snapshot
        return maintained and last is not None and last.parent_snapshot_id == self.read

    def _validate(self, metadata: TableMetadata, context: Context) -> None:
        for action in self.planned.actions:
            if isinstance(action, SnapshotAction):
                action.validate_rows(metadata, context)

    def _plan(self, metadata: TableMetadata, context: Context) -> None:
        own = frozenset(context.snapshot_ids())
        others = (
            s.snapshot_id
            for s in metadata.ancestors(parent_of(metadata, self.branch))
            if s.snapshot_id not in own
        )
        self.read = next(others, None)
        begun = time.monotonic()
        self.planned = self.anew(metadata, self.read, own)
        context.seconds_planning += time.monotonic() - begun
        self.earlier = context.planned_anew_before()
        context.output.written += (f for f in self.planned.written if f not in self.first)
        context.plan_anew()
