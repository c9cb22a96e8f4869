"""Hash the values of Arrow columns for theta sketches: by the bytes of their single-value
serialization, as Java Iceberg does.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from frazil.arrow.values.internal_values import as_internal
from frazil.codec.theta_sketch import Words, hash_fixed, hash_lengths
from frazil.spec.types import BooleanType, DecimalType, IcebergType


def hash_values(values: pa.Array, type_: IcebergType) -> Words:
    """Hash the values of a primitive column that are not null. Empty texts and bytes hash to 0,
    which counts as nothing, as in Java.
    """
    internal_values = as_internal(values, type_).drop_null()
    match type_:
        case BooleanType():
            return hash_fixed(np.asarray(internal_values.cast(pa.uint8())).reshape(-1, 1))
        case DecimalType():
            return _hash_decimals(internal_values.cast(pa.decimal128(type_.precision, type_.scale)))
    if pa.types.is_binary(internal_values.type) or pa.types.is_string(internal_values.type):
        return _hash_bytes(pc.unique(internal_values))
    if pa.types.is_fixed_size_binary(internal_values.type):
        return _hash_bytes(pc.unique(internal_values.cast(pa.binary())))
    numbers = np.ascontiguousarray(internal_values.to_numpy(zero_copy_only=False))
    width = numbers.dtype.itemsize
    return hash_fixed(
        numbers.astype(numbers.dtype.newbyteorder("<")).view(np.uint8).reshape(len(numbers), width)
    )


def _hash_bytes(values: pa.Array) -> Words:
    values = values.cast(pa.large_binary())
    _, offsets, data = values.buffers()
    ends = np.frombuffer(offsets, np.int64)[values.offset : values.offset + len(values) + 1]
    return hash_lengths(np.frombuffer(data or b"", np.uint8), ends[:-1], np.diff(ends))


def _hash_decimals(values: pa.Array) -> Words:
    """Hash the fewest bytes that hold each unscaled value, big-endian in two's complement."""
    stored: np.ndarray[Any, Any] = np.frombuffer(values.buffers()[1] or b"", np.uint8).reshape(
        -1, 16
    )
    wide = stored[values.offset : values.offset + len(values), ::-1]
    if not len(wide):
        return np.zeros(0, np.uint64)
    negative = wide[:, :1] >= 128
    filler = np.where(negative, 255, 0).astype(np.uint8)
    sign_bit = (
        (wide >= 128) == negative
    )  # a byte may be left out when it only repeats the sign, and the next one has the sign's bit
    idle = (wide[:, :-1] == filler) & sign_bit[:, 1:]
    left_out = np.cumprod(idle, axis=1).sum(axis=1)
    flat = np.ascontiguousarray(wide).reshape(-1)
    return hash_lengths(flat, np.arange(len(wide)) * 16 + left_out, 16 - left_out)
