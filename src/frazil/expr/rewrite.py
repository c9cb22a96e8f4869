"""Rewrite `column op literal` so that the literal has the column's own type: then no row is cast,
and bounds and buckets can prune.

`int_col < 2.5` becomes `int_col <= 2`, `int_col = 2.5` becomes false (null for null), `int_col <
3000000000` becomes true (null for null). This is done only if the result is exactly that of casting
the column, which is what Spark does.
"""

from __future__ import annotations

import math
import uuid
from fractions import Fraction
from typing import Any

import numpy as np

from frazil.expr.bound import FALSE, Bound, BoundLiteral, Comparison, NullOr
from frazil.expr.calendar import DAY_MICROS, offset_of, to_utc
from frazil.expr.values import FLOATS, INTEGERS, MOMENTS, NANOS, NUMBERS
from frazil.spec.transform_values import scaled
from frazil.spec.types import (
    DateType,
    DecimalType,
    DoubleType,
    IcebergType,
    IntegerType,
    LongType,
    StringType,
    TimestamptzNanoType,
    TimestamptzType,
    UUIDType,
)

_ZONED = (TimestamptzType, TimestamptzNanoType)


def rewritten(op: str, column: Bound, literal: BoundLiteral, zone: str) -> Bound | None:
    """Rewrite a comparison to the column's own type; None when the column must be cast."""
    type_ = column.type
    if isinstance(type_, UUIDType) and isinstance(literal.type, StringType):
        value = as_uuid(literal.value)
        return None if value is None else Comparison(op, column, BoundLiteral(value, type_))
    if isinstance(type_, FLOATS):
        number = _as_float(type_, literal)
        return None if number is None else Comparison(op, column, BoundLiteral(number, type_))
    if isinstance(literal.value, float) and not math.isfinite(literal.value):
        return _beside_infinity(op, column, literal.value) if isinstance(type_, INTEGERS) else None
    place = position(type_, literal, zone)
    return None if place is None else _discrete(op, column, place)


def as_uuid(text: str) -> bytes | None:
    """Return the uuid whose text in Spark is exactly this; None for text in other case or form,
    which equals no uuid's text.
    """
    try:
        value = uuid.UUID(text)
    except ValueError:
        return None
    return value.bytes if str(value) == text else None


def _as_float(type_: IcebergType, literal: BoundLiteral) -> float | None:
    """Return the literal as a value of the float column, if that is exact (a double column takes
    any number, rounded as by a cast).
    """
    if not isinstance(literal.type, NUMBERS):
        return None
    number = float(literal.value)
    if isinstance(type_, DoubleType):
        return number
    with np.errstate(over="ignore"):
        exact = number != number or float(np.float32(number)) == number
    return number if exact else None


def position(type_: IcebergType, literal: BoundLiteral, zone: str) -> Fraction | None:
    """Return where the literal lies among the column's internal values (unscaled for decimals);
    None when the column must be cast.
    """
    value = literal.value
    match type_:
        case IntegerType() | LongType() | DecimalType():
            scale = type_.scale if isinstance(type_, DecimalType) else 0
            if isinstance(literal.type, (*INTEGERS, DecimalType)):
                return Fraction(value) * int(10**scale)
            # beyond, a long may round up to the literal
            small = isinstance(value, float) and abs(value) < 2**53
            exact = isinstance(type_, IntegerType) or (isinstance(type_, LongType) and small)
            return Fraction(value) if isinstance(literal.type, FLOATS) and exact else None
        case DateType():
            return _moment(literal, DAY_MICROS * 1000, zone, zoned=None)
    if isinstance(type_, MOMENTS):
        return _moment(
            literal, 1 if isinstance(type_, NANOS) else 1000, zone, zoned=isinstance(type_, _ZONED)
        )
    return None


def _moment(literal: BoundLiteral, unit: int, zone: str, zoned: bool | None) -> Fraction | None:
    """Return a date or timestamp literal in units of `unit` nanoseconds. `zoned`: whether the
    column has a time zone; None: the column is a date, so local midnights are compared."""
    value, type_ = literal.value, literal.type
    if isinstance(type_, DateType):
        nanos = value * DAY_MICROS * 1000
        if zoned is None:
            return Fraction(nanos, unit)
    elif isinstance(type_, MOMENTS):
        nanos = value if isinstance(type_, NANOS) else value * 1000
    else:
        return None
    literal_zoned = isinstance(type_, _ZONED)
    if bool(zoned) == literal_zoned or offset_of(zone) == 0:
        return Fraction(nanos, unit)
    if zoned:  # a local literal against instants
        return Fraction(to_utc(nanos // 1000, zone) * 1000 + nanos % 1000, unit)
    return None


def _beside_infinity(op: str, column: Bound, value: float) -> Bound:
    """Compare integers with an infinity or NaN: all of them lie below, or all above."""
    below = value > 0 or value != value
    return _never_null(op, column, op in ("lt", "le") if below else op in ("gt", "ge"))


def _discrete(op: str, column: Bound, literal: Fraction) -> Bound:
    """Compare whole numbers in the column's range: round the literal to one, or decide the
    comparison for all of them.
    """
    low, high = limits(column.type)
    whole = literal.denominator == 1
    if op in ("eq", "nseq"):
        if whole and low <= literal <= high:
            return Comparison(op, column, _literal(int(literal), column.type))
        return _never_null(op, column, False)
    if op in ("lt", "ge"):
        number = math.ceil(literal)
        if number <= low or number > high:
            return NullOr(column, (op == "lt") == (number > high))
    else:
        number = math.floor(literal)
        if number < low or number >= high:
            return NullOr(column, (op == "le") == (number >= high))
    return Comparison(op, column, _literal(number, column.type))


def _never_null(op: str, column: Bound, answer: bool) -> Bound:
    return FALSE if op == "nseq" else NullOr(column, answer)


def limits(type_: IcebergType) -> tuple[int, int]:
    if isinstance(type_, DecimalType):
        return 1 - 10**type_.precision, 10**type_.precision - 1
    bits = 31 if isinstance(type_, IntegerType | DateType) else 63
    return -(2**bits), 2**bits - 1


def _literal(number: int, type_: IcebergType) -> BoundLiteral:
    value: Any = scaled(number, type_.scale) if isinstance(type_, DecimalType) else number
    return BoundLiteral(value, type_)
