"""Describe the partitions of tables and of directories for partition commit: the fields of a spec, and the texts of their values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from frazil.codec.partition_path import escape
from frazil.codec.single_value import human_string
from frazil.errors import InvalidInput
from frazil.spec.metadata import TableMetadata, schema_of_spec
from frazil.spec.types import StringType, TimestamptzNanoType, TimestamptzType


class Partition(NamedTuple):
    """Identify a partition: the spec and the texts of its values as they stand in paths, None for null. A directory's spec is 0."""

    spec_id: int
    values: tuple[str | None, ...]


@dataclass(frozen=True)
class FieldOfPartition:
    """Describe one field: its name, its transform as the spec writes it, whether the source column has a time zone."""

    name: str
    transform: str = "identity"
    zoned: bool = False


Fields = tuple[FieldOfPartition, ...]


def fields_of(metadata: TableMetadata, spec_id: int) -> Fields:
    """Describe the partition fields of one of a table's specs."""
    spec = metadata.spec_by_id(spec_id)
    schema = schema_of_spec(metadata, spec)
    fields = []
    for f in spec.fields:
        source = schema.by_id.get(f.source_id)
        zoned = source is not None and isinstance(source.field_type, TimestamptzType | TimestamptzNanoType)
        fields.append(FieldOfPartition(f.name, str(f.transform), zoned))
    return tuple(fields)


def partition_of(metadata: TableMetadata, spec_id: int, values: Sequence[Any]) -> Partition:
    """Identify the partition of a data file by its partition values."""
    spec = metadata.spec_by_id(spec_id)
    schema = schema_of_spec(metadata, spec)
    texts = []
    for f, value in zip(spec.fields, values, strict=True):
        source = schema.by_id.get(f.source_id)
        text = None if value is None else human_string(f.transform, source.field_type if source else StringType(), value)
        texts.append(text)
    return Partition(spec_id, tuple(texts))


def path_of(partition: Partition, fields: Fields, null: str = "null") -> str:
    """Make the path of a partition, `dt=2026-01-01/hr=5`, as tables lay out their data files. `null`: the text of null values."""
    parts = zip(fields, partition.values, strict=True)
    return "/".join(f"{escape(f.name)}={escape(null if text is None else text)}" for f, text in parts)


def named_partition(values: Mapping[str, Any], fields: Fields, spec_id: int, table: str) -> Partition:
    """Identify the partition that a caller names by its fields, `{"dt": "2026-01-01"}`. Raises InvalidInput unless all are named."""
    names = [f.name for f in fields]
    if sorted(values) != sorted(names):
        hint = f"Name a value for each of: {', '.join(names)}." if names else "Only partitioned tables have partitions to mark."
        raise InvalidInput(f"{dict(values)!r} does not name a partition of {table}.", hint=hint, table=table)
    return Partition(spec_id, tuple(_text(values[n]) for n in names))


def _text(value: Any) -> str | None:
    if isinstance(value, bool):
        return str(value).lower()
    return None if value is None else str(value)
