"""Convert columns as scans read them to the table's columns: uuids from bytes to text, variants
from JSON, structs cut to chosen fields.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from frazil.spark.types.spark_types import contains
from frazil.spec import types as i


def from_file(c: Column, type_: i.IcebergType) -> Column:
    """Return a column of Spark's Parquet scan, read as `shape.read_type`, as the table shows it."""
    return _rebuilt(c, type_, type_) if is_rebuilt(type_) else c


def is_rebuilt(type_: i.IcebergType) -> bool:
    """Tell whether `from_file` changes columns of a type."""
    return contains(type_, i.UUIDType, i.UnknownType)


def from_arrow(c: Column, type_: i.IcebergType) -> Column:
    """Return a column of Arrow batches, transferred as `transfer_type`, as the table shows it."""
    return (
        _rebuilt(c, type_, type_, bytes_uuid=False)
        if contains(type_, i.VariantType, i.UnknownType)
        else c
    )


def pruned(c: Column, whole: i.IcebergType, projected: i.IcebergType) -> Column:
    """Return a column of the type `whole` with only the nested fields of `projected`; null structs
    stay null at every level.
    """
    return c if whole == projected else _rebuilt(c, projected, whole, converted=True)


def _rebuilt(
    c: Column,
    target: i.IcebergType,
    whole: i.IcebergType,
    *,
    converted: bool = False,
    bytes_uuid: bool = True,
) -> Column:
    """Rebuild a nested column field by field. `converted`: leaves are as the table shows them;
    `bytes_uuid`: uuids are bytes, as in files, and variants are variants, else uuids are text and
    variants are JSON, as in Arrow batches."""

    def rebuilt(nested: Column, target_type: i.IcebergType, whole_type: i.IcebergType) -> Column:
        return _rebuilt(nested, target_type, whole_type, converted=converted, bytes_uuid=bytes_uuid)

    match target, whole:
        case i.StructType(), i.StructType():
            by_id = {f.field_id: f for f in whole.fields}
            members = []
            for f in target.fields:
                if isinstance(f.field_type, i.UnknownType):
                    members.append(F.lit(None).alias(f.name))
                else:
                    members.append(
                        rebuilt(
                            c.getField(f.name), f.field_type, by_id[f.field_id].field_type
                        ).alias(f.name)
                    )
            return F.when(c.isNotNull(), F.struct(*members))
        case i.ListType(), i.ListType():
            return F.transform(c, lambda e: rebuilt(e, target.element_type, whole.element_type))
        case i.MapType(), i.MapType():
            values = F.transform_values(
                c, lambda _, v: rebuilt(v, target.value_type, whole.value_type)
            )
            if (
                contains(target.key_type, i.UUIDType, i.VariantType)
                or target.key_type != whole.key_type
            ):
                return F.transform_keys(
                    values, lambda k, _: rebuilt(k, target.key_type, whole.key_type)
                )
            return values
        case i.UUIDType(), _ if not converted and bytes_uuid:
            # some writers store the text, of 36 bytes
            return F.when(F.octet_length(c) == 16, _uuid_text(c)).otherwise(c.cast("string"))
        case i.VariantType(), _ if not converted and not bytes_uuid:
            return F.parse_json(c)
        case i.UnknownType(), _:
            return F.lit(None)
    return c


def _uuid_text(c: Column) -> Column:
    hexadecimal = F.lower(F.hex(c))
    return F.concat_ws(
        "-",
        *(
            F.substring(hexadecimal, start, length)
            for start, length in ((1, 8), (9, 4), (13, 4), (17, 4), (21, 12))
        ),
    )


def transfer_type(type_: i.IcebergType) -> i.IcebergType:
    """Return the type in which Python tasks hand a column to Spark: variant as JSON text, and
    `unknown` as a text that is always null.
    """
    match type_:
        case i.VariantType() | i.UnknownType():
            return i.StringType()
    fields = i.children(type_)
    if not fields:
        return type_
    return i.with_children(
        type_,
        tuple(
            i.NestedField(f.field_id, f.name, transfer_type(f.field_type), f.required)
            for f in fields
        ),
    )
