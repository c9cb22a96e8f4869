"""Project the columns of a data file by field id, at any depth: which to read, and how to convert
them (spec, "Column Projection").

`file_schema` reads a file's columns as a tree with field ids: those of the file itself or, when it
has none, of the table's name mapping. `plan_columns` compares them with the wanted schema once per
file; `build` then applies the plan to every batch. A column that has the wanted type already is
passed on without a copy.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NoReturn

import pyarrow as pa

from frazil.arrow.values.arrays import repeated
from frazil.arrow.values.arrow_schema import (
    PARQUET_FIELD_ID,
    arrow_children,
    is_list,
    plain_type,
    to_arrow_type,
)
from frazil.arrow.values.casts import Convert, as_is, leaf_conversion
from frazil.errors import CorruptData
from frazil.spec.name_mapping import MappedField, NameMapping
from frazil.spec.types import (
    IcebergType,
    ListType,
    MapType,
    NestedField,
    StructType,
    UnknownType,
    VariantType,
)

ORC_FIELD_ID = b"iceberg.id"
_MAPPING = "Set the table property schema.name-mapping.default, which maps the names of columns to field ids."


@dataclass(frozen=True)
class FileField:
    """Hold a column of a file. `type`: the Arrow type when it is read whole. `leaves`: the range of
    its leaf columns, its end excluded.
    """

    field_id: int | None
    name: str
    type: pa.DataType
    children: tuple[FileField, ...] = ()
    leaves: tuple[int, int] = (0, 0)


@dataclass(frozen=True)
class FileSchema:
    """Hold the columns of a file. `by_name`: the file has no field ids, so these come from the name
    mapping. `by_position`: nor is there a mapping, so that only its top-level columns have ids.
    `local_times`: timestamps without a zone are what the writer's clock showed, in a zone of its
    own (ORC), and so are no instants; in other formats they are in UTC.
    """

    fields: tuple[FileField, ...]
    by_name: bool = False
    by_position: bool = False
    local_times: bool = False


def file_schema(schema: pa.Schema, mapping: NameMapping | None) -> FileSchema | None:
    """Make the schema of a file; None when the file has no field ids and there is no name mapping
    to give them.
    """
    columns = mapped_schema(schema, mapping or NameMapping())
    return None if mapping is None and columns.by_name and columns.fields else columns


def mapped_schema(schema: pa.Schema, mapping: NameMapping) -> FileSchema:
    """Make the schema of a file, with ids of the mapping where it has none."""
    fields, _ = _fields(list(schema), 0)
    if _has_ids(fields):
        return FileSchema(fields)
    return FileSchema(_mapped(fields, mapping.fields), by_name=True)


def schema_by_position(schema: pa.Schema) -> FileSchema:
    """Make the schema of a Parquet file without field ids of a table without name mapping: its
    first column has the id 1, and so on, as in Java.
    """
    fields, _ = _fields(list(schema), 0)
    numbered = tuple(replace(f, field_id=n) for n, f in enumerate(fields, 1))
    return FileSchema(numbered, by_name=True, by_position=True)


def _fields(fields: Sequence[pa.Field], leaf: int) -> tuple[tuple[FileField, ...], int]:
    columns = []
    for f in fields:
        first, type_ = leaf, plain_type(f.type)
        children: tuple[FileField, ...] = ()
        if inside := arrow_children(type_):
            children, leaf = _fields(inside, leaf)
        elif not pa.types.is_struct(type_):
            leaf += 1
        columns.append(FileField(_field_id(f), f.name, type_, children, (first, leaf)))
    return tuple(columns), leaf


def _field_id(f: pa.Field) -> int | None:
    metadata = f.metadata or {}
    text = metadata.get(PARQUET_FIELD_ID, metadata.get(ORC_FIELD_ID))
    try:
        field_id = int(text) if text is not None else None
    except ValueError:
        return None
    return None if field_id is None or field_id < 0 else field_id


def _has_ids(fields: Iterable[FileField]) -> bool:
    return any(f.field_id is not None or _has_ids(f.children) for f in fields)


def _mapped(fields: tuple[FileField, ...], mapping: Iterable[MappedField]) -> tuple[FileField, ...]:
    by_name = {name: m for m in mapping for name in m.names}
    return tuple(_map_one(f, by_name.get(f.name)) for f in fields)


def _map_one(field: FileField, mapped: MappedField | None) -> FileField:
    if mapped is None:
        return replace(field, field_id=None)
    inside = mapped.fields or ()
    if is_list(field.type):
        # the name of a list's child in the file does not matter: writers disagree about it
        children = tuple(_map_one(c, _named(inside, "element")) for c in field.children)
    elif pa.types.is_map(field.type):
        children = tuple(
            _map_one(c, _named(inside, n))
            for c, n in zip(field.children, ("key", "value"), strict=True)
        )
    else:
        children = _mapped(field.children, inside)
    return replace(field, field_id=mapped.field_id, children=children)


def _named(fields: Iterable[MappedField], name: str) -> MappedField | None:
    return next((m for m in fields if name in m.names), None)


@dataclass(frozen=True)
class AsIs:
    """Take the file's column unchanged."""


