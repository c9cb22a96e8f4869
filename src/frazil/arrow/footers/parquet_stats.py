"""Decode statistics of Parquet column chunks to internal values of a table's types, to prune row
groups and for the metrics of files.
"""

from __future__ import annotations

import decimal
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

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

_DAY = {"us": 86_400_000_000, "ns": 86_400_000_000_000}
_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_TIMESTAMPS = (TimestampType, TimestamptzType, TimestampNanoType, TimestamptzNanoType)


@dataclass(frozen=True)
class ChunkStatistics:
    """Hold statistics of a column chunk: the number of values, nulls included, that of nulls, and
    bounds as internal values of the table's type; None: unknown."""

    values: int
    nulls: int | None
    lower: Any = None
    upper: Any = None


def chunk_statistics(chunk: Any, have: pa.DataType, want: IcebergType) -> ChunkStatistics | None:
    """Decode the statistics of a column chunk; None when it has none. `have` is the file's type of
    the column, `want` the table's.
    """
    if not chunk.is_stats_set or (stats := chunk.statistics) is None:
        return None
    nulls = stats.null_count if stats.has_null_count else None
    if not stats.has_min_max:
        return ChunkStatistics(chunk.num_values, nulls)
    lower, upper = decoded(stats.min_raw, have, want), decoded(stats.max_raw, have, want)
    if isinstance(
        want, FloatType | DoubleType
    ):  # a zero bound may stand for either zero (Parquet, "Statistics")
        if lower is None or upper is None or lower != lower or upper != upper:
            return ChunkStatistics(chunk.num_values, nulls)
        lower, upper = (-0.0 if lower == 0 else lower), (0.0 if upper == 0 else upper)
    if (
        lower is not None and upper is not None and lower > upper
    ):  # written by a faulty writer: neither bound can be trusted
        return ChunkStatistics(chunk.num_values, nulls)
    return ChunkStatistics(chunk.num_values, nulls, lower, upper)


def decoded(raw: Any, have: pa.DataType, want: IcebergType) -> Any:
    """Convert a physical value to an internal value of the table's type; None when the types do not
    tell how.
    """
    match want:
        case BooleanType():
            return raw if isinstance(raw, bool) else None
        case IntegerType() | LongType():
            return raw if isinstance(raw, int) and pa.types.is_signed_integer(have) else None
        case FloatType() | DoubleType():
            return float(raw) if isinstance(raw, float) else None
        case DateType():
            return raw if pa.types.is_date32(have) and isinstance(raw, int) else None
        case TimeType():
            if not isinstance(raw, int) or not pa.types.is_time(have):
                return None
            return raw * (1_000_000 // _PER_SECOND[have.unit]) if have.unit != "ns" else None
        case DecimalType(scale=s):
            return _decimal(raw, have, s)
        case StringType():
            return _text(raw)
        case UUIDType():
            return raw if isinstance(raw, bytes) and len(raw) == 16 else None
        case FixedType(length=n):
            return raw if isinstance(raw, bytes) and len(raw) == n else None
        case BinaryType():
            return raw if isinstance(raw, bytes) else None
    return _moment(raw, have, want) if isinstance(want, _TIMESTAMPS) else None


def _decimal(raw: Any, have: pa.DataType, scale: int) -> decimal.Decimal | None:
    if not pa.types.is_decimal(have) or have.scale != scale:
        return None
    number = int.from_bytes(raw, "big", signed=True) if isinstance(raw, bytes) else raw
    return (
        decimal.Decimal(number).scaleb(-scale, decimal.Context(prec=60))
        if isinstance(number, int)
        else None
    )


def _text(raw: Any) -> str | None:
    try:
        return raw.decode() if isinstance(raw, bytes) else None
    except UnicodeDecodeError:
        return None


def _moment(raw: Any, have: pa.DataType, want: IcebergType) -> int | None:
    unit = "ns" if isinstance(want, TimestampNanoType | TimestamptzNanoType) else "us"
    if not isinstance(raw, int):
        return None
    if pa.types.is_date32(have):
        return raw * _DAY[unit]
    if not pa.types.is_timestamp(have):
        return None
    return raw * _PER_SECOND[unit] // _PER_SECOND[have.unit]
