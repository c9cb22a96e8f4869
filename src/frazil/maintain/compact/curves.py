"""Compute z-order values, as Java Iceberg does (ZOrderByteUtils), and places on a Hilbert curve, for all rows of a batch at once.

Each column becomes bytes whose order is the order of its values (nulls first): numbers, dates, times and booleans 8 bytes, text and
binary their first bytes. A z-order value takes one bit of each column in turn. A Hilbert curve passes a box in fewer pieces, for which it
needs numbers of the same length: the columns' values within the range that the group of files has.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from frazil.errors import InvalidInput
from frazil.spec.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    IntegerType,
    LongType,
    StringType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

Words = npt.NDArray[np.uint64]
MOST_COLUMNS = 8
_TEXT = (StringType, BinaryType, FixedType, UUIDType)
_WHOLE = (IntegerType, LongType, DateType, TimeType, TimestampType, TimestamptzType, TimestampNanoType, TimestamptzNanoType)
_REAL = (FloatType, DoubleType, DecimalType)
_SIGN = np.uint64(1 << 63)
_BITS = 20  # of each column in a Hilbert curve, at most


def check_curve(name: str, type_: IcebergType) -> None:
    """Raise InvalidInput for a column whose values have no order that fits in a few bytes."""
    if not isinstance(type_, (*_TEXT, *_WHOLE, *_REAL, BooleanType)):
        raise InvalidInput(f"Cannot use column {name} of type {type_} in z-ordering, the type is unsupported.", column=name)


def ordered_words(column: pa.Array, type_: IcebergType, text_bytes: int) -> tuple[list[Words], int]:
    """Return a column's ordered bytes, eight per word, the first ones first, and how many bytes count. Nulls are zeros."""
    if isinstance(column.type, pa.BaseExtensionType):
        column = column.storage
    if isinstance(type_, _TEXT):
        return _text_words(column, text_bytes), text_bytes
    if isinstance(type_, BooleanType):
        found = np.where(pc.fill_null(column, False).to_numpy(zero_copy_only=False), np.uint64(0x81 << 56), np.uint64(0))
    elif isinstance(type_, _REAL):
        values = pc.fill_null(column.cast(pa.float64()), 0.0).to_numpy(zero_copy_only=False)
        bits = np.where(np.isnan(values), np.nan, values).view(np.int64)
        found = (bits ^ ((bits >> 63) | np.int64(-(2**63)))).view(np.uint64)
    else:
        whole = column.cast(pa.int32()) if pa.types.is_date32(column.type) or pa.types.is_time32(column.type) else column
        found = pc.fill_null(whole.cast(pa.int64()), 0).to_numpy(zero_copy_only=False).view(np.uint64) ^ _SIGN
    if column.null_count:
        found = np.where(column.is_valid().to_numpy(zero_copy_only=False), found, np.uint64(0))
    return [found], 8


