"""Show the progress of long work: a bar in a terminal or notebook, otherwise lines in the log, and
calls of a callback.
"""

from __future__ import annotations

import importlib.util
import logging
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

_log = logging.getLogger("frazil.maintain")
_QUIET_SECONDS = 1.0  # procedures that end sooner show no progress
_LOG_EVERY_SECONDS = 10.0

ProgressCallback = Callable[[int, int | None, str], object]
"""Take what is done so far, the total (None: not known), and what is counted, as "files deleted".
"""


class Progress:
    """Count the units of work that a procedure has done; `advance` may be called by several
    threads.
    """

    def __init__(self, total: int | None, noun: str, callback: ProgressCallback | None):
        self.total, self.noun, self.done = total, noun, 0
        self._callback = callback
        self._lock = threading.Lock()
        self._began = time.monotonic()
        self._due = self._began + _QUIET_SECONDS
        self._bar: Any = None
        self._task: Any = None
        self._in_log = False

    def advance(self, count: int = 1) -> None:
        """Add to the count, and show it."""
        with self._lock:
            self.done += count
            self._call()
            if self._bar is not None:
                self._bar.update(self._task, completed=self.done)
            elif time.monotonic() >= self._due:
                self._show()

    def _call(self) -> None:
        if self._callback is None:
            return
        try:
            self._callback(self.done, self.total, self.noun)
        except Exception:  # an error of a callback that only watches must not stop the procedure
            _log.warning("The progress callback failed, and is not called again", exc_info=True)
            self._callback = None

    def _show(self) -> None:
        self._bar = None if self._in_log else _bar()
        if self._bar is not None:
            self._bar.start()
            self._task = self._bar.add_task(self.noun, total=self.total, completed=self.done)
            return
        self._in_log = True
        self._due = time.monotonic() + _LOG_EVERY_SECONDS
        _log.info("%s", self)

    def end(self) -> None:
        """Remove the bar, and log the end if the work took long enough to be shown."""
        with self._lock:
            if self._bar is not None:
                self._bar.stop()
                self._bar = None
            elif self._in_log:
                _log.info("%s after %.1f s", self, time.monotonic() - self._began)

    def __str__(self) -> str:
        return count_text(self.noun, self.done, self.total)


def count_text(noun: str, done: int, total: int | None) -> str:
    """Format a count: `files deleted: 1,000 of 2,000`."""
    return f"{noun}: {done:,}" + ("" if total is None else f" of {total:,}")


@contextmanager
def progress(
    total: int | None, noun: str, callback: ProgressCallback | None = None
) -> Iterator[Progress]:
    """Show the progress of the block: `with progress(len(files), "files deleted", callback) as
    shown: … shown.advance(n)`.

    A terminal gets a bar, or a line without the package rich; a notebook gets a bar, which needs
    rich. The callback is called at each advance, whatever is shown.
    """
    shown = Progress(total, noun, callback)
    try:
        yield shown
    finally:
        shown.end()


class _PlainBar:
    """Show progress as one line of a terminal that is written over again, with the methods of a bar
    of rich, which is not installed.
    """

    def start(self) -> None:
        """Show nothing yet: there is no task."""

    def add_task(self, noun: str, total: int | None, completed: int) -> tuple[str, int | None]:
        """Show the first count."""
        self.update((noun, total), completed)
        return noun, total

    def update(self, task: tuple[str, int | None], completed: int) -> None:
        """Show a count."""
        self._write(count_text(task[0], completed, task[1]))

    def stop(self) -> None:
        """Clear the line."""
        self._write("")

    def _write(self, text: str) -> None:
        sys.stderr.write(f"\r\x1b[K{text}")  # from the line's beginning, the rest of it cleared
        sys.stderr.flush()


def _bar() -> Any:
    """Make a bar, which is not started; None where nobody would see it."""
    in_notebook = "ipykernel" in sys.modules
    if not (in_notebook or sys.stderr.isatty()):
        return None
    if importlib.util.find_spec("rich") is None:
        return None if in_notebook else _PlainBar()
    from rich.console import Console
    from rich.progress import Progress as Bar

    return Bar(console=Console(stderr=not in_notebook), transient=True)
