"""Find metadata that needs maintenance: many or unsorted manifests, snapshots beyond retention,
files left behind, old statistics.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from frazil.codec.single_value import from_bytes
from frazil.commit.apply import now_millis
from frazil.maintain.advice.finding import (
    Finding,
    ProcedureCall,
    saving_text,
)
from frazil.maintain.advice.table_state import Flags, LiveFiles
from frazil.maintain.orphans.remove_orphan_files import YOUNG_MILLIS
from frazil.maintain.snapshots.retention import RetentionRequest, expired_in
from frazil.maintain.stream_upkeep.upkeep import last_run, last_version, version_number
from frazil.scan.manifests import is_data
from frazil.spec.manifest import ManifestFile
from frazil.spec.metadata import TableMetadata
from frazil.spec.properties import (
    GC_ENABLED,
    MANIFEST_MERGE,
    MANIFEST_MIN_COUNT_TO_MERGE,
    MANIFEST_TARGET_SIZE,
    METADATA_DELETE_AFTER_COMMIT,
)
from frazil.spec.shown import count_text, size_text

ORPHANS = "orphans"
"""The finding, and the name under which the table records when `auto` or a stream's task has looked
for orphan files.
"""
MANY_MANIFESTS = 10
DEEPEST = 4.0
MANY_SNAPSHOTS = 10
MANY_OLD_FILES = 100
CHANGED_SHARE = 0.2
"""Share of the rows that came or went since statistics were computed, from which these count as
old.
"""
_BYTES_PER_SECOND = 20e6


def manifests(state: LiveFiles, compactions: Mapping[str, Flags]) -> list[Finding]:
    """Find manifests that are many more than the target size needs, or that share partitions with
    many others: one finding for each partition spec, since its manifests are rewritten together;
    the current spec first. `compactions`: the data files that each cure of another finding
    rewrites, by its kind; their manifests are rewritten with them."""
    current = state.metadata.default_spec_id
    others = sorted({m.partition_spec_id for m in state.manifests} - {current})
    findings = []
    for spec_id in (current, *others):
        if (finding := _manifests_of(state, spec_id)) is not None:
            own = state.numbers("spec_id") == spec_id
            left = {
                kind: _manifests_of(state, spec_id, files)
                for kind, files in compactions.items()
                if (files & own).any()
            }
            findings.append(replace(finding, left_after=left))
    return findings


def _manifests_of(state: LiveFiles, spec_id: int, rewritten: Flags | None = None) -> Finding | None:
    """Find the manifests of a spec; `rewritten`: those that are left when these data files are
    replaced by new ones, in one manifest.
    """
    properties, is_current = state.metadata.properties, spec_id == state.metadata.default_spec_id
    data = [
        (n, m)
        for n, m in enumerate(state.manifests)
        if is_data(m) and m.has_live_files and m.partition_spec_id == spec_id
    ]
    if rewritten is not None:
        staying = set(np.unique(state.numbers("manifest")[~rewritten]).tolist())
        data = [(n, m) for n, m in data if n in staying]
    count = len(data) + (rewritten is not None and is_current)
    if (
        rewritten is not None
        and MANIFEST_MERGE.of(properties)
        and count >= MANIFEST_MIN_COUNT_TO_MERGE.of(properties)
    ):
        return None  # the commit of the new files merges them
    size, target = sum(m.manifest_length for _, m in data), MANIFEST_TARGET_SIZE.of(properties)
    wanted = max(1, math.ceil(size / target))
    depth = _depth(state, spec_id, [m for _, m in data])
    many, mixed = (
        count >= MANY_MANIFESTS and count > 3 * wanted,
        depth >= DEEPEST and count >= MANY_MANIFESTS,
    )
    if not many and not mixed:
        return None
    words = f"; a partition is spread over {depth:.3g} of them" if mixed else ""
    which = (
        "the data files"
        if is_current
        else f"the data files of the earlier partition spec {spec_id}"
    )
    saved = (count - wanted) * state.open_seconds / state.workers
    return Finding(
        "manifests",
        f"{count:,} manifests list {which}, where {wanted:,} would do{words}.",
        {"manifests": count, "bytes": size, "manifests_after": wanted, "depth": depth},
        2 * size,
        size / _BYTES_PER_SECOND / 60,
        f"planning opens {count_text(wanted, 'manifest')} instead of {count:,}{saving_text(saved)}",
        saved,
        ProcedureCall("rewrite_manifests", {} if is_current else {"spec_id": spec_id}),
        spec_id=spec_id,
    )


def _depth(state: LiveFiles, spec_id: int, data: Iterable[ManifestFile]) -> float:
    """Count over how many of these manifests of a spec a value of the first partition field is
    spread, on average.
    """
    metadata, spec = state.metadata, state.metadata.spec_by_id(spec_id)
    if not spec.fields or spec.fields[0].source_id not in metadata.schema().by_id:
        return 0.0
    type_ = spec.partition_type(metadata.schema()).fields[0].field_type
    lows, highs = list[Any](), list[Any]()
    for m in data:
        if m.partitions:
            first = m.partitions[0]
            if first.lower_bound is not None and first.upper_bound is not None:
                lows.append(from_bytes(type_, first.lower_bound))
                highs.append(from_bytes(type_, first.upper_bound))
    if not lows:
        return 0.0
    lows.sort()
    highs.sort()
    return sum(bisect_right(lows, value) - bisect_left(highs, value) for value in lows) / len(lows)


def snapshots(state: LiveFiles) -> Finding | None:
    """Find snapshots that the table's retention no longer keeps."""
    metadata = state.metadata
    if not GC_ENABLED.of(metadata.properties):
        return None
    expired = set(expired_in(metadata, RetentionRequest(), now_millis()).snapshot_ids)
    if len(expired) < MANY_SNAPSHOTS:
        return None
    freed = _freed(metadata, expired)
    files = (
        f", and frees about {size_text(freed)} of data and delete files that only these snapshots need"
        if freed
        else ""
    )
    return Finding(
        "snapshots",
        f"{len(expired):,} of {len(metadata.snapshots):,} snapshots are older than the table's retention.",
        {"snapshots": len(metadata.snapshots), "expirable": len(expired), "bytes_freed": freed},
        0,
        len(expired) * 0.002 / 60,
        f"keeps table metadata small{files}",
        0.0,
        ProcedureCall("expire_snapshots", {"dry_run": False}),
    )


