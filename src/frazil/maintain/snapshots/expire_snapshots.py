"""Expire snapshots: remove them from the metadata, then delete the files that only they reached
(Java's `expire_snapshots`).

The metadata is committed first. Files are deleted only after it is certain that this commit was
applied, and only files that the table, which is then loaded again, does not reach. After an unknown
outcome, or when the table is gone, every file stays. A process that dies between the two steps
leaves orphan files, which `remove_orphan_files` finds.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from frazil.catalog.own_files import OwnPlaces, own_places
from frazil.commit.actions import MetadataChange
from frazil.commit.apply import apply_updates, now_millis
from frazil.commit.done_once import without_marks
from frazil.errors import InvalidInput, ValidationException
from frazil.maintain.procedure import MaintainedTable, ProcedureResult, newest_state
from frazil.maintain.progress import ProgressCallback, progress
from frazil.maintain.removal import delete_files, deleting_threads
from frazil.maintain.snapshots.expired_files import NO_FILES, ExpiredFiles, FileSearch
from frazil.maintain.snapshots.retention import Expired, RetentionRequest, expired_in
from frazil.ops.arguments import number
from frazil.scan.manifests import each, manifests_of, threads_for_lists
from frazil.scan.options import default_workers
from frazil.spec.manifest import DataFileContent
from frazil.spec.metadata import TableMetadata
from frazil.spec.properties import GC_ENABLED
from frazil.spec.snapshot import Snapshot
from frazil.spec.updates import (
    RemovePartitionSpecs,
    RemoveSchemas,
    RemoveSnapshotRef,
    RemoveSnapshots,
    Update,
)
from frazil.storage import Storage

_OURS = {"ours": True}
_SHOWN = 20
_log = logging.getLogger("frazil.maintain")


class ExpiredIds(tuple[int, ...]):
    """Hold the ids of snapshots that expired; shown as their number, since they are many."""

    def __str__(self) -> str:
        return f"{len(self):,} snapshots"


@dataclass(frozen=True, kw_only=True, repr=False)
class ExpireSnapshotsResult(ProcedureResult):
    """Count the deleted files by kind: each `deleted_…_count` is a number of files, in a dry run of
    those that would be deleted. Deletion vectors count as position deletes. `snapshot_ids`, `refs`:
    the snapshots and refs that expired. `files_not_deleted`: files that the store could not delete.
    `files_elsewhere`: files that stay, since they lie outside of the table's own directories."""

    deleted_data_files_count: int = 0
    deleted_position_delete_files_count: int = 0
    deleted_equality_delete_files_count: int = 0
    deleted_manifest_files_count: int = 0
    deleted_manifest_lists_count: int = 0
    deleted_statistics_files_count: int = 0
    snapshot_ids: tuple[int, ...] = field(default=ExpiredIds(), metadata=_OURS)
    refs: tuple[str, ...] = field(default=(), metadata=_OURS)
    files_not_deleted: int = field(default=0, metadata=_OURS)
    files_elsewhere: int = field(default=0, metadata=_OURS)


@dataclass(frozen=True)
class ExpirePlan:
    """Hold the snapshots, refs and files that a state of the table loses. `updates` lead from
    `before` to `after`.
    """

    before: TableMetadata
    after: TableMetadata
    expired: Expired
    updates: tuple[Update, ...] = ()
    files: ExpiredFiles = NO_FILES
    elsewhere: int = 0

    def within(self, own: OwnPlaces, name: str) -> ExpirePlan:
        """Leave out the files outside of the table's own directories, which stay."""
        files, elsewhere = self.files.within(own)
        if elsewhere:
            shown = ", ".join(elsewhere[:_SHOWN]) + (", …" if len(elsewhere) > _SHOWN else "")
            _log.warning(
                "Expiry of %s leaves %d files outside of the table's own directories: %s (%s)",
                name,
                len(elsewhere),
                shown,
                own.why_not(elsewhere[0]),
            )
        return replace(self, files=files, elsewhere=len(elsewhere))

    def result(
        self, dry_run: bool, seconds: float, stay: frozenset[str] = frozenset()
    ) -> ExpireSnapshotsResult:
        """Count the files, without those that could not be deleted (`stay`)."""
        files = self.files

        def left(paths: Sequence[str]) -> int:
            return len(paths) - sum(p in stay for p in paths) if stay else len(paths)

        return ExpireSnapshotsResult(
            deleted_data_files_count=files.count(DataFileContent.DATA, stay),
            deleted_position_delete_files_count=files.count(DataFileContent.POSITION_DELETES, stay),
            deleted_equality_delete_files_count=files.count(DataFileContent.EQUALITY_DELETES, stay),
            deleted_manifest_files_count=left([path for path, _ in files.manifests]),
            deleted_manifest_lists_count=left(files.manifest_lists),
            deleted_statistics_files_count=left(files.statistics),
            snapshot_ids=ExpiredIds(self.expired.snapshot_ids),
            refs=self.expired.refs,
            files_not_deleted=len(stay),
            files_elsewhere=self.elsewhere,
            dry_run=dry_run,
            seconds=seconds,
            bytes_removed=files.size,
        )


