"""Read Avro object container files (Avro 1.11 specification) within bounds: no length in a file is
trusted before it is checked.

`read_container` reads the header and the blocks, which are decompressed on demand; `record_reader`
compiles a schema into a function from bytes to values. Records become tuples in field order, maps
and arrays lists (a string-keyed map a list of pairs), enums their symbol, logical types their
stored value (decimal: the unscaled bytes). Why there is a reader of our own: docs/adr/0020.
"""

from __future__ import annotations

import bz2
import functools
import lzma
import struct
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import deflate
import pyarrow as pa

from frazil.codec.avro_schema import AvroNode, least_size, parse_schema
from frazil.codec.guard import inflate, reading
from frazil.errors import CorruptData, Unsupported

MAGIC = b"Obj\x01"
USUAL_RATIO = 16  # few blocks decompress to more than this times their size
# the decompressed size of a file may be 32 MiB, or 200 times its size
MAX_RATIO, FREE_BYTES = (
    200,
    1 << 25,
)
Reader = Callable[[bytes, int], tuple[Any, int]]


@dataclass(frozen=True)
class Container:
    """Hold a container file: its metadata (without avro.*), its schema, and its blocks, which are
    decompressed on first use.
    """

    metadata: dict[str, bytes]
    schema: AvroNode
    codec: str
    data: bytes
    start: int
    """The offset of the sync marker that ends the header."""

    @property
    def sync(self) -> bytes:
        """Return the marker of 16 bytes that follows each block."""
        return self.data[self.start : self.start + 16]

    @cached_property
    def blocks(self) -> tuple[tuple[int, bytes | bytearray], ...]:
        """Decompress all blocks to (number of entries, bytes). Raises CorruptData when one is torn,
        damaged or too large.
        """
        return tuple(_blocks(self.data, self.start, self.codec))

    @cached_property
    def spans(self) -> tuple[tuple[int, int, int], ...]:
        """Return (number of entries, where it begins, where its marker ends) of every block. Raises
        CorruptData when one is torn.
        """
        blocks, begin = [], self.start + 16
        for count, _, stop in _bodies(self.data, self.start):
            blocks.append((count, begin, stop + 16))
            begin = stop + 16
        return tuple(blocks)

    def part(self, numbers: Iterable[int]) -> Container:
        """Return a container of some of the blocks, by their numbers."""
        blocks = [self.data[begin:end] for _, begin, end in (self.spans[n] for n in numbers)]
        return replace(self, data=b"".join([self.sync, *blocks]), start=0)

    @cached_property
    def count(self) -> int:
        """Count the entries that the blocks claim to hold."""
        return sum([n for n, _ in self.blocks])

    @cached_property
    def size(self) -> int:
        """Return the bytes of all blocks, decompressed."""
        return sum([len(b) for _, b in self.blocks])


def read_container(data: bytes, file: str = "") -> Container:
    """Read the header of a container file; its blocks are decompressed on first use. Raises
    CorruptData.
    """
    with reading("the Avro file", file):
        metadata, offset = _header(data)
        schema_text, codec = (
            metadata.pop("avro.schema", None),
            metadata.pop("avro.codec", b"null").decode(),
        )
        if schema_text is None:
            raise CorruptData("The Avro header has no schema.")
        return Container(metadata, parse_schema(schema_text), codec, data, offset)


def stream_container(data: bytes, file: str = "") -> tuple[AvroNode, Iterator[tuple[int, bytes]]]:
    """Read the schema and the blocks of a data file, one block decompressed at a time, so that
    memory stays bounded.
    """
    with reading("the Avro file", file):
        metadata, offset = _header(data)
        if (text := metadata.get("avro.schema")) is None:
            raise CorruptData("The Avro header has no schema.")
        blocks = _blocks(data, offset, metadata.get("avro.codec", b"null").decode())
        return parse_schema(text), ((count, bytes(block)) for count, block in blocks)


