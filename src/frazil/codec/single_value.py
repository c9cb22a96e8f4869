"""Convert single values to bytes, to JSON and to readable text (spec, "Appendix D: Single-value
serialization"; Java's toHumanString).
"""

from __future__ import annotations

import base64
import datetime as dt
import decimal
import math
import re
import struct
import uuid
from typing import Any
from urllib.parse import quote_plus

from frazil.errors import CorruptData, InvalidInput
from frazil.spec.partitioning import PartitionSpec
from frazil.spec.schema import Schema
from frazil.spec.transform_values import scaled
from frazil.spec.transforms import HourTransform, MonthTransform, Transform, YearTransform
from frazil.spec.types import (
    MAX_DEPTH,
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    GeographyType,
    GeometryType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    StringType,
    StructType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UnknownType,
    UUIDType,
    VariantType,
)

_EXACT = decimal.Context(prec=100, Emax=1_000_000, Emin=-1_000_000)
_INT, _LONG, _FLOAT, _DOUBLE = (
    struct.Struct("<i"),
    struct.Struct("<q"),
    struct.Struct("<f"),
    struct.Struct("<d"),
)
_LONGS = (
    LongType,
    TimeType,
    TimestampType,
    TimestamptzType,
    TimestampNanoType,
    TimestamptzNanoType,
)
_PACKERS: dict[type, struct.Struct] = {
    IntegerType: _INT,
    DateType: _INT,
    FloatType: _FLOAT,
    DoubleType: _DOUBLE,
    **dict.fromkeys(_LONGS, _LONG),
}
# the spec has no JSON form for these numbers; Java writes these
_NOT_FINITE = (
    "NaN",
    "Infinity",
    "-Infinity",
)
_RAW = (BinaryType, FixedType, UUIDType, GeometryType, GeographyType, VariantType)
_TIMESTAMPS: dict[type, tuple[int, bool]] = {  # digits of a second, zone
    TimestampType: (6, False), TimestamptzType: (6, True), TimestampNanoType: (9, False), TimestamptzNanoType: (9, True),
}  # fmt: skip


def unscaled(value: decimal.Decimal, scale: int) -> int:
    """Convert a decimal to the integer as which it is stored at a scale. Raises InvalidInput when
    digits would be lost.
    """
    number = value.scaleb(scale, _EXACT)
    whole = int(number)
    if whole != number:
        raise InvalidInput(f"{value} has more than {scale} digits after the point.")
    return whole


def to_bytes(type_: IcebergType, value: Any) -> bytes:
    """Encode an internal value as the bytes of a bound. Raises InvalidInput for types without
    bounds and values outside the type.
    """
    try:
        packer = _PACKERS.get(type(type_))
        if packer is not None:
            return packer.pack(value)
        match type_:
            case StringType():
                return str(value).encode()
            case BooleanType():
                return b"\x01" if value else b"\x00"
            case DecimalType(scale=scale):
                number = unscaled(value, scale)
                return number.to_bytes(
                    ((number if number >= 0 else ~number).bit_length()) // 8 + 1, "big", signed=True
                )
    except (struct.error, OverflowError, UnicodeEncodeError, AttributeError) as e:
        raise InvalidInput(f"{value!r} is not a value of type {type_}.") from e
    if isinstance(type_, _RAW):
        return bytes(value)
    raise InvalidInput(f"A value of type {type_} cannot be a bound.")


def from_bytes(type_: IcebergType, data: bytes) -> Any:
    """Decode the bytes of a bound to an internal value, also bytes written before the column was
    widened. Raises CorruptData.

    The bounds of variant and geo types stay bytes.
    """
    packer = _PACKERS.get(type(type_))
    if packer is not None:
        if len(data) == packer.size:
            return packer.unpack(data)[0]
        if len(data) == 4:
            return _before_promotion(type_, data)
    else:
        match type_:
            case StringType():
                try:
                    return data.decode()
                except UnicodeDecodeError as e:
                    raise CorruptData(f"A bound of type string is not UTF-8: {data[:40]!r}.") from e
            case BooleanType() if len(data) == 1:
                return data != b"\x00"
            case DecimalType(scale=scale) if 0 < len(data) <= 17:
                return scaled(int.from_bytes(data, "big", signed=True), scale)
            case FixedType(length=n) if len(data) != n:
                pass
            case UUIDType() if len(data) != 16:
                pass
            case _ if isinstance(type_, _RAW):
                return bytes(data)
    raise CorruptData(f"{len(data)} bytes are not a value of type {type_}.")


