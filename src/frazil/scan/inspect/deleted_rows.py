"""Project deleted rows of a delete file to the table's type, for column `row` of `position_deletes`
(spec, "Column Projection").
"""

from __future__ import annotations

import pyarrow as pa

from frazil.scan.inspect.types import door_type, to_door
from frazil.spec.types import (
    IcebergType,
    ListType,
    MapType,
    StructType,
    UnknownType,
    UUIDType,
    VariantType,
)

_FIELD_ID = b"PARQUET:field_id"


def project(values: pa.Array, type_: IcebergType) -> pa.Array:
    """Convert values to `door_type(type_)`: struct fields by id, null where the file lacks one,
    promoted where the type was widened.
    """
    shown = door_type(type_)
    match type_:
        case StructType():
            return pa.StructArray.from_arrays(
                _children(values, type_), fields=list(shown), mask=values.is_null()
            )
        case ListType():
            return _nested(values, shown, project(values.values, type_.element_type))
        case MapType():
            pairs = [project(values.keys, type_.key_type), project(values.items, type_.value_type)]
            return _nested(
                values,
                shown,
                pa.StructArray.from_arrays(pairs, fields=[shown.key_field, shown.item_field]),
            )
        case UnknownType() | VariantType():
            return pa.nulls(len(values), shown)
    values = values.storage if isinstance(values, pa.ExtensionArray) else values
    return (
        to_door(values.cast(pa.binary()), type_)
        if isinstance(type_, UUIDType)
        else values.cast(shown)
    )


def _children(values: pa.Array, struct: StructType) -> list[pa.Array]:
    fields = [values.type.field(i) for i in range(values.type.num_fields)]
    places = {
        int(f.metadata[_FIELD_ID]): i
        for i, f in enumerate(fields)
        if f.metadata and _FIELD_ID in f.metadata
    }
    arrays = []
    for field in struct.fields:
        place = places.get(field.field_id)
        missing = pa.nulls(len(values), door_type(field.field_type))
        arrays.append(missing if place is None else project(values.field(place), field.field_type))
    return arrays


def _nested(values: pa.Array, type_: pa.DataType, child: pa.Array) -> pa.Array:
    """Rebuild a list or map with the same offsets and nulls and another child."""
    return pa.Array.from_buffers(
        type_, len(values), values.buffers()[:2], offset=values.offset, children=[child]
    )
