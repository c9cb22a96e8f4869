"""Find which delete files a compaction will remove, for its dry run: those that the commit drops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from frazil.commit.produce import parent_of
from frazil.scan.delete_ranges import path_bounds
from frazil.scan.deletes import DeleteIndex, read_deletes
from frazil.scan.manifests import column_of, is_data, live, manifests_of, read_manifest
from frazil.scan.plan import plan
from frazil.spec.metadata import TableMetadata
from frazil.storage import Storage

Names = set[tuple[str, int | None]]
Partitions = set[tuple[int, tuple[Any, ...]]]
_COLUMNS = ("status", "file_path", "sequence_number", "content_offset")


def older_deletes(
    metadata: TableMetadata,
    branch: str,
    storage: Storage,
    gone: pa.Array,
    sequence_number: int | None,
) -> Names:
    """Return path and offset of the delete files that are older than all data, once the files
    `gone` are replaced by files of this sequence number (None: that of the new snapshot)."""
    head = parent_of(metadata, branch)
    if head is None or metadata.format_version < 2:
        return set()
    manifests = [
        manifest for manifest in manifests_of(metadata, head, storage) if manifest.has_live_files
    ]
    if all(map(is_data, manifests)):
        return set()
    oldest = (
        metadata.last_sequence_number
        if sequence_number is None
        else min(metadata.last_sequence_number, sequence_number)
    )
    for manifest in filter(is_data, manifests):
        entries = live(read_manifest(storage, manifest, _COLUMNS))
        stays = entries.filter(pc.invert(pc.is_in(column_of(entries, "file_path"), value_set=gone)))
        if len(stays) == len(entries):
            oldest = min(oldest, manifest.min_sequence_number or 0)
        elif len(stays):
            oldest = min(oldest, pc.min(stays["sequence_number"]).as_py() or 0)
    delete_files: Names = set()
    for manifest in manifests:
        if not is_data(manifest) and (manifest.min_sequence_number or 0) < oldest:
            entries = live(read_manifest(storage, manifest, _COLUMNS))
            sequence = pc.fill_null(entries["sequence_number"], 0)
            old = entries.filter(pc.and_(pc.greater(sequence, 0), pc.less(sequence, oldest)))
            delete_files.update(
                zip(old["file_path"].to_pylist(), old["content_offset"].to_pylist(), strict=True)
            )
    return delete_files


def unused_deletes(
    metadata: TableMetadata,
    branch: str,
    storage: Storage,
    gone: pa.Array,
    most_pairs: int,
    sequence_number: int | None,
    new_partitions: Callable[[], Partitions | None] = lambda: None,
) -> Names:
    """Return path and offset of the delete files that apply to no data file but to those `gone`,
    and not to the new files of this sequence number (None: that of the new snapshot, which is later
    than all deletes). `new_partitions`: tells into which partitions new files come, by spec and
    values (None: into any)."""
    head = parent_of(metadata, branch)
    if head is None or metadata.format_version < 2:
        return set()
    planned = plan(metadata, storage, snapshot=head, schema=metadata.schema())
    groups = planned.groups
    index = next((g.deletes for g in groups if isinstance(g.deletes, DeleteIndex)), None)
    if index is None:
        rest = read_deletes(
            metadata, storage, planned.all_delete_manifests, planned.options.workers
        )
        return (
            set()
            if rest is None
            else set(
                zip(
                    *(rest.strings(c).to_pylist() for c in ("file_path", "content_offset")),
                    strict=True,
                )
            )
        )
    paths = pa.concat_arrays([column_of(g.table, "file_path") for g in groups])
    stays = np.asarray(pc.invert(pc.is_in(paths, value_set=gone)).to_numpy(zero_copy_only=False))
    counts = index.exact_file_counts(most_pairs, stays)
    unused = ~index.used if counts is None else counts == 0
    if sequence_number is not None:
        late = np.flatnonzero(unused & _may_apply_to_any(index, sequence_number))
        partitions = new_partitions() if len(late) else None
        files = ((n, index.file(int(n))) for n in late)
        unused[
            [
                n
                for n, file in files
                if partitions is None or (file.spec_id, file.partition) in partitions
            ]
        ] = False
    mask = pa.array(unused)
    names, offsets = (
        index.entries.strings(c).filter(mask).to_pylist() for c in ("file_path", "content_offset")
    )
    return set(zip(names, offsets, strict=True))


def _may_apply_to_any(index: DeleteIndex, sequence_number: int) -> np.ndarray[Any, Any]:
    """Mark the position delete files in use that do not tell which paths they are about, as some
    writers leave them, and that are not older than new files of this sequence number: these come
    into the same partitions."""
    entries = index.entries
    bounds = path_bounds(
        [table for _, table in entries.groups],
        entries.strings("referenced_data_file"),
        ~entries.is_equality,
    )
    unknown = bounds.scattered & bounds.lower.is_null().to_numpy(zero_copy_only=False)
    late = entries.numbers("sequence_number") >= sequence_number
    return np.asarray(unknown & late & ~entries.is_equality & index.used)
