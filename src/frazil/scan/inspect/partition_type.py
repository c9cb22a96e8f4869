"""Convert partition values of manifest entries to the `partition` column of metadata tables."""

from __future__ import annotations

import pyarrow as pa

from frazil.expr.values import arrow_type as arrow_value_type
from frazil.scan.inspect.types import door_type, to_door
from frazil.spec.types import NestedField, StringType, StructType


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
    shown = [to_door(c, f.field_type) for c, f in zip(columns, unified.fields, strict=True)]
    return pa.StructArray.from_arrays(shown, fields=list(partition_arrow_type(unified)))


def partition_arrow_type(unified: StructType) -> pa.StructType:
    return pa.struct([pa.field(f.name, door_type(f.field_type)) for f in unified.fields])
