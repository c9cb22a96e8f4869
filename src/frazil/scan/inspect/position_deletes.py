"""Build the metadata table `position_deletes`: every deleted position, from position delete files
and deletion vectors.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.orc as orc
import pyarrow.parquet as pq

from frazil.codec.avro import read_container
from frazil.codec.avro_arrow import read_columns
from frazil.codec.deletion_vector import positions_array
from frazil.errors import CorruptData, FrazilError, Unsupported
from frazil.scan.columns import unified_partition_type
from frazil.scan.inspect.files import delete_manifest
from frazil.scan.inspect.partition_type import (
    coerce_partition,
    documented,
    partition_arrow_type,
    partition_struct,
    shown_type,
    shown_values,
)
from frazil.scan.manifests import (
    DELETE,
    PLAN_COLUMNS,
    column_of,
    each,
    live,
    manifests_of,
    read_manifest,
)
from frazil.scan.options import default_workers
from frazil.scan.vectors import VectorFile
from frazil.spec.manifest import DataFileContent, ManifestFile
from frazil.spec.metadata import TableMetadata
from frazil.spec.snapshot import Snapshot
from frazil.spec.types import (
    IcebergType,
    ListType,
    MapType,
    StructType,
    UnknownType,
    UUIDType,
    VariantType,
)
from frazil.storage import Storage
from frazil.storage.base import system_error

_COMMENTS = {
    "file_path": "Location of the data file that a deleted row is in",
    "pos": "Position of the deleted row in the data file",
    "row": "Values of the deleted row, where the delete file has them",
    "partition": "Partition of the deleted row",
    "spec_id": "Id of the partition spec of the delete file",
    "delete_file_path": "Location of the delete file",
    "content_offset": "Where in the delete file the deletion vector begins",
    "content_size_in_bytes": "Size of the deletion vector in bytes",
}


def position_deletes_schema(metadata: TableMetadata) -> pa.Schema:
    """Return Java's columns: `partition` only when a spec has a field, offset and size of deletion
    vectors from format version 3 on.
    """
    unified = unified_partition_type(metadata)
    partition = (
        [pa.field("partition", partition_arrow_type(unified), False)] if unified.fields else []
    )
    vector = (
        [pa.field("content_offset", pa.int64()), pa.field("content_size_in_bytes", pa.int64())]
        if metadata.format_version >= 3
        else []
    )
    fields = [
        pa.field("file_path", pa.string(), False),
        pa.field("pos", pa.int64(), False),
        pa.field("row", shown_type(_row_type(metadata))),
        *partition,
        pa.field("spec_id", pa.int32(), False),
        pa.field("delete_file_path", pa.string(), False),
        *vector,
    ]
    return pa.schema(documented(fields, _COMMENTS))


def position_deletes(
    metadata: TableMetadata, storage: Storage, snapshot: Snapshot | None
) -> pa.Table:
    """List the deleted positions of a snapshot. `row` is null except where a Parquet delete file
    carries the deleted rows; ORC and Avro delete files that carry them are refused (Unsupported).
    """
    schema, unified = position_deletes_schema(metadata), unified_partition_type(metadata)
    chosen = (
        [
            m
            for m in manifests_of(metadata, snapshot, storage)
            if delete_manifest(m) and m.has_live_files
        ]
        if snapshot
        else []
    )
    work = partial(
        _manifest, storage=storage, unified=unified, schema=schema, row_type=_row_type(metadata)
    )
    tables = [t for part in each(work, chosen, default_workers()) for t in part]
    return pa.concat_tables(tables) if tables else schema.empty_table()


def _manifest(
    manifest: ManifestFile,
    *,
    storage: Storage,
    unified: StructType,
    schema: pa.Schema,
    row_type: StructType,
) -> list[pa.Table]:
    entries = live(read_manifest(storage, manifest, (*PLAN_COLUMNS, *DELETE)))
    entries = entries.filter(
        pc.equal(entries.column("content"), int(DataFileContent.POSITION_DELETES))
    ).combine_chunks()
    if not entries.num_rows:
        return []
    partitions = coerce_partition(column_of(entries, "partition"), unified)
    rows = entries.drop_columns(["partition"]).to_pylist()
    tables = []
    vectors: dict[str, VectorFile] = {}
    for row_number, row in enumerate(rows):
        for places in _positions(row, storage, row_type, vectors):
            partition = [
                c.take(pa.repeat(pa.scalar(row_number), len(places.positions))) for c in partitions
            ]
            tables.append(
                _table(places, partition, row, manifest.partition_spec_id, unified, schema)
            )
    return tables


@dataclass(frozen=True)
class _Places:
    """Hold deleted positions in data files. `rows`: the deleted rows, if the delete file carries
    them.
    """

    paths: pa.Array
    positions: pa.Array
    rows: pa.Array | None = None


def _table(
    places: _Places,
    partition: list[pa.Array],
    row: dict[str, Any],
    spec_id: int,
    unified: StructType,
    schema: pa.Schema,
) -> pa.Table:
    count = len(places.positions)
    columns: list[pa.Array] = []
    for field in schema:
        match field.name:
            case "file_path":
                columns.append(places.paths)
            case "pos":
                columns.append(places.positions)
            case "row":
                columns.append(pa.nulls(count, field.type) if places.rows is None else places.rows)
            case "partition":
                columns.append(partition_struct(partition, unified))
            case "spec_id":
                columns.append(pa.repeat(pa.scalar(spec_id, pa.int32()), count))
            case "delete_file_path":
                columns.append(pa.repeat(pa.scalar(row["file_path"]), count))
            case name:
                columns.append(pa.repeat(pa.scalar(row[name], pa.int64()), count))
    return pa.Table.from_arrays(columns, schema=schema)


def _row_type(metadata: TableMetadata) -> StructType:
    """Make all of the table's columns optional: engines refuse a null struct around required
    columns.
    """
    return StructType(*(replace(f, required=False) for f in metadata.schema().fields))


def _positions(
    row: dict[str, Any],
    storage: Storage,
    row_type: StructType,
    vectors: dict[str, VectorFile] | None = None,
) -> Iterator[_Places]:
    """Yield the positions that one delete file deletes, in its order. `vectors`: Puffin files of
    this manifest that were read before.
    """
    path, kind = row["file_path"], row["file_format"]
    if row["key_metadata"] is not None:
        raise Unsupported(
            f"Delete file {path} is encrypted; encrypted tables are not supported.", file=path
        )
    if kind == "puffin":
        yield _vector(row, {} if vectors is None else vectors, storage)
        return
    try:
        with storage.open_input(path) as source:
            table = _READERS[kind](source, path)
            rows = (
                [project(b.column("row"), row_type) for b in table.to_batches()]
                if "row" in table.column_names
                else None
            )
    except FrazilError:
        raise
    except KeyError as e:
        raise CorruptData(
            f"Position delete file {path} has an unknown format ({kind}) or lacks a column: {e}",
            file=path,
        ) from e
    except OSError as e:
        if e.errno is not None:
            raise system_error(e, path, "read") from e
        raise CorruptData(f"Position delete file {path} cannot be read: {e}", file=path) from e
    except (pa.ArrowException, ValueError, EOFError) as e:
        raise CorruptData(f"Position delete file {path} cannot be read: {e}", file=path) from e
    places = table.select(["file_path", "pos"]).cast(
        pa.schema([("file_path", pa.string()), ("pos", pa.int64())])
    )
    for batch_number, batch in enumerate(places.to_batches()):
        yield _Places(
            batch.column(0), batch.column(1), rows[batch_number] if rows is not None else None
        )


def _vector(row: dict[str, Any], files: dict[str, VectorFile], storage: Storage) -> _Places:
    path, referenced = row["file_path"], row["referenced_data_file"]
    if referenced is None:
        raise CorruptData(
            f"The deletion vector in {path} has no referenced_data_file in its manifest.", file=path
        )
    place = row["content_offset"], row["content_size_in_bytes"]
    if path not in files:
        files[path] = VectorFile.read(path, storage, place)
    bitmap = files[path].vector(*place, row["record_count"], referenced, storage)
    positions = pa.array(positions_array(bitmap), type=pa.int64())
    return _Places(pa.repeat(pa.scalar(referenced), len(positions)), positions)


def _no_rows(names: list[str], path: str) -> None:
    if "row" in names:
        text = f"Position delete file {path} carries deleted rows (column row), which Frazil reads from Parquet files only."
        raise Unsupported(text, file=path)


def _parquet(source: pa.NativeFile, path: str) -> pa.Table:
    file = pq.ParquetFile(source)
    return file.read(
        columns=["file_path", "pos", *({"row"} & {*file.schema_arrow.names})]
    ).combine_chunks()


def _orc(source: pa.NativeFile, path: str) -> pa.Table:
    file = orc.ORCFile(source)
    _no_rows(file.schema.names, path)
    return file.read(columns=["file_path", "pos"])


def _avro(source: pa.NativeFile, path: str) -> pa.Table:
    container = read_container(source.read(), path)
    record = container.schema
    if record.kind != "record":
        raise CorruptData(f"Position delete file {path} does not hold records.", file=path)
    _no_rows([name for name, _, _ in record.fields], path)
    _, columns = read_columns(
        container, record, {"file_path": pa.string(), "pos": pa.int64()}, path
    )
    return pa.table(columns)


_READERS = {"parquet": _parquet, "orc": _orc, "avro": _avro}


# Project deleted rows of a delete file to the table's type, for column `row` of `position_deletes`
# (spec, "Column Projection").

_FIELD_ID = b"PARQUET:field_id"


def project(values: pa.Array, type_: IcebergType) -> pa.Array:
    """Convert values to `shown_type(type_)`: struct fields by id, null where the file lacks one,
    promoted where the type was widened.
    """
    shown = shown_type(type_)
    match type_:
        case StructType():
            return pa.StructArray.from_arrays(
                _children(values, type_), fields=list(shown), mask=values.is_null()
            )
        case ListType():
            return _nested(values, shown, project(values.values, type_.element_type))
        case MapType():
            pairs = [project(values.keys, type_.key_type), project(values.items, type_.value_type)]
            return _nested(
                values,
                shown,
                pa.StructArray.from_arrays(pairs, fields=[shown.key_field, shown.item_field]),
            )
        case UnknownType() | VariantType():
            return pa.nulls(len(values), shown)
    values = values.storage if isinstance(values, pa.ExtensionArray) else values
    return (
        shown_values(values.cast(pa.binary()), type_)
        if isinstance(type_, UUIDType)
        else values.cast(shown)
    )


def _children(values: pa.Array, struct: StructType) -> list[pa.Array]:
    fields = [values.type.field(i) for i in range(values.type.num_fields)]
    places = {
        int(f.metadata[_FIELD_ID]): i
        for i, f in enumerate(fields)
        if f.metadata and _FIELD_ID in f.metadata
    }
    arrays = []
    for field in struct.fields:
        place = places.get(field.field_id)
        missing = pa.nulls(len(values), shown_type(field.field_type))
        arrays.append(missing if place is None else project(values.field(place), field.field_type))
    return arrays


def _nested(values: pa.Array, type_: pa.DataType, child: pa.Array) -> pa.Array:
    """Rebuild a list or map with the same offsets and nulls and another child."""
    return pa.Array.from_buffers(
        type_, len(values), values.buffers()[:2], offset=values.offset, children=[child]
    )
