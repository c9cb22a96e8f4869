"""Convert variant columns to JSON text and back: Parquet's VariantEncoding (version 1), shredded or
not, is read; unshredded is written.

No library in the base converts variants, and JSON text passes through pandas, polars and Spark
alike (docs/adr/0018). Numbers keep their digits; dates, times, timestamps and uuids become text,
binary base64. NaN and infinities, which JSON lacks, become text.
"""

from __future__ import annotations

import base64
import datetime as dt
import decimal
import json
import math
import struct
import uuid
from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from frazil.errors import CorruptData

MAX_DEPTH = 200
_EPOCH = dt.datetime(1970, 1, 1)
Pair = tuple[bytes, bytes]


def variant_to_json(array: pa.Array) -> pa.Array:
    """Convert structs of metadata, value and, where shredded, typed_value to JSON text. Raises
    CorruptData for bytes of another format.
    """
    names = [array.type.field(row).name for row in range(array.type.num_fields)]
    if "metadata" not in names or not {"value", "typed_value"} & set(names):
        raise CorruptData(
            f"A variant column must be a struct of metadata and value, but the file has {array.type}."
        )
    valid = array.is_valid().to_pylist()
    metadata = array.field(names.index("metadata")).to_pylist()
    values = (
        array.field(names.index("value")).to_pylist() if "value" in names else [None] * len(array)
    )
    typed = _typed(array.field(names.index("typed_value"))) if "typed_value" in names else None
    texts: list[str | None] = []
    for row, is_there in enumerate(valid):
        if not is_there:
            texts.append(None)
            continue
        keys = _keys(metadata[row])
        value = _shredded(keys, values[row], None if typed is None else typed[row], array.type)
        plain = _plain(None if value is MISSING else value)
        texts.append(_Encoder(ensure_ascii=False, separators=(",", ":")).encode(plain))
    return pa.array(texts, pa.string())


class _Missing:
    """Mark a field that has neither value nor typed_value: the object has no such field."""


MISSING = _Missing()


class _Number(float):
    """Hold a decimal that is written to JSON with its own digits."""

    def __new__(cls, text: str) -> _Number:
        number = super().__new__(cls, 0.0)
        number.text = text
        return number

    text: str

    def __repr__(self) -> str:
        return self.text


class _Encoder(json.JSONEncoder):
    def encode(self, o: object) -> str:
        return _dump(o)


