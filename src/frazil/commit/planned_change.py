"""Plan a change of rows anew when others were first: their commits came between its plan and its
commit, and it cannot be committed as it was planned.

Java refuses the commit then. Here the change is run again as a whole on the table as it is now, as
if it had come later, and its new files are committed instead. It happens within the attempt, in the
turn of this commit, so that the other writers of this machine come after it.

Where a change must not be run again (`always` is False), only maintenance, such as a compaction, is
no conflict: it changes no row, but files that the change was planned for are gone, or have other
delete files. What other writers did to rows is validated then, with no regard to maintenance.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

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
    written for them. `reads_table`: the new rows, or the choice of the rows to change, rest on other
    rows of the table, so that any change of rows by others may change what is right.
    """

    @property
    def actions(self) -> Sequence[Action]: ...

    @property
    def written(self) -> Sequence[str]: ...

    @property
    def reads_table(self) -> bool: ...


PlanAnew = Callable[[TableMetadata, int | None, frozenset[int]], PlannedAnew]
"""Plan the change for this state of the table, and write its files. Further arguments: the snapshot
from which conflicts are looked for, and the snapshots of this commit itself, which are not settled
yet."""


class _Came(NamedTuple):
    """Tell which kinds of commits came in between."""

    rows: bool
    maintenance: bool


@dataclass
class PlannedChange:
    """Apply a planned change of rows to `branch`, planned anew where others came in between.

    `always`: whatever the others did; else where they moved rows to other files. `read`: the newest
    snapshot of other commits that the plan has read. `earlier`: how often earlier changes of the
    same commit had been planned anew when this one was planned; it may have read their files.
    """

    planned: PlannedAnew
    anew: PlanAnew
    branch: str
    read: int | None
    always: bool = False
    earlier: int = 0
    first: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        self.first = frozenset(self.planned.written)

    def apply(self, metadata: TableMetadata, context: Context) -> Sequence[Update] | AlreadyDone:
        if not context.only_new and context.planned_anew_before() != self.earlier:
            self._plan(metadata, context)
        try:
            if self.always and self.planned.reads_table and self._came(metadata, context).rows:
                text = f"Rows of {metadata.location} were changed after this operation read them."
                raise ValidationException(text, table=metadata.location)
            return self._applied(metadata, context)
        except ValidationException as conflict:
            if context.only_new or not (self.always or self._came(metadata, context).maintenance):
                raise
            if not self.always:
                self._validate(metadata, context)
            cause = conflict
        self._plan(metadata, context)
        log.info(
            "A change of %s was planned anew on the state that others have committed, in %.3f s: %s",
            metadata.location,
            context.seconds_planning,
            cause,
        )
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

    def _came(self, metadata: TableMetadata, context: Context) -> _Came:
        """Tell what others have committed to the branch since the snapshot that was read. Where the
        branch does not go on from it, rows have changed.
        """
        own = frozenset(context.snapshot_ids())
        between: list[Snapshot] = []
        parent: int | None = None
        for snapshot in metadata.ancestors(parent_of(metadata, self.branch)):
            if snapshot.snapshot_id == self.read:
                break
            parent = snapshot.parent_snapshot_id
            between.append(snapshot)
        else:
            if parent != self.read:
                return _Came(rows=True, maintenance=False)
        same = {holds_the_same_rows(s) for s in between if s.snapshot_id not in own}
        return _Came(rows=False in same, maintenance=True in same)

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
