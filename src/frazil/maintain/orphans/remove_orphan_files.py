"""Remove the files below a table's location that no snapshot, and no metadata file, of the table
names (Java's `remove_orphan_files`).

The files are listed first. Then the table is loaded, so that files that were committed during the
listing are known; it is loaded once more before any file is deleted. Files of operations that are
still running are protected only by their age. If it is not certain that the location holds this
table only, no file is deleted.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from frazil.arrow.values.frames import as_arrow
from frazil.catalog import LoadedTable
from frazil.commit.apply import now_millis
from frazil.errors import InvalidInput, ValidationException
from frazil.expr.building import column, from_numpy, to_numpy
from frazil.maintain.orphans.listing import (
    ListedFiles,
    Numbers,
    hidden_rule,
    list_files,
    with_times,
)
from frazil.maintain.orphans.locations import (
    Flags,
    KnownLocations,
    PrefixRule,
    below_path,
    flattened,
)
from frazil.maintain.orphans.orphan_checks import (
    check_place,
    metadata_directories,
    refuse_fast_clock,
    refuse_other_tables,
)
from frazil.maintain.procedure import MaintainedTable, ProcedureResult, newest_state
from frazil.maintain.progress import ProgressCallback, progress
from frazil.maintain.removal import delete_files, deleting_threads
from frazil.maintain.snapshots.expire_snapshots import check_gc
from frazil.maintain.snapshots.expired_files import statistics_of
from frazil.ops.arguments import GivenFrame, is_spark_frame
from frazil.scan.listing.reachable import reachable
from frazil.scan.manifests import (
    column_of,
    each,
    live,
    manifests_of,
    read_manifest,
    threads_for,
    threads_for_lists,
)
from frazil.scan.options import default_workers
from frazil.spec.manifest import ManifestFile
from frazil.spec.metadata import TableMetadata
from frazil.storage import Storage
from frazil.storage.locations import join

DAY = 86_400_000
YOUNG_MILLIS = 3 * DAY
MODES = ("ERROR", "IGNORE", "DELETE")
_NUMBER = re.compile(r"(?:.*/)?v?(\d+)[^/]*\.metadata\.json(?:\.gz)?")
_SHOWN = 20


@dataclass(frozen=True)
class OrphanRequest:
    """Hold the arguments of the procedure, times in ms since 1970."""

    older_than_ms: int | None = None
    location: str | None = None
    file_list_view: Any = None
    rule: PrefixRule = field(default_factory=PrefixRule)
    prefix_mismatch_mode: str = "ERROR"
    prefix_listing: bool = False
    allow_short_interval: bool = False


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class OrphanFilesResult(ProcedureResult):
    """List the orphan files. `orphan_file_location`: their locations, as Arrow text, those that
    could not be deleted included. `files_not_deleted`: how many these are; the log names them."""

    orphan_file_location: pa.Array = field(default_factory=lambda: column((), pa.string()))
    files_not_deleted: int = field(default=0, metadata={"ours": True})

    def to_arrow(self) -> pa.Table:
        """Return one row per orphan file."""
        return pa.table({"orphan_file_location": self.orphan_file_location})

    def __len__(self) -> int:
        return len(self.orphan_file_location)

    def __repr__(self) -> str:
        fate = "would be deleted" if self.dry_run else "deleted"
        stay = (
            f", {self.files_not_deleted:,} of them could not be" if self.files_not_deleted else ""
        )
        return f"OrphanFilesResult({len(self):,} orphan files {fate}{stay}, {self.bytes_removed:,} bytes, {self.seconds:.2f} seconds)"


def request_of(
    older_than_ms: int | None,
    location: str | None,
    file_list_view: GivenFrame | None,
    equal_schemes: Mapping[str, str] | None,
    equal_authorities: Mapping[str, str] | None,
    prefix_mismatch_mode: str | None,
    prefix_listing: bool,
    allow_short_interval: bool,
) -> OrphanRequest:
    """Check the arguments. Raises InvalidInput for times less than a day ago, unless short
    intervals are allowed, and unknown modes.
    """
    mode = str(prefix_mismatch_mode or "ERROR").upper()
    if mode not in MODES:
        raise InvalidInput(
            f"prefix_mismatch_mode is one of {', '.join(MODES)}, not {prefix_mismatch_mode!r}."
        )
    if (
        older_than_ms is not None
        and now_millis() - older_than_ms < DAY
        and not allow_short_interval
    ):
        raise InvalidInput(
            "Cannot remove orphan files with an interval less than 24 hours. Executing this procedure with a short interval may corrupt "
            "the table if other operations are happening at the same time.",
            hint="If no operation on the table is running, and none begins meanwhile, allow_short_interval=True takes any time.",
        )
    rule = PrefixRule(
        flattened("equal_schemes", equal_schemes), flattened("equal_authorities", equal_authorities)
    )
    return OrphanRequest(
        older_than_ms, location, file_list_view, rule, mode, prefix_listing, allow_short_interval
    )


def remove_orphan_files(
    table: MaintainedTable,
    request: OrphanRequest = OrphanRequest(),
    *,
    max_concurrent_deletes: int | None = None,
    dry_run: bool = False,
    callback: ProgressCallback | None = None,
) -> OrphanFilesResult:
    """Remove orphan files older than a time (default: three days ago); with `dry_run` only list
    them.

    Raises ValidationException when gc.enabled is false, where the location may hold files of
    another table, and where metadata names a file under another scheme or authority (mode ERROR);
    CorruptData when a file that a snapshot names cannot be read, since what it names in turn is
    unknown then.
    """
    started, threads = time.monotonic(), deleting_threads(max_concurrent_deletes)
    newest = newest_state(table, dry_run)
    check_gc(newest.metadata, "delete orphan files")
    place = check_place(newest.loaded, request.location)
    older_than = (
        now_millis() - YOUNG_MILLIS if request.older_than_ms is None else request.older_than_ms
    )
    search = _Search(newest, request, place, older_than)
    orphans = search.find(threads)
    newest = newest_state(table, dry_run)
    orphans = search.without_new(orphans, newest)
    if dry_run or not len(orphans.paths):
        return _result(orphans, dry_run, started)
    if not request.allow_short_interval:
        refuse_fast_clock(newest.loaded, now_millis())
    paths = _in_order(orphans.paths)
    with progress(len(paths), "orphan files deleted", callback) as shown:
        failed = delete_files(newest.storage, paths, threads, shown)
    deleted = (
        orphans
        if not failed
        else orphans.chosen(
            to_numpy(pc.invert(pc.is_in(orphans.paths, column(failed, pa.string()))))
        )
    )
    return replace(
        _result(orphans, False, started), files_not_deleted=len(failed), bytes_removed=deleted.size
    )


@dataclass(frozen=True, eq=False)
class _Orphans:
    """Hold the orphan files that were found, and their sizes in bytes where the listing has them."""

    paths: pa.Array
    sizes: pa.Array | None = None

    @property
    def size(self) -> int:
        return pc.sum(self.sizes).as_py() or 0 if self.sizes is not None else 0

    def chosen(self, flags: Flags) -> _Orphans:
        mask = from_numpy(flags)
        return _Orphans(
            self.paths.filter(mask), None if self.sizes is None else self.sizes.filter(mask)
        )


def _result(orphans: _Orphans, dry_run: bool, started: float) -> OrphanFilesResult:
    return OrphanFilesResult(
        orphan_file_location=orphans.paths,
        dry_run=dry_run,
        seconds=time.monotonic() - started,
        bytes_removed=orphans.size,
    )


class _Search:
    """Find the orphan files below one directory; remembers the files that the table's states name."""

    def __init__(self, table: MaintainedTable, request: OrphanRequest, place: str, older_than: int):
        self._table, self._request, self._place, self._older_than = (
            table,
            request,
            place,
            older_than,
        )
        self._known = KnownLocations(request.rule)
        self._snapshots: set[int] = set()

    def find(self, threads: int) -> _Orphans:
        """List the files, load the table again, and drop every file that it names."""
        loaded = self._table.loaded
        for files in reachable(
            loaded.metadata, loaded.storage, metadata_location=loaded.metadata_location or None
        ):
            self._known.add(files.paths)
        self._known.add(
            column([join(loaded.metadata.location, "metadata", "version-hint.text")], pa.string())
        )
        self._snapshots = set(loaded.metadata.snapshots.ids)
        unknown = [*self._listed(threads)]
        newest = self._table if self._table.backend is None else newest_state(self._table)
        self._add_new(newest.metadata, newest.loaded.metadata_location)
        candidates = _together([self._unknown(batch) for batch in unknown])
        del unknown
        refuse_other_tables(
            newest.loaded,
            self._place,
            _together([candidates, *self._metadata_beside(newest.loaded)]),
        )
        return self._old_ones(candidates)

    def without_new(self, candidates: _Orphans, newest: MaintainedTable) -> _Orphans:
        """Leave out the files that later commits have added to the table. Raises
        ValidationException for prefixes that do not match.
        """
        self._add_new(newest.metadata, newest.loaded.metadata_location)
        check_gc(newest.metadata, "delete orphan files")
        known, elsewhere = self._known.compare(candidates.paths)
        elsewhere |= ~known & self._of_other_stores(candidates.paths)
        orphans = ~known
        if elsewhere.any() and self._request.prefix_mismatch_mode != "DELETE":
            if self._request.prefix_mismatch_mode == "ERROR":
                raise self._prefix_mismatch_error(candidates.paths.filter(from_numpy(elsewhere)))
            orphans &= ~elsewhere
        return candidates if orphans.all() else candidates.chosen(orphans)

    def _prefix_mismatch_error(self, locations: pa.Array) -> ValidationException:
        own = self._table.metadata.location
        shown = [
            f"{path} (known as {', '.join(self._known.prefixes_of(path)) or own})"
            for path in locations[:_SHOWN].to_pylist()
        ]
        return ValidationException(
            "Unable to determine whether certain files are orphan. Metadata references files that match listed/provided files except for "
            f"authority/scheme: {'; '.join(shown)}",
            hint="Name equal ones by equal_schemes={'s3a,s3n': 's3'} and equal_authorities={'a,b': 'c'}. prefix_mismatch_mode='IGNORE' "
            "leaves these files, 'DELETE' deletes them, which cannot be taken back.",
            table=self._table.metadata.location,
        )

    def _of_other_stores(self, paths: pa.Array) -> Flags:
        """Mark files of a list under another scheme or authority than the directory that is cleaned
        up, where it has one.
        """
        rule, marked = self._request.rule, np.zeros(len(paths), np.bool_)
        ((own, _, _),) = rule.split(column([self._place], pa.string()))
        for prefix, _, here in rule.split(paths) if own and len(paths) else ():
            marked[slice(None) if here is None else here] = prefix != own
        return marked

    # --- what the table names

    def _add_new(self, metadata: TableMetadata, metadata_location: str) -> None:
        """Add the files that new snapshots name; manifests that were read before are not read
        again.
        """
        fresh = [s for s in metadata.snapshots if s.snapshot_id not in self._snapshots]
        storage, batches = self._table.storage, list[pa.Array]()
        threads = threads_for_lists(fresh, storage, default_workers())
        listed = each(lambda s: manifests_of(metadata, s, storage, keep=False), fresh, threads)
        for snapshot, manifests in zip(fresh, listed, strict=True):
            names = column([m.manifest_path for m in manifests], pa.string())
            known = self._known.compare(names)[0]
            new = [m for m, is_known in zip(manifests, known, strict=True) if not is_known]
            batches += list(
                each(
                    lambda m: _live_paths(storage, m),
                    new,
                    threads_for(new, storage, default_workers()),
                )
            )
            batches += [
                names,
                column([snapshot.manifest_list] if snapshot.manifest_list else [], pa.string()),
            ]
            self._snapshots.add(snapshot.snapshot_id)
        logged = [e.metadata_file for e in metadata.metadata_log]
        named = [
            *logged,
            *([metadata_location] if metadata_location else []),
            *statistics_of(metadata),
        ]
        for batch in (*batches, column(named, pa.string())):
            self._known.add(batch)

    # --- what is there

    def _listed(self, threads: int) -> Iterator[ListedFiles]:
        if self._request.file_list_view is not None:
            yield from map(self._unknown, listed_in(self._request.file_list_view, self._place))
            return
        hides, workers = hidden_rule(self._table.metadata), max(threads, default_workers())
        for batch in list_files(
            self._table.storage,
            self._place,
            hides,
            workers,
            self._request.prefix_listing,
            self._unless_known,
        ):
            yield self._unknown(batch) if batch.linked else batch

    def _metadata_beside(self, loaded: LoadedTable) -> Iterator[ListedFiles]:
        """Yield what the table does not name of the metadata outside of the directory that is
        cleaned up, which tells whose files are in it."""
        if self._request.file_list_view is None:
            hides = hidden_rule(loaded.metadata)
            for directory in metadata_directories(loaded, self._place):
                for batch in list_files(
                    loaded.storage, directory, hides, default_workers(), keep=self._unless_known
                ):
                    yield self._unknown(batch) if batch.linked else batch

    def _unless_known(self, batch: ListedFiles) -> ListedFiles:
        """Drop the files that the table names, in the thread that lists them. Batches with links
        stay: what these lead to becomes known.
        """
        return batch if batch.linked else self._unknown(batch)

    def _unknown(self, batch: ListedFiles) -> ListedFiles:
        """Keep the files that the table does not name, or names under another prefix."""
        if batch.linked:
            self._known.add(column(list(batch.linked), pa.string()))
        known, _ = self._known.compare(batch.paths)
        return batch.take(np.flatnonzero(~known)) if known.any() else replace(batch, linked=())

    def _old_ones(self, candidates: ListedFiles) -> _Orphans:
        files = with_times(self._table.storage, candidates)
        assert files.modified_ms is not None
        old = np.flatnonzero(files.modified_ms < self._older_than)
        sizes = None if files.sizes is None else from_numpy(files.sizes[old])
        return _Orphans(
            files.paths if len(old) == len(files) else files.paths.take(from_numpy(old)), sizes
        )


