"""Write the rows that a MERGE inserts: source rows without a match that meet a NOT MATCHED clause,
in tasks over ranges of the source.

An upsert of whole rows writes the rows that replace others in the same way: they are source rows,
too, which keep the replaced row's id.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from frazil.arrow.write.write_context import WriteContext
from frazil.arrow.write.write_rows import write
from frazil.rows.bound_merge import BoundClause, BoundMerge
from frazil.rows.change import placed
from frazil.rows.key_index import Rows
from frazil.rows.merge import NO_ROW_ID
from frazil.rows.pairing import as_side, rows_where
from frazil.rows.rewrite import ROW_ID
from frazil.rows.source import MergeSource
from frazil.spec.manifest import DataFile

# least bytes of the source per task: smaller slices would make many small files
SLICE_BYTES = 64 << 20


@dataclass(frozen=True)
class InsertContext:
    """Hold what the insert tasks share; frozen and picklable. `write`: keeps lineage only if some
    rows replace others.
    """

    write: WriteContext
    merge: BoundMerge
    source: MergeSource


@dataclass(frozen=True)
class Stretch:
    """Name the source rows [start, start + count) of one task.

    `matched`: the rows that have a match and are not written, as a compressed bitmap (empty: none).
    A bit per row keeps what travels with the task small. `row_ids`: the row ids that rows keep, as
    a compressed array with `NO_ROW_ID` for the others (empty: no row keeps one).
    """

    start: int
    count: int
    matched: bytes = b""
    row_ids: bytes = b""

    def unmatched(self) -> npt.NDArray[np.bool_]:
        if not self.matched:
            return np.ones(self.count, bool)
        return ~np.unpackbits(
            np.frombuffer(zlib.decompress(self.matched), np.uint8), count=self.count
        ).astype(bool)

    def kept_row_ids(self) -> npt.NDArray[np.int64] | None:
        return np.frombuffer(zlib.decompress(self.row_ids), np.int64) if self.row_ids else None


@dataclass(frozen=True)
class Inserted:
    files: tuple[DataFile, ...] = ()
    rows: int = 0


def stretches(
    source: MergeSource,
    matched: npt.NDArray[np.bool_],
    parallelism: int,
    row_ids: npt.NDArray[np.int64] | None = None,
) -> list[Stretch]:
    """Cut the source into ranges for `parallelism` tasks, leaving out ranges in which every row has
    a match. `row_ids`: those that the rows keep; None: all rows are new."""
    rows = source.num_rows
    count = max(1, min(parallelism, source.nbytes // SLICE_BYTES))
    edges = [rows * i // count for i in range(count + 1)]
    ranges = []
    for start, end in zip(edges, edges[1:], strict=False):
        here = matched[start:end]
        if not here.all():
            packed_ids = b"" if row_ids is None else zlib.compress(row_ids[start:end].tobytes(), 1)
            ranges.append(
                Stretch(
                    start,
                    end - start,
                    zlib.compress(np.packbits(here).tobytes(), 1) if here.any() else b"",
                    packed_ids,
                )
            )
    return ranges


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
        unmatched, row_ids, done = self._stretch.unmatched(), self._stretch.kept_row_ids(), 0
        for batch in self._source.batches(names, self._stretch.start, self._stretch.count):
            here = np.flatnonzero(unmatched[done : done + batch.num_rows])
            ids_here = None if row_ids is None else row_ids[done : done + batch.num_rows][here]
            done += batch.num_rows
            if len(here):
                rows = batch if len(here) == batch.num_rows else batch.take(pa.array(here))
                yield from self._made(
                    clauses, as_side(rows, self._merge.sides.source_alias), ids_here
                )

    def _names(self, clauses: Sequence[BoundClause]) -> list[str]:
        wanted = {n for c in clauses for n in self._merge.names_of_source([c.condition], c)}
        fields = self._merge.sides.source.fields
        return [f.name for f in fields if f.name in wanted] or [fields[0].name]

    def _made(
        self, clauses: Sequence[BoundClause], rows: pa.RecordBatch, row_ids: Rows | None
    ) -> Iterator[pa.RecordBatch]:
        left = np.arange(rows.num_rows)
        for clause in clauses:
            if not len(left):
                return
            remaining = rows if len(left) == rows.num_rows else rows.take(pa.array(left))
            hit = rows_where(clause.condition, remaining)
            if len(hit):
                assert clause.assignments is not None
                self.count += len(hit)
                inserted = clause.assignments.apply(
                    remaining if len(hit) == len(left) else remaining.take(pa.array(hit))
                )
                if row_ids is not None:
                    ids = row_ids[left[hit]]
                    column = pa.array(ids, pa.int64(), mask=ids == NO_ROW_ID)
                    inserted = inserted.append_column(ROW_ID, column)
                yield inserted
            left = np.delete(left, hit)
