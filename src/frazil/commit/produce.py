"""Produce a snapshot from a change of files: write new manifests, filter and merge old ones, write
the manifest list and the summary (Java SnapshotProducer)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from frazil.codec.single_value import partition_path
from frazil.commit.context import Context, SnapshotState
from frazil.commit.filtering import (
    DeleteRemoval,
    FilterResult,
    Removal,
    filter_data,
    filter_deletes,
)
from frazil.commit.manifests import ADDED, check_known_specs, merge, numbered, write_list
from frazil.commit.summary import TOTALS, SummaryBuilder, with_totals
from frazil.errors import ValidationError, ValidationException
from frazil.scan.manifests import manifests_of, read_manifest
from frazil.spec import updates as u
from frazil.spec.manifest import (
    DataFile,
    DataFileContent,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
)
from frazil.spec.metadata import TableMetadata, schema_of_spec
from frazil.spec.properties import SUMMARY_PARTITION_LIMIT, WAP_ENABLED, refuse_encryption
from frazil.spec.snapshot import MAIN_BRANCH, Snapshot, SnapshotRef, Summary
from frazil.spec.version import VERSION, WRITER
from frazil.storage.base import Storage

# a key of Java's summaries; `scan.bounds.trusted` relies on it
_WRITTEN_BY = {"iceberg-version": f"{WRITER} {VERSION}"}


@dataclass(frozen=True)
class SnapshotTarget:
    """Name where a snapshot goes. `stage_only`: the snapshot is added, but no branch moves to it. A
    `wap_id` has the same effect if the table has write.wap.enabled."""

    branch: str = MAIN_BRANCH
    properties: Mapping[str, str] = field(default_factory=dict)
    stage_only: bool = False
    wap_id: str | None = None


@dataclass(frozen=True)
class Change:
    """Describe what a snapshot changes in the files of its parent. `data_sequence_number`: that of
    added data files; None: the new snapshot's."""

    operation: str
    added: Sequence[DataFile] = ()
    added_deletes: Sequence[DataFile] = ()
    removal: Removal = Removal()
    delete_removal: DeleteRemoval = DeleteRemoval()
    data_sequence_number: int | None = None
    merge: bool = True
    properties: Mapping[str, str] = field(default_factory=dict)
    even_if_empty: bool = False
    """Make a snapshot even if no file changes."""


def parent_of(metadata: TableMetadata, branch: str) -> Snapshot | None:
    """Return the parent of a new snapshot on `branch`: its head, or main's head for a branch that
    this write creates. Raises ValidationError for a tag."""
    ref = metadata.refs.get(branch)
    if ref is not None and not ref.is_branch:
        raise ValidationError(
            f"{branch} is a tag, not a branch. Tags cannot be targets for producing snapshots",
            table=metadata.location,
            ref=branch,
        )
    return metadata.branch_head(branch)


def is_staged(metadata: TableMetadata, target: SnapshotTarget) -> bool:
    wap = target.wap_id is not None and WAP_ENABLED.of(metadata.properties)
    if wap and target.branch != MAIN_BRANCH:
        raise ValidationError(
            f"Cannot set both WAP ID and branch, but got ID [{target.wap_id}] and branch [{target.branch}]"
        )
    return wap or target.stage_only


