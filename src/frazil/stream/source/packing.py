"""Pack the files of a micro-batch into tasks of about one size, in their order unless `lookback` is
given; large files are cut at their row groups."""

from __future__ import annotations

from collections.abc import Sequence

from frazil.scan.combine import combine
from frazil.scan.options import SplitOptions
from frazil.scan.tasks import FileScanTask


def packed(
    tasks: Sequence[FileScanTask], split: SplitOptions, parallelism: int, lookback: int = 1
) -> list[tuple[FileScanTask, ...]]:
    """Return groups of tasks of at most a split size, unless one piece alone is larger.

    With adaptive sizes there are as many groups as slots, unless that makes them larger than the
    split size: as Spark packs files, a file weighs its bytes and at least `open_file_cost`. A piece
    goes into the first of the last `lookback` groups that has room for it. The same tasks give the
    same groups.
    """
    weights = [max(t.size_bytes, (1 + len(t.delete_files)) * split.open_file_cost) for t in tasks]
    size = split.split_size
    if split.adaptive:
        size = min(size, max(split.open_file_cost, -(-sum(weights) // max(parallelism, 1))))
    groups: list[list[FileScanTask]] = []
    rooms: list[int] = []
    for task, weight in zip(tasks, weights, strict=True):
        cut = (
            [p for c in combine([task], size, 1, split.open_file_cost) for p in c.tasks]
            if task.length > size
            else [task]
        )
        for piece in cut:
            cost = weight if len(cut) == 1 else max(piece.size_bytes, split.open_file_cost)
            # A size that follows from the number of slots may be exceeded by half of a group's last
            # file, since one task more than there are slots would wait until another has ended.
            slack = 2 if size < split.split_size else 1
            place = next(
                (
                    n
                    for n in range(max(0, len(groups) - lookback), len(groups))
                    if cost <= slack * rooms[n]
                ),
                None,
            )
            if place is None:
                place = len(groups)
                groups.append([])
                rooms.append(size)
            groups[place].append(piece)
            rooms[place] -= cost
    return [tuple(g) for g in groups]
