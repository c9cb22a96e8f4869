"""Evolve a schema: PyIceberg's UpdateSchema with Java's checks (SchemaUpdate).

Each call is checked at once against the current schema and recorded, so that a retry can replay it
on fresh metadata. Names mean the columns before the change (or columns added by it), so that two
columns can swap names in one update.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from frazil.errors import ResolveError, ValidationError
from frazil.spec.ddl import parse_type
from frazil.spec.metadata import TableMetadata
from frazil.spec.name_mapping import update_name_mapping
from frazil.spec.properties import METRICS_OF_COLUMN, NAME_MAPPING
from frazil.spec.schema import (
    Schema,
    assign_fresh_ids,
    check_identifier_fields,
    empty_structs,
    no_column,
    refuse_empty_structs,
)
from frazil.spec.transforms import BucketTransform
from frazil.spec.types import (
    DateType,
    IcebergType,
    ListType,
    MapType,
    NestedField,
    StructType,
    can_promote,
    children,
    with_children,
)
from frazil.spec.updates import AddSchema, RemoveProperties, SetCurrentSchema, SetProperties, Update
from frazil.spec.values import internal_value, promoted

ROOT = -1
Path = str | tuple[str, ...]


@dataclass
class SchemaDraft:
    """Hold a schema while it is changed: its deleted, changed, added and moved columns."""

    metadata: TableMetadata
    allow_incompatible_changes: bool = False
    case_sensitive: bool = True
    deletes: set[int] = field(default_factory=set)
    changed: dict[int, NestedField] = field(default_factory=dict)
    added: dict[int, list[NestedField]] = field(default_factory=dict)
    added_names: dict[str, int] = field(default_factory=dict)
    moves: list[tuple[int, str, int | None]] = field(default_factory=list)
    identifiers: set[str] | None = None
    last_column_id: int = 0

    def __post_init__(self) -> None:
        self.schema = self.metadata.schema()
        self.last_column_id = self.metadata.last_column_id

    def next_id(self) -> int:
        self.last_column_id += 1
        return self.last_column_id

    def find(self, name: str) -> NestedField:
        """Return a column as it is in this draft. Raises ValidationError for one that does not
        exist.
        """
        original = self.schema.get_field(name, self.case_sensitive)
        if original is None and name in self.added_names:
            wanted = self.added_names[name]
            return next(f for fields in self.added.values() for f in fields if f.field_id == wanted)
        if original is None:
            raise no_column(name, self.schema.column_names)
        return self.changed.get(original.field_id, original)

    def change(self, column: NestedField) -> None:
        for fields in self.added.values():
            for position, other in enumerate(fields):
                if other.field_id == column.field_id:
                    fields[position] = column
                    return
        self.changed[column.field_id] = column

    def is_added(self, field_id: int) -> bool:
        return any(f.field_id == field_id for fields in self.added.values() for f in fields)

    def parent_of(self, name: str) -> int:
        """Return the id of the struct that holds a (possibly added) column; ROOT for a top-level
        column.
        """
        column = self.find(name)
        for parent, fields in self.added.items():
            if any(f.field_id == column.field_id for f in fields):
                return parent
        around = self.schema.parents[column.field_id]
        return around[-1] if around else ROOT

    def build(self) -> Schema:
        fields = self._level(self.schema.fields, ROOT)
        draft = Schema(*fields)
        names = (
            self.identifiers
            if self.identifiers is not None
            else {draft.find_column_name(i) or "" for i in self.schema.identifier_field_ids}
        )
        identifier_ids = sorted(draft.find_field(n).field_id for n in names)
        built = Schema(
            *fields,
            schema_id=max((s.schema_id for s in self.metadata.schemas), default=-1) + 1,
            identifier_field_ids=identifier_ids,
            extra=self.schema.extra,
        )
        check_unique_names(built)
        check_identifier_fields(built)
        return built

    def _level(self, fields: Sequence[NestedField], parent: int) -> tuple[NestedField, ...]:
        columns = []
        for column in (*fields, *self.added.get(parent, ())):
            if column.field_id in self.deletes:
                continue
            changed = self.changed.get(column.field_id, column)
            columns.append(
                replace(changed, field_type=self._inside(changed.field_type, column.field_id))
            )
        return self._moved(columns, parent)

    def _inside(self, type_: IcebergType, field_id: int) -> IcebergType:
        if isinstance(type_, StructType):
            return with_children(type_, self._level(type_.fields, field_id))
        if not (inner := children(type_)):
            return type_
        for c in inner:
            if c.field_id in self.deletes:
                raise ValidationError(
                    f"Cannot delete {c.name} of a {'list' if isinstance(type_, ListType) else 'map'}"
                )
        now = [self.changed.get(c.field_id, c) for c in inner]
        now = [replace(c, field_type=self._inside(c.field_type, c.field_id)) for c in now]
        if isinstance(type_, MapType) and now[0].field_type != type_.key_type:
            raise ValidationError(
                f"Cannot alter map keys: {type_}",
                hint="Equal keys must stay equal. Add a new column.",
            )
        return with_children(type_, tuple(now))

    def _moved(self, fields: list[NestedField], parent: int) -> tuple[NestedField, ...]:
        for field_id, where, reference in self.moves:
            moved = next((f for f in fields if f.field_id == field_id), None)
            if moved is None:
                continue
            fields.remove(moved)
            position = (
                0
                if where == "first"
                else next(i for i, f in enumerate(fields) if f.field_id == reference)
                + (where == "after")
            )
            fields.insert(position, moved)
        return tuple(fields)


def check_unique_names(schema: Schema) -> None:
    """Raise ValidationError if two columns of one struct share a name."""

    def level(fields: Sequence[NestedField], prefix: str) -> None:
        seen: set[str] = set()
        for f in fields:
            if f.name in seen:
                raise ValidationError(f"Invalid schema: multiple fields for name {prefix}{f.name}")
            seen.add(f.name)
            level(children(f.field_type), f"{prefix}{f.name}.")

    level(schema.fields, "")


def check_kept_sources(metadata: TableMetadata, schema: Schema) -> None:
    """Check that columns used by the current spec or sort order stay, and that columns used by any
    spec have a type for which the transform gives the same values: files of older specs are pruned
    by the values that were written.
    """
    _check_kept_dates(metadata, schema)
    for pf in metadata.spec().fields:
        new, old = schema.by_id.get(pf.source_id), metadata.schema().by_id.get(pf.source_id)
        if pf.transform.name == "void":
            continue
        if new is None:
            raise ValidationError(
                f"Cannot find source column for partition field: {pf}",
                hint="Remove the partition field first.",
            )
        if (
            isinstance(pf.transform, BucketTransform)
            and old
            and not pf.transform.can_transform(new.field_type)
        ):
            raise ValidationError(
                f"Invalid source type {new.field_type} for transform: {pf.transform}"
            )
    for sf in metadata.sort_order().fields:
        if sf.source_id not in schema.by_id:
            raise ValidationError(
                f"Cannot find source column for sort field: {sf}",
                hint="Replace the sort order first.",
            )


def _check_kept_dates(metadata: TableMetadata, schema: Schema) -> None:
    """Check that dates that any spec partitions by stay dates: as timestamps they would have other
    partition values.
    """
    for spec in metadata.partition_specs:
        for pf in spec.fields:
            new, old = schema.by_id.get(pf.source_id), metadata.schema().by_id.get(pf.source_id)
            if new is None or old is None or pf.transform.name == "void":
                continue
            if isinstance(old.field_type, DateType) and new.field_type != old.field_type:
                raise ValidationError(
                    f"Cannot change the type of {new.name}: partition field {pf.name} of spec"
                    f" {spec.spec_id} would change its values",
                    hint="Once no file has this spec, "
                    "t.maintenance.expire_snapshots(clean_expired_metadata=True) drops it.",
                )


class SchemaChanges:
    """Update a schema: `with t.update_schema() as update: update.add_column("x", LongType())`.
    Every method returns self, for chaining.
    """

    def __init__(
        self,
        metadata: TableMetadata,
        allow_incompatible_changes: bool = False,
        case_sensitive: bool = True,
    ):
        self._draft = SchemaDraft(metadata, allow_incompatible_changes, case_sensitive)
        self._case_sensitive = case_sensitive
        self._calls: list[Callable[[SchemaDraft], None]] = []

    def _do(self, call: Callable[[SchemaDraft], None]) -> SchemaChanges:
        call(self._draft)
        self._calls.append(call)
        return self

    def case_sensitive(self, case_sensitive: bool) -> SchemaChanges:
        """Set whether names in later calls must match in case; by default they must."""
        return self._do(lambda d: setattr(d, "case_sensitive", case_sensitive))

    def add_column(
        self,
        path: Path,
        field_type: IcebergType | str,
        doc: str | None = None,
        required: bool = False,
        default_value: object = None,
    ) -> SchemaChanges:
        """Add a column at any depth ("a.b" or ("a", "b")); its type may be DDL text. A required
        column needs a default (v3) unless incompatible changes are allowed."""
        type_ = _type_of(field_type)
        return self._do(lambda d: _add(d, path, type_, doc, required, default_value))

    def delete_column(self, path: Path) -> SchemaChanges:
        """Delete a column, with all that is in it. `path`: "a.b" or ("a", "b"). Raises
        ValidationError for one that does not exist, that this update changes, that belongs to the
        primary key, or that the partition spec or sort order uses."""
        return self._do(lambda d: _delete(d, _dotted(path)))

    def rename_column(self, path_from: Path, new_name: str) -> SchemaChanges:
        """Rename a column. `new_name` is only the last part of its name: the column stays in its
        struct.
        """
        return self._do(lambda d: _rename(d, _dotted(path_from), new_name))

    def update_column(
        self,
        path: Path,
        field_type: IcebergType | str | None = None,
        required: bool | None = None,
        doc: str | None = None,
    ) -> SchemaChanges:
        """Change type, nullability or comment of a column; None: leave it. `field_type`: a wider
        type, as an object or DDL text. Raises ResolveError for a type to which Iceberg cannot
        promote, ValidationError for a column that does not exist, and for `required=True` unless
        incompatible changes are allowed."""
        type_ = None if field_type is None else _type_of(field_type)
        return self._do(lambda d: _update(d, _dotted(path), type_, required, doc))

    def make_column_optional(self, path: Path) -> SchemaChanges:
        """Make a column optional, so that it may hold nulls. Raises ValidationError for a column
        that does not exist."""
        return self._do(lambda d: _update(d, _dotted(path), None, False, None))

    def require_column(self, path: Path) -> SchemaChanges:
        """Make a column required. Needs allow_incompatible_changes, as existing rows may hold
        nulls.
        """
        return self._do(lambda d: _update(d, _dotted(path), None, True, None))

    def set_default_value(self, path: Path, default_value: object) -> SchemaChanges:
        """Set the write default of a column (v3); the initial default, with which old files are
        read, stays as it is.
        """
        return self._do(lambda d: _set_default(d, _dotted(path), default_value))

    def union_by_name(self, new_schema: Schema) -> SchemaChanges:
        """Add the columns that are missing; widen the types of existing columns, and make them
        optional where `new_schema` does.
        """
        return self._do(lambda d: _union(d, new_schema.fields, ""))

    def set_identifier_fields(self, *fields: str) -> SchemaChanges:
        """Set the columns of the primary key, by name, in place of the present ones; without any,
        remove the key. Raises ValidationError for columns that do not exist or that may be null."""
        return self._do(
            lambda d: setattr(
                d,
                "identifiers",
                {d.schema.find_column_name(d.find(f).field_id) or f for f in fields},
            )
        )

    def move_first(self, path: Path) -> SchemaChanges:
        """Move a column to the beginning of its struct. Raises ValidationError for a column that
        does not exist."""
        return self._do(lambda d: _move(d, _dotted(path), "first", None))

    def move_before(self, path: Path, before_path: Path) -> SchemaChanges:
        """Move a column before another one of the same struct. Raises ValidationError when one does
        not exist, or both are not in one struct."""
        return self._do(lambda d: _move(d, _dotted(path), "before", _dotted(before_path)))

    def move_after(self, path: Path, after_name: Path) -> SchemaChanges:
        """Move a column behind another one of the same struct. Raises ValidationError when one does
        not exist, or both are not in one struct."""
        return self._do(lambda d: _move(d, _dotted(path), "after", _dotted(after_name)))

    def schema(self) -> Schema:
        """Return the schema after the changes."""
        return self._draft.build()

    def updates(self, metadata: TableMetadata) -> Sequence[Update]:
        """Return the metadata updates that make these changes on `metadata`; none when nothing
        changes.
        """
        draft = SchemaDraft(metadata, self._draft.allow_incompatible_changes, self._case_sensitive)
        for call in self._calls:
            call(draft)
        new = draft.build()
        if new.same_fields(metadata.schema()):
            return ()
        check_kept_sources(metadata, new)
        # the last member of a struct may be dropped, as in Java; rows are written again once it has
        # another one
        current = metadata.schema().by_id
        refuse_empty_structs(
            [n for n in empty_structs(new) if new.find_field(n).field_id not in current]
        )
        return (AddSchema(new), SetCurrentSchema(), *_property_updates(metadata, new, draft))


def _property_updates(metadata: TableMetadata, new: Schema, draft: SchemaDraft) -> Sequence[Update]:
    """Update name mapping and metrics modes for renamed and deleted columns."""
    changes, removals = {}, []
    if mapping := NAME_MAPPING.text(metadata.properties):
        changes[NAME_MAPPING.name] = update_name_mapping(mapping, metadata.schema(), new)
    for name, mode in METRICS_OF_COLUMN.texts(metadata.properties).items():
        column = metadata.schema().get_field(name)
        if column is None:
            continue
        now = new.find_column_name(column.field_id)
        if now != name:
            removals.append(METRICS_OF_COLUMN.prefix + name)
            if now:
                changes[METRICS_OF_COLUMN.prefix + now] = mode
    updates: list[Update] = [SetProperties(changes)] if changes else []
    return updates + ([RemoveProperties(tuple(removals))] if removals else [])


def _type_of(type_: object) -> IcebergType:
    """Return the type given as an object or as DDL text ("int", "array<string>"). Raises
    ParseError, and ValidationError for any other value."""
    if isinstance(type_, str):
        return parse_type(type_)
    if not isinstance(type_, IcebergType):
        raise ValidationError(
            f"A column's type must be one of frazil.types or DDL text, not {type_!r}."
        )
    return type_


def _dotted(path: Path) -> str:
    return path if isinstance(path, str) else ".".join(path)


def _parent(draft: SchemaDraft, path: Path) -> tuple[int, str, str]:
    """Resolve where to add a column: (id of the struct, its dotted name, the new name). A list or
    map means its element or value struct.
    """
    if isinstance(path, str):
        parent, _, name = path.rpartition(".")
    else:
        parent, name = ".".join(path[:-1]), path[-1]
    if not parent:
        return ROOT, "", name
    holder = draft.find(parent)
    while isinstance(holder.field_type, ListType | MapType):
        holder = children(holder.field_type)[-1]
    if not isinstance(holder.field_type, StructType):
        raise ValidationError(f"Cannot add column {name!r} to non-struct type: {parent}")
    if holder.field_id in draft.deletes:
        raise ValidationError(f"Cannot add to a column that will be deleted: {parent}")
    return holder.field_id, (draft.schema.find_column_name(holder.field_id) or parent) + ".", name


def _add(
    draft: SchemaDraft,
    path: Path,
    type_: IcebergType,
    doc: str | None,
    required: bool,
    default: object,
) -> None:
    parent, prefix, name = _parent(draft, path)
    existing = draft.schema.get_field(prefix + name, draft.case_sensitive)
    if (
        existing is not None and existing.field_id not in draft.deletes
    ) or prefix + name in draft.added_names:
        raise ValidationError(f"Cannot add column, name already exists: {prefix}{name}")
    value = _default(draft, type_, default, name)
    if required and value is None and not draft.allow_incompatible_changes:
        raise ValidationError(
            f"Incompatible change: cannot add required column without a default value: {prefix}{name}"
        )
    field_id = draft.next_id()
    inside = (
        assign_fresh_ids(Schema(NestedField(0, name, type_)), _after(field_id, draft.next_id))
        .fields[0]
        .field_type
    )
    new = NestedField(
        field_id, name, inside, required, doc, initial_default=value, write_default=value
    )
    draft.added.setdefault(parent, []).append(new)
    for child_name, child in ((name, new), *((f"{name}.{n}", f) for n, f in _named(inside))):
        draft.added_names[prefix + child_name] = child.field_id


def _after(first: int, then: Callable[[], int]) -> Callable[[], int]:
    """Return an id source that gives `first`, which is assigned already, and then fresh ids."""
    waiting = [first]
    return lambda: waiting.pop() if waiting else then()


def _named(type_: IcebergType) -> list[tuple[str, NestedField]]:
    schema = Schema(*children(type_))
    return [(n, schema.find_field(n)) for n in schema.column_names]


def _default(draft: SchemaDraft, type_: IcebergType, default: object, name: str) -> Any:
    if default is None:
        return None
    if draft.metadata.format_version < 3:
        raise ValidationError(
            f"Invalid default for {name}: non-null default ({default!r}) is not supported until v3",
            hint="Upgrade the table with t.upgrade(format_version=3).",
        )
    if not type_.is_primitive:
        raise ValidationError(
            f"Invalid default for {name}: a {type_} takes no default here; set the defaults of its fields instead."
        )
    return internal_value(type_, default)


def _delete(draft: SchemaDraft, name: str) -> None:
    column = draft.find(name)
    if column.field_id in draft.added or any(
        draft.is_added(c.field_id) for c in children(column.field_type)
    ):
        raise ValidationError(f"Cannot delete a column that has additions: {name}")
    if column.field_id in draft.changed:
        raise ValidationError(f"Cannot delete a column that has updates: {name}")
    identifiers = (
        draft.identifiers
        if draft.identifiers is not None
        else draft.schema.identifier_field_names()
    )
    full = draft.schema.find_column_name(column.field_id) or name
    if any(i == full or i.startswith(full + ".") for i in identifiers):
        raise ValidationError(
            f"Cannot delete identifier field {name}. To force deletion, also call set_identifier_fields to update them."
        )
    draft.deletes.add(column.field_id)


def _checked(draft: SchemaDraft, name: str) -> NestedField:
    f = draft.find(name)
    if f.field_id in draft.deletes:
        raise ValidationError(f"Cannot change a column that will be deleted: {name}")
    return f


def _rename(draft: SchemaDraft, name: str, new_name: str) -> None:
    column = _checked(draft, name)
    if draft.is_added(column.field_id):
        raise ValidationError(f"Cannot rename a column that this update adds: {name}")
    if not new_name:
        raise ValidationError(f"Cannot rename {name} to an empty name")
    around = draft.schema.parents[column.field_id]
    if around and isinstance(draft.schema.by_id[around[-1]].field_type, ListType | MapType):
        raise ValidationError(
            f"Cannot rename {name}: list elements, map keys and values have no name of their own"
        )
    draft.change(replace(column, name=new_name))


def _update(
    draft: SchemaDraft, name: str, type_: IcebergType | None, required: bool | None, doc: str | None
) -> None:
    column = _checked(draft, name)
    if type_ is not None and type_ != column.field_type:
        if not column.field_type.is_primitive or not type_.is_primitive:
            raise ValidationError(
                f"Cannot change column type: {name}: {column.field_type} -> {type_}"
            )
        if not can_promote(column.field_type, type_, draft.metadata.format_version):
            raise ResolveError(f"Cannot change column type: {name}: {column.field_type} -> {type_}")
        if _is_map_key(draft, column.field_id):
            raise ValidationError(f"Cannot update map keys: {name}")
        initial, write = (
            promoted(column.field_type, type_, v)
            for v in (column.initial_default, column.write_default)
        )
        column = replace(column, field_type=type_, initial_default=initial, write_default=write)
    if required is not None and required != column.required:
        has_default = draft.is_added(column.field_id) and column.initial_default is not None
        if required and not draft.allow_incompatible_changes and not has_default:
            raise ValidationError(f"Cannot change column nullability: {name}: optional -> required")
        column = replace(column, required=required)
    draft.change(column if doc is None else replace(column, doc=doc))


def _is_map_key(draft: SchemaDraft, field_id: int) -> bool:
    around = draft.schema.parents.get(field_id, ())
    return any(
        isinstance(t := draft.schema.by_id[p].field_type, MapType)
        and (t.key_id == field_id or t.key_id in around)
        for p in around
    )


def _set_default(draft: SchemaDraft, name: str, default: object) -> None:
    f = _checked(draft, name)
    if default is None and f.required and f.initial_default is not None:
        raise ValidationError(f"Cannot drop the default of a required column: {name}")
    draft.change(replace(f, write_default=_default(draft, f.field_type, default, name)))


def _move(draft: SchemaDraft, name: str, where: str, reference: str | None) -> None:
    column = _checked(draft, name)
    around = draft.schema.parents.get(column.field_id, ())
    if around and not isinstance(draft.schema.by_id[around[-1]].field_type, StructType):
        raise ValidationError(f"Cannot move fields in non-struct type: {name}")
    other = draft.find(reference) if reference is not None else None
    if other is not None and reference is not None:
        if other.field_id == column.field_id:
            raise ValidationError(f"Cannot move {name} {where} itself")
        if draft.parent_of(name) != draft.parent_of(reference):
            raise ValidationError(f"Cannot move field {name} to a different struct")
    draft.moves.append((column.field_id, where, other.field_id if other else None))


def _union(draft: SchemaDraft, fields: Sequence[NestedField], prefix: str) -> None:
    for column in fields:
        name = prefix + column.name
        existing = draft.schema.get_field(name, draft.case_sensitive)
        if existing is None:
            if name not in draft.added_names:
                _add(draft, name, column.field_type, column.doc, False, None)
            continue
        _union_type(draft, name, existing, column)
        if column.optional and existing.required:
            _update(draft, name, None, False, None)
        if column.doc and column.doc != existing.doc:
            _update(draft, name, None, None, column.doc)


def _union_type(draft: SchemaDraft, name: str, existing: NestedField, other: NestedField) -> None:
    match existing.field_type, other.field_type:
        case (StructType(), StructType(fields=inner)):
            _union(draft, inner, name + ".")
        case (ListType(), ListType()) | (MapType(), MapType()):
            _union(draft, children(other.field_type), name + ".")
        case (old, new) if old.is_primitive and new.is_primitive:
            if can_promote(new, old, 2):  # narrower than the table's type: nothing to do
                return
            _update(draft, name, new, None, None)
        case (old, new):
            raise ResolveError(f"Cannot change column type: {name}: {old} -> {new}")


def name_mapping_of(schema: Schema) -> str:
    """Make a name mapping of the current names, as Java's MappingUtil.create does (JSON text)."""

    def level(fields: Sequence[NestedField]) -> list[dict[str, Any]]:
        entries = []
        for f in fields:
            entry: dict[str, Any] = {"field-id": f.field_id, "names": [f.name]}
            if inner := children(f.field_type):
                entry["fields"] = level(inner)
            entries.append(entry)
        return entries

    return json.dumps(level(schema.fields))
