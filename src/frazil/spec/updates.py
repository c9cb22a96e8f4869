"""Describe metadata updates and requirements, of which a commit consists (spec of the REST catalog,
"TableUpdate", "TableRequirement"); build and check the requirements (Java UpdateRequirements).

A REST catalog is sent these, under the names of the classes and fields (`codec.json_updates`);
every other catalog applies them with `commit.apply`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from frazil.errors import CommitFailedException
from frazil.spec.metadata import TableMetadata
from frazil.spec.partitioning import PartitionSpec
from frazil.spec.schema import Schema
from frazil.spec.snapshot import MAIN_BRANCH, Snapshot, SnapshotRef
from frazil.spec.sorting import SortOrder

LAST_ADDED = -1


class _Named:
    """Give each class the word of the REST protocol for it as its `kind`: its name in small letters
    with hyphens, where no other is given.
    """

    kind: ClassVar[str] = ""

    def __init_subclass__(cls, kind: str = ""):
        cls.kind = kind or re.sub("(?<=[a-z])(?=[A-Z])", "-", cls.__name__).lower()


@dataclass(frozen=True)
class Update(_Named):
    """Describe a change of the table's metadata. `kind` is the REST action."""


@dataclass(frozen=True)
class AssignUUID(Update):
    uuid: str


@dataclass(frozen=True)
class UpgradeFormatVersion(Update):
    format_version: int


@dataclass(frozen=True)
class AddSchema(Update):
    """Add a schema. Its id is used when it is free; an equal schema of the table is used again."""

    schema: Schema


@dataclass(frozen=True)
class SetCurrentSchema(Update):
    schema_id: int = LAST_ADDED


@dataclass(frozen=True)
class AddPartitionSpec(Update, kind="add-spec"):
    spec: PartitionSpec


@dataclass(frozen=True)
class SetDefaultSpec(Update):
    spec_id: int = LAST_ADDED


@dataclass(frozen=True)
class RemovePartitionSpecs(Update):
    spec_ids: tuple[int, ...]


@dataclass(frozen=True)
class RemoveSchemas(Update):
    schema_ids: tuple[int, ...]


@dataclass(frozen=True)
class AddSortOrder(Update):
    sort_order: SortOrder


@dataclass(frozen=True)
class SetDefaultSortOrder(Update):
    sort_order_id: int = LAST_ADDED


@dataclass(frozen=True)
class AddSnapshot(Update):
    snapshot: Snapshot


@dataclass(frozen=True)
class SetSnapshotRef(Update):
    ref_name: str
    ref: SnapshotRef


@dataclass(frozen=True)
class RemoveSnapshots(Update):
    snapshot_ids: tuple[int, ...]


@dataclass(frozen=True)
class RemoveSnapshotRef(Update):
    ref_name: str


@dataclass(frozen=True)
class SetLocation(Update):
    location: str


@dataclass(frozen=True)
class SetProperties(Update):
    updates: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class RemoveProperties(Update):
    removals: tuple[str, ...] = ()


@dataclass(frozen=True)
class SetStatistics(Update):
    """Set the statistics file of a snapshot. `statistics`: the JSON object of the spec, with its
    snapshot-id.
    """

    statistics: dict[str, Any]


@dataclass(frozen=True)
class RemoveStatistics(Update):
    snapshot_id: int


@dataclass(frozen=True)
class SetPartitionStatistics(Update):
    partition_statistics: dict[str, Any]


@dataclass(frozen=True)
class RemovePartitionStatistics(Update):
    snapshot_id: int


@dataclass(frozen=True)
class Requirement(_Named):
    """Describe a condition on the table's metadata at the moment of the swap. `kind` is the REST
    type.
    """


@dataclass(frozen=True)
class AssertCreate(Requirement):
    """Require that the table does not exist."""


@dataclass(frozen=True)
class AssertTableUUID(Requirement):
    uuid: str


@dataclass(frozen=True)
class AssertRefSnapshotId(Requirement):
    """Require that a branch or tag points to a snapshot. `snapshot_id` None: the ref must not
    exist.
    """

    ref: str
    snapshot_id: int | None


@dataclass(frozen=True)
class AssertLastAssignedFieldId(Requirement):
    last_assigned_field_id: int


@dataclass(frozen=True)
class AssertCurrentSchemaId(Requirement):
    current_schema_id: int


@dataclass(frozen=True)
class AssertLastAssignedPartitionId(Requirement):
    last_assigned_partition_id: int


