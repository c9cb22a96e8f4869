"""Make the read schema for Spark's Parquet scan, types with field ids and names with which Spark
reads the right columns; and give its columns the table's names back.

Spark selects columns by field id, but pushes filters into Parquet by name. If a column's name (or
that of a field nested in it, in any case) ever belonged to another id, a pushed filter could be
applied to the other column of a file. Such a column is read under an invented name, which no file
has, so that Spark pushes nothing for it. The same is done for floats and doubles, since Parquet
takes -0.0 and 0.0 for different values and Spark does not, and for columns with constants that
Spark's push-down cannot hold (`misread`).

If a query needs only a part of a nested column, Spark drops the column's field ids from the read
schema, and matches by name. So a nested column that has an invented name, or in which a field was
renamed, is read whole (`opaque`): a cast keeps Spark from pruning it. Spark also looks up the types
of a struct's members by name, after it has chosen them by id; so the members of such a column have
invented names as well, which the cast replaces by their own.

Columns get the table's names with few calls to the JVM: PySpark's own functions make some fifteen
per column to record the caller's line, which takes time where a table is wide or the JVM has just
started.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Container, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from types import MappingProxyType

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as s

from frazil.arrow.footers.parquet_footer import ParquetNode, file_name
from frazil.ops.session import Session
from frazil.spark.host.jvm import Jvm, jvm_of
from frazil.spark.types.spark_types import contains, default_sql, spark_type
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
# the scan's own columns have these names, or names that begin so
_RESERVED = (
    "_metadata",
    "_tmp_metadata_row_index",
    "__frazil_",
)


@dataclass(frozen=True)
class Shape:
    """Hold the columns to read and the `names` in the read schema, by field id, of these columns and
    of the members of opaque ones.

    `by_name_too`: matching by name would return the same rows, since no name ever changed.
    `sensitive`: ids of columns that Spark's scan would fill wrongly in files that lack them
    (defaults inside structs, defaults of binary types). `opaque`: ids of nested columns that Spark
    must not prune. `misread`: ids of columns on which Spark must push no filter
    (`pushed_filters.misread_columns`).
    """

    fields: tuple[NestedField, ...]
    names: dict[int, str]
    by_name_too: bool
    sensitive: frozenset[int]
    opaque: frozenset[int] = frozenset()
    misread: frozenset[int] = frozenset()

    def read_schema(self, time: bool) -> s.StructType:
        """Return the schema to give to Spark's scan. `time`: whether the session has Spark's TIME
        type switched on.
        """
        return s.StructType(
            [
                read_field(f, self.names, time)
                for f in self.fields
                if not isinstance(f.field_type, UnknownType)
            ]
        )


def shape_of(
    metadata: TableMetadata,
    fields: Iterable[NestedField],
    complete: bool = True,
    misread: frozenset[int] = frozenset(),
    files: Sequence[ParquetNode] = (),
) -> Shape:
    """Decide how to read these top-level columns of a table. `complete`: each file has the names of
    a schema of the table or of one of `files`, those in which columns may have other names
    (`file_columns.names_of_others`). `misread`: as in Shape."""
    schema = Schema(*fields)
    ids_of, names_of = _history(metadata, files)
    complete = complete and history_is_complete(metadata)
    unsafe: set[int] = set()
    renamed: set[int] = set()
    for field_id in schema.by_id:
        path = (schema.find_column_name(field_id) or "").lower()
        top = (schema.parents[field_id] or (field_id,))[0]
        taken = not complete or ids_of.get(path, set()) - {field_id} or path.startswith(_RESERVED)
        if taken or field_id in misread or _is_pushed_float(schema, field_id):
            unsafe.add(top)
        if not complete or len(names_of.get(field_id, ())) > 1:
            renamed.add(top)
    used_names = {name for path in ids_of for name in path.split(".")}
    nested = {f.field_id for f in schema.fields if children(f.field_type)}
    opaque = frozenset(nested & (unsafe | renamed))
    members = {field_id for field_id, parents in schema.parents.items() if opaque & {*parents}}
    names = {f.field_id: f.name for f in schema.fields}
    names |= {i: unused_name(f"_f{i}", used_names) for i in unsafe | members}
    return Shape(
        schema.fields,
        names,
        not (unsafe or renamed),
        frozenset(_sensitive(schema)),
        opaque,
        misread,
    )


def _is_pushed_float(schema: Schema, field_id: int) -> bool:
    """Tell whether a field is a float or double for which Spark pushes filters; it pushes none for
    fields inside lists and maps.
    """
    parents = (schema.by_id[p].field_type for p in schema.parents[field_id])
    return isinstance(schema.by_id[field_id].field_type, FloatType | DoubleType) and all(
        isinstance(t, StructType) for t in parents
    )


def history_is_complete(metadata: TableMetadata) -> bool:
    """Tell whether the metadata still lists every schema that files may have been written with: the
    ids of schemas and columns have no gap, and the oldest snapshot names its schema."""
    schema_ids = {schema.schema_id for schema in metadata.schemas}
    column_ids = {field_id for schema in metadata.schemas for field_id in schema.by_id}
    oldest = metadata.snapshots[0] if len(metadata.snapshots) else None
    return (
        schema_ids == set(range(len(schema_ids)))
        and column_ids >= set(range(1, metadata.last_column_id + 1))
        and (oldest is None or oldest.schema_id is not None)
    )


def _history(
    metadata: TableMetadata, files: Sequence[ParquetNode]
) -> tuple[dict[str, set[int]], dict[int, set[str]]]:
    """Return field ids by lower-cased full name, and full names by id, of all schemas, with names
    as files spell them (`file_name`), and of files.
    """
    ids_of: dict[str, set[int]] = {}
    names_of: dict[int, set[str]] = {}
    for schema in metadata.schemas:
        for field_id in schema.by_id:
            parts = [schema.by_id[p].name for p in (*schema.parents[field_id], field_id)]
            for path in {".".join(parts), ".".join(map(file_name, parts))}:
                ids_of.setdefault(path.lower(), set()).add(field_id)
                names_of.setdefault(field_id, set()).add(path)
    if files:
        inside = {
            field_id: schema.by_id[field_id].name
            for schema in metadata.schemas
            for field_id, parents in schema.parents.items()
            if parents and isinstance(schema.by_id[parents[-1]].field_type, ListType | MapType)
        }
        for field_id, path in chain.from_iterable(_paths_in_file(f, inside, "") for f in files):
            ids_of.setdefault(path.lower(), set()).add(field_id)
            names_of.setdefault(field_id, set()).add(path)
    return ids_of, names_of


def _paths_in_file(
    node: ParquetNode, inside: Mapping[int, str], prefix: str
) -> Iterator[tuple[int, str]]:
    """Yield the id and full name of each column below a node of a file. `inside`: the names of
    elements, keys and values by id, for which writers have names of their own that do not matter.
    """
    for child in node.children:
        if child.field_id is None:  # the repeated group of a list or map
            yield from _paths_in_file(child, inside, prefix)
            continue
        path = prefix + inside.get(child.field_id, child.name)
        yield child.field_id, path
        yield from _paths_in_file(child, inside, f"{path}.")


def unused_name(name: str, used_names: Container[str]) -> str:
    """Return a name with underscores before it until it is not among `used_names`, which are in
    lower case.
    """
    while name.lower() in used_names:
        name = "_" + name
    return name


_WITHOUT_DEFAULT = BinaryType, FixedType, UUIDType, StructType
"""Types for which Spark's vectorised reader refuses a default."""


