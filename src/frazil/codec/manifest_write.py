"""Encode manifest entries as a manifest: by hand for its fixed schema, many entries per block. Its
fields are listed by id with their Avro types, Arrow types and format versions (spec, "Manifests").
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from frazil.codec import json_nouns
from frazil.codec.avro_write import (
    avro_name,
    container,
    decimal_size,
    primitive_schema,
    to_text,
    write_bytes,
    write_long,
    write_text,
)
from frazil.codec.single_value import unscaled
from frazil.errors import InvalidInput, Unsupported, ValidationError
from frazil.spec.manifest import DataFile, ManifestContent, ManifestEntry
from frazil.spec.partitioning import PartitionSpec
from frazil.spec.schema import Schema
from frazil.spec.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    StructType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UnknownType,
    UUIDType,
)

V1_BLOCK_SIZE = 64 * 1024 * 1024  # as Java writes it; no reader uses it
_Writer = Callable[[Any], bytes]


def encode_manifest(
    entries: Iterable[ManifestEntry],
    *,
    spec: PartitionSpec,
    schema: Schema,
    format_version: int,
    content: int = ManifestContent.DATA,
    snapshot_id: int | None = None,
    codec: str = "gzip",
    level: int | None = None,
) -> bytes:
    """Encode a manifest. Ids and numbers that an entry leaves None are written as null, to be
    inherited; in version 1, which has no inheritance, `snapshot_id` is written.

    `schema` holds the source columns of `spec`. Raises InvalidInput for values that do not fit
    their type, Unsupported for an unknown codec or transform.
    """
    metadata, partition_type = manifest_metadata(spec, schema, format_version, content)
    write = _entry_writer(format_version, partition_type, snapshot_id)
    return container(
        avro_schema(format_version, partition_type), metadata, map(write, entries), codec, level
    )


def manifest_metadata(
    spec: PartitionSpec, schema: Schema, format_version: int, content: int
) -> tuple[dict[str, bytes], StructType]:
    """Return the metadata of a manifest's header, and the type of its partitions. Raises
    Unsupported for an unknown transform.
    """
    if unknown := [f for f in spec.fields if not f.transform.is_known]:
        raise Unsupported(
            f"Cannot write with unknown transform {unknown[0].transform} of partition field {unknown[0].name}."
        )
    partition_type = spec.partition_type(schema)
    metadata = {
        "schema": to_text(json_nouns.schema_to_json(schema)),
        "partition-spec": to_text(json_nouns.partition_fields_to_json(spec)),
        "partition-spec-id": str(spec.spec_id).encode(),
        "format-version": str(format_version).encode(),
        "schema-id": str(schema.schema_id).encode(),
    }
    if format_version >= 2:
        metadata["content"] = b"deletes" if content == ManifestContent.DELETES else b"data"
    elif content != ManifestContent.DATA:
        raise ValidationError("Format version 1 has no delete manifests.")
    return metadata, partition_type


# Schema


@functools.lru_cache(maxsize=64)
def avro_schema(format_version: int, partition_type: StructType) -> bytes:
    """Return the Avro schema of the entries of a manifest."""
    named: set[str] = set()
    partition = {
        "type": "record",
        "name": "r102",
        "fields": [_partition_field(f, named) for f in partition_type.fields],
    }
    file = {
        "type": "record",
        "name": "r2",
        "fields": [
            _field(c, format_version, partition)
            for c in columns_since(FILE_COLUMNS, format_version)
        ],
    }
    fields = [_field(c, format_version, None) for c in columns_since(ENTRY_COLUMNS, format_version)]
    return to_text(
        {
            "type": "record",
            "name": "manifest_entry",
            "fields": [*fields, {"name": "data_file", "type": file, "field-id": 2}],
        }
    )


def columns_since(columns: Iterable[Column], format_version: int) -> list[Column]:
    """Return the columns that manifests of a format version have."""
    return [c for c in columns if c.since <= format_version <= c.until]


def _partition_field(field: NestedField, named: set[str]) -> dict[str, Any]:
    name = avro_name(field.name)
    name_property = {"iceberg-field-name": field.name} if name != field.name else {}
    if isinstance(field.field_type, UnknownType):
        return {"name": name, "type": "null", "field-id": field.field_id, **name_property}
    # Java reads a fixed partition value with a length before it, whatever the schema says; only
    # type `bytes` is read alike by all readers.
    stored = (
        "bytes"
        if isinstance(field.field_type, FixedType)
        else primitive_schema(field.field_type, named)
    )
    return {
        "name": name,
        "type": ["null", stored],
        "default": None,
        "field-id": field.field_id,
        **name_property,
    }


def _field(column: Column, format_version: int, partition: object) -> dict[str, Any]:
    type_: Any = column.kind
    if column.kind == "partition":
        type_ = partition
    elif column.kind == "list":
        type_ = {"type": "array", "items": column.item, "element-id": column.inner_ids[0]}
    elif "->" in column.kind:
        key, value = column.inner_ids
        pair = [
            {"name": "key", "type": "int", "field-id": key},
            {"name": "value", "type": column.kind.partition("->")[2], "field-id": value},
        ]
        type_ = {
            "type": "array",
            "items": {"type": "record", "name": f"k{key}_v{value}", "fields": pair},
            "logicalType": "map",
        }
    doc = {"doc": column.doc} if column.doc else {}
    if column.required <= format_version:
        return {"name": column.name, "type": type_, **doc, "field-id": column.field_id}
    return {
        "name": column.name,
        "type": ["null", type_],
        **doc,
        "default": None,
        "field-id": column.field_id,
    }


# Values


def _entry_writer(
    format_version: int, partition_type: StructType, snapshot_id: int | None
) -> Callable[[ManifestEntry], bytes]:
    optional: dict[str, _Writer] = {}
    for column in columns_since(FILE_COLUMNS, format_version):
        if column.required > format_version:
            optional[column.name] = _writer(column)
    partition = [(f.name, _value_writer(f.field_type), f.field_type) for f in partition_type.fields]

    def write(entry: ManifestEntry) -> bytes:
        file = entry.data_file
        own = entry.snapshot_id
        if format_version == 1:
            parts = [write_long(entry.status), _optional_long(snapshot_id if own is None else own)]
        else:
            numbers = (own, entry.sequence_number, entry.file_sequence_number)
            parts = [
                write_long(entry.status),
                *map(_optional_long, numbers),
                write_long(file.content),
            ]
        parts += [write_text(file.file_path), write_text(file.file_format.upper())]
        if partition or file.partition:
            parts.append(_partition(file, partition))
        parts += [write_long(file.record_count), write_long(file.file_size_in_bytes)]
        if format_version == 1:
            parts.append(write_long(V1_BLOCK_SIZE))
        for name, writer in optional.items():
            value = getattr(file, name)
            parts.append(b"\x00" if value is None else b"\x02" + writer(value))
        return b"".join(parts)

    return write


def _optional_long(number: int | None) -> bytes:
    return b"\x00" if number is None else b"\x02" + write_long(number)


def _partition(file: DataFile, writers: list[tuple[str, _Writer | None, IcebergType]]) -> bytes:
    if len(file.partition) != len(writers):
        raise InvalidInput(
            f"{file.file_path} has {len(file.partition)} partition values, but its spec has {len(writers)} fields.",
            file=file.file_path,
        )
    parts = []
    for value, (name, write, type_) in zip(file.partition, writers, strict=True):
        try:
            parts.append(
                b"" if write is None else b"\x00" if value is None else b"\x02" + write(value)
            )
        except (TypeError, ValueError, OverflowError, AttributeError, struct.error) as e:
            text = (
                f"{value!r} is not a valid {type_} for partition field {name} of {file.file_path}."
            )
            raise InvalidInput(text, file=file.file_path) from e
    return b"".join(parts)


def _writer(column: Column) -> _Writer:
    match column.kind:
        case "string":
            return write_text
        case "bytes":
            return write_bytes
        case "list":
            return _list
        case "int->long":
            return _longs_by_id
        case "int->bytes":
            return _bytes_by_id
    return write_long


def _list(items: tuple[int, ...]) -> bytes:
    return write_long(len(items)) + b"".join(map(write_long, items)) + b"\x00" if items else b"\x00"


def _longs_by_id(values: dict[int, int]) -> bytes:
    if not values:
        return b"\x00"
    return (
        write_long(len(values))
        + b"".join([write_long(k) + write_long(v) for k, v in values.items()])
        + b"\x00"
    )


def _bytes_by_id(values: dict[int, bytes]) -> bytes:
    if not values:
        return b"\x00"
    return (
        write_long(len(values))
        + b"".join([write_long(k) + write_long(len(v)) + v for k, v in values.items()])
        + b"\x00"
    )


def _value_writer(type_: IcebergType) -> _Writer | None:
    """Find the function that encodes a partition value of a type; None for the unknown type, whose
    values take no bytes.
    """
    match type_:
        case UnknownType():
            return None
        case BooleanType():
            return lambda v: b"\x01" if v else b"\x00"
        case FloatType():
            return struct.Struct("<f").pack
        case DoubleType():
            return struct.Struct("<d").pack
        case StringType():
            return write_text
        case BinaryType():
            return write_bytes
        case DecimalType(precision=precision, scale=scale):
            size = decimal_size(precision)
            return lambda v: unscaled(v, scale).to_bytes(size, "big", signed=True)
        case UUIDType():
            return lambda v: _exactly(v, 16)
        case FixedType(length=n):
            return lambda v: write_bytes(_exactly(v, n))
        case IntegerType() | DateType():
            return _int32
    return write_long


def _exactly(data: bytes, size: int) -> bytes:
    if len(data) != size:
        raise ValueError(f"{len(data)} bytes instead of {size}")
    return bytes(data)


def _int32(number: int) -> bytes:
    if not -(2**31) <= number < 2**31:
        raise OverflowError(number)
    return write_long(number)


DATA_FILE_ID, PARTITION_ID = 2, 102
NEVER = 9  # a format version that does not exist: the field is never required


def map_type(value: pa.DataType) -> pa.DataType:
    """Make the Arrow type of a metrics map: a list of non-null structs of key and value."""
    return pa.list_(
        pa.field(
            "item",
            pa.struct([pa.field("key", pa.int32(), False), pa.field("value", value, False)]),
            False,
        )
    )


@dataclass(frozen=True)
class Column:
    """Describe a field of manifest entries.

    `kind`: the Avro type, or `int->long` and `int->bytes` (with the ids of key and value) or `list`
    (of `item`, with its id). `required` and `since`: the first format versions in which the field
    is required and in which it is written; `until`: the last one.
    """

    field_id: int
    name: str
    kind: str
    type: pa.DataType
    doc: str = ""
    required: int = NEVER
    since: int = 1
    until: int = 3
    inner_ids: tuple[int, ...] = ()
    item: str = ""


_INT, _LONG, _TEXT, _BYTES = pa.int32(), pa.int64(), pa.string(), pa.binary()
_LONGS, _BINARIES = map_type(pa.int64()), map_type(pa.binary())
_LONG_LIST, _INT_LIST = (pa.list_(pa.field("item", t, False)) for t in (pa.int64(), pa.int32()))

ENTRY_COLUMNS = (
    Column(0, "status", "int", _INT, required=1),
    Column(1, "snapshot_id", "long", _LONG),
    Column(3, "sequence_number", "long", _LONG, since=2),
    Column(4, "file_sequence_number", "long", _LONG, since=2),
)
FILE_COLUMNS = (
    Column(134, "content", "int", _INT, "Contents of the file: 0=data, 1=position deletes, 2=equality deletes", required=2, since=2),
    Column(100, "file_path", "string", _TEXT, "Location URI with FS scheme", required=1),
    Column(101, "file_format", "string", _TEXT, "File format name: avro, orc, or parquet", required=1),
    Column(PARTITION_ID, "partition", "partition", _BYTES, "Partition data tuple, schema based on the partition spec", required=1),
    Column(103, "record_count", "long", _LONG, "Number of records in the file", required=1),
    Column(104, "file_size_in_bytes", "long", _LONG, "Total file size in bytes", required=1),
    Column(105, "block_size_in_bytes", "long", _LONG, required=1, until=1),
    Column(108, "column_sizes", "int->long", _LONGS, "Map of column id to total size on disk", inner_ids=(117, 118)),
    Column(109, "value_counts", "int->long", _LONGS, "Map of column id to total count, including null and NaN", inner_ids=(119, 120)),
    Column(110, "null_value_counts", "int->long", _LONGS, "Map of column id to null value count", inner_ids=(121, 122)),
    Column(137, "nan_value_counts", "int->long", _LONGS, "Map of column id to number of NaN values in the column", inner_ids=(138, 139)),
    Column(125, "lower_bounds", "int->bytes", _BINARIES, "Map of column id to lower bound", inner_ids=(126, 127)),
    Column(128, "upper_bounds", "int->bytes", _BINARIES, "Map of column id to upper bound", inner_ids=(129, 130)),
    Column(131, "key_metadata", "bytes", _BYTES, "Encryption key metadata blob"),
    Column(132, "split_offsets", "list", _LONG_LIST, "Splittable offsets", inner_ids=(133,), item="long"),
    Column(135, "equality_ids", "list", _INT_LIST, "Equality comparison field IDs", since=2, inner_ids=(136,), item="int"),
    Column(140, "sort_order_id", "int", _INT, "Sort order ID"),
    Column(142, "first_row_id", "long", _LONG, "The first row ID assigned to the first row in the data file", since=3),
    Column(143, "referenced_data_file", "string", _TEXT, "Location (URI with FS scheme) of the data file that all deletes reference",
           since=2),
    Column(144, "content_offset", "long", _LONG, "The offset in the file where the content starts", since=3),
    Column(145, "content_size_in_bytes", "long", _LONG, "The length of referenced content stored in the file", since=3),
)  # fmt: skip
COLUMNS = tuple(c for c in (*ENTRY_COLUMNS, *FILE_COLUMNS) if c.name != "block_size_in_bytes")
"""All columns of a decoded manifest, in order."""
BY_ID = {c.field_id: c for c in COLUMNS}
BY_NAME = {c.name: c for c in COLUMNS}

_VALUE_TYPES: dict[type, pa.DataType] = {
    BooleanType: pa.bool_(), IntegerType: pa.int32(), DateType: pa.int32(), LongType: pa.int64(), TimeType: pa.int64(),
    TimestampType: pa.int64(), TimestamptzType: pa.int64(), TimestampNanoType: pa.int64(), TimestamptzNanoType: pa.int64(),
    FloatType: pa.float32(), DoubleType: pa.float64(), StringType: pa.string(), UnknownType: pa.null(),
}  # fmt: skip


def arrow_value_type(type_: IcebergType) -> pa.DataType:
    """Return the Arrow type of internal values: int32 for date, int64 for times, binary for uuid,
    fixed, binary, geo and variant.
    """
    if isinstance(type_, DecimalType):
        return pa.decimal128(type_.precision, type_.scale)
    return _VALUE_TYPES.get(type(type_), pa.binary())
