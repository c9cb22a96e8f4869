"""Find the order in which rows are sorted by some columns: one sort of 64-bit numbers where the
keys fit in them, which takes a tenth of the time of comparing rows, else Arrow's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Words = npt.NDArray[np.uint64]
_ALL = (1 << 64) - 1


def row_order(
    columns: Mapping[str, pa.Array | pa.ChunkedArray], directions: Sequence[tuple[str, str]]
) -> pa.Array:
    """Return the numbers of the rows in sorted order. `directions`: columns, each with "ascending"
    or "descending". Equal rows stay in their order; nulls come last.
    """
    numbers: list[tuple[Words, int]] = []
    telling: list[tuple[str, str]] = []
    for name, direction in directions:
        words = _words(columns[name], direction == "descending")
        most = -1 if words is None else int(words.max(initial=0))
        if words is not None and most:
            numbers.append((words, most.bit_length()))
        if most:  # a column of one value only costs time
            telling.append((name, direction))
    if not telling:
        return pa.array(np.arange(len(next(iter(columns.values()))), dtype=np.uint64))
    if len(numbers) == len(telling) and sum(bits for _, bits in numbers) <= 64:
        return pa.array(_of_numbers(numbers))
    return pc.sort_indices(pa.table({n: columns[n] for n, _ in telling}), sort_keys=telling)


def _words(column: pa.Array | pa.ChunkedArray, descending: bool) -> Words | None:
    """Return numbers in the order of the values of whole numbers, times and flags, the first of
    them 0; None for other types, and where nulls leave no number free.
    """
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if pa.types.is_temporal(column.type):
        column = column.view(pa.int32() if column.type.bit_width == 32 else pa.int64())
    elif pa.types.is_boolean(column.type):
        column = column.cast(pa.uint8())
    elif not pa.types.is_integer(column.type):
        return None
    ends = pc.min_max(column)
    least, greatest = ends["min"].as_py() or 0, ends["max"].as_py() or 0
    values: npt.NDArray[Any] = pc.fill_null(column, least).to_numpy()
    # these differences wrap around, so that they are right between the ends of 64 bits, too
    words = values.astype(np.uint64)
    words = np.uint64(greatest & _ALL) - words if descending else words - np.uint64(least & _ALL)
    if 0 < column.null_count < len(column):
        if greatest - least == _ALL:
            return None
        words[~column.is_valid().to_numpy(zero_copy_only=False)] = greatest - least + 1
    return words


def _of_numbers(keys: Sequence[tuple[Words, int]]) -> Words:
    """Sort rows by keys, each with its bits, which are 64 in all at most. Each key with the number
    of its row behind it is one number, without the last bits of the key where both are too long;
    rows that are alike but for these bits are sorted again.
    """
    key, bits = keys[0]
    for words, more in keys[1:]:
        key, bits = (key << np.uint64(more)) | words, bits + more
    row_bits = (len(key) - 1).bit_length()
    left_out = max(0, bits + row_bits - 64)
    packed = (key >> np.uint64(left_out)) << np.uint64(row_bits)
    packed |= np.arange(len(key), dtype=np.uint64)
    packed.sort()
    order = packed & np.uint64((1 << row_bits) - 1)
    if left_out:
        packed >>= np.uint64(row_bits)
        alike = packed[1:] == packed[:-1]
        places = np.flatnonzero(np.append(alike, False) | np.append(False, alike))
        rows = order[places]
        order[places] = rows[np.lexsort((rows, key[rows]))]
    return order


__all__ = ["row_order"]
