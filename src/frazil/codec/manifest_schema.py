"""List the fields of manifest entries by id (spec, "Manifests"), with their Avro types, Arrow types
and format versions.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from frazil.spec.types import (
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
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
    UnknownType,
)

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
