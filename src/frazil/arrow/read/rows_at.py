"""Read rows of a data file inside a task: all that match, only those at some positions, or all but
those.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from frazil.arrow.deletes.apply_deletes import RowDeletes
from frazil.arrow.files.source import reading
from frazil.arrow.read.read_context import ReadContext
from frazil.arrow.read.read_tasks import (
    Chosen,
    chosen_batch,
    open_task,
    read,
    read_opened,
    read_task,
)
from frazil.codec.sorted_numbers import union
from frazil.scan.tasks import FileScanTask
from frazil.tasks.runner import current_place

Positions = npt.NDArray[np.int64]


def rows_of(task: FileScanTask, context: ReadContext) -> Iterator[pa.RecordBatch]:
    """Read a file scan task with as many threads as the calling task may use, so that a lone large
    file is read by all cores.
    """
    workers = current_place().workers or 1
    if workers <= 1:
        yield from read_task(task, context)
    else:
        yield from read(
            [task], context.sharing_deletes(options=replace(context.options, workers=workers))
        )


def rows_at(
    task: FileScanTask, positions: Positions, context: ReadContext
) -> Iterator[pa.RecordBatch]:
    """Read the rows at positions (ascending, each once) in the order of the file; row groups that
    hold none of them are skipped.

    Neither the filter nor the deletes are applied: the caller found the positions among the live
    rows that match.
    """
    plain = context.sharing_deletes(row_filter=None)
    several = (current_place().workers or 1) > 1
    with reading(task.file.file_path, task.file.file_format):
        opened = open_task(task.with_deletes(()), plain)
        for piece in opened.pieces:
            if piece.rows >= 0 and not _count(positions, piece.first_row, piece.rows):
                continue
            for raw, count, first in opened.source.read(
                piece, opened.columns, context.options.batch_size, several
            ):
                here = _count(positions, first, count)
                if here:
                    mask = None if here == count else _mask(positions, first, count)
                    yield chosen_batch(
                        opened, plain, opened.columns.columns, raw, count, first, Chosen(mask, None)
                    )


def rows_without(
    task: FileScanTask, positions: Positions, context: ReadContext
) -> Iterator[pa.RecordBatch]:
    """Read the live rows of a file except those at some positions; the filter is not applied."""
    plain = context.sharing_deletes(row_filter=None)
    with reading(task.file.file_path, task.file.file_format):
        opened = open_task(task, plain)
        deletes = opened.deletes or RowDeletes(np.zeros(0, np.int64))
        gone = union(deletes.positions, positions)
        several = (current_place().workers or 1) > 1
        yield from read_opened(
            replace(opened, deletes=replace(deletes, positions=gone)), plain, threads=several
        )


def _count(positions: Positions, first: int, count: int) -> int:
    low, high = np.searchsorted(positions, (first, first + count))
    return int(high - low)


def _mask(positions: Positions, first: int, count: int) -> pa.BooleanArray:
    low, high = np.searchsorted(positions, (first, first + count))
    flags = np.zeros(count, bool)
    flags[positions[low:high] - first] = True
    return pa.array(flags)
