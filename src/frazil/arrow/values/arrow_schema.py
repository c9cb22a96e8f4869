"""Convert Iceberg schemas to Arrow schemas and back, and columns to the types in which files store
them.

Frames in and out of Frazil have a uuid as a string, a variant as JSON text and geo types as WKB.
With `storage=True` the types are those held in files instead (uuid: 16 bytes, variant: a struct of
metadata and value). A `Layout` is what a file stores of a schema, without columns of unknown type;
`laid_down` converts a column to it.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import pyarrow as pa

from frazil.arrow.values.uuids import uuid_from_text
from frazil.arrow.values.variant import json_to_variant
from frazil.errors import InvalidInput, Unsupported, ValidationError
from frazil.spec.name_mapping import MappedField, NameMapping
from frazil.spec.schema import Schema, assign_fresh_ids
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
    children,
    with_children,
)

PARQUET_FIELD_ID, DOC = b"PARQUET:field_id", b"doc"
VARIANT_STORAGE = pa.struct(
    [
        pa.field("metadata", pa.binary(), nullable=False),
        pa.field("value", pa.binary(), nullable=False),
    ]
)
_PLAIN: dict[type, pa.DataType] = {
    BooleanType: pa.bool_(), IntegerType: pa.int32(), LongType: pa.int64(), FloatType: pa.float32(), DoubleType: pa.float64(),
    DateType: pa.date32(), TimeType: pa.time64("us"), TimestampType: pa.timestamp("us"), TimestamptzType: pa.timestamp("us", "UTC"),
    TimestampNanoType: pa.timestamp("ns"), TimestamptzNanoType: pa.timestamp("ns", "UTC"), StringType: pa.string(), UUIDType: pa.string(),
    BinaryType: pa.binary(), GeometryType: pa.binary(), GeographyType: pa.binary(), VariantType: pa.string(), UnknownType: pa.null(),
}  # fmt: skip


def to_arrow_type(
    type_: IcebergType, *, field_ids: bool = False, storage: bool = False
) -> pa.DataType:
    """Convert an Iceberg type to an Arrow type; with `field_ids`, nested fields carry
    `PARQUET:field_id`.
    """
    match type_:
        case DecimalType(precision=p, scale=s):
            return pa.decimal128(p, s)
        case FixedType(length=n):
            return pa.binary(n)
        case StructType():
            return pa.struct(
                [to_arrow_field(f, field_ids=field_ids, storage=storage) for f in type_.fields]
            )
        case ListType():
            return pa.list_(
                to_arrow_field(type_.element_field, field_ids=field_ids, storage=storage)
            )
        case MapType():
            key = to_arrow_field(type_.key_field, field_ids=field_ids, storage=storage)
            return pa.map_(
                key, to_arrow_field(type_.value_field, field_ids=field_ids, storage=storage)
            )
        case UUIDType() if storage:
            return pa.binary(16)
        case VariantType() if storage:
            return VARIANT_STORAGE
    return _PLAIN[type(type_)]


def to_arrow_field(f: NestedField, *, field_ids: bool = False, storage: bool = False) -> pa.Field:
    metadata = {PARQUET_FIELD_ID: str(f.field_id)} if field_ids else None
    return pa.field(
        f.name,
        to_arrow_type(f.field_type, field_ids=field_ids, storage=storage),
        nullable=f.optional,
        metadata=metadata,
    )


def with_docs(fields: Iterable[pa.Field], columns: Iterable[NestedField]) -> list[pa.Field]:
    """Add the columns' comments to their Arrow fields as metadata, at any depth, where
    `from_arrow_schema` finds them.
    """
    return [_with_doc(field, f) for field, f in zip(fields, columns, strict=True)]


def _with_doc(field: pa.Field, f: NestedField) -> pa.Field:
    if inside := children(f.field_type):
        field = field.with_type(_made_of(field.type, with_docs(arrow_children(field.type), inside)))
    return (
        field
        if f.doc is None
        else field.with_metadata({**(field.metadata or {}), DOC: f.doc.encode()})
    )


@lru_cache(maxsize=256)
def to_arrow_schema(schema: Schema, *, field_ids: bool = False, storage: bool = False) -> pa.Schema:
    """Convert an Iceberg schema to an Arrow schema, columns in their order; `storage`: as they are
    held in Parquet files.
    """
    return pa.schema(
        [to_arrow_field(f, field_ids=field_ids, storage=storage) for f in schema.fields]
    )


def _made_of(type_: pa.DataType, fields: list[pa.Field]) -> pa.DataType:
    """Make a struct, list or map like `type_`, of other fields."""
    return (
        pa.struct(fields)
        if pa.types.is_struct(type_)
        else pa.map_(*fields)
        if pa.types.is_map(type_)
        else pa.list_(*fields)
    )


def numbered_by_names(schema: pa.Schema, mapping: NameMapping) -> pa.Schema:
    """Add to an Arrow schema the field ids that a name mapping gives its columns. Raises
    ValidationError for a column that the mapping lacks."""

    def numbered(
        field: pa.Field, name: str, holder: NameMapping | MappedField, path: str
    ) -> pa.Field:
        mapped = holder.find(name)
        if mapped is None or mapped.field_id is None:
            raise ValidationError(f"The name mapping has no column {path}.", column=path)
        if inside := arrow_children(field.type):
            names = (
                ["element"]
                if is_list(field.type)
                else ["key", "value"]
                if pa.types.is_map(field.type)
                else [f.name for f in inside]
            )
            fields = [
                numbered(f, n, mapped, f"{path}.{n}") for f, n in zip(inside, names, strict=True)
            ]
            field = field.with_type(_made_of(field.type, fields))
        return field.with_metadata(
            {**(field.metadata or {}), PARQUET_FIELD_ID: str(mapped.field_id).encode()}
        )

    return pa.schema(
        [numbered(f, f.name, mapping, f.name) for f in schema], metadata=schema.metadata
    )


def from_arrow_schema(schema: pa.Schema, *, nanoseconds: bool = True) -> Schema:
    """Convert an Arrow schema to an Iceberg schema.

    Field ids are those of `PARQUET:field_id` when every field has one, otherwise fresh ones as Java
    gives them to a new table. `nanoseconds=False`: timestamps in ns become those in µs. Raises
    Unsupported for Arrow types that have no Iceberg type, naming the column.
    """
    has_ids = _all_ids(schema)
    fresh = itertools.count(1).__next__
    fields = tuple(_from_field(f, has_ids, fresh, f.name) for f in schema)
    converted = Schema(*(fields if nanoseconds else map(_in_microseconds, fields)))
    return converted if has_ids else assign_fresh_ids(converted)


def _in_microseconds(f: NestedField) -> NestedField:
    type_ = f.field_type
    coarser = (
        TimestampType()
        if isinstance(type_, TimestampNanoType)
        else TimestamptzType()
        if isinstance(type_, TimestamptzNanoType)
        else type_
    )
    inside = tuple(map(_in_microseconds, children(coarser)))
    return replace(f, field_type=with_children(coarser, inside) if inside else coarser)


def _all_ids(fields: Iterable[pa.Field]) -> bool:
    return all(
        (f.metadata or {}).get(PARQUET_FIELD_ID) is not None and _all_ids(arrow_children(f.type))
        for f in fields
    )


def arrow_children(type_: pa.DataType) -> list[pa.Field]:
    """List the fields directly inside an Arrow type, as `spec.types.children` does for an Iceberg
    type.
    """
    if isinstance(type_, pa.BaseExtensionType):
        return arrow_children(type_.storage_type)
    if pa.types.is_struct(type_):
        return [type_.field(i) for i in range(type_.num_fields)]
    if pa.types.is_map(type_):
        return [type_.key_field, type_.item_field]
    if is_list(type_):
        return [type_.value_field]
    if pa.types.is_dictionary(type_):
        return arrow_children(type_.value_type)
    return []


def is_sparks_variant(type_: pa.DataType) -> bool:
    """Tell whether a type is that of Spark's variants in Arrow: a struct whose field `metadata`
    says so.
    """
    if not pa.types.is_struct(type_) or (place := type_.get_field_index("metadata")) < 0:
        return False
    return (type_.field(place).metadata or {}).get(b"variant") == b"true"


def plain_type(type_: pa.DataType) -> pa.DataType:
    """Replace in a type, at any depth, views by plain strings and binary, and extension types by
    those that hold their values; returns the same object where there are none.
    """
    if isinstance(type_, pa.BaseExtensionType):
        return plain_type(type_.storage_type)
    if pa.types.is_string_view(type_):
        return pa.string()
    if pa.types.is_binary_view(type_):
        return pa.binary()
    if not pa.types.is_nested(type_):
        return type_
    fields = [type_.field(number) for number in range(type_.num_fields)]
    if pa.types.is_map(type_):
        fields = [type_.key_field, type_.item_field]
    parts = [f.with_type(plain_type(f.type)) for f in fields]
    if all(p.type == f.type for p, f in zip(parts, fields, strict=True)):
        return type_
    if pa.types.is_struct(type_):
        return pa.struct(parts)
    return pa.map_(*parts) if pa.types.is_map(type_) else pa.list_(parts[0])


_LISTS = frozenset(
    getattr(pa.lib, f"Type_{name}")
    for name in ("LIST", "LARGE_LIST", "FIXED_SIZE_LIST", "LIST_VIEW", "LARGE_LIST_VIEW")
)


def is_list(type_: pa.DataType) -> bool:
    """Tell whether a type is any of Arrow's list types."""
    return type_.id in _LISTS


