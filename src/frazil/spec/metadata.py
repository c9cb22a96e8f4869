"""Hold table metadata, the root of a table's state (spec, "Table Metadata"): immutable, changed by
`commit.apply` only.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from frazil.errors import InvalidInput, NoSuchRefError, NoSuchSnapshotError, ValidationError
from frazil.spec.partitioning import PartitionSpec
from frazil.spec.schema import Schema
from frazil.spec.shown import listed, shortened, time_text
from frazil.spec.snapshot import (
    MAIN_BRANCH,
    MetadataLogEntry,
    Snapshot,
    SnapshotLogEntry,
    SnapshotRef,
    Snapshots,
)
from frazil.spec.sorting import UNSORTED_SORT_ORDER, SortOrder

SUPPORTED_FORMAT_VERSION = 3
DEFAULT_FORMAT_VERSION = 2


@dataclass(frozen=True, kw_only=True)
class TableMetadata:
    """Hold the metadata of a table, under the names of the spec's JSON.

    `format_version`: 1, 2 or 3. `table_uuid`: None in some tables of format version 1. `location`:
    the directory of its files. `properties`: texts by name. `last_updated_ms`: milliseconds since
    1970. `last_column_id`, `last_partition_id`: the highest ids that were ever given. `…_id` names
    the current one of `schemas`, `partition_specs`, `sort_orders`; `current_snapshot_id` is None
    without a snapshot. `last_sequence_number`: that of the newest snapshot, 0 in v1. `next_row_id`:
    None before v3. `snapshots`: all that are kept; `refs`: branches and tags by name.
    `snapshot_log`, `metadata_log`: which snapshot was current when, and earlier metadata files,
    oldest first. `statistics`, `partition_statistics` and `encryption_keys` are JSON objects as in
    the spec. `extra` holds unknown JSON keys.
    """

    format_version: int
    table_uuid: str | None
    location: str
    last_updated_ms: int
    last_column_id: int
    schemas: tuple[Schema, ...]
    current_schema_id: int = 0
    partition_specs: tuple[PartitionSpec, ...] = (PartitionSpec(),)
    default_spec_id: int = 0
    last_partition_id: int = 999
    sort_orders: tuple[SortOrder, ...] = (UNSORTED_SORT_ORDER,)
    default_sort_order_id: int = 0
    properties: dict[str, str] = field(default_factory=dict)
    last_sequence_number: int = 0
    current_snapshot_id: int | None = None
    next_row_id: int | None = None
    encryption_keys: tuple[dict[str, Any], ...] = ()
    refs: dict[str, SnapshotRef] = field(default_factory=dict)
    snapshots: Snapshots = field(default_factory=Snapshots)
    statistics: tuple[dict[str, Any], ...] = ()
    partition_statistics: tuple[dict[str, Any], ...] = ()
    snapshot_log: tuple[SnapshotLogEntry, ...] = ()
    metadata_log: tuple[MetadataLogEntry, ...] = ()
    extra: dict[str, Any] = field(default_factory=dict, repr=False)

    def __repr__(self) -> str:
        """Show the table's state without its history; each part is an attribute."""
        schema = next((s for s in self.schemas if s.schema_id == self.current_schema_id), None)
        snapshot = self.current_snapshot()
        lines = [
            f"TableMetadata(format_version={self.format_version}, table_uuid={self.table_uuid!r}",
            f"  location: {shortened(self.location, 200)}",
            f"  last updated: {time_text(self.last_updated_ms)}, last sequence number: {self.last_sequence_number}",
            f"  columns: {listed(f'{f.name} {shortened(f.field_type, 40)}' for f in schema.fields) if schema else 'unknown'}",
            f"  {len(self.schemas)} schemas, {len(self.partition_specs)} partition specs, {len(self.sort_orders)} sort orders; current: "
            f"schema {self.current_schema_id}, partition spec {self.default_spec_id}, sort order {self.default_sort_order_id}",
            f"  {len(self.snapshots)} snapshots; current: {f'{time_text(snapshot.timestamp_ms)}  {snapshot}' if snapshot else 'none'}",
            f"  refs: {listed(self.refs) or 'none'}",
            f"  properties: {listed((f'{k}={shortened(v, 60)}' for k, v in self.properties.items()), 300) or 'none'}",
            f"  {len(self.snapshot_log)} entries in the snapshot log, {len(self.metadata_log)} in the metadata log)",
        ]
        return "\n".join(lines)

    def schema(self) -> Schema:
        """Return the current schema."""
        return self.schema_by_id(self.current_schema_id)

    def schema_by_id(self, schema_id: int) -> Schema:
        """Return the schema with that id. Raises ValidationError when there is none."""
        for s in self.schemas:
            if s.schema_id == schema_id:
                return s
        raise ValidationError(
            f"Schema {schema_id} is not in the metadata of {self.location}.", table=self.location
        )

    def spec(self) -> PartitionSpec:
        """Return the default partition spec."""
        return self.spec_by_id(self.default_spec_id)

    def spec_by_id(self, spec_id: int) -> PartitionSpec:
        """Return the partition spec with that id. Raises ValidationError when there is none."""
        for s in self.partition_specs:
            if s.spec_id == spec_id:
                return s
        raise ValidationError(
            f"Partition spec {spec_id} is not in the metadata of {self.location}.",
            table=self.location,
        )

    def sort_order(self) -> SortOrder:
        """Return the default sort order."""
        return self.sort_order_by_id(self.default_sort_order_id)

    def sort_order_by_id(self, order_id: int) -> SortOrder:
        """Return the sort order with that id; 0: unsorted. Raises ValidationError when there is
        none."""
        for s in self.sort_orders:
            if s.order_id == order_id:
                return s
        if order_id == 0:
            return UNSORTED_SORT_ORDER
        raise ValidationError(
            f"Sort order {order_id} is not in the metadata of {self.location}.", table=self.location
        )

    def current_snapshot(self) -> Snapshot | None:
        """Return the current snapshot, that of main; None: the table has none."""
        return self.snapshots.by_id(self.current_snapshot_id)

    def snapshot_by_id(self, snapshot_id: int) -> Snapshot:
        """Return the snapshot with that id. Raises NoSuchSnapshotError when it is not retained."""
        if snapshot := self.snapshots.by_id(snapshot_id):
            return snapshot
        raise NoSuchSnapshotError(
            f"Cannot find snapshot with ID {snapshot_id} in table {self.location}.",
            hint="It may have expired; t.history() lists those that are left.",
            table=self.location,
            snapshot_id=snapshot_id,
        )

    def ref(self, name: str) -> SnapshotRef:
        """Return the branch or tag of that name; `main` exists as soon as there is a snapshot.
        Raises NoSuchRefError.
        """
        if ref := self.refs.get(name):
            return ref
        if name == MAIN_BRANCH and self.current_snapshot_id is not None:
            return SnapshotRef(self.current_snapshot_id)
        names = ", ".join(self.refs) or "none"
        raise NoSuchRefError(
            f"Cannot find branch or tag {name!r} in table {self.location}; known: {names}.",
            table=self.location,
        )

    def ref_snapshot(self, name: str | None) -> Snapshot | None:
        """Return the head snapshot of a branch or tag; None for a `main` without snapshot (and for
        None).
        """
        if name is None or (name == MAIN_BRANCH and self.current_snapshot_id is None):
            return None
        return self.snapshot_by_id(self.ref(name).snapshot_id)

    def branch_head(self, branch: str) -> Snapshot | None:
        """Return the head of a branch, or of main for a branch that does not exist yet; None for a
        table without snapshots.
        """
        ref = self.refs.get(branch)
        return self.current_snapshot() if ref is None else self.snapshot_by_id(ref.snapshot_id)

    def existing_branch_head(self, branch: str) -> Snapshot | None:
        """Return the head of a branch that exists; None for `main` without snapshots. Raises
        NoSuchRefError, and InvalidInput for a tag.
        """
        if branch == MAIN_BRANCH:
            return self.current_snapshot()
        ref = self.ref(branch)
        if not ref.is_branch:
            text = f"Cannot use {branch!r} as a branch: it is a tag of table {self.location}."
            raise InvalidInput(
                text,
                hint=f"tag={branch} reads it; a tag does not move.",
                table=self.location,
                ref=branch,
            )
        return self.snapshot_by_id(ref.snapshot_id)

    def ancestors(self, snapshot: Snapshot | None) -> Iterator[Snapshot]:
        """Yield a snapshot and its ancestors, newest first, as far as they are retained."""
        seen: set[int] = set()
        while snapshot is not None and snapshot.snapshot_id not in seen:
            seen.add(snapshot.snapshot_id)
            yield snapshot
            snapshot = self.snapshots.by_id(snapshot.parent_snapshot_id)

    def is_ancestor(self, snapshot_id: int, snapshot: Snapshot | None) -> bool:
        """Tell whether the id is that of `snapshot` or of one of its retained ancestors."""
        return any(s.snapshot_id == snapshot_id for s in self.ancestors(snapshot))

    def snapshot_as_of(self, timestamp_ms: int, inclusive: bool = True) -> Snapshot | None:
        """Return the snapshot that was current at a time, by the snapshot log (spec, "Point in Time
        Reads"); None before the first.
        """
        snapshot_id = None
        for entry in self.snapshot_log:
            if entry.timestamp_ms < timestamp_ms or (
                inclusive and entry.timestamp_ms == timestamp_ms
            ):
                snapshot_id = entry.snapshot_id
        return None if snapshot_id is None else self.snapshot_by_id(snapshot_id)


def schema_of_spec(metadata: TableMetadata, spec: PartitionSpec) -> Schema:
    """Return the current schema with the dropped columns that an old spec partitions by, each as in
    the newest schema that has it.
    """
    schema = metadata.schema()
    sources = dict.fromkeys(f.source_id for f in spec.fields)
    missing = [i for i in sources if i not in schema.by_id]
    if not missing:
        return schema
    older = sorted(metadata.schemas, key=lambda s: -s.schema_id)
    dropped = [next((s.by_id[i] for s in older if i in s.by_id), None) for i in missing]
    return Schema(
        *schema.fields, *(f for f in dropped if f is not None), schema_id=schema.schema_id
    )