def _freed(metadata: TableMetadata, expired: Collection[int]) -> int:
    """Estimate the bytes of files that expiry frees: what the successors of expired snapshots have
    removed, and what expired snapshots that belong to no branch and no tag have added."""
    named: set[int] = set()
    for ref in metadata.refs.values():
        snapshot = metadata.snapshots.by_id(ref.snapshot_id)
        while snapshot is not None and snapshot.snapshot_id not in named:
            named.add(snapshot.snapshot_id)
            snapshot = metadata.snapshots.by_id(snapshot.parent_snapshot_id)
    removed = (
        s for s in metadata.snapshots if s.snapshot_id in named and s.parent_snapshot_id in expired
    )
    added = (
        s for s in metadata.snapshots if s.snapshot_id in expired and s.snapshot_id not in named
    )
    return sum(_number(s.summary, "removed-files-size") for s in removed) + sum(
        _number(s.summary, "added-files-size") for s in added
    )


def orphans(state: LiveFiles, metadata_location: str) -> Finding | None:
    """Estimate how many old metadata files lie about: versions that the metadata log no longer
    names. Nothing is listed.

    What was written before the table's files were last looked through does not count, since it was
    removed then.
    """
    metadata = state.metadata
    number = version_number(metadata_location)
    if (
        number is None
        or METADATA_DELETE_AFTER_COMMIT.of(metadata.properties)
        or not GC_ENABLED.of(metadata.properties)
    ):
        return None
    # Young files were left then, so that what a run has seen counts only until they are old enough.
    is_recent = now_millis() - (last_run(metadata, ORPHANS) or 0) < YOUNG_MILLIS
    left = number - max(
        len(metadata.metadata_log), last_version(metadata, ORPHANS) if is_recent else 0
    )
    if left < MANY_OLD_FILES:
        return None
    return Finding(
        ORPHANS,
        f"About {left:,} old metadata files, which the table no longer names, are left in its directory (estimated, not listed).",
        {"metadata_files": left},
        0,
        left * 0.001 / 60,
        "frees their space; write.metadata.delete-after-commit.enabled=true removes them at each commit",
        0.0,
        ProcedureCall("remove_orphan_files"),
    )


def table_stats(state: LiveFiles) -> Finding | None:
    """Find column statistics of an older snapshot, since which many rows came or went."""
    newest = _newest(state, state.metadata.statistics)
    if newest is None or newest[1] < CHANGED_SHARE:
        return None
    file, share, _ = newest
    schema = state.metadata.schema()
    ids = {i for blob in file.get("blob-metadata", ()) for i in blob.get("fields", ())}
    columns = [
        name
        for i in sorted(ids & set(schema.by_id))
        if (name := schema.find_column_name(i)) is not None
    ]
    minutes = state.file_bytes / (50e6 * state.workers) / 60
    return Finding(
        "table_stats",
        f"Column statistics are old: {share:.0%} of the rows came or went since snapshot {file['snapshot-id']}.",
        {"changed_share": share, "columns": len(columns)},
        state.file_bytes,
        minutes,
        "planners that order joins by numbers of distinct values see current numbers",
        0.0,
        ProcedureCall("compute_table_stats", {"columns": columns} if columns else {}),
    )


def partition_stats(state: LiveFiles) -> Finding | None:
    """Find partition statistics of an older snapshot, since which many rows came or went."""
    newest = _newest(state, state.metadata.partition_statistics)
    if newest is None or newest[1] < CHANGED_SHARE:
        return None
    file, share, behind = newest
    size = sum(
        m.manifest_length for m in state.manifests if m.added_snapshot_id != file["snapshot-id"]
    )
    return Finding(
        "partition_stats",
        f"Partition statistics are {count_text(behind, 'snapshot')} old: {share:.0%} of the rows came or went since.",
        {"changed_share": share, "snapshots_behind": behind},
        size,
        size / _BYTES_PER_SECOND / 60,
        "planners see the current partitions; only manifests added since are read",
        0.0,
        ProcedureCall("compute_partition_stats"),
    )


def _newest(
    state: LiveFiles, files: tuple[dict[str, Any], ...]
) -> tuple[dict[str, Any], float, int] | None:
    """Find the newest statistics file in the history of the current snapshot: with the share of
    rows that changed since, and the number of snapshots; None where there is no file or it is that
    of the current snapshot."""
    by_snapshot = {f["snapshot-id"]: f for f in files}
    changed = 0
    for behind, s in enumerate(state.metadata.ancestors(state.snapshot)):
        if s.snapshot_id in by_snapshot:
            return (
                (by_snapshot[s.snapshot_id], changed / max(1, state.rows), behind)
                if behind
                else None
            )
        if s.operation != "replace":
            changed += sum(_number(s.summary, key) for key in ("added-records", "deleted-records"))
    return None


def _number(summary: Mapping[str, str], key: str) -> int:
    text = summary.get(key, "0")
    return int(text) if text.isdigit() else 0