def produce(
    change: Change, target: SnapshotTarget, metadata: TableMetadata, context: Context
) -> Sequence[u.Update]:
    """Return the updates that add the snapshot of `change` to the target; none when it changes no
    file (unless `even_if_empty`).
    """
    refuse_encryption(metadata)
    check_known_specs(metadata, {f.spec_id for f in (*change.added, *change.added_deletes)})
    _check_delete_files(change.added_deletes, metadata)
    staged = is_staged(metadata, target)
    parent = parent_of(metadata, target.branch)
    state = context.state(metadata)
    if context.only_new:
        _write_new(change, state, metadata)
        return ()
    # The new list takes the place of the parent's in the cache (`keep_list`).
    old = manifests_of(metadata, parent, context.storage, keep=False) if parent is not None else ()
    data = filter_data(
        [m for m in old if m.content == ManifestContent.DATA],
        change.removal,
        metadata.schema(),
        state.writer,
        metadata,
        state.filtered,
    )
    deletes = _filtered_deletes(
        [m for m in old if m.content == ManifestContent.DELETES], data, change, state, metadata
    )
    if not (
        change.even_if_empty
        or change.added
        or change.added_deletes
        or data.removed
        or change.delete_removal.files
    ):
        return ()
    _write_new(change, state, metadata)
    manifests, replaced = _assembled(change, state, data, deletes, metadata)
    summary = _summary(change, target, state, data, deletes, metadata)
    summary |= _manifest_counts(
        manifests, state.snapshot_id, data.replaced + deletes.replaced + replaced
    )
    if change.operation == "replace":
        _check_replace(summary)
    snapshot = _snapshot(summary, manifests, parent, state, metadata, context, target)
    updates: list[u.Update] = (
        []
        if staged
        else [
            u.SetSnapshotRef(target.branch, _moved(metadata, target.branch, snapshot.snapshot_id))
        ]
    )
    return [u.AddSnapshot(snapshot), *updates]


def produce_rearranged(
    manifests: Sequence[ManifestFile],
    counts: Mapping[str, str],
    target: SnapshotTarget,
    metadata: TableMetadata,
    context: Context,
) -> Sequence[u.Update]:
    """Return the updates that add a snapshot with the files of its parent in other manifests.
    `counts`: what its summary says of them.
    """
    parent, state = parent_of(metadata, target.branch), context.state(metadata)
    summary = {**target.properties, "operation": "replace", **counts}
    snapshot = _snapshot(summary, manifests, parent, state, metadata, context, target)
    return [
        u.AddSnapshot(snapshot),
        u.SetSnapshotRef(target.branch, _moved(metadata, target.branch, snapshot.snapshot_id)),
    ]


def _check_delete_files(files: Sequence[DataFile], metadata: TableMetadata) -> None:
    """Check that the format version allows these delete files: another writer may have upgraded the
    table since they were written.
    """
    version, seen = metadata.format_version, set[str]()
    facts: dict[str, Any] = {
        "table": metadata.location,
        "hint": "Load the table again and repeat the operation.",
    }
    for file in files:
        if version < 2:
            raise ValidationException(
                "Deletes are supported in V2 and above",
                file=file.file_path,
                table=metadata.location,
            )
        if version == 2 and file.is_dv:
            raise ValidationException(
                f"Must not use DVs for position deletes in V2: {file.file_path}",
                file=file.file_path,
                **facts,
            )
        if version >= 3 and file.content == DataFileContent.POSITION_DELETES and not file.is_dv:
            raise ValidationException(
                f"Must use DVs for position deletes in V{version}: {file.file_path}",
                file=file.file_path,
                **facts,
            )
        if file.is_dv:
            data_file = file.referenced_data_file or ""
            if data_file in seen:
                text = f"Cannot add two deletion vectors for one data file: {data_file}"
                raise ValidationError(text, file=data_file, table=metadata.location)
            seen.add(data_file)


def _filtered_deletes(
    manifests: Sequence[ManifestFile],
    data: FilterResult,
    change: Change,
    state: SnapshotState,
    metadata: TableMetadata,
) -> FilterResult:
    """Filter removed and obsolete delete files out of the delete manifests; a fast append leaves
    these as they are.

    The results are not kept for the next attempt, since other commits decide which delete files are
    older than all data.
    """
    if not change.merge:
        return FilterResult(list(manifests))
    sequence_numbers = [
        m.min_sequence_number
        for m in data.manifests
        if m.min_sequence_number is not None and m.has_live_files
    ]
    if change.added and change.data_sequence_number is not None:
        # younger deletes apply to these files as well
        sequence_numbers.append(change.data_sequence_number)
    named, removal = change.delete_removal, change.removal
    everything = replace(
        named,
        partitions=named.partitions | removal.partitions,
        row_filter=removal.row_filter,
        case_sensitive=removal.case_sensitive,
        zone=removal.zone,
        before_sequence_number=min([metadata.last_sequence_number, *sequence_numbers]),
        removed=tuple(data.removed),
        vectors=tuple(f for f in change.added_deletes if f.is_dv),
    )
    return filter_deletes(manifests, everything, state.writer, metadata)


