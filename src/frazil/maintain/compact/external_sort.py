"""Sort a stream of rows in bounded memory: rows that do not fit are spilled to disk as sorted runs,
which are merged range by range.

Ranges are chosen by a sample of the runs' keys such that the rows of one range fit in memory; rows
that are equal in all keys form a range of their own, which needs no sorting. The order is that of a
stable sort of all rows, whatever the memory.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from frazil.maintain.compact.file_cuts import FileSizes, cut, file_ends
from frazil.maintain.compact.sorting import PLACE, Sorting
from frazil.storage.base import temporary_folder
from frazil.tasks.in_order import map_in_order

CHUNK = 1 << 18  # rows per batch that is yielded
_BLOCK = 1 << 15  # rows per batch on disk at most
# bytes of such a batch: the rows of one range come from all runs, of which there may be hundreds,
# and two batches of each are in memory
_BLOCK_BYTES = 1 << 18
_SAMPLES = 32  # per range


@dataclass(frozen=True)
class SortedGroup:
    """Describe how a group is sorted. `rows`: about how many it has, as metadata says. `sampled`:
    reads the group for the sample of its rows that a curve needs, for groups beyond memory.
    `sizes`: of the new files."""

    sorting: Sorting
    rows: int
    sampled: Callable[[], Sorting]
    sizes: FileSizes = FileSizes()

    def sampled_in(self, batches: Sequence[pa.RecordBatch]) -> Sorting:
        """Take the sample from all rows of the group in memory: the same rows that `sampled` reads."""
        return (
            self.sorting.with_sample(batches, self.rows)
            if self.sorting.needs_sample
            else self.sorting
        )

    def ends(
        self, sorting: Sorting, places: Sequence[npt.NDArray[np.uint64]], rows: int
    ) -> list[int]:
        """Return the number of rows up to the end of each file. `places`: on the curve, ascending
        in each array.
        """
        return file_ends(
            self.sizes, rows, places, 0 if sorting.curve is None else sorting.curve_bits
        )


def sorted_batches(
    batches: Iterable[pa.RecordBatch], group: SortedGroup, memory: int, workers: int = 1
) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Yield the rows of a stream in order, each batch with the number of the file to which it goes.
    `memory`: bytes of rows that are sorted at once; about three times as much is used."""
    held: list[pa.RecordBatch] = []
    size = 0
    with ExitStack() as stack:
        runs: list[_SortedRun] = []
        folder: Path | None = None
        sorting = group.sorting
        for batch in batches:
            held.append(batch)
            size += batch.nbytes
            if size >= memory:
                if folder is None:
                    folder = Path(stack.enter_context(temporary_folder("sort")))
                    sorting = group.sampled()
                runs.append(_spilled(held, size, sorting, folder / str(len(runs))))
                held, size = [], 0
        if folder is None:
            yield from _in_memory(held, group, workers)
            return
        if held:
            runs.append(_spilled(held, size, sorting, folder / str(len(runs))))
            held = []
        places = [r.places for r in runs] if sorting.curve is not None else []
        yield from cut(
            _merged(runs, sorting, memory, workers),
            group.ends(sorting, places, sum(map(len, runs))),
        )


def _in_memory(
    held: list[pa.RecordBatch], group: SortedGroup, workers: int
) -> Iterator[tuple[int, pa.RecordBatch]]:
    sorting = group.sampled_in(held)
    if (rows := _joined(held)) is None:
        return
    keys = sorting.keys(rows, workers=workers)
    order = keys.order()
    places = [keys.columns[PLACE].take(order).to_numpy()] if sorting.curve is not None else []
    yield from cut(_taken(rows, order, workers), group.ends(sorting, places, rows.num_rows))


def _joined(held: list[pa.RecordBatch]) -> pa.RecordBatch | None:
    if not held:
        return None
    rows = held[0] if len(held) == 1 else pa.concat_batches(held)
    held.clear()
    return rows if rows.num_rows else None


def _taken(rows: pa.RecordBatch, order: pa.Array, workers: int) -> Iterator[pa.RecordBatch]:
    parts = (order.slice(start, CHUNK) for start in range(0, rows.num_rows, CHUNK))
    return map_in_order(rows.take, parts, workers)