def _header(data: bytes) -> tuple[dict[str, bytes], int]:
    """Read the metadata map of the header; returns it and the offset of the sync marker after it."""
    if data[:4] != MAGIC:
        raise CorruptData(
            "This is not an Avro file: it does not begin with the magic number Obj1.", offset=0
        )
    metadata, offset = {}, 4
    while True:
        count, offset = read_long(data, offset)
        if count < 0:
            _, offset = read_long(data, offset)
        if count == 0:
            break
        for _ in range(abs(count)):
            key, offset = read_bytes(data, offset)
            value, offset = read_bytes(data, offset)
            metadata[key.decode()] = value
    if offset + 16 > len(data):
        raise CorruptData("The Avro header ends early.", offset=offset)
    return metadata, offset


def _blocks(data: bytes, offset: int, codec: str) -> Iterator[tuple[int, bytes | bytearray]]:
    left = max(FREE_BYTES, MAX_RATIO * len(data))
    decompress = _codec(codec)
    for count, begin, stop in _bodies(data, offset):
        block = decompress(data[begin:stop], left)
        left -= len(block)
        if left < 0:
            raise CorruptData(
                "The Avro file decompresses to far more than its size allows.", offset=begin
            )
        yield count, block


def _bodies(data: bytes, offset: int) -> Iterator[tuple[int, int, int]]:
    """Yield (number of entries, begin, end) of the compressed bytes of each block."""
    sync, end = data[offset : offset + 16], len(data)
    offset += 16
    while offset < end:
        count, offset = read_long(data, offset)
        size, offset = read_long(data, offset)
        stop = offset + size
        if count < 0 or size < 0 or data[stop : stop + 16] != sync:
            raise CorruptData("A block of the Avro file is torn.", offset=offset)
        yield count, offset, stop
        offset = stop + 16


# Codecs


def _codec(name: str) -> Callable[[bytes, int], bytes | bytearray]:
    decompress = _CODECS.get(name)
    if decompress is None:
        raise Unsupported(
            f"Cannot read Avro compression codec {name[:40]!r}.",
            hint=f"Known: {', '.join(sorted(_CODECS))}.",
        )
    return decompress


def _deflated(data: bytes, limit: int) -> bytes | bytearray:
    # Deflate shrinks data to a thousandth at best, so these become 64 MiB at most and need no
    # decompression in steps within a limit, which takes twice the time. libdeflate takes half the
    # time of zlib, but needs the size of its output beforehand.
    if len(data) < 1 << 16:
        try:
            return deflate.deflate_decompress(data, min(limit, USUAL_RATIO * len(data)))
        except deflate.DeflateError:
            # the output is larger than USUAL_RATIO says, or the data are damaged, which zlib will
            # report
            return zlib.decompress(data, -15)
    return inflate(data, -15, limit)


def _snappy(data: bytes, limit: int) -> bytes:
    size, _ = _unsigned(data, 0)
    if size > limit or size > 64 * len(data) + 64:
        # a copy element of 3 bytes yields at most 64 bytes
        raise CorruptData("A snappy block claims an impossible size.")
    decompressed = pa.Codec("snappy").decompress(data[:-4], size, asbytes=True)
    if zlib.crc32(decompressed) != int.from_bytes(data[-4:], "big"):
        raise CorruptData("A snappy block fails its checksum.")
    return bytes(decompressed)


def _zstandard(data: bytes, limit: int) -> bytes:
    with pa.CompressedInputStream(pa.BufferReader(data), "zstd") as stream:
        try:
            decompressed = stream.read(limit + 1)
        except OSError as e:
            raise CorruptData(f"A zstandard block is damaged: {e}") from e
    return bytes(decompressed)


def _bzip2(data: bytes, limit: int) -> bytes:
    stream = bz2.BZ2Decompressor()
    return _whole(stream.decompress(data, limit + 1), stream.eof)


def _xz(data: bytes, limit: int) -> bytes:
    stream = lzma.LZMADecompressor(memlimit=1 << 28)
    return _whole(stream.decompress(data, limit + 1), stream.eof)


