"""Convert single values to bytes, to JSON and to readable text (spec, "Appendix D: Single-value
serialization"; Java's toHumanString).
"""

from __future__ import annotations

import base64
import decimal
import math
import struct
import uuid
from typing import Any
from urllib.parse import quote_plus

from frazil.codec import iso_time
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
_NOT_FINITE = (
    "NaN",
    "Infinity",
    "-Infinity",
)  # the spec has no JSON form for these numbers; Java writes these
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
            return _INT.unpack(data)[0] * iso_time.DAY[_TIMESTAMPS[type(type_)][0]]
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
            return iso_time.date_text(value)
        case TimeType():
            return iso_time.time_text(value)
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
        return iso_time.timestamp_text(value, *timestamp)
    return value


def from_json(type_: IcebergType, obj: Any, depth: int = 0) -> Any:
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
            return iso_time.parse_date(obj)
        case TimeType():
            return iso_time.parse_time(obj)
        case FixedType(length=n):
            return bytes.fromhex(obj) if len(obj) == 2 * n else None
        case BinaryType():
            return bytes.fromhex(obj)
        case VariantType() | GeometryType() | GeographyType() | UnknownType():
            return None
    digits, zone = _TIMESTAMPS[type(type_)]
    return iso_time.parse_timestamp(obj, digits, zone)


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
            return str(
                scaled(unscaled(value, scale), scale)
            )  # Decimal prints exponents as BigDecimal does
        case UUIDType():
            return str(uuid.UUID(bytes=value))
        case FixedType() | BinaryType() | GeometryType() | GeographyType():
            return base64.b64encode(value).decode()
    if timestamp := _TIMESTAMPS.get(type(result)):
        return iso_time.timestamp_text(value, *timestamp)
    return str(value)


def _padded(year: int) -> str:
    return f"{year:04d}"


def _java_day(days: int) -> str:
    year, month, day = iso_time.civil(days)
    return f"{_padded(year)}-{month:02d}-{day:02d}"


def _local_time(micros: int) -> str:
    """Format a time as Java's LocalTime.toString: no seconds when they are zero, the fraction in
    groups of three digits.
    """
    text = iso_time.time_text(micros)
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
