"""Apply the change of a snapshot again on top of main, to publish a staged (WAP) snapshot (Java
CherryPickOperation).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa
import pyarrow.compute as pc

from frazil.codec.manifest import entries_from_table
from frazil.commit.actions import NotYetThere
from frazil.commit.context import Context
from frazil.commit.filtering import Removal
from frazil.commit.manifests import ADDED, DELETED
from frazil.commit.produce import Change, SnapshotTarget, produce
from frazil.errors import ValidationException
from frazil.scan.manifests import manifests_of, read_manifest
from frazil.spec.manifest import DataFile, ManifestContent, ManifestEntry
from frazil.spec.metadata import TableMetadata
from frazil.spec.partitioning import partition_key, plain_values
from frazil.spec.snapshot import MAIN_BRANCH, Snapshot, SnapshotRef
from frazil.spec.updates import SetSnapshotRef, Update
from frazil.storage import normalise
from frazil.storage.base import Storage


def changes_of(
    snapshot: Snapshot, metadata: TableMetadata, storage: Storage
) -> Iterator[ManifestEntry]:
    """Yield the entries of the data files that the snapshot itself added or removed."""
    for manifest in manifests_of(metadata, snapshot, storage):
        if (
            manifest.content != ManifestContent.DATA
            or manifest.added_snapshot_id != snapshot.snapshot_id
        ):
            continue
        table = read_manifest(storage, manifest)
        changed = pc.is_in(
            table["status"], value_set=pa.array([int(ADDED), int(DELETED)], pa.int32())
        )
        own = pc.and_(pc.equal(table["snapshot_id"], snapshot.snapshot_id), changed)
        yield from entries_from_table(
            table.filter(own), metadata.spec_by_id(manifest.partition_spec_id)
        )


def check_not_published(metadata: TableMetadata, wap_id: str) -> None:
    """Raise ValidationException when an ancestor of main was staged or published under this WAP id."""
    for s in metadata.ancestors(metadata.current_snapshot()):
        if wap_id in (s.summary.get("wap.id"), s.summary.get("published-wap-id")):
            raise ValidationException(
                f"Duplicate request to cherry pick wap id that was published already: {wap_id}",
                table=metadata.location,
                snapshot_id=s.snapshot_id,
            )


@dataclass(frozen=True)
class CherryPick:
    """Pick an append, a dynamic overwrite of partitions that did not change since, or a snapshot to
    which main can be fast-forwarded.

    Raises ValidationException for any other snapshot.
    """

    snapshot_id: int
    snapshot_properties: dict[str, str] = field(default_factory=dict)

    def apply(self, metadata: TableMetadata, context: Context) -> Sequence[Update]:
        picked = metadata.snapshots.by_id(self.snapshot_id)
        if picked is None:
            raise ValidationException(
                f"Cannot cherry-pick unknown snapshot ID: {self.snapshot_id}",
                table=metadata.location,
            )
        wap_id = picked.summary.get("wap.id")
        replaces = (
            picked.operation == "overwrite"
            and picked.summary.get("replace-partitions", "").lower() == "true"
        )
        if picked.parent_snapshot_id == metadata.current_snapshot_id:
            if wap_id and (picked.operation == "append" or replaces):  # a WAP id is published once
                check_not_published(metadata, wap_id)
            return self._fast_forward(metadata)
        if picked.operation != "append" and not replaces:
            raise ValidationException(
                f"Cannot cherry-pick snapshot {self.snapshot_id}: not append, dynamic overwrite, or fast-forward",
                table=metadata.location,
                snapshot_id=self.snapshot_id,
            )
        self._check_new(metadata)
        properties = {**self.snapshot_properties, "source-snapshot-id": str(self.snapshot_id)}
        if wap_id:
            check_not_published(metadata, wap_id)
            properties["published-wap-id"] = wap_id
        entries = list(changes_of(picked, metadata, context.storage))
        added = [e.data_file for e in entries if e.status == ADDED]
        removal = Removal()
        if replaces:
            self._check_partitions(picked, added, metadata, context)
            removal = Removal(
                tuple(e.data_file for e in entries if e.status == DELETED), required=True
            )
        # the snapshot that an earlier pick made may have expired, and with it what tells that it
        # was picked
        NotYetThere(frozenset(normalise(f.file_path) for f in added), MAIN_BRANCH).apply(
            metadata, context
        )
        change = Change(
            str(picked.operation),
            added=added,
            removal=removal,
            properties=properties,
            even_if_empty=True,
        )
        return produce(change, SnapshotTarget(MAIN_BRANCH), metadata, context)

    def _fast_forward(self, metadata: TableMetadata) -> Sequence[Update]:
        held = metadata.refs.get(MAIN_BRANCH)
        ref = (
            SnapshotRef(self.snapshot_id)
            if held is None
            else replace(held, snapshot_id=self.snapshot_id)
        )
        return [SetSnapshotRef(MAIN_BRANCH, ref)]

    def _check_new(self, metadata: TableMetadata) -> None:
        for s in metadata.ancestors(metadata.current_snapshot()):
            if s.snapshot_id == self.snapshot_id:
                text = f"Cannot cherrypick snapshot {self.snapshot_id}: already an ancestor"
                raise ValidationException(text, snapshot_id=self.snapshot_id)
            if s.summary.get("source-snapshot-id") == str(self.snapshot_id):
                raise ValidationException(
                    f"Cannot cherrypick snapshot {self.snapshot_id}: already picked to create ancestor {s.snapshot_id}",
                    snapshot_id=self.snapshot_id,
                )

    def _check_partitions(
        self, picked: Snapshot, added: Sequence[DataFile], metadata: TableMetadata, context: Context
    ) -> None:
        """Check that nothing was added since to the partitions that the picked snapshot replaced."""
        parent_id = picked.parent_snapshot_id
        ancestors = list(metadata.ancestors(metadata.current_snapshot()))
        if parent_id is not None and all(
            ancestor.snapshot_id != parent_id for ancestor in ancestors
        ):
            raise ValidationException(
                f"Cannot cherry-pick overwrite not based on an ancestor of the current state: {self.snapshot_id}",
                snapshot_id=self.snapshot_id,
            )
        replaced = {partition_key(f.spec_id, f.partition) for f in added}
        for ancestor in ancestors:
            if ancestor.snapshot_id == parent_id:
                return
            for entry in changes_of(ancestor, metadata, context.storage):
                key = partition_key(entry.data_file.spec_id, entry.data_file.partition)
                if entry.status == ADDED and key in replaced:
                    raise ValidationException(
                        f"Cannot cherry-pick replace partitions with changed partition: {plain_values(key)}",
                        snapshot_id=self.snapshot_id,
                    )
