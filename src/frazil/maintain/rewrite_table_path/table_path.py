"""Rewrite the paths in a table's metadata into a staging directory, and list the files to copy
(Java's procedure rewrite_table_path).

Once the files of the list are copied to their new places, the copy is registered by its newest
metadata file. The table itself stays as it is. With a start version, only files that were added
since are staged and listed, so that a copy can be kept up to date.
"""

from __future__ import annotations

import contextlib
import csv
import io
import time
import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TypeVar

import msgspec

from frazil.catalog import metadata_files
from frazil.codec.json_nouns import schema_from_json
from frazil.codec.manifest import encode_manifest, entries_from_table, manifest_header
from frazil.codec.manifest_list import encode_manifest_list
from frazil.errors import FrazilError, InvalidInput
from frazil.maintain.procedure import MaintainedTable, ProcedureResult, newest_readable
from frazil.maintain.progress import Progress, ProgressCallback, progress
from frazil.maintain.rewrite_table_path.new_paths import PathChange, rewrite_delete_file
from frazil.scan.manifests import each, is_data, manifest_bytes, manifests_of, read_manifest
from frazil.scan.options import default_workers
from frazil.spec.manifest import (
    DataFile,
    DataFileContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
)
from frazil.spec.metadata import TableMetadata, schema_of_spec
from frazil.spec.properties import MANIFEST_CODEC, MANIFEST_LEVEL
from frazil.spec.schema import Schema
from frazil.spec.snapshot import Snapshot
from frazil.storage import Storage, normalise
from frazil.storage.locations import absolute, metadata_root

NOT_APPLICABLE = "N/A"
FILE_LIST = "file-list"
T = TypeVar("T")
Copy = tuple[str, str]


@dataclass(frozen=True, kw_only=True, repr=False)
class RewriteTablePathResult(ProcedureResult):
    """Hold the result of rewrite_table_path.

    `latest_version`: name of the newest metadata file, by which the copy is registered.
    `file_list_location`: a CSV file of source and target, "N/A" in a dry run or where none was
    asked for. `rewritten_manifest_file_paths_count`, `rewritten_delete_file_paths_count`: manifests
    and position delete files that were written with new paths. `files_to_copy`: how many files are
    to be copied. `staging_location`: where the changed files are.
    """

    latest_version: str | None = None
    file_list_location: str = NOT_APPLICABLE
    rewritten_manifest_file_paths_count: int = 0
    rewritten_delete_file_paths_count: int = 0
    files_to_copy: int = field(default=0, metadata={"ours": True})
    staging_location: str = field(default="", metadata={"ours": True})


@dataclass(frozen=True)
class TablePathPlan:
    """Hold the files to stage.

    `versions`: the metadata files after the start version, the newest first. `lists`: the manifests
    of the snapshots whose lists are rewritten. `manifests`: those to rewrite. `deletes`: the files
    of the position deletes and vectors that these name; `delete_count`: how many these are, each
    vector by itself, as Java counts. `start`: the metadata of the start version.
    """

    change: PathChange
    versions: Mapping[str, TableMetadata]
    lists: Sequence[tuple[Snapshot, tuple[ManifestFile, ...]]]
    manifests: Mapping[str, ManifestFile]
    deletes: Mapping[str, DataFile]
    delete_count: int = 0
    start: TableMetadata | None = None

    @property
    def end(self) -> TableMetadata:
        return next(iter(self.versions.values()))

    @property
    def staged(self) -> int:
        """Return how many files are staged."""
        return len(self.deletes) + len(self.manifests) + len(self.lists) + len(self.versions)

    @property
    def latest_version(self) -> str:
        return _name(next(iter(self.versions)))

    def is_new(self, number: int | None, snapshot_id: int | None) -> bool:
        """Tell whether a commit is later than the start version: by its sequence number, in format
        version 1 by its snapshot.
        """
        if self.start is None:
            return True
        if self.start.format_version > 1 and number is not None:
            return number > self.start.last_sequence_number
        return self.start.snapshots.by_id(snapshot_id) is None