def _from_field(f: pa.Field, has_ids: bool, fresh: Callable[[], int], path: str) -> NestedField:
    metadata = f.metadata or {}
    field_id = int(metadata[PARQUET_FIELD_ID]) if has_ids else fresh()
    doc = metadata.get(DOC)
    type_ = _from_type(f.type, has_ids, fresh, path)
    required = not f.nullable and not isinstance(type_, UnknownType)
    return NestedField(field_id, f.name, type_, required, doc.decode() if doc else None)


def _from_type(
    type_: pa.DataType, has_ids: bool, fresh: Callable[[], int], path: str
) -> IcebergType:
    if is_sparks_variant(type_):
        return VariantType()
    inside = [_from_field(c, has_ids, fresh, f"{path}.{c.name}") for c in arrow_children(type_)]
    if pa.types.is_struct(type_):
        return StructType(*inside)
    if pa.types.is_map(type_):
        key, value = inside
        return MapType(
            key.field_id, key.field_type, value.field_id, value.field_type, value.required
        )
    if is_list(type_):
        return ListType(inside[0].field_id, inside[0].field_type, inside[0].required)
    if (primitive := from_arrow_primitive(type_)) is None:
        text = f"Column {path}: Arrow type {type_} has no Iceberg type."
        raise Unsupported(text, hint="Cast the column to a type that Iceberg has.", column=path)
    return primitive