def _before_promotion(type_: IcebergType, data: bytes) -> Any:
    """Decode int as long, float as double, date as timestamp (spec, "Schema Evolution")."""
    match type_:
        case LongType():
            return _INT.unpack(data)[0]
        case DoubleType():
            return _FLOAT.unpack(data)[0]
        case TimestampType() | TimestampNanoType():
            return _INT.unpack(data)[0] * DAY[_TIMESTAMPS[type(type_)][0]]
    raise CorruptData(f"4 bytes are not a value of type {type_}.")


def to_json(type_: IcebergType, value: Any) -> Any:
    """Convert an internal value to the JSON form of the spec (defaults, REST expressions). None
    stays None.
    """
    if value is None:
        return None
    match type_:
        case DecimalType(scale=scale):
            number = scaled(unscaled(value, scale), scale)
            return format(number, "f") if scale >= 0 else str(number)
        case DateType():
            return date_text(value)
        case TimeType():
            return time_text(value)
        case UUIDType():
            return str(uuid.UUID(bytes=value))
        case FixedType() | BinaryType():
            return bytes(value).hex().upper()
        case StructType():
            return {
                str(f.field_id): to_json(f.field_type, value[f.field_id])
                for f in type_.fields
                if value.get(f.field_id) is not None
            }
        case ListType():
            return [to_json(type_.element_type, v) for v in value]
        case MapType():
            return {
                "keys": [to_json(type_.key_type, k) for k, _ in value],
                "values": [to_json(type_.value_type, v) for _, v in value],
            }
        case FloatType() | DoubleType() if not math.isfinite(value):
            raise InvalidInput(f"{value} has no JSON form: it cannot be the default of a column.")
    if timestamp := _TIMESTAMPS.get(type(type_)):
        return timestamp_text(value, *timestamp)
    return value


def from_json(type_: IcebergType, obj: object, depth: int = 0) -> Any:
    """Convert the JSON form of a value to an internal value. Raises InvalidInput when it is not a
    value of the type.
    """
    if obj is None:
        return None
    if depth > MAX_DEPTH:
        raise InvalidInput("A value is nested too deeply.")
    try:
        internal = (
            _nested_from_json(type_, obj, depth + 1)
            if isinstance(type_, StructType | ListType | MapType)
            else _leaf_from_json(type_, obj)
        )
    except InvalidInput:
        raise
    except (ValueError, TypeError, AttributeError, ArithmeticError, LookupError) as e:
        raise InvalidInput(f"Cannot parse {str(obj)[:100]!r} as a {type_} value.") from e
    if internal is None:
        raise InvalidInput(f"Cannot parse {str(obj)[:100]!r} as a {type_} value.")
    return internal


def _nested_from_json(type_: StructType | ListType | MapType, obj: Any, depth: int) -> Any:
    match type_:
        case StructType():
            return {
                f.field_id: from_json(f.field_type, obj[str(f.field_id)], depth)
                for f in type_.fields
                if str(f.field_id) in obj
            }
        case ListType() if isinstance(obj, list):
            return [from_json(type_.element_type, v, depth) for v in obj]
        case MapType():
            keys = [from_json(type_.key_type, k, depth) for k in obj["keys"]]
            return list(
                zip(
                    keys,
                    [from_json(type_.value_type, v, depth) for v in obj["values"]],
                    strict=True,
                )
            )
    return None


def _leaf_from_json(type_: IcebergType, obj: Any) -> Any:  # one arm per type
    match type_:
        case BooleanType():
            return obj if isinstance(obj, bool) else None
        case IntegerType() | LongType():
            bits = 31 if isinstance(type_, IntegerType) else 63
            return (
                obj
                if isinstance(obj, int)
                and not isinstance(obj, bool)
                and -(2**bits) <= obj < 2**bits
                else None
            )
        case FloatType() | DoubleType():
            return (
                float(obj)
                if (isinstance(obj, float | int) and not isinstance(obj, bool))
                or obj in _NOT_FINITE
                else None
            )
        case DecimalType(precision=precision, scale=scale):
            number = decimal.Decimal(str(obj))
            if not number.is_finite() or abs(number.adjusted()) > 100 or len(str(obj)) > 100:
                return None
            whole = unscaled(number, scale)
            return scaled(whole, scale) if len(str(abs(whole))) <= precision else None
        case StringType():
            return obj if isinstance(obj, str) else None
        case UUIDType():
            return uuid.UUID(obj).bytes if len(obj) == 36 else None
        case DateType():
            return parse_date(obj)
        case TimeType():
            return parse_time(obj)
        case FixedType(length=n):
            return bytes.fromhex(obj) if len(obj) == 2 * n else None
        case BinaryType():
            return bytes.fromhex(obj)
        case VariantType() | GeometryType() | GeographyType() | UnknownType():
            return None
    digits, zone = _TIMESTAMPS[type(type_)]
    return parse_timestamp(obj, digits, zone)


