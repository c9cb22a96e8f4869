"""List every file that a table's metadata reaches: metadata files, manifest lists, manifests, data
and delete files, statistics.

A purge deletes all of these, and orphan file removal every other file below the table's location.
Snapshot expiry lists by itself what only the expired snapshots reach
(`frazil.maintain.snapshots.expired_files`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from hashlib import blake2b
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from frazil.errors import CorruptData, FrazilError, NoSuchFileError, Unsupported
from frazil.expr.building import column
from frazil.scan.manifests import (
    each,
    is_data,
    is_large,
    live,
    manifests_of,
    read_in_parts,
    read_manifest,
)
from frazil.scan.options import default_workers
from frazil.spec.manifest import ManifestFile
from frazil.spec.metadata import TableMetadata
from frazil.spec.snapshot import Snapshot
from frazil.storage import Storage

_SNAPSHOTS_AT_ONCE = 32
_COLUMNS = ("status", "file_path")
Unreadable = Callable[[str, FrazilError], None]


class FileKind(Enum):
    """Name the kind of a reached file; `DELETES` are position deletes, equality deletes and Puffin
    files with deletion vectors.
    """

    METADATA = "metadata"
    MANIFEST_LIST = "manifest list"
    MANIFEST = "manifest"
    DATA = "data"
    DELETES = "deletes"
    STATISTICS = "statistics"


@dataclass(frozen=True, eq=False)
class ReachedFiles:
    """Hold a batch of reached files of one kind. `paths`: as metadata spells them, each once."""

    kind: FileKind
    paths: pa.Array

    def __len__(self) -> int:
        return len(self.paths)


def reachable(
    metadata: TableMetadata,
    storage: Storage,
    *,
    metadata_location: str | None = None,
    contents: bool = True,
    removed: bool = False,
    workers: int | None = None,
    unreadable: Unreadable | None = None,
) -> Iterator[ReachedFiles]:
    """Yield the files that the snapshots of a table reach: the files of a manifest before the
    manifest, manifests before their list, metadata last.

    Every manifest is read once, and one batch holds the files of one manifest, or of a part of a
    large one, so memory does not grow with the table; a data file that several manifests name comes
    once per manifest, as a rule. `metadata_location`: where `metadata` was read from, which is
    reached as well. `contents=False` leaves out data and delete files and reads no manifest.
    `removed`: also files that a snapshot removed (entries with status DELETED), which no read of
    the snapshot needs.

    The files that an unreadable file names are unknown, so nothing may be concluded from the rest:
    raises CorruptData, NoSuchFileError, and Unsupported for encrypted tables. With `unreadable`,
    that function gets the file and the error instead, and the listing goes on.
    """
    reading = _Reading(
        metadata, storage, contents, removed, workers or default_workers(), unreadable
    )
    for start in range(0, len(metadata.snapshots), _SNAPSHOTS_AT_ONCE):
        yield from reading.files(metadata.snapshots[start : start + _SNAPSHOTS_AT_ONCE])
    statistics: Iterable[dict[str, Any]] = (*metadata.statistics, *metadata.partition_statistics)
    yield from _batch(
        FileKind.STATISTICS,
        [str(s["statistics-path"]) for s in statistics if s.get("statistics-path")],
    )
    logged = [entry.metadata_file for entry in metadata.metadata_log]
    yield from _batch(
        FileKind.METADATA, [*logged, *([metadata_location] if metadata_location else [])]
    )


@dataclass
class _Reading:
    metadata: TableMetadata
    storage: Storage
    contents: bool
    removed: bool
    workers: int
    unreadable: Unreadable | None

    def __post_init__(self) -> None:
        # digests of manifest paths, which are shorter than the paths: a long history has many
        self._seen: set[bytes] = set()

    def files(self, snapshots: Sequence[Snapshot]) -> Iterator[ReachedFiles]:
        fresh: list[ManifestFile] = []
        paths: list[str] = []
        for snapshot, manifests in zip(
            snapshots, each(self._manifests, snapshots, self.workers), strict=True
        ):
            new = [m for m in manifests if self._is_new(m.manifest_path)]
            fresh += new
            paths += [m.manifest_path for m in new]
            paths += [path for path in snapshot.manifests or () if self._is_new(path)]
        if self.contents:
            small = [m for m in fresh if not is_large(m)]
            for manifest, file_paths in zip(
                small, each(self._contents, small, self.workers), strict=True
            ):
                yield from _reached(manifest, file_paths)
            for manifest in fresh:
                if is_large(manifest):
                    yield from self._parts(manifest)
        yield from _batch(FileKind.MANIFEST, paths)
        yield from _batch(
            FileKind.MANIFEST_LIST,
            [s.manifest_list for s in snapshots if s.manifest_list is not None],
        )

    def _is_new(self, path: str) -> bool:
        digest = blake2b(path.encode(), digest_size=16).digest()
        if digest in self._seen:
            return False
        self._seen.add(digest)
        return True

    def _manifests(self, snapshot: Snapshot) -> tuple[ManifestFile, ...]:
        try:
            return manifests_of(self.metadata, snapshot, self.storage, keep=False)
        except (CorruptData, NoSuchFileError, Unsupported) as error:
            self._report_unreadable(str(error.facts.get("file") or snapshot.manifest_list), error)
            return ()

    def _contents(self, manifest: ManifestFile) -> pa.Array | None:
        try:
            entries = read_manifest(self.storage, manifest, _COLUMNS, keep=False)
        except (CorruptData, NoSuchFileError, Unsupported) as error:
            self._report_unreadable(manifest.manifest_path, error)
            return None
        return self._paths(entries)

    def _parts(self, manifest: ManifestFile) -> Iterator[ReachedFiles]:
        try:
            for entries in read_in_parts(self.storage, manifest, _COLUMNS, self.workers):
                yield from _reached(manifest, self._paths(entries))
        except (CorruptData, NoSuchFileError, Unsupported) as error:
            self._report_unreadable(manifest.manifest_path, error)

    def _paths(self, entries: pa.Table) -> pa.Array:
        return pc.unique((entries if self.removed else live(entries)).column("file_path"))

    def _report_unreadable(self, file: str, error: FrazilError) -> None:
        if self.unreadable is None:
            raise error
        self.unreadable(file, error)


def _reached(manifest: ManifestFile, paths: pa.Array | None) -> Iterator[ReachedFiles]:
    if paths is not None and len(paths):
        yield ReachedFiles(FileKind.DATA if is_data(manifest) else FileKind.DELETES, paths)


def _batch(kind: FileKind, paths: Iterable[str]) -> Iterator[ReachedFiles]:
    once = list(dict.fromkeys(paths))
    if once:
        yield ReachedFiles(kind, column(once, pa.string()))
