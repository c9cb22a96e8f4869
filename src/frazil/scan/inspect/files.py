"""Build the metadata tables of files and manifest entries: files, data_files, delete_files,
entries, and their `all_` forms. Their column `readable_metrics` holds counts and decoded bounds of
every leaf column, by name.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from frazil.expr.building import scalar
from frazil.scan.bounds import MapColumn, decode_bounds
from frazil.scan.columns import unified_partition_type
from frazil.scan.inspect.partition_type import (
    coerce_partition,
    documented,
    partition_arrow_type,
    partition_struct,
    shown_type,
    shown_values,
)
from frazil.scan.manifests import column_of, each, is_data, live, manifests_of, packs_of, read_pack
from frazil.scan.options import default_workers
from frazil.spec.manifest import ManifestFile
from frazil.spec.metadata import TableMetadata
from frazil.spec.schema import Schema
from frazil.spec.snapshot import Snapshot
from frazil.spec.types import IcebergType, StructType, VariantType
from frazil.storage import Storage

Choose = Callable[[ManifestFile], bool]
_COUNTS = pa.map_(pa.int32(), pa.field("value", pa.int64(), False))
_BYTES = pa.map_(pa.int32(), pa.field("value", pa.binary(), False))
_FILE_FIELDS = (
    pa.field("content", pa.int32()), pa.field("file_path", pa.string(), False), pa.field("file_format", pa.string(), False),
    pa.field("spec_id", pa.int32()), pa.field("partition", pa.null()), pa.field("record_count", pa.int64(), False),
    pa.field("file_size_in_bytes", pa.int64(), False), pa.field("column_sizes", _COUNTS), pa.field("value_counts", _COUNTS),
    pa.field("null_value_counts", _COUNTS), pa.field("nan_value_counts", _COUNTS), pa.field("lower_bounds", _BYTES),
    pa.field("upper_bounds", _BYTES), pa.field("key_metadata", pa.binary()),
    pa.field("split_offsets", pa.list_(pa.field("element", pa.int64(), False))),
    pa.field("equality_ids", pa.list_(pa.field("element", pa.int32(), False))), pa.field("sort_order_id", pa.int32()),
    pa.field("first_row_id", pa.int64()), pa.field("referenced_data_file", pa.string()), pa.field("content_offset", pa.int64()),
    pa.field("content_size_in_bytes", pa.int64()),
)  # fmt: skip
_COMMENTS = {
    "content": "0: data, 1: position deletes, 2: equality deletes",
    "file_path": "Location of the file",
    "file_format": "Format of the file: parquet, orc, avro or puffin",
    "spec_id": "Id of the partition spec of the file",
    "partition": "Partition of the file, with the fields of all partition specs",
    "record_count": "Number of rows, or of deletes, in the file",
    "file_size_in_bytes": "Size of the file in bytes",
    "column_sizes": "Bytes of each column, by field id",
    "value_counts": "Number of values of each column, nulls and NaN included, by field id",
    "null_value_counts": "Number of nulls in each column, by field id",
    "nan_value_counts": "Number of NaN values in each column, by field id",
    "lower_bounds": "Lower bound of each column, as bytes, by field id",
    "upper_bounds": "Upper bound of each column, as bytes, by field id",
    "key_metadata": "What an encrypted file is decrypted with",
    "split_offsets": "Offsets at which the file can be split",
    "equality_ids": "Field ids of the columns by which equality deletes match rows",
    "sort_order_id": "Id of the sort order of the file",
    "first_row_id": "Row id of the first row in the file",
    "referenced_data_file": "Location of the one data file that the deletes are for",
    "content_offset": "Where in the file the deletion vector begins",
    "content_size_in_bytes": "Size of the deletion vector in bytes",
    "readable_metrics": "Counts, sizes and bounds of each column, by its name",
}
_ENTRY_FIELDS = (
    pa.field("status", pa.int32(), False), pa.field("snapshot_id", pa.int64()), pa.field("sequence_number", pa.int64()),
    pa.field("file_sequence_number", pa.int64()),
)  # fmt: skip


def any_manifest(manifest: ManifestFile) -> bool:
    return True


def data_manifest(manifest: ManifestFile) -> bool:
    return is_data(manifest)


def delete_manifest(manifest: ManifestFile) -> bool:
    return not is_data(manifest)


def file_fields(unified: StructType) -> list[pa.Field]:
    """Return Java's columns; `partition` is left out when no spec has a field."""
    partition = pa.field("partition", partition_arrow_type(unified), False)
    return [
        partition if f.name == "partition" else f
        for f in _FILE_FIELDS
        if f.name != "partition" or unified.fields
    ]