def _whole(block: bytes, ended: bool) -> bytes:
    if not ended:
        raise CorruptData("A compressed block ends early or is far too large.")
    return block


_CODECS: dict[str, Callable[[bytes, int], bytes | bytearray]] = {
    "null": lambda data, _: data, "deflate": _deflated, "snappy": _snappy, "zstandard": _zstandard, "bzip2": _bzip2, "xz": _xz,
}  # fmt: skip


# Values


def read_long(data: bytes, offset: int) -> tuple[int, int]:
    """Read a zigzag varint; returns it and where it ends. Raises IndexError past the end,
    CorruptData for more than 64 bits.
    """
    byte = data[offset]
    offset += 1
    if byte < 128:
        return (byte >> 1) ^ -(byte & 1), offset
    number, shift = byte & 127, 7
    while True:
        byte = data[offset]
        offset += 1
        number |= (byte & 127) << shift
        if byte < 128:
            break
        shift += 7
        if shift > 63:
            raise CorruptData("An Avro number has more than 64 bits.", offset=offset)
    return (number >> 1) ^ -(number & 1), offset


def _unsigned(data: bytes, offset: int) -> tuple[int, int]:
    number, shift = 0, 0
    while True:
        byte = data[offset]
        offset += 1
        number |= (byte & 127) << shift
        if byte < 128:
            return number, offset
        shift += 7
        if shift > 63:
            raise CorruptData("A number has more than 64 bits.", offset=offset)


def read_bytes(data: bytes, offset: int) -> tuple[bytes, int]:
    """Read bytes behind their length, which is checked against the bytes that are left; returns
    them and where they end.
    """
    size, offset = read_long(data, offset)
    end = offset + size
    if size < 0 or end > len(data):
        raise CorruptData(f"A value claims {size} bytes, more than are left.", offset=offset)
    return data[offset:end], end


def _read_text(data: bytes, offset: int) -> tuple[str, int]:
    encoded, offset = read_bytes(data, offset)
    return encoded.decode(), offset


def _read_null(data: bytes, offset: int) -> tuple[None, int]:
    return None, offset


def _read_boolean(data: bytes, offset: int) -> tuple[bool, int]:
    if (byte := data[offset]) > 1:
        raise CorruptData(f"A boolean has the value {byte}.", offset=offset)
    return byte == 1, offset + 1


def _read_float(data: bytes, offset: int) -> tuple[float, int]:
    return struct.unpack_from("<f", data, offset)[0], offset + 4


def _read_double(data: bytes, offset: int) -> tuple[float, int]:
    return struct.unpack_from("<d", data, offset)[0], offset + 8


_READERS: dict[str, Reader] = {
    "null": _read_null, "boolean": _read_boolean, "int": read_long, "long": read_long, "float": _read_float, "double": _read_double,
    "bytes": read_bytes, "string": _read_text,
}  # fmt: skip


def record_reader(node: AvroNode, names: Collection[str] | None = None) -> Reader:
    """Compile a schema into a function (bytes, offset) -> (value, next offset). With `names`, other
    fields of the record are skipped.
    """
    return _reader(node, None if names is None else frozenset(names))


@functools.lru_cache(maxsize=1024)
def _reader(node: AvroNode, names: frozenset[str] | None = None) -> Reader:
    if node.kind in _READERS:
        return _READERS[node.kind]
    match node.kind:
        case "record":
            return _record(
                tuple((_reader(n), names is None or name in names) for name, _, n in node.fields)
            )
        case "union":
            return _union(
                tuple(_reader(n) for n in node.inside),
                node.inside[0].kind == "null" and len(node.inside) == 2,
            )
        case "array":
            return _array(_reader(node.inside[0]), least_size(node.inside[0]))
        case "map":
            value = _reader(node.inside[0])
            return _array(
                _record(((_read_text, True), (value, True))), 1 + least_size(node.inside[0])
            )
        case "fixed":
            return _fixed(node.size)
        case "enum":
            return _enum(node.symbols)
    raise CorruptData(
        f"Unknown Avro type {node.kind!r}."
    )  # pragma: no cover - _node makes no other


