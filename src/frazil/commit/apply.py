"""Apply metadata updates to table metadata: one pure function per kind of update (spec, "Table
Metadata"; with the checks of Java).

A REST catalog is sent the updates themselves; every other catalog stores the metadata that
`apply_updates` makes of them.
"""

from __future__ import annotations

import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from frazil.errors import ValidationError
from frazil.spec import updates as u
from frazil.spec.metadata import SUPPORTED_FORMAT_VERSION, TableMetadata
from frazil.spec.partitioning import FIRST_PARTITION_FIELD_ID, PartitionSpec, check_source
from frazil.spec.properties import ENCRYPTION_KEY, RESERVED_PROPERTIES, check_values
from frazil.spec.schema import Schema, check_identifier_fields
from frazil.spec.snapshot import MAIN_BRANCH, SnapshotLogEntry, SnapshotRef
from frazil.spec.sorting import UNSORTED_SORT_ORDER, SortOrder
from frazil.spec.transforms import VoidTransform
from frazil.spec.types import V3_TYPES

LAST_ADDED = u.LAST_ADDED


def now_millis() -> int:
    return time.time_ns() // 1_000_000


@dataclass
class _Draft:
    """Hold the metadata after the updates applied so far. `changed` stays False while updates only
    repeat what the metadata says.
    """

    md: TableMetadata
    now_ms: int
    changed: bool = False
    last_schema: int | None = None
    last_spec: int | None = None
    last_order: int | None = None
    added: dict[int, int] = field(default_factory=dict)
    """Timestamps of the snapshots that these updates added, by id."""
    main_moves: list[int] = field(default_factory=list)
    removed: bool = False
    updated_ms: int | None = None

    def put(self, **values: Any) -> None:
        self.md, self.changed = replace(self.md, **values), True

    def put_if_new(self, name: str, value: object) -> None:
        if value != getattr(self.md, name):
            self.put(**{name: value})


def apply_updates(
    metadata: TableMetadata | None, updates: Iterable[u.Update], *, now_ms: int | None = None
) -> TableMetadata:
    """Apply `updates`; returns the same object when they change nothing. Raises ValidationError for
    what the format forbids.

    `metadata` None: make a new table (`commit.new_table.creation_updates`). last-updated-ms never
    decreases: where this clock is behind that of the last writer, the last writer's time is kept.
    """
    if metadata is None:
        return _created(updates, now_millis() if now_ms is None else now_ms)
    draft = _Draft(
        metadata, max(now_millis() if now_ms is None else now_ms, metadata.last_updated_ms)
    )
    for update in updates:
        _REDUCERS[type(update)](draft, update)
    if not draft.changed:
        return metadata
    if _defaults(draft.md) != _defaults(metadata):
        _check_defaults(draft.md)
    log = _snapshot_log(draft)
    return replace(
        draft.md,
        snapshot_log=log,
        last_updated_ms=max(draft.updated_ms or draft.now_ms, metadata.last_updated_ms),
    )


def _created(updates: Iterable[u.Update], now_ms: int) -> TableMetadata:
    """Make the metadata of a new table. Raises ValidationError when the updates leave out a part
    that every table has.
    """
    nothing = TableMetadata(
        format_version=1,
        table_uuid=None,
        location="",
        last_updated_ms=now_ms,
        last_column_id=0,
        schemas=(),
        current_schema_id=-1,
        partition_specs=(),
        default_spec_id=-1,
        sort_orders=(),
        default_sort_order_id=-1,
    )
    metadata = apply_updates(nothing, updates, now_ms=now_ms)
    parts = {
        "schema": metadata.schemas,
        "partition spec": metadata.partition_specs,
        "sort order": metadata.sort_orders,
        "location": metadata.location,
    }
    if missing := [part for part, value in parts.items() if not value]:
        raise ValidationError(f"Cannot create a table without {', '.join(missing)}")
    return (
        metadata
        if metadata.table_uuid is not None
        else replace(metadata, table_uuid=str(uuid.uuid4()))
    )


def _defaults(md: TableMetadata) -> tuple[int, int, int]:
    return md.current_schema_id, md.default_spec_id, md.default_sort_order_id


