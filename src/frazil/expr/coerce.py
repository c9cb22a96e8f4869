"""Find the common type of two operands, by Spark's ANSI rules."""

from __future__ import annotations

from frazil.expr.values import FLOATS, INTEGERS, MOMENTS, NANOS, NUMBERS
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
    UnknownType,
    UUIDType,
    VariantType,
)

MAX_PRECISION, _MINIMUM_SCALE = 38, 6
_ZONED = (TimestamptzType, TimestamptzNanoType)
_COMPARABLE = (
    *NUMBERS,
    BooleanType,
    DateType,
    TimeType,
    *MOMENTS,
    StringType,
    BinaryType,
    FixedType,
    UUIDType,
    UnknownType,
)


def comparable(type_: IcebergType) -> bool:
    """Tell whether values of the type can be compared; structs, lists, maps, variants and
    geometries cannot.
    """
    return isinstance(type_, _COMPARABLE)


def common_type(a: IcebergType, b: IcebergType) -> IcebergType | None:
    """Return the type to which both sides of a comparison are cast; None: they cannot be compared.
    uuid counts as text, fixed as binary.
    """
    a, b = _plain(a, b), _plain(b, a)
    if a == b or isinstance(b, UnknownType):
        return a
    if isinstance(a, UnknownType):
        return b
    if isinstance(a, NUMBERS) and isinstance(b, NUMBERS):
        return _numbers(a, b)
    if isinstance(a, (DateType, *MOMENTS)) and isinstance(b, (DateType, *MOMENTS)):
        return _moments(a, b)
    if isinstance(a, StringType):
        return _with_text(b)
    return _with_text(a) if isinstance(b, StringType) else None


def _plain(a: IcebergType, other: IcebergType) -> IcebergType:
    if isinstance(a, UUIDType) and not isinstance(other, UUIDType):
        return StringType()
    return BinaryType() if isinstance(a, FixedType) else a


def _with_text(other: IcebergType) -> IcebergType | None:
    if isinstance(other, INTEGERS):
        return LongType()
    if isinstance(other, (*FLOATS, DecimalType)):
        return DoubleType()
    return other if comparable(other) and not isinstance(other, VariantType) else None


def _numbers(a: IcebergType, b: IcebergType) -> IcebergType:
    if isinstance(a, INTEGERS) and isinstance(b, INTEGERS):
        return LongType()
    if isinstance(a, FLOATS) or isinstance(b, FLOATS):
        return (
            FloatType() if isinstance(a, FloatType) and isinstance(b, FloatType) else DoubleType()
        )
    x, y = as_decimal(a), as_decimal(b)
    scale = max(x.scale, y.scale)
    whole = max(x.precision - x.scale, y.precision - y.scale)
    over = max(whole + scale - MAX_PRECISION, 0)
    return DecimalType(whole + scale - over, max(scale - over, 0))


def as_decimal(type_: IcebergType) -> DecimalType:
    """Return the decimal type that holds all values of an exact number type."""
    if isinstance(type_, DecimalType):
        return type_
    return DecimalType(10 if isinstance(type_, IntegerType) else 20, 0)


def _moments(a: IcebergType, b: IcebergType) -> IcebergType:
    zoned = isinstance(a, _ZONED) or isinstance(b, _ZONED)
    nanos = isinstance(a, NANOS) or isinstance(b, NANOS)
    if zoned:
        return TimestamptzNanoType() if nanos else TimestamptzType()
    return TimestampNanoType() if nanos else TimestampType()


def bounded(precision: int, scale: int) -> DecimalType:
    """Return Spark's result type of decimal arithmetic: beyond 38 digits the scale is reduced, down
    to 6.
    """
    if precision <= MAX_PRECISION:
        return DecimalType(precision, scale)
    whole = precision - scale
    return DecimalType(MAX_PRECISION, max(MAX_PRECISION - whole, min(scale, _MINIMUM_SCALE)))
