"""Find which partitions the snapshots of a branch have changed, whoever made them: other writers,
other streams, rollbacks.

The state of partition commit names the snapshot up to which the branch was looked at. Only
snapshots after that one are read, each once: its manifest list, and the manifests that it wrote.
Compaction (`replace`) changes no rows. A rollback takes back what the snapshots that it leaves had
changed, so their partitions are changed as well.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from frazil.commit.filtering import partitions_of
from frazil.commit.manifests import ADDED, DELETED
from frazil.errors import CorruptData, NoSuchFileError
from frazil.scan.manifests import manifests_of, read_manifest
from frazil.spec.manifest import DataFileContent, ManifestContent, ManifestFile
from frazil.spec.metadata import TableMetadata
from frazil.spec.partitioning import partition_key, plain_values
from frazil.spec.snapshot import Snapshot
from frazil.storage import Storage
from frazil.stream.partitions.fields import Partition, partition_of

log = logging.getLogger(__name__)
_COLUMNS = ("status", "snapshot_id", "content", "partition")
_MOST = 1024  # snapshots whose changes a reader keeps in memory, at most


@dataclass(frozen=True)
class PartitionChanges:
    """Name the partitions that one snapshot has changed. `all`: any partition may be, since a
    delete applies to all of them, or since the snapshot cannot be read."""

    partitions: frozenset[Partition] = frozenset()
    all: bool = False


@dataclass(frozen=True)
class Since:
    """Hold what happened on a branch since a snapshot: the snapshots that came, oldest first, and
    those that a rollback left. `gap`: some of them have expired, so nobody can tell what they
    changed."""

    new: tuple[Snapshot, ...] = ()
    left: tuple[Snapshot, ...] = ()
    gap: bool = False


def since(metadata: TableMetadata, head: Snapshot | None, looked_at: int) -> Since:
    """Find the snapshots between the one up to which a branch was looked at and its head."""
    new: list[Snapshot] = []
    for snapshot in metadata.ancestors(head):
        if snapshot.snapshot_id == looked_at:
            return Since(tuple(reversed(new)))
        new.append(snapshot)
    if new and new[-1].parent_snapshot_id == looked_at:
        return Since(tuple(reversed(new)))
    places = {s.snapshot_id: n for n, s in enumerate(new)}
    left: list[Snapshot] = []
    for snapshot in metadata.ancestors(metadata.snapshots.by_id(looked_at)):
        if snapshot.snapshot_id in places:
            return Since(tuple(reversed(new[: places[snapshot.snapshot_id]])), tuple(left))
        left.append(snapshot)
    return Since(gap=True)


@dataclass
class ChangeReader:
    """Read what snapshots have changed. Snapshots never change, so each is read once; the last ones
    read are kept.
    """

    changes_by_id: dict[int, PartitionChanges] = field(default_factory=dict)

    def of(self, snapshot: Snapshot, metadata: TableMetadata, storage: Storage) -> PartitionChanges:
        """Return the partitions that got data or lost rows in a snapshot."""
        if snapshot.operation == "replace":
            return PartitionChanges()
        changes = self.changes_by_id.get(snapshot.snapshot_id)
        if changes is None:
            try:
                changes = changes_in(snapshot, metadata, storage)
            except (CorruptData, NoSuchFileError) as error:
                log.warning(
                    "Snapshot %d cannot be read, so it may have changed any partition: %s",
                    snapshot.snapshot_id,
                    error,
                )
                changes = PartitionChanges(all=True)
            if len(self.changes_by_id) >= _MOST:
                self.changes_by_id.pop(next(iter(self.changes_by_id)), None)
            self.changes_by_id[snapshot.snapshot_id] = changes
        return changes


def changes_in(snapshot: Snapshot, metadata: TableMetadata, storage: Storage) -> PartitionChanges:
    """Read which partitions a snapshot has added data files or delete files to, and removed data
    files from.
    """
    partitions: set[Partition] = set()
    for manifest in manifests_of(metadata, snapshot, storage, keep=False):
        for spec_id, values, everywhere in _changed(manifest, snapshot, storage):
            if everywhere:
                return PartitionChanges(all=True)
            if values:
                partitions.add(partition_of(metadata, spec_id, values))
    return PartitionChanges(frozenset(partitions))


def _changed(
    manifest: ManifestFile, snapshot: Snapshot, storage: Storage
) -> Iterator[tuple[int, tuple[object, ...], bool]]:
    """Yield the partitions that the entries of one snapshot in a manifest name; True for an
    equality delete that applies everywhere.
    """
    if manifest.added_snapshot_id not in (None, snapshot.snapshot_id):
        return
    deletes = manifest.content == ManifestContent.DELETES
    if manifest.added_files_count == 0 and (deletes or manifest.deleted_files_count == 0):
        return
    table = read_manifest(storage, manifest, _COLUMNS, keep=False)
    status = table["status"]
    changed = pc.equal(status, int(ADDED))
    if not deletes:
        # delete files are also removed where they apply to nothing any more, which changes no rows
        changed = pc.or_(changed, pc.equal(status, int(DELETED)))
    table = table.filter(pc.and_(changed, pc.equal(table["snapshot_id"], snapshot.snapshot_id)))
    keys = {partition_key(manifest.partition_spec_id, values) for values in partitions_of(table)}
    if () in {values for _, values in keys} and deletes and _any_equality(table):
        yield manifest.partition_spec_id, (), True
    for key in keys:
        yield manifest.partition_spec_id, plain_values(key), False


def _any_equality(table: pa.Table) -> bool:
    return bool(np.any(table["content"].to_numpy() == int(DataFileContent.EQUALITY_DELETES)))
