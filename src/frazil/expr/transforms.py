"""Apply partition transforms to arrays of internal values; the results equal those that
`spec.transform_values` gives one by one.

Murmur3 is computed by numpy: for numbers in one pass, for texts and bytes in one pass per four-byte
word over all rows that are that long.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from frazil.errors import InvalidInput, Unsupported, ValidationError
from frazil.expr.calendar import DAY_MICROS
from frazil.expr.casts import floor_divide, over_numpy, unscaled_int64
from frazil.expr.values import NANOS, arrow_type
from frazil.spec.transform_values import HOURS_HINT, apply, bucket_hash, hours_beyond_an_int
from frazil.spec.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    Transform,
    TruncateTransform,
    VoidTransform,
    YearTransform,
)
from frazil.spec.types import DateType, DecimalType, IcebergType, IntegerType, StringType

_Words = npt.NDArray[np.uint32]
_C1, _C2 = np.uint32(0xCC9E2D51), np.uint32(0x1B873593)


def transformed(transform: Transform, source_type: IcebergType, values: pa.Array) -> pa.Array:
    """Compute the results of a transform, as internal values of its result type (days as int32,
    timestamps as int64).

    Raises Unsupported for an unknown transform, ValidationError for a source type that the
    transform does not take, InvalidInput for times whose number of hours exceeds 32 bits.
    """
    if not transform.is_known:
        raise Unsupported(
            f"Cannot write with partition transform {transform}: it is not known to this version.",
            transform=str(transform),
        )
    if not transform.can_transform(source_type):
        raise ValidationError(f"Invalid source type {source_type} for transform: {transform}")
    if isinstance(transform, VoidTransform):
        return pa.nulls(len(values), arrow_type(source_type))
    match transform:
        case IdentityTransform():
            return values
        case BucketTransform(num_buckets=n):
            hashes = hash_values(source_type, values)
            buckets = ((hashes & np.uint32(0x7FFFFFFF)) % np.uint32(n)).astype(np.int32)
            return pa.array(buckets, mask=_nulls(values))
        case TruncateTransform(width=width):
            return _truncated(source_type, values, width)
    return _time_part(transform, source_type, values)


def _nulls(values: pa.Array) -> Any:
    return values.is_null().to_numpy(zero_copy_only=False) if values.null_count else None


# Hashes
# --------------------------------------------------------------------------------------------------


def hash_values(type_: IcebergType, values: pa.Array) -> _Words:
    """Hash each value by Murmur3 (x86, 32 bits, seed 0) as bucket transforms do; the hash of a null
    is arbitrary.
    """
    if isinstance(type_, DecimalType):
        return _hash_decimals(type_, values)
    if pa.types.is_integer(values.type):
        whole = floor_divide(values, 1000) if isinstance(type_, NANOS) else values
        filled = pc.fill_null(whole, pa.scalar(0, whole.type)) if whole.null_count else whole
        return _hash_longs(filled.to_numpy(zero_copy_only=False).astype(np.int64, copy=False))
    data = values.cast(pa.large_binary())
    if data.null_count:
        data = pc.fill_null(data, b"")
    return _hash_bytes(data)


def _hash_longs(numbers: npt.NDArray[np.int64]) -> _Words:
    bits = numbers.view(np.uint64)
    h = _round(np.zeros(len(bits), np.uint32), bits.astype(np.uint32))
    h = _round(h, (bits >> np.uint64(32)).astype(np.uint32))
    return _final(h, np.uint32(8))


def _mixed(words: _Words) -> _Words:
    words = words * _C1
    return ((words << np.uint32(15)) | (words >> np.uint32(17))) * _C2


def _round(h: _Words, words: _Words) -> _Words:
    h = h ^ _mixed(words)
    return ((h << np.uint32(13)) | (h >> np.uint32(19))) * np.uint32(5) + np.uint32(0xE6546B64)


def _final(h: _Words, length: _Words | np.uint32) -> _Words:
    h = h ^ length
    h = (h ^ (h >> np.uint32(16))) * np.uint32(0x85EBCA6B)
    h = (h ^ (h >> np.uint32(13))) * np.uint32(0xC2B2AE35)
    return h ^ (h >> np.uint32(16))


def _hash_bytes(data: pa.Array) -> _Words:
    """Hash byte strings. They are sorted by length, so that each word is mixed into a shrinking
    tail of them; long texts that repeat are hashed once."""
    if len(data) > 1000 and data.nbytes > 64 * len(data):
        encoded = data.dictionary_encode()
        if 2 * len(encoded.dictionary) < len(data):
            hashes: _Words = _hash_bytes(encoded.dictionary)[encoded.indices.to_numpy()]
            return hashes
    offsets = np.frombuffer(data.buffers()[1], np.int64)[data.offset : data.offset + len(data) + 1]
    raw = (
        np.frombuffer(data.buffers()[2] or b"", np.uint8)
        if data.buffers()[2] is not None
        else np.zeros(0, np.uint8)
    )
    padded = (
        np.concatenate([raw[offsets[0] : offsets[-1]], np.zeros(4, np.uint8)])
        if len(data)
        else np.zeros(4, np.uint8)
    )
    starts, lengths = offsets[:-1] - offsets[0], np.diff(offsets)
    order = np.argsort(lengths, kind="stable")
    starts, lengths = starts[order], lengths[order]
    hashes_by_length = np.zeros(len(data), np.uint32)
    for word in range(int(lengths[-1]) // 4 if len(lengths) else 0):
        first = int(np.searchsorted(lengths, 4 * word + 4))
        hashes_by_length[first:] = _round(
            hashes_by_length[first:], _words(padded, starts[first:] + 4 * word, 4)
        )
    tail = lengths % 4
    for rest in (1, 2, 3):
        rows = np.flatnonzero(tail == rest)
        if len(rows):
            hashes_by_length[rows] ^= _mixed(
                _words(padded, starts[rows] + lengths[rows] - rest, rest)
            )
    hashes_by_row = np.empty(len(data), np.uint32)
    hashes_by_row[order] = _final(hashes_by_length, lengths.astype(np.uint32))
    return hashes_by_row


def _words(raw: npt.NDArray[np.uint8], offsets: npt.NDArray[np.int64], count: int) -> _Words:
    """Read little-endian words of 1 to 4 bytes at some offsets."""
    words: _Words = raw[offsets].astype(np.uint32)
    for byte in range(1, count):
        words |= raw[offsets + byte].astype(np.uint32) << np.uint32(8 * byte)
    return words


def _hash_decimals(type_: DecimalType, values: pa.Array) -> _Words:
    """Hash decimals by their unscaled numbers, big-endian and in as few bytes as possible."""
    if type_.precision > 18 or len(values) < 64:
        hashed = [0 if v is None else bucket_hash(type_, v) for v in values.to_pylist()]
        return np.array(hashed, np.int64).astype(np.uint32)
    numbers = np.where(values.is_null().to_numpy(zero_copy_only=False), 0, unscaled_int64(values))
    sizes = np.ones(len(numbers), np.int64)
    magnitude = np.where(numbers < 0, ~numbers, numbers)
    for size in range(1, 8):
        sizes += magnitude >= 1 << (8 * size - 1)
    big_endian = numbers.astype(">i8").view(np.uint8).reshape(-1, 8)
    keep = np.arange(8) >= 8 - sizes[:, None]
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    buffers = [None, pa.py_buffer(offsets.tobytes()), pa.py_buffer(big_endian[keep].tobytes())]
    return _hash_bytes(pa.Array.from_buffers(pa.large_binary(), len(numbers), buffers))


# Truncation and time
# --------------------------------------------------------------------------------------------------


def _truncated(type_: IcebergType, values: pa.Array, width: int) -> pa.Array:
    if isinstance(type_, StringType):
        return pc.utf8_slice_codeunits(values, 0, width)
    if isinstance(type_, DecimalType):
        transform = TruncateTransform(width)
        encoded = values.dictionary_encode()
        truncated = [apply(transform, type_, v) for v in encoded.dictionary.to_pylist()]
        try:
            # near the least value there may be one digit more, as in Java
            wide = pa.array(truncated, pa.decimal128(38, type_.scale))
        except pa.ArrowInvalid as error:
            raise InvalidInput(
                f"A {type_} truncated to multiples of {width} has more than 38 digits."
            ) from error
        return pa.Array.from_buffers(arrow_type(type_), len(wide), wide.buffers()).take(
            encoded.indices
        )
    if pa.types.is_integer(values.type):
        return over_numpy(
            values, lambda n: _floored(n, width, 32 if isinstance(type_, IntegerType) else 64)
        )
    return pc.binary_slice(values, 0, width)


def _floored(numbers: npt.NDArray[Any], width: int, bits: int) -> Any:
    with np.errstate(over="ignore"):
        # below the type's least value the number wraps around, as in Java
        wide = numbers.astype(np.int64)
        return (wide - wide % width).astype(np.int32 if bits == 32 else np.int64)


def _time_part(transform: Transform, type_: IcebergType, values: pa.Array) -> pa.Array:
    per_day = (
        1 if isinstance(type_, DateType) else DAY_MICROS * (1000 if isinstance(type_, NANOS) else 1)
    )

    def part(numbers: npt.NDArray[Any]) -> Any:
        if isinstance(transform, HourTransform):
            return _as_int32(numbers // (per_day // 24))
        days = (numbers // per_day if per_day > 1 else numbers).astype(np.int64)
        match transform:
            case DayTransform():
                return days.astype(np.int32)
            case YearTransform():
                return days.astype("datetime64[D]").astype("datetime64[Y]").astype(np.int32)
            case MonthTransform():
                return days.astype("datetime64[D]").astype("datetime64[M]").astype(np.int32)
        raise Unsupported(
            f"Transform {transform} is not known to this version.", transform=str(transform)
        )

    return over_numpy(values, part, pa.int32())


def _as_int32(hours: npt.NDArray[np.int64]) -> Any:
    beyond = (hours < -(2**31)) | (hours >= 2**31)
    if beyond.any():
        raise InvalidInput(hours_beyond_an_int(int(hours[beyond][0])), hint=HOURS_HINT)
    return hours.astype(np.int32)
