"""Share equal columns among manifests: column ids, constants and all-null columns repeat in
manifest after manifest and are held once.
"""

from __future__ import annotations

from collections.abc import Hashable

import pyarrow as pa


class Repeats:
    """Replace an array by the equal one of an earlier manifest. Threads may share this object: one
    that misses an array keeps its own.
    """

    __slots__ = ("_before",)

    def __init__(self) -> None:
        self._before: dict[Hashable, pa.Array] = {}

    def same(self, purpose: Hashable, array: pa.Array) -> pa.Array:
        """Return the last array kept for this purpose, type and length when it holds the same
        values, otherwise `array`.
        """
        if array.null_count == len(array):
            purpose = "nulls"
        elif pa.types.is_floating(array.type):
            return array  # `equals` takes 0.0 for -0.0
        key = (purpose, array.type, len(array))
        before = self._before.get(key)
        if before is not None and before.equals(array):
            return before
        self._before[key] = array
        return array