def human_string(transform: Transform, source_type: IcebergType, value: Any) -> str:
    """Format a partition value, or with IdentityTransform any value, as Java does in partition
    paths. None becomes `null`.
    """
    if value is None:
        return "null"
    match transform:
        case YearTransform():
            return _padded(1970 + value)
        case MonthTransform():
            return f"{_padded(1970 + value // 12)}-{value % 12 + 1:02d}"
        case HourTransform():
            return f"{_java_day(value // 24)}-{value % 24:02d}"
    result = transform.result_type(source_type)
    match result:
        case BooleanType():
            return "true" if value else "false"
        case DateType():
            return _java_day(value)
        case TimeType():
            return _local_time(value)
        case FloatType() | DoubleType():
            return java_float(value, single=isinstance(result, FloatType))
        case DecimalType(scale=scale):
            # Decimal prints exponents as BigDecimal does
            return str(scaled(unscaled(value, scale), scale))
        case UUIDType():
            return str(uuid.UUID(bytes=value))
        case FixedType() | BinaryType() | GeometryType() | GeographyType():
            return base64.b64encode(value).decode()
    if timestamp := _TIMESTAMPS.get(type(result)):
        return timestamp_text(value, *timestamp)
    return str(value)


def _padded(year: int) -> str:
    return f"{year:04d}"


def _java_day(days: int) -> str:
    year, month, day = civil(days)
    return f"{_padded(year)}-{month:02d}-{day:02d}"


def _local_time(micros: int) -> str:
    """Format a time as Java's LocalTime.toString: no seconds when they are zero, the fraction in
    groups of three digits.
    """
    text = time_text(micros)
    head, point, fraction = text.partition(".")
    if point:
        return f"{head}.{fraction.ljust(3 if len(fraction) <= 3 else 6, '0')}"
    return head.removesuffix(":00") if head.endswith(":00") else head


def java_float(value: float, single: bool) -> str:
    """Format a number as Java's Float.toString and Double.toString: plain from 1e-3 to 1e7,
    otherwise like `1.0E10`.
    """
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    digits, exponent = _shortest(value, single)
    sign = "-" if math.copysign(1, value) < 0 else ""
    if value == 0:
        return f"{sign}0.0"
    if -3 <= exponent < 7:
        whole = digits[: exponent + 1].ljust(exponent + 1, "0") if exponent >= 0 else "0"
        rest = digits[exponent + 1 :] if exponent >= 0 else "0" * (-exponent - 1) + digits
        return f"{sign}{whole}.{rest or '0'}"
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{exponent}"


def _shortest(value: float, single: bool) -> tuple[str, int]:
    """Find the fewest digits that identify the value, and the exponent of the first digit."""
    text = f"{decimal.Decimal(repr(abs(value))).normalize():e}"
    if single:
        candidates = (f"{abs(value):.{precision}e}" for precision in range(9))
        exact = _FLOAT.pack(abs(value))
        text = next(
            (
                c
                for c in candidates
                if float(c) < 3.4028235677e38 and _FLOAT.pack(float(c)) == exact
            ),
            text,
        )
    mantissa, _, exponent = text.partition("e")
    return mantissa.replace(".", "").rstrip("0") or "0", int(exponent or 0)


def escape(text: str) -> str:
    """Encode text as java.net.URLEncoder does: `A-Za-z0-9.-*_` stay, a blank becomes `+`, other
    characters `%XX` of their UTF-8.
    """
    return quote_plus(text, safe="*", errors="replace").replace("~", "%7E")


def partition_path(spec: PartitionSpec, schema: Schema, values: tuple[Any, ...]) -> str:
    """Make the path of a partition, like `a=1/b=null`, of values in the order of the spec's fields;
    empty for a spec without fields.
    """
    parts = []
    for f, value in zip(spec.fields, values, strict=True):
        source = schema.by_id.get(f.source_id)
        text = human_string(f.transform, source.field_type if source else StringType(), value)
        parts.append(f"{escape(f.name)}={escape(text)}")
    return "/".join(parts)


