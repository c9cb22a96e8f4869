"""Map column names to field ids for files that have none (spec, "Column Projection"; property
`schema.name-mapping.default`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from frazil.errors import ValidationError
from frazil.spec.schema import Schema
from frazil.spec.types import MAX_DEPTH, NestedField, children


@dataclass(frozen=True)
class MappedField:
    """Map the column names `names` to the field id `field_id`; with None such columns are not read.
    `fields` maps the nested fields (element; key and value)."""

    names: tuple[str, ...]
    field_id: int | None = None
    fields: tuple[MappedField, ...] = ()

    def find(self, name: str) -> MappedField | None:
        """Find the mapping of a direct child by its name."""
        return next((f for f in self.fields if name in f.names), None)


@dataclass(frozen=True)
class NameMapping:
    fields: tuple[MappedField, ...] = ()

    def find(self, *path: str) -> MappedField | None:
        """Find the mapping of a column by its path, one name per level."""
        mapped: MappedField | None = MappedField((), None, self.fields)
        for name in path:
            mapped = mapped.find(name) if mapped else None
        return mapped


def parse_name_mapping(text: str) -> NameMapping:
    """Parse the name mapping in a table property. Raises ValidationError."""
    try:
        obj = msgspec.json.decode(text)
    except (msgspec.MsgspecError, ValueError, RecursionError) as e:
        raise ValidationError(f"The name mapping is no JSON: {e}") from e
    mapping = NameMapping(_fields(obj, 0))
    seen: set[int] = set()
    _check(mapping.fields, seen)
    return mapping


def _fields(obj: object, depth: int) -> tuple[MappedField, ...]:
    if not isinstance(obj, list) or depth > MAX_DEPTH:
        raise ValidationError(f"Cannot parse non-array mapping fields: {str(obj)[:100]}")
    return tuple(_field(item, depth + 1) for item in obj)


def _field(obj: object, depth: int) -> MappedField:
    if not isinstance(obj, dict):
        raise ValidationError(f"Cannot parse non-object mapping field: {str(obj)[:100]}")
    names, field_id = obj.get("names") or [], obj.get("field-id")
    if not isinstance(names, list) or not all(isinstance(n, str) for n in names):
        raise ValidationError(
            f"The names of a mapped field are no list of strings: {str(names)[:100]}"
        )
    if field_id is not None and (not isinstance(field_id, int) or isinstance(field_id, bool)):
        raise ValidationError(f"The id of a mapped field is no integer: {str(field_id)[:100]}")
    inner = _fields(obj["fields"], depth) if obj.get("fields") is not None else ()
    return MappedField(tuple(dict.fromkeys(names)), field_id, inner)


def _check(fields: Sequence[MappedField], seen: set[int]) -> None:
    names: set[str] = set()
    for f in fields:
        if f.field_id is not None and f.field_id in seen:
            raise ValidationError(f"Invalid mapping: ID {f.field_id} is not unique")
        seen |= {f.field_id} if f.field_id is not None else set()
        if twice := names.intersection(f.names):
            raise ValidationError(f"Invalid mapping: name {min(twice)!r} is not unique")
        names.update(f.names)
        _check(f.fields, seen)


def name_mapping_to_json(mapping: NameMapping) -> str:
    """Format a name mapping as the text of the table property."""

    def level(fields: Sequence[MappedField]) -> list[dict[str, Any]]:
        objects = []
        for f in fields:
            obj: dict[str, Any] = {} if f.field_id is None else {"field-id": f.field_id}
            obj["names"] = list(f.names)
            objects.append({**obj, "fields": level(f.fields)} if f.fields else obj)
        return objects

    return msgspec.json.encode(level(mapping.fields)).decode()


def mapping_of(schema: Schema) -> NameMapping:
    """Make the name mapping of a schema, every field under its own name, as Java's
    MappingUtil.create does.
    """
    return NameMapping(tuple(_mapped(f) for f in schema.fields))


def _mapped(f: NestedField) -> MappedField:
    return MappedField((f.name,), f.field_id, tuple(_mapped(c) for c in children(f.field_type)))


def update_name_mapping(mapping_json: str, old: Schema, new: Schema) -> str:
    """Update a name mapping after a schema change: renamed fields gain their new name, added ones
    an entry, dropped ones keep theirs.

    A name that the mapping has already stays with its field, whichever field bears it now: the
    files without field ids that use it were added while it was that field's, and every file written
    since has ids. (Java gives it to the other field, to which their values then move.) Raises
    ValidationError.
    """
    mapping = parse_name_mapping(mapping_json)
    renamed = {i: f for i, f in new.by_id.items() if i in old.by_id and old.by_id[i].name != f.name}
    added: dict[int | None, list[NestedField]] = {}
    for field_id, f in new.by_id.items():
        around = new.parents[field_id]
        if field_id not in old.by_id and all(p in old.by_id for p in around):
            added.setdefault(around[-1] if around else None, []).append(f)
    return name_mapping_to_json(NameMapping(_updated(mapping.fields, None, renamed, added)))


def _updated(
    fields: Sequence[MappedField],
    parent: int | None,
    renamed: Mapping[int, NestedField],
    added: Mapping[int | None, list[NestedField]],
) -> tuple[MappedField, ...]:
    used = {name for f in fields for name in f.names}
    updated = []
    for mapped in fields:
        if mapped.field_id is None:
            updated.append(mapped)
            continue
        now = renamed.get(mapped.field_id)
        names = mapped.names if now is None or now.name in used else (*mapped.names, now.name)
        updated.append(
            replace(
                mapped, names=names, fields=_updated(mapped.fields, mapped.field_id, renamed, added)
            )
        )
    fresh = map(_mapped, added.get(parent, []))
    return (
        *updated,
        *(replace(f, names=tuple(n for n in f.names if n not in used)) for f in fresh),
    )