def expire_snapshots(
    table: MaintainedTable,
    request: RetentionRequest = RetentionRequest(),
    *,
    max_concurrent_deletes: int | None = None,
    clean_expired_metadata: bool = False,
    dry_run: bool = False,
    callback: ProgressCallback | None = None,
) -> ExpireSnapshotsResult:
    """Expire the snapshots and refs that the request and the retention policies name; with
    `dry_run` only count them.

    Raises ValidationException when gc.enabled is false or a ref names an id that is to expire,
    CorruptData when files of a snapshot that stays cannot be read, CommitStateUnknownException.
    """
    started, threads = time.monotonic(), deleting_threads(max_concurrent_deletes)
    check_request(request)
    newest = newest_state(table, dry_run)
    check_gc(newest.metadata, "expire snapshots")
    now_ms = now_millis()
    search = FileSearch(newest.storage)
    planned = plan(newest, request, now_ms, clean_expired_metadata, search)
    own = own_places(newest.loaded) if planned.files.count_all else OwnPlaces(())
    if dry_run or not planned.updates:
        return planned.within(own, table.name).result(dry_run, time.monotonic() - started)
    done = _committed(newest, planned, request, now_ms, clean_expired_metadata, search).within(
        own, table.name
    )
    stay = _delete(newest, done.files, threads, callback)
    return done.result(False, time.monotonic() - started, stay)


def plan(
    table: MaintainedTable,
    request: RetentionRequest,
    now_ms: int,
    clean_expired_metadata: bool,
    search: FileSearch,
) -> ExpirePlan:
    """Plan the expiry for the state of the table that is loaded."""
    metadata = table.metadata
    before, after, expired, updates = _changed(
        table, metadata, request, now_ms, clean_expired_metadata
    )
    return ExpirePlan(
        before, after, expired, tuple(updates), search.find(before, after) if updates else NO_FILES
    )


def _changed(
    table: MaintainedTable,
    metadata: TableMetadata,
    request: RetentionRequest,
    now_ms: int,
    clean: bool,
) -> tuple[TableMetadata, TableMetadata, Expired, list[Update]]:
    expired = expired_in(metadata, request, now_ms)
    updates: list[Update] = [RemoveSnapshotRef(name) for name in expired.refs]
    for name in expired.refs:
        if metadata.refs[name].is_branch:
            updates += without_marks(metadata, name)
    if expired.snapshot_ids:
        updates.append(RemoveSnapshots(expired.snapshot_ids))
    after = apply_updates(metadata, updates, now_ms=now_ms) if updates else metadata
    if clean and (
        unused := without_unused(after, specs_in_use(after, list(after.snapshots), table.storage))
    ):
        updates += unused
        after = apply_updates(after, unused, now_ms=now_ms)
    return metadata, after, expired, updates


