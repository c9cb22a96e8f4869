"""Gather records of scans in memory, and write them in the background: a scan neither waits for its
record nor fails with it.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from frazil.scan.scan_log.files import is_there, write_lines
from frazil.scan.scan_log.records import LoggedScan, line_of
from frazil.storage import Storage

_log = logging.getLogger("frazil.scan")
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
