"""Look up the types of partition fields and of their source columns, including source columns that
were dropped since.
"""

from __future__ import annotations

from frazil.spec.metadata import TableMetadata
from frazil.spec.partitioning import PartitionSpec
from frazil.spec.types import IcebergType, StringType


def source_type(field_id: int, metadata: TableMetadata) -> IcebergType | None:
    """Return the type of a column in the current schema, else in the newest schema that has it;
    None: no kept schema has it.
    """
    current = metadata.schema().by_id.get(field_id)
    if current is not None:
        return current.field_type
    for schema in sorted(metadata.schemas, key=lambda s: s.schema_id, reverse=True):
        if field := schema.by_id.get(field_id):
            return field.field_type
    return None


def partition_types(
    spec: PartitionSpec, metadata: TableMetadata
) -> list[tuple[IcebergType, IcebergType]]:
    """Return (source type, type of the partition value) per field; text where no kept schema has
    the source column.
    """
    types = []
    for field in spec.fields:
        source = source_type(field.source_id, metadata) or StringType()
        types.append((source, field.transform.result_type(source)))
    return types
