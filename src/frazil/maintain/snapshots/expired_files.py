"""Find the files that only expired snapshots reach: no snapshot that the table keeps, and none that
was committed meanwhile, needs them.

Manifests that a kept snapshot lists as well are not read on behalf of expired ones, and no manifest
is read twice. If a file of an expired snapshot cannot be read, the files that it names stay. If a
file of a kept snapshot cannot be read, that is an error, since it is then not known which files are
needed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from threading import Lock
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from frazil.catalog.own_files import OwnPlaces
from frazil.errors import CorruptData, NoSuchFileError
from frazil.expr.building import column, from_numpy, scalar
from frazil.maintain.orphans.path_keys import Keys, PathKeys, keys_of
from frazil.scan.delete_ranges import normalised
from frazil.scan.manifests import (
    column_of,
    each,
    is_large,
    live,
    manifests_of,
    packs_for,
    read_in_parts,
    threads_for,
    threads_for_lists,
)
from frazil.scan.options import default_workers
from frazil.spec.manifest import DataFileContent, ManifestFile
from frazil.spec.metadata import TableMetadata
from frazil.spec.snapshot import Snapshot
from frazil.storage import Storage, normalise
from frazil.storage.real_paths import RealPaths

R = TypeVar("R")
_log = logging.getLogger("frazil.maintain")
_COLUMNS = ("status", "content", "file_path", "file_size_in_bytes")
# bytes of manifests that are filtered together: paths compress well, so that these may name
# 16,000 files
_PACK_BYTES = 1 << 16
_NOTHING = pa.table({
    "content": column((), pa.int32()), "file_path": column((), pa.string()), "file_size_in_bytes": column((), pa.int64()),
})  # fmt: skip


@dataclass(frozen=True, eq=False)
class ExpiredFiles:
    """List the files to delete. `contents`: data and delete files (content, file_path,
    file_size_in_bytes), each once; `manifests` with their sizes in bytes."""

    contents: pa.Table
    manifests: tuple[tuple[str, int], ...] = ()
    manifest_lists: tuple[str, ...] = ()
    statistics: tuple[str, ...] = ()

    def count(self, content: DataFileContent, but: frozenset[str] = frozenset()) -> int:
        """Count the data files, or the delete files of one kind, without the named ones. No list of
        the paths is made, of which there may be millions."""
        wanted = pc.equal(self.contents.column("content"), scalar(int(content), pa.int32()))
        if but:
            left_out = pc.is_in(
                self.contents.column("file_path"), value_set=pa.array(sorted(but), pa.string())
            )
            wanted = pc.and_not(wanted, left_out)
        return int(pc.sum(wanted).as_py() or 0)

    def within(self, own: OwnPlaces) -> tuple[ExpiredFiles, list[str]]:
        """Return the files in a table's own directories, and the paths of those elsewhere."""
        paths = self.contents.column("file_path").combine_chunks()
        flags = own.marked(paths)
        outside: list[str] = [] if flags.all() else paths.filter(from_numpy(~flags)).to_pylist()
        groups = ([path for path, _ in self.manifests], self.manifest_lists, self.statistics)
        inside: set[str] = set()
        for group in groups:
            marks = own.marked(column(list(group), pa.string()))
            inside |= {path for path, is_own in zip(group, marks, strict=True) if is_own}
            outside += [path for path in group if path not in inside]
        files = ExpiredFiles(
            self.contents if flags.all() else self.contents.filter(from_numpy(flags)),
            tuple(m for m in self.manifests if m[0] in inside),
            tuple(p for p in self.manifest_lists if p in inside),
            tuple(p for p in self.statistics if p in inside),
        )
        return files, outside

    @property
    def count_all(self) -> int:
        """Count all files."""
        return (
            int(self.contents.num_rows)
            + len(self.manifests)
            + len(self.manifest_lists)
            + len(self.statistics)
        )

    @property
    def size(self) -> int:
        """Sum the bytes of the files whose sizes are in metadata."""
        return int(pc.sum(self.contents.column("file_size_in_bytes")).as_py() or 0) + sum(
            size for _, size in self.manifests
        )


NO_FILES = ExpiredFiles(_NOTHING)


