"""Collect the positions of the rows that a change removes from one data file, and count the updated
and deleted ones.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from frazil.codec.sorted_numbers import distinct

Positions = npt.NDArray[np.int64]


class RemovedRows:
    """Collect removed rows. A decider fills it while its batches are consumed; `positions` is
    complete when they have ended.
    """

    __slots__ = ("_parts", "deleted", "updated")

    def __init__(self) -> None:
        self._parts: list[tuple[int, int, Positions]] = []
        self.updated = self.deleted = 0

    def add(self, positions: Any, *, updated: int = 0, deleted: int = 0) -> None:
        """Add rows that are deleted or replaced by a new version; each row once."""
        array = np.asarray(positions, dtype=np.int64)
        if len(array):
            self._parts.append((int(array.min()), int(array.max()), array))
        self.updated += updated
        self.deleted += deleted

    def __bool__(self) -> bool:
        return bool(self._parts)

    @property
    def positions(self) -> Positions:
        """Return all positions, ascending, each once."""
        if not self._parts:
            return np.zeros(0, np.int64)
        return distinct(np.concatenate([p for *_, p in self._parts]))

    def between(self, first: int, end: int) -> Positions:
        """Return the positions in [first, end), in any order."""
        parts = [
            p[(p >= first) & (p < end)]
            for low, high, p in self._parts
            if high >= first and low < end
        ]
        return np.concatenate(parts) if parts else np.zeros(0, np.int64)
