"""Decide after which rows of a sorted group a new data file begins.

Java divides a sorted group into files of about equal sizes. Along a curve that lets most files
reach over the edge of a quarter of the curve, so that the box of their values is much larger than
it must be and box queries read more. Here a file along a curve holds whole quarters, or whole parts
of a quarter halved again and again, whose sizes therefore differ. Where they would differ by more
than the options allow, so that the next rewrite would take the files again, all files get the same
size, as Java's.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa


@dataclass(frozen=True)
class FileSizes:
    """Say how large the new files of a sorted group may be: between `least` and `most` times the
    size of each of `files` equal ones.
    """

    files: int = 1
    least: float = 0.0
    most: float = 1.0


def file_ends(
    sizes: FileSizes, rows: int, places: Sequence[npt.NDArray[np.uint64]] = (), bits: int = 0
) -> list[int]:
    """Return the number of rows up to the end of each file of a sorted group.

    `places`: of all rows on a curve whose places have `bits` bits, ascending in each array; none
    where no curve sorts the group.
    """
    if not places or sizes.files <= 1:
        return even_ends(rows, sizes.files)
    even = rows / sizes.files
    ends = ends_along_curve(places, bits, sizes.most * even)
    rows_by_file = np.diff([0, *ends])
    if ((rows_by_file >= sizes.least * even) & (rows_by_file <= sizes.most * even)).all():
        return ends
    return even_ends(rows, sizes.files)


def even_ends(rows: int, files: int) -> list[int]:
    """Return the number of rows up to the end of each file, all of the same size."""
    count = max(1, min(files, rows))
    return [rows * n // count for n in range(1, count + 1)]


def ends_along_curve(places: Sequence[npt.NDArray[np.uint64]], bits: int, most: float) -> list[int]:
    """Return the number of rows up to the end of each file of a group along a curve whose places
    have `bits` bits.

    `places`: of all rows, ascending in each array. `most`: rows of a file at most; more stay
    together only if all have the same place.
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
