"""Encode and decode deletion vectors: deleted row positions of one data file as a blob
`deletion-vector-v1` (Puffin spec).

The blob is a Roaring bitmap, in memory a `BitMap64` of pyroaring: positions are compressed, and
joined and counted without listing them.
"""

from __future__ import annotations

import array
import struct
import zlib
from collections.abc import Iterable

import msgspec
import numpy as np
from pyroaring import BitMap64

from frazil.codec.guard import reading
from frazil.codec.puffin import Blob, footer_payload
from frazil.errors import CorruptData, InvalidInput
from frazil.spec.schema import POS_ID

BLOB_TYPE = "deletion-vector-v1"
_MAGIC = b"\xd1\xd3\x39\x64"
_MAX_KEY = 2**31 - 2  # Java's limit on the high 32 bits
_NO_RUNS, _RUNS = 12346, 12347
_CONTAINER = 1 << 16


class VectorProperties(msgspec.Struct, rename="kebab", frozen=True):
    """Hold the properties of a deletion vector's blob in the footer; the format requires both."""

    referenced_data_file: str | None = None
    cardinality: str | None = None


class VectorPlace(msgspec.Struct, rename="kebab", frozen=True):
    """Hold the entry of a blob in the footer of its Puffin file."""

    type: str
    offset: int
    length: int
    properties: VectorProperties = VectorProperties()


class _Footer(msgspec.Struct):
    blobs: list[VectorPlace]


_FOOTER = msgspec.json.Decoder(_Footer)


def decode_vector_places(data: bytes, file: str = "") -> dict[int, VectorPlace]:
    """Decode the blobs that a footer lists, by offset, from the last bytes of a file, which may
    list thousands. Raises CorruptData, Unsupported.
    """
    with reading("Puffin file", file):
        return {blob.offset: blob for blob in _FOOTER.decode(footer_payload(data)[0]).blobs}


def encode_vector(positions: BitMap64 | Iterable[int]) -> bytes:
    """Encode positions as the blob of a deletion vector. Raises InvalidInput for a position that is
    negative or too large.
    """
    try:
        bitmap = BitMap64(positions)
    except (OverflowError, TypeError, ValueError) as e:
        raise InvalidInput(f"A deleted position is not a row number: {e}") from e
    if bitmap and bitmap.max() >> 32 > _MAX_KEY:
        raise InvalidInput(f"Position {bitmap.max()} is larger than a deletion vector can hold.")
    bitmap.run_optimize()
    body = _MAGIC + bytes(bitmap.serialize())
    return struct.pack(">I", len(body)) + body + struct.pack(">I", zlib.crc32(body))


def decode_vector(blob: bytes, file: str = "") -> BitMap64:
    """Decode the positions of a blob; length, magic number, checksum and every container are
    checked. Raises CorruptData.
    """
    with reading("deletion vector", file):
        if len(blob) < 20:
            raise CorruptData(f"A deletion vector needs at least 20 bytes, not {len(blob)}.")
        if int.from_bytes(blob[:4], "big") != len(blob) - 8:
            raise CorruptData("The length of a deletion vector is wrong.")
        if blob[4:8] != _MAGIC:
            raise CorruptData("This is not a deletion vector: its magic number is wrong.")
        if zlib.crc32(blob[4:-4]) != int.from_bytes(blob[-4:], "big"):
            raise CorruptData("A deletion vector fails its checksum.")
        vector = blob[8:-4]
        _check(vector)
        return BitMap64.deserialize(vector)


def vector_blob(positions: BitMap64, referenced_data_file: str) -> Blob:
    """Make the Puffin blob of a data file's vector, with Java's properties; snapshot id and
    sequence number are left to the commit.
    """
    properties = {"referenced-data-file": referenced_data_file, "cardinality": str(len(positions))}
    return Blob(
        type=BLOB_TYPE, data=encode_vector(positions), fields=(POS_ID,), properties=properties
    )


