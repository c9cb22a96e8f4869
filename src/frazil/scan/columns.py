"""Project the selected columns of a scan, metadata columns such as `_file` and `_pos` included
(spec, "Reserved Field IDs"). `_partition` is one struct of the partition fields of all specs of a
table (spec, "Partition Evolution").
"""

from __future__ import annotations

from collections.abc import Iterable

from frazil.errors import ValidationError
from frazil.spec.metadata import TableMetadata
from frazil.spec.partitioning import PartitionField, PartitionSpec
from frazil.spec.schema import METADATA_COLUMNS, Schema
from frazil.spec.transforms import VoidTransform
from frazil.spec.types import (
    BooleanType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    StructType,
)

LINEAGE = ("_row_id", "_last_updated_sequence_number")
"""The metadata columns of row lineage (spec, "Row Lineage")."""


def metadata_columns(metadata: TableMetadata) -> dict[str, NestedField]:
    """Return the metadata columns that every table has beside its own, by name; `_partition` is the
    union of all partition specs.
    """
    types = {
        "_spec_id": IntegerType(),
        "_partition": unified_partition_type(metadata),
        "_file": StringType(),
        "_pos": LongType(),
        "_deleted": BooleanType(),
        "_row_id": LongType(),
        "_last_updated_sequence_number": LongType(),
    }
    required = {"_file", "_pos", "_deleted", "_spec_id"}
    return {
        name: NestedField(METADATA_COLUMNS[name], name, type_, name in required)
        for name, type_ in types.items()
    }


def columns_of_conditions(metadata: TableMetadata) -> dict[str, NestedField]:
    """Return the metadata columns that conditions and values of row changes may name, by name: not
    `_deleted`, which would bring deleted rows back; those of row lineage from format version 3; and
    none whose name a column of the table has.
    """
    schema = metadata.schema()
    left_out = {"_deleted", *(() if metadata.format_version >= 3 else LINEAGE)}
    return {
        name: field
        for name, field in metadata_columns(metadata).items()
        if name not in left_out and schema.get_field(name, False) is None
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


def unified_partition_type(metadata: TableMetadata) -> StructType:
    """Build the struct of the partition fields of all specs, by field id with the newest name, or
    with its id behind it where a newer field has that; a field that was dropped from a v1 spec
    (void) keeps its old type.

    As in Java, fields whose source column is no longer in the current schema are left out. An
    unknown transform gives text. Raises ValidationError when one field id has different sources or
    transforms in different specs.
    """
    schema = metadata.schema()
    chosen: dict[int, tuple[PartitionField, NestedField]] = {}
    names: dict[int, str] = {}
    for spec in sorted(metadata.partition_specs, key=lambda s: s.spec_id, reverse=True):
        for field, typed in zip(spec.fields, spec.partition_type(schema).fields, strict=True):
            if field.source_id not in schema.by_id:
                continue
            if field.field_id not in names:
                name, taken = field.name, {n.lower() for n in names.values()}
                while name.lower() in taken:
                    name = f"{name}_{field.field_id}"
                names[field.field_id] = name
            earlier = chosen.get(field.field_id)
            if earlier is not None and not _compatible(field, earlier[0]):
                raise ValidationError(
                    f"Conflicting partition fields: ['{field}', '{earlier[0]}']",
                    table=metadata.location,
                )
            if earlier is None or (_is_void(earlier[0]) and not _is_void(field)):
                chosen[field.field_id] = field, typed
    return StructType(*(NestedField(i, names[i], chosen[i][1].field_type) for i in sorted(chosen)))


def _is_void(field: PartitionField) -> bool:
    return isinstance(field.transform, VoidTransform)


def _compatible(a: PartitionField, b: PartitionField) -> bool:
    return a.source_id == b.source_id and (_is_void(a) or _is_void(b) or a.transform == b.transform)


def projected_fields(spec: PartitionSpec, unified: StructType) -> int:
    """Count the unified fields that a spec has: equal values under specs with different counts are
    different partitions, as in Java.
    """
    return len({f.field_id for f in spec.fields} & {f.field_id for f in unified.fields})