def _write_new(change: Change, state: SnapshotState, metadata: TableMetadata) -> None:
    """Write the manifests of the new files in the first attempt; later attempts reuse them while
    the files are the same.
    """
    if state.new_data is None:
        state.new_data = _written(
            change.added, change.data_sequence_number, ManifestContent.DATA, state
        )
    deletes = tuple((f.file_path, f.content_offset) for f in change.added_deletes)
    if state.new_deletes is None or state.new_deletes_of != deletes:
        state.new_deletes = _written(change.added_deletes, None, ManifestContent.DELETES, state)
        state.new_deletes_of = deletes


def _written(
    files: Sequence[DataFile],
    sequence_number: int | None,
    content: ManifestContent,
    state: SnapshotState,
) -> list[ManifestFile]:
    by_spec: dict[int, dict[tuple[str, int | None], DataFile]] = {}
    for f in files:
        by_spec.setdefault(f.spec_id, {}).setdefault((f.file_path, f.content_offset), f)
    manifests: list[ManifestFile] = []
    for spec_id, group in by_spec.items():
        plain = (
            f if f.first_row_id is None else replace(f, first_row_id=None) for f in group.values()
        )
        entries = [
            ManifestEntry(ADDED, f, state.snapshot_id, _sequence_number(f, sequence_number))
            for f in plain
        ]
        manifests += state.writer.write_rolling(entries, spec_id, content)
    return manifests


def _sequence_number(f: DataFile, of_data: int | None) -> int | None:
    """Return the sequence number that an added file gets (None: the snapshot's): a delete file
    written anew from older ones has its own.
    """
    return of_data if f.content == DataFileContent.DATA else f.data_sequence_number


def _assembled(
    change: Change,
    state: SnapshotState,
    data: FilterResult,
    deletes: FilterResult,
    metadata: TableMetadata,
) -> tuple[list[ManifestFile], int]:
    """Return all manifests of the new snapshot, data before deletes, new before old, and how many
    old ones were replaced by merging.
    """
    own_id = state.snapshot_id
    new_data, new_deletes = state.new_data or (), state.new_deletes or ()
    data_manifests = [
        m for m in (*new_data, *data.manifests) if m.has_live_files or m.added_snapshot_id == own_id
    ]
    delete_manifests = [
        m
        for m in (*new_deletes, *deletes.manifests)
        if m.has_live_files or m.added_snapshot_id == own_id
    ]
    if not change.merge:
        return [*data_manifests, *delete_manifests], 0
    merged, replaced = merge(data_manifests, state.writer, metadata, state.merged)
    merged_deletes, replaced_deletes = merge(delete_manifests, state.writer, metadata, state.merged)
    return [*merged, *merged_deletes], replaced + replaced_deletes


def _summary(
    change: Change,
    target: SnapshotTarget,
    state: SnapshotState,
    data: FilterResult,
    deletes: FilterResult,
    metadata: TableMetadata,
) -> dict[str, str]:
    def path(spec_id: int, values: tuple[object, ...]) -> str:
        spec = metadata.spec_by_id(spec_id)
        return partition_path(spec, schema_of_spec(metadata, spec), values)

    builder = SummaryBuilder(path)
    builder.files({f.file_path: f for f in change.added}.values(), added=True)
    builder.files(
        {(f.file_path, f.content_offset): f for f in change.added_deletes}.values(), added=True
    )
    builder.files(data.removed, added=False)
    builder.files(deletes.removed, added=False)
    builder.duplicates = data.duplicates + deletes.duplicates
    properties = {"operation": change.operation, **target.properties, **change.properties}
    if target.wap_id is not None and is_staged(metadata, target) and not target.stage_only:
        properties["wap.id"] = target.wap_id
    return {
        **properties,
        "operation": change.operation,
        **builder.build(SUMMARY_PARTITION_LIMIT.of(metadata.properties)),
    }


def _manifest_counts(
    manifests: Sequence[ManifestFile], snapshot_id: int, replaced: int
) -> dict[str, str]:
    created = sum(m.added_snapshot_id == snapshot_id for m in manifests)
    return {
        "manifests-created": str(created),
        "manifests-kept": str(len(manifests) - created),
        "manifests-replaced": str(replaced),
    }


