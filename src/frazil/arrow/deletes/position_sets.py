"""Join sets of row positions, held as ascending arrays of distinct numbers.

`numpy.union1d` hashes every number, though the arrays are sorted already: for a file from which
half a million rows are deleted, that alone takes longer than reading the file's keys.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from frazil.codec.sorted_numbers import distinct

Positions = npt.NDArray[np.int64]


def union(a: Positions, b: Positions) -> Positions:
    """Merge two sets of positions into one: the smaller is looked up in the larger, of which one
    copy is made.
    """
    large, small = (a, b) if len(a) >= len(b) else (b, a)
    if not len(small):
        return large
    places = np.searchsorted(large, small)
    is_new = large[np.minimum(places, len(large) - 1)] != small
    return np.insert(large, places[is_new], small[is_new])


def union_of(parts: Sequence[Positions]) -> Positions:
    """Merge any number of arrays of positions into one set; two arrays must be sets themselves."""
    if len(parts) <= 1:
        return parts[0] if parts else np.zeros(0, np.int64)
    return union(*parts) if len(parts) == 2 else distinct(np.concatenate(parts))
