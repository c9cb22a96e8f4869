"""Convert columns to the types in which files store them: uuid as 16 bytes, variant as metadata and
value, no columns of unknown type.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import pyarrow as pa

from frazil.arrow.values.arrow_schema import VARIANT_STORAGE, to_arrow_type
from frazil.arrow.values.uuids import uuid_from_text
from frazil.arrow.values.variant import json_to_variant
from frazil.errors import InvalidInput, Unsupported
from frazil.spec.schema import Schema
from frazil.spec.types import (
    IcebergType,
    ListType,
    MapType,
    NestedField,
    StructType,
    UnknownType,
    UUIDType,
    VariantType,
    children,
)

Leaf = Callable[[IcebergType], pa.DataType | None]
Metadata = Callable[[NestedField], dict[bytes, bytes]]


@dataclass(frozen=True)
class Layout:
    """Hold the columns of a file. `schema`: the file's. `columns`: per column of the file its index
    and its type in the table's schema.
    """

    schema: pa.Schema
    columns: tuple[tuple[int, IcebergType], ...]

    def batch(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Convert a batch typed as `to_arrow_schema` to the file's types."""
        columns = [
            laid_down(batch.column(i), type_, self.schema.field(n).type)
            for n, (i, type_) in enumerate(self.columns)
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)


def layout(schema: Schema, leaf: Leaf, metadata: Metadata) -> Layout:
    """Plan the columns of a file; those of unknown type are left out.

    `leaf`: a file format's own Arrow type for a leaf (None: that of `to_arrow_type`). `metadata`:
    what the fields carry (field ids).
    """
    stored = [
        (i, f) for i, f in enumerate(schema.fields) if not isinstance(f.field_type, UnknownType)
    ]
    if not stored:
        raise Unsupported("A file needs at least one column whose type is not unknown.")
    fields = [_field(f, leaf, metadata, f.name) for _, f in stored]
    return Layout(pa.schema(fields), tuple((i, f.field_type) for i, f in stored))


def _field(f: NestedField, leaf: Leaf, metadata: Metadata, path: str) -> pa.Field:
    return pa.field(
        f.name,
        _type(f.field_type, leaf, metadata, path),
        nullable=f.optional,
        metadata=metadata(f) or None,
    )


def _type(type_: IcebergType, leaf: Leaf, metadata: Metadata, path: str) -> pa.DataType:
    inside = [f for f in children(type_) if not isinstance(f.field_type, UnknownType)]
    if children(type_) and (
        not inside or (not isinstance(type_, StructType) and len(inside) < len(children(type_)))
    ):
        raise Unsupported(
            f"Column {path} holds only values of unknown type, which data files cannot store.",
            column=path,
        )
    fields = [_field(f, leaf, metadata, f"{path}.{f.name}") for f in inside]
    match type_:
        case StructType():
            if not fields:
                raise Unsupported(
                    f"Column {path} is a struct without fields, which data files cannot store.",
                    column=path,
                )
            return pa.struct(fields)
        case ListType():
            return pa.list_(fields[0])
        case MapType():
            return pa.map_(fields[0], fields[1])
    return leaf(type_) or to_arrow_type(type_, storage=True)


def laid_down(array: pa.Array, type_: IcebergType, want: pa.DataType) -> pa.Array:
    """Convert one column to a file's type; a column that has it already is returned as it is."""
    if array.type == want and not _has_required_members(type_) and str(array.type) == str(want):
        return array
    match type_:
        case StructType():
            pairs = [
                (array.field(i), f)
                for i, f in enumerate(type_.fields)
                if not isinstance(f.field_type, UnknownType)
            ]
            inside = [
                laid_down(a, f.field_type, want.field(n).type) for n, (a, f) in enumerate(pairs)
            ]
            if (
                array.null_count
            ):  # writers refuse nulls in a required member, even where the struct itself is null
                inside = [
                    _without_nulls(a) if a.null_count and f.required else a
                    for a, (_, f) in zip(inside, pairs, strict=True)
                ]
            return pa.StructArray.from_arrays(
                inside, fields=list(want), mask=array.is_null() if array.null_count else None
            )
        case ListType():
            values = laid_down(array.values, type_.element_type, want.value_type)
            return pa.Array.from_buffers(
                want, len(array), array.buffers()[:2], array.null_count, array.offset, [values]
            )
        case MapType():
            keys, items = (
                laid_down(array.keys, type_.key_type, want.key_type),
                laid_down(array.items, type_.value_type, want.item_type),
            )
            entries = pa.StructArray.from_arrays(
                [keys, items], fields=[want.key_field, want.item_field]
            )
            return pa.Array.from_buffers(
                want, len(array), array.buffers()[:2], array.null_count, array.offset, [entries]
            )
        case VariantType():
            return _variant(array)
        case UUIDType():
            array = uuid_from_text(array) if pa.types.is_string(array.type) else array
    if isinstance(want, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(want, array)
    if array.type == want:
        return array
    try:
        return array.view(want) if pa.types.is_time(array.type) else array.cast(want)
    except pa.ArrowInvalid as e:
        raise InvalidInput(
            f"A value of type {type_} cannot be written to this format: {str(e).splitlines()[0]}"
        ) from e


@lru_cache(maxsize=4096)
def _has_required_members(type_: IcebergType) -> bool:
    """Tell whether a struct at any depth has a required field, in which writers refuse nulls."""
    inside = children(type_)
    return any(
        (f.required and isinstance(type_, StructType)) or _has_required_members(f.field_type)
        for f in inside
    )


def _without_nulls(array: pa.Array) -> pa.Array:
    """Drop the validity of a column, so that arbitrary values stand in place of its nulls."""
    if isinstance(array, pa.ExtensionArray):
        return pa.ExtensionArray.from_storage(array.type, _without_nulls(array.storage))
    if pa.types.is_struct(array.type):
        return pa.StructArray.from_arrays(
            [array.field(i) for i in range(array.type.num_fields)], fields=list(array.type)
        )
    inside = [array.values] if pa.types.is_list(array.type) or pa.types.is_map(array.type) else None
    return pa.Array.from_buffers(
        array.type,
        len(array),
        [None, *array.buffers()[1 : _own_buffers(array.type)]],
        0,
        array.offset,
        inside,
    )


def _own_buffers(type_: pa.DataType) -> int:
    """Count the buffers of an array itself, without those of its children."""
    return 3 if pa.types.is_string(type_) or pa.types.is_binary(type_) else 2


def _variant(array: pa.Array) -> pa.Array:
    try:
        pairs: Sequence[tuple[bytes, bytes] | None] = json_to_variant(array.to_pylist())
    except ValueError as e:
        raise InvalidInput(f"A variant column holds text that is not valid JSON: {e}.") from e
    names = ("metadata", "value")
    empty = (b"\x11\x00\x00", b"\x00")
    columns = [pa.array([(p or empty)[i] for p in pairs], pa.binary()) for i in range(len(names))]
    mask = pa.array([p is None for p in pairs], pa.bool_())
    return pa.StructArray.from_arrays(columns, fields=list(VARIANT_STORAGE), mask=mask)
