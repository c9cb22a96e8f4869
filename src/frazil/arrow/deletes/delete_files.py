"""Decode delete files and deletion vectors: to row positions of a data file, or to columns of keys
(spec, "Delete Formats").

Everything is checked against the manifest: a delete file with fewer or more rows than its entry
says, or with positions that its data file does not have, is CorruptData. Decoded deletes are cached
for other data files of the same read, within a bound of bytes.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from frazil.arrow.files.project import ColumnsPlan, FileSchema, build, plan_columns
from frazil.arrow.files.read_avro import AvroSource
from frazil.arrow.files.read_orc import OrcSource
from frazil.arrow.files.read_parquet import ParquetSource
from frazil.arrow.files.source import FileReader, reading
from frazil.codec.deletion_vector import positions_array
from frazil.codec.sorted_numbers import distinct, union_of
from frazil.errors import CorruptData, Unsupported
from frazil.scan.delete_ranges import normalised
from frazil.scan.manifests import ByteCache
from frazil.scan.vectors import VectorFile
from frazil.spec.manifest import DataFile
from frazil.spec.name_mapping import MappedField, NameMapping
from frazil.spec.schema import DELETE_FILE_PATH_ID, DELETE_FILE_POS_ID, Schema
from frazil.spec.types import LongType, NestedField, StringType, children
from frazil.storage.base import Storage

T = TypeVar("T")
Positions = npt.NDArray[np.int64]
SOURCES: dict[str, Any] = {"parquet": ParquetSource, "orc": OrcSource, "avro": AvroSource}
BATCH = 131_072
_POSITION_COLUMNS = (
    NestedField(DELETE_FILE_PATH_ID, "file_path", StringType(), True),
    NestedField(DELETE_FILE_POS_ID, "pos", LongType(), True),
)
_BY_NAME = NameMapping(
    (MappedField(("file_path",), DELETE_FILE_PATH_ID), MappedField(("pos",), DELETE_FILE_POS_ID))
)


class DeleteCache(ByteCache):
    """Cache the decoded deletes of one read. A pickled cache arrives empty, so that it does not
    travel with tasks.
    """

    def __init__(self, max_bytes: int):
        super().__init__(max_bytes)
        self._making: dict[Hashable, threading.Lock] = {}

    def get_or_make(self, key: Hashable, make: Callable[[], T], size: Callable[[T], int]) -> T:
        """Return the value of a key, made by `make` where it is missing; threads that ask for the
        same key at once make it once.
        """
        value: T | None = self.get(key)
        if value is not None:
            return value
        with self._lock:
            making = self._making.setdefault(key, threading.Lock())
        with making:
            value = self.get(key)
            if value is None:
                value = make()
                self.put(key, value, size(value))
        with self._lock:
            self._making.pop(key, None)
        return value

    def __reduce__(self) -> Any:
        return DeleteCache, (self.max_bytes,)


def positions_of(
    file: DataFile, deletes: Sequence[DataFile], storage: Storage, cache: DeleteCache
) -> Positions:
    """List the deleted positions of a data file, ascending, each once.

    Raises CorruptData, NoSuchFileError, Unsupported, naming the delete file.
    """
    per_delete = []
    for delete in deletes:
        here = (
            _vector(delete, file, storage, cache)
            if delete.is_dv
            else _from_file(delete, file, storage, cache)
        )
        _check_range(delete, file, here)
        per_delete.append(here)
    return union_of(per_delete)


def _vector(delete: DataFile, file: DataFile, storage: Storage, cache: DeleteCache) -> Positions:
    """Decode the vector of a data file. A change of its rows asks twice: to read the live rows, and
    to write their next vector.
    """
    key = ("vector", delete.file_path, delete.content_offset, file.file_path)
    return cache.get_or_make(
        key,
        lambda: _decoded(delete, file, storage, cache),
        lambda positions: positions.nbytes + 500,
    )


def _decoded(delete: DataFile, file: DataFile, storage: Storage, cache: DeleteCache) -> Positions:
    path, offset, size = delete.file_path, delete.content_offset, delete.content_size_in_bytes
    with reading(path, "puffin"):
        source = cache.get_or_make(
            ("vectors", path),
            lambda: VectorFile.read(path, storage, (offset, size)),
            lambda f: f.nbytes,
        )
        bitmap = source.vector(
            offset,
            size,
            delete.record_count,
            delete.referenced_data_file or file.file_path,
            storage,
        )
        if bitmap and bitmap.max() >= file.record_count:
            # checked before it becomes an array: a few bytes can stand for billions of rows
            rows = f"row {bitmap.max()} of {file.file_path}, which has {file.record_count} rows"
            raise CorruptData(
                f"The deletion vector at {offset} of {path} deletes {rows}.", file=path
            )
        return positions_array(bitmap)


@dataclass(frozen=True, eq=False)
class _PositionFile:
    """Hold the positions of a position delete file, grouped by data file: those of `numbers[path]`
    = n are [ends[n], ends[n + 1]).
    """

    numbers: dict[str, int]
    ends: Positions
    positions: Positions

    def of(self, path: str) -> Positions:
        number = self.numbers.get(path)
        return (
            self.positions[:0]
            if number is None
            else self.positions[self.ends[number] : self.ends[number + 1]]
        )


def _from_file(delete: DataFile, file: DataFile, storage: Storage, cache: DeleteCache) -> Positions:
    wanted = str(normalised(pa.array([file.file_path], pa.string()))[0])
    if delete.record_count * 64 > cache.max_bytes:
        # too large for the cache: only the positions of this data file are kept
        return _grouped(delete, storage, wanted).of(wanted)
    grouped = cache.get_or_make(
        ("positions", delete.file_path),
        lambda: _grouped(delete, storage, None),
        lambda f: f.positions.nbytes + 300 * len(f.numbers) + 500,
    )
    return grouped.of(wanted)


def _grouped(delete: DataFile, storage: Storage, only: str | None) -> _PositionFile:
    numbers: dict[str, int] = {}
    codes, positions = [np.zeros(0, np.int32)], [np.zeros(0, np.int64)]
    with reading(delete.file_path, delete.file_format):
        for names, encoded, places in _position_rows(delete, storage):
            code = np.array(
                [numbers.setdefault(n, len(numbers)) if only in (None, n) else -1 for n in names],
                np.int32,
            )[encoded]
            chosen = slice(None) if only is None else code >= 0
            codes.append(code[chosen])
            positions.append(places[chosen])
    code, place = np.concatenate(codes), np.concatenate(positions)
    order = np.lexsort((place, code))
    code, place = code[order], place[order]
    is_new = np.ones(len(code), bool)  # nothing forbids a writer to delete a row twice in one file
    is_new[1:] = (code[1:] != code[:-1]) | (place[1:] != place[:-1])
    code, place = code[is_new], place[is_new]
    ends = np.concatenate([[0], np.cumsum(np.bincount(code, minlength=len(numbers)))]).astype(
        np.int64
    )
    return _PositionFile(numbers, ends, place)


def _position_rows(
    delete: DataFile, storage: Storage
) -> Iterator[tuple[list[str], npt.NDArray[np.int32], Positions]]:
    """Read a position delete file in batches of (normalised paths, per row the index of its path
    among them, per row its position).
    """
    source, schema = _open(delete, storage, _BY_NAME, _POSITION_COLUMNS)
    plan = plan_columns(
        _POSITION_COLUMNS, schema, {}, prune=source.prunes_leaves, name=delete.file_path
    )
    rows = 0
    for raw, count in _batches(source, plan, delete):
        paths, places = (
            build(p, None if index is None else raw[index], count) for index, p in plan.columns
        )
        rows += count
        if paths.null_count or places.null_count:
            raise CorruptData(
                f"Position delete file {delete.file_path} has a row without a path or a position.",
                file=delete.file_path,
            )
        encoded = paths.dictionary_encode()
        yield (
            normalised(encoded.dictionary).to_pylist(),
            encoded.indices.to_numpy(),
            places.to_numpy(),
        )
    _check_rows(delete, rows)


def position_batches(
    delete: DataFile, files: Sequence[DataFile], storage: Storage
) -> Iterator[tuple[str, Positions]]:
    """Read the positions that a position delete file has for some data files, in small pieces of
    (path of the data file, positions).

    The positions of a piece ascend; a data file may have several pieces. Raises CorruptData,
    NoSuchFileError, Unsupported, naming the delete file.
    """
    wanted = dict(
        zip(
            normalised(pa.array([f.file_path for f in files], pa.string())).to_pylist(),
            files,
            strict=True,
        )
    )
    with reading(delete.file_path, delete.file_format):
        for names, encoded, places in _position_rows(delete, storage):
            for number, name in enumerate(names):
                if (file := wanted.get(name)) is not None:
                    positions = distinct(places[encoded == number])
                    _check_range(delete, file, positions)
                    yield file.file_path, positions


def _check_range(delete: DataFile, file: DataFile, positions: Positions) -> None:
    if len(positions) and (int(positions[0]) < 0 or int(positions[-1]) >= file.record_count):
        bad = int(positions[0]) if int(positions[0]) < 0 else int(positions[-1])
        raise CorruptData(
            f"Delete file {delete.file_path} deletes row {bad} of {file.file_path}, which has {file.record_count} rows.",
            file=delete.file_path,
            data_file=file.file_path,
        )


def _check_rows(delete: DataFile, rows: int) -> None:
    if rows != delete.record_count:
        text = f"Delete file {delete.file_path} holds {rows} rows, its manifest says {delete.record_count}."
        raise CorruptData(text, file=delete.file_path)


def _open(
    delete: DataFile,
    storage: Storage,
    mapping: NameMapping | None,
    columns: tuple[NestedField, ...],
) -> tuple[FileReader, FileSchema]:
    if delete.key_metadata:
        raise Unsupported(
            f"Delete file {delete.file_path} is encrypted; Frazil does not read encrypted files.",
            file=delete.file_path,
        )
    if delete.file_format not in SOURCES:
        text = f"Delete file {delete.file_path} has format {delete.file_format}; supported are parquet, orc, avro, and puffin for vectors."
        raise Unsupported(text, file=delete.file_path)
    source: FileReader = SOURCES[delete.file_format].open(delete, storage)
    return source, source.file_schema(mapping, Schema(*columns))


def _batches(
    source: FileReader, plan: ColumnsPlan, delete: DataFile
) -> Iterator[tuple[Sequence[pa.Array], int]]:
    """Read batches of a delete file, and stop as soon as it holds more rows than its manifest entry
    says, whatever the file claims.
    """
    left = delete.record_count
    for piece in source.pieces(0, None):
        for raw, count, _ in source.read(piece, plan, BATCH, False):
            left -= count
            if left < 0:
                text = f"Delete file {delete.file_path} holds more rows than its manifest entry says ({delete.record_count})."
                raise CorruptData(text, file=delete.file_path)
            yield raw, count


def keys_of(
    delete: DataFile,
    ids: Sequence[int],
    fields: tuple[NestedField, ...],
    storage: Storage,
    mapping: NameMapping | None,
) -> Iterator[list[pa.Array]]:
    """Read the key columns of an equality delete file in batches, in the order of `ids`. A key that
    the file lacks is its default, else null, as in Java; where the table requires it, an error.

    `fields`: the top-level columns that hold the keys, projected to nothing else.
    """
    with reading(delete.file_path, delete.file_format):
        source, schema = _open(delete, storage, mapping, fields)
        plan = plan_columns(fields, schema, {}, prune=source.prunes_leaves, name=delete.file_path)
        rows = 0
        for raw, count in _batches(source, plan, delete):
            columns = [
                build(p, None if index is None else raw[index], count) for index, p in plan.columns
            ]
            rows += count
            yield [key_column(columns, fields, i) for i in ids]
        _check_rows(delete, rows)


def key_column(
    columns: Sequence[pa.Array], fields: Sequence[NestedField], field_id: int
) -> pa.Array:
    """Find a column by field id, at any depth of structs; its value is null where a struct around
    it is null.
    """
    index = next(i for i, f in enumerate(fields) if f.field_id == field_id or _holds(f, field_id))
    array, field = columns[index], fields[index]
    while field.field_id != field_id:
        members: tuple[NestedField, ...] = children(field.field_type)
        index = next(
            i for i, f in enumerate(members) if f.field_id == field_id or _holds(f, field_id)
        )
        array, field = array.flatten()[index], members[index]
    return array


def _holds(field: NestedField, field_id: int) -> bool:
    return any(f.field_id == field_id or _holds(f, field_id) for f in children(field.field_type))