def _sensitive(schema: Schema) -> Iterable[int]:
    for field_id, f in schema.by_id.items():
        if f.initial_default is not None and (
            schema.parents[field_id] or isinstance(f.field_type, _WITHOUT_DEFAULT)
        ):
            yield field_id


def read_field(
    field: NestedField, names: Mapping[int, str], time: bool, top: bool = True
) -> s.StructField:
    """Return a field of the read schema, with its field id and, for a top-level column, its initial
    default. `names`: by id, of fields that have another name there than in the table.
    """
    metadata: dict[str, object] = {ID: field.field_id}
    if (
        top
        and field.initial_default is not None
        and not isinstance(field.field_type, _WITHOUT_DEFAULT)
        and (text := default_sql(field.field_type, field.initial_default)) is not None
    ):
        metadata["EXISTS_DEFAULT"] = text
    name = names.get(field.field_id, field.name)
    return s.StructField(name, read_type(field.field_type, time, field.name, names), True, metadata)


def read_type(
    type_: IcebergType, time: bool, column: str, names: Mapping[int, str] = MappingProxyType({})
) -> s.DataType:
    """Return the type in which Spark's scan reads a column: uuid as binary, structs without fields
    of type `unknown` and with field ids. `column`: its name, for errors; `names`: as `read_field`
    takes them."""
    match type_:
        case StructType():
            fields = [f for f in type_.fields if not isinstance(f.field_type, UnknownType)]
            return s.StructType([read_field(f, names, time, top=False) for f in fields])
        case ListType():
            return s.ArrayType(read_type(type_.element_type, time, column, names))
        case MapType():
            return s.MapType(
                read_type(type_.key_type, time, column, names),
                read_type(type_.value_type, time, column, names),
            )
        case UUIDType():
            return s.BinaryType()
    return spark_type(type_, column, time=time)


