"""Apply partition transforms to internal values, one at a time (spec, "Partition Transforms" and
"32-bit Hash Requirements").

Vectorised over Arrow: `expr.transforms`. Null gives null; time ordinals floor, so those
before 1970 are negative.
"""

from __future__ import annotations

import datetime as dt
from decimal import Context, Decimal
from typing import Any

from frazil.errors import InvalidInput, Unsupported, ValidationError
from frazil.spec.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    Transform,
    TruncateTransform,
    VoidTransform,
    YearTransform,
)
from frazil.spec.types import (
    BinaryType,
    DateType,
    DecimalType,
    FixedType,
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

_WORD = 0xFFFFFFFF
_EXACT = Context(prec=100, Emax=1_000_000, Emin=-1_000_000)
_NANOS = (TimestampNanoType, TimestamptzNanoType)
_EPOCH_ORDINAL = dt.date(1970, 1, 1).toordinal()


def apply(transform: Transform, source_type: IcebergType, value: Any) -> Any:
    """Compute the partition value of one value. Raises Unsupported for an unknown transform,
    ValidationError for a type it cannot take, InvalidInput for a time whose hour is not a 32-bit
    number."""
    if not transform.is_known:
        raise Unsupported(
            f"Transform {transform} is not known, so nothing can be written with it.",
            transform=str(transform),
        )
    if value is None or isinstance(transform, VoidTransform):
        return None
    if not transform.can_transform(source_type):
        raise ValidationError(f"Invalid source type {source_type} for transform: {transform}")
    match transform:
        case IdentityTransform():
            return value
        case BucketTransform(num_buckets=n):
            return bucket(source_type, value, n)
        case TruncateTransform(width=width):
            return truncate(source_type, value, width)
        case YearTransform() | MonthTransform() | DayTransform() | HourTransform():
            return _time_part(transform, source_type, value)
    raise Unsupported(
        f"Transform {transform} is not known to this version.", transform=str(transform)
    )


def bucket(source_type: IcebergType, value: object, num_buckets: int) -> int:
    """Compute the bucket of a value that is not null."""
    return (bucket_hash(source_type, value) & 0x7FFFFFFF) % num_buckets


def bucket_hash(source_type: IcebergType, value: object) -> int:
    """Hash the bytes of a value with Murmur3 (x86, 32 bits, seed 0), as a signed int. int, long and
    date hash alike (8 bytes).
    """
    return murmur3(_hash_bytes(source_type, value))


def _hash_bytes(type_: IcebergType, value: Any) -> bytes:
    match type_:
        case (
            IntegerType()
            | LongType()
            | DateType()
            | TimeType()
            | TimestampType()
            | TimestamptzType()
        ):
            return int(value).to_bytes(8, "little", signed=True)
        case TimestampNanoType() | TimestamptzNanoType():
            return int(value // 1000).to_bytes(8, "little", signed=True)
        case DecimalType(scale=scale):
            return minimal_bytes(unscaled(value, scale))
        case StringType():
            return str(value).encode()
        case UUIDType() | FixedType() | BinaryType():
            return bytes(value)
    raise ValidationError(f"Values of type {type_} have no bucket.")


def unscaled(value: Decimal, scale: int) -> int:
    """Return the unscaled integer of a decimal at this scale: 14.20 at 2 is 1420."""
    sign, digits, exponent = value.as_tuple()
    number = int("".join(map(str, digits))) if digits else 0
    shift = int(exponent) + scale
    number = number * int(10**shift) if shift >= 0 else number // int(10**-shift)
    return -number if sign else number


def minimal_bytes(number: int) -> bytes:
    """Encode an integer as two's complement, big-endian, with as few bytes as possible."""
    size = (number if number >= 0 else ~number).bit_length() // 8 + 1
    return number.to_bytes(size, "big", signed=True)


def truncate(source_type: IcebergType, value: Any, width: int) -> Any:
    """Truncate numbers down to a multiple of the width (decimals in units of their scale), text and
    bytes to the first `width`.

    Below the type's least value the result wraps around, as in Java.
    """
    match source_type:
        case IntegerType() | LongType():
            bits = 32 if isinstance(source_type, IntegerType) else 64
            return (value - value % width + 2 ** (bits - 1)) % 2**bits - 2 ** (bits - 1)
        case DecimalType(scale=scale):
            number = unscaled(value, scale)
            return scaled(number - number % width, scale)
    return value[:width]


def scaled(number: int, scale: int) -> Decimal:
    """Make the decimal of an unscaled integer, exact at any precision (the usual context rounds to
    28 digits).
    """
    return Decimal(number).scaleb(-scale, _EXACT)


def _time_part(transform: Transform, source_type: IcebergType, value: int) -> int:
    if isinstance(source_type, DateType):
        days, hours = value, 0
    else:
        hours = value // (3_600_000_000_000 if isinstance(source_type, _NANOS) else 3_600_000_000)
        days = hours // 24
    match transform:
        case HourTransform():
            if not -(2**31) <= hours < 2**31:
                raise InvalidInput(hours_beyond_an_int(hours), hint=HOURS_HINT)
            return hours
        case DayTransform():
            return days
    year, month = year_and_month(days)
    return year - 1970 if isinstance(transform, YearTransform) else (year - 1970) * 12 + month - 1


HOURS_HINT = "Partition by day instead, whose numbers hold every timestamp."


def hours_beyond_an_int(hours: int | str) -> str:
    """Explain why the hour transform refuses a time whose hours from 1970 exceed a 32-bit int; Java
    lets that number wrap around, and then does not find the row."""
    return f"The transform hour takes times of the years -243,014 to 246,953 only: {hours} hours from 1970 are no 32-bit number."


def year_and_month(days: int) -> tuple[int, int]:
    """Compute year and month (1 to 12) of days since the epoch, proleptic Gregorian, for any year."""
    cycles, rest = divmod(days + _EPOCH_ORDINAL - 1, 146_097)  # 400 years
    date = dt.date.fromordinal(rest + 1)
    return date.year + 400 * cycles, date.month


def murmur3(data: bytes) -> int:
    """Compute MurmurHash3 x86 32 with seed 0 as a signed 32-bit int."""
    h, tail_at = 0, len(data) & ~3
    for i in range(0, tail_at, 4):
        h ^= _mixed(int.from_bytes(data[i : i + 4], "little"))
        h = (h << 13 | h >> 19) & _WORD
        h = (h * 5 + 0xE6546B64) & _WORD
    if tail_at < len(data):
        h ^= _mixed(int.from_bytes(data[tail_at:], "little"))
    h ^= len(data)
    h = (h ^ h >> 16) * 0x85EBCA6B & _WORD
    h = (h ^ h >> 13) * 0xC2B2AE35 & _WORD
    h ^= h >> 16
    return h - 2**32 if h >= 2**31 else h


def _mixed(word: int) -> int:
    word = word * 0xCC9E2D51 & _WORD
    word = (word << 15 | word >> 17) & _WORD
    return word * 0x1B873593 & _WORD
