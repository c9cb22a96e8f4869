"""Describe metadata updates and requirements, of which a commit consists (spec of the REST catalog,
"TableUpdate", "TableRequirement").

`kind` is the REST action. A REST catalog is sent these; every other catalog applies them with
`commit.apply`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

from frazil.spec.partitioning import PartitionSpec
from frazil.spec.schema import Schema
from frazil.spec.snapshot import Snapshot, SnapshotRef
from frazil.spec.sorting import SortOrder

LAST_ADDED = -1


@dataclass(frozen=True)
class Update:
    kind: ClassVar[str] = ""


@dataclass(frozen=True)
class AssignUUID(Update):
    uuid: str
    kind: ClassVar[str] = "assign-uuid"


@dataclass(frozen=True)
class UpgradeFormatVersion(Update):
    format_version: int
    kind: ClassVar[str] = "upgrade-format-version"


@dataclass(frozen=True)
class AddSchema(Update):
    """Add a schema. Its id is used when it is free; an equal schema of the table is used again."""

    schema: Schema
    kind: ClassVar[str] = "add-schema"


@dataclass(frozen=True)
class SetCurrentSchema(Update):
    schema_id: int = LAST_ADDED
    kind: ClassVar[str] = "set-current-schema"


@dataclass(frozen=True)
class AddPartitionSpec(Update):
    spec: PartitionSpec
    kind: ClassVar[str] = "add-spec"


@dataclass(frozen=True)
class SetDefaultSpec(Update):
    spec_id: int = LAST_ADDED
    kind: ClassVar[str] = "set-default-spec"


@dataclass(frozen=True)
class RemovePartitionSpecs(Update):
    spec_ids: tuple[int, ...]
    kind: ClassVar[str] = "remove-partition-specs"


@dataclass(frozen=True)
class RemoveSchemas(Update):
    schema_ids: tuple[int, ...]
    kind: ClassVar[str] = "remove-schemas"


@dataclass(frozen=True)
class AddSortOrder(Update):
    sort_order: SortOrder
    kind: ClassVar[str] = "add-sort-order"


@dataclass(frozen=True)
class SetDefaultSortOrder(Update):
    sort_order_id: int = LAST_ADDED
    kind: ClassVar[str] = "set-default-sort-order"


@dataclass(frozen=True)
class AddSnapshot(Update):
    snapshot: Snapshot
    kind: ClassVar[str] = "add-snapshot"


@dataclass(frozen=True)
class SetSnapshotRef(Update):
    ref_name: str
    ref: SnapshotRef
    kind: ClassVar[str] = "set-snapshot-ref"


@dataclass(frozen=True)
class RemoveSnapshots(Update):
    snapshot_ids: tuple[int, ...]
    kind: ClassVar[str] = "remove-snapshots"


@dataclass(frozen=True)
class RemoveSnapshotRef(Update):
    ref_name: str
    kind: ClassVar[str] = "remove-snapshot-ref"


@dataclass(frozen=True)
class SetLocation(Update):
    location: str
    kind: ClassVar[str] = "set-location"


@dataclass(frozen=True)
class SetProperties(Update):
    updates: dict[str, str] = field(default_factory=dict)
    kind: ClassVar[str] = "set-properties"


@dataclass(frozen=True)
class RemoveProperties(Update):
    removals: tuple[str, ...] = ()
    kind: ClassVar[str] = "remove-properties"


@dataclass(frozen=True)
class SetStatistics(Update):
    """Set the statistics file of a snapshot. `statistics`: the JSON object of the spec, with its
    snapshot-id.
    """

    statistics: dict[str, Any]
    kind: ClassVar[str] = "set-statistics"


@dataclass(frozen=True)
class RemoveStatistics(Update):
    snapshot_id: int
    kind: ClassVar[str] = "remove-statistics"


@dataclass(frozen=True)
class SetPartitionStatistics(Update):
    partition_statistics: dict[str, Any]
    kind: ClassVar[str] = "set-partition-statistics"


@dataclass(frozen=True)
class RemovePartitionStatistics(Update):
    snapshot_id: int
    kind: ClassVar[str] = "remove-partition-statistics"


@dataclass(frozen=True)
class Requirement:
    """Describe a condition on the table's metadata at the moment of the swap. `kind` is the REST
    type.
    """

    kind: ClassVar[str] = ""


@dataclass(frozen=True)
class AssertCreate(Requirement):
    kind: ClassVar[str] = "assert-create"


@dataclass(frozen=True)
class AssertTableUUID(Requirement):
    uuid: str
    kind: ClassVar[str] = "assert-table-uuid"


@dataclass(frozen=True)
class AssertRefSnapshotId(Requirement):
    """Require that a branch or tag points to a snapshot. `snapshot_id` None: the ref must not
    exist.
    """

    ref: str
    snapshot_id: int | None
    kind: ClassVar[str] = "assert-ref-snapshot-id"


@dataclass(frozen=True)
class AssertLastAssignedFieldId(Requirement):
    last_assigned_field_id: int
    kind: ClassVar[str] = "assert-last-assigned-field-id"


@dataclass(frozen=True)
class AssertCurrentSchemaId(Requirement):
    current_schema_id: int
    kind: ClassVar[str] = "assert-current-schema-id"


@dataclass(frozen=True)
class AssertLastAssignedPartitionId(Requirement):
    last_assigned_partition_id: int
    kind: ClassVar[str] = "assert-last-assigned-partition-id"


@dataclass(frozen=True)
class AssertDefaultSpecId(Requirement):
    default_spec_id: int
    kind: ClassVar[str] = "assert-default-spec-id"


@dataclass(frozen=True)
class AssertDefaultSortOrderId(Requirement):
    default_sort_order_id: int
    kind: ClassVar[str] = "assert-default-sort-order-id"
