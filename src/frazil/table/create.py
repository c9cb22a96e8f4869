"""Resolve the schema of a new table or view, of whatever library it is."""

from __future__ import annotations

from frazil.ops import table_definition
from frazil.ops.table_definition import GivenSchema
from frazil.spec.schema import Schema
from frazil.table import engines


def schema_of(schema: GivenSchema) -> Schema:
    """Return a Schema from a Schema, DDL text, a mapping of column names to type names, a
    pyarrow.Schema, a Spark StructType or a frame.
    """
    return table_definition.schema_of(
        schema, lambda of_spark: engines.spark_entry_points().schema_of(of_spark)
    )
