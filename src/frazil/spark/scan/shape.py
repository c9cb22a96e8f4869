"""What Spark's Parquet scan is asked for: read types with field ids, and names under which it cannot go wrong.

Spark projects by field id and pushes filters by name. A column whose name (or the name of something inside it, in any case) ever belonged
to another id is therefore read under an invented name, which no file has: nothing is pushed for it, and its rows are right. So are floats,
as Parquet compares -0.0 with 0.0 otherwise than Spark does.
Spark also forgets the ids of a nested column, its own included, when a query needs only parts of it; then it matches by name. So a nested
column that has an invented name, or in which anything was renamed, is taken whole (`opaque`): a cast that changes nothing but the ids in
its type keeps Spark from pruning it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pyspark.sql import types as s

from frazil.spark.types.defaults import default_sql
from frazil.spark.types.spark_types import contains, spark_type
from frazil.spec.metadata import TableMetadata
from frazil.spec.schema import Schema
from frazil.spec.types import (
    BinaryType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    ListType,
    MapType,
    NestedField,
    StructType,
    UnknownType,
    UUIDType,
    children,
)

ID = "parquet.field.id"
_TAKEN = ("_metadata", "_tmp_metadata_row_index", "__frazil_")  # names that Spark's scan and ours have for themselves, or how they begin


@dataclass(frozen=True)
class Shape:
    """Columns to read, `names` in the read schema by id. `by_name_too`: matching by name would give the same rows, as
    all have the names that files give them.

    `opaque`: nested columns that must not be pruned. `sensitive`: ids whose absence from a file Spark's scan would answer wrongly (defaults
    inside structs, defaults of binary types).
    """

    fields: tuple[NestedField, ...]
    names: dict[int, str]
    by_name_too: bool
    sensitive: frozenset[int]
    opaque: frozenset[int] = frozenset()

    def read_schema(self, time: bool) -> s.StructType:
        return s.StructType([read_field(f, self.names[f.field_id], time) for f in self.fields if not isinstance(f.field_type, UnknownType)])


def shape_of(metadata: TableMetadata, fields: Iterable[NestedField], complete: bool = True) -> Shape:
    """How to read these top-level columns of a table. `complete`: no schema of the table's history is missing."""
    wanted = Schema(*fields)
    ids_of, names_of = _history(metadata)
    complete = complete and history_is_complete(metadata)
    unsafe: set[int] = set()
    renamed: set[int] = set()
    for field_id in wanted.by_id:
        path = (wanted.find_column_name(field_id) or "").lower()
        top = (wanted.parents[field_id] or (field_id,))[0]
        if not complete or ids_of.get(path, set()) - {field_id} or path.startswith(_TAKEN) or _is_float(wanted, field_id):
            unsafe.add(top)
        if not complete or len(names_of.get(field_id, ())) > 1:
            renamed.add(top)
    taken = {path.partition(".")[0] for path in ids_of}
    names = {f.field_id: _invented(f.field_id, taken) if f.field_id in unsafe else f.name for f in wanted.fields}
    nested = {f.field_id for f in wanted.fields if children(f.field_type)}
    opaque = frozenset(nested & (unsafe | renamed))
    return Shape(wanted.fields, names, not (unsafe or renamed), frozenset(_sensitive(wanted)), opaque)


def _is_float(schema: Schema, field_id: int) -> bool:
    """Pushed into Parquet, a filter on it would take -0.0 for another number than 0.0. What lists and maps hold is never pushed."""
    around = (schema.by_id[p].field_type for p in schema.parents[field_id])
    return isinstance(schema.by_id[field_id].field_type, FloatType | DoubleType) and all(isinstance(t, StructType) for t in around)


def history_is_complete(metadata: TableMetadata) -> bool:
    """Whether every schema that files may have been written with is still listed: no gap in the ids of schemas or of columns."""
    known = {x.schema_id for x in metadata.schemas}
    columns = {i for x in metadata.schemas for i in x.by_id}
    oldest = metadata.snapshots[0] if len(metadata.snapshots) else None
    return (
        known == set(range(len(known)))
        and columns >= set(range(1, metadata.last_column_id + 1))
        and (oldest is None or oldest.schema_id is not None)
    )