class FileSearch:
    """Find the files of expired snapshots. One search remembers which kept manifests it has read."""

    def __init__(self, storage: Storage):
        self._storage = storage
        self._known: dict[str, str] = {}  # normalised path of each manifest by the path in a list
        self._kept: dict[str, ManifestFile] = {}
        self._read: set[str] = set()
        self._listed: set[int] = set()
        self._real = RealPaths()
        self._needed = PathKeys()

    def find(self, before: TableMetadata, after: TableMetadata) -> ExpiredFiles:
        """Return the files that only snapshots of `before` reach which are not in `after`. Raises
        CorruptData, NoSuchFileError and Unsupported when a file of a kept snapshot cannot be read.
        """
        kept_ids = set(after.snapshots.ids)
        gone = [s for s in before.snapshots if s.snapshot_id not in kept_ids]
        if not gone:
            return replace(NO_FILES, statistics=_statistics(before, after))
        readable = dict[str, Snapshot]()
        own = self._manifests_of_expired(before, gone, readable)
        for listed in self._lists(after, self._newest_first(after)):
            for manifest in listed:
                own.pop(self._name(manifest.manifest_path), None)
            if not own:
                break
        if any(manifest.has_live_files for manifest in own.values()):
            self._read_kept()
        contents, manifests = self._contents_of_expired(own)
        lists = {
            self._name(s.manifest_list) for s in after.snapshots if s.manifest_list is not None
        }
        expired = ExpiredFiles(
            contents,
            tuple((manifest.manifest_path, manifest.manifest_length) for manifest in manifests),
            tuple(path for path in readable if self._name(path) not in lists),
            _statistics(before, after),
        )
        return self.without_kept(expired, after)

    def without_kept(self, files: ExpiredFiles, now: TableMetadata) -> ExpiredFiles:
        """Leave out the files that the snapshots of `now` need; snapshots and manifests that were
        looked at before are not read again.
        """
        fresh = [s for s in now.snapshots if s.snapshot_id not in self._listed]
        if files.contents.num_rows or files.manifests:
            for _ in self._lists(now, fresh):
                pass
        if files.contents.num_rows:
            self._read_kept()
        kept_manifests = self._kept
        lists = {self._name(s.manifest_list) for s in now.snapshots if s.manifest_list is not None}
        statistics = {self._name(path) for path in statistics_of(now)}
        return ExpiredFiles(
            self._unneeded(files.contents),
            tuple(m for m in files.manifests if self._name(m[0]) not in kept_manifests),
            tuple(path for path in files.manifest_lists if self._name(path) not in lists),
            tuple(path for path in files.statistics if self._name(path) not in statistics),
        )

    # --- lists

    def _newest_first(self, metadata: TableMetadata) -> list[Snapshot]:
        """Order the snapshots so that those which share most manifests with expired ones come
        first: the heads, then the rest.
        """
        heads = {r.snapshot_id for r in metadata.refs.values()} | {metadata.current_snapshot_id}
        return sorted(
            metadata.snapshots, key=lambda s: (s.snapshot_id not in heads, -s.timestamp_ms)
        )

    def _lists(
        self, metadata: TableMetadata, snapshots: Sequence[Snapshot]
    ) -> Iterator[tuple[ManifestFile, ...]]:
        """Yield the manifests of each kept snapshot, and remember them."""
        todo = [s for s in snapshots if s.snapshot_id not in self._listed]
        threads = threads_for_lists(todo, self._storage, default_workers())
        listed = each(lambda s: manifests_of(metadata, s, self._storage, keep=False), todo, threads)
        for snapshot, manifests in zip(todo, listed, strict=False):
            for m in manifests:
                self._kept.setdefault(self._name(m.manifest_path), m)
            self._listed.add(snapshot.snapshot_id)
            yield manifests

    def _name(self, path: str) -> str:
        name = self._known.get(path)
        if name is None:
            name = self._known[path] = self._real.of(normalise(path))
        return name

    def _manifests_of_expired(
        self, metadata: TableMetadata, gone: Sequence[Snapshot], readable: dict[str, Snapshot]
    ) -> dict[str, ManifestFile]:
        def listed(snapshot: Snapshot) -> tuple[ManifestFile, ...] | None:
            return _or_none(lambda: manifests_of(metadata, snapshot, self._storage, keep=False))

        manifest_by_name: dict[str, ManifestFile] = {}
        threads = threads_for_lists(gone, self._storage, default_workers())
        for snapshot, manifests in zip(gone, each(listed, gone, threads), strict=True):
            if manifests is not None:
                manifest_by_name.update((self._name(m.manifest_path), m) for m in manifests)
                if snapshot.manifest_list is not None:
                    readable[snapshot.manifest_list] = snapshot
        return manifest_by_name

    # --- manifests

    def _contents_of_expired(
        self, manifests: dict[str, ManifestFile]
    ) -> tuple[pa.Table, list[ManifestFile]]:
        """Return the live files of manifests which no kept manifest names, each file once, and the
        manifests that could be read. Small manifests are filtered together, the parts of a large
        one before the next part is decoded, so that little more than the files to delete is held.
        """
        seen, lock = PathKeys(), Lock()

        def not_seen(contents: pa.Table) -> pa.Table:
            unneeded = self._unneeded(contents)
            with lock:
                new = seen.add(_chunk_keys(unneeded))
            return unneeded if new.all() else unneeded.filter(from_numpy(new))

        def live_parts(manifest: ManifestFile) -> list[pa.Table] | None:
            """Read what a manifest names; None: it cannot be read. One without live files names
            only what older manifests name as well.
            """
            parts = (
                live(part).select(_NOTHING.column_names)
                for part in read_in_parts(self._storage, manifest, _COLUMNS)
            )
            return (
                _or_none(lambda: list(map(not_seen, parts) if is_large(manifest) else parts))
                if manifest.has_live_files
                else []
            )

        def entries(pack: Sequence[ManifestFile]) -> tuple[pa.Table, list[ManifestFile]]:
            parts_by_manifest = [
                (manifest, parts)
                for manifest in pack
                if (parts := live_parts(manifest)) is not None
            ]
            filtered = [
                part
                for manifest, parts in parts_by_manifest
                if is_large(manifest)
                for part in parts
            ]
            unfiltered = [
                part
                for manifest, parts in parts_by_manifest
                if not is_large(manifest)
                for part in parts
            ]
            together = not_seen(pa.concat_tables([_NOTHING, *unfiltered]).combine_chunks())
            return pa.concat_tables([*filtered, together]), [
                manifest for manifest, _ in parts_by_manifest
            ]

        todo = list(manifests.values())
        tables, readable = [_NOTHING], list[ManifestFile]()
        threads = threads_for(todo, self._storage, default_workers())
        for table, readable_of_pack in each(
            entries, packs_for(todo, threads, size=_PACK_BYTES), threads
        ):
            readable += readable_of_pack
            tables.append(table)
        return pa.concat_tables(tables), readable

    def _unneeded(self, contents: pa.Table) -> pa.Table:
        """Drop the files that a kept manifest names, of those that were read."""
        if not contents.num_rows or not len(self._needed):
            return contents
        is_needed = np.concatenate(
            [self._is_needed(chunk) for chunk in contents.column("file_path").chunks]
        )
        return contents.filter(from_numpy(~is_needed)) if is_needed.any() else contents

    def _is_needed(self, paths: pa.Array) -> npt.NDArray[np.bool_]:
        spelled = keys_of(paths)
        real = spelled.copy()
        for n, path in self._real.changed(normalised(paths)):
            real[n] = hash(path)
        return self._needed.has(spelled) | self._needed.has(real)

    def _read_kept(self) -> None:
        """Read the kept manifests that were not read before, and remember the keys of their files."""
        todo = [
            (name, m)
            for name, m in self._kept.items()
            if name not in self._read and m.has_live_files
        ]
        threads = threads_for([m for _, m in todo], self._storage, default_workers())
        reads: Iterable[Keys] = each(lambda item: self._keys(item[1]), todo, threads)
        for (name, _), keys in zip(todo, reads, strict=True):
            self._read.add(name)
            self._needed.add(keys)

    def _keys(self, manifest: ManifestFile) -> Keys:
        key_arrays = [np.empty(0, np.int64)]
        for part in read_in_parts(self._storage, manifest, ("status", "file_path")):
            paths = column_of(live(part), "file_path")
            key_arrays += [
                keys_of(paths),
                np.array(
                    [hash(path) for path in self._real.differing(normalised(paths))], np.int64
                ),
            ]
        return np.concatenate(key_arrays)


def _chunk_keys(contents: pa.Table) -> Keys:
    return np.concatenate(
        [np.empty(0, np.int64), *(keys_of(chunk) for chunk in contents.column("file_path").chunks)]
    )


def _or_none(read: Callable[[], R]) -> R | None:
    try:
        return read()
    except (CorruptData, NoSuchFileError) as error:
        _log.warning(
            "An expired snapshot cannot be read, so the files that it names stay as orphans: %s",
            error,
        )
        return None


def statistics_of(metadata: TableMetadata) -> list[str]:
    """List the statistics files, of tables and of partitions."""
    every: tuple[dict[str, Any], ...] = (*metadata.statistics, *metadata.partition_statistics)
    return [str(s["statistics-path"]) for s in every if s.get("statistics-path")]


def _statistics(before: TableMetadata, after: TableMetadata) -> tuple[str, ...]:
    kept_paths = {normalise(path) for path in statistics_of(after)}
    return tuple(
        path for path in dict.fromkeys(statistics_of(before)) if normalise(path) not in kept_paths
    )