@dataclass(frozen=True)
class Converted:
    """Convert the file's column to the type of the table's column."""

    convert: Convert


@dataclass(frozen=True)
class ConstantColumn:
    """Fill in a column that the file lacks: with its partition value, its initial default, or null."""

    type: IcebergType
    value: Any


@dataclass(frozen=True)
class Struct:
    """Build a struct. `members`: per wanted field its index in the file's (pruned) struct, or None,
    and its plan.
    """

    type: pa.DataType
    members: tuple[tuple[int | None, ColumnPlan], ...]


@dataclass(frozen=True)
class List:
    """Build a list from the plan of its elements."""

    type: pa.DataType
    element: ColumnPlan


@dataclass(frozen=True)
class Map:
    """Build a map from the plans of its keys and values."""

    type: pa.DataType
    key: ColumnPlan
    value: ColumnPlan


ColumnPlan = AsIs | Converted | ConstantColumn | Struct | List | Map


@dataclass(frozen=True)
class ColumnsPlan:
    """Hold the plan of all wanted columns of a file.

    `columns`: as `Struct.members`. `fields` and `leaves`: the numbers of the top-level and leaf
    columns to read, both ascending.
    """

    columns: tuple[tuple[int | None, ColumnPlan], ...]
    fields: tuple[int, ...]
    leaves: tuple[int, ...]

    @property
    def is_plain(self) -> bool:
        """Tell whether all columns are the file's own, in its order and unchanged."""
        return all(
            place == i and isinstance(plan, AsIs) for i, (place, plan) in enumerate(self.columns)
        )


def merge_plans(first: ColumnsPlan, second: ColumnsPlan, *, pruned: bool) -> ColumnsPlan | None:
    """Merge two plans into one that makes the columns of both, in order, so that the file is read
    once.

    None when both read parts of the same nested column: each has a plan for its own pruned form of
    it.
    """
    fields = tuple(sorted({*first.fields, *second.fields}))
    parts = [(read, index, plan) for read in (first, second) for index, plan in read.columns]
    nested = {
        read.fields[index]
        for read, index, plan in parts
        if index is not None and not isinstance(plan, Converted | AsIs)
    }
    shared = set(first.fields) & set(second.fields)
    if pruned and (shared & nested):
        return None
    place = {index: i for i, index in enumerate(fields)}
    columns = tuple(
        (None if index is None else place[read.fields[index]], plan) for read, index, plan in parts
    )
    return ColumnsPlan(columns, fields, tuple(sorted({*first.leaves, *second.leaves})))