def _history(metadata: TableMetadata) -> tuple[dict[str, set[int]], dict[int, set[str]]]:
    """Ids by lower-cased full name, and names by id, over all schemas; names as files may spell them included."""
    ids_of: dict[str, set[int]] = {}
    names_of: dict[int, set[str]] = {}
    for schema in metadata.schemas:
        for field_id in schema.by_id:
            segments = [schema.by_id[p].name for p in (*schema.parents[field_id], field_id)]
            for path in {".".join(segments), ".".join(map(file_name, segments))}:
                ids_of.setdefault(path.lower(), set()).add(field_id)
                names_of.setdefault(field_id, set()).add(path)
    return ids_of, names_of


def file_name(name: str) -> str:
    """A column's name as Java Iceberg spells it in files: what Avro does not allow becomes `_x` and its code (a dot is `_x2E`)."""
    out = []
    for at, c in enumerate(name):
        if c == "_" or (c.isalpha() or (at and c.isdigit())):
            out.append(c)
        elif c.isdigit():
            out.append("_" + c)
        else:
            out.append(f"_x{ord(c):X}")
    return "".join(out)


def _invented(field_id: int, taken: set[str]) -> str:
    name = f"_f{field_id}"
    while name.lower() in taken:
        name = "_" + name
    return name


def _sensitive(wanted: Schema) -> Iterable[int]:
    for field_id, f in wanted.by_id.items():
        if f.initial_default is not None and (
            wanted.parents[field_id] or isinstance(f.field_type, BinaryType | FixedType | UUIDType | StructType)
        ):
            yield field_id


def read_field(field: NestedField, name: str, time: bool, top: bool = True) -> s.StructField:
    metadata: dict[str, object] = {ID: field.field_id}
    if top and field.initial_default is not None and (text := default_sql(field.field_type, field.initial_default)) is not None:
        metadata["EXISTS_DEFAULT"] = text
    return s.StructField(name, read_type(field.field_type, time, field.name), True, metadata)


def read_type(type_: IcebergType, time: bool, column: str) -> s.DataType:
    """The type in which Spark's scan reads a column: uuid as its bytes, `unknown` left out of structs, ids on fields of structs."""
    match type_:
        case StructType():
            inner = [f for f in type_.fields if not isinstance(f.field_type, UnknownType)]
            return s.StructType([read_field(f, f.name, time, top=False) for f in inner])
        case ListType():
            return s.ArrayType(read_type(type_.element_type, time, column))
        case MapType():
            return s.MapType(read_type(type_.key_type, time, column), read_type(type_.value_type, time, column))
        case UUIDType():
            return s.BinaryType()
    return spark_type(type_, column, time=time)


def without_ids(type_: s.DataType) -> s.DataType:
    """The same type as Spark reads it, without what the fields carry."""
    match type_:
        case s.StructType():
            return s.StructType([s.StructField(f.name, without_ids(f.dataType)) for f in type_.fields])
        case s.ArrayType():
            return s.ArrayType(without_ids(type_.elementType))
        case s.MapType():
            return s.MapType(without_ids(type_.keyType), without_ids(type_.valueType))
    return type_


def is_readable(type_: IcebergType) -> bool:
    """Whether Spark's scan can express the type: `unknown` inside lists or maps, or alone in a struct, it cannot."""
    match type_:
        case StructType():
            kept = [f for f in type_.fields if not isinstance(f.field_type, UnknownType)]
            return bool(kept) and all(is_readable(f.field_type) for f in kept)
        case ListType():
            return not isinstance(type_.element_type, UnknownType) and is_readable(type_.element_type)
        case MapType():
            return (
                not contains(type_.key_type, UnknownType)
                and not isinstance(type_.value_type, UnknownType)
                and is_readable(type_.value_type)
            )
    return True