CODED = ("pandas.period", "arrow.bool8")
"""The extension types whose storage is a code for what they mean: no value of a column."""
_SIGNED_SMALL = {pa.int8(), pa.int16(), pa.int32(), pa.uint8(), pa.uint16()}
_BY_TYPE: dict[pa.DataType, IcebergType] = {
    pa.bool_(): BooleanType(), pa.int64(): LongType(), pa.uint32(): LongType(), pa.float16(): FloatType(), pa.float32(): FloatType(),
    pa.float64(): DoubleType(), pa.date32(): DateType(), pa.date64(): DateType(), pa.string(): StringType(),
    pa.large_string(): StringType(), pa.string_view(): StringType(), pa.binary(): BinaryType(),
    pa.large_binary(): BinaryType(), pa.binary_view(): BinaryType(),
    pa.null(): UnknownType(), pa.time32("s"): TimeType(), pa.time32("ms"): TimeType(), pa.time64("us"): TimeType(),
}  # fmt: skip


def from_arrow_primitive(type_: pa.DataType) -> IcebergType | None:
    """Convert a leaf's Arrow type to an Iceberg type; None when there is none (uint64, time in ns,
    durations, intervals, pandas' periods, decimals of more than 38
    digits). A decimal whose scale is negative, or above its precision, becomes one with the digits
    that its values have when written out.
    """
    if isinstance(type_, pa.BaseExtensionType):
        if type_.extension_name in CODED:
            return None
        is_uuid = type_.extension_name == "arrow.uuid"
        return UUIDType() if is_uuid else from_arrow_primitive(type_.storage_type)
    types = pa.types
    if types.is_dictionary(type_) or types.is_run_end_encoded(type_):
        return from_arrow_primitive(type_.value_type)
    if types.is_timestamp(type_):
        if type_.unit == "ns":
            return TimestamptzNanoType() if type_.tz else TimestampNanoType()
        return TimestamptzType() if type_.tz else TimestampType()
    if types.is_decimal(type_):
        scale = max(type_.scale, 0)
        precision = max(type_.precision - min(type_.scale, 0), scale)
        return DecimalType(precision, scale) if precision <= 38 else None
    if types.is_fixed_size_binary(type_):
        return FixedType(type_.byte_width)
    return IntegerType() if type_ in _SIGNED_SMALL else _BY_TYPE.get(type_)


def check_names(schema: pa.Schema) -> None:
    """Check that top-level column names are unique. Raises InvalidInput."""
    seen: set[str] = set()
    for name in schema.names:
        if name in seen:
            raise InvalidInput(
                f"The frame has two columns named {name!r}.",
                hint="Rename one of them.",
                column=name,
            )
        seen.add(name)


def empty_table(schema: Schema) -> Any:
    return to_arrow_schema(schema).empty_table()


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
                    hint="Add a member to it, or drop the column.",
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
            if array.null_count:
                # writers refuse nulls in a required member, even where the struct itself is null
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