def _live_paths(storage: Storage, manifest: ManifestFile) -> pa.Array:
    return column_of(
        live(read_manifest(storage, manifest, ("status", "file_path"), keep=False)), "file_path"
    )


def _together(batches: Sequence[ListedFiles]) -> ListedFiles:
    some = [b for b in batches if len(b)]
    if not some:
        return ListedFiles(column((), pa.string()))
    times, sizes = [b.modified_ms for b in some], [b.sizes for b in some]
    return ListedFiles(pa.concat_arrays([b.paths for b in some]), _joined(times), _joined(sizes))


def _joined(parts: Sequence[Numbers | None]) -> Numbers | None:
    arrays = [part for part in parts if part is not None]
    return np.concatenate(arrays) if len(arrays) == len(parts) else None


def _in_order(paths: pa.Array) -> pa.Array:
    """Order files for deletion: metadata files last, the oldest of them first, so that a stale
    writer of a path table cannot take the number of a version for a new one."""
    names = pc.match_substring(paths, ".metadata.json")
    if not pc.any(names).as_py():
        return paths
    versions = paths.filter(names).to_pylist()
    numbers = {
        path: int(match[1]) if (match := _NUMBER.fullmatch(path)) else -1 for path in versions
    }
    return pa.concat_arrays(
        [
            paths.filter(pc.invert(names)),
            column(sorted(versions, key=lambda p: (numbers[p], p)), pa.string()),
        ]
    )


