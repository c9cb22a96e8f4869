"""Read the columns of a data file as a tree with field ids: those of the file itself or, when it
has none, of the table's name mapping.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from frazil.arrow.values.arrow_schema import PARQUET_FIELD_ID, arrow_children, is_list
from frazil.spec.name_mapping import MappedField, NameMapping

ORC_FIELD_ID = b"iceberg.id"


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
    mapping.
    """

    fields: tuple[FileField, ...]
    by_name: bool = False


def file_schema(schema: pa.Schema, mapping: NameMapping | None) -> FileSchema | None:
    """Make the schema of a file; None when the file has no field ids and there is no name mapping
    to give them.
    """
    fields, _ = _fields(list(schema), 0)
    if _has_ids(fields):
        return FileSchema(fields)
    if not fields:
        return FileSchema((), by_name=True)
    if mapping is None:
        return None
    return FileSchema(_mapped(fields, mapping.fields), by_name=True)


def _fields(fields: Sequence[pa.Field], leaf: int) -> tuple[tuple[FileField, ...], int]:
    columns = []
    for f in fields:
        first = leaf
        children: tuple[FileField, ...] = ()
        if inside := arrow_children(f.type):
            children, leaf = _fields(inside, leaf)
        elif not pa.types.is_struct(f.type):
            leaf += 1
        columns.append(FileField(_field_id(f), f.name, f.type, children, (first, leaf)))
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
    if is_list(
        field.type
    ):  # the name of a list's child in the file does not matter: writers disagree about it
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
