"""Provide updates of tables by PyIceberg's path: the builders `UpdateSchema`, `UpdateSpec`, …, and
the requirements of a commit.
"""

from frazil.commit.evolve.evolve_spec import UpdateSortOrder, UpdateSpec
from frazil.commit.evolve.manage_snapshots import ManageSnapshots, UpdateStatistics
from frazil.spec.updates import (
    AssertCreate,
    AssertCurrentSchemaId,
    AssertDefaultSortOrderId,
    AssertDefaultSpecId,
    AssertLastAssignedFieldId,
    AssertLastAssignedPartitionId,
    AssertRefSnapshotId,
    AssertTableUUID,
)
from frazil.table.evolve import UpdateSchema, UpdateSnapshot

__all__ = [
    "AssertCreate",
    "AssertCurrentSchemaId",
    "AssertDefaultSortOrderId",
    "AssertDefaultSpecId",
    "AssertLastAssignedFieldId",
    "AssertLastAssignedPartitionId",
    "AssertRefSnapshotId",
    "AssertTableUUID",
    "ManageSnapshots",
    "UpdateSchema",
    "UpdateSnapshot",
    "UpdateSortOrder",
    "UpdateSpec",
    "UpdateStatistics",
]
