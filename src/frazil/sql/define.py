"""Read the definition of a table that CREATE TABLE and REPLACE TABLE give: columns with defaults,
the format of files, properties.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from pyspark.sql import types as s

from frazil.errors import InvalidInput, ValidationError
from frazil.ops.session import Session
from frazil.spark.catalog.protocol import TableDefinition
from frazil.spark.host.jvm_changes import constant
from frazil.spec.properties import DATA_FORMAT
from frazil.spec.schema import Schema
from frazil.spec.transforms import TIMES, parse_term
from frazil.table.create import schema_of

_FORMATS = ("parquet", "avro", "orc")
_NOT_STORED = ("provider", "location", "comment", "external", "is_managed_location", "table_type")


def columns_of(spark: Session, struct: s.StructType) -> Schema:
    """Return the columns of a definition. DEFAULT is what old rows would show and what new ones get
    where nothing is given.
    """
    schema = schema_of(struct)
    fields = []
    for column, field in zip(struct.fields, schema.fields, strict=True):
        text = (column.metadata or {}).get("CURRENT_DEFAULT")
        value = None if text is None else constant(spark, text, column.dataType)
        fields.append(
            field if value is None else replace(field, initial_default=value, write_default=value)
        )
    return Schema(*fields)


def creation(definition: TableDefinition) -> dict[str, Any]:
    """Return the arguments of `create_table` that a definition says beside its columns. Raises
    InvalidInput for a format in USING that is none of Iceberg's."""
    asked = definition.properties
    properties = {
        k: v for k, v in asked.items() if k not in _NOT_STORED and not k.startswith("option.")
    }
    provider = asked.get("provider", "iceberg").lower()
    if provider in _FORMATS:
        properties.setdefault(DATA_FORMAT.name, provider)
    elif provider != "iceberg":
        hint = "USING iceberg makes an Iceberg table, as do parquet, avro and orc, which name the format of its files."
        raise InvalidInput(f"Unsupported format in USING: {asked['provider']}", hint=hint)
    _refuse_redundant(definition.partition_by)
    if comment := asked.get("comment"):
        properties["comment"] = comment
    return {
        "location": asked.get("location"),
        "partition_by": list(definition.partition_by),
        "properties": properties,
    }


def _refuse_redundant(terms: Iterable[str]) -> None:
    """Raise ValidationError for two units of time of one column, of which the finer one says all,
    as Java Iceberg does.
    """
    by_column: dict[str, str] = {}
    for text in terms:
        term = parse_term(text)
        if (
            isinstance(term.transform, TIMES)
            and (other := by_column.setdefault(term.column, text)) != text
        ):
            raise ValidationError(
                f"Cannot add redundant partition: {other} conflicts with {text}",
                hint="Leave the coarser one out.",
            )
