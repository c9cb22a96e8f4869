"""Unify the partition fields of all specs of a table into one struct type, that of `_partition`
(spec, "Partition Evolution").
"""

from __future__ import annotations

from frazil.errors import ValidationError
from frazil.spec.metadata import TableMetadata
from frazil.spec.partitioning import PartitionField, PartitionSpec
from frazil.spec.transforms import VoidTransform
from frazil.spec.types import NestedField, StructType


def unified_partition_type(metadata: TableMetadata) -> StructType:
    """Build the struct of the partition fields of all specs, by field id with the newest name; a
    field that was dropped from a v1 spec (void) keeps its old type.

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
            names.setdefault(field.field_id, field.name)
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
