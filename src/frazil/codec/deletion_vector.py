"""Deletion vectors: row positions of one data file as blob `deletion-vector-v1` (Puffin spec)."""

from __future__ import annotations

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
    """What a vector's blob says of itself in the footer; the format asks for both."""

    referenced_data_file: str | None = None
    cardinality: str | None = None


class VectorPlace(msgspec.Struct, rename="kebab", frozen=True):
    """A blob as the footer of its Puffin file lists it."""

    type: str
    offset: int
    length: int
    properties: VectorProperties = VectorProperties()


class _Footer(msgspec.Struct):
    blobs: list[VectorPlace]


_FOOTER = msgspec.json.Decoder(_Footer)


def decode_vector_places(data: bytes, file: str = "") -> dict[int, VectorPlace]:
    """The blobs that a footer lists, by offset, from a file's last bytes: quicker than `decode_footer` where a file holds thousands of
    vectors. Raises CorruptData, Unsupported."""
    with reading("Puffin file", file):
        return {blob.offset: blob for blob in _FOOTER.decode(footer_payload(data)[0]).blobs}


def encode_vector(positions: BitMap64 | Iterable[int]) -> bytes:
    """The blob of some positions. Raises InvalidInput for one that is negative or too large."""
    try:
        bitmap = BitMap64(positions)
    except (OverflowError, TypeError, ValueError) as e:
        raise InvalidInput(f"A deleted position is no row number: {e}") from e
    if bitmap and bitmap.max() >> 32 > _MAX_KEY:
        raise InvalidInput(f"Position {bitmap.max()} is larger than a deletion vector can hold.")
    bitmap.run_optimize()
    body = _MAGIC + bytes(bitmap.serialize())
    return struct.pack(">I", len(body)) + body + struct.pack(">I", zlib.crc32(body))


def decode_vector(blob: bytes, file: str = "") -> BitMap64:
    """The positions of a blob; length, magic, checksum and every container are checked. Raises CorruptData."""
    with reading("deletion vector", file):
        if len(blob) < 20:
            raise CorruptData(f"A deletion vector has at least 20 bytes, not {len(blob)}.")
        if int.from_bytes(blob[:4], "big") != len(blob) - 8:
            raise CorruptData("The length of a deletion vector is wrong.")
        if blob[4:8] != _MAGIC:
            raise CorruptData("This is no deletion vector: its magic number is wrong.")
        if zlib.crc32(blob[4:-4]) != int.from_bytes(blob[-4:], "big"):
            raise CorruptData("A deletion vector fails its checksum.")
        vector = blob[8:-4]
        _check(vector)
        return BitMap64.deserialize(vector)


def vector_blob(positions: BitMap64, referenced_data_file: str) -> Blob:
    """The Puffin blob of a data file's vector, with the properties Java gives it; ids are inherited from the commit."""
    properties = {"referenced-data-file": referenced_data_file, "cardinality": str(len(positions))}
    return Blob(type=BLOB_TYPE, data=encode_vector(positions), fields=(POS_ID,), properties=properties)


def positions_array(bitmap: BitMap64) -> np.ndarray:
    """Positions as int64, ascending."""
    return np.frombuffer(bitmap.to_array(), dtype=np.uint64).astype(np.int64) if len(bitmap) else np.empty(0, np.int64)


def _check(vector: bytes) -> None:
    """Walk the whole vector before native code sees it: that code trusts what it is given."""
    count, at, before = int.from_bytes(vector[:8], "little"), 8, -1
    if count > (len(vector) - 8) // 8:
        raise CorruptData(f"A deletion vector claims {count} bitmaps in {len(vector)} bytes.")
    for _ in range(count):
        key = int.from_bytes(vector[at : at + 4], "little")
        if key <= before or key > _MAX_KEY:
            raise CorruptData(f"The bitmaps of a deletion vector are out of order: {key} after {before}.")
        before = key
        at = _check_bitmap(vector, at + 4)
    if at != len(vector):
        raise CorruptData("A deletion vector does not end where its bitmaps do.")


def _check_bitmap(vector: bytes, start: int) -> int:
    """Where a 32-bit Roaring bitmap ends (its portable format). Raises CorruptData, struct.error."""
    (cookie,) = struct.unpack_from("<I", vector, start)
    at, runs = start + 4, b""
    if cookie == _NO_RUNS:
        (count,) = struct.unpack_from("<I", vector, at)
        at += 4
    elif cookie & 0xFFFF == _RUNS:
        count = (cookie >> 16) + 1
        runs = vector[at : at + (count + 7) // 8]
        at += (count + 7) // 8
    else:
        raise CorruptData(f"A bitmap begins with {cookie:#x}.")
    if count > _CONTAINER or at + 4 * count > len(vector):
        raise CorruptData(f"A bitmap claims {count} containers.")
    heads = np.frombuffer(vector, "<u2", 2 * count, at).astype(np.int64)
    keys, sizes = heads[::2], heads[1::2] + 1
    if np.any(np.diff(keys) <= 0):
        raise CorruptData("The containers of a bitmap are out of order.")
    at += 4 * count
    if cookie == _NO_RUNS or count >= 4:
        offsets, at = np.frombuffer(vector, "<u4", count, at), at + 4 * count
    else:
        offsets = None
    for i in range(count):
        if offsets is not None and int(offsets[i]) != at - start:
            raise CorruptData("A container of a bitmap is not where it is said to be.")
        at = _check_container(vector, at, int(sizes[i]), bool(runs and runs[i // 8] >> i % 8 & 1))
    return at


def _check_container(vector: bytes, at: int, size: int, is_run: bool) -> int:
    if is_run:
        (count,) = struct.unpack_from("<H", vector, at)
        pairs = np.frombuffer(vector, "<u2", 2 * count, at + 2).astype(np.int64)
        first, last = pairs[::2], pairs[::2] + pairs[1::2]
        if not count or int(last[-1]) >= _CONTAINER or np.any(first[1:] <= last[:-1]) or int((last - first + 1).sum()) != size:
            raise CorruptData("The runs of a bitmap overlap or do not add up.")
        return at + 2 + 4 * int(count)
    if size > 4096:
        words = np.frombuffer(vector, np.uint8, 8192, at)
        if int(np.unpackbits(words).sum()) != size:
            raise CorruptData("A bitmap does not hold as many positions as it says.")
        return at + 8192
    if np.any(np.diff(np.frombuffer(vector, "<u2", size, at).astype(np.int64)) <= 0):
        raise CorruptData("The positions of a bitmap are out of order.")
    return at + 2 * size