def files_schema(metadata: TableMetadata) -> pa.Schema:
    unified = unified_partition_type(metadata)
    metrics = pa.field("readable_metrics", readable_type(metadata.schema()))
    return pa.schema(documented([*file_fields(unified), metrics], _COMMENTS))


def entries_schema(metadata: TableMetadata) -> pa.Schema:
    data_file = pa.field(
        "data_file", pa.struct(file_fields(unified_partition_type(metadata))), False
    )
    metrics = pa.field("readable_metrics", readable_type(metadata.schema()))
    return pa.schema([*_ENTRY_FIELDS, data_file, *documented([metrics], _COMMENTS)])


def files(
    metadata: TableMetadata,
    storage: Storage,
    snapshot: Snapshot | None,
    choose: Choose = any_manifest,
) -> pa.Table:
    """List the live files of a snapshot."""
    listed = manifests_of(metadata, snapshot, storage) if snapshot else ()
    return _read(metadata, storage, filter(choose, listed), files_schema(metadata), _file_batch)


def all_files(metadata: TableMetadata, storage: Storage, choose: Choose = any_manifest) -> pa.Table:
    """List the live files of every manifest that a kept snapshot lists; a file may come more than
    once, as in Java.
    """
    return _read(
        metadata,
        storage,
        filter(choose, _all_manifests(metadata, storage)),
        files_schema(metadata),
        _file_batch,
    )


def entries(metadata: TableMetadata, storage: Storage, snapshot: Snapshot | None) -> pa.Table:
    """List all entries of a snapshot's manifests, including removed files."""
    listed = manifests_of(metadata, snapshot, storage) if snapshot else ()
    return _read(metadata, storage, listed, entries_schema(metadata), _entry_batch)


def all_entries(metadata: TableMetadata, storage: Storage) -> pa.Table:
    return _read(
        metadata, storage, _all_manifests(metadata, storage), entries_schema(metadata), _entry_batch
    )


def _all_manifests(metadata: TableMetadata, storage: Storage) -> Iterable[ManifestFile]:
    """List the manifests of all kept snapshots, each once."""
    manifest_by_path: dict[str, ManifestFile] = {}
    for snapshot in metadata.snapshots:
        for manifest in manifests_of(metadata, snapshot, storage):
            manifest_by_path.setdefault(manifest.manifest_path, manifest)
    return manifest_by_path.values()


class Repeats:
    """Replace an array by the equal one of an earlier manifest. Threads may share this object: one
    that misses an array keeps its own.
    """

    __slots__ = ("_before",)

    def __init__(self) -> None:
        self._before: dict[Hashable, pa.Array] = {}

    def same(self, purpose: Hashable, array: pa.Array) -> pa.Array:
        """Return the last array kept for this purpose, type and length when it holds the same
        values, otherwise `array`.
        """
        if array.null_count == len(array):
            purpose = "nulls"
        elif pa.types.is_floating(array.type):
            return array  # `equals` takes 0.0 for -0.0
        key = (purpose, array.type, len(array))
        before = self._before.get(key)
        if before is not None and before.equals(array):
            return before
        self._before[key] = array
        return array


Batch = Callable[[pa.Table, int, StructType, TableMetadata, pa.Schema, Repeats], pa.Table]


def _read(
    metadata: TableMetadata,
    storage: Storage,
    chosen: Iterable[ManifestFile],
    schema: pa.Schema,
    batch: Batch,
) -> pa.Table:
    unified = unified_partition_type(metadata)
    repeats, packs = Repeats(), packs_of(chosen)

    def batches(pack: Sequence[ManifestFile]) -> list[pa.Table]:
        return [
            batch(t, pack[0].partition_spec_id, unified, metadata, schema, repeats)
            for t in _together(read_pack(storage, pack))
        ]

    read = itertools.chain.from_iterable(each(batches, packs, default_workers()))
    tables = [t for t in read if t.num_rows]
    return pa.concat_tables(tables) if tables else schema.empty_table()


def _together(tables: Sequence[pa.Table]) -> Iterator[pa.Table]:
    """Join neighbouring tables of one schema: building the columns takes as long for one row as for
    thousands.
    """
    for _, alike in itertools.groupby(tables, lambda t: t.schema):
        yield pa.concat_tables(alike).combine_chunks()


def file_arrays(
    table: pa.Table, spec_id: int, unified: StructType, repeats: Repeats
) -> list[pa.Array]:
    """Build the columns of `file_fields` for decoded entries."""
    arrays = []
    for field in file_fields(unified):
        match field.name:
            case "spec_id":
                arrays.append(
                    repeats.same("spec_id", pa.repeat(scalar(spec_id, pa.int32()), table.num_rows))
                )
            case "partition":
                arrays.append(
                    partition_struct(
                        coerce_partition(column_of(table, "partition"), unified), unified
                    )
                )
            case "file_format":
                arrays.append(
                    repeats.same("file_format", pc.utf8_upper(column_of(table, "file_format")))
                )
            case name if pa.types.is_map(field.type):
                arrays.append(_to_map(column_of(table, name), field.type, name, repeats))
            case name:
                arrays.append(repeats.same(name, _as(column_of(table, name), field.type)))
    return arrays