def _check_defaults(md: TableMetadata) -> None:
    """Check that the default spec and sort order fit the current schema; a dropped source column is
    refused here.
    """
    schema = md.schema()
    for f in md.spec().fields:
        if not isinstance(f.transform, VoidTransform) and f.transform.is_known:
            check_source(schema, f.source_id, f.transform)
    for s in md.sort_order().fields:
        source = schema.by_id.get(s.source_id)
        if source is None:
            raise ValidationError(f"Cannot find source column for sort field: {s}")
        if s.transform.is_known and not s.transform.can_transform(source.field_type):
            raise ValidationError(
                f"Invalid source type {source.field_type} for transform: {s.transform}"
            )


def _snapshot_log(draft: _Draft) -> tuple[SnapshotLogEntry, ...]:
    """Rewrite the snapshot log without snapshots that were the head of main only within these
    updates. As in Java, a removed snapshot also removes all entries before it, so that the log has
    no gaps."""
    md = draft.md
    passed = {i for i in draft.main_moves if i in draft.added and i != md.current_snapshot_id}
    if not passed and not draft.removed:
        return md.snapshot_log
    entries: list[SnapshotLogEntry] = []
    snapshot_ids = set(md.snapshots.ids)
    for entry in md.snapshot_log:
        if entry.snapshot_id not in snapshot_ids:
            entries = [] if draft.removed else entries
        elif entry.snapshot_id not in passed:
            entries.append(entry)
    return tuple(entries)


# -- schemas, specs, orders
# --------------------------------------------------------------------------------------------------


def check_schema(schema: Schema, format_version: int) -> None:
    """Check that the format version has the schema's types and defaults, and that identifier fields
    and names are valid.
    """
    for f in schema.by_id.values():
        name = schema.find_column_name(f.field_id)
        if format_version < 3 and isinstance(f.field_type, V3_TYPES):
            raise ValidationError(
                f"Invalid type for {name}: {f.field_type} is not supported until v3"
            )
        if f.initial_default is not None and format_version < 3:
            raise ValidationError(
                f"Invalid initial default for {name}: non-null default ({f.initial_default!r}) is not supported until v3"
            )
    check_identifier_fields(schema)
    if len(schema.column_names) != len(schema.by_id):
        # also a column "a.b" beside a struct a with member b: the name is ambiguous
        count = Counter(schema.find_column_name(i) for i in schema.by_id)
        raise ValidationError(
            f"Invalid schema: multiple fields for name {', '.join(str(n) for n, c in count.items() if c > 1)}"
        )


def _add_schema(draft: _Draft, update: u.AddSchema) -> None:
    md, schema = draft.md, update.schema
    check_schema(schema, md.format_version)
    last = max(md.last_column_id, schema.highest_field_id)
    same = next((s.schema_id for s in md.schemas if s.same_fields(schema)), None)
    if same is not None:
        draft.last_schema = same
        if last != md.last_column_id:
            draft.put(last_column_id=last)
        return
    fresh = max((s.schema_id for s in md.schemas), default=-1) + 1
    added = Schema(
        *schema.fields,
        schema_id=fresh,
        identifier_field_ids=schema.identifier_field_ids,
        extra=schema.extra,
    )
    draft.put(schemas=(*md.schemas, added), last_column_id=last)
    draft.last_schema = fresh


def _set_current_schema(draft: _Draft, update: u.SetCurrentSchema) -> None:
    schema_id = _last(update.schema_id, draft.last_schema, "schema")
    if schema_id == draft.md.current_schema_id:
        return
    if all(s.schema_id != schema_id for s in draft.md.schemas):
        raise ValidationError(f"Cannot set current schema to unknown schema: {schema_id}")
    _check_partition_names(draft.md, schema_id)
    draft.put(current_schema_id=schema_id)


def _check_partition_names(metadata: TableMetadata, schema_id: int) -> None:
    """Refuse a column that has the name of a partition field, of any spec, of another column: Java
    could not open the table.
    """
    schema = next(s for s in metadata.schemas if s.schema_id == schema_id)
    for pf in (
        f for spec in metadata.partition_specs for f in spec.fields if f.source_id in schema.by_id
    ):
        column = schema.get_field(pf.name)
        if column is not None and column.field_id != pf.source_id:
            raise ValidationError(
                f"Cannot name a column {pf.name}: that is a partition field of column {schema.find_column_name(pf.source_id)}",
                hint="Choose another name: partition fields keep their names, also those of older specs.",
                column=pf.name,
            )


