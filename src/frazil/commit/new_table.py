"""Make the metadata of a new table, and the updates that replace an existing table (CREATE OR
REPLACE).
"""

from __future__ import annotations

import itertools
import uuid as uuids
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from frazil.commit.apply import check_schema, has_sequential_ids, now_millis
from frazil.errors import ValidationError
from frazil.spec import updates as u
from frazil.spec.metadata import DEFAULT_FORMAT_VERSION, SUPPORTED_FORMAT_VERSION, TableMetadata
from frazil.spec.name_mapping import update_name_mapping
from frazil.spec.partitioning import (
    FIRST_PARTITION_FIELD_ID,
    UNPARTITIONED_PARTITION_SPEC,
    PartitionField,
    PartitionSpec,
    check_names,
    check_source,
)
from frazil.spec.properties import (
    METRICS_OF_COLUMN,
    NAME_MAPPING,
    RESERVED_PROPERTIES,
    STORED_IN_NEW_TABLES,
    check_values,
)
from frazil.spec.schema import (
    Schema,
    assign_fresh_ids,
    empty_structs,
    refuse_empty_structs,
    with_ids,
)
from frazil.spec.snapshot import MAIN_BRANCH
from frazil.spec.sorting import UNSORTED_SORT_ORDER, SortField, SortOrder
from frazil.spec.transforms import VoidTransform


def new_metadata(
    schema: Schema,
    spec: PartitionSpec = UNPARTITIONED_PARTITION_SPEC,
    sort_order: SortOrder = UNSORTED_SORT_ORDER,
    location: str = "",
    properties: Mapping[str, str] | None = None,
    format_version: int | None = None,
    uuid: str | None = None,
    *,
    now_ms: int | None = None,
) -> TableMetadata:
    """Make the metadata of a table without snapshots. All ids are newly assigned, from 1 (columns)
    and 1000 (partition fields), as in Java.

    `location` "": the catalog chooses one. `format_version` None: the property `format-version`,
    else 2. Reserved properties are not stored. Raises ValidationError.
    """
    table_properties = dict(properties or {})
    version = format_version if format_version is not None else _version_of(table_properties)
    if not 1 <= version <= SUPPORTED_FORMAT_VERSION:
        raise ValidationError(
            f"Unsupported format version: v{version} (supported: v{SUPPORTED_FORMAT_VERSION})"
        )
    fresh = assign_fresh_ids(schema)
    check_schema(fresh, version)
    refuse_empty_structs(empty_structs(fresh))
    moved = _moved_ids(schema, fresh)
    stored = stored_properties(table_properties)
    check_metrics_properties(stored, fresh)
    fresh_spec = _respec(spec, moved, fresh, itertools.count(FIRST_PARTITION_FIELD_ID).__next__)
    return TableMetadata(
        format_version=version,
        table_uuid=uuid or str(uuids.uuid4()),
        location=location.rstrip("/") or location,
        last_updated_ms=now_millis() if now_ms is None else now_ms,
        last_column_id=fresh.highest_field_id,
        schemas=(fresh,),
        partition_specs=(fresh_spec,),
        last_partition_id=fresh_spec.last_assigned_field_id,
        sort_orders=(order := _reorder(sort_order, moved, fresh),),
        default_sort_order_id=order.order_id,
        properties=stored,
        next_row_id=0 if version >= 3 else None,
    )


def _version_of(properties: Mapping[str, str]) -> int:
    text = properties.get("format-version", str(DEFAULT_FORMAT_VERSION))
    if not text.isdigit():
        raise ValidationError(f"Table property format-version must be a number, not {text!r}.")
    return int(text)