@dataclass(frozen=True, eq=False)
class _SortedRun:
    """Hold sorted rows on disk, in batches of `block` rows. `keys`: memory-mapped, so that single
    rows of it can be looked up.
    """

    rows: Path
    block: int
    keys: pa.Table
    directions: tuple[tuple[str, str], ...]
    bytes: int

    def __len__(self) -> int:
        return int(self.keys.num_rows)

    @property
    def places(self) -> npt.NDArray[np.uint64]:
        """Return the places on the curve along which the rows are sorted."""
        return np.asarray(self.keys.column(PLACE).chunk(0).to_numpy())

    def key(self, row: int) -> tuple[Any, ...]:
        return tuple(self.keys.column(n)[row].as_py() for n, _ in self.directions)

    def read(self, begin: int, end: int) -> Iterator[pa.RecordBatch]:
        with pa.OSFile(str(self.rows)) as source:
            reader = pa.ipc.open_file(source)
            for n in range(begin // self.block, -(-end // self.block)):
                batch = reader.get_batch(n)
                first = n * self.block
                low, high = max(0, begin - first), min(batch.num_rows, end - first)
                yield batch.slice(low, high - low)


def _spilled(held: list[pa.RecordBatch], size: int, sorting: Sorting, path: Path) -> _SortedRun:
    rows = pa.concat_batches(held)
    held.clear()
    keys = sorting.keys(rows)
    order = keys.order()
    block = min(_BLOCK, max(1, _BLOCK_BYTES * rows.num_rows // max(1, size)))
    codec = pa.ipc.IpcWriteOptions(compression="lz4" if pa.Codec.is_available("lz4") else None)
    with (
        pa.OSFile(str(path), "wb") as sink,
        pa.ipc.new_file(sink, rows.schema, options=codec) as writer,
    ):
        for start in range(0, rows.num_rows, block):
            writer.write_batch(rows.take(order.slice(start, block)))
    beside = path.with_suffix(".keys")
    mapped = pa.RecordBatch.from_pydict({n: c.take(order) for n, c in keys.columns.items()})
    with pa.OSFile(str(beside), "wb") as sink, pa.ipc.new_file(sink, mapped.schema) as writer:
        writer.write_batch(mapped)
    return _SortedRun(
        path, block, pa.ipc.open_file(pa.memory_map(str(beside))).read_all(), keys.directions, size
    )


def _merged(
    runs: Sequence[_SortedRun], sorting: Sorting, memory: int, workers: int
) -> Iterator[pa.RecordBatch]:
    cuts = [_cuts(run, _splitters(runs, memory)) for run in runs]
    for n in range(len(cuts[0]) - 1):
        pieces = (
            run.read(c[n], c[n + 1]) for run, c in zip(runs, cuts, strict=True) if c[n] < c[n + 1]
        )
        if n % 2:  # all rows of this range have equal keys, and are in the order of the stream
            for piece in pieces:
                yield from piece
        else:
            rows = _joined([b for piece in pieces for b in piece])
            if rows is not None:
                yield from _taken(rows, sorting.keys(rows).order(), workers)


def _splitters(runs: Sequence[_SortedRun], memory: int) -> list[tuple[Any, ...]]:
    """Choose keys, ascending, between which about half as many rows lie as memory holds."""
    count = max(2, -(-2 * sum(r.bytes for r in runs) // max(1, memory)))
    step = max(1, sum(len(r) for r in runs) // (count * _SAMPLES))
    compare = functools.cmp_to_key(functools.partial(_compared, runs[0].directions))
    sample = sorted(
        (run.key(row) for run in runs for row in range(step // 2, len(run), step)), key=compare
    )
    return [
        sample[index]
        for index in range(len(sample) // count, len(sample), max(1, len(sample) // count))
    ]


def _cuts(run: _SortedRun, splitters: Sequence[tuple[Any, ...]]) -> list[int]:
    """Find where each splitter stands in a run: before the first row that is not less, and behind
    the last one that is equal.
    """
    cuts = [0]
    for splitter in splitters:
        cuts.append(_place(run, splitter, cuts[-1], behind=False))
        cuts.append(_place(run, splitter, cuts[-1], behind=True))
    return [*cuts, len(run)]


def _place(run: _SortedRun, splitter: tuple[Any, ...], low: int, *, behind: bool) -> int:
    high = len(run)
    while low < high:
        middle = (low + high) // 2
        compared = _compared(run.directions, run.key(middle), splitter)
        if compared < 0 or (behind and compared == 0):
            low = middle + 1
        else:
            high = middle
    return low


def _compared(directions: Sequence[tuple[str, str]], a: tuple[Any, ...], b: tuple[Any, ...]) -> int:
    """Compare two keys as Arrow sorts them; the flag before a key tells nulls from values."""
    for (_, direction), x, y in zip(directions, a, b, strict=True):
        if x != y and x is not None and y is not None:
            return -1 if (x < y) == (direction == "ascending") else 1
    return 0


__all__ = ["CHUNK", "SortedGroup", "sorted_batches"]
