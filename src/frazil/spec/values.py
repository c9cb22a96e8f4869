"""Convert values that users pass in (Python's own types, text) to internal values of a type."""

from __future__ import annotations

import datetime as dt
import decimal
import re
import struct
import uuid
from typing import Any

from frazil.errors import InvalidInput
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

EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
EPOCH_DATE = EPOCH.date()
_DAY = 86_400_000_000  # microseconds


def micros(value: dt.datetime) -> int:
    """Convert to microseconds since the epoch; a value without zone is taken as UTC."""
    aware = value.replace(tzinfo=dt.UTC) if value.tzinfo is None else value
    return (aware - EPOCH) // dt.timedelta(microseconds=1)


Time = int | str | dt.datetime
"""A point in time as callers give it: milliseconds since the epoch, text in ISO format, or a
datetime.
"""


def milliseconds(value: Time) -> int:
    """Convert a point in time to milliseconds, from milliseconds, a datetime or ISO text (UTC when
    it has no zone).
    """
    match value:
        case bool():
            raise InvalidInput(
                f"A point in time is milliseconds, a datetime or ISO text, not {value!r}."
            )
        case int():
            return value
        case str() if value.strip().lstrip("-").isdigit():
            return int(value)
        case str():
            return _micros_of_text(value) // 1000
        case dt.datetime():
            return micros(value) // 1000
        case dt.date():
            return (value - EPOCH_DATE).days * 86_400_000
    raise InvalidInput(f"A point in time is milliseconds, a datetime or ISO text, not {value!r}.")


def _micros_of_text(text: str) -> int:
    try:
        return micros(dt.datetime.fromisoformat(text.strip()))
    except ValueError as e:
        raise InvalidInput(
            f"{text!r} is not a point in time; write it as 2026-01-31 12:00:00, with a zone if it is not UTC."
        ) from e


def _nanos_of_text(text: str) -> int:
    """Parse a timestamp with up to nine digits of a second's fraction, three more than Python's own
    times keep.
    """
    last = re.search(r"\.\d{6}(\d{1,3})(?!\d)", text)
    return 1000 * _micros_of_text(text) + (int(last[1].ljust(3, "0")) if last else 0)


def internal_value(type_: IcebergType, value: object) -> Any:
    """Convert `value` to the internal value of a primitive type; None stays None. Raises
    InvalidInput when it does not fit.
    """
    if value is None:
        return None
    try:
        internal = _internal(type_, value)
    except (ValueError, ArithmeticError, TypeError) as e:
        raise InvalidInput(f"{value!r} is no value of type {type_}.") from e
    if internal is None:
        raise InvalidInput(f"{value!r} is no value of type {type_}.")
    return internal


def promoted(old: IcebergType, new: IcebergType, value: Any) -> Any:
    """Convert an internal value of a type to the type it was promoted to: days become timestamps, a
    float its own double.

    Raises InvalidInput for a day that nanoseconds do not reach.
    """
    match old, new:
        case _, _ if value is None:
            return None
        case DateType(), TimestampType():
            return value * _DAY
        case DateType(), TimestampNanoType():
            if not -(2**63) <= (moment := value * _DAY * 1000) < 2**63:
                raise InvalidInput(
                    f"{EPOCH_DATE + dt.timedelta(days=value)} is no value of type {new}."
                )
            return moment
        case FloatType(), DoubleType():
            return struct.unpack("<f", struct.pack("<f", value))[0]
    return value


def _internal(type_: IcebergType, value: Any) -> Any:  # one arm per type
    match type_:
        case BooleanType():
            return value if isinstance(value, bool) else None
        case IntegerType() | LongType():
            bits = 31 if isinstance(type_, IntegerType) else 63
            exact = not isinstance(value, bool) and int(value) == value
            return int(value) if exact and -(2**bits) <= value < 2**bits else None
        case FloatType() | DoubleType():
            return None if isinstance(value, bool) else float(value)
        case DecimalType(precision=p, scale=s):
            number = (
                decimal.Decimal(str(value)) if not isinstance(value, decimal.Decimal) else value
            )
            with decimal.localcontext(prec=60):
                scaled = number.quantize(decimal.Decimal(1).scaleb(-s))
                return scaled if scaled == number and len(scaled.as_tuple().digits) <= p else None
        case StringType():
            return value if isinstance(value, str) else None
        case UUIDType():
            return (
                value
                if isinstance(value, bytes) and len(value) == 16
                else uuid.UUID(str(value)).bytes
            )
        case FixedType(length=n):
            return bytes(value) if len(value) == n else None
        case BinaryType():
            return bytes(value) if isinstance(value, bytes | bytearray | memoryview) else None
    return _internal_time(type_, value)


def _internal_time(type_: IcebergType, value: Any) -> Any:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    match type_:
        case DateType():
            day = dt.date.fromisoformat(value) if isinstance(value, str) else value
            return (day - EPOCH_DATE).days if not isinstance(day, dt.datetime) else None
        case TimeType():
            time = dt.time.fromisoformat(value) if isinstance(value, str) else value
            return (
                (time.hour * 60 + time.minute) * 60 + time.second
            ) * 1_000_000 + time.microsecond
        case TimestampType() | TimestamptzType():
            return _micros_of_text(value) if isinstance(value, str) else micros(value)
        case TimestampNanoType() | TimestamptzNanoType():
            return (
                _nanos_of_text(value)
                if isinstance(value, str)
                else 1000 * micros(value) + getattr(value, "nanosecond", 0)
            )
    return None
