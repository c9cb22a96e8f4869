"""Convert Spark types to the Arrow types of batches that Python tasks exchange with Spark, and cast
Arrow batches and tables to what Spark expects.

The mapping is written here since PySpark's own function for it has other arguments on 4.2 than on
4.1.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import types as s
from pyspark.sql.pandas.types import from_arrow_schema

from frazil.arrow.values.arrow_schema import DOC
from frazil.arrow.values.variant import json_to_variant
from frazil.errors import Unsupported

_PLAIN: dict[type[s.DataType], Callable[[], pa.DataType]] = {
    s.BooleanType: pa.bool_, s.ByteType: pa.int8, s.ShortType: pa.int16, s.IntegerType: pa.int32, s.LongType: pa.int64,
    s.FloatType: pa.float32, s.DoubleType: pa.float64, s.StringType: pa.string, s.CharType: pa.string, s.VarcharType: pa.string,
    s.BinaryType: pa.binary, s.DateType: pa.date32, s.TimestampType: lambda: pa.timestamp("us", tz="UTC"),
    s.TimestampNTZType: lambda: pa.timestamp("us"), s.TimeType: lambda: pa.time64("ns"), s.NullType: pa.null,
}  # fmt: skip
_VARIANT = pa.struct(
    [
        pa.field("value", pa.binary(), nullable=False),
        pa.field("metadata", pa.binary(), nullable=False, metadata={b"variant": b"true"}),
    ]
)


def arrow_schema(schema: s.StructType) -> pa.Schema:
    """Return the Arrow schema of batches for a StructType. Raises Unsupported for types that
    Iceberg lacks, such as intervals.
    """
    return pa.schema([pa.field(f.name, arrow_type(f.dataType), f.nullable) for f in schema.fields])


def arrow_type(type_: s.DataType) -> pa.DataType:
    """Return the Arrow type of a Spark type. Raises Unsupported for types that Iceberg lacks, such
    as intervals.
    """
    match type_:
        case s.StructType():
            return pa.struct(
                [pa.field(f.name, arrow_type(f.dataType), f.nullable) for f in type_.fields]
            )
        case s.ArrayType():
            return pa.list_(pa.field("element", arrow_type(type_.elementType), type_.containsNull))
        case s.MapType():
            key = pa.field("key", arrow_type(type_.keyType), nullable=False)
            return pa.map_(
                key, pa.field("value", arrow_type(type_.valueType), type_.valueContainsNull)
            )
        case s.DecimalType():
            return pa.decimal128(type_.precision, type_.scale)
        case s.VariantType():
            return _VARIANT
    for kind, make in _PLAIN.items():
        if isinstance(type_, kind):
            return make()
    raise Unsupported(
        f"The Spark type {type_.simpleString()} cannot be exchanged as Arrow.",
        hint="Cast the column first.",
    )


def struct_of(schema: pa.Schema) -> s.StructType:
    """Return the Spark schema of an Arrow table, with the comments of its columns. Timestamps
    without a zone become TIMESTAMP_NTZ: by default PySpark takes them for points in time in the
    session's zone."""
    struct = from_arrow_schema(schema, prefer_timestamp_ntz=True)
    for field, column in zip(struct.fields, schema, strict=True):
        if (doc := (column.metadata or {}).get(DOC)) is not None:
            field.metadata = {**(field.metadata or {}), "comment": doc.decode()}
    return struct


def for_spark(table: pa.Table) -> pa.Table:
    """Convert a metadata table to types and values that Spark can hold: timestamps in nanoseconds
    are rounded down to microseconds, and decimals with more digits than their type become null, as
    in Java (`truncate` of a negative number may give one digit more)."""
    columns = [
        pa.chunked_array(
            [_converted(chunk) for chunk in c.chunks], _converted(pa.nulls(0, c.type)).type
        )
        for c in table.columns
    ]
    fields = [f.with_type(c.type) for f, c in zip(table.schema, columns, strict=True)]
    return pa.Table.from_arrays(columns, schema=pa.schema(fields, table.schema.metadata))


def _converted(values: pa.Array) -> pa.Array:
    type_ = values.type
    if not _needs_conversion(type_):
        return values
    if pa.types.is_timestamp(type_):
        nanos = values.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
        is_null = np.asarray(values.is_null().to_numpy(zero_copy_only=False))
        return pa.array(np.floor_divide(nanos, 1000), pa.int64(), mask=is_null).cast(
            pa.timestamp("us", type_.tz)
        )
    if pa.types.is_decimal(type_):
        wide = values.cast(pa.decimal256(76, type_.scale))
        fits = pc.less(
            pc.abs(wide),
            pa.scalar(
                Decimal(10) ** (type_.precision - type_.scale), pa.decimal256(76, type_.scale)
            ),
        )
        return pc.if_else(fits, values, pa.scalar(None, type_))
    if pa.types.is_struct(type_):
        members = [_converted(member) for member in values.flatten()]
        return pa.StructArray.from_arrays(
            members, fields=_fields(type_.fields, members), mask=values.is_null()
        )
    whole = pa.concat_arrays([values])  # copied, since the offsets of a slice do not begin at 0
    if pa.types.is_map(type_):
        keys, items = _converted(whole.keys), _converted(whole.items)
        key, item = _fields([type_.key_field, type_.item_field], [keys, items])
        return pa.MapArray.from_arrays(
            whole.offsets, keys, items, pa.map_(key, item), mask=whole.is_null()
        )
    elements = _converted(whole.values)
    (element,) = _fields([type_.value_field], [elements])
    return pa.ListArray.from_arrays(
        whole.offsets, elements, pa.list_(element), mask=whole.is_null()
    )


def _needs_conversion(type_: pa.DataType) -> bool:
    if pa.types.is_nested(type_):
        return any(_needs_conversion(type_.field(n).type) for n in range(type_.num_fields))
    return bool(pa.types.is_decimal(type_) or (pa.types.is_timestamp(type_) and type_.unit == "ns"))


def _fields(fields: list[pa.Field], values: list[pa.Array]) -> list[pa.Field]:
    return [f.with_type(v.type) for f, v in zip(fields, values, strict=True)]


def fitted(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return a batch with its columns cast, by position, to exactly the types of `schema`; JSON
    text is cast to variant.
    """
    if batch.schema.equals(schema):
        return batch
    columns = [_cast(c, f.type) for c, f in zip(batch.columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _cast(column: pa.Array, type_: pa.DataType) -> pa.Array:
    if column.type.equals(type_):
        return column
    if pa.types.is_null(column.type):
        return pa.nulls(len(column), type_)
    if pa.types.is_struct(type_) and pa.types.is_string(column.type):
        return _as_variant(column, type_)
    return column.cast(type_)


def _as_variant(texts: pa.Array, type_: pa.DataType) -> pa.Array:
    """Convert JSON texts to Spark's form of variants in Arrow: structs of `value` and `metadata`."""
    pairs = [pair or (b"", b"") for pair in json_to_variant(texts.to_pylist())]
    members = {
        "metadata": pa.array([p[0] for p in pairs], pa.binary()),
        "value": pa.array([p[1] for p in pairs], pa.binary()),
    }
    return pa.StructArray.from_arrays(
        [members[f.name] for f in type_], fields=list(type_), mask=texts.is_null()
    )
