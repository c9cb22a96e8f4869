"""Rewrite pieces of a group of data files inside tasks: read the live rows, order them if asked,
write new files.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import accumulate, groupby
from pathlib import Path

import pyarrow as pa

from frazil.arrow.read.read_context import ReadContext
from frazil.arrow.read.read_tasks import read_task
from frazil.arrow.read.rows_at import rows_of
from frazil.arrow.values.arrow_schema import to_arrow_schema
from frazil.arrow.write.write_context import WriteContext
from frazil.arrow.write.write_rows import OutputFiles, Rolling, write
from frazil.maintain.compact.external_sort import SortedGroup, sorted_batches
from frazil.maintain.compact.file_cuts import FileSizes
from frazil.maintain.compact.sorting import Sorting
from frazil.maintain.position_deletes.conflict_retries import written_nowhere
from frazil.rows.change import placed
from frazil.rows.rewrite import fitted
from frazil.scan.tasks import FileScanTask
from frazil.spec.manifest import DataFile
from frazil.spec.schema import Schema
from frazil.tasks.in_order import default_workers, map_in_order
from frazil.tasks.runner import current_place

_NO_END = 1 << 62
_SMALL = 8 << 20  # bytes of files that are read whole, several at the same time
_MOST_SORTED = 1900 << 20  # bytes of rows that are sorted at once: Arrow's text columns hold 2 GiB


@dataclass(frozen=True)
class CompactContext:
    """Hold the settings that the tasks of a compaction share; frozen and picklable.
    `read.projection`: all columns that are written (of a table with row lineage also the two
    columns of that, so that rows keep their ids); `write` has the same columns and no sort order.
    `sorting` None: rows keep their order. `sort_memory`: bytes of rows to sort at once; None: a
    part of the machine's memory."""

    read: ReadContext
    write: WriteContext
    sorting: Sorting | None = None
    sort_memory: int | None = None

    @property
    def live(self) -> ReadContext:
        """Return how all live rows of a file are read, whether the filter matches them or not."""
        return replace(self.read, row_filter=None)


@dataclass(frozen=True)
class RewritePiece:
    """Hold what one task rewrites: files, or parts of files, of group `group`. `mixed`: the rows
    may go to several partitions. `sizes`: those of the new files, if the rows are sorted."""

    group: int
    tasks: tuple[FileScanTask, ...] = field(repr=False)
    mixed: bool
    sizes: FileSizes = FileSizes()


@dataclass(frozen=True)
class Rewritten:
    """Hold the new files of a piece, in the order of their rows, and the number of live rows that
    each of its tasks had.
    """

    group: int
    added: tuple[DataFile, ...]
    counts: tuple[int, ...]


def rewrite_piece(
    context: CompactContext, piece: RewritePiece, on_bytes: Callable[[int], object] = lambda _: None
) -> Rewritten:
    """Write the live rows of a piece to new files. The files are durable; after an error none of
    them is left.

    `on_bytes`: called with the bytes of its files that have been read since the last call, within
    a file in proportion to its rows.
    """
    target, schema = placed(context.write), to_arrow_schema(context.write.schema)
    counts = [0] * len(piece.tasks)

    def rows() -> Iterator[pa.RecordBatch]:
        begins, reported = list(accumulate((t.length for t in piece.tasks), initial=0)), 0
        for number, batch in live_rows(piece.tasks, context.live):
            counts[number] += batch.num_rows
            read = begins[number] + _bytes_of(piece.tasks[number], counts[number])
            if read > reported:
                on_bytes(read - reported)
            reported = read
            yield fitted(batch, schema)
        if reported < begins[-1]:
            on_bytes(begins[-1] - reported)

    workers = target.workers or default_workers()
    stream: Iterator[tuple[int, pa.RecordBatch]] = ((0, batch) for batch in rows())
    if context.sorting is not None:
        group = SortedGroup(
            context.sorting, _rows(piece.tasks), lambda: sampled(context, piece.tasks), piece.sizes
        )
        stream = sorted_batches(
            rows(), group, context.sort_memory or _sort_memory(target, workers), workers
        )
    if piece.mixed and target.spec.fields:
        added = write((batch for _, batch in stream), target)
    else:
        added = _write_partition(
            stream, target, () if piece.mixed else piece.tasks[0].file.partition, workers
        )
    return Rewritten(piece.group, _marked(added, context), tuple(counts))


