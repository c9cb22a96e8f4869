"""Inject faults into a store: let its n-th change of a file fail."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from frazil.storage import Storage
from frazil.storage.base import storage_error

CHANGES = ("write", "open_output", "publish", "delete", "delete_many")


@dataclass
class FlakyStorage:
    """Wrap a store (`inner`) so that the `fail_at`-th call (from 1; 0: none) of one of `operations`
    fails with the errno `error`.

    `lasting`: later calls fail, too. `after`: carry out the failing call before it fails. `calls`:
    (operation, location) of all counted calls; `fired`: those that failed.
    """

    inner: Storage
    fail_at: int = 0
    error: int = errno.EIO
    operations: Collection[str] = ("write", "open_output", "publish")
    lasting: bool = False
    after: bool = False
    calls: list[tuple[str, str]] = field(default_factory=list)
    fired: list[tuple[str, str]] = field(default_factory=list)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "inner":
            raise AttributeError(name)
        return getattr(self.inner, name)

    def _due(self, operation: str, location: str) -> bool:
        if operation not in self.operations:
            return False
        self.calls.append((operation, location))
        due = len(self.calls) == self.fail_at or (
            self.lasting and 0 < self.fail_at < len(self.calls)
        )
        if due:
            self.fired.append((operation, location))
        return due

    def _fail(self, location: str, doing: str) -> Exception:
        return storage_error(OSError(self.error, os.strerror(self.error)), location, doing)

    def write(
        self,
        location: str,
        data: bytes,
        overwrite: bool = False,
        *,
        durable: bool = True,
        synced: bool = True,
    ) -> None:
        """Write a file, or fail."""
        due = self._due("write", location)
        if not due or self.after:
            self.inner.write(location, data, overwrite, durable=durable, synced=synced)
        if due:
            raise self._fail(location, "write")

    def publish(self, location: str, data: bytes) -> bool:
        """Create a file unless it exists, or fail."""
        due = self._due("publish", location)
        done = self.inner.publish(location, data) if not due or self.after else False
        if due:
            raise self._fail(location, "publish")
        return done

    @contextlib.contextmanager
    def open_output(self, location: str, *, overwrite: bool = False) -> Iterator[Any]:
        """Open a binary sink, which fails when it is closed."""
        due = self._due("open_output", location)
        with self.inner.open_output(location, overwrite=overwrite) as sink:
            yield sink
            if due:
                raise self._fail(location, "write")

    def delete(self, location: str) -> None:
        """Delete a file, or fail."""
        if self._due("delete", location):
            raise self._fail(location, "delete")
        self.inner.delete(location)

    def delete_many(self, locations: Iterable[str]) -> list[tuple[str, Exception]]:
        """Delete files, or return an error for each."""
        to_delete = list(locations)
        if to_delete and self._due("delete_many", to_delete[0]):
            return [(location, self._fail(location, "delete")) for location in to_delete]
        return self.inner.delete_many(to_delete)
