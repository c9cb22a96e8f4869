"""Describe schemas: structs with an id, with look-ups by field id and by (dotted) name."""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from frazil.errors import ValidationError
from frazil.spec.on_demand import on_demand
from frazil.spec.shown import LINES, shortened
from frazil.spec.types import (
    DoubleType,
    FieldsByName,
    FloatType,
    IcebergType,
    ListType,
    MapType,
    NestedField,
    StructType,
    children,
    with_children,
)

# Reserved columns (spec, "Reserved Field IDs"); ids above 2147483447 never belong to a table's own
# columns.
FILE_ID, POS_ID, DELETED_ID, SPEC_ID_ID, PARTITION_ID = (
    2147483646,
    2147483645,
    2147483644,
    2147483643,
    2147483642,
)
DELETE_FILE_PATH_ID, DELETE_FILE_POS_ID, DELETE_FILE_ROW_ID = 2147483546, 2147483545, 2147483544
ROW_ID_ID, LAST_UPDATED_SEQUENCE_NUMBER_ID = 2147483540, 2147483539
METADATA_COLUMNS = {
    "_file": FILE_ID, "_pos": POS_ID, "_deleted": DELETED_ID, "_spec_id": SPEC_ID_ID, "_partition": PARTITION_ID,
    "_row_id": ROW_ID_ID, "_last_updated_sequence_number": LAST_UPDATED_SEQUENCE_NUMBER_ID,
}  # fmt: skip


def no_column(name: str | int, columns: Sequence[str]) -> ValidationError:
    """Make the error for a column that does not exist, with the name that may be meant."""
    by_lower = {n.lower(): n for n in columns}
    near = difflib.get_close_matches(str(name).lower(), by_lower, 1)
    text = f"Cannot find column {name!r}; columns are: {', '.join(columns[:40]) or '(none)'}{', …' if len(columns) > 40 else ''}."
    return ValidationError(
        text, hint=f"Did you mean {by_lower[near[0]]!r}?" if near else None, column=str(name)
    )


