"""Encode the rows of a decoded manifest as a manifest again, column by column: no Python object is
made for an entry.

Each column becomes an array of the bytes that Avro has for its values; joined row by row these are
the entries. `encode_manifest` does the same for entry objects.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from frazil.codec.avro_write import container_of_rows, decimal_size
from frazil.codec.manifest_write import (
    ENTRY_COLUMNS,
    FILE_COLUMNS,
    V1_BLOCK_SIZE,
    Column,
    arrow_value_type,
    avro_schema,
    columns_since,
    manifest_metadata,
)
from frazil.errors import CorruptData, Unsupported
from frazil.expr.building import from_numpy, scalar, to_numpy
from frazil.spec.manifest import ManifestContent
from frazil.spec.partitioning import PartitionSpec
from frazil.spec.schema import Schema
from frazil.spec.types import DecimalType, IcebergType, NestedField, UnknownType, UUIDType

_EMPTY, _NO, _YES = (scalar(b, pa.binary()) for b in (b"", b"\x00", b"\x02"))
_ZERO = scalar(0, pa.int32())
Parts = list[pa.Array]


def encode_columns(
    entries: pa.Table,
    *,
    spec: PartitionSpec,
    schema: Schema,
    format_version: int,
    content: int = ManifestContent.DATA,
    codec: str = "gzip",
    level: int | None = None,
) -> bytes:
    """Encode a manifest of entries as `codec.manifest.decode_manifest` returns them, all columns,
    with partitions of `partition_columns`.

    `schema` holds the source columns of `spec`. Raises Unsupported for an unknown codec or
    transform.
    """
    metadata, partition_type = manifest_metadata(spec, schema, format_version, content)
    rows = _joined(_parts(entries, partition_type.fields, format_version))
    _, ends, data = rows.buffers()
    bounds = (
        np.frombuffer(ends, np.int32)[rows.offset + 1 : rows.offset + 1 + len(rows)]
        if len(rows)
        else np.empty(0, np.int32)
    )
    view = memoryview(data) if data is not None else memoryview(b"")
    return container_of_rows(
        avro_schema(format_version, partition_type), metadata, view, bounds.tolist(), codec, level
    )


def partition_columns(entries: pa.Table, spec: PartitionSpec, schema: Schema) -> list[pa.Array]:
    """Return the partition values of decoded entries, an array for each field of the spec, of the
    types that the spec has now.
    """
    struct = _one_array(entries.column("partition"))
    stored = {struct.type.field(i).name: child for i, child in enumerate(struct.flatten())}
    columns = []
    for field in spec.partition_type(schema).fields:
        wanted, child = arrow_value_type(field.field_type), stored.get(str(field.field_id))
        if child is None or pa.types.is_null(child.type):
            child = pa.nulls(len(struct), wanted)
        columns.append(child if child.type == wanted else _widened(child, wanted, field))
    return columns


def _widened(values: pa.Array, type_: pa.DataType, field: NestedField) -> pa.Array:
    numbers = (pa.int32(), pa.int64()), (pa.float32(), pa.float64())
    decimals = (
        pa.types.is_decimal(values.type)
        and pa.types.is_decimal(type_)
        and values.type.scale == type_.scale
    )
    same_unit = (values.type, type_) in numbers and not str(field.field_type).startswith(
        "timestamp"
    )
    if not decimals and not same_unit:
        raise Unsupported(
            f"Partition values of {field.name} are stored as {values.type}, which cannot be written as {field.field_type}."
        )
    return values.cast(type_)


def _parts(entries: pa.Table, partition: Sequence[NestedField], version: int) -> Parts:
    parts: Parts = []
    for column in columns_since(ENTRY_COLUMNS, version):
        parts += _column(column, _one_array(entries.column(column.name)), version)
    for column in columns_since(FILE_COLUMNS, version):
        match column.name:
            case "partition":
                children = _one_array(entries.column("partition")).flatten()
                for field, values in zip(partition, children, strict=True):
                    parts += _partition_value(field.field_type, values)
            case "block_size_in_bytes":
                parts.append(_varints(np.full(entries.num_rows, V1_BLOCK_SIZE, np.int64)))
            case "file_format":
                parts += _column(
                    column, pc.utf8_upper(_one_array(entries.column("file_format"))), version
                )
            case name:
                parts += _column(column, _one_array(entries.column(name)), version)
    return parts


def _column(column: Column, values: pa.Array, version: int) -> Parts:
    if column.required <= version:
        if values.null_count:
            raise CorruptData(
                f"An entry has no {column.name}, which manifests of format version {version} require."
            )
        return _value(column.kind, values)
    return [_flag(values), *(_where_known(part, values) for part in _value(column.kind, values))]


def _value(kind: str, values: pa.Array) -> Parts:
    match kind:
        case "string" | "bytes":
            return _with_length(values)
        case "list":
            return _items(values, [_varints(_numbers(values.flatten()))])
        case "int->long":
            keys, longs = values.flatten().flatten()
            return _items(values, [_varints(_numbers(keys)), _varints(_numbers(longs))])
        case "int->bytes":
            keys, data = values.flatten().flatten()
            return _items(values, [_varints(_numbers(keys)), *_with_length(data)])
    return [_varints(_numbers(values))]


def _items(lists: pa.Array, items: Parts) -> Parts:
    """Encode lists of items as Avro does: their number, the items, and a zero, which stands alone
    for an empty list.
    """
    lengths = _numbers(pc.list_value_length(lists).fill_null(_ZERO))
    ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)]).astype(np.int32)
    packed = pa.ListArray.from_arrays(from_numpy(ends), _joined(items))
    end = pc.if_else(from_numpy(lengths > 0), _NO, _EMPTY)
    return [_varints(lengths), pc.binary_join(packed, _EMPTY), end]


def _partition_value(type_: IcebergType, values: pa.Array) -> Parts:
    if isinstance(type_, UnknownType):
        return []
    if isinstance(type_, DecimalType):
        encoded = [_decimals(values, decimal_size(type_.precision))]
    elif isinstance(type_, UUIDType):
        encoded = [values]
    elif pa.types.is_boolean(values.type):
        encoded = [_fixed(to_numpy(values).astype(np.uint8).reshape(-1, 1))]
    elif pa.types.is_floating(values.type):
        numbers = np.ascontiguousarray(to_numpy(values))
        encoded = [_fixed(numbers.view(np.uint8).reshape(len(values), numbers.itemsize))]
    else:
        encoded = (
            _with_length(values)
            if values.type in (pa.string(), pa.binary())
            else [_varints(_numbers(values))]
        )
    return [_flag(values), *(_where_known(part, values) for part in encoded)]


# Arrays of bytes


def _flag(values: pa.Array) -> pa.Array:
    return pc.if_else(values.is_valid(), _YES, _NO)


def _where_known(encoded: pa.Array, values: pa.Array) -> pa.Array:
    return pc.if_else(values.is_valid(), encoded, _EMPTY) if values.null_count else encoded


def _with_length(values: pa.Array) -> Parts:
    data = values.view(pa.binary()) if pa.types.is_string(values.type) else values
    data = data.fill_null(_EMPTY) if data.null_count else data
    return [_varints(_numbers(pc.binary_length(data))), data]


def _joined(parts: Parts) -> pa.Array:
    return pc.binary_join_element_wise(*parts, _EMPTY) if len(parts) > 1 else parts[0]


def _numbers(values: pa.Array) -> npt.NDArray[np.int64]:
    return np.asarray(to_numpy(values)).astype(np.int64)


def _varints(values: npt.NDArray[np.int64]) -> pa.Array:
    """Encode numbers as zigzag varints; what stands in place of a null is encoded as well."""
    left = ((values << 1) ^ (values >> 63)).view(np.uint64)
    sizes = np.ones(len(left), np.int32)
    for bits in range(7, 64, 7):
        longer = left >= np.uint64(1 << bits)
        if not longer.any():
            break
        sizes += longer
    ends = np.zeros(len(left) + 1, np.int32)
    np.cumsum(sizes, out=ends[1:])
    data = np.empty(int(ends[-1]), np.uint8)
    for n in range(int(sizes.max()) if len(sizes) else 0):
        here = sizes > n
        low = (left[here] >> np.uint64(7 * n)).astype(np.uint8) & 127
        data[ends[:-1][here] + n] = low | np.where(sizes[here] > n + 1, 128, 0).astype(np.uint8)
    return _binary(data, ends)


def _fixed(rows: npt.NDArray[np.uint8]) -> pa.Array:
    return _binary(
        np.ascontiguousarray(rows), np.arange(len(rows) + 1, dtype=np.int32) * rows.shape[1]
    )


def _binary(data: npt.NDArray[np.uint8], ends: npt.NDArray[Any]) -> pa.Array:
    return pa.Array.from_buffers(
        pa.binary(), len(ends) - 1, [None, pa.py_buffer(ends.astype(np.int32)), pa.py_buffer(data)]
    )


def _decimals(values: pa.Array, size: int) -> pa.Array:
    words = np.frombuffer(values.buffers()[1], np.uint8).reshape(-1, 16)[
        values.offset : values.offset + len(values)
    ]
    return _fixed(words[:, ::-1][:, 16 - size :])


def _one_array(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    if isinstance(column, pa.Array):
        return column
    return (
        column.chunk(0)
        if column.num_chunks == 1
        else pa.concat_arrays(column.chunks)
        if column.num_chunks
        else pa.nulls(0, column.type)
    )
