"""Rewrite a data file as a stream of batches: its live rows without the removed ones, with new
versions in the places of old ones; and collect the positions of the rows that a change removes,
with the counts of updated and deleted ones.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from frazil.arrow.read.read_context import ReadContext
from frazil.arrow.read.rows_at import rows_without
from frazil.codec.sorted_numbers import distinct
from frazil.scan.tasks import FileScanTask
from frazil.spec.schema import POS_ID, Schema
from frazil.spec.types import LongType, NestedField

POS = "\0pos"  # a name that no column of a table has; a column may be called _pos
ROW_ID = "_row_id"
HIDDEN_POS = NestedField(POS_ID, POS, LongType(), True)
"""The position of a row in its data file, under that name."""
Numbers = npt.NDArray[np.int64]
RewrittenPart = tuple[pa.RecordBatch, int]


def fitted(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Fit new versions of rows to the schema that is written: columns by name, null where there is
    none. A changed row thereby has no last updated sequence number, and takes that of its commit.
    """
    if batch.schema.equals(schema):
        return batch
    columns = []
    for field in schema:
        index = batch.schema.get_field_index(field.name)
        column = pa.nulls(batch.num_rows, field.type) if index < 0 else batch.column(index)
        columns.append(column if column.type == field.type else column.cast(field.type))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def rewritten(
    task: FileScanTask,
    changes: Iterator[pa.RecordBatch],
    removed_rows: RemovedRows,
    context: ReadContext,
    schema: pa.Schema,
) -> Iterator[RewrittenPart]:
    """Yield (batch, number of its rows that are copied unchanged). A file that loses no row is not
    rewritten: only new rows are yielded.
    """
    new = _NewRows(changes, schema)
    yield from new.start()
    if not removed_rows:
        yield from new.rest()
        return
    positions = removed_rows.positions if new.ended else np.zeros(0, np.int64)
    with_positions = context.sharing_deletes(
        projection=Schema(*context.projection.fields, HIDDEN_POS)
    )
    for batch in rows_without(task, positions, with_positions):
        places: Numbers = batch.column(batch.num_columns - 1).to_numpy()
        rows, end = (
            pa.RecordBatch.from_arrays(batch.columns[:-1], schema=schema),
            int(places[-1]) + 1,
        )
        staying = None
        if not new.ended or not len(positions):
            yield from new.until(end)
            gone = removed_rows.between(int(places[0]), end)
            if len(gone):
                staying = ~np.isin(places, gone, assume_unique=True)
        piece = _together(rows, places, staying, new.before(end))
        if piece[0].num_rows:
            yield piece
    yield from new.rest()


def _together(
    rows: pa.RecordBatch,
    places: Numbers,
    is_kept: npt.NDArray[np.bool_] | None,
    new: list[tuple[pa.RecordBatch, Numbers]],
) -> RewrittenPart:
    """Merge kept rows (`is_kept` None: all) and new rows by their positions; every row is copied
    once.
    """
    if not new:
        staying_rows = rows if is_kept is None else rows.filter(pa.array(is_kept))
        return staying_rows, staying_rows.num_rows
    new_places = np.concatenate([p for _, p in new])
    staying = np.arange(rows.num_rows) if is_kept is None else np.flatnonzero(is_kept)
    indices = np.concatenate([staying, rows.num_rows + np.arange(len(new_places))])
    order = np.argsort(np.concatenate([places[staying], new_places]), kind="stable")
    return pa.concat_batches([rows, *(b for b, _ in new)]).take(pa.array(indices[order])), len(
        staying
    )


class _NewRows:
    """Pull the stream of new versions as far as the copied rows have come; rows without a position
    are yielded as soon as they come.
    """

    def __init__(self, changes: Iterator[pa.RecordBatch], schema: pa.Schema):
        self._changes, self._schema = changes, schema
        self._waiting: deque[tuple[pa.RecordBatch, Numbers]] = deque()
        self.ended = False

    def start(self) -> Iterator[RewrittenPart]:
        """Pull up to the first row that has a position."""
        yield from self.until(0)

    def until(self, end: int) -> Iterator[RewrittenPart]:
        """Pull until a batch begins at or after `end`: then all positions before it are known."""
        while not self.ended and not (self._waiting and int(self._waiting[-1][1][0]) >= end):
            batch = next(self._changes, None)
            if batch is None:
                self.ended = True
            elif batch.num_rows:
                index = batch.schema.get_field_index(POS)
                if index < 0:
                    yield fitted(batch, self._schema), 0
                else:
                    self._waiting.append(
                        (fitted(batch, self._schema), batch.column(index).to_numpy())
                    )

    def before(self, end: int) -> list[tuple[pa.RecordBatch, Numbers]]:
        """Take the waiting rows whose position is before `end`."""
        taken: list[Any] = []
        while self._waiting and int(self._waiting[0][1][0]) < end:
            batch, places = self._waiting.popleft()
            cut = int(np.searchsorted(places, end))
            taken.append((batch.slice(0, cut), places[:cut]))
            if cut < len(places):
                self._waiting.appendleft((batch.slice(cut), places[cut:]))
        return taken

    def rest(self) -> Iterator[RewrittenPart]:
        """Take all rows that are left."""
        while True:
            while self._waiting:
                yield self._waiting.popleft()[0], 0
            if self.ended:
                return
            yield from self.until(0)


Positions = npt.NDArray[np.int64]


class RemovedRows:
    """Collect removed rows. A decider fills it while its batches are consumed; `positions` is
    complete when they have ended.
    """

    __slots__ = ("_parts", "deleted", "updated")

    def __init__(self) -> None:
        self._parts: list[tuple[int, int, Positions]] = []
        self.updated = self.deleted = 0

    def add(self, positions: npt.ArrayLike, *, updated: int = 0, deleted: int = 0) -> None:
        """Add rows that are deleted or replaced by a new version; each row once."""
        array = np.asarray(positions, dtype=np.int64)
        if len(array):
            self._parts.append((int(array.min()), int(array.max()), array))
        self.updated += updated
        self.deleted += deleted

    def __bool__(self) -> bool:
        return bool(self._parts)

    @property
    def positions(self) -> Positions:
        """Return all positions, ascending, each once."""
        if not self._parts:
            return np.zeros(0, np.int64)
        return distinct(np.concatenate([p for *_, p in self._parts]))

    def between(self, first: int, end: int) -> Positions:
        """Return the positions in [first, end), in any order."""
        parts = [
            p[(p >= first) & (p < end)]
            for low, high, p in self._parts
            if high >= first and low < end
        ]
        return np.concatenate(parts) if parts else np.zeros(0, np.int64)
