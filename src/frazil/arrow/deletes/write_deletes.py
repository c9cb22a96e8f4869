"""Write row-level deletes: position delete files, sorted by path and position; equality delete
files, sorted by key; and deletion vectors, those of many data files in one Puffin file (v3; spec,
"Delete Formats", "Deletion Vectors").

File names, metrics and properties (`write.delete.*`, then those of data files) are those of Java
Iceberg. A delete file never mixes partitions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from frazil.arrow.write.grouping import by_partition, sorted_rows
from frazil.arrow.write.write_context import POSITION_SCHEMA, DeleteKind, WriteContext
from frazil.arrow.write.write_rows import OutputFiles, Rolling
from frazil.codec.deletion_vector import positions_bitmap, vector_blob
from frazil.codec.puffin import Blob, encode_puffin
from frazil.errors import InvalidInput, Unsupported
from frazil.spec.manifest import DataFile, DataFileContent
from frazil.spec.partitioning import PartitionKey, partition_key
from frazil.spec.properties import DELETE_GRANULARITY, GRANULARITIES
from frazil.spec.schema import DELETE_FILE_PATH_ID, Schema
from frazil.spec.sorting import UNSORTED_SORT_ORDER, NullOrder, SortDirection, SortField, SortOrder
from frazil.spec.transforms import IdentityTransform
from frazil.spec.types import (
    DoubleType,
    FloatType,
    GeographyType,
    GeometryType,
    NestedField,
    StructType,
    UnknownType,
    VariantType,
)
from frazil.spec.version import VERSION
from frazil.storage.locations import data_location

Positions = npt.NDArray[np.int64]
_ROWS = 131_072
_PATHS, _PLACES = (f.name for f in POSITION_SCHEMA.fields)
_ARROW = pa.schema([pa.field(_PATHS, pa.string(), False), pa.field(_PLACES, pa.int64(), False)])
_NO_KEYS = (FloatType, DoubleType, VariantType, GeometryType, GeographyType, UnknownType)


@dataclass(frozen=True, eq=False)
class FileDeletes:
    """Hold the positions of the rows that are deleted from one data file (int64, ascending, each
    once).
    """

    file: DataFile
    positions: Positions


def checked(deletes: Iterable[FileDeletes]) -> Iterator[tuple[DataFile, Positions]]:
    """Check deletes and skip files without any. Raises InvalidInput for positions that a file does
    not have and for a file given twice.
    """
    seen: set[str] = set()
    for deleted in deletes:
        file, positions = deleted.file, np.ascontiguousarray(deleted.positions, np.int64)
        if file.file_path in seen:
            raise InvalidInput(
                f"The deletes of {file.file_path} are given twice.", file=file.file_path
            )
        seen.add(file.file_path)
        if not len(positions):
            continue
        if np.any(np.diff(positions) <= 0):
            raise InvalidInput(
                f"The deleted positions of {file.file_path} are not ascending.", file=file.file_path
            )
        if int(positions[0]) < 0 or int(positions[-1]) >= file.record_count:
            which = f"{positions[0]} to {positions[-1]}"
            text = f"Cannot delete positions {which} from {file.file_path}, which has {file.record_count} rows."
            raise InvalidInput(text, file=file.file_path)
        yield file, positions


# Positions
# --------------------------------------------------------------------------------------------------


def write_position_deletes(
    deletes: Iterable[FileDeletes],
    context: WriteContext,
    *,
    granularity: str = "file",
    first: int = 1,
) -> list[DataFile]:
    """Write position delete files, durable and complete; an error leaves none behind. `first`: the
    number in the first file's name.

    `granularity`: "file" writes one delete file per data file, "partition" as few as the target
    size allows, for which it holds all positions in memory. Raises Unsupported for tables of
    another format version than 2, InvalidInput for positions that a file does not have.
    """
    if granularity not in GRANULARITIES:
        raise InvalidInput(
            f"{DELETE_GRANULARITY.name} must be one of {', '.join(GRANULARITIES)}, not {granularity!r}."
        )
    if context.format_version != 2:
        text = f"Position delete files need format version 2; {context.location} has version {context.format_version}."
        raise Unsupported(text, table=context.location)
    plain = context.for_deletes(DeleteKind("position"))
    files = OutputFiles(plain, first)
    try:
        for group in _grouped(deletes, granularity):
            _write_positions(group, plain, files)
        return [_of_positions(f) for f in files.finished()]
    except BaseException:
        files.abort()
        raise


def _grouped(
    deletes: Iterable[FileDeletes], granularity: str
) -> Iterator[list[tuple[DataFile, Positions]]]:
    if granularity == "file":
        for file_deletes in checked(deletes):
            yield [file_deletes]
        return
    groups: dict[PartitionKey, list[tuple[DataFile, Positions]]] = {}
    for file, positions in checked(deletes):
        groups.setdefault(partition_key(file.spec_id, file.partition), []).append((file, positions))
    for group in groups.values():
        yield sorted(group, key=lambda file_deletes: file_deletes[0].file_path)


def _write_positions(
    group: Sequence[tuple[DataFile, Positions]], context: WriteContext, files: OutputFiles
) -> None:
    """Write the positions of one partition, in the order given: to one file, or to several of the
    target size.
    """
    like = group[0][0]
    writer = Rolling(context.with_spec(like.spec_id), files, like.partition, 0)
    for file, positions in group:
        for start in range(0, len(positions), _ROWS):
            places = positions[start : start + _ROWS]
            writer.add(
                pa.RecordBatch.from_arrays(
                    [pa.repeat(file.file_path, len(places)), pa.array(places)], schema=_ARROW
                )
            )
    writer.close()


def _of_positions(written: DataFile) -> DataFile:
    """Complete the manifest entry of a position delete file as Java does: without counts, naming
    its data file if it has only one.
    """
    low, high = (
        (bounds or {})[DELETE_FILE_PATH_ID]
        for bounds in (written.lower_bounds, written.upper_bounds)
    )
    return replace(
        written,
        content=int(DataFileContent.POSITION_DELETES),
        value_counts=None,
        null_value_counts=None,
        nan_value_counts=None,
        sort_order_id=None,
        referenced_data_file=low.decode() if low == high else None,
    )


# Keys
# --------------------------------------------------------------------------------------------------


def write_equality_deletes(
    batches: Iterable[pa.RecordBatch],
    context: WriteContext,
    equality_ids: Sequence[int],
    *,
    first: int = 1,
) -> list[DataFile]:
    """Write equality delete files by partition, sorted by key, durable and complete; an error
    leaves none behind.

    Batches are typed as `to_arrow_schema(context.schema)`. Their rows determine the partitions;
    only the key columns are written. With an unpartitioned spec the files delete in every
    partition. Raises InvalidInput for columns that cannot be keys, Unsupported before v2.
    """
    ids = check_equality_ids(context.schema, equality_ids)
    if context.format_version < 2:
        text = f"Equality deletes need format version 2 or later; {context.location} has version {context.format_version}."
        raise Unsupported(text, table=context.location)
    plain = context.for_deletes(DeleteKind("equality", ids))
    files = OutputFiles(plain, first)
    try:
        _write_keys(batches, context, plain, files)
        return [
            replace(
                f,
                content=int(DataFileContent.EQUALITY_DELETES),
                equality_ids=ids,
                sort_order_id=UNSORTED_SORT_ORDER.order_id,
            )
            for f in files.finished()
        ]
    except BaseException:
        files.abort()
        raise


def check_equality_ids(schema: Schema, equality_ids: Sequence[int]) -> tuple[int, ...]:
    """Check ids of equality columns as the spec demands: primitive, no float or double, not inside
    a list or map. Raises InvalidInput.
    """
    if not equality_ids:
        raise InvalidInput("Equality deletes need at least one column.")
    for field_id in equality_ids:
        field = schema.by_id.get(field_id)
        if field is None:
            raise InvalidInput(
                f"Equality deletes cannot compare column {field_id}: the schema has no column with this id."
            )
        name = schema.find_column_name(field_id)
        if not field.field_type.is_primitive or isinstance(field.field_type, _NO_KEYS):
            raise InvalidInput(
                f"Equality deletes cannot compare column {name}: {field.field_type} cannot be a key.",
                column=name,
            )
        if not all(
            isinstance(schema.by_id[p].field_type, StructType) for p in schema.parents[field_id]
        ):
            raise InvalidInput(
                f"Equality deletes cannot compare column {name}: it is inside a list or map.",
                column=name,
            )
    return tuple(dict.fromkeys(equality_ids))


def _write_keys(
    batches: Iterable[pa.RecordBatch],
    context: WriteContext,
    plain: WriteContext,
    files: OutputFiles,
) -> None:
    """Group keys by partition and write as many at once as memory allows; every file is sorted as a
    whole.
    """
    keys, ids = plain.schema, plain.deletes.equality_ids if plain.deletes else ()
    order = SortOrder(
        *(SortField(i, IdentityTransform(), SortDirection.ASC, NullOrder.NULLS_FIRST) for i in ids)
    )
    held: dict[tuple[object, ...], tuple[tuple[object, ...], list[pa.RecordBatch]]] = {}
    size = 0

    def write_held() -> None:
        for values, rows in held.values():
            writer = Rolling(plain, files, values, 0)
            joined = rows[0] if len(rows) == 1 else pa.concat_batches(rows)
            writer.add(sorted_rows(joined, keys, order))
            writer.close()
        held.clear()

    for batch in batches:
        for group in by_partition(batch, context.schema, context.spec):
            rows = _projected(group.rows, context.schema.fields, keys.fields)
            held.setdefault(group.key, (group.values, []))[1].append(rows)
            size += rows.nbytes
        if size >= context.memory:
            write_held()
            size = 0
    write_held()


def _projected(
    batch: pa.RecordBatch, fields: Sequence[NestedField], projection: Sequence[NestedField]
) -> pa.RecordBatch:
    """Keep only the wanted columns, and of structs only the wanted members."""
    index_of = {f.field_id: i for i, f in enumerate(fields)}
    columns = [
        _narrow(batch.column(index_of[w.field_id]), fields[index_of[w.field_id]], w)
        for w in projection
    ]
    return pa.RecordBatch.from_arrays(columns, names=[w.name for w in projection])


def _narrow(array: pa.Array, have: NestedField, want: NestedField) -> pa.Array:
    if (
        have.field_type == want.field_type
        or not isinstance(have.field_type, StructType)
        or not isinstance(want.field_type, StructType)
    ):
        return array
    members = have.field_type.fields
    index_of = {f.field_id: i for i, f in enumerate(members)}
    places = [index_of[w.field_id] for w in want.field_type.fields]
    inside = [
        _narrow(array.field(i), members[i], w)
        for i, w in zip(places, want.field_type.fields, strict=True)
    ]
    typed = [
        pa.field(array.type.field(i).name, a.type, array.type.field(i).nullable)
        for i, a in zip(places, inside, strict=True)
    ]
    return pa.StructArray.from_arrays(
        inside, fields=typed, mask=array.is_null() if array.null_count else None
    )


# Deletion vectors
# --------------------------------------------------------------------------------------------------

CREATED_BY = f"Frazil {VERSION}"


def write_vectors(
    deletes: Iterable[FileDeletes], context: WriteContext, *, first: int = 1
) -> list[DataFile]:
    """Write one durable Puffin file with a vector per data file; no file when there are no
    positions. `first`: the number in its name.

    A data file has at most one vector, so the positions must be all that is deleted from it: the
    caller has merged them with its earlier vector and position deletes, which the commit then
    removes. Raises Unsupported for tables before v3, InvalidInput for positions that a file does
    not have.
    """
    if context.format_version < 3:
        text = f"Deletion vectors need format version 3 or later; {context.location} has version {context.format_version}."
        raise Unsupported(text, table=context.location)
    blobs: list[tuple[DataFile, Blob, int]] = []
    for file, positions in checked(deletes):
        blobs.append(
            (file, vector_blob(positions_bitmap(positions), file.file_path), len(positions))
        )
    if not blobs:
        return []
    data, placed, _ = encode_puffin([b for _, b, _ in blobs], {"created-by": CREATED_BY})
    name = context.delete_name(first, "puffin")
    location = data_location(context.location, context.properties, "", name)
    with context.storage.open_output(location) as sink:
        sink.write(data)
    return [
        DataFile(
            content=int(DataFileContent.POSITION_DELETES),
            file_path=location,
            file_format="puffin",
            partition=file.partition,
            spec_id=file.spec_id,
            record_count=count,
            file_size_in_bytes=len(data),
            referenced_data_file=file.file_path,
            content_offset=place.offset,
            content_size_in_bytes=place.length,
        )
        for (file, _, count), place in zip(blobs, placed, strict=True)
    ]
