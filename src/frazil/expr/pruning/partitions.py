"""Derive the `Range` of a source column from partition values (per file) or partition summaries
(per manifest).

identity: the value itself. truncate, year, month, day, hour: the source values that are floored to
it. bucket: no order, but `=` and IN can be decided by the hash. void and unknown transforms:
nothing (a null there says nothing about the column).

Old writers (before Iceberg 0.12) truncated times before 1970 towards zero instead of flooring, so a
time ordinal of 0 or less also allows the unit before it, as Java's projections do. Java's hours
after the year 246,953 (and before -243,014) wrap around.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from frazil.expr.building import column, from_numpy, scalar, to_numpy
from frazil.expr.calendar import DAY_MICROS
from frazil.expr.pruning.prune_tests import after_prefix
from frazil.expr.pruning.ranges import (
    Bounds,
    Flag,
    Hashed,
    Range,
    clean_bound,
    clean_bounds,
    flags,
    possible_bounds,
    unknown,
)
from frazil.expr.values import FLOATS, MICROS, MOMENTS, NANOS, arrow_type
from frazil.spec.transform_values import scaled
from frazil.spec.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    Transform,
    TruncateTransform,
    YearTransform,
)
from frazil.spec.types import (
    BinaryType,
    DateType,
    DecimalType,
    IcebergType,
    IntegerType,
    LongType,
    StringType,
)

_TIMES = (YearTransform, MonthTransform, DayTransform, HourTransform)
_HOUR = DAY_MICROS // 24


def range_of_values(transform: Transform, source_type: IcebergType, values: pa.Array) -> Range:
    """Derive the source column's range from each file's partition value (internal values of the
    transform's result type; null: source is null)."""
    if not _usable(transform, source_type):
        return unknown(source_type)
    present = flags(values.is_valid(), False)
    nulls = ~present if isinstance(present, np.ndarray) else not present
    if isinstance(transform, BucketTransform):
        buckets = values.cast(pa.int32())
        return Range(
            None,
            None,
            nulls,
            False,
            present,
            Hashed(transform.num_buckets, source_type, buckets, buckets),
        )
    nans: Flag = False
    if isinstance(transform, IdentityTransform) and isinstance(source_type, FLOATS):
        nans = flags(pc.is_nan(values), False)
        present = present & ~nans if isinstance(nans, np.ndarray) else present
    lower, upper = _source_bounds(transform, source_type, values, values)
    return Range(lower, upper, nulls, nans, present)


def range_of_summaries(
    transform: Transform,
    source_type: IcebergType,
    lower: pa.Array | None,
    upper: pa.Array | None,
    contains_null: pa.Array | None = None,
    contains_nan: pa.Array | None = None,
) -> Range:
    """Derive the source column's range from each manifest's partition summary: bounds of the
    partition values (null: none), flags (null: unknown).

    A summary without bounds says nothing, whatever its flags (`scan.summaries`).
    """
    if not _usable(transform, source_type):
        return unknown(source_type)
    floats = isinstance(source_type, FLOATS)
    nulls: Flag = True if contains_null is None else flags(contains_null, True)
    nans: Flag = floats and (True if contains_nan is None else flags(contains_nan, True))
    silent: Flag = True
    for bound in (lower, upper):
        silent = silent if bound is None else np.logical_and(silent, flags(bound.is_null(), False))
    nulls, nans = np.logical_or(nulls, silent), np.logical_or(nans, np.logical_and(silent, floats))
    if isinstance(transform, IdentityTransform):
        return Range(*clean_bounds(lower, upper, source_type), nulls, nans)
    lower, upper = possible_bounds(lower, upper)
    if isinstance(transform, BucketTransform):
        if lower is None or upper is None:
            return Range(None, None, nulls, False)
        hashed = Hashed(
            transform.num_buckets, source_type, lower.cast(pa.int32()), upper.cast(pa.int32())
        )
        return Range(None, None, nulls, False, hashed=hashed)
    return Range(*_source_bounds(transform, source_type, lower, upper), nulls, nans)


def _usable(transform: Transform, source_type: IcebergType) -> bool:
    return isinstance(
        transform, (IdentityTransform, BucketTransform, TruncateTransform, *_TIMES)
    ) and transform.can_transform(source_type)


def _source_bounds(
    transform: Transform, source_type: IcebergType, lower: pa.Array | None, upper: pa.Array | None
) -> tuple[Bounds, Bounds]:
    """Derive bounds of the source values whose partition values lie between `lower` and `upper`."""
    if isinstance(transform, IdentityTransform):
        return clean_bound(lower, source_type), clean_bound(upper, source_type)
    if isinstance(transform, TruncateTransform):
        low = clean_bound(lower, source_type)
        if isinstance(source_type, IntegerType | LongType):
            low = _wrapped_lower(transform.width, source_type, low, upper)
        return low, None if upper is None else _truncated_upper(transform.width, source_type, upper)
    unit = _unit(transform, source_type)
    exact = isinstance(source_type, DateType) and isinstance(transform, DayTransform)
    low = None if lower is None else _first(lower, unit, back=0 if exact else 1)
    high = None if upper is None else _first(upper, unit, ahead=1)
    if isinstance(transform, HourTransform) and isinstance(source_type, MICROS):
        low, high = _unwrapped_hours(low, lower, high, upper)
    return _in_range(low, source_type), _in_range(high, source_type)


_MOST_HOURS = 2**63 // _HOUR + 1  # from 1970, of a timestamp in microseconds


def _unwrapped_hours(
    low: Bounds, lower: pa.Array | None, high: Bounds, upper: pa.Array | None
) -> tuple[Bounds, Bounds]:
    """Drop the bounds of times that may have wrapped around: an hour beyond 2**31 becomes one of
    the least hours, and the reverse.
    """
    if low is None or high is None or lower is None or upper is None:
        return None, None
    first, last = (to_numpy(pc.fill_null(b, scalar(0, b.type))) for b in (lower, upper))
    from_above, from_below = first <= _MOST_HOURS - 2**32, last >= 2**32 - _MOST_HOURS
    return _unless(low, from_below), _unless(high, from_above)


def _in_range(bound: Bounds, type_: IcebergType) -> Bounds:
    """Cast int64 to the type's own width; unknown where the number does not fit."""
    to = arrow_type(type_)
    if bound is None or to == pa.int64():
        return bound
    limits = np.iinfo(to.to_pandas_dtype())
    numbers = to_numpy(pc.fill_null(bound, scalar(0, pa.int64())))
    return _unless(bound, (numbers < limits.min) | (numbers > limits.max)).cast(to)


def _unless(bound: pa.Array, unknown_: npt.NDArray[np.bool_]) -> pa.Array:
    return (
        pc.if_else(from_numpy(unknown_), scalar(None, bound.type), bound)
        if unknown_.any()
        else bound
    )


def _truncated_upper(width: int, type_: IcebergType, upper: pa.Array) -> Bounds:
    """Compute the greatest source value that truncates to `upper`; unknown where it leaves the
    type.
    """
    to = arrow_type(type_)
    if isinstance(type_, StringType | BinaryType):
        return column(
            [
                None if v is None else after_prefix(v) if len(v) >= width else v
                for v in upper.to_pylist()
            ],
            to,
        )
    if isinstance(type_, DecimalType):
        wide = pc.add(upper.cast(pa.decimal256(50, type_.scale)), _units(width - 1, type_))
        limit = _units(10**type_.precision - 1, type_)
        return (
            pc.if_else(pc.less_equal(wide, limit), wide, pa.scalar(None, wide.type))
            .cast(pa.decimal256(76, type_.scale))
            .cast(to)
        )
    limit = (2**31 if pa.types.is_int32(to) else 2**63) - width
    wide = upper.cast(pa.int64())
    small = pc.less_equal(wide, scalar(limit, pa.int64()))
    return pc.add(
        pc.if_else(small, wide, scalar(None, pa.int64())), scalar(width - 1, pa.int64())
    ).cast(to)


def _wrapped_lower(width: int, type_: IcebergType, lower: Bounds, upper: Bounds) -> Bounds:
    """Return `lower`, or the type's least value where partition values above may have wrapped
    around from there (see `truncate`).

    A long may have been an int when they were made.
    """
    if lower is None or upper is None:
        return None
    lower, upper = lower.cast(arrow_type(type_)), upper.cast(arrow_type(type_))
    for bits in (32,) if isinstance(type_, IntegerType) else (32, 64):
        least, end = -(2 ** (bits - 1)), 2 ** (bits - 1)
        above = pc.greater(upper, scalar(end - width, pa.int64()).cast(upper.type))
        within = pc.less_equal(lower, scalar(end - 1, pa.int64()).cast(lower.type))
        lower = pc.if_else(
            pc.and_(above, within), pc.min_element_wise(lower, scalar(least, lower.type)), lower
        )
    return lower


def _units(number: int, type_: DecimalType) -> pa.Scalar:
    return pa.scalar(scaled(number, type_.scale), pa.decimal256(50, type_.scale))


def _unit(transform: Transform, type_: IcebergType) -> Callable[[Any], Any]:
    """Return a function that maps ordinals to their first source values, as int64; -2**63 where
    there is none in range.
    """
    moments, nanos = isinstance(type_, MOMENTS), isinstance(type_, NANOS)
    per_day = (DAY_MICROS * (1000 if nanos else 1)) if moments else 1

    def first(ordinals: npt.NDArray[np.int64]) -> Any:
        match transform:
            case YearTransform() | MonthTransform():
                kind, most = (
                    ("datetime64[Y]", _MOST_YEARS)
                    if isinstance(transform, YearTransform)
                    else ("datetime64[M]", 12 * _MOST_YEARS)
                )
                beyond = np.abs(ordinals) > most
                days = (
                    np.where(beyond, 0, ordinals)
                    .astype(kind)
                    .astype("datetime64[D]")
                    .astype(np.int64)
                )
                return np.where(beyond, _NONE, _times(days, per_day))
            case HourTransform():
                return _times(ordinals, per_day // 24)
            case _:
                days = ordinals
        return _times(days, per_day)

    return first


_NONE = np.iinfo(np.int64).min
_MOST_YEARS = 6_000_000  # from 1970: more than there are dates of (32 bits of days)


def _times(numbers: npt.NDArray[np.int64], factor: int) -> Any:
    """Multiply numbers; those out of int64's range become the least int64, which stands for "not
    known".
    """
    most = np.iinfo(np.int64).max // factor - 1
    return np.where(np.abs(numbers) <= most, numbers * factor, _NONE)


def _first(
    ordinals: pa.Array, first: Callable[[Any], Any], back: int = 0, ahead: int = 0
) -> pa.Array:
    """Return the first source values of the ordinals (with `back`: of the ordinal before, for those
    at or below 0), or the last ones with `ahead`."""
    null = to_numpy(ordinals.is_null())
    numbers = to_numpy(pc.fill_null(ordinals.cast(pa.int64()), scalar(0, pa.int64())))
    if back:
        numbers = np.where(numbers <= 0, numbers - back, numbers)
    with np.errstate(over="ignore"):
        firsts = first(numbers + ahead)
    unknown_ = firsts == _NONE
    return from_numpy(np.where(unknown_, 0, firsts) - (1 if ahead else 0), missing=null | unknown_)
