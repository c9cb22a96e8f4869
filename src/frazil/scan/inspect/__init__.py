"""Build the metadata tables of Java Iceberg (`files`, `snapshots`, `partitions`, …) as Arrow, with
Java's columns, types and order.

Entry points: `metadata_table(name, metadata, storage, …)`, `metadata_table_schema(name, metadata)`,
`METADATA_TABLES`.
"""

from frazil.scan.inspect.tables import (
    METADATA_TABLES,
    TIME_TRAVEL_TABLES,
    metadata_table,
    metadata_table_schema,
)

__all__ = [
    "METADATA_TABLES",
    "TIME_TRAVEL_TABLES",
    "metadata_table",
    "metadata_table_schema",
    "partition_type",
    "partitions",
]
