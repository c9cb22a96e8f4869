"""Queue the commits to one table, in this process and between the processes of a machine.

Of writers that try at the same time all lose but one, and each lost attempt costs as much as a commit; in a queue each commits once. The
queue only saves work: the catalog's compare-and-swap decides which commit was first, so a writer that does not queue (another machine,
another engine), or has no patience left, simply tries. A process that ends loses its place, since the kernel releases its lock.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import random
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from weakref import WeakValueDictionary

from frazil.catalog.base import LoadedTable
from frazil.storage.locations import scheme_of

PATIENCE = 10.0
"""Seconds that a commit waits for its turn at most: a writer that hangs during its own turn delays no other for longer."""
_LOOK_AGAIN = 0.002  # seconds, roughly, between two attempts to lock a folder that another process has locked


class _Place:
    """Hold the place of one commit in a line."""

    def __init__(self) -> None:
        self.thread, self.called = threading.get_ident(), threading.Event()


class _Line:
    """Order the commits of this process to one table: first come, first served."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._first: _Place | None = None
        self._others: deque[_Place] = deque()

    def is_first(self, thread: int) -> bool:
        first = self._first
        return first is not None and first.thread == thread

    def enter(self, place: _Place) -> bool:
        """Take a place; tell whether it is the first."""
        with self._lock:
            if self._first is None:
                self._first = place
                return True
            self._others.append(place)
            return False

    def wait(self, place: _Place, patience: float) -> None:
        """Wait until the place is the first. When patience runs out, the place becomes first beside the one that holds up the line, so that
        the others need not wait for a commit that hangs."""
        if not place.called.wait(patience):
            with self._lock:
                if self._first is not place:
                    self._others.remove(place)
                    self._first = place

    def leave(self, place: _Place) -> None:
        with self._lock:
            if self._first is place:
                self._first = self._others.popleft() if self._others else None
                if self._first is not None:
                    self._first.called.set()
            elif place in self._others:  # the place was interrupted while it waited
                self._others.remove(place)


_lines: WeakValueDictionary[str, _Line] = WeakValueDictionary()
_lines_lock = threading.Lock()
_locked: set[int] = set()  # descriptors of folders that this process has locked


def _line(table: LoadedTable) -> _Line:
    key = table.metadata.table_uuid or table.metadata.location
    with _lines_lock:
        line = _lines.get(key)
        if line is None:
            line = _lines[key] = _Line()
        return line


@contextlib.contextmanager
def turn(table: LoadedTable, patience: float = PATIENCE, meanwhile: Callable[[], object] = lambda: None) -> Iterator[bool]:
    """Wait for the turn to commit to a table, and hold it for the block; yield whether others had their turn before, so that `table` is
    stale.

    `meanwhile` is called when there are others to wait for. The code in the block must be right without being alone, since a wait ends
    when patience runs out. A thread that holds a turn gets another one at once.
    """
    line, place, until = _line(table), _Place(), time.monotonic() + patience
    if line.is_first(place.thread):
        yield False
        return
    try:
        others = not line.enter(place)
        if others:
            meanwhile()
            line.wait(place, until - time.monotonic())
        with _folder(table) as descriptor:
            if descriptor is not None and not _locks(descriptor):
                if not others:
                    meanwhile()
                others = True
                _wait_for(descriptor, until)
            yield others
    finally:
        line.leave(place)


@contextlib.contextmanager
def _folder(table: LoadedTable) -> Iterator[int | None]:
    """Open the folder of a table's metadata, whose lock the processes of a machine share; None where there is none on a local disk."""
    where = table.metadata_location
    if "://" in where and scheme_of(where) != scheme_of(table.metadata.location):
        where = ""  # servers of catalogs may name an address of their own in place of a file
    path = table.storage.local_path(where) if where else None
    try:
        descriptor = os.open(os.path.dirname(path), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC) if path else None
    except OSError:
        descriptor = None
    if descriptor is None:
        yield None
        return
    _locked.add(descriptor)
    try:
        yield descriptor
    finally:
        _locked.discard(descriptor)
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_UN)  # for a process that was forked meanwhile has the descriptor as well
        os.close(descriptor)


def _locks(descriptor: int) -> bool:
    """Lock a folder; False: another process has the lock. Where folders cannot be locked (some network mounts), nobody has it."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


def _wait_for(descriptor: int, until: float) -> None:
    while time.monotonic() < until and not _locks(descriptor):
        time.sleep(random.uniform(0.5, 1.5) * _LOOK_AGAIN)


def _after_fork() -> None:
    """Reset the queue in a forked process: the waiting threads and the locks belong to the parent."""
    global _lines_lock
    _lines_lock = threading.Lock()
    _lines.clear()
    while _locked:
        with contextlib.suppress(OSError):
            os.close(_locked.pop())


os.register_at_fork(after_in_child=_after_fork)
