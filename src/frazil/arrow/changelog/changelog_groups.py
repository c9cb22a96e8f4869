"""Group changelog tasks into parts that can be read each on their own, where nothing can be
shuffled: a mixed snapshot is matched whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pyarrow as pa

from frazil.arrow.changelog.read_changelog import ChangelogRead, read_together
from frazil.scan.changelog import ChangelogPlan, ChangelogTask


def packed_tasks(
    tasks: Sequence[ChangelogTask], split_size: int, open_cost: int
) -> list[list[ChangelogTask]]:
    """Group tasks, in their order, into groups of about `split_size` bytes; a file counts as at
    least `open_cost` bytes.
    """
    groups: list[list[ChangelogTask]] = []
    size = split_size
    for task in tasks:
        cost = max(task.task.size_bytes, open_cost)
        if size + cost > split_size or not groups:
            groups.append([])
            size = 0
        groups[-1].append(task)
        size += cost
    return groups


def partitions_of(plan: ChangelogPlan) -> list[list[ChangelogTask]]:
    """Group the tasks of a changelog so that each group can be read independently of the others."""
    split, groups = plan.options.split, []
    for snapshot in plan.snapshots:
        groups += (
            [list(snapshot.tasks)]
            if snapshot.is_mixed
            else packed_tasks(snapshot.tasks, split.split_size, split.open_file_cost)
        )
    return groups


def partition_rows(tasks: Sequence[ChangelogTask], read: ChangelogRead) -> Iterator[pa.RecordBatch]:
    """Read the rows of one group of `partitions_of`, in a worker and with one thread, since Spark
    runs a task per slot.
    """
    single_threaded = replace(read.context, options=replace(read.context.options, workers=1))
    return read_together(tasks, replace(read, context=single_threaded))