def rewrite_table_path(
    table: MaintainedTable,
    source_prefix: str,
    target_prefix: str,
    *,
    start_version: str | None = None,
    end_version: str | None = None,
    staging_location: str | None = None,
    create_file_list: bool = True,
    dry_run: bool = False,
    callback: ProgressCallback | None = None,
) -> RewriteTablePathResult:
    """Stage a table's metadata with paths below `target_prefix`, and list the files to copy. The
    arguments are those of Java.
    """
    begun = time.monotonic()
    table = newest_readable(table)
    planned = plan_table_path(
        table, source_prefix, target_prefix, start_version, end_version, staging_location
    )
    result = RewriteTablePathResult(
        dry_run=dry_run,
        latest_version=planned.latest_version,
        rewritten_manifest_file_paths_count=len(planned.manifests),
        rewritten_delete_file_paths_count=planned.delete_count,
        staging_location=f"{planned.change.staging}/",
    )
    total, noun = (
        (len(planned.manifests), "manifests read") if dry_run else (planned.staged, "files staged")
    )
    with progress(total, noun, callback) as shown:
        copies = (list_copies if dry_run else apply_table_path)(table.storage, planned, shown)
    result = replace(result, files_to_copy=len(copies))
    if create_file_list and not dry_run:
        place = f"{planned.change.staging}/{FILE_LIST}"
        table.storage.write(place, _csv(copies), overwrite=True)
        result = replace(result, file_list_location=place)
    return replace(result, seconds=time.monotonic() - begun)


# --- plan


def plan_table_path(
    table: MaintainedTable,
    source_prefix: str,
    target_prefix: str,
    start_version: str | None,
    end_version: str | None,
    staging: str | None,
) -> TablePathPlan:
    """Plan which files are to be staged. Raises InvalidInput for prefixes and versions that do not
    fit the table.
    """
    metadata, storage = table.metadata, table.storage
    if not source_prefix or not target_prefix:
        raise InvalidInput("source_prefix and target_prefix must not be empty.")
    # a relative path in metadata would mean another directory wherever it is read
    source, target = (absolute(prefix).rstrip("/") for prefix in (source_prefix, target_prefix))
    if normalise(source) == normalise(target):
        raise InvalidInput(f"Source prefix cannot be the same as target prefix ({source_prefix})")
    staging = absolute(
        staging
        or f"{metadata_root(metadata.location, metadata.properties)}/copy-table-staging-{uuid.uuid4()}"
    ).rstrip("/")
    change = PathChange(source, target, staging)
    versions = _versions(table, start_version, end_version)
    start = (
        None
        if start_version is None
        else metadata_files.read(storage, _version(table, start_version, "start_version"))
    )
    end = next(iter(versions.values()))
    start_ids = {s.snapshot_id for s in start.snapshots} if start is not None else set()
    snapshots = [s for s in end.snapshots if s.snapshot_id not in start_ids]
    lists = [(s, manifests_of(end, s, storage, keep=False)) for s in snapshots]
    planned = TablePathPlan(change, versions, lists, {}, {}, start=start)
    new = {
        m.manifest_path: m
        for _, manifests in lists
        for m in manifests
        if planned.is_new(m.sequence_number, m.added_snapshot_id)
    }
    deletes = {
        (f.file_path, f.content_offset): f
        for m in new.values()
        if not is_data(m)
        for f in _position_deletes(end, storage, m)
    }
    for of_version in versions.values():  # raises before anything is written
        change.metadata(of_version)
    for path in new:
        change.new(path)
    return replace(
        planned,
        manifests=new,
        deletes={f.file_path: f for f in deletes.values()},
        delete_count=len(deletes),
    )


def _position_deletes(
    metadata: TableMetadata, storage: Storage, manifest: ManifestFile
) -> list[DataFile]:
    live = (e.data_file for e in _entries(metadata, storage, manifest) if _is_live(e))
    return [f for f in live if f.content == DataFileContent.POSITION_DELETES]


def _entries(
    metadata: TableMetadata, storage: Storage, manifest: ManifestFile
) -> list[ManifestEntry]:
    return entries_from_table(
        read_manifest(storage, manifest, keep=False),
        metadata.spec_by_id(manifest.partition_spec_id),
    )


def _versions(
    table: MaintainedTable, start_version: str | None, end_version: str | None
) -> dict[str, TableMetadata]:
    """Read the metadata files from the end version back to the start version, which is left out;
    the newest first.
    """
    newest = table.loaded.metadata_location
    end = newest if end_version is None else _version(table, end_version, "end_version")
    start = None if start_version is None else _version(table, start_version, "start_version")
    metadata = table.metadata if end == newest else metadata_files.read(table.storage, end)
    if end == start:
        raise InvalidInput(
            f"Start version {start_version} is the end version: there is nothing to copy."
        )
    versions = {end: metadata}
    for entry in reversed(metadata.metadata_log):
        if entry.metadata_file == start:
            break
        versions[entry.metadata_file] = metadata_files.read(table.storage, entry.metadata_file)
    else:
        if start is not None:
            raise InvalidInput(
                f"Start version {start_version} is not in the metadata log of {end}.", file=start
            )
    return versions