@dataclass(frozen=True, init=False, repr=False, eq=False)
class Schema(FieldsByName):
    """Describe the columns of a table: `Schema(*fields, schema_id=0, identifier_field_ids=())`.
    Equal schemas have equal fields and identifier fields, whatever their schema ids. Look-ups by id
    raise ValidationError when an id is used twice; `create_table` takes such a schema, since it
    assigns new ids. `extra` holds unknown JSON keys."""

    fields: tuple[NestedField, ...]
    schema_id: int = 0
    identifier_field_ids: tuple[int, ...] = ()
    extra: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)

    def __init__(
        self,
        *fields: NestedField,
        schema_id: int = 0,
        identifier_field_ids: Iterable[int] = (),
        required: bool = True,
        extra: dict[str, Any] | None = None,
    ):
        """Make a schema. `required` can only be True, since a row is never null; examples of
        PyIceberg's documentation pass it.
        """
        if required is not True:
            raise ValidationError(
                f"A schema's rows are always there: required={required!r} means nothing."
            )
        object.__setattr__(self, "fields", tuple(fields))
        object.__setattr__(self, "schema_id", schema_id)
        object.__setattr__(self, "identifier_field_ids", tuple(identifier_field_ids))
        object.__setattr__(self, "extra", extra or {})

    def __eq__(self, other: object) -> bool:
        return self.same_fields(other) if isinstance(other, Schema) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.fields)

    def as_struct(self) -> StructType:
        """Return the columns as a struct type."""
        return StructType(*self.fields)

    def as_arrow(self) -> Any:
        """Convert to the `pyarrow.Schema` of the rows that a scan returns, with the field ids as
        metadata.
        """
        return on_demand("io.pyarrow", "schema_to_pyarrow")(self)

    @property
    def columns(self) -> tuple[NestedField, ...]:
        """Return the top-level fields."""
        return self.fields

    @property
    def field_ids(self) -> set[int]:
        """Return the ids of all fields, at any depth."""
        return {f.field_id for _, f, _ in self._walked}

    @property
    def column_names(self) -> list[str]:
        """List the full names of all fields, nested ones dotted, as PyIceberg lists them."""
        return list(self._by_name)

    @cached_property
    def _walked(self) -> tuple[tuple[str, NestedField, tuple[int, ...]], ...]:
        return tuple(_walk(self.fields, "", ()))

    @cached_property
    def by_id(self) -> dict[int, NestedField]:
        """Map ids to fields, at any depth."""
        fields = {f.field_id: f for _, f, _ in self._walked}
        if len(fields) != len(self._walked):
            raise ValidationError(
                "A field id occurs twice in the schema.", schema_id=self.schema_id
            )
        return fields

    @cached_property
    def _by_name(self) -> dict[str, NestedField]:
        return {name: f for name, f, _ in self._walked}

    @cached_property
    def _by_lower_name(self) -> dict[str, list[NestedField]]:
        by_lower_name: dict[str, list[NestedField]] = {}
        for name, f, _ in self._walked:
            by_lower_name.setdefault(name.lower(), []).append(f)
        return by_lower_name

    @cached_property
    def _names(self) -> dict[int, str]:
        return {f.field_id: name for name, f, _ in self._walked}

    @cached_property
    def parents(self) -> dict[int, tuple[int, ...]]:
        """Map each field's id to the ids of the fields that enclose it, outermost first."""
        return {f.field_id: around for _, f, around in self._walked}

    @cached_property
    def highest_field_id(self) -> int:
        """Return the highest field id; 0 without fields."""
        return max(self.field_ids, default=0)

    def find_field(self, name_or_id: str | int, case_sensitive: bool = True) -> NestedField:
        """Find the field with that id or (dotted) name. Raises ValidationError, listing similar
        names, when there is none.
        """
        column = self.get_field(name_or_id, case_sensitive)
        if column is None:
            raise no_column(name_or_id, self.column_names)
        return column

    def get_field(self, name_or_id: str | int, case_sensitive: bool = True) -> NestedField | None:
        """Return the field with that id or (dotted) name; None: there is none. Raises
        ValidationError for a name that several match when case does not count."""
        if isinstance(name_or_id, int):
            return self.by_id.get(name_or_id)
        if column := self._by_name.get(name_or_id):
            return column
        if case_sensitive:
            return None
        near = self._by_lower_name.get(name_or_id.lower(), [])
        if len(near) > 1:
            raise ValidationError(
                f"Column {name_or_id!r} is ambiguous without case: {', '.join(self._names[f.field_id] for f in near)}."
            )
        return near[0] if near else None

    def has_name(self, name: str, case_sensitive: bool = True) -> bool:
        """Tell whether a field, at any depth, has that (dotted) name."""
        return name in self._by_name or (not case_sensitive and name.lower() in self._by_lower_name)

    def find_type(self, name_or_id: str | int, case_sensitive: bool = True) -> IcebergType:
        """Return the type of the field with that id or (dotted) name. Raises ValidationError when
        there is none."""
        return self.find_field(name_or_id, case_sensitive).field_type

    def find_column_name(self, field_id: int) -> str | None:
        """Return the dotted name of the field with that id; None: there is none."""
        return self._names.get(field_id)

    def identifier_field_names(self) -> set[str]:
        """Return the dotted names of the columns of the primary key."""
        return {self._names[i] for i in self.identifier_field_ids}

    def select(self, *names: str, case_sensitive: bool = True) -> Schema:
        """Select the named columns (nested ones keep just their path), in the schema's order; `*`
        selects all.
        """
        if "*" in names:
            return self
        wanted = {self.find_field(n, case_sensitive).field_id for n in names}
        return self.project(wanted)

    def project(self, ids: Iterable[int]) -> Schema:
        """Project to the fields with these ids and the fields that enclose them; a selected struct,
        list or map comes whole.
        """
        projected = _project(self.fields, set(ids))
        return Schema(
            *projected, schema_id=self.schema_id, identifier_field_ids=self.identifier_field_ids
        )

    def same_fields(self, other: Schema) -> bool:
        """Tell whether another schema has the same columns in the same order and the same primary
        key, whatever its id."""
        return self.fields == other.fields and set(self.identifier_field_ids) == set(
            other.identifier_field_ids
        )

    def __repr__(self) -> str:
        """Show the schema on one screen at most; `str` shows all of it."""
        more = [f"  … {len(self.fields) - LINES} more"] if len(self.fields) > LINES else []
        return "\n".join(
            ["table {", *(f"  {shortened(f, 200)}" for f in self.fields[:LINES]), *more, "}"]
        )

    def __str__(self) -> str:
        return "table {\n" + "\n".join(f"  {f}" for f in self.fields) + "\n}"


def _walk(
    fields: Iterable[NestedField], prefix: str, around: tuple[int, ...]
) -> Iterator[tuple[str, NestedField, tuple[int, ...]]]:
    for f in fields:
        name = prefix + f.name
        yield name, f, around
        yield from _walk(children(f.field_type), name + ".", (*around, f.field_id))


def _project(fields: tuple[NestedField, ...], ids: set[int]) -> tuple[NestedField, ...]:
    projected = []
    for column in fields:
        if column.field_id in ids:
            projected.append(column)
        elif inner := _project(children(column.field_type), ids):
            if not isinstance(column.field_type, StructType):
                # a map keeps its key beside a pruned value
                inner = tuple(
                    next((i for i in inner if i.field_id == c.field_id), c)
                    for c in children(column.field_type)
                )
            projected.append(replace(column, field_type=with_children(column.field_type, inner)))
    return tuple(projected)


