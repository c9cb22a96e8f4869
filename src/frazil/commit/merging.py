"""Merge small manifests into few, with Java's bin packing (ManifestMergeManager, BinPacking with a
look-back of one).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

from frazil.commit.manifests import ADDED, DELETED, EXISTING, ManifestWriter, read_entries
from frazil.spec.data_file import ManifestEntry
from frazil.spec.manifest import ManifestFile
from frazil.spec.metadata import TableMetadata
from frazil.spec.properties import MANIFEST_MERGE, MANIFEST_MIN_COUNT_TO_MERGE, MANIFEST_TARGET_SIZE

T = TypeVar("T")
MergeCache = dict[tuple[tuple[str, int | None], ...], ManifestFile]


def pack_end(items: Sequence[T], target: int, weight: Callable[[T], int]) -> list[list[T]]:
    """Pack items, in their order, into bins of at most `target`, filled from the end, so that the
    first bin is the one left underfilled.
    """
    bins: list[list[T]] = []
    room = -1
    for item in reversed(items):
        if bins and weight(item) <= room:
            bins[-1].append(item)
            room -= weight(item)
        else:
            bins.append([item])
            room = target - weight(item)
    return [list(reversed(b)) for b in reversed(bins)]


def merge(
    manifests: Sequence[ManifestFile],
    writer: ManifestWriter,
    metadata: TableMetadata,
    cache: MergeCache,
) -> tuple[list[ManifestFile], int]:
    """Merge manifests where Java would; return them and how many manifests of earlier snapshots
    were replaced.

    Per spec, bins of `commit.manifest.target-size-bytes` are merged; the bin with the newest
    manifest only once it holds `commit.manifest.min-count-to-merge` manifests. Results are kept in
    `cache` for the next attempt.
    """
    props = metadata.properties
    if not manifests or not MANIFEST_MERGE.of(props):
        return list(manifests), 0
    target, fewest = MANIFEST_TARGET_SIZE.of(props), MANIFEST_MIN_COUNT_TO_MERGE.of(props)
    first, result, replaced = manifests[0], list[ManifestFile](), 0
    for spec_id in sorted({m.partition_spec_id for m in manifests}, reverse=True):
        group = [m for m in manifests if m.partition_spec_id == spec_id]
        for packed in pack_end(group, target, lambda m: m.manifest_length):
            waits = any(m is first for m in packed) and len(packed) < fewest
            if len(packed) == 1 or waits:
                result += packed
                continue
            key = tuple((m.manifest_path, m.first_row_id) for m in packed)
            if key not in cache:
                cache[key] = writer.write(
                    _merged_entries(packed, writer, metadata), spec_id, packed[0].content
                )
            result.append(cache[key])
            replaced += sum(m.added_snapshot_id != writer.snapshot_id for m in packed)
    return result, replaced


def _merged_entries(
    packed: Sequence[ManifestFile], writer: ManifestWriter, metadata: TableMetadata
) -> list[ManifestEntry]:
    """Merge the entries: ADDED and DELETED entries of this snapshot keep their status, other live
    ones become EXISTING, and DELETED entries of earlier snapshots are dropped."""
    entries = []
    for manifest in packed:
        for entry in read_entries(manifest, metadata, writer.output.storage, writer.entries):
            is_own = entry.snapshot_id == writer.snapshot_id
            if entry.status == DELETED:
                if is_own:
                    entries.append(entry)
            elif entry.status == ADDED and is_own:
                entries.append(entry)
            else:
                entries.append(
                    entry if entry.status == EXISTING else replace(entry, status=EXISTING)
                )
    return entries