def write_sorted(
    context: CompactContext, partition: tuple[object, ...], batches: Iterable[pa.RecordBatch]
) -> tuple[DataFile, ...]:
    """Sort rows of one partition, and write them to one file, or several where they are more than
    a file may hold. The sorting has the sample that a curve needs.
    """
    target, sorting = placed(context.write), context.sorting
    assert sorting is not None
    workers = target.workers or default_workers()
    stream = sorted_batches(
        batches,
        SortedGroup(sorting, 0, lambda: sorting),
        context.sort_memory or _sort_memory(target, workers),
        workers,
    )
    return _marked(_write_partition(stream, target, partition, workers), context)


def _marked(added: Iterable[DataFile], context: CompactContext) -> tuple[DataFile, ...]:
    if context.sorting is None:
        return tuple(added)
    return tuple(replace(f, sort_order_id=context.sorting.order_id) for f in added)


def _bytes_of(task: FileScanTask, rows: int) -> int:
    """Estimate the bytes that a number of its live rows take: deleted rows are not known here."""
    expected = max(1, task.estimated_rows)
    return task.length * min(rows, expected) // expected


def new_bytes(context: CompactContext, piece: RewritePiece) -> int:
    """Count the bytes that the live rows of some files have as one new file: they are written
    nowhere.
    """
    write = replace(written_nowhere(context.write), target_size=_NO_END)
    return sum(
        f.file_size_in_bytes for f in rewrite_piece(replace(context, write=write), piece).added
    )


def live_rows(
    tasks: Sequence[FileScanTask], context: ReadContext
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield the live rows of files, in their order, each batch with the number of its file. Small
    files are read several at once.
    """
    workers = current_place().workers or 1
    if workers <= 1 or len(tasks) == 1 or any(t.length > _SMALL for t in tasks):
        for number, task in enumerate(tasks):
            for batch in rows_of(task, context):
                yield number, batch
        return
    for number, batches in enumerate(
        map_in_order(lambda t: list(read_task(t, context)), tasks, workers)
    ):
        for batch in batches:
            yield number, batch


def sampled(context: CompactContext, tasks: Sequence[FileScanTask]) -> Sorting:
    """Return the sorting with the sample of the group's rows that a curve needs, for which its
    columns are read beforehand.
    """
    sorting = context.sorting
    assert sorting is not None
    if not sorting.needs_sample:
        return sorting
    columns = narrowed(context.write.schema, sorting.field_ids)
    batches = (b for _, b in live_rows(tasks, context.live.sharing_deletes(projection=columns)))
    return sorting.with_sample(batches, _rows(tasks), columns)


def _rows(tasks: Sequence[FileScanTask]) -> int:
    return sum(t.file.record_count for t in tasks)


def narrowed(schema: Schema, field_ids: Iterable[int]) -> Schema:
    """Return the columns that hold these fields."""
    return schema.project(set(field_ids))


def _sort_memory(target: WriteContext, workers: int) -> int:
    """Return the bytes of rows that a task sorts at once: in this process a part of what the
    machine has, shared by the tasks beside it; in a worker, whose memory others count on, as much
    as a write may hold."""
    here = current_place()
    if workers == 1 and here.share == 1:
        return target.memory
    with contextlib.suppress(ValueError, OSError, AttributeError):
        return max(target.memory, min(_MOST_SORTED, _memory_of_machine() // 8) // here.share)
    return target.memory


def _memory_of_machine() -> int:
    """Return the bytes of memory of the machine, or of the container."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    for limit in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        with contextlib.suppress(OSError, ValueError):
            memory = min(memory, int(Path(limit).read_text()))
    return memory


def _write_partition(
    batches: Iterable[tuple[int, pa.RecordBatch]],
    target: WriteContext,
    partition: tuple[object, ...],
    workers: int,
) -> list[DataFile]:
    """Write rows that are all of one partition to files, one after another, without grouping the
    rows again. A file ends where the number beside the batch changes, or at the largest size."""
    assert target.settings is not None  # reading them checks them before the first byte is written
    files = OutputFiles(target)
    with contextlib.ExitStack() as stack:
        if workers > 1:
            files.pool = stack.enter_context(
                ThreadPoolExecutor(workers, thread_name_prefix="frazil-write")
            )
        try:
            writer = Rolling(target, files, partition, 0)
            for _, of_file in groupby(batches, lambda numbered: numbered[0]):
                for _, batch in of_file:
                    writer.add(target.rows(batch))
                writer.close()
            return files.finished()
        except BaseException:
            files.abort()
            raise
