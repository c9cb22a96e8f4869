"""Columns that say the same in manifest after manifest (ids of columns, no nulls, a constant) are held once."""

from __future__ import annotations

from collections.abc import Hashable

import pyarrow as pa


class Repeats:
    """Takes an array from the manifest before when it is equal. Threads may share it: one that misses another's array keeps its own."""

    __slots__ = ("_before",)

    def __init__(self) -> None:
        self._before: dict[Hashable, pa.Array] = {}

    def same(self, what: Hashable, array: pa.Array) -> pa.Array:
        """`array`, or the last one kept for this purpose, type and length when that holds the same values."""
        if array.null_count == len(array):
            what = "nulls"
        elif pa.types.is_floating(array.type):
            return array  # 0.0 would be taken for -0.0
        key = (what, array.type, len(array))
        before = self._before.get(key)
        if before is not None and before.equals(array):
            return before
        self._before[key] = array
        return array
