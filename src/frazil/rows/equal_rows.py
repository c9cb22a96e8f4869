"""Compare two columns row by row, for any type: null equals null, NaN equals NaN, 0.0 equals -0.0."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Flags = npt.NDArray[np.bool_]


def equal_rows(a: pa.Array, b: pa.Array) -> Flags:
    """Return one flag per row for two arrays of the same type and length. Maps are equal when their
    entries are, in order.
    """
    valid_a, valid_b = _valid(a), _valid(b)
    both = valid_a & valid_b
    same: Flags = valid_a == valid_b
    if not both.any():
        return same
    types = pa.types
    if types.is_struct(a.type):
        for left, right in zip(a.flatten(), b.flatten(), strict=True):
            same &= ~both | equal_rows(left, right)
        return same
    if types.is_list(a.type) or types.is_large_list(a.type) or types.is_map(a.type):
        return same & (~both | _equal_lists(a, b, both))
    return same & (~both | _equal_values(a, b))


def _equal_values(a: pa.Array, b: pa.Array) -> Flags:
    if pa.types.is_null(a.type):
        return np.ones(len(a), bool)
    equal = pc.equal(a, b)
    if pa.types.is_floating(a.type):
        equal = pc.or_(equal, pc.and_(pc.is_nan(a), pc.is_nan(b)))
    return np.asarray(pc.fill_null(equal, False).to_numpy(zero_copy_only=False))


def _equal_lists(a: pa.Array, b: pa.Array, both: Flags) -> Flags:
    starts_a, lengths_a = _spans(a)
    starts_b, lengths_b = _spans(b)
    same: Flags = lengths_a == lengths_b
    rows = np.flatnonzero(both & same & (lengths_a > 0))
    if not len(rows):
        return same
    counts = lengths_a[rows]
    within = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
    members = [
        _members(x).take(pa.array(np.repeat(starts[rows], counts) + within))
        for x, starts in ((a, starts_a), (b, starts_b))
    ]
    wrong = ~equal_rows(members[0], members[1])
    same[np.repeat(rows, counts)[wrong]] = False
    return same


def _spans(a: pa.Array) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    offsets = a.offsets.to_numpy(zero_copy_only=False).astype(np.int64)
    return offsets[:-1], np.diff(offsets)


def _members(a: pa.Array) -> pa.Array:
    if pa.types.is_map(a.type):
        return pa.StructArray.from_arrays([a.keys, a.items], names=["key", "value"])
    return a.values


def _valid(a: pa.Array) -> Flags:
    return np.asarray(a.is_valid().to_numpy(zero_copy_only=False))