def _as(values: pa.Array, type_: pa.DataType) -> pa.Array:
    return values if values.type == type_ else values.cast(type_)


def _to_map(values: pa.Array, type_: pa.MapType, name: str, repeats: Repeats) -> pa.Array:
    """View `list<struct<key, value>>` as a map, without copying a value."""
    pairs = values.values
    keys, items = _as(pairs.field(0), type_.key_type), _as(pairs.field(1), type_.item_type)
    children = [repeats.same("keys", keys), repeats.same((name, "items"), items)]
    struct = pa.StructArray.from_arrays(
        children, fields=[pa.field("key", type_.key_type, False), type_.item_field]
    )
    return pa.Array.from_buffers(
        type_, len(values), values.buffers()[:2], offset=values.offset, children=[struct]
    )


def _file_batch(
    table: pa.Table,
    spec_id: int,
    unified: StructType,
    metadata: TableMetadata,
    schema: pa.Schema,
    repeats: Repeats,
) -> pa.Table:
    alive = live(table)
    readable = readable_metrics(alive, metadata.schema(), repeats)
    return pa.Table.from_arrays(
        [*file_arrays(alive, spec_id, unified, repeats), readable], schema=schema
    )


def _entry_batch(
    table: pa.Table,
    spec_id: int,
    unified: StructType,
    metadata: TableMetadata,
    schema: pa.Schema,
    repeats: Repeats,
) -> pa.Table:
    data_file = pa.StructArray.from_arrays(
        file_arrays(table, spec_id, unified, repeats), fields=file_fields(unified)
    )
    arrays = [repeats.same(f.name, column_of(table, f.name)) for f in _ENTRY_FIELDS]
    return pa.Table.from_arrays(
        [*arrays, data_file, readable_metrics(table, metadata.schema(), repeats)], schema=schema
    )


_READABLE_COUNTS = (
    ("column_size", "column_sizes"), ("value_count", "value_counts"), ("null_value_count", "null_value_counts"),
    ("nan_value_count", "nan_value_counts"),
)  # fmt: skip
_BOUNDS = (("lower_bound", "lower_bounds"), ("upper_bound", "upper_bounds"))
METRIC_COLUMNS = tuple(column for _, column in (*_READABLE_COUNTS, *_BOUNDS))


def _leaves(schema: Schema) -> list[tuple[str, int, IcebergType]]:
    """List (full name, id, type) of the primitive columns at any depth, in Java's order of names
    (by UTF-16).
    """
    named = [
        (schema.find_column_name(i) or str(i), i, f.field_type) for i, f in schema.by_id.items()
    ]
    leaves = [
        leaf for leaf in named if leaf[2].is_primitive and not isinstance(leaf[2], VariantType)
    ]
    return sorted(leaves, key=lambda leaf: leaf[0].encode("utf-16-be", "surrogatepass"))


def _metric_type(type_: IcebergType) -> pa.StructType:
    counts = [pa.field(name, pa.int64()) for name, _ in _READABLE_COUNTS]
    return pa.struct([*counts, *(pa.field(name, shown_type(type_)) for name, _ in _BOUNDS)])


def readable_type(schema: Schema) -> pa.StructType:
    return pa.struct([pa.field(name, _metric_type(type_)) for name, _, type_ in _leaves(schema)])


def readable_metrics(entries: pa.Table, schema: Schema, repeats: Repeats) -> pa.Array:
    """Return one struct per row, with null for a count or bound that a file lacks or that cannot be
    of the column's type.
    """
    metrics = {column: MapColumn(entries.column(column)) for column in METRIC_COLUMNS}
    structs = []
    for _, field_id, type_ in _leaves(schema):
        children = [
            repeats.same((field_id, column), metrics[column].at(field_id))
            for _, column in _READABLE_COUNTS
        ]
        for _, column in _BOUNDS:
            values = shown_values(decode_bounds(metrics[column].at(field_id), type_), type_)
            children.append(repeats.same((field_id, column), values))
        structs.append(pa.StructArray.from_arrays(children, fields=list(_metric_type(type_))))
    if not structs:
        return pa.Array.from_buffers(pa.struct([]), entries.num_rows, [None])
    return pa.StructArray.from_arrays(structs, fields=list(readable_type(schema)))
