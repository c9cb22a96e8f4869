"""Types of partition fields and of their sources, also when the source column was dropped since."""

from __future__ import annotations

from frazil.spec.metadata import TableMetadata
from frazil.spec.partitioning import PartitionSpec
from frazil.spec.types import IcebergType, StringType


def source_type(field_id: int, metadata: TableMetadata) -> IcebergType | None:
    """The type of a column in the current schema, else in the newest schema that has it; None: no schema that is kept has it."""
    current = metadata.schema().by_id.get(field_id)
    if current is not None:
        return current.field_type
    for schema in sorted(metadata.schemas, key=lambda s: s.schema_id, reverse=True):
        if found := schema.by_id.get(field_id):
            return found.field_type
    return None


def partition_types(spec: PartitionSpec, metadata: TableMetadata) -> list[tuple[IcebergType, IcebergType]]:
    """(source type, type of the partition value) of each field; text where no schema has the source."""
    types = []
    for f in spec.fields:
        source = source_type(f.source_id, metadata) or StringType()
        types.append((source, f.transform.result_type(source)))
    return types
