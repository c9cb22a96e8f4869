"""Read Puffin files as other readers of tables do: every blob of a footer, whatever its type."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec
import pyarrow as pa

from frazil.codec.guard import reading
from frazil.codec.json_nouns import (
    fields_of,
    integer,
    integers,
    items_of,
    text,
    text_or_none,
    texts,
)
from frazil.codec.puffin import MAGIC, PuffinBlob, footer_payload
from frazil.errors import CorruptData


@dataclass(frozen=True)
class PuffinFooter:
    """Hold the footer of a file. `size`: bytes of the whole footer, as table metadata records them."""

    blobs: tuple[PuffinBlob, ...]
    properties: dict[str, str]
    size: int


def decode_footer(data: bytes, file: str = "") -> PuffinFooter:
    """Decode the footer of a whole file, or of its last bytes when these hold the whole footer;
    offsets are those in the file.

    Raises CorruptData, and Unsupported for unknown flags.
    """
    with reading("Puffin file", file):
        payload, size = footer_payload(data)
        return _footer(msgspec.json.decode(payload), size)


def _footer(obj: Any, size: int) -> PuffinFooter:
    obj = fields_of(obj, "Puffin footer")
    blobs = tuple(_blob(fields_of(b, "blob")) for b in items_of(obj.get("blobs"), "blobs"))
    return PuffinFooter(blobs, texts(obj.get("properties"), "properties"), size)


def _blob(obj: dict[str, Any]) -> PuffinBlob:
    offset, length = integer(obj, "offset"), integer(obj, "length")
    if offset < 4 or length < 0:
        raise CorruptData(f"A blob claims {length} bytes at offset {offset}.")
    return PuffinBlob(
        type=text(obj, "type"),
        fields=integers(obj.get("fields"), "fields", 2**31),
        snapshot_id=integer(obj, "snapshot-id"),
        sequence_number=integer(obj, "sequence-number"),
        offset=offset,
        length=length,
        compression_codec=text_or_none(obj, "compression-codec"),
        properties=texts(obj.get("properties"), "properties"),
    )


def decode_blob(data: bytes, blob: PuffinBlob, file: str = "") -> bytes:
    """Take a blob out of a whole file and decompress it. Raises CorruptData, Unsupported."""
    with reading("Puffin file", file):
        if (
            data[:4] != MAGIC
            or blob.offset < 4
            or blob.length < 0
            or blob.offset + blob.length > len(data)
        ):
            raise CorruptData(
                f"A blob of {blob.length} bytes at {blob.offset} is not inside the file of {len(data)} bytes."
            )
        content = data[blob.offset : blob.offset + blob.length]
        if blob.compression_codec is None:
            return content
        try:
            with pa.CompressedInputStream(
                pa.BufferReader(content), blob.compression_codec
            ) as stream:
                return bytes(stream.read())
        except (OSError, ValueError) as e:
            raise CorruptData(f"A blob is damaged: {e}") from e
