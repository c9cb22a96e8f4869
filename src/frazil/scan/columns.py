"""Project the selected columns of a scan, metadata columns such as `_file` and `_pos` included
(spec, "Reserved Field IDs").
"""

from __future__ import annotations

from collections.abc import Iterable

from frazil.errors import ValidationError
from frazil.scan.partition_union import unified_partition_type
from frazil.spec.metadata import TableMetadata
from frazil.spec.schema import METADATA_COLUMNS, Schema
from frazil.spec.types import BooleanType, IntegerType, LongType, NestedField, StringType


def metadata_columns(metadata: TableMetadata) -> dict[str, NestedField]:
    """Return the metadata columns that every table has beside its own, by name; `_partition` is the
    union of all partition specs.
    """
    types = {
        "_file": StringType(),
        "_pos": LongType(),
        "_deleted": BooleanType(),
        "_spec_id": IntegerType(),
        "_partition": unified_partition_type(metadata),
        "_row_id": LongType(),
        "_last_updated_sequence_number": LongType(),
    }
    required = {"_file", "_pos", "_deleted", "_spec_id"}
    return {
        name: NestedField(METADATA_COLUMNS[name], name, type_, name in required)
        for name, type_ in types.items()
    }


def project(
    metadata: TableMetadata, schema: Schema, names: Iterable[str], case_sensitive: bool = True
) -> Schema:
    """Project the schema to the selected names: "*" is all columns of the table, a nested name
    keeps just its path.

    The table's columns stay in its order, metadata columns come last. Raises ValidationError for a
    name that is neither, and for the name of a metadata column that is also a column of the table.
    """
    own, extra = [], []
    metadata_fields = metadata_columns(metadata)
    for name in names:
        special = metadata_fields.get(name if case_sensitive else name.lower())
        if special is None:
            own.append(name)
        elif schema.get_field(name, case_sensitive) is not None:
            raise ValidationError(
                f"Table column names conflict with names reserved for metadata columns: {name}",
                table=metadata.location,
            )
        elif special not in extra:
            extra.append(special)
    columns = schema.select(*own, case_sensitive=case_sensitive).fields if own else ()
    return Schema(
        *columns, *extra, schema_id=schema.schema_id, identifier_field_ids=_kept(schema, columns)
    )


def _kept(schema: Schema, columns: tuple[NestedField, ...]) -> tuple[int, ...]:
    field_ids = {f.field_id for f in columns}
    return tuple(i for i in schema.identifier_field_ids if i in field_ids)