def assign_fresh_ids(schema: Schema, next_id: Callable[[], int] | None = None) -> Schema:
    """Assign ids from 1, as Java does for a new table: all fields of one struct before their nested
    fields.
    """
    fresh = next_id or itertools.count(1).__next__
    return with_ids(schema, lambda _: fresh())


def with_ids(schema: Schema, id_of: Callable[[NestedField], int]) -> Schema:
    """Assign ids to the fields: all fields of one struct before their nested fields."""
    renumbered: dict[int, int] = {}

    def level(fields: tuple[NestedField, ...]) -> tuple[NestedField, ...]:
        ids = [id_of(f) for f in fields]
        renumbered.update(zip((f.field_id for f in fields), ids, strict=True))
        return tuple(
            replace(f, field_id=i, field_type=inside(f.field_type))
            for f, i in zip(fields, ids, strict=True)
        )

    def inside(t: IcebergType) -> IcebergType:
        return with_children(t, level(children(t))) if children(t) else t

    fields = level(schema.fields)
    return Schema(
        *fields,
        schema_id=0,
        identifier_field_ids=[renumbered[i] for i in schema.identifier_field_ids],
    )


def with_unique_ids(schema: Schema, meant: Iterable[int] = ()) -> Schema:
    """Return the schema with a new id for each column that repeats one, since a new table assigns
    its own ids. `meant`: ids by which a spec or sort order names its columns. Raises
    ValidationError when one of these, or an identifier field's id, belongs to several columns."""
    names: dict[int, list[str]] = {}
    for name, column, _ in schema._walked:
        names.setdefault(column.field_id, []).append(name)
    if len(names) == len(schema._walked):
        return schema
    for field_id in (*schema.identifier_field_ids, *meant):
        if len(named := names.get(field_id, [])) > 1:
            raise ValidationError(
                f"Field id {field_id} is of several columns: {', '.join(named)}.",
                hint="Give each column its own id, as it is named by it.",
                field_id=field_id,
            )
    fresh, seen = itertools.count(schema.highest_field_id + 1), set[int]()

    def renumbered(column: NestedField) -> NestedField:
        own = column.field_id if column.field_id not in seen else next(fresh)
        seen.add(own)
        inside = children(column.field_type)
        type_ = (
            with_children(column.field_type, tuple(map(renumbered, inside)))
            if inside
            else column.field_type
        )
        return replace(column, field_id=own, field_type=type_)

    fields = tuple(map(renumbered, schema.fields))
    return Schema(
        *fields,
        schema_id=schema.schema_id,
        identifier_field_ids=schema.identifier_field_ids,
        extra=schema.extra,
    )


def empty_structs(schema: Schema) -> list[str]:
    """List the struct columns without members: Parquet has no form for them, and neither Java nor
    PyIceberg could write a row.
    """
    return [
        name
        for name, f, _ in schema._walked
        if isinstance(f.field_type, StructType) and not f.field_type.fields
    ]


def refuse_empty_structs(names: Sequence[str]) -> None:
    """Refuse struct columns without members. Raises ValidationError."""
    if names:
        raise ValidationError(
            f"Column {names[0]} is a struct without members, which no Parquet file can hold.",
            hint="Give it its first member at once, or add the column when there is one.",
            column=names[0],
        )


def check_identifier_fields(schema: Schema) -> None:
    """Check that identifier fields are required primitives, no floats, and not inside lists, maps
    or optional structs (spec, "Identifier Fields")."""
    for field_id in schema.identifier_field_ids:
        column = schema.by_id.get(field_id)
        if column is None:
            raise ValidationError(
                f"Cannot add field {field_id} as an identifier field: not found in current schema or added columns"
            )
        name, around = (
            schema.find_column_name(field_id),
            [schema.by_id[p] for p in schema.parents[field_id]],
        )
        if not column.field_type.is_primitive:
            raise ValidationError(
                f"Cannot add field {name} as an identifier field: not a primitive type field"
            )
        if column.optional or any(p.optional for p in around):
            raise ValidationError(
                f"Cannot add field {name} as an identifier field: it or its struct is not a required field"
            )
        if isinstance(column.field_type, FloatType | DoubleType):
            raise ValidationError(
                f"Cannot add field {name} as an identifier field: must not be float or double field"
            )
        if any(isinstance(p.field_type, ListType | MapType) for p in around):
            raise ValidationError(
                f"Cannot add field {name} as an identifier field: must not be nested in list or map"
            )
