"""Read ORC data files stripe by stripe.

Where stripes begin is not known before the file is opened, so of the tasks that share a file the
one that begins at 0 reads all of it.

`check_types` reads the column types in a file's footer (ORC specification v1, "File Tail") before
pyarrow opens the file: an impossible decimal would end the process there. A footer that cannot be
read here passes; pyarrow then reports what is wrong with the file.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from pyarrow import orc

from frazil.arrow.files.project import ColumnsPlan, FileField, FileSchema, mapped_schema
from frazil.arrow.files.source import Piece, RawBatch
from frazil.arrow.footers.parquet_footer import read_unsigned
from frazil.codec.guard import inflate
from frazil.errors import CorruptData, Unsupported
from frazil.expr.bound import Bound
from frazil.spec.manifest import DataFile
from frazil.spec.name_mapping import NameMapping, mapping_of
from frazil.spec.schema import Schema
from frazil.storage.base import Storage
from frazil.storage.local import regular_path


@dataclass(frozen=True)
class OrcSource:
    """Read an ORC data file, which is one piece: pyarrow shows no statistics of stripes to prune
    by.
    """

    file: orc.ORCFile
    name: str

    @classmethod
    def open(cls, file: DataFile, storage: Storage) -> OrcSource:
        path = storage.local_path(file.file_path)
        source = (
            pa.OSFile(regular_path(path))
            if path is not None
            else storage.open_input(file.file_path)
        )
        check_types(source, file.file_path)
        return cls(orc.ORCFile(source), file.file_path)

    @property
    def prunes_leaves(self) -> bool:
        return False

    def file_schema(self, mapping: NameMapping | None, columns: Schema) -> FileSchema:
        schema = mapped_schema(self.file.schema, mapping or mapping_of(columns))
        return replace(schema, local_times=True)

    def pieces(self, start: int, length: int | None) -> list[Piece]:
        return [Piece(0, 0, self.file.nrows)] if start == 0 else []

    def prune(
        self,
        pieces: Sequence[Piece],
        fields: Sequence[FileField],
        bound: Bound,
        schema: Schema,
        constants: Mapping[int, Any],
    ) -> list[Piece]:
        return list(pieces)

    def read(
        self, piece: Piece, plan: ColumnsPlan, batch_size: int, threads: bool
    ) -> Iterator[RawBatch]:
        if not plan.fields:
            for start in range(0, piece.rows, batch_size):
                yield (), min(batch_size, piece.rows - start), start
            return
        schema = self.file.schema
        names = [schema.field(i).name for i in plan.fields]
        # pyarrow takes a dot in a name as a step into a struct: read those files whole
        plain = not any("." in n for n in schema.names)
        done = 0
        for number in range(self.file.nstripes):
            stripe = self._stripe(number, names if plain else None)
            if plain and stripe.schema.names != names:
                raise CorruptData(
                    f"Stripe {number} holds the columns {stripe.schema.names}, not {names}."
                )
            for start in range(0, stripe.num_rows, batch_size):
                part = stripe.slice(start, batch_size)
                yield (
                    part.columns if plain else [part.column(i) for i in plan.fields],
                    part.num_rows,
                    done + start,
                )
            done += stripe.num_rows
        if done != piece.rows:
            raise CorruptData(f"The stripes hold {done} rows, the footer says {piece.rows}.")

    def _stripe(self, number: int, columns: list[str] | None) -> pa.RecordBatch:
        try:
            return self.file.read_stripe(number, columns=columns)
        except pa.ArrowInvalid as error:
            if "out of range for nanosecond" not in str(error):
                raise
            raise Unsupported(
                f"{self.name} holds timestamps before 1677 or after 2262, which pyarrow's ORC reader cannot represent.",
                file=self.name,
            ) from error

    def bytes_of(self, piece: Piece, plan: ColumnsPlan) -> int:
        return 0


_TAIL = 16 << 10  # bytes at the end of a file that are read first
_MOST = 64 << 20  # bytes of a decompressed footer, at most
_DECIMAL, _MAX_PRECISION = 14, 38
_NONE, _ZLIB, _SNAPPY, _ZSTD = 0, 1, 2, 5


def check_types(source: pa.NativeFile, file: str) -> None:
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


def _footer(source: pa.NativeFile) -> bytes:
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


def _last(source: pa.NativeFile, size: int, count: int) -> bytes:
    source.seek(max(0, size - count))
    return bytes(source.read(count))


def _plain(data: bytes, kind: object) -> bytes:
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
