"""Read what concurrent commits added to and removed from a branch since a commit's start (Java
MergingSnapshotProducer).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from frazil.commit.manifests import ADDED, DELETED
from frazil.commit.matching import TRUE, file_outcomes, manifests_that_may_match
from frazil.errors import ValidationException
from frazil.expr.nodes import AlwaysTrue, Predicate
from frazil.scan.manifests import live, manifests_of, read_manifest
from frazil.scan.summaries import manifests_that_may_hold
from frazil.spec.manifest import ManifestContent, ManifestFile
from frazil.spec.metadata import TableMetadata
from frazil.spec.partitioning import PartitionKey
from frazil.spec.snapshot import Snapshot
from frazil.storage.base import Storage

ADD_FILES = frozenset({"append", "overwrite"})
REMOVE_FILES = frozenset({"overwrite", "replace", "delete"})
REMOVE_FILES_BUT_DELETES = frozenset({"overwrite", "replace"})
ADD_DELETE_FILES = frozenset({"overwrite", "delete"})
ADD_VECTORS = frozenset({"overwrite", "delete", "replace"})
ANY = frozenset({"append", "overwrite", "delete", "replace"})
_SHOWN = 10
SAME_ROWS = "frazil.same-rows"
"""Entry of the summary of an "overwrite" that changes no row, so that nobody takes it for a change
of the table.
"""
ManifestWithEntries = tuple[ManifestFile, pa.Table]
Flags = npt.NDArray[np.bool_]


def holds_the_same_rows(snapshot: Snapshot) -> bool:
    """Tell whether a snapshot holds the same rows as its parent, as maintenance leaves them. The
    conversion of equality deletes is an "overwrite", but marked."""
    return snapshot.operation == "replace" or snapshot.summary.get(SAME_ROWS) == "true"


@dataclass(frozen=True)
class History:
    """Hold the snapshots after `start` (None: all) up to the branch head `parent`, without those of
    this commit itself (`own`). `only_rows`: also without those that hold the same rows as their
    parents."""

    metadata: TableMetadata
    storage: Storage
    parent: Snapshot | None
    start: int | None
    case_sensitive: bool = True
    zone: str = "UTC"
    own: frozenset[int] = frozenset()
    only_rows: bool = False

    @cached_property
    def snapshots(self) -> tuple[Snapshot, ...]:
        """List the snapshots, newest first. Raises ValidationException when the start is not an
        ancestor, or snapshots in between have expired."""
        later: list[Snapshot] = []
        last: Snapshot | None = None
        for s in self.metadata.ancestors(self.parent):
            if s.snapshot_id == self.start:
                return tuple(later)
            last = s
            if s.snapshot_id not in self.own and not (self.only_rows and holds_the_same_rows(s)):
                later.append(s)
        if last is not None and last.parent_snapshot_id != self.start:
            raise ValidationException(
                f"Cannot determine history between starting snapshot {self.start} and the last known ancestor {last.snapshot_id}",
                hint="Read the table again and repeat the operation.",
                table=self.metadata.location,
                snapshot_id=last.snapshot_id,
            )
        return tuple(later)

    def manifests(
        self, operations: Collection[str], content: ManifestContent
    ) -> tuple[list[ManifestFile], set[int]]:
        """Return the manifests that snapshots with these operations wrote, and the ids of these
        snapshots.
        """
        manifests: list[ManifestFile] = []
        ids: set[int] = set()
        for s in self.snapshots:
            if s.operation in operations:
                ids.add(s.snapshot_id)
                listed = manifests_of(self.metadata, s, self.storage)
                manifests += [
                    m
                    for m in listed
                    if m.content == content and m.added_snapshot_id == s.snapshot_id
                ]
        return manifests, ids

    def _written(
        self,
        operations: Collection[str],
        content: ManifestContent,
        status: int,
        where: Predicate | None,
    ) -> Iterator[ManifestWithEntries]:
        """Yield the entries with this status that these snapshots wrote, from manifests whose
        summaries may match `where`.
        """
        manifests, ids = self.manifests(operations, content)
        schema = self.metadata.schema()
        chosen = None
        if where is not None:
            chosen = manifests_that_may_match(
                manifests, where, schema, self.metadata, self.case_sensitive, self.zone
            )
        wanted = pa.array(sorted(ids), pa.int64())
        for m in manifests:
            if chosen is None or m.manifest_path in chosen:
                table = read_manifest(self.storage, m)
                mask = pc.and_(
                    pc.equal(table["status"], int(status)),
                    pc.is_in(table["snapshot_id"], value_set=wanted),
                )
                if (table := table.filter(mask)).num_rows:
                    yield m, table

    def data_files(
        self, operations: Collection[str], *, added: bool, where: Predicate | None = None
    ) -> Iterator[ManifestWithEntries]:
        """Yield data files that were added (or removed) and may hold rows matching `where` (None:
        all).
        """
        for m, table in self._written(
            operations, ManifestContent.DATA, ADDED if added else DELETED, where
        ):
            if (matching := table.filter(pa.array(self.may_match(m, table, where)))).num_rows:
                yield m, matching

    def delete_files(
        self, operations: Collection[str], where: Predicate | None = None
    ) -> Iterator[ManifestWithEntries]:
        """Yield delete files that were added and whose partition may hold rows matching `where`
        (None: all).
        """
        if self.parent is None or self.metadata.format_version < 2:
            return
        for m, table in self._written(operations, ManifestContent.DELETES, ADDED, where):
            if (
                matching := table.filter(
                    pa.array(self.may_match(m, table, where, partition_only=True))
                )
            ).num_rows:
                yield m, matching

    def may_match(
        self,
        m: ManifestFile,
        table: pa.Table,
        where: Predicate | None,
        *,
        partition_only: bool = False,
    ) -> Flags:
        """Mark the entries of a manifest that may hold rows matching `where`."""
        if where is None or isinstance(where, AlwaysTrue):
            return np.ones(len(table), bool)
        outcomes = file_outcomes(
            table,
            where,
            self.metadata.schema(),
            self.metadata,
            m.partition_spec_id,
            self.case_sensitive,
            self.zone,
            partition_only,
        )
        return np.asarray((outcomes & TRUE) != 0)

    def live_data(self, partitions: Collection[PartitionKey]) -> Iterator[ManifestWithEntries]:
        """Yield the live data files of the branch head in these partitions (and possibly some of
        other partitions).
        """
        if self.parent is None:
            return
        listed = manifests_of(self.metadata, self.parent, self.storage)
        manifests = [m for m in listed if m.content == ManifestContent.DATA and m.has_live_files]
        paths = manifests_that_may_hold(manifests, partitions, self.metadata)
        for m in manifests:
            if m.manifest_path in paths:
                yield m, live(read_manifest(self.storage, m))

    def refuse(self, message: str, files: Iterable[tuple[str, int]], **facts: object) -> None:
        """Raise ValidationException if there are any conflicting files, given as (path, snapshot
        that changed the file).
        """
        conflicts = list(files)
        if not conflicts:
            return
        paths, ids = (
            list(dict.fromkeys(p for p, _ in conflicts)),
            list(dict.fromkeys(i for _, i in conflicts)),
        )
        shown = ", ".join(paths[:_SHOWN]) + (
            f" and {len(paths) - _SHOWN} more" if len(paths) > _SHOWN else ""
        )
        committers = (
            f"snapshot {ids[0]}"
            if len(ids) == 1
            else "snapshots " + ", ".join(map(str, ids[:_SHOWN]))
        )
        start = "an empty table" if self.start is None else f"snapshot {self.start}"
        raise ValidationException(
            f"{message}: [{shown}], committed by {committers} after this operation read {start}.",
            hint="Another writer committed meanwhile; read the table again and repeat the operation.",
            table=self.metadata.location,
            files=paths,
            starting_snapshot_id=self.start,
            snapshot_ids=ids,
            **facts,
        )