def _record(fields: tuple[tuple[Reader, bool], ...]) -> Reader:
    if all(is_wanted for _, is_wanted in fields):
        readers = tuple(r for r, _ in fields)
        if len(readers) == 2:  # entries of metrics maps, by far the most frequent records
            first, second = readers

            def pair(data: bytes, offset: int) -> tuple[tuple[Any, Any], int]:
                a, offset = first(data, offset)
                b, offset = second(data, offset)
                return (a, b), offset

            return pair

        def whole(data: bytes, offset: int) -> tuple[tuple[Any, ...], int]:
            values = []
            for read in readers:
                value, offset = read(data, offset)
                values.append(value)
            return tuple(values), offset

        return whole

    def some(data: bytes, offset: int) -> tuple[tuple[Any, ...], int]:
        values = []
        for read, is_wanted in fields:
            value, offset = read(data, offset)
            if is_wanted:
                values.append(value)
        return tuple(values), offset

    return some


def _union(branches: tuple[Reader, ...], optional: bool) -> Reader:
    if optional:
        inner = branches[1]

        def maybe(data: bytes, offset: int) -> tuple[Any, int]:
            if (branch := data[offset]) == 0:
                return None, offset + 1
            if branch != 2:
                raise CorruptData(f"A union of two types has branch {branch >> 1}.", offset=offset)
            return inner(data, offset + 1)

        return maybe

    def any_of(data: bytes, offset: int) -> tuple[Any, int]:
        branch, offset = read_long(data, offset)
        if not 0 <= branch < len(branches):
            raise CorruptData(
                f"A union of {len(branches)} types has branch {branch}.", offset=offset
            )
        return branches[branch](data, offset)

    return any_of


def _array(item: Reader, least: int) -> Reader:
    def items(data: bytes, offset: int) -> tuple[list[Any], int]:
        values: list[Any] = []
        while True:
            count, offset = read_long(data, offset)
            if count == 0:
                return values, offset
            if count < 0:
                count = -count
                _, offset = read_long(data, offset)
            # An array of items without bytes may not have more items than the file has bytes.
            if count * max(least, 1) > len(data) - offset:
                raise CorruptData(
                    f"An array claims {count} items, more than fit into the bytes that are left.",
                    offset=offset,
                )
            for _ in range(count):
                value, offset = item(data, offset)
                values.append(value)

    return items


def _fixed(size: int) -> Reader:
    def exactly(data: bytes, offset: int) -> tuple[bytes, int]:
        if offset + size > len(data):
            raise CorruptData(f"A value claims {size} bytes, more than are left.", offset=offset)
        return data[offset : offset + size], offset + size

    return exactly


def _enum(symbols: tuple[str, ...]) -> Reader:
    def one_of(data: bytes, offset: int) -> tuple[str, int]:
        number, offset = read_long(data, offset)
        if not 0 <= number < len(symbols):
            raise CorruptData(
                f"An enum of {len(symbols)} symbols has number {number}.", offset=offset
            )
        return symbols[number], offset

    return one_of


def read_records(container: Container, read: Reader, file: str = "") -> list[Any]:
    """Read all entries of all blocks; every block must hold exactly as many as it claims. Raises
    CorruptData.
    """
    values: list[Any] = []
    with reading("the Avro file", file):
        least = max(least_size(container.schema), 1)
        for count, block in container.blocks:
            if count * least > len(block):
                raise CorruptData(f"A block claims {count} entries in {len(block)} bytes.")
            offset, entries = 0, bytes(block)
            for _ in range(count):
                value, offset = read(entries, offset)
                values.append(value)
            if offset != len(block):
                raise CorruptData(
                    f"A block holds {len(block) - offset} bytes more than its entries take."
                )
    return values
