"""Arrow batches as Spark's Python doors take them. Our own mapping: PySpark's helper changed its arguments between 4.1 and 4.2."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
from pyspark.sql import types as s

from frazil.errors import Unsupported

_PLAIN: dict[type[s.DataType], Callable[[], pa.DataType]] = {
    s.BooleanType: pa.bool_, s.ByteType: pa.int8, s.ShortType: pa.int16, s.IntegerType: pa.int32, s.LongType: pa.int64,
    s.FloatType: pa.float32, s.DoubleType: pa.float64, s.StringType: pa.string, s.CharType: pa.string, s.VarcharType: pa.string,
    s.BinaryType: pa.binary, s.DateType: pa.date32, s.TimestampType: lambda: pa.timestamp("us", tz="UTC"),
    s.TimestampNTZType: lambda: pa.timestamp("us"), s.TimeType: lambda: pa.time64("ns"), s.NullType: pa.null,
}  # fmt: skip
_VARIANT = pa.struct(
    [pa.field("value", pa.binary(), nullable=False), pa.field("metadata", pa.binary(), nullable=False, metadata={b"variant": b"true"})]
)


def arrow_schema(schema: s.StructType) -> pa.Schema:
    """The schema of batches for a StructType. Raises Unsupported for types that Frazil has no use for."""
    return pa.schema([pa.field(f.name, arrow_type(f.dataType), f.nullable) for f in schema.fields])


def arrow_type(type_: s.DataType) -> pa.DataType:
    match type_:
        case s.StructType():
            return pa.struct([pa.field(f.name, arrow_type(f.dataType), f.nullable) for f in type_.fields])
        case s.ArrayType():
            return pa.list_(pa.field("element", arrow_type(type_.elementType), type_.containsNull))
        case s.MapType():
            key = pa.field("key", arrow_type(type_.keyType), nullable=False)
            return pa.map_(key, pa.field("value", arrow_type(type_.valueType), type_.valueContainsNull))
        case s.DecimalType():
            return pa.decimal128(type_.precision, type_.scale)
        case s.VariantType():
            return _VARIANT
    for kind, make in _PLAIN.items():
        if isinstance(type_, kind):
            return make()
    raise Unsupported(f"Type {type_.simpleString()} cannot cross between Spark and Arrow here.")
