"""Decode the JSON of data and delete files, as a REST catalog's server answers it to a planned
scan, to Arrow tables of manifest entries.

Two forms of bounds are read: by their column's type, as the specification says, and as the
hexadecimal digits of their bytes, as Java writes them. A text or decimal does not show which of the
two it is; the bounds of a number or time beside it do (`SIZES`), and without one they are left out.
Sequence numbers and snapshot ids are not part of the JSON: these columns are null.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from typing import Annotated, Any

import msgspec
import pyarrow as pa

from frazil.codec.manifest_write import COLUMNS, arrow_value_type
from frazil.codec.single_value import from_json, to_bytes
from frazil.errors import CorruptData, FrazilError, InvalidInput
from frazil.spec.manifest import DataFileContent, ManifestEntryStatus
from frazil.spec.partitioning import PartitionSpec
from frazil.spec.schema import Schema
from frazil.spec.types import (
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    IntegerType,
    LongType,
    StringType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
)

Count = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
Id = Annotated[int, msgspec.Meta(ge=-(2**31), lt=2**31)]
_CONTENTS = {
    "data": DataFileContent.DATA, "position-deletes": DataFileContent.POSITION_DELETES,
    "equality-deletes": DataFileContent.EQUALITY_DELETES,
}  # fmt: skip
_HEXADECIMAL = re.compile(r"(?:[0-9a-fA-F]{2})*")
_AMBIGUOUS = (StringType, DecimalType)
SIZES: dict[type, int] = {
    IntegerType: 4, DateType: 4, FloatType: 4, LongType: 8, DoubleType: 8, TimeType: 8, TimestampType: 8, TimestamptzType: 8,
    TimestampNanoType: 8, TimestamptzNanoType: 8,
}  # fmt: skip
"""The numbers and times, whose bounds show the form of all bounds, and the bytes of a bound."""


class CountMap(msgspec.Struct):
    """Hold counts by field id."""

    keys: list[Id]
    values: list[Annotated[int, msgspec.Meta(ge=-(2**63), le=2**63 - 1)]]


class ValueMap(msgspec.Struct):
    """Hold bounds by field id."""

    keys: list[Id]
    values: list[Any]


class ContentFile(msgspec.Struct, rename="kebab"):
    """Hold the JSON of a data or delete file."""

    spec_id: Id
    content: str
    file_path: str
    file_format: str
    file_size_in_bytes: Count
    record_count: Count
    partition: list[Any] | dict[str, Any] | None = None
    value_counts: CountMap | None = None
    null_value_counts: CountMap | None = None
    nan_value_counts: CountMap | None = None
    lower_bounds: ValueMap | None = None
    upper_bounds: ValueMap | None = None
    key_metadata: str | None = None
    split_offsets: list[Count] | None = None
    equality_ids: list[Id] | None = None
    sort_order_id: Id | None = None
    first_row_id: Count | None = None
    referenced_data_file: str | None = None
    content_offset: Count | None = None
    content_size_in_bytes: Count | None = None


class FileScanTaskJson(msgspec.Struct, rename="kebab"):
    """Hold the JSON of a file scan task. Its residual filter is not kept: readers evaluate the
    scan's own filter, since null and NaN mean something else in Java's expressions than in Spark's
    SQL."""

    data_file: ContentFile
    delete_file_references: list[int] | None = None


class ScanTasksJson(msgspec.Struct, rename="kebab"):
    """Hold the JSON of planned tasks. `plan_tasks`: names of further tasks, to be asked for."""

    plan_tasks: list[str] | None = None
    file_scan_tasks: list[FileScanTaskJson] | None = None
    delete_files: list[ContentFile] | None = None


def entries_of(
    files: Sequence[ContentFile],
    spec: PartitionSpec,
    types: Sequence[IcebergType],
    schema: Schema,
    statistics: Collection[int],
) -> pa.Table:
    """Make a table of manifest entries, with all columns of a decoded manifest. All files are of
    one partition spec.

    `types`: those of the partition values. `statistics`: the columns (ids in `schema`) whose counts
    and bounds are kept. Raises CorruptData for a partition that is none of the spec.
    """
    fields = {i: schema.by_id[i].field_type for i in statistics if i in schema.by_id}
    columns: dict[str, pa.Array] = {}
    for column in COLUMNS:
        if column.name == "partition":
            columns[column.name] = _partitions(files, spec, types)
            continue
        columns[column.name] = pa.array(_made(column.name, files, fields, schema), column.type)
    return pa.table(columns)


def _made(
    name: str, files: Sequence[ContentFile], fields: dict[int, IcebergType], schema: Schema
) -> list[Any]:
    """Return the values of one column."""
    match name:
        case "status":
            return [int(ManifestEntryStatus.EXISTING)] * len(files)
        case "snapshot_id" | "sequence_number" | "file_sequence_number" | "column_sizes":
            return [None] * len(files)
        case "content":
            return [content_of(f) for f in files]
        case "file_format":
            return [f.file_format.lower() for f in files]
        case "key_metadata":
            # key metadata are only passed on, never used
            return [None if f.key_metadata is None else f.key_metadata.encode() for f in files]
        case "value_counts" | "null_value_counts" | "nan_value_counts":
            return [_map(f, getattr(f, name), fields, lambda _, n: n) for f in files]
        case "lower_bounds" | "upper_bounds":
            return [_bounds(f, getattr(f, name), fields, schema) for f in files]
    return [getattr(f, name) for f in files]


def content_of(file: ContentFile) -> int:
    """Return what a file holds, as manifests number it. Raises CorruptData for an unknown word."""
    # Java before 1.11 wrote the names of its constants
    number = _CONTENTS.get(file.content.lower().replace("_", "-"))
    if number is None:
        raise CorruptData(
            f"File {file.file_path} has the unknown content {file.content[:40]!r}.",
            file=file.file_path,
        )
    return int(number)


def _map(
    file: ContentFile,
    statistics: CountMap | ValueMap | None,
    fields: dict[int, IcebergType],
    convert: Callable[[IcebergType, Any], Any],
) -> list[tuple[int, Any]] | None:
    if statistics is None:
        return None
    if len(statistics.keys) != len(statistics.values):
        text = f"Statistics of file {file.file_path} have {len(statistics.keys)} columns, but {len(statistics.values)} values."
        raise CorruptData(text, file=file.file_path)
    pairs = {
        key: convert(fields[key], value)
        for key, value in zip(statistics.keys, statistics.values, strict=True)
        if key in fields
    }
    return [(key, value) for key, value in pairs.items() if value is not None]


def _bounds(
    file: ContentFile, bounds: ValueMap | None, fields: dict[int, IcebergType], schema: Schema
) -> list[tuple[int, Any]] | None:
    form = None if bounds is None else _are_bytes(bounds, schema)
    return _map(file, bounds, fields, lambda type_, value: _bound(type_, value, form))


def _are_bytes(bounds: ValueMap, schema: Schema) -> bool | None:
    """Tell whether bounds are given as the hexadecimal digits of their bytes, by the first number
    or time among them (None: none).
    """
    for key, value in zip(bounds.keys, bounds.values, strict=False):
        field = schema.by_id.get(key)
        if field is not None and type(field.field_type) in SIZES:
            return (
                isinstance(value, str)
                and _HEXADECIMAL.fullmatch(value) is not None
                and len(value) // 2 in (4, 8)
            )
    return None


def _bound(type_: IcebergType, value: object, are_bytes: bool | None) -> bytes | None:
    """Return the bytes of a bound; None for one that is not understood, which excludes nothing."""
    is_ambiguous = isinstance(type_, _AMBIGUOUS)
    if is_ambiguous and are_bytes is None:
        return None
    if isinstance(value, str) and _HEXADECIMAL.fullmatch(value) and (are_bytes or not is_ambiguous):
        data = bytes.fromhex(value)
        return None if isinstance(type_, FixedType) and len(data) != type_.length else data
    try:
        internal = from_json(type_, value)
        return None if internal is None else to_bytes(type_, internal)
    except FrazilError:
        return None


def _partitions(
    files: Sequence[ContentFile], spec: PartitionSpec, types: Sequence[IcebergType]
) -> pa.Array:
    rows = [_partition(file, spec, types) for file in files]
    if not spec.fields:
        return pa.Array.from_buffers(pa.struct([]), len(files), [None])
    children = [
        pa.array([row[n] for row in rows], arrow_value_type(type_)) for n, type_ in enumerate(types)
    ]
    names = [str(f.field_id) for f in spec.fields]
    return pa.StructArray.from_arrays(
        children, fields=[pa.field(n, c.type) for n, c in zip(names, children, strict=True)]
    )


def _partition(file: ContentFile, spec: PartitionSpec, types: Sequence[IcebergType]) -> list[Any]:
    """Return the partition values of a file; an object has them by field id and leaves out nulls."""
    partition = file.partition
    values = (
        [partition.get(str(f.field_id)) for f in spec.fields]
        if isinstance(partition, dict)
        else partition
    )
    if values is None and not spec.fields:
        return []
    if values is None or len(values) != len(spec.fields):
        have = "no" if values is None else len(values)
        text = f"File {file.file_path} has {have} partition values, but its partition spec {spec.spec_id} has {len(spec.fields)} fields."
        raise CorruptData(text, file=file.file_path)
    try:
        return [_value(type_, value) for type_, value in zip(types, values, strict=True)]
    except InvalidInput as error:
        raise CorruptData(
            f"A partition value of file {file.file_path} is none: {error.message}",
            file=file.file_path,
        ) from None


def _value(type_: IcebergType, value: object) -> Any:
    """Read a partition value; of the transform `day` some servers give the number of days instead
    of a date.
    """
    days = (
        isinstance(type_, DateType)
        and isinstance(value, int)
        and not isinstance(value, bool)
        and abs(value) < 2**31
    )
    return value if days else from_json(type_, value)
