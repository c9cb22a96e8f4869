"""Find metadata that needs maintenance: many or unsorted manifests, snapshots beyond retention, files left behind, old statistics."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Mapping
from typing import Any

from frazil.codec.single_value import from_bytes
from frazil.commit.apply import now_millis
from frazil.maintain.advice.finding import OPEN_SECONDS, Cure, Finding, count_text, size_text
from frazil.maintain.advice.table_state import AilingTable
from frazil.maintain.last_run import last_run, last_version, version_number
from frazil.maintain.remove_orphan_files import YOUNG_MILLIS
from frazil.maintain.retention import RetentionRequest, expired_in
from frazil.scan.manifests import is_data
from frazil.spec.properties import GC_ENABLED, MANIFEST_TARGET_SIZE, METADATA_DELETE_AFTER_COMMIT

ORPHANS = "orphans"
"""The finding, and the name under which the table records when `auto` or a stream's task has looked for orphan files."""
MANY_MANIFESTS = 10
DEEPEST = 4.0
MANY_SNAPSHOTS = 10
MANY_OLD_FILES = 100
CHANGED_SHARE = 0.2
"""Share of the rows that came or went since statistics were computed, from which these count as old."""
_BYTES_PER_SECOND = 20e6


def manifests(state: AilingTable) -> list[Finding]:
    """Find manifests that are many more than the target size needs, or that share partitions with many others: one finding for each
    partition spec, since its manifests are rewritten together; the current spec first."""
    current = state.metadata.default_spec_id
    others = sorted({m.partition_spec_id for m in state.manifests} - {current})
    return [finding for spec_id in (current, *others) if (finding := _manifests_of(state, spec_id)) is not None]


def _manifests_of(state: AilingTable, spec_id: int) -> Finding | None:
    data = [m for m in state.manifests if is_data(m) and m.has_live_files and m.partition_spec_id == spec_id]
    size, target = sum(m.manifest_length for m in data), MANIFEST_TARGET_SIZE.of(state.metadata.properties)
    wanted = max(1, math.ceil(size / target))
    depth = _depth(state, spec_id)
    many, mixed = len(data) >= MANY_MANIFESTS and len(data) > 3 * wanted, depth >= DEEPEST and len(data) >= MANY_MANIFESTS
    if not many and not mixed:
        return None
    words = f"; a partition is spread over {depth:.3g} of them" if mixed else ""
    is_current = spec_id == state.metadata.default_spec_id
    which = "the data files" if is_current else f"the data files of the earlier partition spec {spec_id}"
    return Finding(
        "manifests", f"{len(data):,} manifests list {which}, where {wanted:,} would do{words}.",
        {"manifests": len(data), "bytes": size, "manifests_after": wanted, "depth": depth}, 2 * size, size / _BYTES_PER_SECOND / 60,
        f"planning opens {count_text(wanted, 'manifest')} instead of {len(data):,}", (len(data) - wanted) * OPEN_SECONDS / state.workers,
        Cure("rewrite_manifests", {} if is_current else {"spec_id": spec_id}), spec_id=spec_id,
    )  # fmt: skip


def _depth(state: AilingTable, spec_id: int) -> float:
    """Count over how many manifests of a spec a value of the first partition field is spread, on average."""
    metadata, spec = state.metadata, state.metadata.spec_by_id(spec_id)
    if not spec.fields or spec.fields[0].source_id not in metadata.schema().by_id:
        return 0.0
    type_ = spec.partition_type(metadata.schema()).fields[0].field_type
    lows, highs = list[Any](), list[Any]()
    for m in state.manifests:
        if is_data(m) and m.partition_spec_id == spec.spec_id and m.partitions:
            first = m.partitions[0]
            if first.lower_bound is not None and first.upper_bound is not None:
                lows.append(from_bytes(type_, first.lower_bound))
                highs.append(from_bytes(type_, first.upper_bound))
    if not lows:
        return 0.0
    lows.sort()
    highs.sort()
    return sum(bisect_right(lows, value) - bisect_left(highs, value) for value in lows) / len(lows)


