"""Define a new table by a caller's schema, partitioning and sort order, given as text or as
objects; and describe as data what an ALTER TABLE changes: columns, properties and the location,
whoever parsed the statement.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import pyarrow as pa

from frazil.arrow.write import conform
from frazil.commit.evolve.update_properties import property_texts
from frazil.commit.new_table import new_metadata
from frazil.errors import InvalidInput, ValidationError
from frazil.expr.sql_text import back_quoted
from frazil.ops.arguments import is_spark_frame, is_spark_type
from frazil.ops.engine import Frame
from frazil.spec.ddl import parse_schema
from frazil.spec.metadata import DEFAULT_FORMAT_VERSION, SUPPORTED_FORMAT_VERSION, TableMetadata
from frazil.spec.partitioning import PartitionSpec, build_spec
from frazil.spec.properties import without_history
from frazil.spec.schema import Schema, with_unique_ids
from frazil.spec.sorting import SortOrder, build_sort_order
from frazil.spec.types import IcebergType, ListType, MapType, NestedField, StructType

GivenSchema: TypeAlias = Schema | str | Mapping[str, str] | pa.Schema | Frame
"""A schema as callers pass it: a Schema, DDL text, a mapping of column names to type names, a
pyarrow or Spark schema, or a frame.
"""


def schema_of(schema: GivenSchema, of_spark: Callable[[Frame], Schema]) -> Schema:
    """Return the Schema that a caller's schema stands for. `of_spark`: returns that of a Spark
    DataFrame or StructType.
    """
    if isinstance(schema, Schema):
        return schema
    if isinstance(schema, str):
        return parse_schema(schema)
    if isinstance(schema, Mapping) and schema and all(isinstance(v, str) for v in schema.values()):
        return parse_schema(
            ", ".join(f"{back_quoted((str(name),))} {type_}" for name, type_ in schema.items())
        )
    if is_spark_frame(schema):
        # columns of a query become nullable, as in Java: what Spark infers about nulls is no
        # promise
        return _all_optional(of_spark(schema))
    if is_spark_type(schema):
        return of_spark(schema)
    return conform.frame_schema(schema)


def _all_optional(schema: Schema) -> Schema:
    """Return the schema with every column, struct member, list element and map value nullable."""

    def optional_type(type_: IcebergType) -> IcebergType:
        match type_:
            case StructType():
                return StructType(*(optional(field) for field in type_.fields))
            case ListType():
                return replace(
                    type_, element_type=optional_type(type_.element_type), element_required=False
                )
            case MapType():
                return replace(
                    type_, value_type=optional_type(type_.value_type), value_required=False
                )
        return type_

    def optional(field: NestedField) -> NestedField:
        return replace(field, field_type=optional_type(field.field_type), required=False)

    return Schema(*(optional(field) for field in schema.fields))


def table_metadata(
    location: str,
    schema: Schema,
    partition_spec: PartitionSpec | None,
    sort_order: SortOrder | None,
    properties: Mapping[str, Any] | None,
    *,
    partition_by: Sequence[str] | str = (),
    sort_by: Sequence[str] | str = (),
    identifier_fields: Sequence[str] | str = (),
    format_version: int | None = None,
) -> TableMetadata:
    """Return the complete metadata of a new table. The arguments are those of
    `Catalog.create_table`, the schema as `schema_of` returns it. Of properties that were another
    table's, those that keep its history are left out.

    Raises ValidationError for what the format forbids, InvalidInput for arguments that contradict
    each other.
    """
    table_properties = without_history(property_texts(properties or {}))
    version = _version(format_version, table_properties.pop("format-version", None))
    source_ids = [
        f.source_id
        for given in (partition_spec, sort_order)
        if given is not None
        for f in given.fields
    ]
    columns = with_unique_ids(schema, source_ids)
    if identifier_fields:
        columns = _with_identifiers(columns, _listed("identifier_fields", identifier_fields))
    if partition_spec is not None and partition_spec.fields and partition_by:
        raise InvalidInput("Give either partition_by or partition_spec, not both.")
    if sort_order is not None and sort_order.fields and sort_by:
        raise InvalidInput("Give either sort_by or sort_order, not both.")
    spec = (
        partition_spec
        if partition_spec is not None and partition_spec.fields
        else build_spec(columns, _listed("partition_by", partition_by))
    )
    order = (
        sort_order
        if sort_order is not None and sort_order.fields
        else build_sort_order(columns, _listed("sort_by", sort_by))
    )
    return new_metadata(columns, spec, order, location, table_properties, version)


def defining_columns(metadata: TableMetadata) -> frozenset[str]:
    """Return the top-level columns without which the table could not be defined: those of
    identifier fields, and the sources of partition fields and sort fields."""
    schema = metadata.schema()
    partitioned, sorted_by = (
        {f.source_id for f in metadata.spec().fields},
        {f.source_id for f in metadata.sort_order().fields},
    )
    sources = {*partitioned, *sorted_by, *schema.identifier_field_ids}
    return frozenset(
        f.name for f in schema.fields if sources & {f.field_id, *schema.project([f.field_id]).by_id}
    )


def _listed(argument: str, names: Iterable[str] | None) -> list[str]:
    several = () if names is None else [names] if isinstance(names, str) else names
    listed = list(several) if isinstance(several, Iterable) else [None]
    if not all(isinstance(name, str) for name in listed):
        raise InvalidInput(f"{argument} must be a text or a list of texts, not {names!r}.")
    return listed


def _version(argument: int | None, stored: str | None) -> int:
    if argument is not None and not isinstance(argument, int):
        raise InvalidInput(f"format_version must be the number 1, 2 or 3, not {argument!r}.")
    if argument is not None and stored is not None and str(argument) != stored:
        raise InvalidInput(
            f"format_version={argument} and the property format-version={stored} contradict each other."
        )
    try:
        version = (
            int(stored)
            if argument is None and stored is not None
            else argument or DEFAULT_FORMAT_VERSION
        )
    except ValueError as e:
        raise InvalidInput(f"The property format-version must be 1, 2 or 3, not {stored!r}.") from e
    if not 1 <= version <= SUPPORTED_FORMAT_VERSION:
        raise ValidationError(
            f"Unsupported format version: v{version} (supported: v1 to v{SUPPORTED_FORMAT_VERSION})"
        )
    return version


def _with_identifiers(schema: Schema, names: Sequence[str]) -> Schema:
    """Set the identifier fields; they become required, as the columns of a PRIMARY KEY do in SQL."""
    ids = [schema.find_field(n).field_id for n in names]
    fields = tuple(replace(f, required=True) if f.field_id in ids else f for f in schema.fields)
    return Schema(*fields, schema_id=schema.schema_id, identifier_field_ids=ids)


Path: TypeAlias = tuple[str, ...]
FIRST = ("FIRST", None)
ColumnPosition: TypeAlias = tuple[str, str | None]
"""`FIRST`, or ("AFTER", the name of a column of the same struct)."""


@dataclass(frozen=True)
class AddColumn:
    """Add a column. `type_`: of the library that parsed the statement; `default`: a value as the
    format has it, None: there is none.
    """

    path: Path
    type_: Any
    nullable: bool = True
    comment: str | None = None
    position: ColumnPosition | None = None
    default: Any = None


@dataclass(frozen=True)
class DeleteColumn:
    path: Path
    if_exists: bool = False


@dataclass(frozen=True)
class RenameColumn:
    path: Path
    name: str


@dataclass(frozen=True)
class ChangeType:
    path: Path
    type_: Any


@dataclass(frozen=True)
class ChangeComment:
    path: Path
    comment: str


@dataclass(frozen=True)
class ChangeNullable:
    path: Path
    nullable: bool


@dataclass(frozen=True)
class MoveColumn:
    path: Path
    position: ColumnPosition


@dataclass(frozen=True)
class ChangeDefault:
    """Set the default of a column for rows to come, as SQL text; "": drop it."""

    path: Path
    text: str


@dataclass(frozen=True)
class SetProperty:
    name: str
    value: str


@dataclass(frozen=True)
class RemoveProperty:
    name: str


@dataclass(frozen=True)
class NotServed:
    """Stand for a change that Iceberg's tables do not have. `text`: as in "CLUSTER BY"."""

    text: str


ColumnChange: TypeAlias = (
    AddColumn
    | DeleteColumn
    | RenameColumn
    | ChangeType
    | ChangeComment
    | ChangeNullable
    | MoveColumn
    | ChangeDefault
)
TableChange: TypeAlias = ColumnChange | SetProperty | RemoveProperty | NotServed