def _check_replace(summary: Mapping[str, str]) -> None:
    added, replaced = (
        int(summary.get("added-records", "0")),
        int(summary.get("deleted-records", "0")),
    )
    if added > replaced:
        raise ValidationException(
            f"Invalid REPLACE operation: {added} added records > {replaced} replaced records"
        )


def _snapshot(
    summary: Mapping[str, str],
    manifests: Sequence[ManifestFile],
    parent: Snapshot | None,
    state: SnapshotState,
    metadata: TableMetadata,
    context: Context,
    target: SnapshotTarget,
) -> Snapshot:
    version = metadata.format_version
    sequence_number = metadata.last_sequence_number + 1 if version > 1 else 0
    first_row_id = (metadata.next_row_id or 0) if version >= 3 else None
    listed, following = numbered(
        manifests, sequence_number, first_row_id, metadata, context.storage
    )
    location = write_list(
        state.writer, listed, context.attempt, parent, sequence_number, first_row_id
    )
    state.used = {location, *(m.manifest_path for m in listed)}
    logged = metadata.snapshot_log[-1].timestamp_ms if metadata.snapshot_log else 0
    return Snapshot(
        snapshot_id=state.snapshot_id,
        timestamp_ms=max(context.now_ms, metadata.last_updated_ms, logged),
        manifest_list=location,
        parent_snapshot_id=None if parent is None else parent.snapshot_id,
        sequence_number=sequence_number,
        summary=Summary(
            {
                **with_totals(summary, totals_before(parent, metadata, context.storage)),
                **context.environment,
                **_WRITTEN_BY,
            }
        ),
        schema_id=metadata.current_schema_id,
        first_row_id=first_row_id,
        added_rows=None if following is None or first_row_id is None else following - first_row_id,
    )


def _moved(metadata: TableMetadata, branch: str, snapshot_id: int) -> SnapshotRef:
    held = metadata.refs.get(branch)
    return SnapshotRef(snapshot_id) if held is None else replace(held, snapshot_id=snapshot_id)


# Count the totals of a snapshot whose summary lacks them (old or other writers) from its manifests,
# once: the next summary has them.

_COLUMNS = (
    "status",
    "content",
    "file_format",
    "record_count",
    "file_size_in_bytes",
    "content_size_in_bytes",
)


def totals_before(
    parent: Snapshot | None, metadata: TableMetadata, storage: Storage
) -> Mapping[str, str] | None:
    """Return the parent's totals from its summary, and count those that it lacks. None: there is no
    parent.
    """
    if parent is None:
        return None
    missing = [name for name, _, _ in TOTALS if not parent.summary.get(name, "").isdigit()]
    if not missing:
        return parent.summary
    counted = _count(parent, metadata, storage)
    return {**parent.summary, **{name: str(counted[name]) for name in missing}}


def _count(snapshot: Snapshot, metadata: TableMetadata, storage: Storage) -> dict[str, int]:
    totals = dict.fromkeys((name for name, _, _ in TOTALS), 0)
    for manifest in manifests_of(metadata, snapshot, storage):
        table = read_manifest(storage, manifest, columns=_COLUMNS)
        live = table.filter(pc.not_equal(table["status"], int(ManifestEntryStatus.DELETED)))
        content = live["content"]
        totals["total-files-size"] += _sum(
            pc.coalesce(live["content_size_in_bytes"], live["file_size_in_bytes"])
        )
        for kind, files, rows in (
            (DataFileContent.DATA, "total-data-files", "total-records"),
            (DataFileContent.POSITION_DELETES, "total-delete-files", "total-position-deletes"),
            (DataFileContent.EQUALITY_DELETES, "total-delete-files", "total-equality-deletes"),
        ):
            of_kind = live.filter(pc.equal(content, int(kind)))
            totals[files] += len(of_kind)
            totals[rows] += _sum(of_kind["record_count"])
    return totals


def _sum(column: pa.ChunkedArray) -> int:
    return int(pc.sum(column).as_py() or 0)
