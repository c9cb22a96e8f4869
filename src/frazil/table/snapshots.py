"""Provide snapshots by PyIceberg's path: `from frazil.table.snapshots import Operation, Snapshot,
Summary`.
"""

from frazil.spec.snapshot import (
    MetadataLogEntry,
    Snapshot,
    SnapshotLogEntry,
    SnapshotOperation,
    Summary,
)

Operation = SnapshotOperation

__all__ = ["MetadataLogEntry", "Operation", "Snapshot", "SnapshotLogEntry", "Summary"]
