"""Compute the places of rows on a z-order or Hilbert curve, for all rows of a batch at once.

Each column becomes bytes whose order is the order of its values (nulls first), as in Java Iceberg
(ZOrderByteUtils): numbers, dates, times and booleans 8 bytes, text and binary their first bytes.
Java mixes the bits of these, by which the column with the wider range decides alone. Here each
value counts as the share of rows below it, which a sample of the group's rows tells
(`ColumnScale`), so that the columns count alike, whatever their types, ranges and skew, and each
quarter of the curve holds about a quarter of the rows. A z-order takes one bit of each column in
turn; a Hilbert curve passes a box in fewer pieces.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

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
_WHOLE = (
    IntegerType,
    LongType,
    DateType,
    TimeType,
    TimestampType,
    TimestamptzType,
    TimestampNanoType,
    TimestamptzNanoType,
)
_REAL = (FloatType, DoubleType, DecimalType)
_SIGN = np.uint64(1 << 63)
_BITS = 20  # of each column in a curve, at most
# a share of the rows at either end that the start which all texts have in common leaves out
_TRIMMED = 256
_STEPS = 512  # values of a column between which shares of rows are interpolated


def check_curve(name: str, type_: IcebergType) -> None:
    """Raise InvalidInput for a column whose values have no order that fits in a few bytes."""
    if not isinstance(type_, (*_TEXT, *_WHOLE, *_REAL, BooleanType)):
        raise InvalidInput(
            f"Cannot use column {name} of type {type_} in z-ordering, the type is unsupported.",
            column=name,
        )


def ordered_words(column: pa.Array, type_: IcebergType, text_bytes: int) -> list[Words]:
    """Return a column's ordered bytes, eight per word, the first ones first. Nulls are zeros."""
    if isinstance(column.type, pa.BaseExtensionType):
        column = column.storage
    if isinstance(type_, _TEXT):
        return _text_words(column, text_bytes)
    if isinstance(type_, BooleanType):
        words = np.where(
            pc.fill_null(column, False).to_numpy(zero_copy_only=False),
            np.uint64(0x81 << 56),
            np.uint64(0),
        )
    elif isinstance(type_, _REAL):
        values = pc.fill_null(column.cast(pa.float64()), 0.0).to_numpy(zero_copy_only=False)
        bits = np.where(np.isnan(values), np.nan, values).view(np.int64)
        words = (bits ^ ((bits >> 63) | np.int64(-(2**63)))).view(np.uint64)
    else:
        whole = (
            column.cast(pa.int32())
            if pa.types.is_date32(column.type) or pa.types.is_time32(column.type)
            else column
        )
        words = (
            pc.fill_null(whole.cast(pa.int64()), 0).to_numpy(zero_copy_only=False).view(np.uint64)
            ^ _SIGN
        )
    if column.null_count:
        words = np.where(column.is_valid().to_numpy(zero_copy_only=False), words, np.uint64(0))
    return [words]


