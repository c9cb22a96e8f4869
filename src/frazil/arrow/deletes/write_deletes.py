"""Delete files (spec, "Delete Formats"): positions of rows, sorted by path and position, and rows of key columns, sorted by key.

Names, metrics and properties (`write.delete.*`, then those of data files) are Java's. A file never mixes partitions.
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
from frazil.errors import InvalidInput, Unsupported
from frazil.spec.data_file import DataFile, DataFileContent
from frazil.spec.partition_key import PartitionKey, partition_key
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

Positions = npt.NDArray[np.int64]
_ROWS = 131_072
_PATHS, _PLACES = (f.name for f in POSITION_SCHEMA.fields)
_ARROW = pa.schema([pa.field(_PATHS, pa.string(), False), pa.field(_PLACES, pa.int64(), False)])
_NO_KEYS = (FloatType, DoubleType, VariantType, GeometryType, GeographyType, UnknownType)


@dataclass(frozen=True, eq=False)
class FileDeletes:
    """Rows of one data file that are deleted: their positions (int64, ascending, each once)."""

    file: DataFile
    positions: Positions


def checked(deletes: Iterable[FileDeletes]) -> Iterator[tuple[DataFile, Positions]]:
    """Files with at least one position. Raises InvalidInput for positions a file cannot have and for a file that comes twice."""
    seen: set[str] = set()
    for d in deletes:
        file, positions = d.file, np.ascontiguousarray(d.positions, np.int64)
        if file.file_path in seen:
            raise InvalidInput(f"The deletes of {file.file_path} are given twice.", file=file.file_path)
        seen.add(file.file_path)
        if not len(positions):
            continue
        if np.any(np.diff(positions) <= 0):
            raise InvalidInput(f"The deleted positions of {file.file_path} are not ascending.", file=file.file_path)
        if int(positions[0]) < 0 or int(positions[-1]) >= file.record_count:
            which = f"{positions[0]} to {positions[-1]}"
            text = f"Positions {which} cannot be deleted from {file.file_path}, which has {file.record_count} rows."
            raise InvalidInput(text, file=file.file_path)
        yield file, positions


# Positions -----------------------------------------------------------------------------------------------------------------------------


def write_position_deletes(
    deletes: Iterable[FileDeletes], context: WriteContext, *, granularity: str = "file", first: int = 1
) -> list[DataFile]:
    """Position delete files, durable and complete; after an error none is left. `first`: the number in the name of the first.

    `granularity`: "file" writes as many files as data files have deletes, "partition" as few as sizes allow, holding the positions of all
    in memory. Raises Unsupported where the table's version has other deletes, InvalidInput for positions a file cannot have.
    """
    if granularity not in GRANULARITIES:
        raise InvalidInput(f"{DELETE_GRANULARITY.name} is one of {', '.join(GRANULARITIES)}, not {granularity!r}.")
    if context.format_version != 2:
        text = f"Position delete files are written in format version 2 only; {context.location} has {context.format_version}."
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


def _grouped(deletes: Iterable[FileDeletes], granularity: str) -> Iterator[list[tuple[DataFile, Positions]]]:
    if granularity == "file":
        for one in checked(deletes):
            yield [one]
        return
    groups: dict[PartitionKey, list[tuple[DataFile, Positions]]] = {}
    for file, positions in checked(deletes):
        groups.setdefault(partition_key(file.spec_id, file.partition), []).append((file, positions))
    for group in groups.values():
        yield sorted(group, key=lambda one: one[0].file_path)


def _write_positions(group: Sequence[tuple[DataFile, Positions]], context: WriteContext, files: OutputFiles) -> None:
    """One partition's positions, in the order given: one file, or several of the target size."""
    like = group[0][0]
    writer = Rolling(context.with_spec(like.spec_id), files, like.partition, 0)
    for file, positions in group:
        for at in range(0, len(positions), _ROWS):
            places = positions[at : at + _ROWS]
            writer.add(pa.RecordBatch.from_arrays([pa.repeat(file.file_path, len(places)), pa.array(places)], schema=_ARROW))
    writer.close()


