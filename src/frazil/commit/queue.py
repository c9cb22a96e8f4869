"""Queue the commits to one table, in this process and between the processes of a machine.

Of writers that try at the same time all lose but one, and each lost attempt costs as much as a
commit; in a queue each commits once. The queue only saves work: the catalog's compare-and-swap
decides which commit was first, so a writer that does not queue (another machine, another engine),
or has no patience left, simply tries. A process that ends loses its place, since the kernel
releases its lock.

Processes share one lock file of their user in the machine's temporary folder, in which each table
has a byte. So the queue does not depend on where a table lies, and the file never grows: locks are
on bytes that need not exist.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import random
import stat
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from weakref import WeakValueDictionary

from frazil.catalog.base import LoadedTable

PATIENCE = 10.0
"""Seconds that a commit waits for its turn at most: a writer that hangs during its own turn delays
no other for longer.
"""
_LOOK_AGAIN = 0.002
"""Seconds, roughly, between two attempts of the process that is the next to lock the turn, which
another one has.
"""
_LOOK_FOR_NEXT = 0.01
"""The same of processes that want to be the next: of many that wait, one of them looks soon."""


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
        """Wait until the place is the first. When patience runs out, the place becomes first beside
        the one that holds up the line, so that the others need not wait for a commit that hangs."""
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


class _LockFile:
    """Lock bytes of the file that all processes of this user on this machine lock.

    The locks belong to the process (POSIX), so that a forked child has none; closing the file would
    release all of them, so it is open as long as any thread has a turn.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._descriptor: int | None = None
        self._users = 0

    def enter(self) -> int | None:
        """Return the descriptor of the open file; None where there is none that is safe to use."""
        with self._lock:
            if self._users == 0:
                self._descriptor = _opened()
            self._users += 1
            return self._descriptor

    def leave(self) -> None:
        with self._lock:
            self._users -= 1
            if self._users == 0:
                self.close()

    def is_used(self) -> bool:
        return self._users > 0

    def reset(self) -> None:
        """Close the file in a forked process, where another thread may have held the lock of this
        object for ever.
        """
        self._lock = threading.Lock()
        self.close()

    def close(self) -> None:
        if self._descriptor is not None:
            with contextlib.suppress(OSError):
                os.close(self._descriptor)
            self._descriptor = None


def _opened() -> int | None:
    """Open the lock file, in a folder that only this user can write to. Other users can prepare a
    folder or a link of that name in the temporary folder: theirs is not used, and then processes do
    not wait for each other."""
    user = os.geteuid()
    try:
        path = os.path.join(tempfile.gettempdir(), f"frazil-{user}")
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            folder = os.open(path, flags)
        except FileNotFoundError:
            with contextlib.suppress(FileExistsError):
                os.mkdir(path, 0o700)
            folder = os.open(path, flags)
        try:
            owned = os.fstat(folder)
            if owned.st_uid != user or owned.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
                return None
            return os.open(
                "commits.lock",
                os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC,
                0o600,
                dir_fd=folder,
            )
        finally:
            os.close(folder)
    except OSError:
        return None


_lines: WeakValueDictionary[str, _Line] = WeakValueDictionary()
_lines_lock = threading.Lock()
_raced: dict[str, float] = {}
_file = _LockFile()


def _line(key: str) -> _Line:
    with _lines_lock:
        line = _lines.get(key)
        if line is None:
            line = _lines[key] = _Line()
        return line


@contextlib.contextmanager
def turn(
    table: LoadedTable, patience: float = PATIENCE, meanwhile: Callable[[], object] = lambda: None
) -> Iterator[bool]:
    """Wait for the turn to commit to a table, and hold it for the block; yield whether others had
    their turn before, so that `table` is stale.

    `meanwhile` is called when there are others to wait for. The code in the block must be right
    without being alone, since a wait ends when patience runs out. A thread that holds a turn gets
    another one at once.
    """
    key = _key(table)
    line, place, until = _line(key), _Place(), time.monotonic() + patience
    if line.is_first(place.thread):
        yield False
        return
    try:
        others = not line.enter(place)
        if others:
            meanwhile()
            line.wait(place, until - time.monotonic())
        with _byte(key) as byte:
            if byte is not None:
                descriptor, turns = byte
                if not (_locks(descriptor, turns + 1) and _locks(descriptor, turns)):
                    if not others:
                        meanwhile()
                    others = True
                    _wait_for(descriptor, turns + 1, until, _LOOK_FOR_NEXT)
                    _wait_for(descriptor, turns, until, _LOOK_AGAIN)
                _unlock(descriptor, turns + 1)
            yield others
    finally:
        line.leave(place)


def note_race(table: LoadedTable, seconds: float) -> None:
    """Record that a change of rows of this table was planned on what others had committed just
    before, in this many seconds: for a while, the next ones go first (`goes_first`).
    """
    if seconds < PATIENCE / 4:
        _raced[_key(table)] = time.monotonic()
    else:
        _raced.pop(_key(table), None)


def goes_first(table: LoadedTable) -> bool:
    """Tell whether a change of rows takes its turn before it reads: the last ones were planned in
    vain, and planning them was short beside the patience of those who wait.
    """
    return time.monotonic() - _raced.get(_key(table), -PATIENCE) < PATIENCE


def _key(table: LoadedTable) -> str:
    return table.metadata.table_uuid or table.metadata.location


def wait_for_commits(patience: float) -> bool:
    """Wait until no commit of this process has its turn, at most so many seconds; tell whether that
    came about.
    """
    until = time.monotonic() + patience
    while _file.is_used():
        if time.monotonic() >= until:
            return False
        time.sleep(_LOOK_FOR_NEXT)
    return True


@contextlib.contextmanager
def _byte(key: str) -> Iterator[tuple[int, int] | None]:
    """Return the lock file and the byte of a table in it that who has its turn has locked, and
    unlock it at the end of the block. Who is the next has locked the byte behind it: so who comes
    again at once, having had its turn, waits behind those who wait already.
    """
    file = _file
    descriptor = file.enter()
    try:
        if descriptor is None:
            yield None
            return
        byte = int.from_bytes(hashlib.blake2b(key.encode(), digest_size=8).digest()) >> 3 << 1
        try:
            yield descriptor, byte
        finally:
            _unlock(descriptor, byte)
    finally:
        file.leave()


def _locks(descriptor: int, byte: int) -> bool:
    """Lock a byte; False: another process has the lock. Where files cannot be locked (some mounts),
    nobody has it.
    """
    try:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, byte)
    except (BlockingIOError, PermissionError):  # POSIX leaves to the system which of both it is
        return False
    except OSError:
        return True
    return True


def _unlock(descriptor: int, byte: int) -> None:
    with contextlib.suppress(OSError):
        fcntl.lockf(descriptor, fcntl.LOCK_UN, 1, byte)


def _wait_for(descriptor: int, byte: int, until: float, pause: float) -> None:
    while time.monotonic() < until and not _locks(descriptor, byte):
        time.sleep(random.uniform(0.5, 1.5) * pause)


def _after_fork() -> None:
    """Reset the queue in a forked process: the waiting threads and the locks belong to the parent."""
    global _lines_lock, _file
    _lines_lock = threading.Lock()
    _lines.clear()
    inherited, _file = _file, _LockFile()
    inherited.reset()


os.register_at_fork(after_in_child=_after_fork)
