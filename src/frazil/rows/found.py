"""What a task has found in one data file: the places of rows that leave it, and how many of them change or go."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Positions = npt.NDArray[np.int64]


def ascending(positions: Positions) -> Positions:
    """Ascending, each once: what comes from one pass over a file is so already."""
    return positions if bool((np.diff(positions) > 0).all()) else np.unique(positions)


def union(a: Positions, b: Positions) -> Positions:
    """Both, ascending, each once; both are so."""
    if not len(a) or not len(b):
        return a if len(a) else b
    return np.union1d(a, b)


class Found:
    """Filled by a decider while its batches are taken; `positions` is complete when they have ended."""

    __slots__ = ("_parts", "deleted", "updated")

    def __init__(self) -> None:
        self._parts: list[tuple[int, int, Positions]] = []
        self.updated = self.deleted = 0

    def add(self, positions: Any, *, updated: int = 0, deleted: int = 0) -> None:
        """Rows that leave their place: deleted, or replaced by a new version. Each row once."""
        array = np.asarray(positions, dtype=np.int64)
        if len(array):
            self._parts.append((int(array.min()), int(array.max()), array))
        self.updated += updated
        self.deleted += deleted

    def __bool__(self) -> bool:
        return bool(self._parts)

    @property
    def positions(self) -> Positions:
        """Ascending, each once."""
        if not self._parts:
            return np.zeros(0, np.int64)
        return ascending(np.concatenate([p for *_, p in self._parts]))

    def between(self, first: int, end: int) -> Positions:
        """Those in [first, end), in any order."""
        parts = [p[(p >= first) & (p < end)] for low, high, p in self._parts if high >= first and low < end]
        return np.concatenate(parts) if parts else np.zeros(0, np.int64)
