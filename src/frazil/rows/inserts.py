"""Write the rows that a MERGE inserts: source rows without a match that meet a NOT MATCHED clause, in tasks over ranges of the source."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from frazil.arrow.write.write_context import WriteContext
from frazil.arrow.write.write_rows import write
from frazil.expr.bound import TRUE
from frazil.rows.bound_merge import BoundClause, BoundMerge
from frazil.rows.change import placed
from frazil.rows.pairing import as_side, rows_where
from frazil.rows.source import MergeSource
from frazil.spec.data_file import DataFile

SLICE_BYTES = 64 << 20  # least bytes of the source per task: smaller slices would make many small files


@dataclass(frozen=True)
class InsertContext:
    """Hold what the insert tasks share; frozen and picklable. `write`: the rows are new, so they have no row ids to keep."""

    write: WriteContext
    merge: BoundMerge
    source: MergeSource


@dataclass(frozen=True)
class Stretch:
    """Name the source rows [start, start + count) of one task.

    `matched`: the rows that have a match, as a compressed bitmap (empty: none). A bit per row keeps what travels with the task small.
    """

    start: int
    count: int
    matched: bytes = b""

    def unmatched(self) -> npt.NDArray[np.bool_]:
        if not self.matched:
            return np.ones(self.count, bool)
        return ~np.unpackbits(np.frombuffer(zlib.decompress(self.matched), np.uint8), count=self.count).astype(bool)


@dataclass(frozen=True)
class Inserted:
    files: tuple[DataFile, ...] = ()
    rows: int = 0


def stretches(source: MergeSource, matched: npt.NDArray[np.bool_], parallelism: int) -> list[Stretch]:
    """Cut the source into ranges for `parallelism` tasks, leaving out ranges in which every row has a match."""
    rows = source.num_rows
    count = max(1, min(parallelism, source.nbytes // SLICE_BYTES))
    edges = [rows * i // count for i in range(count + 1)]
    found = []
    for start, end in zip(edges, edges[1:], strict=False):
        here = matched[start:end]
        if not here.all():
            found.append(Stretch(start, end - start, zlib.compress(np.packbits(here).tobytes(), 1) if here.any() else b""))
    return found


def insert_rows(context: InsertContext, stretch: Stretch) -> Inserted:
    """Write the inserted rows of one range: the work of one task."""
    rows = _Rows(context, stretch)
    files = write(rows.batches(), placed(context.write))
    return Inserted(tuple(files), rows.count)


class _Rows:
    """Make the new rows of a range, and count them while they are consumed."""

    def __init__(self, context: InsertContext, stretch: Stretch):
        self._merge, self._source, self._stretch = context.merge, context.source, stretch
        self.count = 0

    def batches(self) -> Iterator[pa.RecordBatch]:
        clauses = self._merge.not_matched
        names = self._names(clauses)
        unmatched, done = self._stretch.unmatched(), 0
        for batch in self._source.batches(names, self._stretch.start, self._stretch.count):
            here = np.flatnonzero(unmatched[done : done + batch.num_rows])
            done += batch.num_rows
            if len(here):
                rows = batch if len(here) == batch.num_rows else batch.take(pa.array(here))
                yield from self._made(clauses, as_side(rows, self._merge.sides.source_alias))

    def _names(self, clauses: Sequence[BoundClause]) -> list[str]:
        wanted = {n for c in clauses for n in self._merge.names_of_source([c.condition], c)}
        fields = self._merge.sides.source.fields
        return [f.name for f in fields if f.name in wanted] or [fields[0].name]

    def _made(self, clauses: Sequence[BoundClause], rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        for clause in clauses:
            if not rows.num_rows:
                return
            chosen = rows
            if clause.condition != TRUE:
                hit = rows_where(clause.condition, rows)
                chosen, rows = rows.take(pa.array(hit)), rows.take(pa.array(np.delete(np.arange(rows.num_rows), hit)))
            else:
                rows = rows.slice(0, 0)
            if chosen.num_rows:
                assert clause.assignments is not None
                self.count += chosen.num_rows
                yield clause.assignments.apply(chosen)