def _last(requested: int, last: int | None, noun: str) -> int:
    if requested != LAST_ADDED:
        return requested
    if last is None:
        raise ValidationError(f"Cannot set last added {noun}: no {noun} has been added")
    return last


def _remove_schemas(draft: _Draft, update: u.RemoveSchemas) -> None:
    gone = set(update.schema_ids)
    if draft.md.current_schema_id in gone:
        raise ValidationError("Cannot remove the current schema")
    draft.put_if_new("schemas", tuple(s for s in draft.md.schemas if s.schema_id not in gone))


def has_sequential_ids(spec: PartitionSpec) -> bool:
    return all(f.field_id == FIRST_PARTITION_FIELD_ID + n for n, f in enumerate(spec.fields))


def _add_spec(draft: _Draft, update: u.AddPartitionSpec) -> None:
    md, spec = draft.md, update.spec
    same = next((s.spec_id for s in md.partition_specs if s.compatible_with(spec)), None)
    if same is not None:
        draft.last_spec = same
        return
    for f in spec.fields:
        if not isinstance(f.transform, VoidTransform):
            check_source(md.schema(), f.source_id, f.transform)
    if md.format_version == 1 and not has_sequential_ids(spec):
        raise ValidationError(f"Spec does not use sequential IDs that are required in v1: {spec}")
    fresh = max((s.spec_id for s in md.partition_specs), default=-1) + 1
    added = PartitionSpec(*spec.fields, spec_id=fresh, extra=spec.extra)
    draft.put(
        partition_specs=(*md.partition_specs, added),
        last_partition_id=max(md.last_partition_id, added.last_assigned_field_id),
    )
    draft.last_spec = fresh


def _set_default_spec(draft: _Draft, update: u.SetDefaultSpec) -> None:
    spec_id = _last(update.spec_id, draft.last_spec, "spec")
    if all(s.spec_id != spec_id for s in draft.md.partition_specs):
        raise ValidationError(f"Cannot set default partition spec to unknown spec: {spec_id}")
    draft.put_if_new("default_spec_id", spec_id)


def _remove_specs(draft: _Draft, update: u.RemovePartitionSpecs) -> None:
    gone = set(update.spec_ids)
    if draft.md.default_spec_id in gone:
        raise ValidationError("Cannot remove the default partition spec")
    staying = tuple(s for s in draft.md.partition_specs if s.spec_id not in gone)
    draft.put_if_new("partition_specs", staying)


def _add_order(draft: _Draft, update: u.AddSortOrder) -> None:
    md, order = draft.md, update.sort_order
    same = next((s.order_id for s in md.sort_orders if s.fields == order.fields), None)
    if same is not None or order.is_unsorted:
        draft.last_order = same if same is not None else 0
        if same is None:
            draft.put(sort_orders=(*md.sort_orders, UNSORTED_SORT_ORDER))
        return
    for f in order.fields:
        source = md.schema().by_id.get(f.source_id)
        if source is None or not f.transform.can_transform(source.field_type):
            raise ValidationError(
                f"Cannot sort by {f}: the schema has no such column, or its type does not fit the transform"
            )
    fresh = max(0, *(s.order_id for s in md.sort_orders)) + 1 if md.sort_orders else 1
    draft.put(
        sort_orders=(*md.sort_orders, SortOrder(*order.fields, order_id=fresh, extra=order.extra))
    )
    draft.last_order = fresh


def _set_default_order(draft: _Draft, update: u.SetDefaultSortOrder) -> None:
    order_id = _last(update.sort_order_id, draft.last_order, "sort order")
    draft.md.sort_order_by_id(order_id)
    draft.put_if_new("default_sort_order_id", order_id)


# -- snapshots and refs
# --------------------------------------------------------------------------------------------------


