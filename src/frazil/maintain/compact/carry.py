"""Find where rows of rewritten files stand in the new files, so that deletes that were committed
meanwhile can be carried over.

Nothing is stored for that while files are rewritten, except how many live rows each file had. Rows
are in the order of a stable sort, so a row's place in the new files is the number of rows before
it: without a sort, those before it in the files; with one, those with lesser keys, which are
counted in one pass over the key columns. Only files to which a concurrent delete applies are read
for this.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from frazil.arrow.deletes.write_deletes import FileDeletes
from frazil.arrow.write.grouping import by_partition
from frazil.codec.sorted_numbers import distinct
from frazil.maintain.compact.rewrite import CompactContext, live_rows, narrowed, sampled
from frazil.maintain.compact.sorting import SortKeys
from frazil.rows.rewrite import HIDDEN_POS, POS
from frazil.scan.tasks import FileScanTask
from frazil.spec.manifest import DataFile
from frazil.spec.partitioning import partition_key
from frazil.spec.schema import Schema

Positions = npt.NDArray[np.int64]
_ORDINAL = "\0ordinal"


@dataclass(frozen=True)
class RewrittenGroup:
    """Hold a group after its rewrite: its tasks (files, or parts of files) in order, the live rows
    that each had, and the new files, those of one partition in the order of their rows."""

    tasks: tuple[FileScanTask, ...] = field(repr=False)
    counts: tuple[int, ...] = field(repr=False)
    added: tuple[DataFile, ...] = field(repr=False)
    mixed: bool

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
# ------------------------------------------------------------------------------------------------------------------------------


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
    asked.before[order[is_sought]] += np.cumsum(~is_sought)[
        is_sought
    ]  # a row is sorted behind the sought copy of itself


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
    sorting = sampled(context, group.tasks) if context.sorting is not None else None
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