def plan_columns(
    projection: tuple[NestedField, ...],
    file: FileSchema,
    constants: Mapping[int, Any],
    *,
    prune: bool,
    name: str,
) -> ColumnsPlan:
    """Plan how to make the columns of a projection from those of a file.

    `constants`: identity partition values by source field id, for columns that the file does not
    hold. `prune`: the reader can leave out leaves inside a column (Parquet). `name`: the file, for
    errors. Raises CorruptData when a column of the file has a type that cannot be read as the
    table's.
    """
    maker = _Planner(constants, file, prune, name)
    members, fields, leaves = maker.struct(projection, file.fields, needs_one=False)
    return ColumnsPlan(members, tuple(fields), tuple(sorted(leaves)))


@dataclass(frozen=True)
class _Planner:
    """Plan columns recursively; each method returns a plan and the numbers of the file's leaf
    columns that it reads.
    """

    constants: Mapping[int, Any]
    schema: FileSchema
    prune: bool
    file: str

    def struct(
        self, projection: tuple[NestedField, ...], have: tuple[FileField, ...], *, needs_one: bool
    ) -> tuple[tuple[tuple[int | None, ColumnPlan], ...], list[int], set[int]]:
        """Plan the members of a struct; returns their plans, the indexes in `have` of the fields to
        read, and their leaves.
        """
        by_id = {field.field_id: i for i, field in enumerate(have) if field.field_id is not None}
        members: list[tuple[int | None, ColumnPlan]] = []
        leaves: set[int] = set()
        for field in projection:
            index = by_id.get(field.field_id)
            if (
                index is None
                or isinstance(field.field_type, UnknownType)
                or (self.schema.by_name and field.field_id in self.constants)
            ):
                members.append((None, self.missing(field)))
                continue
            plan, inside = self.column(field.field_type, have[index])
            members.append((index, plan))
            leaves |= inside
        fields = sorted({index for index, _ in members if index is not None})
        if needs_one and not fields and have:
            # some member must be read to know where the struct is null: the one with the fewest
            # leaves
            fields = [min(range(len(have)), key=lambda i: have[i].leaves[1] - have[i].leaves[0])]
            leaves.add(have[fields[0]].leaves[0])
        if not self.prune and needs_one:
            return tuple(members), fields, leaves
        place = {index: i for i, index in enumerate(fields)}
        return (
            tuple((None if index is None else place[index], plan) for index, plan in members),
            fields,
            leaves,
        )

    def missing(self, field: NestedField) -> ColumnPlan:
        if field.field_id in self.constants:
            return ConstantColumn(field.field_type, self.constants[field.field_id])
        if field.initial_default is None and field.required:
            raise CorruptData(
                f"Column {field.name} (id {field.field_id}) is required, but {self.file} does not hold it.",
                file=self.file,
            )
        return ConstantColumn(field.field_type, field.initial_default)

    def column(self, type_: IcebergType, have: FileField) -> tuple[ColumnPlan, set[int]]:
        everything = set(range(*have.leaves))
        if pa.types.is_null(have.type):  # written as `unknown`, which any type may follow
            return ConstantColumn(type_, None), everything
        match type_:
            case StructType():
                if not pa.types.is_struct(have.type):
                    self.refuse(type_, have)
                if self.schema.by_position:
                    self.refuse_struct(have)
                members, fields, leaves = self.struct(type_.fields, have.children, needs_one=True)
                want = to_arrow_type(type_)
                whole = len(fields) == len(have.children) or not self.prune
                same = (
                    whole
                    and _same_type(have.type, want)
                    and all(p == i and isinstance(x, AsIs) for i, (p, x) in enumerate(members))
                )
                return (AsIs() if same else Struct(want, members)), leaves
            case ListType():
                if not is_list(have.type):
                    self.refuse(type_, have)
                element, leaves = self.column(type_.element_type, have.children[0])
                plain = (
                    isinstance(element, AsIs)
                    and pa.types.is_list(have.type)
                    and _same_type(have.type, to_arrow_type(type_))
                )
                return (AsIs() if plain else List(to_arrow_type(type_), element)), leaves
            case MapType():
                if not pa.types.is_map(have.type):
                    self.refuse(type_, have)
                return self.map(type_, have)
            case VariantType() if not pa.types.is_struct(have.type):
                self.refuse(type_, have)
        convert = leaf_conversion(have.type, type_)
        if convert is None or (self.schema.local_times and _other_clock(have.type, type_)):
            self.refuse(type_, have)
        return (AsIs() if convert is as_is else Converted(convert)), everything

    def map(self, type_: MapType, have: FileField) -> tuple[ColumnPlan, set[int]]:
        key, key_leaves = self.column(type_.key_type, have.children[0])
        value, value_leaves = self.column(type_.value_type, have.children[1])
        want = to_arrow_type(type_)
        key_leaves = set(range(*have.children[0].leaves))  # keys are always read whole
        plain = isinstance(key, AsIs) and isinstance(value, AsIs) and _same_type(have.type, want)
        return (AsIs() if plain else Map(want, key, value)), key_leaves | value_leaves

    def refuse_struct(self, have: FileField) -> NoReturn:
        raise CorruptData(
            f"Column {have.name} of {self.file} holds structs, whose members cannot be told apart: "
            "the file has no field ids, and the table has no name mapping.",
            hint=_MAPPING,
            file=self.file,
            field_id=have.field_id,
        )

    def refuse(self, type_: IcebergType, have: FileField) -> NoReturn:
        raise CorruptData(
            f"Column {have.name} (id {have.field_id}) is {have.type} in {self.file}, which cannot be read as the table's {type_}.",
            hint=_MAPPING if self.schema.by_position else None,
            file=self.file,
            field_id=have.field_id,
        )


