"""Decide after which rows of a sorted group a new data file begins.

Java divides a sorted group into files of about equal sizes. Along a curve that lets most files reach over the edge of a quarter of the
curve, so that the box of their values is much larger than it must be and box queries read more. Here a file along a curve holds whole
quarters, or whole parts of a quarter halved again and again, whose sizes therefore differ, within what the options allow for one file.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa


def even_ends(rows: int, files: int) -> list[int]:
    """Return the number of rows up to the end of each file, all of the same size."""
    count = max(1, min(files, rows))
    return [rows * n // count for n in range(1, count + 1)]


def ends_along_curve(places: Sequence[npt.NDArray[np.uint64]], bits: int, most: float) -> list[int]:
    """Return the number of rows up to the end of each file of a group along a curve whose places have `bits` bits.

    `places`: of all rows, ascending in each array. `most`: rows of a file at most; more stay together only if all have the same place.
    """
    rows = sum(len(p) for p in places)
    parts: list[int] = []
    halves = [(0, 1 << bits, 0, rows)]
    while halves:
        begin, end, below, upto = halves.pop()
        if upto == below:
            continue
        if upto - below <= most or end - begin <= 1:
            parts.append(upto)
            continue
        middle = (begin + end) // 2
        rows_before = sum(int(np.searchsorted(p, np.uint64(middle))) for p in places)
        halves += [(middle, end, rows_before, upto), (begin, middle, below, rows_before)]
    ends: list[int] = []
    for upto in parts:  # neighbours that fit in one file share one
        before = ends[-2] if len(ends) > 1 else 0
        if ends and upto - before <= most:
            ends[-1] = upto
        else:
            ends.append(upto)
    return ends


def cut(batches: Iterable[pa.RecordBatch], ends: list[int]) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Cut a stream of rows where files end: yields the number of its file with each batch."""
    file = done = 0
    for batch in batches:
        while batch.num_rows:
            while file < len(ends) - 1 and done >= ends[file]:
                file += 1
            part = batch.slice(0, ends[file] - done) if file < len(ends) - 1 else batch
            yield file, part
            done += part.num_rows
            batch = batch.slice(part.num_rows)
