"""Convert constants to bound literals: those of the parser have a type, Python values get the type
that Spark gives them.
"""

from __future__ import annotations

import datetime as dt
import uuid
from decimal import Decimal
from typing import Any

from frazil.errors import InvalidInput
from frazil.expr.bound import BoundLiteral
from frazil.spec.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
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
)
from frazil.spec.values import internal_value

_SAME: dict[type, IcebergType] = {str: StringType(), bytes: BinaryType(), bool: BooleanType()}


def typed_literal(value: Any, type_: IcebergType | None = None) -> BoundLiteral:
    """Make a literal with its internal value. Raises InvalidInput for a value of an unknown type."""
    if type_ is not None:
        return BoundLiteral(value, type_)
    if type(value) in (str, bytes, bool):
        return BoundLiteral(value, _SAME[type(value)])
    if (finer := _in_nanoseconds(value)) is not None:
        return finer
    if hasattr(value, "item") and not isinstance(value, str | bytes | dt.date):  # numpy's scalars
        value = value.item()
    if hasattr(value, "as_py"):
        value = value.as_py()
    if hasattr(value, "to_pydatetime"):
        value = value.to_pydatetime()
    inferred = type_of(value)
    return BoundLiteral(None if value is None else internal_value(inferred, value), inferred)


def _in_nanoseconds(value: Any) -> BoundLiteral | None:
    """Return the literal of a moment of pandas, numpy or Arrow that Python's datetime cannot hold,
    since it is finer than a microsecond.
    """
    count: int | None = None
    zone: Any = getattr(value, "tzinfo", None)
    if hasattr(value, "as_py") and hasattr(value.type, "tz"):
        # Arrow's TimestampScalar: pyarrow is not imported to parse a filter
        count, zone = value.value if value.type.unit == "ns" else None, value.type.tz
    elif str(getattr(value, "dtype", "")) == "datetime64[ns]" and value == value:
        # NaT does not equal itself
        count = int(value.astype("int64"))
        if count % 1000 == 0:
            # whose item() is a datetime, and not a whole number
            return typed_literal(value.astype("datetime64[us]"))
    elif hasattr(value, "to_pydatetime") and value == value and value.nanosecond:
        count = value.value
    if count is None or count % 1000 == 0:
        return None
    return BoundLiteral(count, TimestampNanoType() if zone is None else TimestamptzNanoType())


def type_of(value: object) -> IcebergType:
    """Return the type of a Python value."""
    match value:
        case None:
            return UnknownType()
        case bool():
            return BooleanType()
        case int():
            return whole_type(value)
        case float():
            return DoubleType()
        case Decimal():
            return decimal_type(value)
        case str():
            return StringType()
        case bytes() | bytearray() | memoryview():
            return BinaryType()
        case dt.datetime():
            return TimestampType() if value.tzinfo is None else TimestamptzType()
        case dt.date():
            return DateType()
        case dt.time():
            return TimeType()
        case uuid.UUID():
            return UUIDType()
    raise InvalidInput(f"{value!r} ({type(value).__name__}) cannot be a literal of a filter.")


def whole_type(value: int) -> IcebergType:
    """Return int, bigint or decimal, the first that holds the number, as Spark types integer
    literals.
    """
    if -(2**31) <= value < 2**31:
        return IntegerType()
    return LongType() if -(2**63) <= value < 2**63 else decimal_type(Decimal(value))


def decimal_type(value: Decimal) -> DecimalType:
    """Return the smallest decimal type that holds the digits as written: 2.50 is decimal(3, 2)."""
    _, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):
        raise InvalidInput(f"{value} is not a finite decimal.")
    scale = max(-exponent, 0)
    precision = max(len(digits) + max(exponent, 0), scale, 1)
    if precision > 38:
        raise InvalidInput(f"{value} has more than 38 digits.")
    return DecimalType(precision, scale)
