"""Number the data files of a snapshot, so that (snapshot, number) names the same file at every
planning, as the offset of a stream must.

A snapshot's manifest list never changes, nor do its manifests. So files are counted from 0 in the
order of the list and of the entries in each manifest, whatever a plan leaves out and in whatever
order it reads. The counts come from the list; a manifest is opened only when its files are wanted,
or when an old writer left the counts out.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc

from frazil.errors import CorruptData, InvalidInput
from frazil.expr.building import scalar
from frazil.scan.manifests import each, is_data, live, manifests_of, read_manifest, threads_for
from frazil.scan.options import default_workers
from frazil.scan.tasks import NUMBER
from frazil.spec.manifest import ManifestEntryStatus, ManifestFile
from frazil.spec.metadata import TableMetadata
from frazil.spec.snapshot import Snapshot
from frazil.storage import Storage


@dataclass(frozen=True)
class FileNumbers:
    """Hold the numbers of a snapshot's data files: those of all its live files, or (`added`) of the
    files that it added.

    `counts`: the number of files in each of `manifests`. `files`: the numbers that are wanted;
    None: all.
    """

    snapshot_id: int
    added: bool
    manifests: tuple[ManifestFile, ...] = field(repr=False)
    counts: tuple[int, ...] = field(repr=False)
    files: range | None = None

    @property
    def total(self) -> int:
        return sum(self.counts)

    @cached_property
    def firsts(self) -> tuple[int, ...]:
        """Return the number of the first file in each manifest."""
        return tuple(itertools.accumulate(self.counts, initial=0))[:-1]

    def wanted(self) -> list[ManifestFile]:
        """Return the manifests with files whose numbers are wanted, in their order."""
        files = range(self.total) if self.files is None else self.files
        spans = zip(self.manifests, self.firsts, self.counts, strict=True)
        return [
            m for m, first, count in spans if first < files.stop and first + count > files.start
        ]

    def choose(self, entries: pa.Table) -> pa.Table:
        """Keep the entries of a manifest that have numbers."""
        if not self.added:
            return live(entries)
        new = pc.equal(entries.column("status"), scalar(int(ManifestEntryStatus.ADDED), pa.int32()))
        of_snapshot = pc.equal(entries.column("snapshot_id"), scalar(self.snapshot_id, pa.int64()))
        return entries.filter(pc.and_(new, of_snapshot))

    def numbered(self, manifest: ManifestFile, chosen: pa.Table) -> pa.Table:
        """Add the column `NUMBER` to the chosen entries of a manifest, and keep those whose numbers
        are wanted.

        Raises CorruptData when there are more or fewer entries than the manifest list says: all
        later files would get wrong numbers.
        """
        position = self._positions[manifest.manifest_path]
        first, count = self.firsts[position], self.counts[position]
        if chosen.num_rows != count:
            raise CorruptData(
                f"Manifest {manifest.manifest_path} has {chosen.num_rows} files, the manifest list says {count}: they cannot be numbered.",
                hint="Rewrite the table's manifests: later snapshots then have correct counts.",
                file=manifest.manifest_path,
                snapshot_id=self.snapshot_id,
            )
        table = chosen.append_column(NUMBER, pa.array(range(first, first + count), pa.int64()))
        if self.files is None:
            return table
        start, stop = (min(max(n - first, 0), count) for n in (self.files.start, self.files.stop))
        return table.slice(start, max(stop - start, 0))

    @cached_property
    def _positions(self) -> dict[str, int]:
        return {m.manifest_path: n for n, m in enumerate(self.manifests)}


def number_files(
    metadata: TableMetadata,
    snapshot: Snapshot,
    storage: Storage,
    *,
    added: bool = False,
    files: range | None = None,
) -> FileNumbers:
    """Number the data files of a snapshot. `added`: only the files that it added, counted on their
    own; `files`: the numbers wanted.

    Raises InvalidInput for a range with a step or a negative start.
    """
    if files is not None and (files.step != 1 or files.start < 0):
        raise InvalidInput(
            f"File numbers must be a range that starts at 0 or above and has no step, not {files}."
        )
    data = [m for m in manifests_of(metadata, snapshot, storage) if is_data(m)]
    if added:
        data = [m for m in data if m.added_snapshot_id == snapshot.snapshot_id]
    counts = [_count(m, added) for m in data]
    numbers = FileNumbers(snapshot.snapshot_id, added, tuple(data), (), files)
    unknown = [m for m, count in zip(data, counts, strict=True) if count is None]
    columns = ("status", "snapshot_id", "file_path")
    threads = threads_for(unknown, storage, default_workers())
    read = each(
        lambda m: numbers.choose(read_manifest(storage, m, columns)).num_rows, unknown, threads
    )
    return replace(numbers, counts=tuple(next(read) if c is None else c for c in counts))


def _count(manifest: ManifestFile, added: bool) -> int | None:
    counts: Sequence[int | None] = (
        manifest.added_files_count,
        0 if added else manifest.existing_files_count,
    )
    return None if None in counts else sum(c for c in counts if c is not None)
