"""Remove rows at known positions, such as Spark has found them by a condition that only Spark can
evaluate.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from frazil.arrow.deletes.delete_files import Positions
from frazil.rows.change import ChangeContext, Changed, Changes, apply_changes
from frazil.rows.removed_rows import RemovedRows
from frazil.scan.tasks import FileScanTask


class Nothing:
    """Decide nothing: for operations whose rows are known already."""

    def begin(self) -> Nothing:
        return self

    def changes(self, task: FileScanTask, removed_rows: RemovedRows) -> Iterator[pa.RecordBatch]:
        return iter(())

    def report(self) -> Any:
        return None


def remove_positions(
    context: ChangeContext, group: Sequence[tuple[FileScanTask, Positions]]
) -> Changed:
    """Remove the rows at these positions (ascending, each once). All count as deleted; the caller
    corrects the counts for an UPDATE.
    """
    return apply_changes(context, ((task, _gone(positions)) for task, positions in group))


def _gone(positions: Positions) -> Changes:
    def changes(removed_rows: RemovedRows) -> Iterator[pa.RecordBatch]:
        removed_rows.add(np.asarray(positions, np.int64), deleted=len(positions))
        return iter(())

    return changes
