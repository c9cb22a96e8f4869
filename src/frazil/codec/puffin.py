"""Puffin files: blobs with a JSON footer (Puffin spec): statistics and deletion vectors."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pyarrow as pa

from frazil.codec.guard import reading
from frazil.codec.json_nouns import fields_of, integer, integers, items_of, text, text_or_none, texts
from frazil.errors import CorruptData, Unsupported

MAGIC = b"PFA1"
_TAIL = struct.Struct("<iI4s")  # payload size, flags, magic
_FOOTER_LZ4 = 1
_MAX_RATIO, _FREE_BYTES = 1000, 1 << 24


@dataclass(frozen=True, kw_only=True)
class BlobMetadata:
    """Where a blob is and what it is about; `fields` are field ids, snapshot_id and sequence_number -1 when not yet known."""

    type: str
    fields: tuple[int, ...]
    snapshot_id: int
    sequence_number: int
    offset: int
    length: int
    compression_codec: str | None = None
    properties: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class PuffinFooter:
    """`size`: bytes of the whole footer, as table metadata records them."""

    blobs: tuple[BlobMetadata, ...]
    properties: dict[str, str]
    size: int


@dataclass(frozen=True, kw_only=True)
class Blob:
    """A blob to write; `compression_codec` None or zstd."""

    type: str
    data: bytes
    fields: tuple[int, ...] = ()
    snapshot_id: int = -1
    sequence_number: int = -1
    compression_codec: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)


def decode_footer(data: bytes, file: str = "") -> PuffinFooter:
    """The footer of a whole file, or of its last bytes when they hold all of the footer (offsets are the file's then too).

    Raises CorruptData, Unsupported for flags we do not know.
    """
    with reading("Puffin file", file):
        payload, size = footer_payload(data)
        return _footer(msgspec.json.decode(payload), size)


def footer_payload(data: bytes) -> tuple[bytes, int]:
    """The JSON text of the footer at the end of `data`, and the bytes of the whole footer."""
    size = footer_size(data)
    if size > len(data) or data[-size : 4 - size] != MAGIC:
        raise CorruptData(f"The Puffin footer claims {size - 16} bytes.")
    payload = data[4 - size : -12]
    return (_decompress(payload, "lz4") if _TAIL.unpack(data[-12:])[1] & _FOOTER_LZ4 else payload), size


def footer_size(data: bytes) -> int:
    """How many bytes the footer has, by the last bytes of a file: 12 of them tell."""
    if len(data) < 16 or data[-4:] != MAGIC:
        raise CorruptData("This is no Puffin file: its last bytes are wrong.")
    size, flags, _ = _TAIL.unpack(data[-12:])
    if flags & ~_FOOTER_LZ4:
        raise Unsupported(f"A Puffin footer has unknown flags {flags:#x}.")
    if size < 0:
        raise CorruptData(f"The Puffin footer claims {size} bytes.")
    return int(size) + 16


def _footer(obj: Any, size: int) -> PuffinFooter:
    obj = fields_of(obj, "Puffin footer")
    blobs = tuple(_blob(fields_of(b, "blob")) for b in items_of(obj.get("blobs"), "blobs"))
    return PuffinFooter(blobs, texts(obj.get("properties"), "properties"), size)


def _blob(obj: dict[str, Any]) -> BlobMetadata:
    offset, length = integer(obj, "offset"), integer(obj, "length")
    if offset < 4 or length < 0:
        raise CorruptData(f"A blob lies at {offset} and has {length} bytes.")
    return BlobMetadata(
        type=text(obj, "type"), fields=integers(obj.get("fields"), "fields", 2**31), snapshot_id=integer(obj, "snapshot-id"),
        sequence_number=integer(obj, "sequence-number"), offset=offset, length=length,
        compression_codec=text_or_none(obj, "compression-codec"), properties=texts(obj.get("properties"), "properties"),
    )  # fmt: skip


def decode_blob(data: bytes, blob: BlobMetadata, file: str = "") -> bytes:
    """The content of a blob of a whole file, decompressed. Raises CorruptData, Unsupported."""
    with reading("Puffin file", file):
        if data[:4] != MAGIC or blob.offset < 4 or blob.length < 0 or blob.offset + blob.length > len(data):
            raise CorruptData(f"A blob of {blob.length} bytes at {blob.offset} is not inside the file of {len(data)}.")
        return _decompress(data[blob.offset : blob.offset + blob.length], blob.compression_codec)


def _decompress(data: bytes, codec: str | None) -> bytes:
    if codec not in (None, "zstd", "lz4"):
        raise Unsupported(f"Cannot read Puffin compression {codec[:40]!r}.")
    if codec is None:
        return data
    limit = max(_FREE_BYTES, _MAX_RATIO * len(data))
    try:
        with pa.CompressedInputStream(pa.BufferReader(data), codec) as stream:
            found = bytes(stream.read(limit + 1))
    except OSError as e:
        raise CorruptData(f"A {codec} blob is damaged: {e}") from e
    if len(found) > limit:
        raise CorruptData(f"A {codec} blob is far larger than its size allows.")
    return found


def encode_puffin(blobs: Sequence[Blob], properties: Mapping[str, str] | None = None) -> tuple[bytes, tuple[BlobMetadata, ...], int]:
    """A file, where its blobs are, and the size of its footer. Raises Unsupported for a codec other than zstd."""
    parts, placed, at = [MAGIC], [], 4
    for blob in blobs:
        data = _compress(blob)
        placed.append(
            BlobMetadata(
                type=blob.type, fields=tuple(blob.fields), snapshot_id=blob.snapshot_id, sequence_number=blob.sequence_number, offset=at,
                length=len(data), compression_codec=blob.compression_codec, properties=dict(blob.properties),
            )
        )  # fmt: skip
        parts.append(data)
        at += len(data)
    footer: dict[str, Any] = {"blobs": [_blob_to_json(b) for b in placed]}
    if properties:
        footer["properties"] = dict(properties)
    payload = msgspec.json.encode(footer)
    parts += [MAGIC, payload, _TAIL.pack(len(payload), 0, MAGIC)]
    return b"".join(parts), tuple(placed), len(payload) + 16


def _compress(blob: Blob) -> bytes:
    match blob.compression_codec:
        case None:
            return blob.data
        case "zstd":
            return bytes(pa.compress(blob.data, "zstd", asbytes=True))
    raise Unsupported(f"Cannot write Puffin compression {blob.compression_codec!r}.")


def _blob_to_json(b: BlobMetadata) -> dict[str, Any]:
    obj: dict[str, Any] = {
        "type": b.type, "fields": list(b.fields), "snapshot-id": b.snapshot_id, "sequence-number": b.sequence_number, "offset": b.offset,
        "length": b.length,
    }  # fmt: skip
    if b.compression_codec is not None:
        obj["compression-codec"] = b.compression_codec
    if b.properties:
        obj["properties"] = b.properties
    return obj