def _dump(value: object) -> str:
    if isinstance(value, _Number):
        return value.text
    if isinstance(value, dict):
        return (
            "{"
            + ",".join(f"{json.dumps(k, ensure_ascii=False)}:{_dump(v)}" for k, v in value.items())
            + "}"
        )
    if isinstance(value, list):
        return "[" + ",".join(map(_dump, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


def _plain(value: object) -> Any:
    match value:
        case dict():
            return {k: _plain(v) for k, v in value.items()}
        case list():
            return [_plain(v) for v in value]
        case float() if not math.isfinite(value):
            return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")
        case decimal.Decimal():
            return _Number(format(value, "f"))
        case bytes():
            return base64.b64encode(value).decode()
        case uuid.UUID() | dt.date() | dt.time():
            return str(value)
    return value


# --- the encoding
# --------------------------------------------------------------------------------------------------


def _keys(data: bytes | None) -> list[str]:
    """Decode the dictionary of field names in a variant's metadata."""
    if not data or data[0] & 0x0F != 1:
        raise CorruptData("A variant's metadata has an unknown version.")
    size = (data[0] >> 6) + 1
    count = _int(data, 1, size)
    first = 1 + size * (count + 2)
    if first > len(data):
        raise CorruptData("A variant's metadata is cut off.")
    offsets = [_int(data, 1 + size * (i + 1), size) for i in range(count + 1)]
    try:
        return [
            data[first + a : first + b].decode() for a, b in zip(offsets, offsets[1:], strict=False)
        ]
    except UnicodeDecodeError as e:
        raise CorruptData("A variant's metadata holds a name that is not UTF-8.") from e


def _int(data: bytes, offset: int, size: int) -> int:
    return int.from_bytes(data[offset : offset + size], "little")


def decode(keys: list[str], data: bytes, offset: int = 0, depth: int = 0) -> Any:
    """Decode one value. Raises CorruptData when it reaches beyond its bytes or is nested too
    deeply.
    """
    if offset >= len(data) or depth > MAX_DEPTH:
        raise CorruptData("A variant's value is cut off or nested too deeply.")
    header, kind = data[offset] >> 2, data[offset] & 3
    if kind == 0:
        return _primitive(header, data, offset + 1)
    if kind == 1:
        return _text(data, offset + 1, header)
    big = bool(header >> (4 if kind == 2 else 2) & 1)
    offset_size, id_size = (header & 3) + 1, (header >> 2 & 3) + 1
    count = _int(data, offset + 1, 4 if big else 1)
    offset += 5 if big else 2
    ids_end = offset + (count * id_size if kind == 2 else 0)
    first = ids_end + (count + 1) * offset_size
    if first > len(data):
        raise CorruptData("A variant's value is cut off.")
    starts = [first + _int(data, ids_end + i * offset_size, offset_size) for i in range(count)]
    inside = [decode(keys, data, s, depth + 1) for s in starts]
    if kind == 3:
        return inside
    ids = [_int(data, offset + i * id_size, id_size) for i in range(count)]
    if any(i >= len(keys) for i in ids):
        raise CorruptData("A variant's value has a field that its metadata does not name.")
    return {keys[i]: v for i, v in zip(ids, inside, strict=True)}


def _text(data: bytes, offset: int, length: int) -> str:
    if offset + length > len(data):
        raise CorruptData("A variant's text is cut off.")
    try:
        return data[offset : offset + length].decode()
    except UnicodeDecodeError as e:
        raise CorruptData("A variant's text is not UTF-8.") from e


_INTS = {3: 1, 4: 2, 5: 4, 6: 8}
_DECIMALS = {8: 4, 9: 8, 10: 16}


def _primitive(kind: int, data: bytes, offset: int) -> Any:
    def raw(size: int) -> bytes:
        if offset + size > len(data):
            raise CorruptData("A variant's value is cut off.")
        return data[offset : offset + size]

    if kind in _INTS:
        return int.from_bytes(raw(_INTS[kind]), "little", signed=True)
    if kind in _DECIMALS:
        body = raw(1 + _DECIMALS[kind])
        return decimal.Decimal(int.from_bytes(body[1:], "little", signed=True)).scaleb(
            -body[0], decimal.Context(prec=60)
        )
    match kind:
        case 0:
            return None
        case 1 | 2:
            return kind == 1
        case 7:
            return struct.unpack("<d", raw(8))[0]
        case 14:
            return struct.unpack("<f", raw(4))[0]
        case 11:
            return _time_text("date", int.from_bytes(raw(4), "little", signed=True))
        case 12 | 13 | 17 | 18 | 19:
            names = {
                12: "timestamptz",
                13: "timestamp",
                17: "time",
                18: "timestamptz_ns",
                19: "timestamp_ns",
            }
            return _time_text(names[kind], int.from_bytes(raw(8), "little", signed=True))
        case 15:
            return raw(4 + int.from_bytes(raw(4), "little"))[4:]
        case 16:
            return _text(data, offset + 4, int.from_bytes(raw(4), "little"))
        case 20:
            return uuid.UUID(bytes=raw(16))
    raise CorruptData(f"A variant holds a value of unknown type {kind}.")


def _time_text(kind: str, number: int) -> str:
    """Format dates, times and timestamps as Spark's to_json does: ISO-like, timestamps without
    trailing zeros.
    """
    try:
        if kind == "date":
            return str((_EPOCH + dt.timedelta(days=number)).date())
        if kind == "time":
            return str((_EPOCH + dt.timedelta(microseconds=number)).time())
        micros, nanos = divmod(number, 1000) if kind.endswith("_ns") else (number, 0)
        moment = _EPOCH + dt.timedelta(microseconds=micros)
        fraction = f"{moment.microsecond:06d}" + (f"{nanos:03d}" if kind.endswith("_ns") else "")
        text = moment.strftime(f"{moment.year:04d}-%m-%d %H:%M:%S") + (
            f".{fraction}".rstrip("0").rstrip(".")
        )
        return text + ("+00:00" if kind.startswith("timestamptz") else "")
    except OverflowError as e:
        raise CorruptData("A variant holds a date or time outside the years 1 to 9999.") from e


# --- shredding
# --------------------------------------------------------------------------------------------------


def _typed(array: pa.Array) -> list[Any]:
    """Convert a typed_value column to Python values; dates and times become the text that they have
    in JSON.
    """
    type_ = array.type
    if pa.types.is_struct(type_):
        children = {type_.field(i).name: _typed(array.field(i)) for i in range(type_.num_fields)}
        return [
            {n: c[i] for n, c in children.items()} if ok else None
            for i, ok in enumerate(array.is_valid().to_pylist())
        ]
    if pa.types.is_list(type_):
        flat, offsets = _typed(array.values), array.offsets.to_pylist()
        return [
            flat[offsets[i] : offsets[i + 1]] if ok else None
            for i, ok in enumerate(array.is_valid().to_pylist())
        ]
    if pa.types.is_timestamp(type_):
        kind = ("timestamptz" if type_.tz else "timestamp") + ("_ns" if type_.unit == "ns" else "")
        return [
            None if v is None else _time_text(kind, v) for v in array.view(pa.int64()).to_pylist()
        ]
    if pa.types.is_date(type_):
        return [
            None if v is None else _time_text("date", v) for v in array.view(pa.int32()).to_pylist()
        ]
    if pa.types.is_time(type_):
        return [
            None if v is None else _time_text("time", v)
            for v in array.cast(pa.time64("us")).view(pa.int64()).to_pylist()
        ]
    if type_ == pa.binary(16):
        return [None if v is None else uuid.UUID(bytes=v) for v in array.to_pylist()]
    values: list[Any] = array.to_pylist()
    return values


def _shredded(keys: list[str], value: bytes | None, typed: Any, type_: pa.DataType) -> Any:
    """Join the two parts of a shredded value, value and typed_value (Parquet, "Variant Shredding")."""
    plain: Any = MISSING if value is None else decode(keys, value)
    if typed is None:
        return plain
    inner = type_.field("typed_value").type
    if pa.types.is_struct(inner):
        shredded = {}
        for i in range(inner.num_fields):
            f = inner.field(i)
            if (pair := typed[f.name]) is not None:
                member = _shredded(keys, pair.get("value"), pair.get("typed_value"), f.type)
                if member is not MISSING:
                    shredded[f.name] = member
        return {**plain, **shredded} if isinstance(plain, dict) else shredded
    if pa.types.is_list(inner):
        pairs = [(p.get("value"), p.get("typed_value")) if p else (None, None) for p in typed]
        members = [_shredded(keys, v, t, inner.value_type) for v, t in pairs]
        return [None if m is MISSING else m for m in members]
    return typed


# --- writing
# --------------------------------------------------------------------------------------------------


def json_to_variant(texts: Iterable[str | None]) -> list[Pair | None]:
    """Encode JSON texts as pairs of metadata and value. Raises ValueError for text that is not
    JSON.
    """
    return [
        None if t is None else encode(json.loads(t, parse_float=decimal.Decimal)) for t in texts
    ]


def encode(value: object) -> Pair:
    """Encode a Python value as JSON has it (numbers with a point as Decimal) to the bytes of
    metadata and value.
    """
    names: set[str] = set()
    _collect(value, names)
    ordered = sorted(names, key=lambda n: n.encode())
    numbers = {n: i for i, n in enumerate(ordered)}
    return _metadata(ordered), _value(value, numbers)


def _collect(value: object, names: set[str]) -> None:
    if isinstance(value, dict):
        names.update(value)
    if isinstance(value, dict | list):
        for inside in value.values() if isinstance(value, dict) else value:
            _collect(inside, names)


def _width(number: int) -> int:
    return max(1, (number.bit_length() + 7) // 8)


def _metadata(names: list[str]) -> bytes:
    texts = [n.encode() for n in names]
    size = _width(max(sum(map(len, texts)), len(texts)))
    offsets, total = [0], 0
    for t in texts:
        total += len(t)
        offsets.append(total)
    head = bytes([1 | 16 | (size - 1) << 6]) + len(texts).to_bytes(size, "little")
    return head + b"".join(o.to_bytes(size, "little") for o in offsets) + b"".join(texts)


def _value(value: object, numbers: dict[str, int]) -> bytes:
    match value:
        case None:
            return b"\x00"
        case bool():
            return bytes([(1 if value else 2) << 2])
        case int():
            for kind, size in _INTS.items():
                if -(1 << 8 * size - 1) <= value < 1 << 8 * size - 1:
                    return bytes([kind << 2]) + value.to_bytes(size, "little", signed=True)
            return _decimal(decimal.Decimal(value))
        case decimal.Decimal():
            return _decimal(value)
        case float():
            return bytes([7 << 2]) + struct.pack("<d", value)
        case str():
            data = value.encode()
            if len(data) < 64:
                return bytes([len(data) << 2 | 1]) + data
            return bytes([16 << 2]) + len(data).to_bytes(4, "little") + data
        case list():
            return _container(3, [_value(v, numbers) for v in value], None)
        case dict():
            names = sorted(value, key=lambda n: n.encode())
            return _container(
                2, [_value(value[n], numbers) for n in names], [numbers[n] for n in names]
            )
    raise ValueError(f"{type(value).__name__} is no JSON value")


def _decimal(value: decimal.Decimal) -> bytes:
    """Encode a number exactly when it has at most 38 digits and a scale of at most 38, otherwise as
    a double.
    """
    sign, digits, exponent = value.as_tuple()
    if isinstance(exponent, int) and -38 <= exponent <= 0 and len(digits) <= 38:
        number = int("".join(map(str, digits))) * (-1 if sign else 1)
        for kind, size in _DECIMALS.items():
            if abs(number) < 10 ** {4: 9, 8: 18, 16: 38}[size]:
                return bytes([kind << 2, -exponent]) + number.to_bytes(size, "little", signed=True)
    return bytes([7 << 2]) + struct.pack("<d", float(value))


def _container(kind: int, parts: list[bytes], ids: list[int] | None) -> bytes:
    offset_size = _width(sum(map(len, parts)))
    id_size = _width(max(ids, default=0)) if ids is not None else 1
    big = len(parts) > 255
    header = (offset_size - 1) | ((id_size - 1) << 2 | big << 4 if ids is not None else big << 2)
    encoded = bytearray([header << 2 | kind]) + len(parts).to_bytes(4 if big else 1, "little")
    for i in ids or ():
        encoded += i.to_bytes(id_size, "little")
    total = 0
    for part in [*parts, b""]:
        encoded += total.to_bytes(offset_size, "little")
        total += len(part)
    return bytes(encoded) + b"".join(parts)
