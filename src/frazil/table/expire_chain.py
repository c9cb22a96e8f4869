"""Provide PyIceberg's way to expire snapshots:
`t.maintenance.expire_snapshots().by_id(1).commit()`.
"""

from __future__ import annotations

import datetime as dt
import logging
from collections.abc import Callable, Iterable
from dataclasses import replace
from types import TracebackType
from typing import NoReturn, Self

from frazil.maintain.snapshots.expire_snapshots import ExpireSnapshotsResult
from frazil.maintain.snapshots.retention import RetentionRequest
from frazil.spec.values import milliseconds

_log = logging.getLogger("frazil")
_NOTHING_DONE = (
    "expire_snapshots() without arguments begins PyIceberg's chain and expires nothing before .commit(). For Java's procedure, call "
    ".commit() at once, or give an argument: expire_snapshots(older_than=…), expire_snapshots(retain_last=1)."
)


class ExpireSnapshots:
    """Collect what is to expire; nothing happens before `commit()`, or the end of a `with` block.

    Of a chain with `by_id` or `by_ids` exactly these snapshots expire, as with PyIceberg; with
    `older_than` those that Java's procedure would expire; with nothing, what the table's properties
    say. The files that only they reach are deleted, which PyIceberg leaves.
    """

    def __init__(self, run: Callable[[RetentionRequest], ExpireSnapshotsResult]):
        self._run = run
        self._request = RetentionRequest(by_age=False)
        self._chosen = self._done = False

    def by_id(self, snapshot_id: int) -> Self:
        """Expire this snapshot. `commit()` refuses one that a branch or tag names."""
        return self.by_ids([snapshot_id])

    def by_ids(self, snapshot_ids: Iterable[int]) -> Self:
        """Expire these snapshots."""
        self._chosen = True
        self._request = replace(
            self._request, snapshot_ids=(*self._request.snapshot_ids, *snapshot_ids)
        )
        return self

    def older_than(self, timestamp: dt.datetime | str | int) -> Self:
        """Expire the snapshots that are older than a time, but those that retention keeps."""
        self._chosen = True
        self._request = replace(self._request, older_than_ms=milliseconds(timestamp), by_age=True)
        return self

    def commit(self) -> ExpireSnapshotsResult:
        """Expire the chosen snapshots; return the counts of deleted files."""
        self._done = True
        return self._run(self._request if self._chosen else RetentionRequest())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._done = True
        if error is None:
            self.commit()

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"{name}: {_NOTHING_DONE}")

    def __repr__(self) -> str:
        return (
            "ExpireSnapshots(committed)"
            if self._done
            else f"ExpireSnapshots(nothing expired yet: {_NOTHING_DONE})"
        )

    def __del__(self) -> None:
        if not self.__dict__.get("_done", True):
            # dropped without a commit: a job that meant Java's procedure would never expire
            # anything
            _log.warning(_NOTHING_DONE)
