"""List the Parquet files of a directory with Hive partition folders, or of one of Spark's own
tables, and find their columns.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol
from urllib.parse import unquote

import pyarrow as pa

from frazil.arrow.files.read_parquet import open_parquet
from frazil.arrow.files.source import reading
from frazil.arrow.write.add_files import HIVE_NULL
from frazil.arrow.write.conform import frame_schema
from frazil.errors import InvalidInput, Unsupported
from frazil.spec.schema import Schema
from frazil.spec.types import (
    DateType,
    DoubleType,
    IcebergType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
)
from frazil.storage import Storage
from frazil.storage.locations import absolute
from frazil.tasks.in_order import map_in_order

_FORMATTED = re.compile(r"`?(parquet|orc|avro)`?\s*\.\s*`((?:[^`]|``)+)`", re.IGNORECASE)


@dataclass(frozen=True)
class SourceFile:
    """Hold one file of a source, and the values of its partition folders as texts (None: null)."""

    path: str
    partition: Mapping[str, str | None]
    size: int = 0


@dataclass(frozen=True)
class Source:
    """Hold the directory or table whose files are imported. `schema`: the columns where they are
    known (Spark's tables). `name`: the table's name in Spark, None for a directory."""

    location: str
    files: tuple[SourceFile, ...]
    partition_columns: tuple[str, ...] = ()
    schema: Schema | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    name: str | None = None

    def chosen(self, partition_filter: Mapping[str, object]) -> Source:
        """Keep the files of the partitions that the filter names. Raises InvalidInput for a column
        that is no partition column.
        """
        wanted = {str(k): HIVE_NULL if v is None else str(v) for k, v in partition_filter.items()}
        if unknown := [k for k in wanted if k not in self.partition_columns]:
            raise InvalidInput(
                f"partition_filter names {unknown[0]!r}, which is no partition column of {self.location}.",
                hint=f"Its partition columns are {', '.join(self.partition_columns) or 'none'}.",
            )
        return replace(
            self,
            files=tuple(
                f
                for f in self.files
                if all(_same(f.partition.get(k), v) for k, v in wanted.items())
            ),
        )


class SparkTables(Protocol):
    """Look up and rename the tables of a Spark session's own catalog; `frazil.spark` implements it."""

    def source(self, name: str) -> Source:
        """Describe a table and list its files. Raises NoSuchTableError, Unsupported for tables that
        are not of Parquet files.
        """

    def is_managed(self, name: str) -> bool:
        """Tell whether Spark owns the table's files, so that dropping or renaming it deletes or
        moves them.
        """

    def rename(self, name: str, to: str) -> None: ...

    def drop(self, name: str) -> None: ...


def _same(value: str | None, wanted: str) -> bool:
    if value is None:
        return wanted == HIVE_NULL
    return value == wanted or (
        value.lstrip("-").isdigit() and wanted.lstrip("-").isdigit() and int(value) == int(wanted)
    )


def resolve_source(
    text: str, storage_of: Callable[[str], Storage], spark: Callable[[], SparkTables]
) -> Source:
    """Find the source that a text names: parquet.`/a/directory`, a directory (with a slash), or the
    name of a table in Spark's catalog.
    """
    if not isinstance(text, str) or not text.strip():
        raise InvalidInput(
            f"A source is text: a directory, parquet.`/a/directory`, or the name of a table of Spark, not {text!r}."
        )
    if match := _FORMATTED.fullmatch(text.strip()):
        if match[1].lower() != "parquet":
            raise Unsupported(
                f"Files of {match[1].lower()} cannot be added yet: only those of Parquet.",
                hint="Read and append their rows.",
            )
        place = match[2].replace("``", "`")
        return directory_source(place, storage_of(place))
    return directory_source(text, storage_of(text)) if "/" in text else spark().source(text)


def directory_source(location: str, storage: Storage) -> Source:
    """List the data files of a directory; hidden ones (`_SUCCESS`, `.crc`) and empty ones are left
    out, as in Spark. The location may be that of one file, too, and a directory may be empty.

    Raises InvalidInput when there is no such directory or file, and when the partition folders have
    different names.
    """
    root = absolute(location)
    files = [
        SourceFile(f.location, folder_values(f.location[len(root) :]), f.size)
        for f in storage.list(root)
        if _is_data(f.location, root)
    ]
    if (
        not files
        and not root.endswith("/")
        and not storage.is_directory(root)
        and storage.exists(root)
    ):
        files = [SourceFile(root, {}, storage.size(root))]
    filled = sorted((f for f in files if f.size), key=lambda f: f.path)
    if not filled and storage.is_directory(root):
        return Source(root, ())
    return source_of(root, filled)


def source_of(location: str, files: Sequence[SourceFile]) -> Source:
    """Make a source of listed files, and check that they are Parquet files with the same partition
    folders.
    """
    if not files:
        raise _no_files(location)
    for f in files:
        if f.path.lower().endswith((".orc", ".avro", ".csv", ".json", ".txt")):
            raise Unsupported(f"Cannot add {f.path}: only Parquet files can be added.", file=f.path)
    names = {tuple(f.partition): f.path for f in files}
    if len(names) > 1:
        (a, first), (b, second) = list(names.items())[:2]
        raise InvalidInput(
            f"Conflicting directory structures in {location}: {first} has folders {list(a)}, {second} has {list(b)}."
        )
    return Source(location, tuple(files), next(iter(names)))


def _no_files(location: str) -> InvalidInput:
    return InvalidInput(f"There are no data files in {location}.")


def _is_data(path: str, root: str) -> bool:
    parts = path[len(root) :].strip("/").split("/")
    if parts[0] == "metadata" and path.endswith((".avro", ".metadata.json")):
        return False  # what a migration of the directory has left that was killed
    return not any(p.startswith(".") or (p.startswith("_") and "=" not in p) for p in parts)


def folder_values(path: str) -> dict[str, str | None]:
    """Read the values of `name=value` folders in a path, unescaped."""
    parts = (p.split("=", 1) for p in path.split("/")[:-1] if "=" in p)
    return {unquote(name): None if text == HIVE_NULL else unquote(text) for name, text in parts}


def columns_of(source: Source, storage: Storage) -> Schema:
    """Find the columns of a source: those of its files, all nullable, and then the partition
    columns that the files do not hold.
    """
    if source.schema is not None:
        return source.schema
    if not source.files:
        raise _no_files(source.location)
    distinct: dict[str, pa.Schema] = {}
    for schema in map_in_order(lambda f: _arrow_schema(f.path, storage), source.files):
        distinct.setdefault(str(schema), schema)
    try:
        merged = pa.unify_schemas(list(distinct.values()), promote_options="permissive")
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise InvalidInput(
            f"The files in {source.location} have columns of different types: {error}"
        ) from error
    columns = frame_schema(pa.schema([_nullable(f) for f in merged]))
    more = [n for n in source.partition_columns if n not in {f.name for f in columns.fields}]
    ids = range(columns.highest_field_id + 1, columns.highest_field_id + 1 + len(more))
    last = [
        NestedField(i, n, _type_of(f.partition[n] for f in source.files))
        for i, n in zip(ids, more, strict=True)
    ]
    return Schema(*columns.fields, *last)


def _arrow_schema(path: str, storage: Storage) -> pa.Schema:
    with reading(path, "parquet"):
        return open_parquet(path, storage).schema_arrow.remove_metadata()


def _nullable(arrow_field: pa.Field) -> pa.Field:
    """Return a field without a field id, nullable at every level, as Spark reads files."""
    type_ = arrow_field.type
    if pa.types.is_struct(type_):
        type_ = pa.struct([_nullable(inner) for inner in type_])
    elif pa.types.is_map(type_):
        type_ = pa.map_(_nullable(type_.key_field).type, _nullable(type_.item_field))
    elif pa.types.is_list(type_) or pa.types.is_large_list(type_):
        type_ = pa.list_(_nullable(type_.value_field))
    return pa.field(arrow_field.name, type_, True)


def _type_of(texts: Iterable[str | None]) -> IcebergType:
    """Find the type of a partition column from the names of folders, as Spark does: int, bigint,
    double, date, else string.
    """
    values = {t for t in texts if t is not None}
    for type_, accepts in (
        (IntegerType(), _is_int),
        (LongType(), _is_long),
        (DoubleType(), _is_double),
        (DateType(), _is_date),
    ):
        if values and all(map(accepts, values)):
            return type_
    return StringType()


def _is_int(text: str) -> bool:
    return _is_long(text) and -(2**31) <= int(text) < 2**31


def _is_long(text: str) -> bool:
    return re.fullmatch(r"[+-]?\d{1,19}", text) is not None and -(2**63) <= int(text) < 2**63


def _is_double(text: str) -> bool:
    return re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", text) is not None


def _is_date(text: str) -> bool:
    try:
        datetime.date.fromisoformat(text)
    except ValueError:
        return False
    return re.fullmatch(r"\d{4}-\d\d-\d\d", text) is not None
