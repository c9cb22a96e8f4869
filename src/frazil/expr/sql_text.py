"""Format names, types and constants as Spark SQL text, which `parse` reads back."""

from __future__ import annotations

import datetime as dt
import math
import re
import struct
import uuid
from collections.abc import Iterable
from decimal import Decimal
from typing import Any

from frazil.expr.calendar import civil
from frazil.spec.types import (
    BinaryType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    IntegerType,
    LongType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_RESERVED = frozenset(
    "and or not in is null nan like ilike rlike between true false case when then else end cast try_cast as div escape date timestamp "
    "timestamp_ntz timestamp_ltz time interval x r exists distinct from".split()
)

_NUMBERS_INSIDE = (
    DateType,
    TimeType,
    TimestampType,
    TimestamptzType,
    TimestampNanoType,
    TimestamptzNanoType,
)


def back_quoted(parts: Iterable[str]) -> str:
    """Quote a name of several parts for Spark SQL, whatever characters the parts contain."""
    return ".".join("`" + part.replace("`", "``") + "`" for part in parts)


def double_quoted(name: str) -> str:
    """Quote a name as standard SQL does: DuckDB and DataFusion."""
    return '"' + name.replace('"', '""') + '"'


def quoted_name(part: str) -> str:
    if _PLAIN_NAME.fullmatch(part) and part.lower() not in _RESERVED:
        return part
    return back_quoted((part,))


def quoted_text(text: str) -> str:
    # `\%` and `\_` stay as they are inside a Spark literal, so a backslash is always doubled
    return (
        "'"
        + text.replace("\\", "\\\\")
        .replace("'", "\\'")
        .replace("\n", "\\n")
        .replace("\r", "\\r")
        .replace("\0", "\\0")
        + "'"
    )


def case_text(args: list[str]) -> str:
    pairs, default = (args[:-1], args[-1]) if len(args) % 2 else (args, None)
    body = " ".join(f"WHEN {c} THEN {v}" for c, v in zip(pairs[::2], pairs[1::2], strict=True))
    return f"CASE {body}{f' ELSE {default}' if default is not None else ''} END"


def sql_type(type_: IcebergType) -> str:
    spark: dict[type, str] = {
        TimestamptzType: "timestamp",
        TimestampType: "timestamp_ntz",
        LongType: "bigint",
    }
    return spark.get(type(type_), str(type_))


def literal_text(value: Any, type_: IcebergType | None) -> str:
    """Format a constant as SQL. Python values without a type get the type of the value."""
    if value is None:
        return "NULL" if type_ is None else f"CAST(NULL AS {sql_type(type_)})"
    match type_:
        case None:
            return _untyped_text(value)
        case DateType():
            return f"DATE'{date_text(value)}'"
        case TimeType():
            return f"TIME'{clock_text(value * 1000, 6)}'"
        case TimestampType():
            return f"TIMESTAMP_NTZ'{moment_text(value * 1000, 6)}'"
        case TimestamptzType():
            return f"TIMESTAMP'{moment_text(value * 1000, 6)}Z'"
        case TimestampNanoType() | TimestamptzNanoType():
            return f"CAST('{moment_text(value, 9)}{'Z' if isinstance(type_, TimestamptzNanoType) else ''}' AS {type_})"
        case UUIDType():
            return f"CAST('{uuid.UUID(bytes=value)}' AS uuid)"
        case BinaryType() | FixedType():
            return f"X'{value.hex()}'"
        case FloatType():
            return f"CAST({_number_text(value)} AS float)"
        case LongType() if -(2**31) <= value < 2**31:
            return f"{value}L"
        case DecimalType():
            return _decimal_text(value, type_)
        case IntegerType() | LongType() | DoubleType():
            return _untyped_text(value)
    return _untyped_text(value)


def shown_value(value: object, type_: IcebergType) -> Any:
    """Return a value as people read it: as SQL writes it where it is a number or bytes inside
    (dates, times, uuids), else as it is.
    """
    is_inside = (
        isinstance(value, int)
        if isinstance(type_, _NUMBERS_INSIDE)
        else isinstance(value, bytes) and isinstance(type_, UUIDType)
    )
    return literal_text(value, type_) if is_inside else value


def _untyped_text(value: object) -> str:
    match value:
        case bool():
            return "TRUE" if value else "FALSE"
        case float():
            return _number_text(value)
        case str():
            return quoted_text(value)
        case bytes():
            return f"X'{value.hex()}'"
        case Decimal():
            return f"{value:f}BD"
        case dt.datetime():
            return f"TIMESTAMP{'_NTZ' if value.tzinfo is None else ''}'{value.isoformat(sep=' ')}'"
        case dt.date():
            return f"DATE'{value.isoformat()}'"
        case dt.time():
            return f"TIME'{value.isoformat()}'"
        case uuid.UUID():
            return f"CAST('{value}' AS uuid)"
    return str(value)


def _number_text(value: float) -> str:
    if math.isnan(value):
        return "double('NaN')"
    if math.isinf(value):
        return f"double('{'-' if value < 0 else ''}Infinity')"
    text = repr(value)
    return text if "e" in text else f"{text}D"


def _decimal_text(value: Decimal, type_: DecimalType) -> str:
    text = f"{value:f}"
    digits = text.lstrip("-").replace(".", "").lstrip("0")
    scale = len(text.partition(".")[2])
    exact = (max(len(digits), scale, 1), scale) == (type_.precision, type_.scale)
    return f"{text}BD" if exact else f"CAST({text}BD AS decimal({type_.precision}, {type_.scale}))"


def date_text(days: int) -> str:
    year, month, day = civil(days)
    return (
        f"{year:04d}-{month:02d}-{day:02d}"
        if 0 <= year <= 9999
        else f"{year:+05d}-{month:02d}-{day:02d}"
    )


def clock_text(nanos: int, digits: int) -> str:
    seconds, fraction = divmod(nanos, 1_000_000_000)
    tail = f"{fraction:09d}"[:digits].rstrip("0")
    return f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}" + (
        f".{tail}" if tail else ""
    )


def moment_text(nanos: int, digits: int) -> str:
    days, rest = divmod(nanos, 86_400_000_000_000)
    return f"{date_text(days)} {clock_text(rest, digits)}"


def java_double(value: float) -> str:
    """Format a double as Java (and so Spark) does: 1.0, 1.0E10, 1.0E-4, NaN, -Infinity."""
    return _java(repr(value), value)


def java_float(value: float) -> str:
    """Format a float as Java does, with the shortest digits that identify the float."""
    if math.isnan(value) or math.isinf(value):
        return _java("", value)
    digits = next(
        t
        for t in (f"{value:.{n}e}" for n in range(9))
        if struct.pack("<f", float(t)) == struct.pack("<f", value)
    )
    return _java(digits, value)


def _java(text: str, value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    sign, digits, exponent = Decimal(text).normalize().as_tuple()
    number, minus = "".join(map(str, digits)), "-" if sign else ""
    point = len(number) + int(exponent)  # digits before the point
    if value == 0:
        return f"{minus}0.0"
    if -3 < point <= 7:
        padded = number.ljust(point, "0") if point > 0 else "0" * (1 - point) + number
        whole_digits = max(point, 1)
        return f"{minus}{padded[:whole_digits]}.{padded[whole_digits:] or '0'}"
    return f"{minus}{number[0]}.{number[1:] or '0'}E{point - 1}"