def snapshots(state: AilingTable) -> Finding | None:
    """Find snapshots that the table's retention no longer keeps."""
    metadata = state.metadata
    if not GC_ENABLED.of(metadata.properties):
        return None
    expired = set(expired_in(metadata, RetentionRequest(), now_millis()).snapshot_ids)
    gone = [s for s in metadata.snapshots if s.snapshot_id in expired]
    if len(gone) < MANY_SNAPSHOTS:
        return None
    freed = sum(_number(s.summary, "removed-files-size") for s in gone)
    return Finding(
        "snapshots", f"{len(gone):,} of {len(metadata.snapshots):,} snapshots are older than the table's retention.",
        {"snapshots": len(metadata.snapshots), "expirable": len(gone), "bytes_freed": freed}, 0, len(gone) * 0.002 / 60,
        f"frees about {size_text(freed)} of data files that only these snapshots need, and keeps table metadata small", 0.0,
        Cure("expire_snapshots", {"dry_run": False}),
    )  # fmt: skip


def orphans(state: AilingTable, metadata_location: str) -> Finding | None:
    """Estimate how many old metadata files lie about: versions that the metadata log no longer names. Nothing is listed.

    What was written before the table's files were last looked through does not count, since it was removed then.
    """
    metadata = state.metadata
    number = version_number(metadata_location)
    if number is None or METADATA_DELETE_AFTER_COMMIT.of(metadata.properties) or not GC_ENABLED.of(metadata.properties):
        return None
    # Young files were left then, so that what a run has seen counts only until they are old enough.
    is_recent = now_millis() - (last_run(metadata, ORPHANS) or 0) < YOUNG_MILLIS
    left = number - max(len(metadata.metadata_log), last_version(metadata, ORPHANS) if is_recent else 0)
    if left < MANY_OLD_FILES:
        return None
    return Finding(
        ORPHANS, f"About {left:,} metadata files are in no log any more (estimated from the version number, not listed).",
        {"metadata_files": left}, 0, left * 0.001 / 60,
        "frees their space; write.metadata.delete-after-commit.enabled=true removes them at each commit", 0.0, Cure("remove_orphan_files"),
    )  # fmt: skip


def table_stats(state: AilingTable) -> Finding | None:
    """Find column statistics of an older snapshot, since which many rows came or went."""
    newest = _newest(state, state.metadata.statistics)
    if newest is None or newest[1] < CHANGED_SHARE:
        return None
    file, share, _ = newest
    schema = state.metadata.schema()
    ids = {i for blob in file.get("blob-metadata", ()) for i in blob.get("fields", ())}
    columns = [name for i in sorted(ids & set(schema.by_id)) if (name := schema.find_column_name(i)) is not None]
    minutes = state.file_bytes / (50e6 * state.workers) / 60
    return Finding(
        "table_stats", f"Column statistics are old: {share:.0%} of the rows came or went since snapshot {file['snapshot-id']}.",
        {"changed_share": share, "columns": len(columns)}, state.file_bytes, minutes,
        "planners that order joins by numbers of distinct values see current numbers", 0.0,
        Cure("compute_table_stats", {"columns": columns} if columns else {}),
    )  # fmt: skip


def partition_stats(state: AilingTable) -> Finding | None:
    """Find partition statistics of an older snapshot, since which many rows came or went."""
    newest = _newest(state, state.metadata.partition_statistics)
    if newest is None or newest[1] < CHANGED_SHARE:
        return None
    file, share, behind = newest
    size = sum(m.manifest_length for m in state.manifests if m.added_snapshot_id != file["snapshot-id"])
    return Finding(
        "partition_stats", f"Partition statistics are {behind:,} snapshots old: {share:.0%} of the rows came or went since.",
        {"changed_share": share, "snapshots_behind": behind}, size, size / _BYTES_PER_SECOND / 60,
        "planners see the current partitions; only manifests added since are read", 0.0, Cure("compute_partition_stats"),
    )  # fmt: skip


def _newest(state: AilingTable, files: tuple[dict[str, Any], ...]) -> tuple[dict[str, Any], float, int] | None:
    """Find the newest statistics file in the history of the current snapshot: with the share of rows that changed since, and the number of
    snapshots; None where there is no file or it is that of the current snapshot."""
    by_snapshot = {f["snapshot-id"]: f for f in files}
    changed = 0
    for behind, s in enumerate(state.metadata.ancestors(state.snapshot)):
        if s.snapshot_id in by_snapshot:
            return (by_snapshot[s.snapshot_id], changed / max(1, state.rows), behind) if behind else None
        if s.operation != "replace":
            changed += sum(_number(s.summary, key) for key in ("added-records", "deleted-records"))
    return None


def _number(summary: Mapping[str, str], key: str) -> int:
    text = summary.get(key, "0")
    return int(text) if text.isdigit() else 0