# units per day, by the digits of a second's fraction
DAY = {
    6: 86_400_000_000,
    9: 86_400_000_000_000,
}
_EPOCH_ORDINAL = dt.date(1970, 1, 1).toordinal()
_DATE = re.compile(r"([+-]?\d{4,10})-(\d{2})-(\d{2})")
_TIME = re.compile(r"(\d{2}):(\d{2})(?::(\d{2})(?:\.(\d{1,9}))?)?")
_ZONES = ("+00:00", "Z", "-00:00", "+00", "z")


def civil(days: int) -> tuple[int, int, int]:
    """Convert days since 1970-01-01 to (year, month, day) in the proleptic Gregorian calendar."""
    eras, day = divmod(days + 719_468, 146_097)  # eras of 400 years from 0000-03-01
    year = (day - day // 1_460 + day // 36_524 - day // 146_096) // 365
    day -= 365 * year + year // 4 - year // 100
    month = (5 * day + 2) // 153
    day -= (153 * month + 2) // 5
    month = month + 3 if month < 10 else month - 9
    return eras * 400 + year + (month <= 2), month, day + 1


def days_of(year: int, month: int, day: int) -> int:
    """Convert a date to days since 1970-01-01. Raises ValueError when there is no such day."""
    moved = (year - 2000) % 400 + 2000  # the calendar repeats every 400 years
    return dt.date(moved, month, day).toordinal() - _EPOCH_ORDINAL + (year - moved) // 400 * 146_097


def date_text(days: int) -> str:
    """Format days since 1970-01-01 as `2017-11-16`; years above 9999 have a plus sign, as in Java's
    ISO_LOCAL_DATE.
    """
    year, month, day = civil(days)
    head = f"+{year}" if year > 9999 else f"{year:04d}" if year >= 0 else f"-{-year:04d}"
    return f"{head}-{month:02d}-{day:02d}"


def time_text(units: int, digits: int = 6) -> str:
    """Format units of 10^-digits seconds since midnight as `22:31:08`, with as many digits of
    fraction as needed.
    """
    seconds, fraction = divmod(units, 10**digits)
    text = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    return f"{text}.{fraction:0{digits}d}".rstrip("0") if fraction else text


def timestamp_text(units: int, digits: int = 6, zone: bool = False) -> str:
    """Format units of 10^-digits seconds since the epoch as `2017-11-16T22:31:08.123456`, with
    `+00:00` for a type with a zone.
    """
    days, rest = divmod(units, DAY[digits])
    return f"{date_text(days)}T{time_text(rest, digits)}{'+00:00' if zone else ''}"


def parse_date(text: str) -> int:
    """Parse a date to days since 1970-01-01. Raises ValueError."""
    match = _DATE.fullmatch(text)
    if not match:
        raise ValueError(f"{text!r} is not a date")
    return days_of(int(match[1]), int(match[2]), int(match[3]))


def parse_time(text: str, digits: int = 6) -> int:
    """Parse a time to units of 10^-digits seconds since midnight. Raises ValueError, also for
    digits that would be lost.
    """
    match = _TIME.fullmatch(text)
    if not match or int(match[1]) > 23 or int(match[2]) > 59 or int(match[3] or 0) > 59:
        raise ValueError(f"{text!r} is not a time of day")
    fraction = (match[4] or "").ljust(digits, "0")
    if fraction[digits:].strip("0"):
        raise ValueError(f"{text!r} has more than {digits} digits of a second")
    seconds = (int(match[1]) * 60 + int(match[2])) * 60 + int(match[3] or 0)
    return seconds * int(10**digits) + int(fraction[:digits])


def parse_timestamp(text: str, digits: int = 6, zone: bool = False) -> int:
    """Parse a timestamp to units of 10^-digits seconds since the epoch; with `zone` it must end in
    a UTC offset of 0. Raises ValueError.
    """
    body = text
    if zone:
        mark = next((z for z in _ZONES if text.endswith(z)), None)
        if mark is None:
            raise ValueError(f"{text!r} has no UTC offset +00:00")
        body = text[: -len(mark)]
    day, separator, time = body.partition("T")
    if not separator:
        raise ValueError(f"{text!r} is not a timestamp")
    return parse_date(day) * DAY[digits] + parse_time(time, digits)
