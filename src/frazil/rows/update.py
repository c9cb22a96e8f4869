"""Decide an UPDATE: rows for which the condition is TRUE get new values; a row whose partition
value changes moves to that partition.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

import pyarrow as pa

from frazil.arrow.read.read_context import ReadContext
from frazil.arrow.read.rows_at import rows_of
from frazil.rows.assign import Assignments
from frazil.rows.removed_rows import RemovedRows
from frazil.rows.rewrite import HIDDEN_POS, POS, ROW_ID
from frazil.scan.tasks import FileScanTask
from frazil.spec.schema import ROW_ID_ID, Schema
from frazil.spec.types import LongType, NestedField

_ROW_ID = NestedField(ROW_ID_ID, "\0row_id", LongType(), False)


@dataclass(frozen=True)
class UpdateDecider:
    """Make new versions of matching rows. `read`: reads the columns that are kept or used, then the
    row id (with `lineage`), then the position."""

    read: ReadContext
    assignments: Assignments
    lineage: bool

    @classmethod
    def of(cls, read: ReadContext, assignments: Assignments, lineage: bool) -> UpdateDecider:
        """Make the decider. `read`: the read context of the plan, whose filter is the condition of
        the UPDATE.
        """
        needed = read.table_schema.project({*assignments.kept, *assignments.read}).fields
        return cls(
            read.sharing_deletes(
                projection=Schema(*needed, *((_ROW_ID,) if lineage else ()), HIDDEN_POS)
            ),
            assignments,
            lineage,
        )

    def begin(self) -> Self:
        return self

    def changes(self, task: FileScanTask, removed_rows: RemovedRows) -> Iterator[pa.RecordBatch]:
        for batch in rows_of(task, self.read):
            places = batch.column(batch.num_columns - 1)
            removed_rows.add(places.to_numpy(), updated=batch.num_rows)
            new = self.assignments.apply(batch)
            columns, names = [*new.columns, places], [*new.schema.names, POS]
            if self.lineage:
                columns, names = [*columns, batch.column(batch.num_columns - 2)], [*names, ROW_ID]
            yield pa.RecordBatch.from_arrays(columns, names=names)

    def report(self) -> None:
        return None
