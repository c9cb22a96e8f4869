"""Cast arrays of internal values as Spark's ANSI mode does: a value that does not fit is an
EvaluationError, or null for TRY_CAST. Fractions are truncated, decimals rounded half up.

The entry point is `cast_values`; `castable` tells which casts exist.
"""

from __future__ import annotations

import math
import re
import uuid
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from frazil.errors import EvaluationError
from frazil.expr.calendar import (
    BLANKS,
    DAY_MICROS,
    NoTime,
    offset_of,
    parse_date,
    parse_moment,
    parse_time,
    to_local,
    to_utc,
    zone_of,
)
from frazil.expr.sql_text import clock_text, date_text, java_double, java_float, moment_text
from frazil.expr.values import FLOATS, INTEGERS, MICROS, MOMENTS, NANOS, NUMBERS, arrow_type
from frazil.spec.transform_values import scaled, unscaled
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
    StringType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UnknownType,
    UUIDType,
)

OUT_OF_RANGE = "NUMERIC_VALUE_OUT_OF_RANGE.WITH_SUGGESTION"
HINT = "TRY_CAST gives null instead."
_BYTES = (BinaryType, FixedType)
_ZONED = (TimestamptzType, TimestamptzNanoType)
_INTEGER = re.compile(r"[+-]?[0-9]+")
_FLOAT = re.compile(r"([+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)[dDfF]?")
_HEXADECIMAL = re.compile(
    r"([+-]?0[xX](?:[0-9a-fA-F]+\.?|[0-9a-fA-F]*\.[0-9a-fA-F]+)[pP][+-]?[0-9]+)[dDfF]?"
)
# Java's BigDecimal takes the digits of all scripts that a char holds
_DECIMAL = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_JAVA_BLANKS = BLANKS[:-1]
_SPECIAL = {
    "inf": "inf",
    "+inf": "inf",
    "infinity": "inf",
    "+infinity": "inf",
    "-inf": "-inf",
    "-infinity": "-inf",
    "nan": "nan",
    "+NaN": "nan",
    "-NaN": "nan",
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
    message, facts = (
        partial(_message, source, target),
        {"condition": "CAST_INVALID_INPUT", "type": str(target)},
    )
    return each(values, convert, arrow_type(target), message, attempt, **facts)


def each(
    values: pa.Array,
    convert: Callable[[Any], Any],
    to: pa.DataType,
    message: Callable[[Any], str] | None = None,
    attempt: bool = False,
    **facts: str,
) -> pa.Array:
    """Apply `convert` to the distinct values; its ValueError or ArithmeticError becomes an
    EvaluationError with these facts, or null with `attempt`.
    """
    encoded = values.dictionary_encode() if not pa.types.is_null(values.type) else values
    converted: list[Any] = []
    for value in encoded.dictionary.to_pylist():
        try:
            converted.append(None if value is None else convert(value))
        except (ValueError, ArithmeticError) as e:
            if not attempt:
                raise EvaluationError(
                    message(value) if message else str(e),
                    hint=HINT,
                    value=str(value)[:80],
                    **facts,
                ) from e
            converted.append(None)
    return pa.array(converted, to).take(encoded.indices)


def _message(source: IcebergType, target: IcebergType, value: object) -> str:
    return f"The value {str(value)[:80]!r} of type {source} cannot be cast to {target}: it is malformed or out of range."


def from_text(target: IcebergType, zone: str, text: str) -> Any:
    """Parse text to an internal value, as Spark's cast does. Raises ValueError."""
    match target:
        case BooleanType() if (word := text.strip(BLANKS).lower()) in _TRUE + _FALSE:
            return word in _TRUE
        case DecimalType(precision=precision, scale=scale):
            return _decimal(text.strip(_JAVA_BLANKS), precision, scale)
        case DateType():
            return _in_bits(parse_date(text), 32)
        case TimeType():
            return parse_time(text)
        case BinaryType():
            return text.encode()
        case FixedType(length=length) if len(text.encode()) == length:
            return text.encode()
        case UUIDType() if text.isascii():
            return uuid.UUID(text.strip(BLANKS)).bytes
    if isinstance(target, INTEGERS) and _INTEGER.fullmatch(trimmed := text.strip(BLANKS)):
        return _in_bits(int(trimmed), 32 if isinstance(target, IntegerType) else 64)
    if isinstance(target, FLOATS):
        return _floating(text.strip(_JAVA_BLANKS), isinstance(target, FloatType))
    if isinstance(target, MOMENTS):
        nanos = parse_moment(text, zone if isinstance(target, _ZONED) else None)
        return _in_bits(nanos if isinstance(target, NANOS) else nanos // 1000, 64)
    raise NoTime(text)


def _decimal(text: str, precision: int, scale: int) -> Decimal:
    if not _DECIMAL.fullmatch(text) or max(text) > "\uffff":
        raise NoTime(text)
    number = Decimal(text)
    exponent = number.as_tuple().exponent
    if not isinstance(exponent, int) or not -(2**31) < exponent < 2**31:
        raise NoTime(text)
    return scaled(0, scale) if number.is_zero() else rounded(number, precision, scale)


def _floating(text: str, single: bool) -> float:
    """Parse a number as Java's Double.parseDouble and Float.parseFloat do, and its other names as
    Spark does.
    """
    if special := _SPECIAL.get(text) or _SPECIAL.get(text.lower()):
        return float(special)
    if match := _FLOAT.fullmatch(text):
        number = float(match[1])
    elif match := _HEXADECIMAL.fullmatch(text):
        try:
            number = float.fromhex(match[1])
        except OverflowError:
            number = math.copysign(math.inf, -1 if text.startswith("-") else 1)
    else:
        raise NoTime(text)
    return _nearest_float(number, match[1]) if single and math.isfinite(number) else number


def _nearest_float(number: float, text: str) -> float:
    """Return the float nearest to a text. `number`: the double nearest to it, which may lie in the
    middle of two floats where the text does not.
    """
    with np.errstate(over="ignore"):
        nearest = np.float32(number)
        beside = np.nextafter(nearest, np.float32(math.copysign(math.inf, number - float(nearest))))
    ends = (float(nearest), float(beside))
    if number not in ends and np.isfinite(ends).all() and number - ends[0] == ends[1] - number:
        beyond = Fraction(text) - Fraction(number) if "x" not in text.lower() else 0
        if beyond:
            return max(ends) if beyond > 0 else min(ends)
    return ends[0]


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
    return value.decode() if isinstance(value, bytes) else str(value)


# Dates and points in time
# --------------------------------------------------------------------------------------------------


def _cast_time(
    values: pa.Array, source: IcebergType, target: IcebergType, zone: str, attempt: bool
) -> pa.Array:
    if isinstance(source, DateType):
        wide = pc.cast(values, pa.int64())
        local = checked(
            lambda v: pc.multiply_checked(v, DAY_MICROS), wide, pa.int64(), target, attempt
        )
        return _scaled_moment(
            shift_zone(local, zone, 1, to_instant=True) if isinstance(target, _ZONED) else local,
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
    move = partial(_moved, to_utc if to_instant else to_local, zone, per_micro)
    late = pc.greater_equal(values, _KNOWN_TO_ARROW * per_micro)
    if pc.any(late).as_py():
        nothing = pa.scalar(None, values.type)
        by_value = each(pc.if_else(late, values, nothing), move, pa.int64())
        early = pc.if_else(late, nothing, values)
        return pc.coalesce(by_value, shift_zone(early, zone, per_micro, to_instant=to_instant))
    unit, name = "ns" if per_micro > 1 else "us", zone_of(zone).key
    try:
        if to_instant:
            return pc.assume_timezone(values.cast(pa.timestamp(unit)), name).cast(pa.int64())
        return pc.local_timestamp(values.cast(pa.timestamp(unit, name))).cast(pa.int64())
    except pa.ArrowInvalid:
        return each(values, move, pa.int64())


_KNOWN_TO_ARROW = 2_114_380_800_000_000
"""Where the tables of time zones end, 2037-01-01: from then on rules apply, which Arrow does not
read."""


def _moved(move: Callable[[int, str], int], zone: str, per_micro: int, value: int) -> int:
    moved = move(value // per_micro, zone) * per_micro + value % per_micro
    if not -(2**63) <= moved < 2**63:
        raise OverflowError("The time is out of range.")
    return moved


_WIDE = 76


def cast_number(
    values: pa.Array, source: IcebergType, target: IcebergType, attempt: bool
) -> pa.Array:
    """Cast numbers and booleans, for `casts.cast_values`."""
    to = arrow_type(target)
    if isinstance(target, BooleanType):
        return pc.not_equal(
            values, pa.scalar(Decimal(0) if isinstance(source, DecimalType) else 0, values.type)
        )
    if isinstance(source, BooleanType):
        return cast_number(values.cast(pa.int32()), IntegerType(), target, attempt)
    if isinstance(source, FLOATS):
        return _from_float(values, source, target, attempt)
    if isinstance(source, DecimalType):
        return _from_decimal(values, source, target, attempt)
    if isinstance(target, DecimalType):
        wide = values.cast(pa.decimal256(_WIDE, target.scale))
        return checked(lambda v: v.cast(to), wide, to, target, attempt)
    if isinstance(target, FLOATS):
        return values.cast(to, safe=False)
    return checked(lambda v: v.cast(to), values, to, target, attempt)


def _from_float(
    values: pa.Array, source: IcebergType, target: IcebergType, attempt: bool
) -> pa.Array:
    to = arrow_type(target)
    if isinstance(target, DoubleType):
        return values.cast(to)
    if isinstance(target, FloatType):
        return values.cast(to, safe=False)
    if isinstance(target, DecimalType):
        # as in Spark, what is not finite is null and no error
        finite = pc.if_else(pc.is_finite(values), values, pa.scalar(None, values.type))
        return checked(
            lambda v: _float_to_decimal(v, target), finite.cast(pa.float64()), to, target, attempt
        )
    low, high = (-(2**31), 2**31 - 1) if isinstance(target, IntegerType) else (-(2**63), 2**63)
    numbers = pc.fill_null(values, 0.0).to_numpy(zero_copy_only=False).astype(np.float64)
    null = pc.is_null(values).to_numpy(zero_copy_only=False)
    with np.errstate(invalid="ignore"):
        bad = ~((np.floor(numbers) <= high) & (np.ceil(numbers) >= low))
    if bad.any() and not attempt:
        raise overflow(numbers[bad][0], target)
    cut = np.trunc(np.where(bad, 0.0, numbers))
    top = cut >= 2.0**63
    whole = np.where(top, 0, cut).astype(np.int64)
    whole[top] = 2**63 - 1
    return pa.array(whole, mask=null | bad).cast(to)


def _float_to_decimal(values: pa.Array, target: DecimalType) -> pa.Array:
    decimals = [
        None if v is None else rounded(Decimal(repr(v)), target.precision, target.scale)
        for v in values.to_pylist()
    ]
    return pa.array(decimals, arrow_type(target))


def rounded(number: Decimal, precision: int, scale: int) -> Decimal:
    """Round half up to the scale. Raises OverflowError beyond the precision."""
    sign, digits, exponent = number.as_tuple()
    if not isinstance(exponent, int) or exponent + len(digits) > precision + 1:
        raise OverflowError(number)
    shift = exponent + scale
    if -shift > len(digits) + 1:
        return scaled(0, scale)
    units = (
        unscaled(number.copy_abs(), scale)
        if shift >= 0
        else (int("".join(map(str, digits))) * 2 + 10**-shift) // (2 * 10**-shift)
    )
    if units >= 10**precision:
        raise OverflowError(number)
    return scaled(-units if sign else units, scale)


def _from_decimal(
    values: pa.Array, source: DecimalType, target: IcebergType, attempt: bool
) -> pa.Array:
    to = arrow_type(target)
    if isinstance(target, INTEGERS):
        options = pc.CastOptions(to, allow_decimal_truncate=True)
        return checked(lambda v: pc.cast(v, options=options), values, to, target, attempt)
    if isinstance(target, FLOATS):
        return decimal_to_double(values, source).cast(to, safe=False)
    assert isinstance(target, DecimalType)
    return checked(lambda v: rescale(v, source, target), values, to, target, attempt)


def rescale(values: pa.Array, source: DecimalType, target: DecimalType) -> pa.Array:
    """Change precision and scale, rounding half up. Raises ArrowInvalid when a value does not fit."""
    # decimal128 may round beyond its precision to 0
    wide = values.cast(pa.decimal256(_WIDE, max(target.scale, source.scale)))
    if target.scale < source.scale:
        wide = pc.round(wide, target.scale, round_mode="half_towards_infinity")
    return wide.cast(pa.decimal256(_WIDE, target.scale)).cast(arrow_type(target))


def unscaled_int64(values: pa.Array) -> Any:
    """Return the unscaled values of a decimal128 array of at most 18 digits as numpy int64; the
    value in place of a null is undefined.
    """
    words = np.frombuffer(values.buffers()[1], np.int64)
    return words[2 * values.offset : 2 * (values.offset + len(values)) : 2]


def decimal_to_double(values: pa.Array, source: DecimalType) -> pa.Array:
    """Convert decimals to the nearest doubles: up to 15 digits by one exact division, beyond that
    one by one.
    """
    if source.precision <= 15 and 0 <= source.scale <= 22:
        mask = pc.is_null(values).to_numpy(zero_copy_only=False) if values.null_count else None
        return pa.array(unscaled_int64(values) / 10.0**source.scale, mask=mask)
    return pa.array([None if v is None else float(v) for v in values.to_pylist()], pa.float64())


def checked(
    run: Callable[[pa.Array], pa.Array],
    values: pa.Array,
    to: pa.DataType,
    target: IcebergType,
    attempt: bool,
) -> pa.Array:
    """Return `run(values)`. A value that does not fit raises an EvaluationError that names it, or
    becomes null with `attempt`.
    """
    try:
        return run(values)
    except (pa.ArrowInvalid, ArithmeticError):
        pass
    results = []
    for i in range(len(values)):
        try:
            results.append(run(values.slice(i, 1)))
        except (pa.ArrowInvalid, ArithmeticError) as e:
            if not attempt:
                raise overflow(values[i].as_py(), target) from e
            results.append(pa.nulls(1, to))
    return pa.concat_arrays(results)


def overflow(value: object, target: IcebergType) -> EvaluationError:
    return EvaluationError(
        f"The value {value} does not fit into {target}.",
        hint="TRY_CAST gives null instead.",
        value=str(value)[:80],
        condition=OUT_OF_RANGE if isinstance(target, DecimalType) else "CAST_OVERFLOW",
    )
