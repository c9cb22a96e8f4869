"""Split data files at their split offsets and combine the pieces into tasks of about one size
(table properties read.split.*).

Bin packing follows Java: a piece goes into the first of the last `lookback` bins that has room, the
heaviest bin is emitted first, and a piece weighs its bytes or at least `open_file_cost`. Adjacent
pieces of one file that end up in the same bin become one piece again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from frazil.scan.options import SplitOptions, adjusted_split_size
from frazil.scan.tasks import FileScanTask, PlannedFiles, TaskSequence

_SPLITTABLE = ("parquet", "orc")


@dataclass(frozen=True)
class CombinedTask:
    """Hold the file scan tasks that one Spark task reads."""

    tasks: tuple[FileScanTask, ...]

    @property
    def size_bytes(self) -> int:
        return sum(t.size_bytes for t in self.tasks)

    @property
    def estimated_rows(self) -> int:
        return sum(t.estimated_rows for t in self.tasks)

    def __len__(self) -> int:
        return len(self.tasks)


def combine(
    tasks: Iterable[FileScanTask],
    split_size: int = 134_217_728,
    lookback: int = 10,
    open_file_cost: int = 4_194_304,
) -> list[CombinedTask]:
    """Split and combine tasks to about `split_size` bytes each. Raises InvalidInput for sizes that
    are not positive.
    """
    SplitOptions(split_size, lookback, open_file_cost)  # checks the sizes
    bins = _pack(_pieces(tasks, split_size), split_size, lookback, open_file_cost)
    return [CombinedTask(tuple(_merge(b.items))) for b in bins]


def combine_for(
    tasks: Sequence[FileScanTask],
    options: SplitOptions,
    parallelism: int = 1,
    scan_size: int | None = None,
) -> list[CombinedTask]:
    """Combine tasks with Java's adaptive split size for `parallelism` slots. `scan_size`: bytes of
    all tasks, if they are known.
    """
    size = options.split_size
    if options.adaptive:
        total = sum(t.size_bytes for t in tasks) if scan_size is None else scan_size
        size = adjusted_split_size(total, parallelism, size)
    return combine(tasks, size, options.lookback, options.open_file_cost)


@dataclass(slots=True)
class _Piece:
    """Hold the range [start, end) of a task's file. `size`: where the task ends; `deletes`: bytes
    of the delete files that apply.
    """

    task: FileScanTask
    start: int
    end: int
    size: int
    deletes: int = 0
    delete_count: int = 0


def _pieces(tasks: Iterable[FileScanTask], split_size: int) -> Iterator[_Piece]:
    if isinstance(tasks, TaskSequence):
        yield from _whole_files(tasks, split_size)
        return
    for task in tasks:
        deletes, count = sum(d.size for d in task.delete_files), len(task.delete_files)
        if task.is_whole_file:
            cuts = _cuts(task.length, task.file.file_format, task.file.split_offsets, split_size)
        else:
            cuts = ((task.start, task.start + task.length),)
        for start, end in cuts:
            yield _Piece(task, start, end, task.start + task.length, deletes, count)


def _whole_files(tasks: TaskSequence, split_size: int) -> Iterator[_Piece]:
    """Cut the tasks of a plan into pieces, from the plan's columns: no DataFile object is made per
    file.
    """
    each = iter(tasks)
    for group in tasks.groups:
        deletes = _delete_weights(group)
        for batch in group.table.select(
            ["file_size_in_bytes", "file_format", "split_offsets"]
        ).to_batches():
            for size, file_format, offsets in zip(
                *(c.to_pylist() for c in batch.columns), strict=True
            ):
                task = next(each)
                bytes_, count = next(deletes, (0, 0))
                for start, end in _cuts(size, file_format, offsets, split_size):
                    yield _Piece(task, start, end, size, bytes_, count)


def _delete_weights(group: PlannedFiles) -> Iterator[tuple[int, int]]:
    """Yield (bytes, number) of the delete files of each data file; nothing when no file has any."""
    numbers = group.delete_numbers
    if group.deletes is None or not (numbers >= 0).any():
        return iter(())
    sizes, counts = (
        np.where(numbers >= 0, values[numbers], 0).tolist()
        for values in (group.deletes.sizes, group.deletes.counts)
    )
    return iter(zip(sizes, counts, strict=True))


def _cuts(
    length: int, file_format: str, offsets: Sequence[int] | None, split_size: int
) -> Iterable[tuple[int, int]]:
    """Cut a file at its row groups when its split offsets are valid, else every `split_size` bytes;
    unsplittable formats stay whole.
    """
    if file_format not in _SPLITTABLE or length <= 0:
        return ((0, length),)
    if (
        offsets
        and offsets[-1] < length
        and offsets[0] >= 0
        and all(a < b for a, b in zip(offsets, offsets[1:], strict=False))
    ):
        edges = [0, *offsets[1:], length]  # the first piece starts at 0: the pieces cover the file
    elif length <= split_size:
        return ((0, length),)
    else:
        edges = [*range(0, length, split_size), length]
    return zip(edges, edges[1:], strict=False)


@dataclass(slots=True)
class _Bin:
    items: list[_Piece]
    weight: int


def _pack(
    pieces: Iterable[_Piece], target: int, lookback: int, open_file_cost: int
) -> Iterator[_Bin]:
    bins: list[_Bin] = []
    for piece in pieces:
        weight = max(
            piece.end - piece.start + piece.deletes, (1 + piece.delete_count) * open_file_cost
        )
        for candidate in bins:
            if candidate.weight + weight <= target:
                candidate.items.append(piece)
                candidate.weight += weight
                break
        else:
            bins.append(_Bin([piece], weight))
            if len(bins) > lookback:
                heaviest = max(range(len(bins)), key=lambda i: bins[i].weight)
                yield bins.pop(heaviest)
    yield from bins


def _merge(pieces: Iterable[_Piece]) -> Iterator[FileScanTask]:
    last: _Piece | None = None
    for piece in pieces:
        if last is not None and last.task is piece.task and last.end == piece.start:
            last = replace(last, end=piece.end)
            continue
        if last is not None:
            yield _task(last)
        last = piece
    if last is not None:
        yield _task(last)


def _task(piece: _Piece) -> FileScanTask:
    """Return the task for a piece: the task itself when the piece is all of it."""
    if piece.start == piece.task.start and piece.end == piece.size:
        return piece.task
    return piece.task.part(piece.start, piece.end - piece.start)
