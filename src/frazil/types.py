"""Provide column types by PyIceberg's path: `from frazil.types import NestedField, LongType`."""

from frazil.spec.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    GeographyType,
    GeometryType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    PrimitiveType,
    StringType,
    StructType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UnknownType,
    UUIDType,
    VariantType,
)

__all__ = [
    "BinaryType", "BooleanType", "DateType", "DecimalType", "DoubleType", "FixedType", "FloatType", "GeographyType", "GeometryType",
    "IcebergType", "IntegerType", "ListType", "LongType", "MapType", "NestedField", "PrimitiveType", "StringType", "StructType", "TimeType",
    "TimestampNanoType", "TimestampType", "TimestamptzNanoType", "TimestamptzType", "UUIDType", "UnknownType", "VariantType",
]  # fmt: skip
