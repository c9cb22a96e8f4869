"""Provide branches and tags by PyIceberg's path: `from frazil.table.refs import SnapshotRef,
SnapshotRefType`.
"""

from frazil.spec.snapshot import MAIN_BRANCH, SnapshotRef, SnapshotRefType

__all__ = ["MAIN_BRANCH", "SnapshotRef", "SnapshotRefType"]
