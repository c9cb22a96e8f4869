"""Decide a DELETE: find the rows for which the condition is TRUE; those for which it is FALSE or
NULL stay.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

import pyarrow as pa

from frazil.arrow.read.read_context import ReadContext
from frazil.arrow.read.rows_at import rows_of
from frazil.rows.removed_rows import RemovedRows
from frazil.rows.rewrite import HIDDEN_POS
from frazil.scan.tasks import FileScanTask
from frazil.spec.schema import Schema


@dataclass(frozen=True)
class DeleteDecider:
    """Find the rows to delete. `read`: reads the positions of the rows that match, and no other
    column.
    """

    read: ReadContext

    @classmethod
    def of(cls, read: ReadContext) -> DeleteDecider:
        """Make the decider. `read`: the read context of the plan, whose filter is the condition of
        the DELETE.
        """
        return cls(read.sharing_deletes(projection=Schema(HIDDEN_POS)))

    def begin(self) -> Self:
        return self

    def changes(self, task: FileScanTask, removed_rows: RemovedRows) -> Iterator[pa.RecordBatch]:
        for batch in rows_of(task, self.read):
            removed_rows.add(batch.column(0).to_numpy(), deleted=batch.num_rows)
        yield from ()

    def report(self) -> None:
        return None
