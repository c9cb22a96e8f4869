"""Columns as read from files turned into the columns of the table: uuid bytes to text, JSON to variant, names back, sub-fields chosen."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from frazil.spark.types.spark_types import contains, spark_type
from frazil.spec import types as i


def uuid_text(c: Column) -> Column:
    h = F.lower(F.hex(c))
    return F.concat_ws(
        "-", F.substring(h, 1, 8), F.substring(h, 9, 4), F.substring(h, 13, 4), F.substring(h, 17, 4), F.substring(h, 21, 12)
    )


def from_file(c: Column, type_: i.IcebergType) -> Column:
    """A column of Spark's scan (`shape.read_type`) as the table shows it."""
    return _rebuilt(c, type_, type_) if is_rebuilt(type_) else c


def is_rebuilt(type_: i.IcebergType) -> bool:
    """Whether `from_file` changes a column of the type."""
    return contains(type_, i.UUIDType, i.UnknownType)


def from_arrow(c: Column, type_: i.IcebergType) -> Column:
    """A column that came from Arrow batches, where a variant is JSON text."""
    return _rebuilt(c, type_, type_, bytes_uuid=False) if contains(type_, i.VariantType, i.UnknownType) else c


def pruned(c: Column, whole: i.IcebergType, wanted: i.IcebergType) -> Column:
    """The same column with only the sub-fields of `wanted`; a null stays null at every level."""
    return c if whole == wanted else _rebuilt(c, wanted, whole, converted=True)


def _rebuilt(c: Column, wanted: i.IcebergType, whole: i.IcebergType, *, converted: bool = False, bytes_uuid: bool = True) -> Column:
    def again(inner: Column, a: i.IcebergType, b: i.IcebergType) -> Column:
        return _rebuilt(inner, a, b, converted=converted, bytes_uuid=bytes_uuid)

    match wanted, whole:
        case i.StructType(), i.StructType():
            inside = {f.field_id: f for f in whole.fields}
            parts = []
            for f in wanted.fields:
                if isinstance(f.field_type, i.UnknownType):
                    parts.append(F.lit(None).alias(f.name))
                else:
                    parts.append(again(c.getField(f.name), f.field_type, inside[f.field_id].field_type).alias(f.name))
            return F.when(c.isNotNull(), F.struct(*parts))
        case i.ListType(), i.ListType():
            return F.transform(c, lambda e: again(e, wanted.element_type, whole.element_type))
        case i.MapType(), i.MapType():
            values = F.transform_values(c, lambda _, v: again(v, wanted.value_type, whole.value_type))
            if contains(wanted.key_type, i.UUIDType, i.VariantType) or wanted.key_type != whole.key_type:
                return F.transform_keys(values, lambda k, _: again(k, wanted.key_type, whole.key_type))
            return values
        case i.UUIDType(), _ if not converted and bytes_uuid:
            return F.when(c.isNotNull(), uuid_text(c))
        case i.VariantType(), _ if not converted and not bytes_uuid:
            return F.parse_json(c)
        case i.UnknownType(), _:
            return F.lit(None)
    return c


def arrow_type(type_: i.IcebergType) -> i.IcebergType:
    """The type of a column in the batches that cross from Python to Spark: variant as text, `unknown` as a text that is always null."""
    match type_:
        case i.VariantType() | i.UnknownType():
            return i.StringType()
    inside = i.children(type_)
    if not inside:
        return type_
    return i.with_children(type_, tuple(i.NestedField(f.field_id, f.name, arrow_type(f.field_type), f.required) for f in inside))


def empty_column(type_: i.IcebergType, column: str, time: bool) -> Column:
    return F.lit(None).cast(spark_type(type_, column, time=time))
