"""Cast arrays of internal values as Spark's ANSI mode does: a value that does not fit is an
EvaluationError, or null for TRY_CAST.

The entry point is `cast_values`; `castable` tells which casts exist. Numbers are cast in
`casts_numbers`, text and times here.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable
from decimal import Decimal
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from frazil.errors import EvaluationError
from frazil.expr.calendar import (
    DAY_MICROS,
    NoTime,
    offset_of,
    parse_date,
    parse_moment,
    parse_time,
    to_local,
    to_utc,
)
from frazil.expr.casts_numbers import cast_number, checked, rounded
from frazil.expr.sql_text import clock_text, date_text, java_double, java_float, moment_text
from frazil.expr.values import FLOATS, INTEGERS, MICROS, MOMENTS, NANOS, NUMBERS, arrow_type
from frazil.spec.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    FixedType,
    FloatType,
    IcebergType,
    IntegerType,
    StringType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UnknownType,
    UUIDType,
)

HINT = "TRY_CAST gives null instead."
_BYTES = (BinaryType, FixedType)
_ZONED = (TimestamptzType, TimestamptzNanoType)
_INTEGER = re.compile(r"[+-]?\d+")
_FLOAT = re.compile(r"[+-]?(\d+\.?\d*([eE][+-]?\d+)?|\.\d+([eE][+-]?\d+)?)[dDfF]?")
_DECIMAL = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_SPECIAL = {
    "inf": "inf",
    "+inf": "inf",
    "infinity": "inf",
    "+infinity": "inf",
    "-inf": "-inf",
    "-infinity": "-inf",
    "nan": "nan",
}
_TRUE, _FALSE = ("t", "true", "y", "yes", "1"), ("f", "false", "n", "no", "0")


def castable(source: IcebergType, target: IcebergType) -> bool:
    """Tell whether CAST(source AS target) is supported."""
    if source == target or isinstance(source, UnknownType):
        return True
    if isinstance(target, StringType):
        return source.is_primitive
    if isinstance(source, StringType):
        return isinstance(
            target, (*NUMBERS, BooleanType, DateType, TimeType, *MOMENTS, *_BYTES, UUIDType)
        )
    if isinstance(source, (*NUMBERS, BooleanType)) and isinstance(target, (*NUMBERS, BooleanType)):
        return True
    if isinstance(source, (DateType, *MOMENTS)) and isinstance(target, (DateType, *MOMENTS)):
        return True
    return isinstance(source, (*_BYTES, UUIDType)) and isinstance(target, _BYTES)


def cast_values(
    values: pa.Array,
    source: IcebergType,
    target: IcebergType,
    *,
    zone: str = "UTC",
    attempt: bool = False,
) -> pa.Array:
    """Cast internal values of type `source` to type `target`. Raises EvaluationError for a value
    that does not fit.
    """
    if source == target:
        return values
    if isinstance(source, UnknownType) or values.null_count == len(values):
        return pa.nulls(len(values), arrow_type(target))
    if isinstance(source, (*NUMBERS, BooleanType)) and isinstance(target, (*NUMBERS, BooleanType)):
        return cast_number(values, source, target, attempt)
    if isinstance(source, (DateType, *MOMENTS)) and isinstance(target, (DateType, *MOMENTS)):
        return _cast_time(values, source, target, zone, attempt)
    if isinstance(source, (*_BYTES, UUIDType)) and isinstance(target, _BYTES):
        return values
    if isinstance(source, StringType):
        convert = partial(from_text, target, zone)
    else:
        convert = partial(to_text, source, zone)
    return each(values, convert, arrow_type(target), partial(_message, source, target), attempt)


def each(
    values: pa.Array,
    convert: Callable[[Any], Any],
    to: pa.DataType,
    message: Callable[[Any], str] | None = None,
    attempt: bool = False,
) -> pa.Array:
    """Apply `convert` to the distinct values; its ValueError or ArithmeticError becomes an
    EvaluationError, or null with `attempt`.
    """
    encoded = values.dictionary_encode() if not pa.types.is_null(values.type) else values
    converted: list[Any] = []
    for value in encoded.dictionary.to_pylist():
        try:
            converted.append(None if value is None else convert(value))
        except (ValueError, ArithmeticError) as e:
            if not attempt:
                raise EvaluationError(
                    message(value) if message else str(e), hint=HINT, value=str(value)[:80]
                ) from e
            converted.append(None)
    return pa.array(converted, to).take(encoded.indices)


def _message(source: IcebergType, target: IcebergType, value: Any) -> str:
    return f"The value {str(value)[:80]!r} of type {source} cannot be cast to {target}: it is malformed or out of range."


def from_text(target: IcebergType, zone: str, text: str) -> Any:
    """Parse text to an internal value, as Spark's cast does. Raises ValueError."""
    text = text.strip(" \t\r\n\f\v\0") if not isinstance(target, _BYTES) else text
    match target:
        case BooleanType() if text.lower() in _TRUE + _FALSE:
            return text.lower() in _TRUE
        case DecimalType(precision=precision, scale=scale) if _DECIMAL.fullmatch(text):
            return rounded(Decimal(text), precision, scale)
        case DateType():
            return _in_bits(parse_date(text), 32)
        case TimeType():
            return parse_time(text)
        case BinaryType():
            return text.encode()
        case FixedType(length=length) if len(text.encode()) == length:
            return text.encode()
        case UUIDType():
            return uuid.UUID(text).bytes
    if isinstance(target, INTEGERS) and _INTEGER.fullmatch(text):
        return _in_bits(int(text), 32 if isinstance(target, IntegerType) else 64)
    if isinstance(target, FLOATS) and (special := _SPECIAL.get(text.lower())):
        return float(special)
    if isinstance(target, FLOATS) and _FLOAT.fullmatch(text):
        number = float(text.rstrip("dDfF"))
        with np.errstate(over="ignore"):
            return float(np.float32(number)) if isinstance(target, FloatType) else number
    if isinstance(target, MOMENTS):
        nanos = parse_moment(text, zone if isinstance(target, _ZONED) else None)
        return _in_bits(nanos if isinstance(target, NANOS) else nanos // 1000, 64)
    raise NoTime(text)


def _in_bits(number: int, bits: int) -> int:
    if not -(2 ** (bits - 1)) <= number < 2 ** (bits - 1):
        raise OverflowError(number)
    return number


def to_text(source: IcebergType, zone: str, value: Any) -> str:
    """Format an internal value as text, as Spark's cast does."""
    match source:
        case BooleanType():
            return "true" if value else "false"
        case DateType():
            return date_text(value)
        case TimeType():
            return clock_text(value * 1000, 6)
        case UUIDType():
            return str(uuid.UUID(bytes=value))
        case DecimalType():
            return f"{value:f}"
    if isinstance(source, MOMENTS):
        nanos = value if isinstance(source, NANOS) else value * 1000
        if isinstance(source, _ZONED):
            nanos = to_local(nanos // 1000, zone) * 1000 + nanos % 1000
        return moment_text(nanos, 9 if isinstance(source, NANOS) else 6)
    if isinstance(source, FLOATS):
        return java_float(value) if isinstance(source, FloatType) else java_double(value)
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


# Dates and points in time
# --------------------------------------------------------------------------------------------------------------


def _cast_time(
    values: pa.Array, source: IcebergType, target: IcebergType, zone: str, attempt: bool
) -> pa.Array:
    if isinstance(source, DateType):
        wide = pc.cast(values, pa.int64())
        local = checked(
            lambda v: pc.multiply_checked(v, DAY_MICROS), wide, pa.int64(), target, attempt
        )
        return _scaled_moment(
            to_utc_values(local, zone) if isinstance(target, _ZONED) else local,
            MICROS[0](),
            target,
            attempt,
        )
    if isinstance(source, _ZONED) != isinstance(target, _ZONED):
        per_micro = 1000 if isinstance(source, NANOS) else 1
        values = shift_zone(values, zone, per_micro, to_instant=isinstance(target, _ZONED))
    if isinstance(target, DateType):
        return floor_divide(values, DAY_MICROS * (1000 if isinstance(source, NANOS) else 1)).cast(
            pa.int32()
        )
    return _scaled_moment(values, source, target, attempt)


def _scaled_moment(
    values: pa.Array, source: IcebergType, target: IcebergType, attempt: bool
) -> pa.Array:
    if isinstance(source, NANOS) == isinstance(target, NANOS):
        return values
    if isinstance(source, NANOS):
        return floor_divide(values, 1000)
    return checked(lambda v: pc.multiply_checked(v, 1000), values, pa.int64(), target, attempt)


def floor_divide(values: pa.Array, divisor: int) -> pa.Array:
    """Divide an integer array, rounding down; null stays null."""
    return over_numpy(values, lambda n: n // divisor)


def over_numpy(
    values: pa.Array, function: Callable[[Any], Any], to: pa.DataType | None = None
) -> pa.Array:
    """Apply `function` to the numbers as numpy; nulls stay null."""
    if not values.null_count:
        return pa.array(function(values.to_numpy(zero_copy_only=False)), to or values.type)
    filled = pc.fill_null(values, pa.scalar(0, values.type)).to_numpy(zero_copy_only=False)
    return pa.array(
        function(filled), to or values.type, mask=pc.is_null(values).to_numpy(zero_copy_only=False)
    )


def local_values(values: pa.Array, source: IcebergType, zone: str) -> pa.Array:
    """Convert timestamps to local time in the zone; those of a type without time zone are local
    already.
    """
    if not isinstance(source, _ZONED):
        return values
    return shift_zone(values, zone, 1000 if isinstance(source, NANOS) else 1, to_instant=False)


def to_utc_values(values: pa.Array, zone: str) -> pa.Array:
    return shift_zone(values, zone, 1, to_instant=True)


def shift_zone(values: pa.Array, zone: str, per_micro: int, *, to_instant: bool) -> pa.Array:
    """Convert int64 local times to instants or back: by Arrow where that is unambiguous, value by
    value at gaps and overlaps.
    """
    fixed = offset_of(zone)
    if fixed is not None:
        return (
            pc.add(values, (-fixed if to_instant else fixed) * 1_000_000 * per_micro)
            if fixed
            else values
        )
    unit = "ns" if per_micro > 1 else "us"
    try:
        if to_instant:
            return pc.assume_timezone(values.cast(pa.timestamp(unit)), zone).cast(pa.int64())
        return pc.local_timestamp(values.cast(pa.timestamp(unit, zone))).cast(pa.int64())
    except pa.ArrowInvalid:
        move = to_utc if to_instant else to_local
        return each(
            values, lambda v: move(v // per_micro, zone) * per_micro + v % per_micro, pa.int64()
        )
