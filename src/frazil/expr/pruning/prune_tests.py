"""Test ranges against ranges: each test returns three flags per file, (may be TRUE, may be FALSE,
may be NULL).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from frazil.expr.building import to_numpy
from frazil.expr.pruning.ranges import Bounds, Flag, Range, flags
from frazil.expr.values import FLOATS, MICROS, NANOS, array, scalar
from frazil.spec.transform_values import bucket
from frazil.spec.types import (
    BinaryType,
    DateType,
    DecimalType,
    FixedType,
    IcebergType,
    IntegerType,
    LongType,
    StringType,
    TimeType,
    UUIDType,
)

Truths = tuple[Flag, Flag, Flag]
_FEW = 12  # below this many values of IN, one pass per value is faster than ranking


def compare(op: str, a: Range, b: Range) -> Truths:
    """Test `a op b` by bounds; NaN is above every value and equal to itself."""
    match op:
        case "lt":
            true = _any((a.values, b.values, _less(a.lower, b.upper)), (a.values, b.nans))
            false = _any(
                (a.values, b.values, _at_most(b.lower, a.upper)),
                (a.nans, b.values),
                (a.nans, b.nans),
            )
        case "le":
            true = _any(
                (a.values, b.values, _at_most(a.lower, b.upper)),
                (a.values, b.nans),
                (a.nans, b.nans),
            )
            false = _any((a.values, b.values, _less(b.lower, a.upper)), (a.nans, b.values))
        case "gt":
            return compare("lt", b, a)
        case "ge":
            return compare("le", b, a)
        case _:
            return _equal(op, a, b)
    return true, false, _any((a.nulls,), (b.nulls,))


def _equal(op: str, a: Range, b: Range) -> Truths:
    touching = _all(_at_most(a.lower, b.upper), _at_most(b.lower, a.upper))
    true = _any((a.values, b.values, touching), (a.nans, b.nans))
    one_value = _all(
        _same(a.lower, a.upper), _same(b.lower, b.upper), _same(a.lower, b.lower)
    )  # both sides are this value alone
    false = _any((a.values, b.values, _not(one_value)), (a.values, b.nans), (a.nans, b.values))
    if op == "eq":
        return true, false, _any((a.nulls,), (b.nulls,))
    some_a, some_b = _any((a.values,), (a.nans,)), _any((b.values,), (b.nans,))
    return (
        _any((true,), (a.nulls, b.nulls)),
        _any((false,), (a.nulls, some_b), (some_a, b.nulls)),
        False,
    )


def member(
    a: Range, values: tuple[Any, ...], has_null: bool, type_: IcebergType, direct: bool
) -> Truths:
    """Test `a IN (values)`; `direct`: a is the column itself, so its buckets may exclude values."""
    has_nan = any(isinstance(v, float) and v != v for v in values)
    plain = tuple(v for v in values if v == v)
    touched, exact = _touches(a, plain, type_)
    true = _any((a.values, touched), (a.nans, has_nan))
    if direct and a.hashed is not None and plain:
        true = _all(true, bucket_allows(a, plain, type_))
    missed = _any((a.values, _not(exact)), (a.nans, not has_nan))
    null = _any((a.nulls,), (missed, has_null))
    return true, False if has_null else missed, null


def _touches(a: Range, values: tuple[Any, ...], type_: IcebergType) -> tuple[Flag, Flag]:
    """Test values against the bounds: (some value lies within the bounds, the bounds are one value
    that is among the values).
    """
    if not values:
        return False, False
    if a.lower is None or a.upper is None or isinstance(a.lower, pa.Scalar) or len(values) <= _FEW:
        touched: Flag = False
        exact: Flag = False
        for v in values:
            bound_value = scalar(v, type_)
            touched = _any(
                (touched,), (_at_most(a.lower, bound_value), _at_most(bound_value, a.upper))
            )
            exact = _any((exact,), (_same(a.lower, bound_value), _same(a.upper, bound_value)))
        return touched, exact
    lower, upper, ordered = _ranked(a.lower, a.upper, array(values, type_), type_)
    places = np.searchsorted(ordered, lower, "left")
    at_or_above = ordered[np.minimum(places, len(ordered) - 1)]
    both_known = _all(flags(pc.is_valid(a.lower), False), flags(pc.is_valid(a.upper), False))
    within = (places < len(ordered)) & (at_or_above <= upper)
    return _any((_not(both_known),), (within,)), _all(both_known, within, lower == upper)


def _ranked(
    lower: pa.Array, upper: pa.Array, values: pa.Array, type_: IcebergType
) -> tuple[Any, Any, Any]:
    """Rank bounds and values as numpy arrays of one order; unknown bounds get any rank."""
    if pa.types.is_integer(values.type) or isinstance(type_, FLOATS):
        filled = [to_numpy(pc.fill_null(x, scalar(0, type_))) for x in (lower, upper)]
        return filled[0], filled[1], np.sort(to_numpy(values))
    ranks = to_numpy(pc.rank(pa.concat_arrays([lower, upper, values]), tiebreaker="dense"))
    n = len(lower)
    return ranks[:n], ranks[n : 2 * n], np.sort(ranks[2 * n :])


def prefixed(a: Range, prefix: str | bytes, type_: IcebergType) -> Truths:
    """Test `startswith(a, prefix)`: strings from `prefix` up to the least string above all that
    begin with it.
    """
    if not prefix or not isinstance(type_, StringType | BinaryType | FixedType):
        return a.values, a.values if prefix else False, a.nulls
    least = scalar(prefix, type_)
    above = after_prefix(prefix)
    may = _all(
        a.values,
        _at_most(least, a.upper),
        True if above is None else _less(a.lower, scalar(above, type_)),
    )
    inside = _all(_starts(a.lower, prefix), _starts(a.upper, prefix))
    return may, _all(a.values, _not(inside)), a.nulls


def _starts(bound: Bounds, prefix: str | bytes) -> Flag:
    return False if bound is None else flags(pc.starts_with(bound, prefix), False)


def after_prefix(prefix: str | bytes) -> str | bytes | None:
    """Compute the least text above all that begin with `prefix`; None when there is none."""
    if isinstance(prefix, bytes):
        cut = prefix.rstrip(b"\xff")
        return cut[:-1] + bytes([cut[-1] + 1]) if cut else None
    cut_text = prefix.rstrip("\U0010ffff")
    if not cut_text:
        return None
    last = ord(cut_text[-1]) + 1
    return cut_text[:-1] + chr(0xE000 if 0xD800 <= last <= 0xDFFF else last)


def bucket_allows(a: Range, values: tuple[Any, ...], type_: IcebergType) -> Flag:
    """Tell whether one of the values can be in the file's buckets."""
    if a.hashed is None or not any(
        isinstance(a.hashed.type, kinds) and isinstance(type_, kinds) for kinds in _SAME_HASH
    ):
        return True
    allowed: Flag = False
    for number in {bucket(type_, v, a.hashed.num_buckets) for v in values if v is not None}:
        bucket_number = scalar(number, IntegerType())
        allowed = _any(
            (allowed,),
            (_at_most(a.hashed.lower, bucket_number), _at_most(bucket_number, a.hashed.upper)),
        )
    return _any((allowed,), (a.nulls, any(v is None for v in values)))


