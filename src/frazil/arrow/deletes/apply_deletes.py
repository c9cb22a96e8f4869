"""Apply row-level deletes to the batches of one data file: position deletes and deletion vectors by
row number, equality deletes by key.

Keys are compared by field id, in the widest type that the column ever had. So renamed, dropped and
widened columns, and time travel to before such a change, all compare the same values. A data file
that is older than a key column has the column's default (or null) there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from frazil.arrow.deletes.delete_files import (
    DeleteCache,
    Positions,
    key_column,
    keys_of,
    positions_of,
)
from frazil.arrow.deletes.key_set import KEY_BYTES, KeySet, SpilledKeys, canonical
from frazil.arrow.values.arrow_schema import to_arrow_type
from frazil.arrow.values.casts import leaf_conversion
from frazil.errors import CorruptData, Unsupported
from frazil.spec.manifest import DataFile, DataFileContent
from frazil.spec.name_mapping import NameMapping
from frazil.spec.schema import Schema
from frazil.spec.types import IcebergType, NestedField, StructType, children, with_children
from frazil.storage.base import Storage

Flags = npt.NDArray[np.bool_]


# Schemas
# --------------------------------------------------------------------------------------------------


def key_schema(schemas: Iterable[Schema], own: Schema) -> Schema:
    """Collect all columns that a table ever had, by field id, each as the newest schema that has
    it; optional, but for those that the schema of the read, `own`, requires.

    Equality deletes may compare columns that the current schema has dropped.
    """
    columns: tuple[NestedField, ...] = ()
    for schema in sorted(schemas, key=lambda s: s.schema_id, reverse=True):
        columns = _joined(columns, schema.fields)
    of_read = {f.field_id: f for f in own.fields}
    return Schema(
        *(
            replace(_optional(f), name=field.name, required=field.required)
            if (field := of_read.get(f.field_id)) is not None
            else _optional(f)
            for f in columns
        )
    )


def widened(own: Schema, keys: Schema) -> Schema:
    """Add to a schema the columns of another that it lacks, at any level of its structs."""
    return Schema(*_joined(own.fields, keys.fields), schema_id=own.schema_id)


def _joined(
    first: tuple[NestedField, ...], added: tuple[NestedField, ...]
) -> tuple[NestedField, ...]:
    """Join fields by id; where both have one, the first's stays. Added fields get names that no
    column can have.
    """
    by_id = {field.field_id: field for field in added}
    first_ids = {field.field_id for field in first}
    joined = []
    for field in first:
        other = by_id.get(field.field_id)
        if (
            other is not None
            and isinstance(field.field_type, StructType)
            and isinstance(other.field_type, StructType)
        ):
            field = replace(
                field,
                field_type=StructType(*_joined(field.field_type.fields, other.field_type.fields)),
            )
        joined.append(field)
    return (
        *joined,
        *(
            replace(_optional(field), name=f"\0{field.field_id}")
            for field in added
            if field.field_id not in first_ids
        ),
    )


def _optional(f: NestedField) -> NestedField:
    inner = (
        tuple(_optional(c) for c in children(f.field_type))
        if isinstance(f.field_type, StructType)
        else ()
    )
    return replace(
        f, required=False, field_type=with_children(f.field_type, inner) if inner else f.field_type
    )


# One data file
# --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class KeyTest:
    """Test rows against equality deletes that compare the same columns: their keys, and per column
    the conversion to the keys' type.
    """

    ids: tuple[int, ...]
    keys: KeySet | SpilledKeys
    converts: tuple[Callable[[pa.Array], pa.Array], ...]

    def deleted(self, columns: Sequence[pa.Array], fields: Sequence[NestedField]) -> Flags:
        pairs = zip(self.ids, self.converts, strict=True)
        return self.keys.has(
            [
                canonical(convert(key_column(columns, fields, field_id)))
                for field_id, convert in pairs
            ]
        )


@dataclass(frozen=True, eq=False)
class RowDeletes:
    """Hold what is deleted from one data file: positions of rows, ascending, and sets of keys whose
    rows are deleted.
    """

    positions: Positions
    tests: tuple[KeyTest, ...] = ()

    @property
    def key_ids(self) -> set[int]:
        """List the columns that must be read to apply the equality deletes."""
        return {i for t in self.tests for i in t.ids}

    def by_position(self, first: int, count: int) -> Flags | None:
        """Flag the rows of [first, first + count) that are deleted by position; None when none is."""
        begin, end = np.searchsorted(self.positions, (first, first + count))
        if begin == end:
            return None
        flags = np.zeros(count, bool)
        flags[self.positions[begin:end] - first] = True
        return flags

    def deleted(
        self,
        first: int,
        count: int,
        columns: Sequence[pa.Array] = (),
        fields: Sequence[NestedField] = (),
    ) -> Flags | None:
        """Flag the deleted rows of a batch that begins at row `first` of the file; `columns` hold
        the keys. None when no row is deleted.
        """
        flags = self.by_position(first, count)
        for test in self.tests:
            here = test.deleted(columns, fields)
            if here.any():
                flags = here if flags is None else flags | here
        return flags


def deletes_of(
    file: DataFile,
    deletes: Sequence[DataFile],
    *,
    storage: Storage,
    cache: DeleteCache,
    data_schema: Schema,
    keys: Schema | None,
    mapping: NameMapping | None,
    limit: int,
) -> RowDeletes:
    """Decode the delete files and deletion vectors that apply to a data file.

    `keys`: the `key_schema` of the table, needed for equality deletes. `limit`: bytes for sets of
    keys; a set that needs more than a quarter of it goes to disk. Raises CorruptData,
    NoSuchFileError and Unsupported, naming the delete file.
    """
    positional = [d for d in deletes if d.content == DataFileContent.POSITION_DELETES]
    by_ids: dict[tuple[int, ...], list[DataFile]] = {}
    for delete in deletes:
        if delete.content == DataFileContent.EQUALITY_DELETES:
            by_ids.setdefault(tuple(sorted(set(delete.equality_ids or ()))), []).append(delete)
    positions = positions_of(file, positional, storage, cache)
    if not by_ids:
        return RowDeletes(positions)
    if keys is None:
        raise Unsupported(
            f"{file.file_path} has equality deletes, but this read was planned without them.",
            file=file.file_path,
        )
    tests: list[KeyTest] = []
    for ids, files in by_ids.items():
        types = [_key_type(keys, i, files[0]) for i in ids]
        converts = tuple(
            _conversion(data_schema, i, t, files[0]) for i, t in zip(ids, types, strict=True)
        )
        source = _KeySource(ids, keys.project(ids).fields, storage, cache, mapping, limit)
        tests.extend(KeyTest(ids, source.set_of(block), converts) for block in blocks(files))
    return RowDeletes(positions, tuple(t for t in tests if len(t.keys)))


def _key_type(keys: Schema, field_id: int, delete: DataFile) -> IcebergType:
    field = keys.by_id.get(field_id)
    if field is None:
        text = f"Equality delete file {delete.file_path} compares column {field_id}, which no schema of the table has."
        raise CorruptData(text, file=delete.file_path, field_id=field_id)
    around = [keys.by_id[p].field_type for p in keys.parents[field_id]]
    if not field.field_type.is_primitive or not all(isinstance(t, StructType) for t in around):
        text = f"Equality delete file {delete.file_path} compares column {field_id}, which is {field.field_type} or inside a list or map."
        raise CorruptData(text, file=delete.file_path, field_id=field_id)
    return field.field_type


def _conversion(
    data: Schema, field_id: int, widest: IcebergType, delete: DataFile
) -> Callable[[pa.Array], pa.Array]:
    """Convert a column from its type in this read to the widest type that it ever had."""
    have = to_arrow_type(data.by_id[field_id].field_type)
    convert = (lambda a: a) if have == to_arrow_type(widest) else leaf_conversion(have, widest)
    if convert is None:
        text = f"Column {field_id} is {have} in this read and {widest} in equality delete file {delete.file_path}; they cannot be compared."
        raise CorruptData(text, file=delete.file_path, field_id=field_id)
    return convert


def blocks(files: Sequence[DataFile]) -> Iterator[tuple[DataFile, ...]]:
    """Split the delete files into runs whose lengths are powers of two, the largest at the end.

    Files are ordered by age, and an older data file has all deletes of a younger one and some
    before them. So data files share most runs and the sets of keys made of them, and a long history
    of small deletes costs n log n instead of one set per data file.
    """
    end = len(files)
    while end:
        length = 1 << (end.bit_length() - 1)
        yield tuple(files[end - length : end])
        end -= length


@dataclass(frozen=True, eq=False)
class _KeySource:
    """Make sets of keys out of equality delete files, which are decoded once as long as the cache
    holds them.
    """

    ids: tuple[int, ...]
    fields: tuple[NestedField, ...]
    storage: Storage
    cache: DeleteCache
    mapping: NameMapping | None
    limit: int

    def set_of(self, files: tuple[DataFile, ...]) -> KeySet | SpilledKeys:
        """Make, or take from the cache, the set of the keys of all these delete files."""
        key = ("set", self.ids, tuple(d.file_path for d in files))
        return self.cache.get_or_make(key, lambda: self._made(files), lambda s: s.nbytes + 500)

    def _made(self, files: tuple[DataFile, ...]) -> KeySet | SpilledKeys:
        size = sum(
            d.record_count * KEY_BYTES
            + max(8 * len(self.ids) * d.record_count, 3 * d.file_size_in_bytes)
            for d in files
        )
        if size > self.limit // 4:  # too large for the cache to keep
            return SpilledKeys.of((b for d in files for b in self._batches(d)), size)
        parts = [p for d in files if len((p := self._decoded(d))[0])]
        if not parts:
            return KeySet.of([pa.nulls(0, pa.int64()) for _ in self.ids])
        return KeySet.of([pa.concat_arrays(list(c)) for c in zip(*parts, strict=True)])

    def _decoded(self, delete: DataFile) -> list[pa.Array]:
        def decoded() -> list[pa.Array]:
            parts = list(self._batches(delete))
            return (
                [pa.concat_arrays(list(c)) for c in zip(*parts, strict=True)]
                if parts
                else [pa.nulls(0) for _ in self.ids]
            )

        return self.cache.get_or_make(
            ("keys", delete.file_path, self.ids),
            decoded,
            lambda keys: sum(c.nbytes for c in keys) + 500,
        )

    def _batches(self, delete: DataFile) -> Iterator[list[pa.Array]]:
        for batch in keys_of(delete, self.ids, self.fields, self.storage, self.mapping):
            yield [canonical(c) for c in batch]


__all__ = ["KeyTest", "RowDeletes", "deletes_of", "key_schema", "widened"]
