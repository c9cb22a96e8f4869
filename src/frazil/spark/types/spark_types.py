"""Convert Iceberg types, schemas and column defaults to Spark's, and types and schemas back (in
Java Iceberg: TypeToSparkType and SparkTypeToType). A default becomes the Spark SQL text
(`EXISTS_DEFAULT`) by which Spark fills files that lack the column.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from pyspark.sql import types as s

from frazil.errors import Unsupported, ValidationError
from frazil.ops.session import Session
from frazil.spark.host.jvm import setting
from frazil.spec import types as i
from frazil.spec.schema import Schema, assign_fresh_ids

_PLAIN: dict[type[i.IcebergType], Callable[[], s.DataType]] = {
    i.BooleanType: s.BooleanType, i.IntegerType: s.IntegerType, i.LongType: s.LongType, i.FloatType: s.FloatType,
    i.DoubleType: s.DoubleType, i.DateType: s.DateType, i.TimestampType: s.TimestampNTZType, i.TimestamptzType: s.TimestampType,
    i.StringType: s.StringType, i.UUIDType: s.StringType, i.BinaryType: s.BinaryType, i.FixedType: s.BinaryType,
    i.UnknownType: s.NullType, i.VariantType: s.VariantType,
}  # fmt: skip
_BACK: dict[type[s.DataType], i.IcebergType] = {
    s.BooleanType: i.BooleanType(), s.ByteType: i.IntegerType(), s.ShortType: i.IntegerType(), s.IntegerType: i.IntegerType(),
    s.LongType: i.LongType(), s.FloatType: i.FloatType(), s.DoubleType: i.DoubleType(), s.DateType: i.DateType(),
    s.TimestampNTZType: i.TimestampType(), s.TimestampType: i.TimestamptzType(), s.StringType: i.StringType(),
    s.CharType: i.StringType(), s.VarcharType: i.StringType(), s.BinaryType: i.BinaryType(), s.NullType: i.UnknownType(),
    s.VariantType: i.VariantType(),
}  # fmt: skip
_TIME_SETTING = "spark.sql.timeType.enabled"
_LEAVE_OUT = "leave the column out: t.scan(selected_fields=(…)).to_spark()."
_NO_SUCH_TYPE = f"Spark has no such type; read it with to_arrow(), or {_LEAVE_OUT}"


def spark_type(type_: i.IcebergType, column: str = "", *, time: bool = False) -> s.DataType:
    """Return the Spark type in which a DataFrame shows an Iceberg type: uuid as string, fixed as
    binary, all that is nested as nullable.

    `time`: whether the session has `spark.sql.timeType.enabled`. Raises Unsupported, which names
    type and column, for types Spark lacks.
    """
    match type_:
        case i.StructType():
            return s.StructType(
                [
                    spark_field(f, f"{column}.{f.name}" if column else f.name, time=time)
                    for f in type_.fields
                ]
            )
        case i.ListType():
            return s.ArrayType(spark_type(type_.element_type, f"{column}.element", time=time))
        case i.MapType():
            key, value = (
                spark_type(t, f"{column}.{n}", time=time)
                for t, n in ((type_.key_type, "key"), (type_.value_type, "value"))
            )
            return s.MapType(key, value)
        case i.DecimalType():
            return s.DecimalType(type_.precision, type_.scale)
        case i.TimeType():
            if not time:
                raise Unsupported(
                    f"Column {column!r} is a time, and the session does not have {_TIME_SETTING}=true.",
                    hint=f"Set it, or {_LEAVE_OUT}",
                )
            return s.TimeType(6)
    make = _PLAIN.get(type(type_))
    if make is None:
        raise Unsupported(
            f"Column {column!r} has the type {type_}.", hint=_NO_SUCH_TYPE, column=column
        )
    return make()


def spark_field(field: i.NestedField, column: str = "", *, time: bool = False) -> s.StructField:
    """Return the StructField of a column, nullable and with its doc as the comment. `column`: its
    full name, for errors.
    """
    comment = {"comment": field.doc} if field.doc else {}
    return s.StructField(
        field.name, spark_type(field.field_type, column or field.name, time=time), True, comment
    )


def to_spark(schema: Schema, *, time: bool = False) -> s.StructType:
    """Return the StructType of a schema. Raises Unsupported for timestamps in nanoseconds and geo
    types, and for time unless `time`.
    """
    return s.StructType([spark_field(f, time=time) for f in schema.fields])


def time_enabled(spark: Session) -> bool:
    """Tell whether a session has Spark's TIME type switched on."""
    return str(setting(spark, _TIME_SETTING, "false")).lower() == "true"