def positions_bitmap(positions: np.ndarray) -> BitMap64:
    """Return positions as a bitmap. It takes an `array.array` as a whole, where it asks any other
    sequence for each number.
    """
    return BitMap64(array.array("Q", np.ascontiguousarray(positions, np.uint64).tobytes()))


def positions_array(bitmap: BitMap64) -> np.ndarray:
    """List the positions of a bitmap as int64, ascending."""
    return (
        np.frombuffer(bitmap.to_array(), dtype=np.uint64).astype(np.int64)
        if len(bitmap)
        else np.empty(0, np.int64)
    )


def _check(vector: bytes) -> None:
    """Check the whole vector before native code decodes it, since that code does not check its
    input.
    """
    count, offset, previous_key = int.from_bytes(vector[:8], "little"), 8, -1
    if count > (len(vector) - 8) // 8:
        raise CorruptData(f"A deletion vector claims {count} bitmaps in {len(vector)} bytes.")
    for _ in range(count):
        key = int.from_bytes(vector[offset : offset + 4], "little")
        if key <= previous_key or key > _MAX_KEY:
            raise CorruptData(
                f"The bitmaps of a deletion vector are out of order: {key} after {previous_key}."
            )
        previous_key = key
        offset = _check_bitmap(vector, offset + 4)
    if offset != len(vector):
        raise CorruptData("A deletion vector does not end where its bitmaps do.")


def _check_bitmap(vector: bytes, start: int) -> int:
    """Check a 32-bit Roaring bitmap in its portable format; returns where it ends. Raises
    CorruptData, struct.error.
    """
    (cookie,) = struct.unpack_from("<I", vector, start)
    offset, runs = start + 4, b""
    if cookie == _NO_RUNS:
        (count,) = struct.unpack_from("<I", vector, offset)
        offset += 4
    elif cookie & 0xFFFF == _RUNS:
        count = (cookie >> 16) + 1
        runs = vector[offset : offset + (count + 7) // 8]
        offset += (count + 7) // 8
    else:
        raise CorruptData(f"A bitmap begins with {cookie:#x}.")
    if count > _CONTAINER or offset + 4 * count > len(vector):
        raise CorruptData(f"A bitmap claims {count} containers.")
    heads = np.frombuffer(vector, "<u2", 2 * count, offset).astype(np.int64)
    keys, sizes = heads[::2], heads[1::2] + 1
    if np.any(np.diff(keys) <= 0):
        raise CorruptData("The containers of a bitmap are out of order.")
    offset += 4 * count
    if cookie == _NO_RUNS or count >= 4:
        offsets, offset = np.frombuffer(vector, "<u4", count, offset), offset + 4 * count
    else:
        offsets = None
    for number in range(count):
        if offsets is not None and int(offsets[number]) != offset - start:
            raise CorruptData("A container of a bitmap is not at its listed offset.")
        offset = _check_container(
            vector, offset, int(sizes[number]), bool(runs and runs[number // 8] >> number % 8 & 1)
        )
    return offset


def _check_container(vector: bytes, offset: int, size: int, is_run: bool) -> int:
    if is_run:
        (count,) = struct.unpack_from("<H", vector, offset)
        pairs = np.frombuffer(vector, "<u2", 2 * count, offset + 2).astype(np.int64)
        first, last = pairs[::2], pairs[::2] + pairs[1::2]
        if (
            not count
            or int(last[-1]) >= _CONTAINER
            or np.any(first[1:] <= last[:-1])
            or int((last - first + 1).sum()) != size
        ):
            raise CorruptData("The runs of a bitmap overlap or do not add up.")
        return offset + 2 + 4 * int(count)
    if size > 4096:
        words = np.frombuffer(vector, np.uint8, 8192, offset)
        if int(np.unpackbits(words).sum()) != size:
            raise CorruptData("A bitmap does not hold as many positions as it claims.")
        return offset + 8192
    if np.any(np.diff(np.frombuffer(vector, "<u2", size, offset).astype(np.int64)) <= 0):
        raise CorruptData("The positions of a bitmap are out of order.")
    return offset + 2 * size
