"""Decode manifests to Arrow tables with one row per entry (spec, "Manifests"), with inheritance
applied; `manifest_write` encodes them.

The columns are those of `manifest_write.COLUMNS`. `partition` is a struct with a child per
partition field, named by its id ("1000"). It holds internal values as the manifest stores them, so
that a column widened since then still has its old type there.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from frazil.codec.avro import Container, read_container, read_records, record_reader
from frazil.codec.avro_arrow import arrays_of, joined, read_columns, storage_type
from frazil.codec.avro_schema import AvroNode
from frazil.codec.guard import reading
from frazil.codec.manifest_write import (
    BY_ID,
    BY_NAME,
    COLUMNS,
    DATA_FILE_ID,
    PARTITION_ID,
    arrow_value_type,
    encode_manifest,
)
from frazil.errors import CorruptData, InvalidInput, Unsupported
from frazil.expr.building import from_numpy, scalar, to_numpy
from frazil.spec.manifest import (
    DataFile,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
)
from frazil.spec.partitioning import PartitionSpec

__all__ = [
    "arrow_value_type",
    "decode_manifest",
    "decode_manifests",
    "encode_manifest",
    "entries_from_table",
    "manifest_header",
]

Numbers = npt.NDArray[np.int64]
_NEEDS = {
    "sequence_number": ("status",),
    "file_sequence_number": ("status",),
    "first_row_id": ("status", "record_count"),
}
_REQUIRED = ("status", "file_path", "file_format", "record_count", "file_size_in_bytes")
_PARTITION_PREFIX, _BRANCH_PREFIX = "p", "union"


@dataclass(frozen=True)
class _Plan:
    """Hold how entries of one Avro schema are read: as a flat record, since nesting takes no bytes
    in Avro, with the names of the spec.

    `partition`: the label and Arrow type of each partition field. A record that may be null (DuckDB
    1.4 wrote such manifests) is preceded by its branch, which is read as a field; where one is null
    indeed, nested entries are read instead (`_by_branch`).
    """

    record: AvroNode
    partition: tuple[tuple[str, pa.DataType], ...]
    # (field, number of bytes that each of its values must have)
    sizes: tuple[tuple[str, int], ...] = ()
    # (field that holds the branch of a union of null and a record, the record's branch)
    branches: tuple[tuple[str, int], ...] = ()
    # where each field lies in the nested entry; of a branch, that of its record
    paths: tuple[tuple[int, ...], ...] = ()


def manifest_header(data: bytes, file: str = "") -> dict[str, str]:
    """Read the header of a manifest: schema, partition-spec (JSON), partition-spec-id,
    format-version, content. Raises CorruptData.
    """
    container = read_container(data, file)
    with reading("manifest", file):
        return {k: v.decode() for k, v in container.metadata.items()}


def decode_manifest(
    data: bytes,
    manifest: ManifestFile,
    *,
    columns: Collection[str] | None = None,
    choose: Callable[[Container], tuple[Container, Numbers | None]] | None = None,
) -> pa.Table:
    """Decode the entries of a manifest, DELETED ones included, from its bytes; `columns` None: all
    columns.

    `choose`: returns the part of the file that is read, and the numbers of the wanted entries in
    that part (None: all of them); `first_row_id`, which depends on all entries, is then not among
    the columns.

    Raises CorruptData, InvalidInput for a column that manifests do not have.
    """
    file = manifest.manifest_path
    if unknown := [c for c in columns or () if c not in BY_NAME]:
        raise InvalidInput(f"Manifests have no column {unknown[0]!r}.")
    names = [c.name for c in COLUMNS if columns is None or c.name in columns]
    container = read_container(data, file)
    with reading("manifest", file):
        if len(data) < manifest.manifest_length and not _is_whole(container, manifest):
            text = f"Manifest {file} has {len(data)} bytes, but the manifest list says {manifest.manifest_length}."
            raise CorruptData(text, file=file)
        plan = _plan(container.schema, _spec_ids(container))
        part, numbers = (container, None) if choose is None else choose(container)
        if javas := _fixed_as_bytes(plan):
            with contextlib.suppress(CorruptData):
                return _rows_at(_table(part, javas, manifest, names, file), numbers)
        return _rows_at(_table(part, plan, manifest, names, file), numbers)


def decode_manifests(
    files: Sequence[tuple[bytes, ManifestFile]], *, columns: Collection[str] | None = None
) -> list[pa.Table]:
    """Decode several manifests to a table for each, in their order. Neighbours of one Avro schema
    are decoded together, which is much faster when they are small. Raises as `decode_manifest`
    does."""
    tables: list[pa.Table] = []
    containers = [
        (read_container(data, manifest.manifest_path), data, manifest) for data, manifest in files
    ]
    for _, neighbours in itertools.groupby(
        containers, lambda read: (id(read[0].schema), _spec_ids(read[0]))
    ):
        alike = list(neighbours)
        together = (
            _decoded_together([(c, m) for c, _, m in alike], columns) if len(alike) > 1 else None
        )
        tables += together or [
            decode_manifest(data, manifest, columns=columns) for _, data, manifest in alike
        ]
    return tables


def _decoded_together(
    alike: Sequence[tuple[Container, ManifestFile]], columns: Collection[str] | None
) -> list[pa.Table] | None:
    """Decode manifests of one Avro schema; None where one of them may be damaged: each is then
    decoded by itself, so that the error names the right one."""
    names = [c.name for c in COLUMNS if columns is None or c.name in columns]
    tables, first = [], 0
    try:
        with reading("manifests"):
            plan = _plan(alike[0][0].schema, _spec_ids(alike[0][0]))
            together, counts = joined([container for container, _ in alike])
            if _fixed_as_bytes(plan) or any(
                not _as_listed(n, c, m) for n, (c, m) in zip(counts, alike, strict=True)
            ):
                return None
            _, arrays = _columns(together, plan, names, "")
            for count, (_, manifest) in zip(counts, alike, strict=True):
                part = {name: array.slice(first, count) for name, array in arrays.items()}
                tables.append(_inherited(part, manifest, names))
                first += count
    except (CorruptData, Unsupported):
        return None
    return tables


def _as_listed(entries: int, container: Container, manifest: ManifestFile) -> bool:
    """Tell whether a manifest has the number of entries that the manifest list says; where it does
    not say so, the length.
    """
    stated = _stated(manifest)
    return len(container.data) >= manifest.manifest_length if stated is None else stated == entries


def _stated(manifest: ManifestFile) -> int | None:
    """Return how many entries a manifest has according to the manifest list; None where this does
    not tell.
    """
    counts = (
        manifest.added_files_count,
        manifest.existing_files_count,
        manifest.deleted_files_count,
    )
    stated = [n for n in counts if n is not None]
    return sum(stated) if len(stated) == len(counts) else None


def _is_whole(container: Container, manifest: ManifestFile) -> bool:
    """Tell whether a manifest that is shorter than the manifest list says was not cut off: it has
    every entry that the list counts. Java's rewrite_table_path gives the manifests of a copy the
    lengths of the originals, whose paths may be longer."""
    return _stated(manifest) == sum(count for count, _, _ in container.spans)


def _rows_at(table: pa.Table, numbers: Numbers | None) -> pa.Table:
    return table if numbers is None else table.take(from_numpy(numbers))


def _spec_ids(container: Container) -> tuple[int, ...]:
    """Return the ids of the partition fields by the manifest's header, for an Avro schema that has
    none; () where the header does not tell.
    """
    return _ids_of_spec(container.metadata.get("partition-spec", b""))


@functools.lru_cache(maxsize=128)
def _ids_of_spec(text: bytes) -> tuple[int, ...]:
    try:
        fields = msgspec.json.decode(text)
        return tuple(int(f.get("field-id", 1000 + n)) for n, f in enumerate(fields))
    except (msgspec.MsgspecError, ValueError, TypeError, AttributeError, RecursionError):
        return ()


@functools.lru_cache(maxsize=128)
def _plan(schema: AvroNode, spec_ids: tuple[int, ...]) -> _Plan:
    fields: list[tuple[str, int | None, AvroNode]] = []
    paths: list[tuple[int, ...]] = []
    partition: list[tuple[str, pa.DataType]] = []
    branches: list[tuple[str, int]] = []

    def add(name: str, field_id: int | None, node: AvroNode, path: tuple[int, ...]) -> None:
        fields.append((name, field_id, node))
        paths.append(path)

    def record_of(node: AvroNode, noun: str, path: tuple[int, ...]) -> AvroNode:
        record = node.not_null
        if record.kind != "record":
            raise CorruptData(f"{noun} of a manifest is not a record.")
        if node is not record:
            branches.append((f"{_BRANCH_PREFIX}{len(branches)}", node.inside.index(record)))
            add(branches[-1][0], None, AvroNode("int"), path)
        return record

    def flatten(node: AvroNode, noun: str, path: tuple[int, ...]) -> None:
        for number, (name, field_id, inner) in enumerate(record_of(node, noun, path).fields):
            column, place = (
                BY_ID.get(field_id) if field_id is not None else BY_NAME.get(name),
                (*path, number),
            )
            if field_id == DATA_FILE_ID or (field_id is None and name == "data_file"):
                flatten(inner, "data_file", place)
            elif column is not None and column.field_id == PARTITION_ID:
                flatten_partition(inner, place)
            elif column is not None and all(column.name != n for n, _, _ in fields):
                add(column.name, field_id, inner, place)
            else:
                add(f"x{len(fields)}", field_id, inner, place)

    def flatten_partition(node: AvroNode, path: tuple[int, ...]) -> None:
        record = record_of(node, "The partition", path)
        by_place = spec_ids if len(spec_ids) == len(record.fields) else ()
        for number, (_, field_id, inner) in enumerate(record.fields):
            if field_id is None:
                field_id = by_place[number] if by_place else 1000 + number
            label = str(field_id)
            if any(label == other for other, _ in partition):
                raise CorruptData(f"Partition field {label} occurs twice in a manifest.")
            partition.append((label, storage_type(inner)))
            add(_PARTITION_PREFIX + label, field_id, inner, (*path, number))

    flatten(schema, "The entry", ())
    present = {name for name, _, _ in fields}
    if missing := [name for name in _REQUIRED if name not in present]:
        raise CorruptData(f"The manifest has no field {missing[0]}.")
    for name, _, node in fields:
        if name in BY_NAME and not _fits(storage_type(node), BY_NAME[name].type):
            raise CorruptData(
                f"Field {name} of the manifest has the wrong type {node.not_null.kind}."
            )
    record = AvroNode("record", "entry", fields=tuple(fields))
    return _Plan(record, tuple(partition), branches=tuple(branches), paths=tuple(paths))


def _fixed_as_bytes(plan: _Plan) -> _Plan | None:
    """Plan to read partition values of type fixed with a length before each, as Java writes them
    although its schema says fixed.

    This plan is tried first: if every length is right, that is no coincidence. None when the
    partition has no such field.
    """
    partition = {name: n for name, _, n in plan.record.fields if name.startswith(_PARTITION_PREFIX)}
    sizes = {
        name: n.not_null.size
        for name, n in partition.items()
        if n.not_null.kind == "fixed" and n.not_null.logical is None
    }
    if not sizes:
        return None
    bare = AvroNode("bytes")
    read = {
        name: AvroNode("union", inside=(AvroNode("null"), bare))
        if partition[name].kind == "union"
        else bare
        for name in sizes
    }
    fields = tuple((name, i, read.get(name, n)) for name, i, n in plan.record.fields)
    return replace(plan, record=replace(plan.record, fields=fields), sizes=tuple(sizes.items()))


def _fits(stored: pa.DataType, type_: pa.DataType) -> bool:
    """Compare types without names, nullability and the width of integers."""
    if pa.types.is_list(type_):
        return pa.types.is_list(stored) and _fits(stored.value_type, type_.value_type)
    if pa.types.is_struct(type_):
        if not pa.types.is_struct(stored) or stored.num_fields != 2:
            return False
        return all(_fits(stored.field(i).type, type_.field(i).type) for i in (0, 1))
    return bool(stored == type_ or (pa.types.is_integer(stored) and pa.types.is_integer(type_)))


def _table(
    container: Container, plan: _Plan, manifest: ManifestFile, names: list[str], file: str
) -> pa.Table:
    _, columns = _columns(container, plan, names, file)
    return _inherited(columns, manifest, names)


def _columns(
    container: Container, plan: _Plan, names: list[str], file: str
) -> tuple[int, dict[str, pa.Array]]:
    """Read the wanted columns and those that inheritance needs, as the file has them; returns the
    number of entries, too.
    """
    needed = {*names, "status", *(n for w in names for n in _NEEDS.get(w, ()))}
    types = {c.name: c.type for c in COLUMNS if c.name in needed and c.name != "partition"}
    present = {name for name, _, _ in plan.record.fields}
    reads = {name: type_ for name, type_ in types.items() if name in present}
    if "partition" in needed:
        reads.update((_PARTITION_PREFIX + label, type_) for label, type_ in plan.partition)
    reads.update((name, pa.binary()) for name, _ in plan.sizes)
    rows, arrays = _read_columns(container, plan, reads, file)
    for name, size in plan.sizes:
        if pc.any(pc.not_equal(pc.binary_length(arrays[name]), size)).as_py():
            raise CorruptData(
                f"A partition value in {file} does not have the {size} bytes of its type.",
                file=file or None,
            )
    columns = {
        name: arrays[name] if name in arrays else pa.nulls(rows, type_)
        for name, type_ in types.items()
    }
    if "partition" in needed:
        columns["partition"] = _partition(
            [arrays[_PARTITION_PREFIX + label] for label, _ in plan.partition], plan, rows
        )
    _check(columns, file)
    if "file_format" in columns:
        columns["file_format"] = pc.utf8_lower(columns["file_format"])
    return rows, columns


def _read_columns(
    container: Container, plan: _Plan, reads: dict[str, pa.DataType], file: str
) -> tuple[int, dict[str, pa.Array]]:
    if not plan.branches:
        return read_columns(container, plan.record, reads, file)
    with contextlib.suppress(CorruptData):  # after a record that is null, the wrong bytes are read
        rows, arrays = read_columns(
            container,
            plan.record,
            {**reads, **{name: pa.int32() for name, _ in plan.branches}},
            file,
        )
        if all(
            pc.all(pc.equal(arrays[name], branch)).as_py() is not False
            for name, branch in plan.branches
        ):
            return rows, arrays
    return _by_branch(container, plan, reads, file)


def _by_branch(
    container: Container, plan: _Plan, reads: dict[str, pa.DataType], file: str
) -> tuple[int, dict[str, pa.Array]]:
    """Read nested entries of which some records are null: everything in them is null, too."""
    if plan.sizes:
        raise CorruptData("Partition values of type fixed are not behind their lengths.")
    paths = [
        path
        for (name, _, _), path in zip(plan.record.fields, plan.paths, strict=True)
        if name in reads
    ]
    entries = read_records(container, record_reader(container.schema), file)
    rows = [tuple(_value_at(entry, path) for path in paths) for entry in entries]
    return len(rows), arrays_of(rows, plan.record, reads, file)


def _value_at(value: Any, path: tuple[int, ...]) -> Any:
    for place in path:
        if value is None:
            return None
        value = value[place]
    return value


def _inherited(columns: dict[str, pa.Array], manifest: ManifestFile, names: list[str]) -> pa.Table:
    """Make a table of the wanted columns, with what its entries inherit from their manifest."""
    _inherit(columns, manifest)
    return (
        pa.table({name: columns[name] for name in names})
        if names
        else pa.table({"status": columns["status"]}).select([])
    )


def _partition(children: list[pa.Array], plan: _Plan, rows: int) -> pa.Array:
    if not children:
        return pa.Array.from_buffers(pa.struct([]), rows, [None])
    return pa.StructArray.from_arrays(
        children, fields=[pa.field(label, type_) for label, type_ in plan.partition]
    )


def _check(columns: dict[str, pa.Array], file: str) -> None:
    """Check for impossible numbers, which would lead to wrong plans instead of errors."""
    limits = (
        ("status", 0, 2),
        ("content", 0, 2),
        ("record_count", 0, None),
        ("file_size_in_bytes", 0, None),
    )
    for name, low, high in limits:
        if name not in columns or len(columns[name]) == 0:
            continue
        ends = pc.min_max(columns[name])
        least, most = ends["min"].as_py(), ends["max"].as_py()
        if least is not None and (least < low or (high is not None and most > high)):
            raise CorruptData(
                f"{name} of an entry in manifest {file} is {least if least < low else most}.",
                file=file,
            )
    for name in _REQUIRED:
        if name in columns and columns[name].null_count:
            raise CorruptData(f"An entry in manifest {file} has no {name}.", file=file)


def _inherit(columns: dict[str, pa.Array], manifest: ManifestFile) -> None:
    """Fill in what entries inherit from their manifest (spec, "Sequence Number Inheritance", "First
    Row ID Inheritance").
    """
    if "content" in columns:
        columns["content"] = columns["content"].fill_null(scalar(0, pa.int32()))
    if "snapshot_id" in columns and manifest.added_snapshot_id is not None:
        columns["snapshot_id"] = columns["snapshot_id"].fill_null(
            scalar(manifest.added_snapshot_id, pa.int64())
        )
    number = manifest.sequence_number
    for name in ("sequence_number", "file_sequence_number"):
        if name in columns and number is not None and columns[name].null_count:
            inherited = columns[name].fill_null(scalar(number, pa.int64()))
            if number != 0:
                # only added files inherit a number; in version 1, which has none, all files have 0
                added = pc.equal(
                    columns["status"], scalar(int(ManifestEntryStatus.ADDED), pa.int32())
                )
                inherited = pc.if_else(added, inherited, columns[name])
            columns[name] = inherited
    if "first_row_id" in columns:
        columns["first_row_id"] = _first_row_ids(columns, manifest)


def _first_row_ids(columns: dict[str, pa.Array], manifest: ManifestFile) -> pa.Array:
    ids = columns["first_row_id"]
    if manifest.first_row_id is None or manifest.content != ManifestContent.DATA:
        committed = manifest.sequence_number is not None
        # a manifest that is not in a list yet keeps the ids of its entries
        return pa.nulls(len(ids), pa.int64()) if committed else ids
    if ids.null_count == 0:
        return ids
    status = to_numpy(columns["status"])
    assigned = to_numpy(ids.is_null()) & (status != int(ManifestEntryStatus.DELETED))
    counts = np.where(assigned, to_numpy(columns["record_count"]), 0)
    following = (manifest.first_row_id + np.cumsum(counts) - counts).astype(np.int64)
    return pc.if_else(from_numpy(assigned), from_numpy(following), ids)


# Objects


def entries_from_table(table: pa.Table, spec: PartitionSpec) -> list[ManifestEntry]:
    """Convert the rows of a decoded manifest to entry objects; columns that were not decoded have
    their defaults.
    """
    columns = {
        name: _python(table.column(name)) for name in table.column_names if name != "partition"
    }
    rows = table.num_rows
    partitions = (
        _partitions(table.column("partition"), spec)
        if "partition" in table.column_names
        else [()] * rows
    )
    nothing = [None] * rows
    entry = [
        columns.pop(name, nothing)
        for name in ("status", "snapshot_id", "sequence_number", "file_sequence_number")
    ]
    absent = {
        "content": 0,
        "file_path": "",
        "file_format": "",
        "record_count": 0,
        "file_size_in_bytes": 0,
    }
    values = [
        columns.get(c.name, [absent.get(c.name)] * rows)
        for c in COLUMNS[4:]
        if c.name != "partition"
    ]
    names = [c.name for c in COLUMNS[4:] if c.name != "partition"]
    entries = []
    for status, snapshot_id, number, file_number, partition, *rest in zip(
        *entry, partitions, *values, strict=True
    ):
        file = DataFile(
            partition=partition, spec_id=spec.spec_id, **dict(zip(names, rest, strict=True))
        )
        entries.append(
            ManifestEntry(
                status if status is not None else 0, file, snapshot_id, number, file_number
            )
        )
    return entries


def _partitions(column: pa.ChunkedArray, spec: PartitionSpec) -> list[tuple[Any, ...]]:
    array = _one_array(column)
    have = {
        array.type.field(i).name: array.field(i).to_pylist() for i in range(array.type.num_fields)
    }
    nothing = [None] * len(array)
    return (
        list(zip(*(have.get(str(f.field_id), nothing) for f in spec.fields), strict=True))
        if spec.fields
        else [()] * len(array)
    )


def _one_array(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _python(column: pa.ChunkedArray) -> list[Any]:
    """Convert a column to Python values; a map becomes a dict and a list a tuple, without an
    intermediate object per item.
    """
    array = _one_array(column)
    if not pa.types.is_list(array.type):
        return array.to_pylist()  # type: ignore[no-any-return]
    offsets, valid = array.offsets.to_pylist(), array.is_valid().to_pylist()
    spans = [
        (a, b) if is_valid else None
        for a, b, is_valid in zip(offsets, offsets[1:], valid, strict=False)
    ]
    if not pa.types.is_struct(array.type.value_type):
        items = array.values.to_pylist()
        return [None if s is None else tuple(items[s[0] : s[1]]) for s in spans]
    keys, values = array.values.field(0).to_pylist(), array.values.field(1).to_pylist()
    return [
        None if s is None else dict(zip(keys[s[0] : s[1]], values[s[0] : s[1]], strict=True))
        for s in spans
    ]