def from_spark(struct: s.StructType) -> Schema:
    """Return the Iceberg schema of a StructType, with fresh ids; `nullable=False` becomes required,
    and a comment the doc.

    Raises Unsupported for types that Iceberg lacks, such as intervals and user-defined types, and
    ValidationError for decimals whose scale Iceberg does not allow.
    """
    counter = itertools.count(1).__next__
    return assign_fresh_ids(Schema(*(_field(f, f.name, counter) for f in struct.fields)))


def _field(field: s.StructField, column: str, next_id: Callable[[], int]) -> i.NestedField:
    doc = (field.metadata or {}).get("comment")
    return i.NestedField(
        next_id(),
        field.name,
        _iceberg_type(field.dataType, column, next_id),
        not field.nullable,
        doc,
    )


def _iceberg_type(type_: s.DataType, column: str, next_id: Callable[[], int]) -> i.IcebergType:
    match type_:
        case s.StructType():
            return i.StructType(*(_field(f, f"{column}.{f.name}", next_id) for f in type_.fields))
        case s.ArrayType():
            return i.ListType(
                next_id(),
                _iceberg_type(type_.elementType, f"{column}.element", next_id),
                not type_.containsNull,
            )
        case s.MapType():
            key = _iceberg_type(type_.keyType, f"{column}.key", next_id)
            return i.MapType(
                next_id(),
                key,
                next_id(),
                _iceberg_type(type_.valueType, f"{column}.value", next_id),
                not type_.valueContainsNull,
            )
        case s.DecimalType():
            if type_.scale < 0 or type_.scale > type_.precision:
                raise ValidationError(
                    f"Column {column!r} has the type {type_.simpleString()}; Iceberg's scale is 0 up to the precision."
                )
            return i.DecimalType(type_.precision, type_.scale)
        case s.TimeType():
            return i.TimeType()
    primitive = next((t for k, t in _BACK.items() if type(type_) is k), None)
    if primitive is None and isinstance(type_, s.StringType):  # a string with a collation
        primitive = i.StringType()
    if primitive is None:
        raise Unsupported(
            f"Column {column!r} has the Spark type {type_.simpleString()}, which Iceberg lacks.",
            hint="Cast it first.",
            column=column,
        )
    return primitive


def collated_columns(schema: s.StructType) -> tuple[str, ...]:
    """Return the names of the text columns that Spark compares by a collation other than
    UTF8_BINARY. Iceberg's text has no collation.
    """
    return tuple(
        f.name
        for f in schema.fields
        if isinstance(f.dataType, s.StringType) and not f.dataType.isUTF8BinaryCollation()
    )


def contains(type_: i.IcebergType, *kinds: type[i.IcebergType]) -> bool:
    """Tell whether a type is one of these kinds, or contains one at any depth."""
    return isinstance(type_, kinds) or any(
        contains(c.field_type, *kinds) for c in i.children(type_)
    )


def has_type(f: i.NestedField, time: bool) -> bool:
    """Tell whether Spark has a type for a column. `time`: whether the session has Spark's TIME type
    switched on.
    """
    return not contains(
        f.field_type, i.TimestampNanoType, i.TimestamptzNanoType, i.GeometryType, i.GeographyType
    ) and (time or not contains(f.field_type, i.TimeType))


def default_sql(type_: i.IcebergType, value: Any) -> str | None:
    """Return the SQL text of a default, which is given as an internal value. None for types that
    Spark lacks, and for nested ones.
    """
    match type_:
        case i.BooleanType():
            return "true" if value else "false"
        case i.IntegerType() | i.LongType():
            return f"CAST('{value}' AS {'INT' if isinstance(type_, i.IntegerType) else 'BIGINT'})"
        case i.FloatType() | i.DoubleType():
            text = (
                "NaN"
                if math.isnan(value)
                else "Infinity"
                if value == math.inf
                else "-Infinity"
                if value == -math.inf
                else repr(value)
            )
            return f"CAST('{text}' AS {'FLOAT' if isinstance(type_, i.FloatType) else 'DOUBLE'})"
        case i.DecimalType():
            return f"CAST('{value:f}' AS DECIMAL({type_.precision}, {type_.scale}))"
        case i.DateType():
            return f"date_from_unix_date({value})"
        case i.TimestamptzType():
            return f"timestamp_micros({value})"
        case i.TimestampType():
            days, micros = divmod(value, 86_400_000_000)
            return f"timestampadd(MICROSECOND, {micros}, CAST(date_from_unix_date({days}) AS TIMESTAMP_NTZ))"
        case i.StringType():
            text = str(value).replace("\\", "\\\\").replace("'", "\\'")
            return f"'{text}'"
        case i.UUIDType():
            return f"'{UUID(bytes=value)}'"
        case i.BinaryType() | i.FixedType():
            return f"X'{value.hex()}'"
        case i.TimeType():
            return f"CAST('{datetime.min + timedelta(microseconds=value):%H:%M:%S.%f}' AS TIME(6))"
    return None
