"""Turn bounds of a column into numbers in the same order, so that a report can tell what share of
the files a look-up of one value skips.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

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
_WHOLE = (
    BooleanType, IntegerType, LongType, DateType, TimeType, TimestampType, TimestamptzType, TimestampNanoType, TimestamptzNanoType,
)  # fmt: skip
_REAL = (FloatType, DoubleType, DecimalType)
_TEXT = (StringType, BinaryType)
# bytes of a text that count, after those that all texts have in common: a float holds 53 bits
_LENGTH = 6


@dataclass(frozen=True, eq=False)
class Axis:
    """Hold a column's bounds as numbers: one lower and one upper for each file, infinite where they
    are not known.
    """

    type: IcebergType
    low: Positions
    high: Positions

    @property
    def is_whole(self) -> bool:
        return isinstance(self.type, _WHOLE)


def axis_of(type_: IcebergType, low: pa.Array, high: pa.Array) -> Axis | None:
    """Make the axis of a column from its decoded bounds, one per file; None for other types, and
    where no bounds are known.
    """
    lows, highs = low.to_pylist(), high.to_pylist()
    if isinstance(type_, _TEXT):
        texts = [[v.encode() if isinstance(v, str) else v for v in side] for side in (lows, highs)]
        common = _common([v for side in texts for v in side if v is not None])
        numbers = [
            [np.nan if v is None else _text_position(v, common) for v in side] for side in texts
        ]
    elif isinstance(type_, (*_WHOLE, *_REAL)):
        numbers = [[np.nan if v is None else float(v) for v in side] for side in (lows, highs)]
    else:
        return None
    begins, ends = (np.array(side, np.float64) for side in numbers)
    unknown = np.isnan(begins) | np.isnan(ends) | (begins > ends)
    if unknown.all() or not np.isfinite([begins[~unknown].min(), ends[~unknown].max()]).all():
        return None
    return Axis(type_, np.where(unknown, -np.inf, begins), np.where(unknown, np.inf, ends))


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


def _text_position(content: Any, common: bytes) -> float:
    rest = content[len(common) : len(common) + _LENGTH]
    return float(int.from_bytes(rest.ljust(_LENGTH, b"\0"), "big"))
