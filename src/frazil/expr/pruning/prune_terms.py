"""Derive ranges of computed terms: casts and functions that keep order map the bounds of their
argument; of others only nulls are known.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from frazil.expr.bound import Bound, BoundCall, BoundCast, BoundLiteral, BoundReference
from frazil.expr.casts import cast_values
from frazil.expr.functions.by_name import FUNCTIONS
from frazil.expr.functions.partitioning import BUCKET
from frazil.expr.pruning.ranges import Bounds, Flag, Range, clean_bound, constant, unknown
from frazil.expr.values import FLOATS, MOMENTS, NUMBERS
from frazil.spec.types import (
    BinaryType,
    DateType,
    FixedType,
    IcebergType,
    StringType,
    TimestamptzNanoType,
    TimestamptzType,
    UUIDType,
)

Ranges = Callable[[int], Sequence[Range]]
_UTC = ("UTC", "Z", "GMT", "+00:00")
_SLACK_SECONDS = 90_000  # more than the clock of any time zone was ever set back


def ranges_of(term: Bound, ranges: Ranges) -> list[Range]:
    """Return what is known of a term's value per file; at least one range."""
    match term:
        case BoundReference(field_id=field_id, type=type_):
            cleaned = (
                [_clean(r, type_) for r in ranges(field_id)]
                if type_.is_primitive
                else list(ranges(field_id))
            )
            return cleaned or [unknown(type_)]
        case BoundLiteral(value=value, type=type_):
            return [constant(value, type_)]
        case BoundCast(term=inner):
            return [_cast(r, term) for r in ranges_of(inner, ranges)]
        case BoundCall(arguments=arguments):
            return _call(term, [ranges_of(a, ranges) for a in arguments])
    return [unknown(term.type)]


def _clean(r: Range, type_: IcebergType) -> Range:
    nans: Flag = r.nans if isinstance(type_, FLOATS) else False
    return Range(
        clean_bound(r.lower, type_), clean_bound(r.upper, type_), r.nulls, nans, r.values, r.hashed
    )


def _cast(bounds: Range, cast: BoundCast) -> Range:
    source, target = cast.term.type, cast.type
    nulls: Flag = True if cast.attempt else bounds.nulls
    nans: Flag = isinstance(target, FLOATS) and (
        bounds.nans if isinstance(source, FLOATS) else isinstance(source, StringType)
    )
    if not keeps_order(source, target) or cast.attempt:
        return Range(None, None, nulls, nans, bounds.values)
    slack = _slack(source, target, cast.zone)
    lower, upper = (
        None
        if b is None
        else _mapped(
            lambda x: cast_values(x, source, target, zone=cast.zone, attempt=True),
            _moved(b, s, source),
        )
        for b, s in ((bounds.lower, -slack), (bounds.upper, slack))
    )
    return Range(clean_bound(lower, target), clean_bound(upper, target), nulls, nans, bounds.values)


def keeps_order(source: IcebergType, target: IcebergType) -> bool:
    """Tell whether a <= b implies cast(a) <= cast(b)."""
    if isinstance(source, NUMBERS) and isinstance(target, NUMBERS):
        return True
    if isinstance(source, (DateType, *MOMENTS)) and isinstance(target, (DateType, *MOMENTS)):
        return True
    pairs = ((UUIDType, StringType), (FixedType, BinaryType))
    return any(isinstance(source, s) and isinstance(target, t) for s, t in pairs)


def _slack(source: IcebergType, target: IcebergType, zone: str) -> int:
    """Return the seconds by which bounds are widened, since a time zone's clock may be set back."""
    zoned = (TimestamptzType, TimestamptzNanoType)
    crosses = isinstance(source, zoned) != isinstance(target, zoned)
    return _SLACK_SECONDS if crosses and zone not in _UTC and isinstance(source, MOMENTS) else 0


def _moved(bound: Any, seconds: int, type_: IcebergType) -> Any:
    if not seconds or isinstance(bound, pa.Scalar) and not bound.is_valid:
        return bound
    distance = seconds * (1_000_000_000 if "ns" in str(type_) else 1_000_000)
    limit = np.iinfo(np.int64).max - abs(distance)
    safe = pc.if_else(
        pc.and_(pc.less(bound, limit), pc.greater(bound, -limit)),
        bound,
        pa.scalar(None, pa.int64()),
    )
    return pc.add(safe, distance)


def _mapped(function: Callable[[pa.Array], pa.Array], bound: Any) -> Bounds:
    if isinstance(bound, pa.Scalar):
        return function(pa.array([bound.as_py()], bound.type))[0]
    return function(bound)


def _call(call: BoundCall, arguments: list[list[Range]]) -> list[Range]:
    function = FUNCTIONS[call.function]
    nans = isinstance(call.type, FLOATS)
    if not function.strict:
        return [Range(None, None, True, nans, True)]
    nulls: Flag = False
    for argument_ranges in arguments:
        all_null: Flag = True
        for bounds in argument_ranges:
            all_null = _and(all_null, bounds.nulls)
        nulls = _or(nulls, all_null)
    if call.function == BUCKET:
        return [_bucket(r, call.arguments[0], nulls) for r in arguments[1]]
    index = function.monotone
    if index is None or any(
        not isinstance(a, BoundLiteral) for i, a in enumerate(call.arguments) if i != index
    ):
        return [Range(None, None, nulls, nans, True)]
    argument = call.arguments[index]
    slack = (
        _SLACK_SECONDS
        if isinstance(argument.type, TimestamptzType | TimestamptzNanoType)
        and call.zone not in _UTC
        else 0
    )
    result_ranges = []
    for bounds in arguments[index]:
        if bounds.lower is None or bounds.upper is None:
            result_ranges.append(Range(None, None, nulls, nans, bounds.values))
            continue
        ends = ((bounds.lower, -slack), (bounds.upper, slack))
        lower, upper = (
            _mapped(lambda x: _run(call, index, x), _moved(b, s, argument.type)) for b, s in ends
        )
        result_ranges.append(
            Range(
                clean_bound(lower, call.type),
                clean_bound(upper, call.type),
                nulls,
                nans,
                bounds.values,
            )
        )
    return result_ranges


def _bucket(bounds: Range, buckets: Bound, nulls: Flag) -> Range:
    """Return the range of bucket numbers, which partitions by as many buckets tell."""
    hashed = bounds.hashed
    if hashed is None or not (
        isinstance(buckets, BoundLiteral) and buckets.value == hashed.num_buckets
    ):
        return Range(None, None, nulls, False, bounds.values)
    return Range(hashed.lower, hashed.upper, nulls, False, bounds.values)


def _run(call: BoundCall, index: int, values: pa.Array) -> pa.Array:
    arguments = [
        values if i == index else pa.repeat(constant(a.value, a.type).lower, len(values))  # type: ignore[attr-defined]
        for i, a in enumerate(call.arguments)
    ]
    return FUNCTIONS[call.function].kernel(
        arguments, [a.type for a in call.arguments], call.type, call.zone
    )


def _and(a: Flag, b: Flag) -> Flag:
    return a & b if isinstance(a, np.ndarray) or isinstance(b, np.ndarray) else a and b


def _or(a: Flag, b: Flag) -> Flag:
    return a | b if isinstance(a, np.ndarray) or isinstance(b, np.ndarray) else a or b