def _version(table: MaintainedTable, version: str, argument: str) -> str:
    """Find the metadata file that a version names: by its name or its location."""
    if not version.strip():
        raise InvalidInput(f"{argument} cannot be empty.")
    every = [
        table.loaded.metadata_location,
        *(e.metadata_file for e in table.metadata.metadata_log),
    ]
    metadata_file = next((f for f in every if version in (f, _name(f))), None)
    if metadata_file is None:
        names = ", ".join(map(_name, every[:5]))
        raise InvalidInput(
            f"Cannot find provided version file {version} in metadata log.",
            hint=f"The newest are {names}.",
        )
    return metadata_file


def _name(location: str) -> str:
    return location.rpartition("/")[2]


# --- apply


def apply_table_path(storage: Storage, planned: TablePathPlan, shown: Progress) -> list[Copy]:
    """Write the changed files to the staging directory; returns all files to copy with their
    targets, the newest metadata file last.
    """
    change, workers = planned.change, default_workers()
    sizes = _rewritten(storage, planned, planned.deletes.values(), shown)
    staged = list(
        _counted(
            each(
                lambda m: _manifest(storage, planned, m, sizes), planned.manifests.values(), workers
            ),
            shown,
        )
    )
    lengths = {path: length for path, (length, _) in zip(planned.manifests, staged, strict=True)}
    older = {
        m.manifest_path: m
        for _, manifests in planned.lists
        for m in manifests
        if m.manifest_path not in lengths
    }
    lengths |= zip(
        older, each(lambda m: _length(storage, planned, m), older.values(), workers), strict=True
    )
    for _ in _counted(
        each(lambda pair: _manifest_list(storage, planned, *pair, lengths), planned.lists, workers),
        shown,
    ):
        pass
    for location, metadata in reversed(list(planned.versions.items())):
        packed = storage.read(location)[:2] == b"\x1f\x8b"
        storage.write(
            change.staged(location),
            metadata_files.encode(change.metadata(metadata), packed),
            overwrite=True,
        )
        shown.advance()
    return _copies(storage, planned, [files for _, files in staged])


def _counted(results: Iterator[T], shown: Progress) -> Iterator[T]:
    for result in results:
        shown.advance()
        yield result


def list_copies(storage: Storage, planned: TablePathPlan, shown: Progress) -> list[Copy]:
    """List the files that `apply_table_path` would return, without writing any."""
    files = each(
        lambda m: _files_to_copy(planned, _entries(planned.end, storage, m), planned.deletes),
        planned.manifests.values(),
        default_workers(),
    )
    return _copies(storage, planned, _counted(files, shown))


def _copies(
    storage: Storage, planned: TablePathPlan, files: Iterable[Iterable[Copy]]
) -> list[Copy]:
    """List all files to copy: data and delete files, manifests and their lists, statistics, and
    metadata files, the newest last.
    """

    def staged(paths: Iterable[str]) -> Iterable[Copy]:
        return ((planned.change.staged(path), planned.change.new(path)) for path in paths)

    lists = (snapshot.manifest_list or "" for snapshot, _ in planned.lists)
    newest_last = reversed(list(planned.versions))
    copies = chain(
        *files,
        staged(planned.manifests),
        staged(lists),
        _statistics(storage, planned),
        staged(newest_last),
    )
    return list(dict.fromkeys(copies))


def _rewritten(
    storage: Storage,
    planned: TablePathPlan,
    files: Iterable[DataFile],
    shown: Progress | None = None,
) -> dict[str, int]:
    """Stage delete files with other paths; returns their sizes by their old paths."""
    todo = list(files)
    sizes = each(
        lambda f: rewrite_delete_file(f, planned.change, planned.end, storage),
        todo,
        default_workers(),
    )
    counted = sizes if shown is None else _counted(sizes, shown)
    return {f.file_path: size for f, size in zip(todo, counted, strict=True)}