def _add_snapshot(draft: _Draft, update: u.AddSnapshot) -> None:
    md, snapshot = draft.md, update.snapshot
    if md.snapshots.by_id(snapshot.snapshot_id) is not None:
        raise ValidationError(f"Snapshot already exists for id: {snapshot.snapshot_id}")
    if (
        md.format_version > 1
        and snapshot.sequence_number <= md.last_sequence_number
        and snapshot.parent_snapshot_id is not None
    ):
        raise ValidationError(
            f"Cannot add snapshot with sequence number {snapshot.sequence_number} older than last sequence number {md.last_sequence_number}"
        )
    values: dict[str, Any] = {"snapshots": md.snapshots.adding(snapshot)}
    if md.format_version > 1:
        values["last_sequence_number"] = max(snapshot.sequence_number, md.last_sequence_number)
    if md.format_version >= 3:
        next_row_id = md.next_row_id or 0
        if snapshot.first_row_id is None or snapshot.added_rows is None:
            raise ValidationError("Cannot add a snapshot: first-row-id is null")
        if snapshot.first_row_id < next_row_id:
            numbers = f"{snapshot.first_row_id} < {next_row_id}"
            raise ValidationError(
                f"Cannot add a snapshot, first-row-id is behind table next-row-id: {numbers}"
            )
        if snapshot.added_rows < 0:
            raise ValidationError(
                f"Cannot add a snapshot: added-rows is negative: {snapshot.added_rows}"
            )
        values["next_row_id"] = snapshot.first_row_id + snapshot.added_rows
    draft.put(**values)
    draft.added[snapshot.snapshot_id] = snapshot.timestamp_ms
    draft.updated_ms = snapshot.timestamp_ms


def _set_ref(draft: _Draft, update: u.SetSnapshotRef) -> None:
    md, name, ref = draft.md, update.ref_name, update.ref
    current_ref = md.refs.get(name)
    if current_ref is None and name == MAIN_BRANCH and md.current_snapshot_id is not None:
        current_ref = SnapshotRef(md.current_snapshot_id)
    if current_ref == ref:
        return
    snapshot = md.snapshots.by_id(ref.snapshot_id)
    if snapshot is None:
        raise ValidationError(f"Cannot set {name} to unknown snapshot: {ref.snapshot_id}")
    if name == MAIN_BRANCH and not ref.is_branch:
        raise ValidationError(f"Cannot set {MAIN_BRANCH} to a tag, it must be a branch")
    if not ref.is_branch and (
        ref.min_snapshots_to_keep is not None or ref.max_snapshot_age_ms is not None
    ):
        raise ValidationError(
            f"Tags do not support setting minSnapshotsToKeep or maxSnapshotAgeMs: {name}"
        )
    draft.put(refs={**md.refs, name: ref})
    if name == MAIN_BRANCH:
        moved_at_ms = draft.added.get(ref.snapshot_id, draft.now_ms)
        draft.put(
            current_snapshot_id=ref.snapshot_id,
            snapshot_log=(*md.snapshot_log, SnapshotLogEntry(moved_at_ms, ref.snapshot_id)),
        )
        draft.main_moves.append(ref.snapshot_id)
        draft.updated_ms = max(draft.updated_ms or 0, moved_at_ms)


def _remove_ref(draft: _Draft, update: u.RemoveSnapshotRef) -> None:
    md = draft.md
    if update.ref_name == MAIN_BRANCH:
        draft.put_if_new("current_snapshot_id", None)
    draft.put_if_new("refs", {n: r for n, r in md.refs.items() if n != update.ref_name})


def _remove_snapshots(draft: _Draft, update: u.RemoveSnapshots) -> None:
    md, gone = draft.md, set(update.snapshot_ids) & set(draft.md.snapshots.ids)
    if not gone:
        return
    draft.removed = True
    draft.put(
        snapshots=md.snapshots.without(gone),
        statistics=tuple(s for s in md.statistics if s.get("snapshot-id") not in gone),
        partition_statistics=tuple(
            s for s in md.partition_statistics if s.get("snapshot-id") not in gone
        ),
        refs={n: r for n, r in md.refs.items() if r.snapshot_id not in gone},
    )
    if md.current_snapshot_id in gone:
        draft.put(current_snapshot_id=None)


# -- the rest
# --------------------------------------------------------------------------------------------------


def _assign_uuid(draft: _Draft, update: u.AssignUUID) -> None:
    if not update.uuid:
        raise ValidationError("Cannot set uuid to null")
    draft.put_if_new("table_uuid", update.uuid)