def _committed(
    table: MaintainedTable,
    planned: ExpirePlan,
    request: RetentionRequest,
    now_ms: int,
    clean: bool,
    search: FileSearch,
) -> ExpirePlan:
    """Commit the expiry, which is made again on the newest metadata at each attempt. Return the
    snapshots that expired, and those of their files that the table does not reach now."""
    attempts = [planned]

    def change(metadata: TableMetadata) -> Sequence[Update]:
        if metadata is planned.before:
            attempts.append(planned)
            return planned.updates
        check_gc(metadata, "expire snapshots")
        present_request = replace(
            request,
            snapshot_ids=tuple(
                i for i in request.snapshot_ids if metadata.snapshots.by_id(i) is not None
            ),
        )
        before, after, expired, updates = _changed(table, metadata, present_request, now_ms, clean)
        attempts.append(ExpirePlan(before, after, expired, tuple(updates)))
        return updates

    operation = table.begin()
    operation.stage(MetadataChange(change))
    operation.commit()
    last = attempts[-1]
    current = table.newest().metadata
    if not last.updates or current.table_uuid != last.before.table_uuid:
        return replace(last, files=NO_FILES)
    present_ids = set(current.snapshots.ids)
    # gc.enabled was set to false meanwhile: other tables may use the files
    shared = not GC_ENABLED.of(current.properties)
    # A snapshot that is there again shows that somebody restored an older metadata file: nothing is
    # certain then.
    if shared or any(i in present_ids for i in last.expired.snapshot_ids):
        return replace(last, files=NO_FILES)
    if last.expired == planned.expired:
        return replace(last, files=search.without_kept(planned.files, current))
    new_search = FileSearch(table.storage)
    return replace(
        last, files=new_search.without_kept(new_search.find(last.before, last.after), current)
    )


def _delete(
    table: MaintainedTable, files: ExpiredFiles, threads: int, callback: ProgressCallback | None
) -> frozenset[str]:
    """Delete files, data before the metadata that names them; return those that stay because they
    could not be deleted.
    """
    groups = (
        files.contents.column("file_path"),
        [path for path, _ in files.manifests],
        files.manifest_lists,
        files.statistics,
    )
    with progress(sum(map(len, groups)), "files of expired snapshots deleted", callback) as shown:
        return frozenset(
            path for group in groups for path in delete_files(table.storage, group, threads, shown)
        )


def check_request(request: RetentionRequest) -> None:
    """Check the arguments. Raises InvalidInput."""
    fewest = number("retain_last", request.retain_last)
    if fewest is not None and fewest < 1:
        raise InvalidInput(f"Number of snapshots to retain must be at least 1, cannot be: {fewest}")


def check_gc(metadata: TableMetadata, doing: str) -> None:
    """Check that files of the table may be deleted. Raises ValidationException when gc.enabled is
    false.
    """
    if not GC_ENABLED.of(metadata.properties):
        raise ValidationException(
            f"Cannot {doing}: GC is disabled (deleting files may corrupt other tables)",
            hint="Other tables may share the files of this one. If none does, set the table property gc.enabled to true.",
            table=metadata.location,
        )


# Find schemas and partition specs that no retained snapshot uses, for `clean_expired_metadata`.


def specs_in_use(
    metadata: TableMetadata, snapshots: Sequence[Snapshot], storage: Storage
) -> frozenset[int]:
    """Return the partition specs of the manifests of snapshots."""

    def of_one(snapshot: Snapshot) -> set[int]:
        return {m.partition_spec_id for m in manifests_of(metadata, snapshot, storage, keep=False)}

    threads = threads_for_lists(snapshots, storage, default_workers())
    return frozenset(
        spec_id for spec_ids in each(of_one, snapshots, threads) for spec_id in spec_ids
    )


def without_unused(metadata: TableMetadata, used_specs: frozenset[int]) -> list[Update]:
    """Return the updates that remove the schemas and specs that neither the table nor a snapshot of
    `metadata` uses.
    """
    specs = used_specs | {metadata.default_spec_id}
    schemas = (
        {s.schema_id for s in metadata.snapshots}
        | {metadata.current_schema_id}
        | _schemas_of_specs(metadata, specs)
    )
    unused_specs = tuple(s.spec_id for s in metadata.partition_specs if s.spec_id not in specs)
    unused_schemas = tuple(s.schema_id for s in metadata.schemas if s.schema_id not in schemas)
    updates: list[Update] = [RemovePartitionSpecs(unused_specs)] if unused_specs else []
    return [*updates, RemoveSchemas(unused_schemas)] if unused_schemas else updates


def _schemas_of_specs(metadata: TableMetadata, spec_ids: frozenset[int]) -> set[int]:
    """Return the newest schema of each column that a spec partitions by and that was dropped since:
    the types of its values are there.
    """
    newest_first = sorted(metadata.schemas, key=lambda s: -s.schema_id)
    sources = {
        f.source_id for s in metadata.partition_specs if s.spec_id in spec_ids for f in s.fields
    }
    dropped = sources - set(metadata.schema().by_id)
    return {
        next((s.schema_id for s in newest_first if i in s.by_id), metadata.current_schema_id)
        for i in dropped
    }
