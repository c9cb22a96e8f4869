"""Drop the hidden values that Arrow arrays may hold under nulls: values inside null structs,
members of null lists.

They belong to no row, but casts would fail on them, and pyarrow's ORC writer writes them as values.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc


def without_hidden(array: Any) -> Any:
    """Rebuild an array without hidden values and offsets, at any depth; copies only where there is
    something to leave out.
    """
    if pa.types.is_struct(array.type):
        inside = [without_hidden(a) for a in array.flatten()]
        return pa.StructArray.from_arrays(
            inside, fields=list(array.type), mask=array.is_null() if array.null_count else None
        )
    if not (pa.types.is_list(array.type) or pa.types.is_map(array.type)):
        return array.take(pa.array(np.arange(len(array)))) if array.offset else array
    offsets, valid = array.offsets.to_numpy(), array.is_valid().to_numpy(zero_copy_only=False)
    lengths = np.where(valid, np.diff(offsets), 0)
    members = _entries(array) if pa.types.is_map(array.type) else array.values
    if lengths.sum() != len(members):
        keep = np.repeat(np.arange(len(lengths)), lengths)
        starts = np.concatenate([[0], np.cumsum(lengths)])
        members = members.take(
            pa.array(np.arange(len(keep)) - starts[keep] + offsets[keep], pa.int64())
        )
    fresh = pa.py_buffer(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32))
    validity = pc.and_(array.is_valid(), True).buffers()[1] if array.null_count else None
    return pa.Array.from_buffers(
        array.type, len(array), [validity, fresh], array.null_count, 0, [without_hidden(members)]
    )


def _entries(array: Any) -> Any:
    return pa.StructArray.from_arrays(
        [array.keys, array.items], fields=[array.type.key_field, array.type.item_field]
    )
