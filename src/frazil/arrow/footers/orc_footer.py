"""Check the column types in the footer of an ORC file before pyarrow opens it: an impossible
decimal would end the process there.

Source: ORC specification v1, "File Tail". A footer that cannot be read here passes; pyarrow then
reports what is wrong with the file.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from frazil.arrow.footers.parquet_footer import read_unsigned
from frazil.codec.guard import inflate
from frazil.errors import CorruptData

_TAIL = 16 << 10  # bytes at the end of a file that are read first
_MOST = 64 << 20  # bytes of a decompressed footer, at most
_DECIMAL, _MAX_PRECISION = 14, 38
_NONE, _ZLIB, _SNAPPY, _ZSTD = 0, 1, 2, 5


def check_types(source: Any, file: str) -> None:
    """Check the precision of decimals. Raises CorruptData, naming the file. `source`: random
    access; its position is 0 afterwards.
    """
    try:
        precisions = list(_precisions(_footer(source)))
    except (CorruptData, ValueError, IndexError, zlib.error, pa.ArrowException):
        precisions = []
    finally:
        source.seek(0)
    for precision in precisions:
        if precision > _MAX_PRECISION:
            raise CorruptData(
                f"ORC file {file} is damaged: its footer has a decimal of precision {precision}.",
                file=file,
            )


def _footer(source: Any) -> bytes:
    size = source.size()
    tail = _last(source, size, _TAIL)
    length = tail[-1]
    postscript = dict(_fields(tail[-1 - length : -1]))
    footer, kind = postscript.get(1, 0), postscript.get(2, _NONE)
    if not isinstance(footer, int) or footer > size:
        return b""
    if footer + length + 1 > len(tail):
        tail = _last(source, size, footer + length + 1)
    return _plain(tail[len(tail) - 1 - length - footer : len(tail) - 1 - length], kind)


def _last(source: Any, size: int, count: int) -> bytes:
    source.seek(max(0, size - count))
    return bytes(source.read(count))


def _plain(data: bytes, kind: Any) -> bytes:
    """Decompress a stream of chunks. Three bytes before each hold twice its length, plus one where
    the chunk is not compressed.
    """
    if kind == _NONE:
        return data
    plain = b""
    while data and len(plain) < _MOST:
        head = int.from_bytes(data[:3], "little")
        chunk, data = data[3 : 3 + (head >> 1)], data[3 + (head >> 1) :]
        if head & 1:
            plain += chunk
        elif kind == _ZLIB:
            plain += inflate(chunk, -15, _MOST)
        elif kind == _ZSTD:
            plain += pa.CompressedInputStream(pa.BufferReader(chunk), "zstd").read(_MOST)
        elif kind == _SNAPPY and (size := read_unsigned(chunk, 0)[0]) < _MOST:
            plain += pa.decompress(chunk, size, "snappy", asbytes=True)
        else:
            return b""
    return plain


def _precisions(footer: bytes) -> Iterator[int]:
    for number, value in _fields(footer):
        if number == 4 and isinstance(value, bytes):
            type_ = dict(_fields(value))
            if type_.get(1, 0) == _DECIMAL and isinstance(precision := type_.get(5, 0), int):
                yield precision


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """List the field numbers and values of a protobuf message: varints as integers,
    length-delimited values as bytes.
    """
    offset = 0
    while offset < len(data):
        key, offset = read_unsigned(data, offset)
        match key & 7:
            case 0:
                value, offset = read_unsigned(data, offset)
                yield key >> 3, value
            case 1 | 5:
                offset += 8 if key & 7 == 1 else 4
            case 2:
                length, offset = read_unsigned(data, offset)
                yield key >> 3, data[offset : offset + length]
                offset += length
            case _:
                raise ValueError("not a field of a protobuf message")
