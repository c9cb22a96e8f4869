"""Encode Puffin files, blobs of statistics and deletion vectors with a JSON footer, and find and
replace the footer of one (Puffin spec). `deletion_vector` decodes the places of vectors.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec
import pyarrow as pa

from frazil.codec.guard import reading
from frazil.codec.json_nouns import fields_of
from frazil.errors import CorruptData, Unsupported

MAGIC = b"PFA1"
_TAIL = struct.Struct("<iI4s")  # payload size, flags, magic
_FOOTER_LZ4 = 1
_MAX_RATIO, _FREE_BYTES = 1000, 1 << 24


@dataclass(frozen=True, kw_only=True)
class PuffinBlob:
    """Describe a blob in a file. `fields`: field ids. `snapshot_id` and `sequence_number` are -1
    when they are not known yet.
    """

    type: str
    fields: tuple[int, ...]
    snapshot_id: int
    sequence_number: int
    offset: int
    length: int
    compression_codec: str | None = None
    properties: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Blob:
    """Hold a blob to write; `compression_codec`: None or zstd."""

    type: str
    data: bytes
    fields: tuple[int, ...] = ()
    snapshot_id: int = -1
    sequence_number: int = -1
    compression_codec: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)


def footer_payload(data: bytes) -> tuple[bytes, int]:
    """Find the footer at the end of `data`; returns its JSON text and the number of bytes of the
    whole footer.
    """
    size = footer_size(data)
    if size > len(data) or data[-size : 4 - size] != MAGIC:
        raise CorruptData(f"The Puffin footer claims {size - 16} bytes, but does not begin there.")
    payload = data[4 - size : -12]
    return (_decompress(payload) if _TAIL.unpack(data[-12:])[1] & _FOOTER_LZ4 else payload), size


def _decompress(footer: bytes) -> bytes:
    limit = max(_FREE_BYTES, _MAX_RATIO * len(footer))
    try:
        with pa.CompressedInputStream(pa.BufferReader(footer), "lz4") as stream:
            decompressed = bytes(stream.read(limit + 1))
    except OSError as e:
        raise CorruptData(f"A compressed Puffin footer is damaged: {e}") from e
    if len(decompressed) > limit:
        raise CorruptData("A Puffin footer decompresses to far more than its size allows.")
    return decompressed


def footer_size(data: bytes) -> int:
    """Read the number of bytes of the whole footer from the last 12 bytes of a file."""
    if len(data) < 16 or data[-4:] != MAGIC:
        raise CorruptData("This is not a Puffin file: it does not end in PFA1.")
    size, flags, _ = _TAIL.unpack(data[-12:])
    if flags & ~_FOOTER_LZ4:
        raise Unsupported(f"A Puffin footer has unknown flags {flags:#x}.")
    if size < 0:
        raise CorruptData(f"The Puffin footer claims {size} bytes.")
    return int(size) + 16


def encode_puffin(
    blobs: Sequence[Blob], properties: Mapping[str, str] | None = None
) -> tuple[bytes, tuple[PuffinBlob, ...], int]:
    """Encode a file; returns it, the places of its blobs, and the size of its footer. Raises
    Unsupported for a codec other than zstd.
    """
    parts, placed, offset = [MAGIC], [], 4
    for blob in blobs:
        data = _compress(blob)
        placed.append(
            PuffinBlob(
                type=blob.type,
                fields=tuple(blob.fields),
                snapshot_id=blob.snapshot_id,
                sequence_number=blob.sequence_number,
                offset=offset,
                length=len(data),
                compression_codec=blob.compression_codec,
                properties=dict(blob.properties),
            )
        )
        parts.append(data)
        offset += len(data)
    footer: dict[str, Any] = {"blobs": [_blob_to_json(b) for b in placed]}
    if properties:
        footer["properties"] = dict(properties)
    payload = msgspec.json.encode(footer)
    parts += [MAGIC, payload, _TAIL.pack(len(payload), 0, MAGIC)]
    return b"".join(parts), tuple(placed), len(payload) + 16


def with_footer(
    data: bytes, change: Callable[[dict[str, Any]], Mapping[str, Any]], file: str = ""
) -> bytes:
    """Replace the footer of a file by a changed one, given as the JSON object of the spec; blobs
    keep their bytes and places.
    """
    with reading("Puffin file", file):
        payload, size = footer_payload(data)
        changed = msgspec.json.encode(
            change(fields_of(msgspec.json.decode(payload), "Puffin footer"))
        )
        return b"".join((data[:-size], MAGIC, changed, _TAIL.pack(len(changed), 0, MAGIC)))


def _compress(blob: Blob) -> bytes:
    match blob.compression_codec:
        case None:
            return blob.data
        case "zstd":
            return bytes(pa.compress(blob.data, "zstd", asbytes=True))
    raise Unsupported(
        f"Cannot write Puffin compression codec {blob.compression_codec!r}.", hint="Known: zstd."
    )


def _blob_to_json(blob: PuffinBlob) -> dict[str, Any]:
    obj: dict[str, Any] = {
        "type": blob.type,
        "fields": list(blob.fields),
        "snapshot-id": blob.snapshot_id,
        "sequence-number": blob.sequence_number,
        "offset": blob.offset,
        "length": blob.length,
    }
    if blob.compression_codec is not None:
        obj["compression-codec"] = blob.compression_codec
    if blob.properties:
        obj["properties"] = blob.properties
    return obj
