"""Hold what is known of a column in many files (or manifests) at once: a `Range` has one entry per
file.

A `Range` over-approximates: every value that the column really has in file i is allowed by it. It
is

- `lower`, `upper`: Arrow arrays (or one scalar for all rows) of `values.arrow_type(type)`: every
  value that is neither null nor NaN lies between them, both included; a null entry, or None for
  all, is "not known". Truncated bounds are bounds. NaN as a bound is "not known", and so are both
  bounds of a file whose writer gave a lower bound above the upper one (`possible_bounds`).
- `nulls`, `nans`, `values`: numpy bool arrays (or one bool): whether the file *may* hold nulls,
  NaNs, and values that are neither. False is a promise. All three False: no rows.
- `hashed`: for bucket partitions, the buckets in which all values lie.

Several ranges of one column (from its bounds and from partition values) hold at the same time:
their outcomes are intersected.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from frazil.expr import building
from frazil.expr.values import FLOATS, arrow_type, scalar
from frazil.spec.types import FloatType, IcebergType, UnknownType, UUIDType

Mask = npt.NDArray[np.bool_]
Flag = Mask | bool
Bounds: TypeAlias = Any  # pa.Array | pa.Scalar | None


@dataclass(frozen=True)
class Hashed:
    """Bound the buckets of values: all values v have `lower <= bucket(v) <= upper`; int32 arrays,
    null = not known. `type` is the type that was hashed."""

    num_buckets: int
    type: IcebergType
    lower: pa.Array
    upper: pa.Array


@dataclass(frozen=True)
class Range:
    lower: Bounds = None
    upper: Bounds = None
    nulls: Flag = True
    nans: Flag = True
    values: Flag = True
    hashed: Hashed | None = None


UNKNOWN = Range()
ONLY_NULLS = Range(nulls=True, nans=False, values=False)


def unknown(type_: IcebergType) -> Range:
    """Return the range of a column of this type of which nothing is known."""
    return Range(nans=isinstance(type_, FLOATS), values=not isinstance(type_, UnknownType))


def constant(value: Any, type_: IcebergType) -> Range:
    """Make the range of a column that holds this internal value in every row: a literal, or the
    default of a file without the column (None: null)."""
    if value is None:
        return ONLY_NULLS
    if isinstance(value, float) and value != value:
        return Range(nulls=False, nans=True, values=False)
    if isinstance(type_, FloatType):  # as it is stored; beyond float's range it is infinity
        with np.errstate(over="ignore"):
            value = float(np.float32(value))
    bound = scalar(value, type_)
    return Range(bound, bound, nulls=False, nans=False, values=True)


def from_statistics(
    type_: IcebergType,
    lower: pa.Array | None,
    upper: pa.Array | None,
    value_counts: pa.Array | None = None,
    null_counts: pa.Array | None = None,
    nan_counts: pa.Array | None = None,
) -> Range:
    """Derive the range from column statistics. Arrays have one value per file; null or None: the
    statistic is missing.

    Bounds are internal values. Counts are int64; value counts include nulls and NaNs. Upper bounds
    leave NaN out, so NaN is possible in a float column unless its count is known to be 0 (or all
    values are null).
    """
    floats = isinstance(type_, FLOATS)
    nulls: Flag = True if null_counts is None else _not_zero(null_counts)
    rest = (
        None
        if value_counts is None or null_counts is None
        else pc.subtract(value_counts, null_counts)
    )
    some: Flag = True if rest is None else _positive(rest)  # null or NaN only in rows counted
    nans: Flag = some if nan_counts is None else _not_zero(nan_counts) & some if floats else False
    if not floats:
        nans = False
    values = some
    if floats and rest is not None and nan_counts is not None:
        values = _positive(pc.subtract(rest, nan_counts))
    return Range(*clean_bounds(lower, upper, type_), nulls, nans, values)


def clean_bounds(lower: Bounds, upper: Bounds, type_: IcebergType) -> tuple[Bounds, Bounds]:
    """Clean both bounds that a writer gave for a set of values, as `clean_bound` and
    `possible_bounds`; of uuids only what holds in either order.

    The specification orders uuids as unsigned bytes. Java up to 1.12 finds the least and greatest
    partition value of a manifest by two signed halves. Where both bounds have the same sign, the
    first half bounds the first half. (What Java makes of the row groups of a file holds in no
    order: `scan.bounds.trusted`.)
    """
    lower, upper = clean_bound(lower, type_), clean_bound(upper, type_)
    if not isinstance(type_, UUIDType):
        return possible_bounds(lower, upper)
    if lower is None or upper is None:
        return None, None
    half = building.scalar(b"\x80", lower.type)
    are_equal = pc.equal(lower, upper)
    alike = pc.equal(pc.greater_equal(lower, half), pc.greater_equal(upper, half))
    unknown, nothing = building.scalar(None, lower.type), building.scalar(b"", lower.type)

    def either(bound: pa.Array, fill: bytes) -> pa.Array:
        wide = pc.binary_join_element_wise(
            pc.binary_slice(bound, 0, 8), building.scalar(fill * 8, bound.type), nothing
        )
        return pc.if_else(are_equal, bound, pc.if_else(alike, wide, unknown))

    return possible_bounds(either(lower, b"\x00"), either(upper, b"\xff"))


def possible_bounds(lower: Bounds, upper: Bounds) -> tuple[Bounds, Bounds]:
    """Drop bounds where the lower one is above the upper one: no value lies between them, so the
    writer was wrong about both.
    """
    if (
        not isinstance(lower, pa.Array)
        or not isinstance(upper, pa.Array)
        or pa.types.is_null(lower.type)
        or pa.types.is_null(upper.type)
    ):
        return lower, upper
    impossible = flags(pc.greater(lower, upper), False)
    if not np.any(impossible):
        return lower, upper
    possible = building.from_numpy(np.logical_not(impossible))
    return tuple(pc.if_else(possible, b, building.scalar(None, b.type)) for b in (lower, upper))


def clean_bound(bound: Bounds, type_: IcebergType) -> Bounds:
    """Convert a bound to the type's storage type, NaN taken as unknown (old writers gave NaN, which
    bounds nothing).
    """
    if bound is None or pa.types.is_null(bound.type):
        return None
    wanted = arrow_type(type_)
    if bound.type != wanted:
        bound = bound.cast(wanted)
    if isinstance(type_, FLOATS):
        bound = pc.if_else(pc.is_nan(bound), pa.nulls(1, bound.type)[0], bound)
    return bound


def flags(answer: pa.Array | pa.Scalar, otherwise: bool) -> Flag:
    """Convert a boolean Arrow result to numpy; null becomes `otherwise`."""
    if isinstance(answer, pa.Scalar):
        return bool(answer.as_py()) if answer.is_valid else otherwise
    if answer.null_count:
        answer = pc.fill_null(answer, building.scalar(otherwise, pa.bool_()))
    mask: Mask = building.to_numpy(answer)
    return mask


def _not_zero(counts: pa.Array) -> Mask:
    """Tell which counts are possibly not zero: negative counts (Java writes -1 for unknown) are
    unknown, hence possible.
    """
    mask = flags(pc.not_equal(counts, building.scalar(0, counts.type)), True)
    assert isinstance(mask, np.ndarray)
    return mask


def _positive(counts: pa.Array) -> Mask:
    return _not_zero(counts)