def _text_words(column: pa.Array, length: int) -> list[Words]:
    plain = pc.fill_null(column.cast(pa.large_binary()), b"")
    _, offsets, data = plain.buffers()
    places = np.frombuffer(offsets, np.int64)[plain.offset : plain.offset + len(plain) + 1]
    content = np.frombuffer(data, np.uint8) if data is not None else np.zeros(0, np.uint8)
    first, sizes = places[:-1], np.diff(places)
    found = np.zeros((len(plain), -(-length // 8) * 8), np.uint8)
    for k in range(length):
        rows = np.flatnonzero(sizes > k)
        if not len(rows):
            break
        found[rows, k] = content[first[rows] + k]
    return [np.ascontiguousarray(w) for w in found.view(">u8").astype(np.uint64).T]


# Z-order ------------------------------------------------------------------------------------------------------------------------------


def zorder(columns: Sequence[tuple[list[Words], int]], most_bytes: int, rows: int) -> list[Words]:
    """Mix the bits of columns, one of each in turn; returns the z-order value in words, the first bits first."""
    packer = _Packer(rows)
    left = most_bytes
    for j in range(max((size for _, size in columns), default=0)):
        taking = [words[j // 8] for words, size in columns if j < size]
        bits = 8 * len(taking)
        value = _spread(taking, 56 - 8 * (j % 8))
        if len(taking) > left:
            value, bits = value >> np.uint64(bits - 8 * left), 8 * left
        left -= bits // 8
        packer.add(value, bits)
        if left <= 0:
            break
    return packer.words()


def _spread(columns: Sequence[Words], shift: int) -> Any:
    """Mix the bits of one byte of each column."""
    table, found = _table(len(columns)), np.uint64(0)
    for i, words in enumerate(columns):
        low, high = words.min(initial=2**64 - 1), words.max(initial=0)
        if int(low) >> shift == int(high) >> shift:  # the byte, and all before it, are the same in every row
            byte: Any = int(low) >> shift & 0xFF
        else:
            byte = (words >> np.uint64(shift)).astype(np.uint8)
        found = found | (table[byte] >> np.uint64(i))
    return found


@cache
def _table(columns: int) -> Words:
    """Return, for each byte, its bits spread so that those of other columns fit in between."""
    values = np.arange(256, dtype=np.uint64)
    found = np.zeros(256, np.uint64)
    for bit in range(8):
        found |= (values >> np.uint64(bit) & np.uint64(1)) << np.uint64(bit * columns + columns - 1)
    return found


class _Packer:
    """Append numbers of some bits to words of 64 bits."""

    def __init__(self, rows: int):
        self._rows, self._found = rows, list[Words]()
        self._held: Any = np.uint64(0)
        self._bits = 0

    def add(self, value: Any, bits: int) -> None:
        if self._bits + bits > 64:
            self._flush()
        self._held = value if not self._bits else (self._held << np.uint64(bits)) | value
        self._bits += bits

    def _flush(self) -> None:
        self._found.append(np.broadcast_to(np.asarray(self._held, np.uint64), (self._rows,)))
        self._held, self._bits = np.uint64(0), 0

    def words(self) -> list[Words]:
        if self._bits:
            self._flush()
        return self._found


# Hilbert ------------------------------------------------------------------------------------------------------------------------------


def hilbert(columns: Sequence[Words], ranges: Sequence[tuple[int, int]]) -> list[Words]:
    """Return the place of each row on a Hilbert curve (Skilling's algorithm). `ranges`: the least and the greatest word of each column in
    the whole group."""
    bits = min(_BITS, 63 // len(columns))
    x = [_scaled(c, low, high, bits) for c, (low, high) in zip(columns, ranges, strict=True)]
    q = 1 << (bits - 1)
    while q > 1:
        below = np.uint64(q - 1)
        for i in range(len(x)):
            upper = (x[i] & np.uint64(q)) != 0
            swapped = np.where(upper, np.uint64(0), (x[0] ^ x[i]) & below)
            x[0] = np.where(upper, x[0] ^ below, x[0] ^ swapped)
            if i:
                x[i] = x[i] ^ swapped
        q >>= 1
    for i in range(1, len(x)):
        x[i] = x[i] ^ x[i - 1]
    turned, q = np.zeros_like(x[0]), 1 << (bits - 1)
    while q > 1:
        turned = np.where((x[-1] & np.uint64(q)) != 0, turned ^ np.uint64(q - 1), turned)
        q >>= 1
    placed = [v ^ turned for v in x]
    found = np.zeros_like(x[0])
    for bit in range(bits - 1, -1, -1):
        for v in placed:
            found = (found << np.uint64(1)) | (v >> np.uint64(bit) & np.uint64(1))
    return [found]


def _scaled(words: Words, low: int, high: int, bits: int) -> Words:
    """Cut the column's range into 2^bits steps of equal width; values outside, such as nulls, go to its ends."""
    shift = max(0, (high - low).bit_length() - bits)
    inside = np.clip(words, np.uint64(low), np.uint64(max(low, high)))
    return (inside - np.uint64(low)) >> np.uint64(shift) << np.uint64(max(0, bits - (high - low).bit_length()))
