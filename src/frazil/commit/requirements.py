"""Build and check the requirements of a commit: what must still hold when it swaps the table
metadata (REST catalog spec, "TableRequirement"; Java UpdateRequirements)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from frazil.errors import CommitFailedException
from frazil.spec import updates as u
from frazil.spec.metadata import TableMetadata
from frazil.spec.snapshot import MAIN_BRANCH


def requirements_for(
    base: TableMetadata | None, updates: Sequence[u.Update], *, replace: bool = False
) -> tuple[u.Requirement, ...]:
    """Return the requirements under which `updates`, made on `base`, may be applied; base None: the
    table must not exist.

    `replace`: a table that is replaced may have changed refs and defaults, but field ids must not
    be assigned twice.
    """
    if base is None:
        return (u.AssertCreate(),)
    requirements: dict[u.Requirement, None] = {}
    if base.table_uuid is not None:
        requirements[u.AssertTableUUID(base.table_uuid)] = None
    seen: set[str] = set()
    for update in updates:
        for requirement in _requirements_of_update(base, update, replace, seen):
            requirements.setdefault(requirement)
    return tuple(requirements)


def _requirements_of_update(
    base: TableMetadata, update: u.Update, replace: bool, seen: set[str]
) -> list[u.Requirement]:
    match update:
        case u.AddSchema():
            return [u.AssertLastAssignedFieldId(base.last_column_id)]
        case u.AddPartitionSpec():
            return [u.AssertLastAssignedPartitionId(base.last_partition_id)]
        case _ if replace:
            return []
        case u.SetSnapshotRef(ref_name=name) | u.RemoveSnapshotRef(ref_name=name):
            first = name not in seen
            seen.add(name)
            return [u.AssertRefSnapshotId(name, _head(base, name))] if first else []
        case u.SetCurrentSchema():
            return [u.AssertCurrentSchemaId(base.current_schema_id)]
        case u.SetDefaultSpec():
            return [u.AssertDefaultSpecId(base.default_spec_id)]
        case u.SetDefaultSortOrder():
            return [u.AssertDefaultSortOrderId(base.default_sort_order_id)]
        case u.RemovePartitionSpecs():
            return [u.AssertDefaultSpecId(base.default_spec_id), *_branches(base)]
        case u.RemoveSchemas():
            return [u.AssertCurrentSchemaId(base.current_schema_id), *_branches(base)]
    return []


def _head(base: TableMetadata, name: str) -> int | None:
    ref = base.refs.get(name)
    if ref is None and name == MAIN_BRANCH:
        return base.current_snapshot_id
    return None if ref is None else ref.snapshot_id


def _branches(base: TableMetadata) -> list[u.Requirement]:
    """Require that no branch has moved: a new snapshot could need the spec or schema that is
    removed.
    """
    return [u.AssertRefSnapshotId(n, r.snapshot_id) for n, r in base.refs.items() if r.is_branch]


def check_requirements(
    metadata: TableMetadata | None, requirements: Iterable[u.Requirement]
) -> None:
    """Raise CommitFailedException (nothing applied, retryable) for the first condition that does
    not hold.
    """
    for requirement in requirements:
        if why := _broken(metadata, requirement):
            raise CommitFailedException(
                f"Requirement failed: {why}", table=metadata.location if metadata else None
            )


def _broken(md: TableMetadata | None, requirement: u.Requirement) -> str | None:
    if isinstance(requirement, u.AssertCreate):
        return None if md is None else "table already exists"
    if md is None:
        return "current table metadata is missing"
    match requirement:
        case u.AssertTableUUID(uuid=wanted):
            return _unlike("UUID does not match", wanted, md.table_uuid)
        case u.AssertRefSnapshotId(ref=name, snapshot_id=wanted_id):
            return _unlike(f"branch or tag {name} has changed", wanted_id, _head(md, name))
        case u.AssertLastAssignedFieldId(last_assigned_field_id=n):
            return _unlike("last assigned field id changed", n, md.last_column_id)
        case u.AssertCurrentSchemaId(current_schema_id=n):
            return _unlike("current schema changed", n, md.current_schema_id)
        case u.AssertLastAssignedPartitionId(last_assigned_partition_id=n):
            return _unlike("last assigned partition id changed", n, md.last_partition_id)
        case u.AssertDefaultSpecId(default_spec_id=n):
            return _unlike("default partition spec changed", n, md.default_spec_id)
        case u.AssertDefaultSortOrderId(default_sort_order_id=n):
            return _unlike("default sort order changed", n, md.default_sort_order_id)
    return f"unknown requirement {requirement.kind}"


def _unlike(noun: str, expected: object, actual: object) -> str | None:
    return None if expected == actual else f"{noun}: expected {expected} != {actual}"
