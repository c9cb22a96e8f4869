"""Write, rotate, list and read the files of a table's scan log. Records are gathered in memory and
written in the background: a scan neither waits for its record nor fails with it.

Each file is written once, under a name of its own, so that any number of processes write at the
same time, on every store. The directory's name begins with `_`: clean-ups of orphan files pass over
it.
"""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from frazil.errors import FrazilError
from frazil.scan.manifests import each
from frazil.scan.options import default_workers
from frazil.scan.scan_log.records import LoggedScan, line_of, scan_of
from frazil.spec.metadata import TableMetadata
from frazil.storage import FileInfo, Storage
from frazil.storage.locations import join, metadata_root

_log = logging.getLogger("frazil.scan")
DIRECTORY = "_scan-log"
MOST_FILES = 256
MOST_BYTES = 1 << 16
"""Bytes of one file: the log of a table takes at most 16 MB, and the oldest files go first."""
_DAY = 86_400_000


def directory_of(metadata: TableMetadata) -> str:
    """Return the directory of a table's scan log, beside its metadata."""
    return join(metadata_root(metadata.location, metadata.properties), DIRECTORY)


def write_lines(storage: Storage, directory: str, lines: Iterable[bytes]) -> None:
    """Write records into new files, and remove the oldest files beyond the limit. Raises the errors
    of the store.
    """
    for content in _packed(lines):
        name = f"{time.time_ns() // 1_000_000:013d}-{uuid.uuid4().hex[:12]}.jsonl"
        storage.write(join(directory, name), content, synced=False)
    names = _entries(storage, directory)
    begun = time.time_ns() // 1_000_000 - _DAY
    # left by processes that were killed
    stale = [f.location for f in names if not _is_log(f) and f.modified_ms < begun]
    old = [f.location for f in names if _is_log(f)]
    storage.delete_many([*stale, *old[: max(0, len(old) - MOST_FILES)]])


def _packed(lines: Iterable[bytes]) -> Iterable[bytes]:
    pack, size = list[bytes](), 0
    for line in lines:
        if len(line) > MOST_BYTES:
            continue
        if size + len(line) > MOST_BYTES:
            yield b"".join(pack)
            pack, size = [], 0
        pack.append(line)
        size += len(line)
    if pack:
        yield b"".join(pack)


def _entries(storage: Storage, directory: str) -> list[FileInfo]:
    return sorted(storage.entries(directory)[1], key=lambda f: f.location)


def _is_log(file: FileInfo) -> bool:
    return file.location.endswith(".jsonl") and not file.location.rpartition("/")[2].startswith(".")


def log_files(metadata: TableMetadata, storage: Storage) -> list[str]:
    """List the files of a table's scan log, for a purge. Returns none where the directory cannot be
    listed, with a warning.
    """
    directory = directory_of(metadata)
    try:
        return [f.location for f in _entries(storage, directory)]
    except FrazilError as error:
        _log.warning("The scan log %s cannot be listed: %s", directory, error)
        return []


def read_log(metadata: TableMetadata, storage: Storage) -> list[LoggedScan]:
    """Read a table's scan log, oldest scan first. What cannot be read is left out, with a warning."""
    directory = directory_of(metadata)
    try:
        files = [f for f in _entries(storage, directory) if _is_log(f)][-MOST_FILES:]
    except FrazilError as error:
        _log.warning("The scan log %s cannot be listed: %s", directory, error)
        return []
    logged_scans: list[LoggedScan] = []
    damaged: list[str] = []
    for scans, wrong in each(lambda f: _read(storage, f), files, default_workers()):
        logged_scans += scans
        damaged += wrong
    if damaged:
        shown = ", ".join(damaged[:3]) + (", …" if len(damaged) > 3 else "")
        _log.warning(
            "The scan log %s has records that cannot be read, and are ignored: %s", directory, shown
        )
    return sorted(logged_scans, key=lambda s: s.time_ms)


def _read(storage: Storage, file: FileInfo) -> tuple[Sequence[LoggedScan], Sequence[str]]:
    if file.size > 2 * MOST_BYTES:
        return [], [f"{file.location}: too large"]
    try:
        lines = storage.read(file.location).splitlines()
    except FrazilError as error:
        return [], [f"{file.location}: {error}"]
    logged_scans, wrong = [], 0
    for line in lines:
        try:
            logged_scans.append(scan_of(line))
        except (ValueError, RecursionError):
            wrong += 1
    return logged_scans, [f"{file.location}: {wrong} of {len(lines)}"] if wrong else []


def is_there(storage: Storage, location: str | None) -> bool:
    """Tell whether a file of the table exists; True where the store does not answer."""
    if location is None:
        return True
    with contextlib.suppress(FrazilError):
        return storage.exists(location)
    return True


SECONDS = 10.0
MANY = 1_000
MOST_PENDING = 10_000
_RETRY_SECONDS = 600.0


@dataclass(frozen=True, eq=False)
class PendingScan:
    """Hold a record that is not written yet. `record` makes it, in the background. `witness`: a
    file of the table, without which the table is gone and nothing is written any more."""

    directory: str
    storage: Storage
    witness: str | None
    record: Callable[[], LoggedScan]


class ScanLogBuffer:
    """Write records every `seconds`, when there are many, and when the process ends. Records beyond
    a limit are dropped.
    """

    def __init__(self, seconds: float = SECONDS):
        self.seconds = seconds
        self._clear()

    def _clear(self) -> None:
        self._lock, self._writing, self._many = (
            threading.Lock(),
            threading.Lock(),
            threading.Event(),
        )
        self._pending: list[PendingScan] = []
        self._thread: threading.Thread | None = None
        self._blocked: dict[str, float] = {}

    def add(self, scan: PendingScan) -> None:
        """Take a record, in microseconds."""
        with self._lock:
            if (
                len(self._pending) >= MOST_PENDING
                or self._blocked.get(scan.directory, 0.0) > time.monotonic()
            ):
                return
            self._pending.append(scan)
            if len(self._pending) >= MANY:
                self._many.set()
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name="frazil-scan-log", daemon=True
                )
                self._thread.start()

    def _run(self) -> None:
        """Write until nothing is left to write."""
        while True:
            self._many.wait(self.seconds)
            self.flush()
            with self._lock:
                if not self._pending:
                    self._thread = None
                    return

    def flush(self) -> None:
        """Write what is pending. A log that cannot be written is left alone for ten minutes, with a
        line in the log.
        """
        with self._writing:
            with self._lock:
                pending, self._pending = self._pending, []
                self._many.clear()
            by_directory: dict[str, list[PendingScan]] = {}
            for scan in pending:
                by_directory.setdefault(scan.directory, []).append(scan)
            for directory, scans in by_directory.items():
                self._write(directory, scans)

    def _write(self, directory: str, scans: list[PendingScan]) -> None:
        newest = scans[-1]
        try:
            if is_there(newest.storage, newest.witness):
                write_lines(newest.storage, directory, [line_of(scan.record()) for scan in scans])
        except Exception as error:  # whatever it is, it must not reach the reader of the table
            with self._lock:
                self._blocked[directory] = time.monotonic() + _RETRY_SECONDS
            _log.warning(
                "The scan log %s cannot be written (%s: %s); scans go on without it.",
                directory,
                type(error).__name__,
                error,
            )


BUFFER = ScanLogBuffer()
"""The buffer of this process."""
atexit.register(BUFFER.flush)
os.register_at_fork(after_in_child=BUFFER._clear)
