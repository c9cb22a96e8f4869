"""Inject faults into the commits of a catalog back end, as a script says."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from frazil.catalog.backend import CatalogBackend
from frazil.catalog.base import (
    Conflict,
    Identifier,
    LoadedTable,
    Outcome,
    OutcomeTogether,
    Swap,
    Unknown,
)
from frazil.spec.metadata import TableMetadata
from frazil.spec.updates import Requirement, Update

T = TypeVar("T")
WORDS = ("ok", "conflict", "lost", "applied", "applied-conflict", "raise", "applied-raise")


class LostAnswer(Exception):
    """Stand for a connection that broke before the answer came."""


@dataclass
class FlakyBackend:
    """Wrap a catalog back end (`inner`) so that each swap or create behaves as the next word of
    `script` says, then as "ok".

    ok: succeed. conflict: refuse. lost: do not apply, and lose the answer. applied: apply, and lose
    the answer. applied-conflict: apply, and answer Conflict. raise, applied-raise: raise `error`
    without applying, or after it.

    `stale_loads`: the number of loads after a swap that return the state before it.
    `unreachable_loads`: the number of loads that fail. `before_swap`: called before each swap or
    create with its number, from 1; for example to let another writer commit first. `fired`: the
    words that were used, so that a test can prove that its fault happened. `loads`: the number of
    loads.
    """

    inner: CatalogBackend
    script: Sequence[str] = ()
    error: BaseException = field(default_factory=lambda: LostAnswer("connection reset"))
    stale_loads: int = 0
    unreachable_loads: int = 0
    fired: list[str] = field(default_factory=list)
    loads: int = 0
    before_swap: Any = None
    _before: LoadedTable | None = None

    def __post_init__(self) -> None:
        if unknown := [w for w in self.script if w not in WORDS]:
            raise ValueError(f"Unknown words in the script: {unknown}; known: {WORDS}")

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def load(self, identifier: Identifier) -> LoadedTable:
        """Load the state of a table, with the faults of `stale_loads` and `unreachable_loads`."""
        self.loads += 1
        if self.fired and self.unreachable_loads > 0:
            self.unreachable_loads -= 1
            raise LostAnswer("the catalog cannot be reached")
        if self._before is not None and self.stale_loads > 0:
            self.stale_loads -= 1
            return self._before
        return self.inner.load(identifier)

    def swap(
        self,
        base: LoadedTable,
        metadata: TableMetadata,
        *,
        updates: Sequence[Update] = (),
        requirements: Sequence[Requirement] = (),
    ) -> Outcome:
        """Replace the state of a table as the script's next word says."""
        self._before = base
        return self._answer(
            lambda: self.inner.swap(base, metadata, updates=updates, requirements=requirements)
        )

    def create(
        self,
        identifier: Identifier,
        metadata: TableMetadata,
        *,
        updates: Sequence[Update] = (),
        requirements: Sequence[Requirement] = (),
    ) -> Outcome:
        """Create a table as the script's next word says."""
        return self._answer(
            lambda: self.inner.create(
                identifier, metadata, updates=updates, requirements=requirements
            )
        )

    def swap_together(self, swaps: Sequence[Swap]) -> OutcomeTogether:
        """Replace the states of several tables as the script's next word says."""
        return (
            self._answer(lambda: self.inner.swap_together(swaps))
            if swaps
            else self.inner.swap_together(swaps)
        )

    def _answer(self, apply: Callable[[], T]) -> T | Conflict | Unknown:
        turn = len(self.fired)
        word = self.script[turn] if turn < len(self.script) else "ok"
        if self.before_swap is not None:
            self.before_swap(turn + 1)
        self.fired.append(word)
        outcome = (
            apply() if word in ("ok", "applied", "applied-conflict", "applied-raise") else None
        )
        match word:
            case "conflict" | "applied-conflict":
                return Conflict("another writer was first (injected)")
            case "lost" | "applied":
                return Unknown(
                    self.error if isinstance(self.error, Exception) else LostAnswer(str(self.error))
                )
            case "raise" | "applied-raise":
                raise self.error
        assert outcome is not None
        return outcome
