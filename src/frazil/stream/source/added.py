"""List the data files that snapshots added: how many, how large, and in which manifests.

One manifest list usually suffices for many snapshots: manifests never change, so the newest list
still names most manifests that earlier snapshots added. If the counts found there agree with a
snapshot's summary they are used, else the snapshot's own list is read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from frazil.scan.listing.numbering import FileNumbers, number_files
from frazil.scan.manifests import column_of, each, is_data, manifests_of, read_manifest
from frazil.spec.manifest import ManifestFile
from frazil.spec.metadata import TableMetadata
from frazil.spec.snapshot import Snapshot
from frazil.storage import Storage
from frazil.stream.source.history import counted

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Added:
    """Hold what a snapshot added: the numbers of files and rows (None: not known from a manifest
    list), and the manifests that list the files."""

    snapshot: Snapshot
    files: int
    rows: int | None
    manifests: tuple[ManifestFile, ...] = field(repr=False)

    @property
    def bytes(self) -> int | None:
        """Return the bytes of the files according to the summary; None if it lacks them."""
        return counted(self.snapshot, "added-files-size")


class AddedFiles:
    """Look up the files that snapshots added. `newest`: the snapshot whose manifest list is read
    first.
    """

    def __init__(self, metadata: TableMetadata, storage: Storage, newest: Snapshot | None):
        self.metadata, self.storage, self._newest = metadata, storage, newest
        self._by_snapshot: dict[int, list[ManifestFile]] | None = None

    def of(self, snapshot: Snapshot) -> Added:
        """Return the numbers of files and rows that an `append` snapshot added."""
        manifests = self._in_newest(snapshot)
        if manifests is None:
            manifests_listed = manifests_of(self.metadata, snapshot, self.storage)
            manifests = [
                m
                for m in manifests_listed
                if is_data(m) and m.added_snapshot_id == snapshot.snapshot_id
            ]
        counts = [m.added_files_count for m in manifests]
        if None in counts:
            files = number_files(self.metadata, snapshot, self.storage, added=True).total
            return Added(snapshot, files, None, _in_order(manifests))
        rows = [m.added_rows_count for m in manifests]
        return Added(
            snapshot,
            sum(c or 0 for c in counts),
            None if None in rows else sum(r or 0 for r in rows),
            _in_order(manifests),
        )

    def of_each(self, snapshots: Sequence[Snapshot], workers: int) -> list[Added]:
        """Return what each of several snapshots added. Manifest lists that have to be read are read
        in so many threads.
        """
        own_lists = [s for s in snapshots if self._in_newest(s) is None]
        added_by_snapshot = dict(
            zip((s.snapshot_id for s in own_lists), each(self.of, own_lists, workers), strict=True)
        )
        return [added_by_snapshot.get(s.snapshot_id) or self.of(s) for s in snapshots]

    def _in_newest(self, snapshot: Snapshot) -> list[ManifestFile] | None:
        """Find a snapshot's manifests in the newest list; None where the snapshot's own list must
        be read.
        """
        added_files, manifests = (
            counted(snapshot, "added-data-files"),
            self._of_newest().get(snapshot.snapshot_id, []),
        )
        counts = [m.added_files_count for m in manifests]
        agrees = (
            added_files is not None
            and None not in counts
            and sum(c or 0 for c in counts) == added_files
        )
        return manifests if agrees else None

    def _of_newest(self) -> dict[int, list[ManifestFile]]:
        if self._by_snapshot is None:
            self._by_snapshot = {}
            for manifest in (
                manifests_of(self.metadata, self._newest, self.storage)
                if self._newest is not None
                else ()
            ):
                if is_data(manifest) and manifest.added_snapshot_id is not None:
                    self._by_snapshot.setdefault(manifest.added_snapshot_id, []).append(manifest)
        return self._by_snapshot


def _in_order(manifests: list[ManifestFile]) -> tuple[ManifestFile, ...]:
    """Order manifests by name, so that whichever list named them, a batch has its files in one
    order.
    """
    return tuple(sorted(manifests, key=lambda m: m.manifest_path))


def sizes_of(numbers: FileNumbers, storage: Storage) -> Iterator[tuple[Numbers, Numbers]]:
    """Yield the rows and the bytes of the files that are wanted, in the order of their numbers,
    manifest by manifest.
    """
    columns = ("status", "snapshot_id", "file_path", "record_count", "file_size_in_bytes")
    for manifest in numbers.wanted():
        table = numbers.numbered(
            manifest, numbers.choose(read_manifest(storage, manifest, columns))
        )
        if table.num_rows:
            yield (
                column_of(table, "record_count").to_numpy(),
                column_of(table, "file_size_in_bytes").to_numpy(),
            )
