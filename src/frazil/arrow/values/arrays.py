"""Make Arrow arrays of internal values (`spec.types`), from lists or one repeated value, and take
internal values out of arrays.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from frazil.arrow.values.arrow_schema import to_arrow_type
from frazil.arrow.values.uuids import uuid_from_text, uuid_to_text
from frazil.spec.types import (
    DateType,
    IcebergType,
    ListType,
    MapType,
    StructType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

_LONGS = (TimeType, TimestampType, TimestamptzType, TimestampNanoType, TimestamptzNanoType)


def array_of(type_: IcebergType, values: Sequence[Any]) -> pa.Array:
    """Make an array, typed as `to_arrow_type`, of internal values; None is null. Absent fields of a
    struct take their initial default.
    """
    match type_:
        case StructType():
            children = [
                array_of(
                    f.field_type,
                    [None if v is None else v.get(f.field_id, f.initial_default) for v in values],
                )
                for f in type_.fields
            ]
            mask = pa.array([v is None for v in values], pa.bool_())
            fields = list(to_arrow_type(type_))
            if not fields:
                return pa.array([None if v is None else {} for v in values], pa.struct([]))
            return pa.StructArray.from_arrays(children, fields=fields, mask=mask)
        case ListType():
            offsets, flat = flattened(values)
            return pa.ListArray.from_arrays(
                offsets, array_of(type_.element_type, flat), type=to_arrow_type(type_)
            )
        case MapType():
            offsets, flat = flattened(values)
            keys, items = (
                array_of(type_.key_type, [k for k, _ in flat]),
                array_of(type_.value_type, [v for _, v in flat]),
            )
            return pa.MapArray.from_arrays(offsets, keys, items, type=to_arrow_type(type_))
        case UUIDType():
            return uuid_to_text(pa.array(values, pa.binary(16)))
        case DateType():
            return pa.array(values, pa.int32()).view(pa.date32())
        case _ if isinstance(type_, _LONGS):
            return pa.array(values, pa.int64()).view(to_arrow_type(type_))
    return pa.array(values, to_arrow_type(type_))


def flattened(values: Sequence[Any]) -> tuple[pa.Array, list[Any]]:
    """Join lists; returns their offsets (null where a list is null) and the joined members."""
    offsets: list[int | None] = []
    flat: list[Any] = []
    for value in values:
        offsets.append(None if value is None else len(flat))
        flat.extend(value or ())
    return pa.array([*offsets, len(flat)], pa.int32()), flat


def repeated(type_: IcebergType, value: object, count: int) -> pa.Array:
    """Repeat one internal value `count` times."""
    arrow_type = to_arrow_type(type_)
    if value is None:
        return pa.nulls(count, arrow_type)
    single = array_of(type_, [value])
    if count == 1:
        return single
    if isinstance(type_, StructType | ListType | MapType):
        return single.take(pa.array([0] * count, pa.int64()))
    return pa.repeat(single[0], count)


def internal_values(type_: IcebergType, array: pa.Array) -> list[Any]:
    """List the internal values of a primitive column that is typed as `to_arrow_type`."""
    match type_:
        case DateType():
            return list(array.view(pa.int32()).to_pylist())
        case UUIDType():
            return list(
                (uuid_from_text(array) if array.type != pa.binary(16) else array).to_pylist()
            )
        case _ if isinstance(type_, _LONGS):
            return list(array.view(pa.int64()).to_pylist())
    return list(array.to_pylist())
