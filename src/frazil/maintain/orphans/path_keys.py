"""Compare millions of file locations by 64-bit keys, so that sets of them take eight bytes per
file.

Two locations may share a key by chance. That can only keep a file too many: a file is deleted when
its key is not among the keys of the files that are needed.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from frazil.scan.delete_ranges import normalised

Keys = npt.NDArray[np.int64]
_AT_ONCE = 1 << 16  # texts that exist as Python objects at the same time


def keys_of(paths: pa.Array) -> Keys:
    """Compute the keys of locations, in their order; the spellings of one file (`/x`, `file:/x`,
    `file:///x`) have the same key.
    """
    parts = [
        text_keys(normalised(paths.slice(start, _AT_ONCE)))
        for start in range(0, len(paths), _AT_ONCE)
    ]
    return np.concatenate(parts) if parts else np.empty(0, np.int64)


def text_keys(texts: pa.Array) -> Keys:
    """Compute the keys of texts as they are."""
    return np.fromiter(map(hash, texts.to_pylist()), np.int64, len(texts))


def among(keys: Keys, sorted_keys: Keys) -> npt.NDArray[np.bool_]:
    """Mark the keys that are among `sorted_keys`."""
    if not len(sorted_keys):
        return np.zeros(len(keys), np.bool_)
    index = np.searchsorted(sorted_keys, keys)
    index[index == len(sorted_keys)] = 0
    is_among: npt.NDArray[np.bool_] = sorted_keys[index] == keys
    return is_among


class PathKeys:
    """Hold a growing set of keys, eight bytes each: sorted arrays, which are joined when they are
    about as large as one another.
    """

    def __init__(self) -> None:
        self._sorted: list[Keys] = []

    def __len__(self) -> int:
        return sum(map(len, self._sorted))

    def has(self, keys: Keys) -> npt.NDArray[np.bool_]:
        """Mark the keys that are in the set."""
        is_in_set = np.zeros(len(keys), np.bool_)
        for sorted_keys in self._sorted:
            is_in_set |= among(keys, sorted_keys)
        return is_in_set

    def add(self, keys: Keys) -> npt.NDArray[np.bool_]:
        """Add keys, and mark those that are new, each at its first place."""
        new = np.zeros(len(keys), np.bool_)
        distinct, first = np.unique(keys, return_index=True)
        unknown = ~self.has(distinct)
        new[first[unknown]] = True
        self._sorted.append(distinct[unknown])
        while len(self._sorted) > 1 and len(self._sorted[-2]) <= 2 * len(self._sorted[-1]):
            last = self._sorted.pop()
            self._sorted[-1] = np.sort(np.concatenate([self._sorted[-1], last]))
        return new