_SAME_HASH = (
    (IntegerType, LongType), (DecimalType,), (DateType,), (TimeType,), MICROS, NANOS, (StringType,), (UUIDType,), (BinaryType, FixedType),
)  # fmt: skip


def _less(x: Bounds, y: Bounds) -> Flag:
    return True if x is None or y is None else flags(pc.less(x, y), True)


def _at_most(x: Bounds, y: Bounds) -> Flag:
    return True if x is None or y is None else flags(pc.less_equal(x, y), True)


def _same(x: Bounds, y: Bounds) -> Flag:
    return False if x is None or y is None else flags(pc.equal(x, y), False)


def _all(*parts: Flag) -> Flag:
    combined: Flag = True
    for p in parts:
        if isinstance(p, np.ndarray):
            combined = p & combined if combined is not True else p
        elif not p:
            return False
    return combined


def _any(*ways: tuple[Flag, ...]) -> Flag:
    """Tell whether one of the ways, each a conjunction, is open."""
    combined: Flag = False
    for way in ways:
        is_open = _all(*way)
        if is_open is True:
            return True
        if isinstance(is_open, np.ndarray):
            combined = is_open | combined if combined is not False else is_open
    return combined


def _not(flag: Flag) -> Flag:
    return ~flag if isinstance(flag, np.ndarray) else not flag