def listed_in(frame: GivenFrame, place: str) -> Iterator[ListedFiles]:
    """Yield those files of a frame with columns file_path and last_modified (a timestamp) whose
    paths lie below a directory, under whatever scheme and authority. Raises InvalidInput when a
    column is missing."""
    read = as_arrow(frame.toArrow() if is_spark_frame(frame) else frame)
    table = read if isinstance(read, pa.Table) else read.read_all()
    if missing := [
        name for name in ("file_path", "last_modified") if name not in table.column_names
    ]:
        raise InvalidInput(
            f"file_list_view has no column {missing[0]}.",
            hint="It needs file_path (string) and last_modified (timestamp).",
        )
    kind = table.schema.field("file_path").type
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
        raise InvalidInput(f"file_path of file_list_view is a string, not {kind}.")
    if not pa.types.is_timestamp(table.schema.field("last_modified").type):
        raise InvalidInput(
            f"last_modified of file_list_view is a timestamp, not {table.schema.field('last_modified').type}."
        )
    chosen = table.select(["file_path", "last_modified"]).drop_null()
    below = below_path(place)
    for batch in chosen.to_batches(max_chunksize=10_000):
        paths = batch["file_path"].cast(pa.string())
        inside = from_numpy(below(paths))
        modified_ms = (
            batch["last_modified"]
            .cast(pa.timestamp("ms", batch["last_modified"].type.tz), safe=False)
            .cast(pa.int64())
        )
        yield ListedFiles(
            paths.filter(inside), to_numpy(modified_ms.filter(inside)).astype(np.int64)
        )