def _other_clock(have: pa.DataType, want: IcebergType) -> bool:
    """Tell whether one of two timestamps is an instant and the other is not."""
    asked = to_arrow_type(want)
    return (
        pa.types.is_timestamp(have)
        and pa.types.is_timestamp(asked)
        and (have.tz is None) != (asked.tz is None)
    )


def _same_type(have: pa.DataType, want: pa.DataType) -> bool:
    """Compare types including the names and nullability of members, but without metadata."""
    return bool(have.equals(want, check_metadata=False)) and str(have) == str(want)


def build(plan: ColumnPlan, array: pa.Array | None, count: int) -> pa.Array:
    """Build one column of a batch of `count` rows."""
    match plan:
        case AsIs():
            return array
        case Converted(convert):
            return convert(array)
        case ConstantColumn(type_, value):
            return repeated(type_, value, count)
        case Struct(type_, members):
            assert array is not None
            children = [
                build(p, None if index is None else array.field(index), count)
                for index, p in members
            ]
            mask = array.is_null() if array.null_count else None
            if not children:
                return pa.array(
                    [None if not v else {} for v in array.is_valid().to_pylist()], type_
                )
            return pa.StructArray.from_arrays(children, fields=list(type_), mask=mask)
        case List(type_, element):
            return _list(array, type_, element)
        case Map(type_, key, value):
            assert array is not None
            keys, items = array.keys, array.items
            entries = pa.StructArray.from_arrays(
                [build(key, keys, len(keys)), build(value, items, len(items))],
                fields=[type_.key_field, type_.item_field],
            )
            return pa.Array.from_buffers(
                type_, len(array), array.buffers()[:2], array.null_count, array.offset, [entries]
            )


def _list(array: pa.Array, type_: pa.DataType, element: ColumnPlan) -> pa.Array:
    if not pa.types.is_list(array.type):
        array = array.cast(pa.list_(array.type.value_field))
    values = build(element, array.values, len(array.values))
    return pa.Array.from_buffers(
        type_, len(array), array.buffers()[:2], array.null_count, array.offset, [values]
    )