def without_ids(type_: s.DataType) -> s.DataType:
    """Return a Spark type without the metadata of its fields, which holds their field ids."""
    match type_:
        case s.StructType():
            return s.StructType(
                [s.StructField(f.name, without_ids(f.dataType)) for f in type_.fields]
            )
        case s.ArrayType():
            return s.ArrayType(without_ids(type_.elementType))
        case s.MapType():
            return s.MapType(without_ids(type_.keyType), without_ids(type_.valueType))
    return type_


def is_readable(type_: IcebergType) -> bool:
    """Tell whether Spark's scan can read a type. It cannot read `unknown` inside lists and maps,
    nor structs that have no other fields.
    """
    match type_:
        case StructType():
            fields = [f for f in type_.fields if not isinstance(f.field_type, UnknownType)]
            return bool(fields) and all(is_readable(f.field_type) for f in fields)
        case ListType():
            return not isinstance(type_.element_type, UnknownType) and is_readable(
                type_.element_type
            )
        case MapType():
            return (
                not contains(type_.key_type, UnknownType)
                and not isinstance(type_.value_type, UnknownType)
                and is_readable(type_.value_type)
            )
    return True


_REMEMBERED: weakref.WeakKeyDictionary[Jvm, dict[Hashable, Column]] = weakref.WeakKeyDictionary()
_MOST = 8192


def column_of(spark: Session, source: str, barrier: bool = False) -> Column:
    """Return the column `source` (back-quoted) of any frame; with `barrier`, Spark pushes no filter
    on it into the scan.
    """
    if (jvm := jvm_of(spark)) is not None:
        return jvm.column(source, barrier)
    column = F.col(source)
    return F.nanvl(column, column) if barrier else column


def renamed(spark: Session, column: Column, name: str, comment: str | None = None) -> Column:
    """Return a column under a name, with a comment and no other metadata."""
    if (jvm := jvm_of(spark)) is not None:
        return jvm.renamed(column, name, comment)
    return column.alias(name, metadata={"comment": comment} if comment else {})


def shown_column(
    spark: Session, source: str, name: str, comment: str | None = None, barrier: bool = False
) -> Column:
    """Return `column_of` under a name (`renamed`), remembered: a wide table is read often."""
    return remembered(
        spark,
        (source, name, comment, barrier),
        lambda: renamed(spark, column_of(spark, source, barrier), name, comment),
    )


def remembered(spark: Session, key: Hashable, make: Callable[[], Column]) -> Column:
    """Return a column that is the same for each scan, made at the first call for it. `key`: tells
    it from others.
    """
    if (jvm := jvm_of(spark)) is None:
        return make()
    columns = _REMEMBERED.setdefault(jvm, {})
    if key not in columns:
        if len(columns) >= _MOST:
            columns.clear()
        columns[key] = make()
    return columns[key]
