"""Describe the partitions of tables and of directories for partition commit: the fields of a spec,
and the texts of their values.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any, NamedTuple

from frazil.codec.single_value import escape, human_string
from frazil.errors import InvalidInput
from frazil.spec.metadata import TableMetadata, schema_of_spec
from frazil.spec.transforms import IdentityTransform, Transform
from frazil.spec.types import (
    BinaryType,
    BooleanType,
    DateType,
    FixedType,
    IcebergType,
    IntegerType,
    LongType,
    StringType,
    TimestamptzNanoType,
    TimestamptzType,
)
from frazil.spec.values import internal_value

OF_TIME = {
    "hour": r"(\d{4,})-(\d\d)-(\d\d)-(\d\d)",
    "day": r"(\d{4,})-(\d\d)-(\d\d)",
    "month": r"(\d{4,})-(\d\d)",
    "year": r"(\d{4,})",
}
"""The form of the texts of partition fields with these transforms, the finest first."""


class Partition(NamedTuple):
    """Identify a partition: the spec and the texts of its values as they stand in paths, None for
    null. A directory's spec is 0.
    """

    spec_id: int
    values: tuple[str | None, ...]


@dataclass(frozen=True)
class FieldOfPartition:
    """Describe one field: its name, its transform as the spec writes it, whether the source column
    has a time zone.
    """

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
        zoned = source is not None and isinstance(
            source.field_type, TimestamptzType | TimestamptzNanoType
        )
        fields.append(FieldOfPartition(f.name, str(f.transform), zoned))
    return tuple(fields)


def partition_of(metadata: TableMetadata, spec_id: int, values: Sequence[Any]) -> Partition:
    """Identify the partition of a data file by its partition values."""
    spec = metadata.spec_by_id(spec_id)
    schema = schema_of_spec(metadata, spec)
    texts = []
    for f, value in zip(spec.fields, values, strict=True):
        source = schema.by_id.get(f.source_id)
        text = (
            None
            if value is None
            else human_string(f.transform, source.field_type if source else StringType(), value)
        )
        texts.append(text)
    return Partition(spec_id, tuple(texts))


def path_of(partition: Partition, fields: Fields, null: str = "null") -> str:
    """Make the path of a partition, `dt=2026-01-01/hr=5`, as tables lay out their data files.
    `null`: the text of null values.
    """
    parts = zip(fields, partition.values, strict=True)
    return "/".join(
        f"{escape(f.name)}={escape(null if text is None else text)}" for f, text in parts
    )


def named_partition(values: Mapping[str, Any], metadata: TableMetadata, table: str) -> Partition:
    """Identify the partition of the present spec that a caller names by its fields, `{"dt":
    "2026-01-01"}`.

    Values are those of Python, or texts as in the names of folders. Raises InvalidInput unless all
    fields are named, and for values that they cannot have.
    """
    spec = metadata.spec_by_id(metadata.default_spec_id)
    schema, names = schema_of_spec(metadata, spec), [f.name for f in spec.fields]
    if sorted(values) != sorted(names):
        hint = (
            f"Name a value for each of: {', '.join(names)}."
            if names
            else "Only partitioned tables have partitions to mark."
        )
        raise InvalidInput(
            f"{dict(values)!r} does not name a partition of {table}.", hint=hint, table=table
        )
    texts = []
    for f in spec.fields:
        source = schema.by_id.get(f.source_id)
        try:
            texts.append(
                _text(f.transform, source.field_type if source else StringType(), values[f.name])
            )
        except ValueError as e:
            text = f"{values[f.name]!r} is no value of the partition field {f.name}, {f.transform} of {source or f.source_id}, of {table}."
            hint = "Write it as in the names of folders, which t.inspect.partition_commits() lists."
            raise InvalidInput(text, hint=hint, table=table) from e
    return Partition(spec.spec_id, tuple(texts))


def _text(transform: Transform, source: IcebergType, value: object) -> str | None:
    """Return the text of a partition value. Raises ValueError for one that the field cannot have."""
    if value is None:
        return None
    if isinstance(value, datetime) and value.tzinfo is not None:
        value = value.astimezone(UTC)  # in which partitions by time are
    if (form := OF_TIME.get(str(transform))) is not None and str(transform) != "day":
        # the values are numbers, the texts are times
        text = (
            value.isoformat().replace("T", "-")[
                : {"hour": 13, "month": 7, "year": 4}[str(transform)]
            ]
            if isinstance(value, date)
            else str(value)
        )
        if re.fullmatch(form, text) is None:
            raise ValueError(text)
        return text
    result = transform.result_type(source)
    return human_string(IdentityTransform(), result, internal_value(result, _value(result, value)))


def _value(type_: IcebergType, value: object) -> Any:
    """Read texts of types whose values are not read from texts elsewhere, and write values of
    columns of text. Raises ValueError.
    """
    if isinstance(type_, StringType):
        return str(value)
    if isinstance(type_, DateType) and isinstance(value, datetime):
        return value.date()
    if not isinstance(value, str):
        return value
    match type_:
        case IntegerType() | LongType():
            return int(value)
        case BooleanType():
            return {"true": True, "false": False}.get(value.lower(), value)
        case BinaryType() | FixedType():
            return base64.b64decode(value, validate=True)
    return value