def _of_positions(f: DataFile) -> DataFile:
    """As Java has it: no counts of path and position; a file about one data file names it."""
    low, high = ((b or {})[DELETE_FILE_PATH_ID] for b in (f.lower_bounds, f.upper_bounds))
    return replace(
        f, content=int(DataFileContent.POSITION_DELETES), value_counts=None, null_value_counts=None, nan_value_counts=None,
        sort_order_id=None, referenced_data_file=low.decode() if low == high else None,
    )  # fmt: skip


# Keys ----------------------------------------------------------------------------------------------------------------------------------


def write_equality_deletes(
    batches: Iterable[pa.RecordBatch], context: WriteContext, equality_ids: Sequence[int], *, first: int = 1
) -> list[DataFile]:
    """Equality delete files of the rows' key columns, by partition, sorted by key; durable and complete, none is left after an error.

    Batches are typed as `to_arrow_schema(context.schema)`; they tell the partitions, only the key columns are written. In an unpartitioned
    spec they delete in every partition. Raises InvalidInput for columns that cannot be keys, Unsupported before v2.
    """
    ids = check_equality_ids(context.schema, equality_ids)
    if context.format_version < 2:
        text = f"Equality deletes need format version 2; {context.location} has {context.format_version}."
        raise Unsupported(text, table=context.location)
    plain = context.for_deletes(DeleteKind("equality", ids))
    files = OutputFiles(plain, first)
    try:
        _write_keys(batches, context, plain, files)
        return [
            replace(f, content=int(DataFileContent.EQUALITY_DELETES), equality_ids=ids, sort_order_id=UNSORTED_SORT_ORDER.order_id)
            for f in files.finished()
        ]
    except BaseException:
        files.abort()
        raise


def check_equality_ids(schema: Schema, equality_ids: Sequence[int]) -> tuple[int, ...]:
    """The ids, checked as the spec wants equality columns: primitive, no float or double, not in a list or map. Raises InvalidInput."""
    if not equality_ids:
        raise InvalidInput("Equality deletes need at least one column.")
    for i in equality_ids:
        f = schema.by_id.get(i)
        if f is None:
            raise InvalidInput(f"Equality deletes cannot compare column {i}: the schema has no such column.")
        name = schema.find_column_name(i)
        if not f.field_type.is_primitive or isinstance(f.field_type, _NO_KEYS):
            raise InvalidInput(f"Equality deletes cannot compare column {name}: {f.field_type} cannot be a key.", column=name)
        if not all(isinstance(schema.by_id[p].field_type, StructType) for p in schema.parents[i]):
            raise InvalidInput(f"Equality deletes cannot compare column {name}: it is inside a list or map.", column=name)
    return tuple(dict.fromkeys(equality_ids))


def _write_keys(batches: Iterable[pa.RecordBatch], context: WriteContext, plain: WriteContext, files: OutputFiles) -> None:
    """Partition by partition, as much as memory allows at once; every file is sorted as a whole."""
    keys, ids = plain.schema, plain.deletes.equality_ids if plain.deletes else ()
    order = SortOrder(*(SortField(i, IdentityTransform(), SortDirection.ASC, NullOrder.NULLS_FIRST) for i in ids))
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


def _projected(batch: pa.RecordBatch, fields: Sequence[NestedField], wanted: Sequence[NestedField]) -> pa.RecordBatch:
    """Only the wanted columns, and of structs only the wanted members."""
    at = {f.field_id: i for i, f in enumerate(fields)}
    columns = [_narrow(batch.column(at[w.field_id]), fields[at[w.field_id]], w) for w in wanted]
    return pa.RecordBatch.from_arrays(columns, names=[w.name for w in wanted])


def _narrow(array: pa.Array, have: NestedField, want: NestedField) -> pa.Array:
    if have.field_type == want.field_type or not isinstance(have.field_type, StructType) or not isinstance(want.field_type, StructType):
        return array
    members = have.field_type.fields
    at = {f.field_id: i for i, f in enumerate(members)}
    places = [at[w.field_id] for w in want.field_type.fields]
    inside = [_narrow(array.field(i), members[i], w) for i, w in zip(places, want.field_type.fields, strict=True)]
    typed = [pa.field(array.type.field(i).name, a.type, array.type.field(i).nullable) for i, a in zip(places, inside, strict=True)]
    return pa.StructArray.from_arrays(inside, fields=typed, mask=array.is_null() if array.null_count else None)


__all__ = ["FileDeletes", "check_equality_ids", "write_equality_deletes", "write_position_deletes"]
