"""Rows taken away whose places are known already (found by Spark, or by another way than a decider): the same end of the road."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from frazil.arrow.deletes.delete_files import Positions
from frazil.rows.change import ChangeContext, Changed, Changes, apply_changes
from frazil.rows.found import Found
from frazil.scan.tasks import FileScanTask


class Nothing:
    """The decider of operations that need none."""

    def begin(self) -> Nothing:
        return self

    def changes(self, task: FileScanTask, found: Found) -> Iterator[pa.RecordBatch]:
        return iter(())

    def report(self) -> Any:
        return None


def remove_positions(context: ChangeContext, group: Sequence[tuple[FileScanTask, Positions]]) -> Changed:
    """The files without the rows at these places (ascending, each once). All count as deleted: whoever found them knows better."""
    return apply_changes(context, ((task, _gone(positions)) for task, positions in group))


def _gone(positions: Positions) -> Changes:
    def changes(found: Found) -> Iterator[pa.RecordBatch]:
        found.add(np.asarray(positions, np.int64), deleted=len(positions))
        return iter(())

    return changes
