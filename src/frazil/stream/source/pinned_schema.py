"""Keep the schema that a streaming query started with while its table evolves: columns are read by
field id under their first names.
"""

from __future__ import annotations

from dataclasses import replace

from frazil.errors import ValidationError
from frazil.spec.metadata import TableMetadata
from frazil.spec.schema import Schema


def with_schema(metadata: TableMetadata, schema: Schema) -> TableMetadata:
    """Return the metadata with this schema as the current one.

    Columns added since are not read, renamed ones keep their old name, dropped ones are null in new
    files. Raises ValidationError for a column whose type was widened since: its new values do not
    fit the query.
    """
    if metadata.current_schema_id == schema.schema_id and metadata.schema() == schema:
        return metadata
    current = metadata.schema()
    for field_id, field in schema.by_id.items():
        now = current.by_id.get(field_id)
        if now is not None and field.field_type.is_primitive and now.field_type != field.field_type:
            raise ValidationError(
                f"Column {schema.find_column_name(field_id)} of table {metadata.location} was {field.field_type} when the query started "
                f"and is {now.field_type} now.",
                hint="Restart the query: it goes on from its checkpoint with the new type.",
                table=metadata.location,
            )
    if any(s.schema_id == schema.schema_id and s == schema for s in metadata.schemas):
        return replace(metadata, current_schema_id=schema.schema_id)
    others = tuple(s for s in metadata.schemas if s.schema_id != schema.schema_id)
    return replace(metadata, schemas=(*others, schema), current_schema_id=schema.schema_id)
