"""Sort one group of data files in many tasks: a sample of the sort keys divides the rows into ranges
of which each becomes a new file, tasks read the files and hand each row to the task of its range,
which sorts and writes it.

The order is that of one stable sort of all rows, as where one task sorts the group
(`external_sort`): rows that are equal in all keys stay in the order of the files, over the ends of
ranges as well.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from frazil.arrow.values.arrow_schema import to_arrow_schema
from frazil.arrow.write.row_order import row_order
from frazil.maintain.compact.carry import RewrittenGroup
from frazil.maintain.compact.curves import Words
from frazil.maintain.compact.file_cuts import FileSizes, file_ends
from frazil.maintain.compact.rewrite import (
    CompactContext,
    live_rows,
    narrowed,
    write_sorted,
)
from frazil.maintain.compact.sorting import PLACE, Sorting, SortKeys, thinned
from frazil.rows.rewrite import fitted
from frazil.scan.tasks import FileScanTask
from frazil.tasks.runner import ExchangingRunner

_SAMPLE = 1 << 16  # rows of a group
_OF_A_FILE = 1 << 10  # sampled rows for each new file, where that is more
_CHUNK = 32 << 20  # bytes of rows that are divided at once
_VALUE = 4 << 20  # bytes of rows that pass from task to task as one value
_TIE = "piece"
_Numbered: TypeAlias = tuple[int, Sequence[FileScanTask]]
"""The number of a piece, and its files."""


@dataclass(frozen=True, eq=False)
class RangesOfKeys:
    """Hold the sort keys at which ranges of rows begin. Beside the keys stands the number of a
    piece: rows with the very keys of a beginning belong to the range if their piece is not an
    earlier one."""

    begins: SortKeys

    @property
    def count(self) -> int:
        return len(self.begins.columns[_TIE]) + 1

    def divided(self, keys: SortKeys, piece: int) -> tuple[pa.Array, list[int]]:
        """Sort rows of a piece; return their order, and where in it each range ends."""
        count = len(next(iter(keys.columns.values())))
        tie = pa.array(np.full(count, piece, np.int64))
        columns = {
            n: pa.concat_arrays([c, keys.columns.get(n, tie)])
            for n, c in self.begins.columns.items()
        }
        order = row_order(columns, self.begins.directions).to_numpy().astype(np.int64)
        is_row = order >= self.count - 1
        ends = np.flatnonzero(~is_row) - np.arange(self.count - 1)
        return pa.array(order[is_row] - (self.count - 1)), [*ends.tolist(), count]


@dataclass(frozen=True, eq=False)
class _SampledPiece:
    """Hold every so manieth live row of a piece, and how many live rows each of its tasks has."""

    rows: pa.RecordBatch
    counts: tuple[int, ...] = field(repr=False)


def rewrite_by_ranges(
    runner: ExchangingRunner,
    context: CompactContext,
    group: Sequence[Sequence[FileScanTask]],
    sizes: FileSizes,
) -> RewrittenGroup:
    """Write the live rows of a group, which is of one partition, sorted to new files. `group`: its
    files, or parts of them, cut into pieces, each for one task."""
    tasks, pieces = [t for piece in group for t in piece], list(enumerate(group))
    expected = sum(t.estimated_rows for t in tasks)
    step = max(1, expected // max(_SAMPLE, _OF_A_FILE * sizes.files))
    samples = list(runner.run(partial(_sampled, context, step), pieces))
    sorting, ranges = _ranges_of(context, samples, sizes)
    of_group = replace(context, sorting=sorting)
    added = runner.exchange(
        partial(_divided, of_group, ranges),
        pieces,
        partial(write_sorted, of_group, tasks[0].file.partition),
        ranges.count,
    )
    return RewrittenGroup(
        tuple(tasks),
        tuple(c for s in samples for c in s.counts),
        tuple(f for files in added for f in files),
        False,
        sorting,
    )


def _sampled(context: CompactContext, step: int, piece: _Numbered) -> _SampledPiece:
    assert context.sorting is not None
    tasks = piece[1]
    columns = narrowed(context.write.schema, context.sorting.field_ids)
    counts = [0] * len(tasks)
    schema = to_arrow_schema(columns)
    read = context.live.sharing_deletes(projection=columns)

    def counted() -> Iterator[pa.RecordBatch]:
        for number, batch in live_rows(tasks, read):
            counts[number] += batch.num_rows
            yield batch

    batches = [fitted(batch, schema) for batch in thinned(counted(), step)]
    rows = pa.concat_batches([pa.RecordBatch.from_pylist([], schema), *batches])
    return _SampledPiece(rows, tuple(counts))


def _ranges_of(
    context: CompactContext, samples: Sequence[_SampledPiece], sizes: FileSizes
) -> tuple[Sorting, RangesOfKeys]:
    """Return the sorting, with the sample of all rows that a curve needs, and the ranges that become
    files."""
    assert context.sorting is not None
    sorting = context.sorting
    columns = narrowed(context.write.schema, sorting.field_ids)
    rows = pa.concat_batches([s.rows for s in samples])
    if sorting.needs_sample:
        sorting = sorting.with_sample([rows], 0, columns)
    keys = sorting.keys(rows, columns)
    directions = (*keys.directions, (_TIE, "ascending"))
    tie = np.repeat(np.arange(len(samples)), [s.rows.num_rows for s in samples])
    unsorted = {**keys.columns, _TIE: pa.array(tie)}
    order = row_order(unsorted, directions)
    sorted_keys = {n: c.take(order) for n, c in unsorted.items()}
    places = [sorted_keys[PLACE].to_numpy()] if sorting.curve is not None else []
    ends = file_ends(sizes, rows.num_rows, places, sorting.curve_bits if places else 0)
    begins = pa.array(sorted({e for e in ends if 0 < e < rows.num_rows}), pa.int64())
    taken = {n: c.take(begins) for n, c in sorted_keys.items()}
    if places:
        # files end where parts of the curve do, and not where a row of the sample happens to stand
        before, behind = places[0][begins.to_numpy() - 1], taken[PLACE].to_numpy()
        taken[PLACE] = pa.array(_edges(before, behind))
        taken[_TIE] = pa.array(np.where(before < behind, -1, taken[_TIE].to_numpy()))
    return sorting, RangesOfKeys(SortKeys(taken, directions))


def _edges(before: Words, behind: Words) -> Words:
    """Return the numbers above `before`, up to `behind`, of which most of the lowest bits are 0."""
    edges = behind.copy()
    for bits in map(np.uint64, range(64)):
        cleared = behind >> bits << bits
        edges = np.where(cleared > before, cleared, edges)
    return edges


def _divided(
    context: CompactContext, ranges: RangesOfKeys, piece: _Numbered
) -> Iterator[tuple[int, pa.RecordBatch]]:
    assert context.sorting is not None
    for rows in _chunks(context, piece[1]):
        order, ends = ranges.divided(context.sorting.keys(rows), piece[0])
        each = max(1, _VALUE * rows.num_rows // max(1, rows.nbytes))
        begin = 0
        for part, end in enumerate(ends):
            for start in range(begin, end, each):
                yield part, rows.take(order.slice(start, min(each, end - start)))
            begin = end


def _chunks(context: CompactContext, tasks: Sequence[FileScanTask]) -> Iterator[pa.RecordBatch]:
    schema = to_arrow_schema(context.write.schema)
    held: list[pa.RecordBatch] = []
    size = 0
    for _, batch in live_rows(tasks, context.live):
        held.append(fitted(batch, schema))
        size += batch.nbytes
        if size >= _CHUNK:
            yield pa.concat_batches(held)
            held, size = [], 0
    if held:
        yield pa.concat_batches(held)
