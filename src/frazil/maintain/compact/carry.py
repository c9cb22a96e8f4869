"""Carry deletes that were committed while files were rewritten over to the new files, and find the
delete files that a compaction leaves without use.

To find where a deleted row stands in the new files, nothing is stored while files are rewritten,
except how many live rows each file had. Rows are in the order of a stable sort, so a row's place in
the new files is the number of rows before it: without a sort, those before it in the files; with
one, those with lesser keys, which are counted in one pass over the key columns. Only files to which
a concurrent delete applies are read for this.

`older_deletes` and `unused_deletes` tell a dry run which delete files the commit will drop.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from frazil.arrow.deletes.write_deletes import FileDeletes
from frazil.arrow.write.grouping import by_partition
from frazil.codec.sorted_numbers import distinct
from frazil.commit.produce import parent_of
from frazil.maintain.compact.rewrite import CompactContext, live_rows, narrowed, sampled
from frazil.maintain.compact.sorting import Sorting, SortKeys
from frazil.rows.rewrite import HIDDEN_POS, POS
from frazil.scan.delete_ranges import path_bounds
from frazil.scan.deletes import DeleteIndex, read_deletes
from frazil.scan.manifests import column_of, is_data, live, manifests_of, read_manifest
from frazil.scan.plan import plan
from frazil.scan.tasks import FileScanTask
from frazil.spec.manifest import DataFile
from frazil.spec.metadata import TableMetadata
from frazil.spec.partitioning import partition_key
from frazil.spec.schema import Schema
from frazil.storage import Storage

Positions = npt.NDArray[np.int64]
_ORDINAL = "\0ordinal"


@dataclass(frozen=True)
class RewrittenGroup:
    """Hold a group after its rewrite: its tasks (files, or parts of files) in order, the live rows
    that each had, and the new files, those of one partition in the order of their rows. `sorting`:
    with the sample of its rows, where it has been taken."""

    tasks: tuple[FileScanTask, ...] = field(repr=False)
    counts: tuple[int, ...] = field(repr=False)
    added: tuple[DataFile, ...] = field(repr=False)
    mixed: bool
    sorting: Sorting | None = None

    @property
    def removed(self) -> tuple[DataFile, ...]:
        """Return the files that were rewritten, each once."""
        return tuple({t.file.file_path: t.file for t in self.tasks}.values())


def carried_over(
    group: RewrittenGroup, deleted: Mapping[str, Positions], context: CompactContext
) -> list[FileDeletes]:
    """Return the positions in the new files of rows of old ones. `deleted`: by path of an old file,
    positions in it; those that were not live when the file was rewritten have no place and are left
    out."""
    if context.sorting is None and not group.mixed:
        return _in_files(group.added, _by_count(group, deleted, context))
    file_deletes: list[FileDeletes] = []
    for key, ordinals in _by_keys(group, deleted, context).items():
        of_partition = [
            f
            for f in group.added
            if not group.mixed or partition_key(f.spec_id, f.partition)[1] == key
        ]
        file_deletes += _in_files(of_partition, ordinals)
    return file_deletes


def _in_files(files: Sequence[DataFile], ordinals: Positions) -> list[FileDeletes]:
    """Divide places among all rows of some files into positions in each file."""
    edges = np.cumsum([0, *(f.record_count for f in files)])
    places = distinct(ordinals)
    ends = np.searchsorted(places, edges)
    pieces = zip(files, edges[:-1], itertools.pairwise(ends.tolist()), strict=True)
    return [FileDeletes(f, places[a:b] - first) for f, first, (a, b) in pieces if b > a]


def _by_count(
    group: RewrittenGroup, deleted: Mapping[str, Positions], context: CompactContext
) -> Positions:
    """Find the places of rows that kept their order: the live rows of the files before, and those
    before in the file.
    """
    starts = np.cumsum([0, *group.counts])
    only_places = context.live.sharing_deletes(projection=Schema(HIDDEN_POS))
    positions: list[Positions] = []
    for task, start in zip(group.tasks, starts[:-1].tolist(), strict=True):
        if (wanted := deleted.get(task.file.file_path)) is None:
            continue
        for _, batch in live_rows((task,), only_places):
            places = batch.column(0).to_numpy()
            positions.append(np.flatnonzero(np.isin(places, wanted)) + start)
            start += len(places)
    return np.concatenate([np.zeros(0, np.int64), *positions])


# By keys
# --------------------------------------------------------------------------------------------------


@dataclass(eq=False)
class _Sought:
    """Hold the keys of the rows that are looked for in one partition, and how many rows were found
    to stand before each.
    """

    keys: pa.Table
    before: Positions


def _by_keys(
    group: RewrittenGroup, deleted: Mapping[str, Positions], context: CompactContext
) -> dict[Any, Positions]:
    """Find the places of rows that were sorted, or divided among partitions: how many rows of its
    partition (() where all are of one) stand before each."""
    sought: dict[Any, list[pa.Table]] = {}
    directions: tuple[tuple[str, str], ...] = ()
    for path, key, keys, rows in _keyed(group, context):
        wanted = deleted.get(path)
        if wanted is not None and (mask := np.isin(rows.column(POS).to_numpy(), wanted)).any():
            sought.setdefault(key, []).append(_table(keys, rows).filter(pa.array(mask)))
            directions = keys.directions
    held = {
        k: _Sought(t := pa.concat_tables(tables), np.zeros(len(t), np.int64))
        for k, tables in sought.items()
    }
    if held:
        for _, key, keys, rows in _keyed(group, context):
            if (asked := held.get(key)) is not None:
                _count(asked, _table(keys, rows), directions)
    return {k: s.before for k, s in held.items()}


def _count(asked: _Sought, rows: pa.Table, directions: Sequence[tuple[str, str]]) -> None:
    """Add, for each row that is looked for, the rows of a batch that stand before it. Equal rows
    stand in the order of the files.
    """
    names = [*(n for n, _ in directions), _ORDINAL]
    together = pa.concat_tables([asked.keys.select(names), rows.select(names)])
    order = (
        pc.sort_indices(together, sort_keys=[*directions, (_ORDINAL, "ascending")])
        .to_numpy()
        .astype(np.int64)
    )
    is_sought = order < len(asked.keys)
    # a row is sorted behind the sought copy of itself
    asked.before[order[is_sought]] += np.cumsum(~is_sought)[is_sought]


def _table(keys: SortKeys, rows: pa.RecordBatch) -> pa.Table:
    return pa.table({**keys.columns, _ORDINAL: rows.column(_ORDINAL)})


def _keyed(
    group: RewrittenGroup, context: CompactContext
) -> Iterator[tuple[str, Any, SortKeys, pa.RecordBatch]]:
    """Read the columns that decide the order, in the order of the files: (path of the file,
    partition, keys, rows with position and number in the group) for each batch and partition."""
    write = context.write
    of_spec = (
        {f.source_id for f in write.spec.fields if f.source_id in write.schema.by_id}
        if group.mixed
        else set()
    )
    sorting = group.sorting
    if sorting is None and context.sorting is not None:
        sorting = sampled(context, group.tasks)
    columns = narrowed(
        write.schema, of_spec | (sorting.field_ids if sorting is not None else frozenset())
    )
    read = context.live.sharing_deletes(projection=Schema(*columns.fields, HIDDEN_POS))
    ordinal = 0
    for number, batch in live_rows(group.tasks, read):
        numbered = batch.append_column(
            _ORDINAL, pa.array(np.arange(ordinal, ordinal + batch.num_rows))
        )
        ordinal += batch.num_rows
        path = group.tasks[number].file.file_path
        parts = (
            by_partition(numbered, columns, write.spec) if group.mixed and write.spec.fields else ()
        )
        for key, rows in [
            (partition_key(write.spec.spec_id, p.values)[1], p.rows) for p in parts
        ] or [((), numbered)]:
            sort_keys = sorting.keys(rows, columns) if sorting is not None else SortKeys({}, ())
            yield path, key, sort_keys, rows


# Delete files without use
# --------------------------------------------------------------------------------------------------

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
