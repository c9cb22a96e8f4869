"""Steps on branches, tags and the snapshots they name; a snapshot is told by its place in the
table's list.
"""

from __future__ import annotations

from dataclasses import dataclass

from tests.model.state import Refused, Work
from tests.model.steps import Rows, frame
from tests.model.values import Invalid


def managed(on: str, verb: str, *arguments: str) -> str:
    return f"with {on}.manage_snapshots() as manage:\n    manage.{verb}({', '.join(arguments)})"


def named(on: str, number: int) -> str:
    return f"{on}.snapshots()[{number}].snapshot_id"


@dataclass(frozen=True)
class CreateBranch:
    name: str
    snapshot: int

    def code(self, on: str = "t") -> str:
        return managed(on, "create_branch", named(on, self.snapshot), repr(self.name))

    def apply(self, work: Work) -> None:
        work.state.snapshot(self.snapshot)
        if self.name in {*work.state.heads, *work.state.tags}:
            raise Invalid("the name is taken")


@dataclass(frozen=True)
class CreateTag(CreateBranch):
    def code(self, on: str = "t") -> str:
        return managed(on, "create_tag", named(on, self.snapshot), repr(self.name))


@dataclass(frozen=True)
class FastForward:
    source: str

    def code(self, on: str = "t") -> str:
        return managed(on, "fast_forward", "'main'", repr(self.source))

    def apply(self, work: Work) -> None:
        snaps, at, main = (
            work.state.snaps,
            work.state.head(self.source).snapshot_id,
            work.state.head().snapshot_id,
        )
        while at is not None and at != main:
            at = snaps[at].parent if at in snaps else None
        if at is None or main is None:
            raise Refused("main is no ancestor")


@dataclass(frozen=True)
class RollBack:
    """main to an ancestor."""

    snapshot: int

    def code(self, on: str = "t") -> str:
        return managed(on, "rollback_to_snapshot", named(on, self.snapshot))

    def apply(self, work: Work) -> None:
        if work.state.snapshot(self.snapshot) not in work.state.ancestors(
            work.state.head().snapshot_id
        ):
            raise Invalid("no ancestor")


@dataclass(frozen=True)
class SetCurrent:
    """main to any snapshot."""

    snapshot: int

    def code(self, on: str = "t") -> str:
        return managed(on, "set_current_snapshot", named(on, self.snapshot))

    def apply(self, work: Work) -> None:
        work.state.snapshot(self.snapshot)


@dataclass(frozen=True)
class Stage:
    """An append that no branch shows, to be picked later."""

    rows: Rows

    def code(self, on: str = "t") -> str:
        return f"result = {on}.append({frame(on, self.rows)}, branch=None)"

    def apply(self, work: Work) -> None:
        work.insert(work.frame(self.rows))


@dataclass(frozen=True)
class CherryPick:
    """The rows of a staged append; it may have been picked before."""

    snapshot: int
    maybe = True

    def code(self, on: str = "t") -> str:
        return managed(on, "cherrypick_snapshot", named(on, self.snapshot))

    def apply(self, work: Work) -> None:
        state = work.state
        staged = state.snapshot(self.snapshot)
        if staged.snapshot_id not in state.staged:
            raise Invalid("not staged")
        before = state.snaps[staged.parent].rows if staged.parent in state.snaps else {}
        own = [row for i, row in staged.rows.items() if i not in before]
        there = {work.key(row) for row in work.rows.values()}
        if any(work.key(row) in there for row in own):
            raise Refused("its rows are there")
        work.insert(own)