def _upgrade(draft: _Draft, update: u.UpgradeFormatVersion) -> None:
    md, wanted = draft.md, update.format_version
    if wanted > SUPPORTED_FORMAT_VERSION:
        raise ValidationError(
            f"Cannot upgrade table to unsupported format version: v{wanted} (supported: v{SUPPORTED_FORMAT_VERSION})"
        )
    if wanted < md.format_version:
        raise ValidationError(f"Cannot downgrade v{md.format_version} table to v{wanted}")
    if wanted > md.format_version:
        draft.put(
            format_version=wanted,
            next_row_id=(md.next_row_id or 0) if wanted >= 3 else md.next_row_id,
        )


def _set_location(draft: _Draft, update: u.SetLocation) -> None:
    draft.put_if_new("location", update.location.rstrip("/") or update.location)


def _set_properties(draft: _Draft, update: u.SetProperties) -> None:
    if reserved := sorted(RESERVED_PROPERTIES & update.updates.keys()):
        raise ValidationError(
            f"Table properties should not contain reserved properties, but got {', '.join(reserved)}"
        )
    if wrong := [k for k, v in update.updates.items() if not isinstance(v, str)]:
        raise ValidationError(f"Table properties are strings; these are not: {', '.join(wrong)}")
    check_values({k: v for k, v in update.updates.items() if draft.md.properties.get(k) != v})
    held, key = draft.md.properties, ENCRYPTION_KEY.name
    if draft.md.encryption_keys and held.get(key) != update.updates.get(key, held.get(key)):
        raise ValidationError(f"Cannot modify key ID ({key}) of an encrypted table")
    draft.put_if_new("properties", {**held, **update.updates})


def _remove_properties(draft: _Draft, update: u.RemoveProperties) -> None:
    if draft.md.encryption_keys and (key := ENCRYPTION_KEY.name) in update.removals:
        raise ValidationError(f"Cannot remove key ID ({key}) from an encrypted table")
    staying = {k: v for k, v in draft.md.properties.items() if k not in update.removals}
    draft.put_if_new("properties", staying)


def _put_statistics(draft: _Draft, name: str, snapshot_id: int, *files: dict[str, Any]) -> None:
    """Put the statistics files of a snapshot, one or none, in place of those that it has."""
    held: tuple[dict[str, Any], ...] = getattr(draft.md, name)
    if files != tuple(s for s in held if s.get("snapshot-id") == snapshot_id):
        others = (s for s in held if s.get("snapshot-id") != snapshot_id)
        draft.put(**{name: (*others, *files)})


def _set_statistics(draft: _Draft, update: u.SetStatistics) -> None:
    file = update.statistics
    _put_statistics(draft, "statistics", file["snapshot-id"], file)


def _remove_statistics(draft: _Draft, update: u.RemoveStatistics) -> None:
    _put_statistics(draft, "statistics", update.snapshot_id)


def _set_partition_statistics(draft: _Draft, update: u.SetPartitionStatistics) -> None:
    file = update.partition_statistics
    _put_statistics(draft, "partition_statistics", file["snapshot-id"], file)


def _remove_partition_statistics(draft: _Draft, update: u.RemovePartitionStatistics) -> None:
    _put_statistics(draft, "partition_statistics", update.snapshot_id)


_REDUCERS: dict[type[u.Update], Callable[[_Draft, Any], None]] = {
    u.AssignUUID: _assign_uuid,
    u.UpgradeFormatVersion: _upgrade,
    u.AddSchema: _add_schema,
    u.SetCurrentSchema: _set_current_schema,
    u.RemoveSchemas: _remove_schemas,
    u.AddPartitionSpec: _add_spec,
    u.SetDefaultSpec: _set_default_spec,
    u.RemovePartitionSpecs: _remove_specs,
    u.AddSortOrder: _add_order,
    u.SetDefaultSortOrder: _set_default_order,
    u.AddSnapshot: _add_snapshot,
    u.SetSnapshotRef: _set_ref,
    u.RemoveSnapshotRef: _remove_ref,
    u.RemoveSnapshots: _remove_snapshots,
    u.SetLocation: _set_location,
    u.SetProperties: _set_properties,
    u.RemoveProperties: _remove_properties,
    u.SetStatistics: _set_statistics,
    u.RemoveStatistics: _remove_statistics,
    u.SetPartitionStatistics: _set_partition_statistics,
    u.RemovePartitionStatistics: _remove_partition_statistics,
}
