"""One struct for the partition values of all specs of a table, and entries coerced to it (spec, "Partition Evolution")."""

from __future__ import annotations

import pyarrow as pa

from frazil.codec.manifest import arrow_value_type
from frazil.errors import ValidationError
from frazil.scan.inspect.types import door_type, to_door
from frazil.spec.metadata import TableMetadata
from frazil.spec.partitioning import PartitionField, PartitionSpec
from frazil.spec.transforms import VoidTransform
from frazil.spec.types import NestedField, StringType, StructType


def unified_partition_type(metadata: TableMetadata) -> StructType:
    """The fields of all specs by field id, with the newest name; a field that was dropped from a v1 spec (void) keeps its old type.

    As in Java, fields whose source column is no longer in the current schema are left out. A transform we do not know gives text.
    """
    schema = metadata.schema()
    chosen: dict[int, tuple[PartitionField, NestedField]] = {}
    names: dict[int, str] = {}
    for spec in sorted(metadata.partition_specs, key=lambda s: s.spec_id, reverse=True):
        for field, typed in zip(spec.fields, spec.partition_type(schema).fields, strict=True):
            if field.source_id not in schema.by_id:
                continue
            names.setdefault(field.field_id, field.name)
            known = chosen.get(field.field_id)
            if known is not None and not _compatible(field, known[0]):
                raise ValidationError(f"Conflicting partition fields: ['{field}', '{known[0]}']", table=metadata.location)
            if known is None or (isinstance(known[0].transform, VoidTransform) and not isinstance(field.transform, VoidTransform)):
                chosen[field.field_id] = field, typed
    return StructType(*(NestedField(i, names[i], chosen[i][1].field_type) for i in sorted(chosen)))


def _compatible(a: PartitionField, b: PartitionField) -> bool:
    void = isinstance(a.transform, VoidTransform) or isinstance(b.transform, VoidTransform)
    return a.source_id == b.source_id and (void or a.transform == b.transform)


def coerce_partition(partition: pa.Array, unified: StructType) -> dict[int, pa.Array]:
    """Columns of internal values by partition field id, null where the spec of these entries lacks the field."""
    have = {partition.type.field(i).name: i for i in range(partition.type.num_fields)}
    columns = {}
    for field in unified.fields:
        wanted = arrow_value_type(field.field_type)
        place = have.get(str(field.field_id))
        columns[field.field_id] = pa.nulls(len(partition), wanted) if place is None else _cast(pa_child(partition, place), wanted, field)
    return columns


def pa_child(struct: pa.Array, index: int) -> pa.Array:
    """A struct's child with the struct's own nulls applied."""
    return struct.flatten()[index] if struct.null_count else struct.field(index)


def _cast(values: pa.Array, wanted: pa.DataType, field: NestedField) -> pa.Array:
    if values.type == wanted:
        return values
    if isinstance(field.field_type, StringType) and pa.types.is_binary(values.type):
        return pa.array([None if v is None else v.hex() for v in values.to_pylist()], type=pa.string())
    return values.cast(wanted)


def partition_column(partition: pa.Array, unified: StructType) -> pa.Array:
    """The `partition` column of a metadata table."""
    columns = coerce_partition(partition, unified)
    return partition_struct([columns[f.field_id] for f in unified.fields], unified)


def partition_struct(columns: list[pa.Array], unified: StructType) -> pa.Array:
    fields = [pa.field(f.name, door_type(f.field_type)) for f in unified.fields]
    return pa.StructArray.from_arrays([to_door(c, f.field_type) for c, f in zip(columns, unified.fields, strict=True)], fields=fields)


def partition_arrow_type(unified: StructType) -> pa.DataType:
    return pa.struct([pa.field(f.name, door_type(f.field_type)) for f in unified.fields])


def projected_fields(spec: PartitionSpec, unified: StructType) -> int:
    """How many of the unified fields a spec has: equal values of specs that differ here are different partitions, as in Java."""
    return len({f.field_id for f in spec.fields} & {f.field_id for f in unified.fields})