@dataclass(frozen=True)
class AssertDefaultSpecId(Requirement):
    default_spec_id: int


@dataclass(frozen=True)
class AssertDefaultSortOrderId(Requirement):
    default_sort_order_id: int


def requirements_for(
    base: TableMetadata | None, updates: Sequence[Update], *, replace: bool = False
) -> tuple[Requirement, ...]:
    """Return the requirements under which `updates`, made on `base`, may be applied; base None: the
    table must not exist.

    `replace`: a table that is replaced may have changed refs and defaults, but field ids must not
    be assigned twice.
    """
    if base is None:
        return (AssertCreate(),)
    requirements: dict[Requirement, None] = {}
    if base.table_uuid is not None:
        requirements[AssertTableUUID(base.table_uuid)] = None
    seen: set[str] = set()
    for update in updates:
        for requirement in _requirements_of_update(base, update, replace, seen):
            requirements.setdefault(requirement)
    return tuple(requirements)


def _requirements_of_update(
    base: TableMetadata, update: Update, replace: bool, seen: set[str]
) -> list[Requirement]:
    match update:
        case AddSchema():
            return [AssertLastAssignedFieldId(base.last_column_id)]
        case AddPartitionSpec():
            return [AssertLastAssignedPartitionId(base.last_partition_id)]
        case _ if replace:
            return []
        case SetSnapshotRef(ref_name=name) | RemoveSnapshotRef(ref_name=name):
            first = name not in seen
            seen.add(name)
            return [AssertRefSnapshotId(name, _head(base, name))] if first else []
        case SetCurrentSchema():
            return [AssertCurrentSchemaId(base.current_schema_id)]
        case SetDefaultSpec():
            return [AssertDefaultSpecId(base.default_spec_id)]
        case SetDefaultSortOrder():
            return [AssertDefaultSortOrderId(base.default_sort_order_id)]
        case RemovePartitionSpecs():
            return [AssertDefaultSpecId(base.default_spec_id), *_branches(base)]
        case RemoveSchemas():
            return [AssertCurrentSchemaId(base.current_schema_id), *_branches(base)]
    return []


def _head(base: TableMetadata, name: str) -> int | None:
    ref = base.refs.get(name)
    if ref is None and name == MAIN_BRANCH:
        return base.current_snapshot_id
    return None if ref is None else ref.snapshot_id


def _branches(base: TableMetadata) -> list[Requirement]:
    """Require that no branch has moved: a new snapshot could need the spec or schema that is
    removed.
    """
    return [AssertRefSnapshotId(n, r.snapshot_id) for n, r in base.refs.items() if r.is_branch]


def check_requirements(metadata: TableMetadata | None, requirements: Iterable[Requirement]) -> None:
    """Raise CommitFailedException (nothing applied, retryable) for the first condition that does
    not hold.
    """
    for requirement in requirements:
        if why := _broken(metadata, requirement):
            raise CommitFailedException(
                f"Requirement failed: {why}", table=metadata.location if metadata else None
            )


def _broken(md: TableMetadata | None, requirement: Requirement) -> str | None:
    if isinstance(requirement, AssertCreate):
        return None if md is None else "table already exists"
    if md is None:
        return "current table metadata is missing"
    match requirement:
        case AssertTableUUID(uuid=wanted):
            return _unlike("UUID does not match", wanted, md.table_uuid)
        case AssertRefSnapshotId(ref=name, snapshot_id=wanted_id):
            return _unlike(f"branch or tag {name} has changed", wanted_id, _head(md, name))
        case AssertLastAssignedFieldId(last_assigned_field_id=n):
            return _unlike("last assigned field id changed", n, md.last_column_id)
        case AssertCurrentSchemaId(current_schema_id=n):
            return _unlike("current schema changed", n, md.current_schema_id)
        case AssertLastAssignedPartitionId(last_assigned_partition_id=n):
            return _unlike("last assigned partition id changed", n, md.last_partition_id)
        case AssertDefaultSpecId(default_spec_id=n):
            return _unlike("default partition spec changed", n, md.default_spec_id)
        case AssertDefaultSortOrderId(default_sort_order_id=n):
            return _unlike("default sort order changed", n, md.default_sort_order_id)
    return f"unknown requirement {requirement.kind}"


def _unlike(noun: str, expected: object, actual: object) -> str | None:
    return None if expected == actual else f"{noun}: expected {expected} != {actual}"
