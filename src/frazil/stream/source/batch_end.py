"""Choose where the next micro-batch ends, by its limits on files, rows, bytes and snapshots.

A batch ends within a snapshot when the snapshot has more files than the batch may take; its offset
then holds how many were read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from frazil.errors import ValidationError
from frazil.scan.listing.numbering import number_files
from frazil.spec.snapshot import Snapshot
from frazil.stream.source.added import Added, AddedFiles, Numbers, sizes_of
from frazil.stream.source.history import StreamHistory, counted
from frazil.stream.source.offset import Position
from frazil.stream.source.options import Limits, StreamOptions
from frazil.stream.source.scan_pages import ScanPages

SKIPPED, READ, REFUSED = "skipped", "read", "refused"


@dataclass
class Budget:
    """Count what a batch may still read. The first file is read whatever its rows and bytes, so
    that a stream cannot come to a halt.
    """

    limits: Limits
    files: int = 0
    rows: int = 0
    bytes: int = 0
    snapshots: int = 0

    @property
    def is_spent(self) -> bool:
        limits = self.limits
        taken = ((self.files, limits.files), (self.rows, limits.rows), (self.bytes, limits.bytes))
        return any(limit is not None and n >= limit for n, limit in taken)

    @property
    def measures(self) -> bool:
        """Tell whether the rows or bytes of files must be known."""
        return self.limits.rows is not None or self.limits.bytes is not None

    def take_all_if_they_fit(self, files: int, rows: int | None, size: int | None) -> bool:
        """Take a number of files if all of them fit. Unknown rows or bytes do not fit where they
        are limited.
        """
        new = (
            (self.files, files, self.limits.files),
            (self.rows, rows, self.limits.rows),
            (self.bytes, size, self.limits.bytes),
        )
        if any(limit is not None and (n is None or taken + n > limit) for taken, n, limit in new):
            return False
        self.files, self.rows, self.bytes = (
            self.files + files,
            self.rows + (rows or 0),
            self.bytes + (size or 0),
        )
        return True

    def take_what_fits(
        self, count: int, sizes: Callable[[], Iterator[tuple[Numbers, Numbers]]]
    ) -> int:
        """Take as many of `count` files in their order as fit, and return how many; `sizes` gives
        their rows and bytes in runs.
        """
        room = count if self.limits.files is None else min(count, self.limits.files - self.files)
        if not self.measures or room <= 0:
            self.files += max(room, 0)
            return max(room, 0)
        taken = 0
        for rows, size in sizes():
            rows, size = rows[: room - taken], size[: room - taken]
            fitting = min(
                self._fitting(self.rows, rows, self.limits.rows),
                self._fitting(self.bytes, size, self.limits.bytes),
            )
            if not self.files and not fitting and len(rows):
                fitting = 1
            self.files, taken = self.files + fitting, taken + fitting
            self.rows, self.bytes = (
                self.rows + int(rows[:fitting].sum()),
                self.bytes + int(size[:fitting].sum()),
            )
            if fitting < len(rows) or taken >= room:
                break
        return taken

    @staticmethod
    def _fitting(taken: int, more: Numbers, limit: int | None) -> int:
        return (
            len(more)
            if limit is None
            else int(np.searchsorted(taken + np.cumsum(more), limit, side="right"))
        )


def treatment(snapshot: Snapshot, options: StreamOptions) -> str:
    """Return READ, SKIPPED or REFUSED: a snapshot's files are read, it is passed over, or it is an
    error. Compaction changes no rows and is always passed over."""
    operation = snapshot.operation
    if operation == "append":
        return READ
    if operation == "replace" or operation in options.skips:
        return SKIPPED
    return READ if options.changes and operation in ("overwrite", "delete") else REFUSED


def refuse(snapshot: Snapshot, table: str) -> ValidationError:
    """Make the error of a stream that meets a snapshot which is no append."""
    operation = snapshot.operation or "unknown"
    policy = (
        f"on-non-append=skip-{operation}"
        if operation in ("overwrite", "delete")
        else "a starting point after it"
    )
    return ValidationError(
        f"Cannot process {operation} snapshot: {snapshot.snapshot_id} of table {table}; a stream of rows follows appends.",
        hint=f"Set on-non-append=changes to get deleted and inserted rows with their _change_type, or {policy} to pass over it "
        f"(Java's streaming-skip-{operation}-snapshots=true).",
        table=table,
        snapshot_id=snapshot.snapshot_id,
    )


def next_position(
    history: StreamHistory,
    begin: Position,
    options: StreamOptions,
    limits: Limits,
    added: AddedFiles,
    pages: Callable[[Position], ScanPages],
) -> Position:
    """Return where the batch that begins at a position of the history ends.

    Raises ValidationError when the first snapshot to read is refused; rows before such a snapshot
    are delivered first.
    """
    budget, position = Budget(limits), begin
    if position.phase == "scan":
        scan = pages(position)
        taken = budget.take_what_fits(scan.total - position.file, lambda: scan.sizes(begin.file))
        position = _advanced(position, scan.total, taken, options)
        if position.phase == "scan":
            return position
    pending = history.after(position)
    assert isinstance(pending, int)
    for snapshot in (history.walked[n] for n in range(pending - 1, -1, -1)):
        treated = treatment(snapshot, options)
        if (limits.snapshots is not None and budget.snapshots >= limits.snapshots) or (
            treated == READ and budget.is_spent
        ):
            break
        if treated == REFUSED:
            if position == begin:
                raise refuse(snapshot, history.metadata.location)
            break
        before = position
        position = (
            _after(snapshot, position, options)
            if treated == SKIPPED
            else _read(snapshot, position, budget, options, added)
        )
        budget.snapshots += 1
        if position == before or position.phase == "files":
            break
    return position


def _after(snapshot: Snapshot, position: Position, options: StreamOptions) -> Position:
    ordinal = position.ordinal + int(options.changes and snapshot.operation != "replace")
    return Position(snapshot.snapshot_id, ordinal=ordinal)


def _read(
    snapshot: Snapshot,
    position: Position,
    budget: Budget,
    options: StreamOptions,
    added: AddedFiles,
) -> Position:
    """Return the position after as much of a snapshot as fits; the same position when nothing of it
    does.
    """
    whole = _after(snapshot, position, options)
    if not budget.limits.any:
        return whole
    if snapshot.operation != "append":
        # rows that came and went are matched with each other: all of a snapshot or nothing
        return whole if _takes_changes(snapshot, budget) else position
    here = (
        position
        if position.phase == "files"
        else Position(snapshot.snapshot_id, "files", 0, "", position.ordinal)
    )
    of_snapshot = added.of(snapshot)
    if of_snapshot.files == 0:
        # an append without files, such as those by which Flink's sink keeps an idle stream's
        # position
        return whole
    if here.file == 0 and budget.take_all_if_they_fit(
        of_snapshot.files, of_snapshot.rows, of_snapshot.bytes
    ):
        return whole
    taken = budget.take_what_fits(
        of_snapshot.files - here.file, lambda: _sizes(of_snapshot, here.file, added)
    )
    if taken == 0:
        return position
    return (
        whole if here.file + taken >= of_snapshot.files else replace(here, file=here.file + taken)
    )


def _takes_changes(snapshot: Snapshot, budget: Budget) -> bool:
    numbers = (
        ("added-data-files", "deleted-data-files", "added-delete-files"),
        ("added-records", "deleted-records", "added-position-deletes"),
    )
    files, rows = (sum(counted(snapshot, key) or 0 for key in keys) for keys in numbers)
    size = counted(snapshot, "added-files-size") or 0
    if budget.take_all_if_they_fit(max(files, 1), rows, size):
        return True
    if budget.files:
        return False
    budget.files, budget.rows, budget.bytes = max(files, 1), rows, size
    return True


def _sizes(of_snapshot: Added, first: int, added: AddedFiles) -> Iterator[tuple[Numbers, Numbers]]:
    numbers = number_files(
        added.metadata,
        of_snapshot.snapshot,
        added.storage,
        added=True,
        files=range(first, of_snapshot.files),
    )
    return sizes_of(numbers, added.storage)


def _advanced(position: Position, total: int, taken: int, options: StreamOptions) -> Position:
    """Return the position in a scan after some more files; after the snapshot when all are read."""
    if position.file + taken >= total:
        return Position(position.snapshot_id, ordinal=position.ordinal + options.changes)
    return replace(position, file=position.file + taken)