def _text_words(column: pa.Array, length: int) -> list[Words]:
    plain = pc.fill_null(column.cast(pa.large_binary()), b"")
    _, offsets, data = plain.buffers()
    places = np.frombuffer(offsets, np.int64)[plain.offset : plain.offset + len(plain) + 1]
    content = np.frombuffer(data, np.uint8) if data is not None else np.zeros(0, np.uint8)
    first, sizes = places[:-1], np.diff(places)
    padded_bytes = np.zeros((len(plain), -(-length // 8) * 8), np.uint8)
    for k in range(length):
        rows = np.flatnonzero(sizes > k)
        if not len(rows):
            break
        padded_bytes[rows, k] = content[first[rows] + k]
    return [np.ascontiguousarray(w) for w in padded_bytes.view(">u8").astype(np.uint64).T]


# Scales
# --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class CommonStart:
    """Hold the bytes with which nearly all texts of a column begin: whole words, then `size` bytes
    of the next word. The eight bytes behind them count."""

    words: tuple[int, ...] = ()
    part: int = 0
    size: int = 0

    @classmethod
    def of(cls, words: Sequence[Words]) -> CommonStart:
        """Find the common start of the rows of a sample but for nulls and for a 256th of the rows
        at either end, so that a few other values do not hide it; of all rows but for nulls where
        the rest is one and the same value."""
        if len(words) == 1:
            return cls()
        rows = np.logical_or.reduce([w > 0 for w in words])  # zeros: null, or an empty text
        count = int(rows.sum())
        trimmed = min(max(1, count // _TRIMMED), (count - 1) // 2)
        return (
            cls._of_rows(words, rows, trimmed)
            or cls._of_rows(words, rows, 0)
            or cls(tuple(int(w.max()) for w in words[:-1]))
        )

    @classmethod
    def _of_rows(
        cls, words: Sequence[Words], rows: npt.NDArray[np.bool_], trimmed: int
    ) -> CommonStart | None:
        """Return the common start of the marked rows but for some at either end; None if they are
        all the same, or none.
        """
        before: list[int] = []
        at_start = at_end = trimmed
        for word in words:
            ordered = np.sort(word[rows])
            inner = ordered[at_start : len(ordered) - at_end]
            if not len(inner):
                return None
            first, last = int(inner[0]), int(inner[-1])
            if first != last:
                size = 8 - -(-(first ^ last).bit_length() // 8)
                return cls(tuple(before), first >> (64 - 8 * size), size)
            at_start -= int(np.searchsorted(ordered, inner[0]))
            at_end -= len(ordered) - int(np.searchsorted(ordered, inner[0], "right"))
            before.append(first)
            rows = rows & (word == inner[0])
        return None

    def behind(self, words: Sequence[Words]) -> tuple[Words, npt.NDArray[np.int8]]:
        """Return for each row the eight bytes behind the common start, and whether the row begins
        so (0), or lies below (-1) or above (1) all that do."""
        at, bits = len(self.words), np.uint64(8 * self.size)
        counted, sides = words[at], np.zeros(len(words[at]), np.int8)
        if self.size:
            rest = np.uint64(64) - bits
            sides = _compared(counted >> rest, self.part)
            counted = (counted << bits) | (
                words[at + 1] >> rest if at + 1 < len(words) else np.uint64(0)
            )
        for word, common in reversed(list(zip(words, self.words, strict=False))):
            side = _compared(word, common)
            sides = np.where(side != 0, side, sides)
        return counted, sides


def _compared(words: Words, common: int) -> npt.NDArray[np.int8]:
    return (words > common).astype(np.int8) - (words < common).astype(np.int8)


@dataclass(frozen=True)
class ColumnScale:
    """Tell for a value of a column, given as ordered words, which share of the rows lies below it.

    `start`: the bytes that nearly all sampled rows have in common; the bytes behind them count.
    `low`: their least value but for nulls. `values`, `shares`: values of these bytes, less `low`,
    and the share of the sampled rows below each; between them it is interpolated. Rows that do not
    begin so come first or last.
    """

    start: CommonStart
    low: int
    values: tuple[float, ...]
    shares: tuple[float, ...]

    @classmethod
    def of(cls, words: Sequence[Words]) -> ColumnScale:
        """Compute the scale from the rows of a sample."""
        if not len(words[0]):
            return cls(CommonStart(), 0, (0.0,), (0.0,))
        start = CommonStart.of(words)
        counted, sides = start.behind(words)
        values = counted[(sides == 0) & (counted > 0)]  # 0: null, as a rule
        low = int(values.min()) if len(values) else 0
        above = _above(counted, low)
        top = above[sides == 0].max(initial=0.0)
        ordered = np.sort(np.where(sides < 0, 0.0, np.where(sides > 0, top, above)))
        steps = np.unique(ordered[np.linspace(0, len(ordered) - 1, _STEPS).astype(np.intp)])
        shares = np.searchsorted(ordered, steps) / len(ordered)
        return cls(start, low, tuple(steps.tolist()), tuple(shares.tolist()))

    def ranks(self, words: Sequence[Words], bits: int) -> Words:
        """Return the shares of rows as numbers of `bits` bits, in the order of the values."""
        counted, sides = self.start.behind(words)
        share = np.interp(_above(counted, self.low), self.values, self.shares)
        most = np.uint64((1 << bits) - 1)
        scaled = np.minimum((share * (1 << bits)).astype(np.uint64), most)
        return np.where(sides < 0, np.uint64(0), np.where(sides > 0, most, scaled))


def _above(words: Words, low: int) -> npt.NDArray[np.float64]:
    least = np.uint64(low)
    return (np.maximum(words, least) - least).astype(np.float64)


def bits_of_column(columns: int) -> int:
    """Return how many bits of each column count in a curve over some columns."""
    return min(_BITS, 63 // columns)


# Z-order
# --------------------------------------------------------------------------------------------------


def zorder(ranks: Sequence[Words], bits: int) -> Words:
    """Mix the bits of columns, one of each in turn, into the place of each row."""
    interleaved = np.zeros_like(ranks[0])
    table = _spread_bytes(len(ranks))
    for begin in range(0, bits, 8):
        for i, column in enumerate(ranks):
            byte = (column >> np.uint64(begin)).astype(np.uint8)
            interleaved |= table[byte] << np.uint64(begin * len(ranks) + len(ranks) - 1 - i)
    return interleaved


@cache
def _spread_bytes(columns: int) -> Words:
    """Return, for each byte, its bits spread so that those of other columns fit in between."""
    values = np.arange(256, dtype=np.uint64)
    spread = np.zeros(256, np.uint64)
    for bit in range(min(8, bits_of_column(columns))):
        spread |= (values >> np.uint64(bit) & np.uint64(1)) << np.uint64(bit * columns)
    return spread


# Hilbert
# --------------------------------------------------------------------------------------------------


def hilbert(ranks: Sequence[Words], bits: int) -> Words:
    """Return the place of each row on a Hilbert curve (Skilling's algorithm)."""
    x = list(ranks)
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
    distances = np.zeros_like(x[0])
    for bit in range(bits - 1, -1, -1):
        for v in placed:
            distances = (distances << np.uint64(1)) | (v >> np.uint64(bit) & np.uint64(1))
    return distances
