"""Write Avro: numbers and bytes, container files, and Iceberg types as Avro schemas (spec,
"Appendix A: Avro").
"""

from __future__ import annotations

import bisect
import functools
import os
import re
import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from frazil.codec.avro import MAGIC
from frazil.errors import InvalidInput, Unsupported
from frazil.spec.types import (
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
    LongType,
    StringType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

BLOCK_BYTES = 64_000  # per block before compression, as in Avro's Java writer

# Numbers


@functools.lru_cache(maxsize=1024)  # the ids of snapshots come again in each list of manifests
def _zigzag(number: int) -> bytes:
    if not -(2**63) <= number < 2**63:
        raise InvalidInput(f"{number} does not fit in 64 bits.")
    left = (number << 1) ^ (number >> 63)
    out = bytearray()
    while left > 127:
        out.append(left & 127 | 128)
        left >>= 7
    out.append(left)
    return bytes(out)


_SMALL = tuple(
    bytes((n << 1,)) if n < 64 else bytes((n << 1 & 127 | 128, n >> 6)) for n in range(8192)
)


def write_long(number: int) -> bytes:
    """Encode an integer as a zigzag varint. Raises InvalidInput beyond 64 bits."""
    return _SMALL[number] if 0 <= number < 8192 else _zigzag(number)


def write_bytes(data: bytes) -> bytes:
    """Encode bytes behind their length."""
    return write_long(len(data)) + data


def write_text(text: str) -> bytes:
    """Encode text as UTF-8 behind its length."""
    return write_bytes(text.encode())


# Containers

_CODEC_NAMES = {"gzip": "deflate", "deflate": "deflate", "uncompressed": "null", "none": "null", "null": "null",
                "zstd": "zstandard", "zstandard": "zstandard", "snappy": "snappy"}  # fmt: skip


def codec_name(codec: str) -> str:
    """Translate an Iceberg compression codec to Avro's name of it. Raises Unsupported."""
    name = _CODEC_NAMES.get(codec.lower())
    if name is None:
        raise Unsupported(
            f"Cannot write Avro with compression codec {codec!r}.",
            hint=f"Known: {', '.join(_CODEC_NAMES)}.",
        )
    return name


def _compress(data: bytes | memoryview, codec: str, level: int | None) -> bytes:
    match codec:
        case "deflate":
            stream = zlib.compressobj(-1 if level is None else level, zlib.DEFLATED, -15)
            return stream.compress(data) + stream.flush()
        case "zstandard" | "snappy":
            import pyarrow as pa

            if codec == "snappy":
                return bytes(pa.Codec("snappy").compress(data, asbytes=True)) + zlib.crc32(
                    data
                ).to_bytes(4, "big")
            return bytes(
                pa.Codec("zstd", compression_level=3 if level is None else level).compress(
                    data, asbytes=True
                )
            )
    return bytes(data)


def header(schema: bytes, metadata: Mapping[str, bytes], codec: str, sync: bytes) -> bytes:
    """Encode the header of a container file, sync marker included; `codec` is Avro's name."""
    entries = {"avro.schema": schema, "avro.codec": codec.encode(), **metadata}
    body = b"".join(write_text(k) + write_bytes(v) for k, v in entries.items())
    return MAGIC + write_long(len(entries)) + body + b"\x00" + sync


def block(entries: Sequence[bytes], codec: str, level: int | None, sync: bytes) -> bytes:
    """Encode a block of encoded entries; `codec` is Avro's name."""
    data = _compress(b"".join(entries), codec, level)
    return write_long(len(entries)) + write_long(len(data)) + data + sync


def container(
    schema: bytes,
    metadata: Mapping[str, bytes],
    entries: Iterable[bytes],
    codec: str = "gzip",
    level: int | None = None,
) -> bytes:
    """Encode a whole container file of encoded entries, many per block. Raises Unsupported for an
    unknown codec.
    """
    name, sync = codec_name(codec), os.urandom(16)
    parts = [header(schema, metadata, name, sync)]
    pending: list[bytes] = []
    size = 0

    for entry in entries:
        pending.append(entry)
        size += len(entry)
        if size >= BLOCK_BYTES:
            parts.append(block(pending, name, level, sync))
            pending, size = [], 0
    if pending:
        parts.append(block(pending, name, level, sync))
    return b"".join(parts)


def container_of_rows(
    schema: bytes,
    metadata: Mapping[str, bytes],
    data: memoryview,
    ends: Sequence[int],
    codec: str = "gzip",
    level: int | None = None,
) -> bytes:
    """Encode a whole container file of entries that stand one after the other in `data`; `ends`:
    where each ends, ascending.
    """
    name, sync = codec_name(codec), os.urandom(16)
    parts, begin, first = [header(schema, metadata, name, sync)], 0, 0
    while first < len(ends):
        last = min(bisect.bisect_left(ends, begin + BLOCK_BYTES, first), len(ends) - 1)
        packed = _compress(data[begin : ends[last]], name, level)
        parts += [write_long(last + 1 - first), write_long(len(packed)), packed, sync]
        begin, first = ends[last], last + 1
    return b"".join(parts)


# Schemas

_LOGICAL: dict[type, Any] = {
    BooleanType: "boolean", IntegerType: "int", LongType: "long", FloatType: "float", DoubleType: "double", StringType: "string",
    BinaryType: "bytes", GeometryType: "bytes", GeographyType: "bytes",
    DateType: {"type": "int", "logicalType": "date"},
    TimeType: {"type": "long", "logicalType": "time-micros"},
    TimestampType: {"type": "long", "logicalType": "timestamp-micros", "adjust-to-utc": False},
    TimestamptzType: {"type": "long", "logicalType": "timestamp-micros", "adjust-to-utc": True},
    TimestampNanoType: {"type": "long", "logicalType": "timestamp-nanos", "adjust-to-utc": False},
    TimestamptzNanoType: {"type": "long", "logicalType": "timestamp-nanos", "adjust-to-utc": True},
    UUIDType: {"type": "fixed", "name": "uuid_fixed", "size": 16, "logicalType": "uuid"},
}  # fmt: skip


def decimal_size(precision: int) -> int:
    """Return the bytes that a decimal of some precision takes when it is stored as fixed."""
    return (int(10**precision - 1).bit_length() + 8) // 8


def primitive_schema(type_: IcebergType, named: set[str]) -> Any:
    """Convert a primitive type to an Avro type. A named type is written out once, later by its
    name; `named` collects the names.
    """
    match type_:
        case DecimalType(precision=p, scale=s):
            avro_type: Any = {
                "type": "fixed",
                "name": f"decimal_{p}_{s}",
                "size": decimal_size(p),
                "logicalType": "decimal",
                "precision": p,
                "scale": s,
            }
        case FixedType(length=n):
            avro_type = {"type": "fixed", "name": f"fixed_{n}", "size": n}
        case _:
            avro_type = _LOGICAL.get(type(type_))
    if avro_type is None:
        raise Unsupported(f"Values of type {type_} cannot be written in Avro metadata.")
    if isinstance(avro_type, dict) and avro_type["type"] == "fixed":
        if avro_type["name"] in named:
            return avro_type["name"]
        named.add(avro_type["name"])
    return avro_type


def avro_name(name: str) -> str:
    """Convert a name to one that Avro's specification allows: `a.b` becomes `a_x2Eb`, `1st` becomes
    `_1st`, `é` becomes `_xE9`. Java keeps letters of other scripts, at which strict readers of Avro
    fail; all find columns by their ids.
    """
    if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
        return name
    units = name.encode("utf-16-be", "surrogatepass")
    out = []
    for i in range(0, len(units), 2):
        code = int.from_bytes(units[i : i + 2], "big")
        char = chr(code)
        if re.fullmatch(r"[A-Za-z_]" if i == 0 else r"[A-Za-z0-9_]", char):
            out.append(char)
        else:
            out.append(f"_{char}" if char in "0123456789" else f"_x{code:X}")
    return "".join(out) or "_"


def to_text(schema: object) -> bytes:
    """Encode a schema as JSON text."""
    return msgspec.json.encode(schema)