def _manifest(
    storage: Storage, planned: TablePathPlan, manifest: ManifestFile, sizes: Mapping[str, int]
) -> tuple[int, Collection[Copy]]:
    """Stage a manifest with other paths; returns its length, and the data and delete files to copy."""
    change, entries = planned.change, _entries(planned.end, storage, manifest)
    data = _encoded(storage, planned, manifest, entries, sizes)
    storage.write(change.staged(manifest.manifest_path), data, overwrite=True)
    return len(data), _files_to_copy(planned, entries, sizes)


def _files_to_copy(
    planned: TablePathPlan, entries: Iterable[ManifestEntry], rewritten: Collection[str]
) -> list[Copy]:
    """List the live files of a manifest that are later than the start version; rewritten ones come
    from the staging directory.
    """
    live = (
        e.data_file.file_path
        for e in entries
        if _is_live(e) and planned.is_new(e.file_sequence_number, e.snapshot_id)
    )
    return [
        (planned.change.staged(path) if path in rewritten else path, planned.change.new(path))
        for path in live
    ]


def _length(storage: Storage, planned: TablePathPlan, manifest: ManifestFile) -> int:
    """Find the length of a manifest that was copied with the start version or before: at its new
    place, where that can be read, else by encoding it again."""
    with contextlib.suppress(FrazilError):
        return storage.size(planned.change.new(manifest.manifest_path))
    entries = _entries(planned.end, storage, manifest)
    sizes = (
        {}
        if is_data(manifest)
        else _rewritten(storage, planned, _position_deletes(planned.end, storage, manifest))
    )
    return len(_encoded(storage, planned, manifest, entries, sizes))


def _encoded(
    storage: Storage,
    planned: TablePathPlan,
    manifest: ManifestFile,
    entries: Iterable[ManifestEntry],
    sizes: Mapping[str, int],
) -> bytes:
    change, end = planned.change, planned.end
    header = manifest_header(manifest_bytes(storage, manifest), manifest.manifest_path)
    changed = [
        replace(e, data_file=change.data_file(e.data_file, sizes if _is_live(e) else {}))
        for e in entries
    ]
    return encode_manifest(
        changed,
        spec=end.spec_by_id(manifest.partition_spec_id),
        schema=_schema(header, end, manifest),
        format_version=int(header.get("format-version", "1")),
        content=manifest.content,
        snapshot_id=manifest.added_snapshot_id,
        codec=MANIFEST_CODEC.of(end.properties),
        level=MANIFEST_LEVEL.of(end.properties),
    )


def _is_live(entry: ManifestEntry) -> bool:
    return entry.status != ManifestEntryStatus.DELETED


def _schema(header: Mapping[str, str], metadata: TableMetadata, manifest: ManifestFile) -> Schema:
    """Return the schema that the manifest was written with, whose types its partition values have."""
    text = header.get("schema")
    return (
        schema_of_spec(metadata, metadata.spec_by_id(manifest.partition_spec_id))
        if text is None
        else schema_from_json(msgspec.json.decode(text))
    )


def _manifest_list(
    storage: Storage,
    planned: TablePathPlan,
    snapshot: Snapshot,
    manifests: Sequence[ManifestFile],
    lengths: Mapping[str, int],
) -> None:
    change, version = planned.change, planned.end.format_version
    moved = [
        replace(
            m, manifest_path=change.new(m.manifest_path), manifest_length=lengths[m.manifest_path]
        )
        for m in manifests
    ]
    data = encode_manifest_list(
        moved,
        snapshot_id=snapshot.snapshot_id,
        parent_snapshot_id=snapshot.parent_snapshot_id,
        sequence_number=snapshot.sequence_number,
        first_row_id=snapshot.first_row_id,
        format_version=version,
    )
    assert snapshot.manifest_list is not None
    storage.write(change.staged(snapshot.manifest_list), data, overwrite=True)


def _statistics(storage: Storage, planned: TablePathPlan) -> Iterable[Copy]:
    """List the statistics files to copy: those of the newest version, and of older ones as far as
    they are still there.
    """
    start_paths = (
        {s["statistics-path"] for s in _named(planned.start)}
        if planned.start is not None
        else set()
    )
    newest = {s["statistics-path"] for s in _named(planned.end)}
    older = {s["statistics-path"] for m in planned.versions.values() for s in _named(m)} - newest
    for path in sorted((newest | set(filter(storage.exists, older))) - start_paths):
        yield path, planned.change.new(path)


def _named(metadata: TableMetadata) -> Iterable[Mapping[str, str]]:
    return (*metadata.statistics, *metadata.partition_statistics)


def _csv(copies: Iterable[Copy]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(copies)
    return text.getvalue().encode()
