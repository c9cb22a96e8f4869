"""Group the data files of a row-level change, one group per task: enough groups for all slots, few
enough that new files are not small.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TypeVar

from frazil.scan.options import MIN_ADAPTIVE_SPLIT, SplitOptions
from frazil.scan.tasks import FileScanTask

T = TypeVar("T")
FEW = 64  # small files that a group of `in_few_groups` holds at least, if there are so many
# groups per slot, if there are enough files: with smaller groups, slots wait less for the last
# group to end
ROUNDS = 2


def grouped(
    tasks: Iterable[FileScanTask], parallelism: int, split: SplitOptions
) -> list[tuple[FileScanTask, ...]]:
    """Group whole files into groups of about one size; files of a partition lie together, so that
    few tasks write to each partition.
    """
    return packed(tasks, parallelism, split, lambda t: t)


def in_few_groups(split: SplitOptions) -> SplitOptions:
    """Return the options with which many small files make few groups, for changes that leave the
    files as they are (merge-on-read).

    Each group writes a data file for the rows that it changes. With the usual cost of opening a
    file every few small files make a group, so that each change adds as many files as there are
    groups, and the next change has to look into all of them.
    """
    return replace(split, open_file_cost=min(split.open_file_cost, MIN_ADAPTIVE_SPLIT // FEW))


def packed(
    items: Iterable[T], parallelism: int, split: SplitOptions, task_of: Callable[[T], FileScanTask]
) -> list[tuple[T, ...]]:
    """Group items that hold a task, as `grouped` does."""
    every = sorted(items, key=lambda i: (task_of(i).spec.spec_id, repr(task_of(i).partition)))
    weights = [max(task_of(i).size_bytes, split.open_file_cost) for i in every]
    wanted = -(-sum(weights) // max(1, parallelism * ROUNDS))
    least = min(MIN_ADAPTIVE_SPLIT, split.split_size)
    size = min(split.split_size, max(wanted, least))
    return list(_packed(every, weights, size))


def _packed(items: Sequence[T], weights: Sequence[int], size: int) -> Iterable[tuple[T, ...]]:
    held: list[T] = []
    weight = 0
    for item, more in zip(items, weights, strict=True):
        if held and weight + more / 2 >= size:
            # without this item the group is closer to the wanted size
            yield tuple(held)
            held, weight = [], 0
        held.append(item)
        weight += more
    if held:
        yield tuple(held)
