"""Convert values of manifests to what metadata tables show to users: partition values to the column
`partition`, Iceberg types to Arrow types in which uuid is text, and variant and unknown have no
bounds.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping

import pyarrow as pa
import pyarrow.compute as pc

from frazil.expr.values import arrow_type as arrow_value_type
from frazil.spec.types import (
    DateType,
    FixedType,
    IcebergType,
    ListType,
    MapType,
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
    VariantType,
)


def coerce_partition(partition: pa.Array, unified: StructType) -> list[pa.Array]:
    """Return one column of internal values per unified field, null where the spec of these entries
    lacks the field.
    """
    have = {partition.type.field(i).name: i for i in range(partition.type.num_fields)}
    columns = []
    for field in unified.fields:
        wanted = arrow_value_type(field.field_type)
        place = have.get(str(field.field_id))
        columns.append(
            pa.nulls(len(partition), wanted)
            if place is None
            else _cast(child(partition, place), wanted, field)
        )
    return columns


def child(struct: pa.Array, index: int) -> pa.Array:
    """Return a struct's child with the struct's own nulls applied."""
    return struct.flatten()[index] if struct.null_count else struct.field(index)


def _cast(values: pa.Array, type_: pa.DataType, field: NestedField) -> pa.Array:
    if values.type == type_:
        return values
    if isinstance(field.field_type, StringType) and pa.types.is_binary(values.type):
        return pa.array(
            [None if v is None else v.hex() for v in values.to_pylist()], type=pa.string()
        )
    return values.cast(type_)


def partition_struct(columns: list[pa.Array], unified: StructType) -> pa.Array:
    """Build the `partition` column that users see out of the columns of `coerce_partition`."""
    shown = [shown_values(c, f.field_type) for c, f in zip(columns, unified.fields, strict=True)]
    return pa.StructArray.from_arrays(shown, fields=list(partition_arrow_type(unified)))


def partition_arrow_type(unified: StructType) -> pa.StructType:
    return pa.struct([pa.field(f.name, shown_type(f.field_type)) for f in unified.fields])


TIMESTAMP = pa.timestamp("us", "UTC")


def shown_type(type_: IcebergType) -> pa.DataType:
    """Return the Arrow type that users see for an Iceberg type."""
    match type_:
        case DateType():
            return pa.date32()
        case TimeType():
            return pa.time64("us")
        case TimestampType():
            return pa.timestamp("us")
        case TimestamptzType():
            return TIMESTAMP
        case TimestampNanoType():
            return pa.timestamp("ns")
        case TimestamptzNanoType():
            return pa.timestamp("ns", "UTC")
        case UUIDType() | VariantType():
            return pa.string()
        case FixedType(length=n):
            return pa.binary(n)
        case UnknownType():
            return pa.null()
        case StructType():
            return pa.struct(
                [pa.field(f.name, shown_type(f.field_type), not f.required) for f in type_.fields]
            )
        case ListType():
            return pa.list_(
                pa.field("element", shown_type(type_.element_type), not type_.element_required)
            )
        case MapType():
            return pa.map_(
                shown_type(type_.key_type),
                pa.field("value", shown_type(type_.value_type), not type_.value_required),
            )
    return arrow_value_type(type_)


def documented(fields: Iterable[pa.Field], comments: Mapping[str, str]) -> list[pa.Field]:
    """Add comments to fields by their names, as metadata, where `DESCRIBE` finds them."""
    return [f.with_metadata({"doc": comments[f.name]}) if f.name in comments else f for f in fields]


def shown_values(values: pa.Array, type_: IcebergType) -> pa.Array:
    """Convert internal values (`arrow_value_type`) to the values that users see."""
    shown = shown_type(type_)
    match type_:
        case UUIDType():
            return pa.array(
                [None if v is None else str(uuid.UUID(bytes=v)) for v in values.to_pylist()],
                type=pa.string(),
            )
        case UnknownType() | VariantType():
            return pa.nulls(len(values), shown)
        case FixedType(length=n):
            return (
                values.cast(shown)
                if values.type != shown and not _other_length(values, n)
                else pa.nulls(len(values), shown)
            )
    return values if values.type == shown else values.cast(shown)


def _other_length(values: pa.Array, length: int) -> bool:
    return bool(pc.any(pc.not_equal(pc.binary_length(values), length)).as_py())
