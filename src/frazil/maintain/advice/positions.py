"""Turn values of a column into numbers in the same order, so that bounds of files and constants of
filters can be compared as intervals.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from frazil.scan.scan_log.records import LoggedPart
from frazil.spec.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
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
)

Positions = npt.NDArray[np.float64]
Interval = tuple[float, float]
_WHOLE = (
    BooleanType, IntegerType, LongType, DateType, TimeType, TimestampType, TimestamptzType, TimestampNanoType, TimestamptzNanoType,
)  # fmt: skip
_REAL = (FloatType, DoubleType, DecimalType)
_TEXT = (StringType, BinaryType)
_DENSE = 1_000
# bytes of a text that count, after those that all texts have in common: a float holds 53 bits
_LENGTH = 6


@dataclass(frozen=True, eq=False)
class Axis:
    """Hold a column's bounds as numbers: one lower and one upper for each file, infinite where they
    are not known.

    `start`, `end`: the ends of all bounds. `common`: the bytes with which all texts begin.
    `values`: how many different values the column seems to have, where these are few; None: many.
    """

    type: IcebergType
    low: Positions
    high: Positions
    start: float
    end: float
    common: bytes = b""
    values: int | None = None

    @property
    def is_whole(self) -> bool:
        return isinstance(self.type, _WHOLE)

    def position(self, value: Any, last: bool = False) -> float:
        """Return the number of a value. `last`: of the greatest text that begins so."""
        if isinstance(self.type, _TEXT):
            content = (
                value.encode()
                if isinstance(value, str) and isinstance(self.type, StringType)
                else _raw(value)
            )
            return _text_position(content, self.common, b"\xff" if last else b"\0")
        return float(value)

    def intervals(self, part: LoggedPart) -> list[Interval] | None:
        """Return the numbers that a condition allows, as closed intervals; None if it compares with
        no known constant, or with one of another type."""
        if not part.has_values:
            return None
        try:
            if part.points:
                return [
                    (self.position(v), self.position(v, part.kind == "prefix")) for v in part.points
                ]
            low = -np.inf if part.low is None else self.position(part.low)
            return [(low, np.inf if part.high is None else self.position(part.high))]
        except (ValueError, TypeError, AttributeError):
            return None

    def bins(self, numbers: Positions) -> Positions:
        """Return the number of the value, among `values` of equal distance, next to each number."""
        assert self.values is not None
        span = self.end - self.start
        share = (numbers - self.start) / span if span > 0 else np.zeros_like(numbers)
        return np.clip(np.floor(share * self.values), 0, self.values - 1)


def axis_of(type_: IcebergType, low: pa.Array, high: pa.Array) -> Axis | None:
    """Make the axis of a column from its decoded bounds, one per file; None for other types, and
    where no bounds are known.
    """
    lows, highs = ([_plain(v) for v in side.to_pylist()] for side in (low, high))
    common = b""
    if isinstance(type_, _TEXT):
        texts = [[v.encode() if isinstance(v, str) else v for v in side] for side in (lows, highs)]
        common = _common([v for side in texts for v in side if v is not None])
        numbers = [
            [None if v is None else _text_position(v, common) for v in side] for side in texts
        ]
    elif isinstance(type_, (*_WHOLE, *_REAL)):
        numbers = [[None if v is None else float(v) for v in side] for side in (lows, highs)]
    else:
        return None
    begins, ends = (
        np.array([np.nan if v is None else v for v in side], np.float64) for side in numbers
    )
    unknown = np.isnan(begins) | np.isnan(ends) | (begins > ends)
    if unknown.all():
        return None
    begins, ends = np.where(unknown, -np.inf, begins), np.where(unknown, np.inf, ends)
    start, end = float(begins[~unknown].min()), float(ends[~unknown].max())
    if not (np.isfinite(start) and np.isfinite(end)):
        return None
    return Axis(
        type_,
        begins,
        ends,
        start,
        end,
        common,
        _few(type_, begins[~unknown], ends[~unknown], start, end),
    )


def _common(texts: Sequence[bytes]) -> bytes:
    """Return the bytes with which all texts begin."""
    if not texts:
        return b""
    first, last = min(texts), max(texts)
    return first[
        : next(
            (n for n, (a, b) in enumerate(zip(first, last, strict=False)) if a != b),
            min(len(first), len(last)),
        )
    ]


def _few(
    type_: IcebergType, low: Positions, high: Positions, start: float, end: float
) -> int | None:
    """Estimate how many values a column has: those between the ends, of whole numbers close
    together; else, where files share their bounds, as many as there are bounds. Few values are the
    careful guess: sorting by them skips less."""
    if isinstance(type_, _WHOLE) and end - start < _DENSE:
        return int(end - start) + 1
    different = len(np.unique(np.concatenate([low, high])))
    return max(2, different) if len(low) >= 4 and different <= len(low) else None


def _plain(value: object) -> Any:
    return float(value) if isinstance(value, Decimal) else value


def _raw(value: bytes | str) -> bytes:
    return value if isinstance(value, bytes) else bytes.fromhex(value)


def _text_position(content: bytes, common: bytes, filled: bytes = b"\0") -> float:
    if not content.startswith(common) and not common.startswith(content):
        return float(-1 if content < common else 256**_LENGTH)
    return float(
        int.from_bytes(content[len(common) : len(common) + _LENGTH].ljust(_LENGTH, filled), "big")
    )


def overlapping(
    low: Positions, high: Positions, intervals: Sequence[Interval]
) -> npt.NDArray[np.bool_]:
    """Mark the files whose range touches one of the intervals."""
    overlaps = np.zeros(len(low), np.bool_)
    for begin, end in intervals:
        overlaps |= (low <= end) & (high >= begin)
    return overlaps


def columns_with_values(parts: Iterable[LoggedPart]) -> frozenset[int]:
    """Return the ids of the columns that the parts compare with known constants."""
    return frozenset(p.column for p in parts if p.has_values)