def stored_properties(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the properties that a new table stores: Java's defaults for new tables and those
    given, without reserved names.
    """
    stored = {
        **STORED_IN_NEW_TABLES,
        **{k: str(v) for k, v in properties.items() if k not in RESERVED_PROPERTIES},
    }
    check_values(stored)
    return stored


def check_metrics_properties(properties: Mapping[str, str], schema: Schema) -> None:
    for column in METRICS_OF_COLUMN.texts(properties):
        if schema.get_field(column) is None:
            key = METRICS_OF_COLUMN.prefix + column
            raise ValidationError(
                f"Invalid metrics config, could not find column {column} from table prop {key}"
            )


def _moved_ids(old: Schema, new: Schema) -> dict[int, int]:
    """Map each old field id to the id of the column of the same name in the new schema."""
    new_ids = {}
    for field_id in old.by_id:
        name = old.find_column_name(field_id)
        target = new.get_field(name) if name is not None else None
        if target is not None:
            new_ids[field_id] = target.field_id
    return new_ids


def _respec(
    spec: PartitionSpec, moved: Mapping[int, int], schema: Schema, next_id: Callable[[], int]
) -> PartitionSpec:
    fields = []
    for f in spec.fields:
        source = moved.get(f.source_id)
        if source is None:
            raise ValidationError(f"Cannot find source column for partition field: {f}")
        if not isinstance(f.transform, VoidTransform):
            check_source(schema, source, f.transform)
        fields.append(PartitionField(source, next_id(), f.transform, f.name))
    fresh = PartitionSpec(*fields, spec_id=0)
    check_names(schema, fresh)
    return fresh


def _reorder(order: SortOrder, moved: Mapping[int, int], schema: Schema) -> SortOrder:
    fields = []
    for f in order.fields:
        source = moved.get(f.source_id)
        if source is None:
            raise ValidationError(f"Cannot find source column for sort field: {f}")
        if not f.transform.can_transform(schema.by_id[source].field_type):
            raise ValidationError(
                f"Invalid source type {schema.by_id[source].field_type} for transform: {f.transform}"
            )
        fields.append(SortField(source, f.transform, f.direction, f.null_order))
    return SortOrder(*fields) if fields else UNSORTED_SORT_ORDER


def creation_updates(metadata: TableMetadata) -> tuple[u.Update, ...]:
    """Return the updates that create the metadata of a new table, as sent to a REST catalog
    together with `AssertCreate`.
    """
    return (
        *((u.AssignUUID(metadata.table_uuid),) if metadata.table_uuid else ()),
        u.UpgradeFormatVersion(metadata.format_version),
        u.AddSchema(metadata.schema()),
        u.SetCurrentSchema(),
        u.AddPartitionSpec(metadata.spec()),
        u.SetDefaultSpec(),
        u.AddSortOrder(metadata.sort_order()),
        u.SetDefaultSortOrder(),
        *((u.SetLocation(metadata.location),) if metadata.location else ()),
        u.SetProperties(dict(metadata.properties)),
    )


# -- replacing
# --------------------------------------------------------------------------------------------------


def replacement(
    base: TableMetadata,
    schema: Schema,
    spec: PartitionSpec = UNPARTITIONED_PARTITION_SPEC,
    sort_order: SortOrder = UNSORTED_SORT_ORDER,
    location: str | None = None,
    properties: Mapping[str, str] | None = None,
) -> Sequence[u.Update]:
    """Return the updates of CREATE OR REPLACE: new schema, spec and sort order, empty main;
    history, uuid and other properties stay, as in Java. A column that has the full name of an
    existing column takes its id; other columns get fresh ids."""
    table_properties = dict(properties or {})
    version = (
        _version_of(table_properties)
        if "format-version" in table_properties
        else base.format_version
    )
    fresh_id = itertools.count(base.last_column_id + 1).__next__
    fresh = _ids_by_name(schema, base.schema(), fresh_id)
    check_schema(fresh, max(version, base.format_version))
    refuse_empty_structs(empty_structs(fresh))
    moved = _moved_ids(schema, fresh)
    next_partition_id = itertools.count(base.last_partition_id + 1).__next__
    fresh_spec = _aligned(
        base,
        _respec(spec, moved, fresh, itertools.count(FIRST_PARTITION_FIELD_ID).__next__),
        next_partition_id,
    )
    updates: list[u.Update] = (
        [u.UpgradeFormatVersion(version)] if version != base.format_version else []
    )
    if base.current_snapshot_id is not None:
        updates.append(u.RemoveSnapshotRef(MAIN_BRANCH))
    # The spec is added after its schema, which the old default spec may no longer fit; that is
    # allowed, as only the end state is checked.
    updates += [
        u.AddSchema(fresh),
        u.SetCurrentSchema(),
        u.AddPartitionSpec(fresh_spec),
        u.SetDefaultSpec(),
    ]
    updates += [u.AddSortOrder(_reorder(sort_order, moved, fresh)), u.SetDefaultSortOrder()]
    if location is not None:
        updates.append(u.SetLocation(location))
    if mapping := NAME_MAPPING.text(base.properties):
        # that of the old snapshots; columns that are new get entries
        table_properties = {
            NAME_MAPPING.name: update_name_mapping(mapping, base.schema(), fresh),
            **table_properties,
        }
    return [*updates, u.SetProperties(stored_properties(table_properties))]


def _ids_by_name(schema: Schema, base: Schema, fresh_id: Callable[[], int]) -> Schema:
    """Assign the ids of the base's columns of the same full name, else fresh ids; all columns of a
    struct before their inner columns.
    """
    return with_ids(
        schema, lambda f: _held(base, schema.find_column_name(f.field_id)) or fresh_id()
    )


def _held(base: Schema, name: str | None) -> int | None:
    column = base.get_field(name) if name is not None else None
    return None if column is None else column.field_id


def _aligned(base: TableMetadata, spec: PartitionSpec, next_id: Callable[[], int]) -> PartitionSpec:
    """Assign partition field ids: a field of the same source and transform as an earlier one takes
    its id; v1 keeps every old field, as void if the new spec does not have it."""
    if base.format_version > 1:
        earlier_ids = {
            (f.source_id, str(f.transform)): f.field_id
            for s in base.partition_specs
            for f in s.fields
        }
        return PartitionSpec(
            *(
                replace(f, field_id=earlier_ids.get((f.source_id, str(f.transform))) or next_id())
                for f in spec.fields
            )
        )
    fields = list(_carried_v1(base.spec(), spec))
    held = {(f.source_id, str(f.transform)) for f in base.spec().fields}
    fields += [
        replace(f, field_id=next_id())
        for f in spec.fields
        if (f.source_id, str(f.transform)) not in held
    ]
    aligned = PartitionSpec(*fields)
    if not has_sequential_ids(aligned):
        raise ValidationError(
            f"Spec does not use sequential IDs that are required in v1: {aligned}"
        )
    return aligned


def _carried_v1(old: PartitionSpec, new: PartitionSpec) -> Iterator[PartitionField]:
    wanted = {(f.source_id, str(f.transform)): f for f in new.fields}
    names = {f.name for f in new.fields}
    for f in old.fields:
        if again := wanted.get((f.source_id, str(f.transform))):
            yield replace(again, field_id=f.field_id)
        else:
            name = f"{f.name}_{f.field_id}" if f.name in names else f.name
            yield PartitionField(f.source_id, f.field_id, VoidTransform(), name)
