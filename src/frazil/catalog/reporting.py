"""Hand metrics reports to a catalog's reporters in the background: an operation neither waits for a
report nor fails with it.

Each catalog's back end has a `Reporting`. The reporters are the one that the property
`metrics-reporter-impl` names, and for REST catalogs the server. Without any, nothing is computed.
"""

from __future__ import annotations

import atexit
import contextvars
import importlib
import logging
import os
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Any, cast

from frazil.catalog.base import Identifier
from frazil.catalog.names import full_name
from frazil.catalog.reports import MetricsReporter, Report, commit_report, scan_report
from frazil.errors import InvalidInput, Unsupported
from frazil.scan.plan import Plan
from frazil.spec.schema import Schema
from frazil.spec.snapshot import Snapshot

_log = logging.getLogger("frazil.metrics")
REPORTER = "metrics-reporter-impl"
_OWN = {"otel": "frazil.catalog.otel:report"}
"""Reporters that come with Frazil, by their short names. Their packages may be missing."""
MOST_WAITING = 128
FLUSH_SECONDS = 1.0
_IDLE_SECONDS = 5.0
_ALL: weakref.WeakSet[ReportQueue] = weakref.WeakSet()


class ReportQueue:
    """Run calls one after the other in a daemon thread, which ends when it has nothing to do. Calls
    beyond a limit are dropped.
    """

    def __init__(self) -> None:
        self._clear()
        _ALL.add(self)

    def _clear(self) -> None:
        """Start with no calls and no thread. The child of a fork does so too: it has no thread, and
        a lock that it inherits may be held.
        """
        self._changed = threading.Condition()
        self._waiting: deque[Callable[[], object]] = deque()
        self._thread: threading.Thread | None = None
        self._is_busy = False

    @property
    def is_current(self) -> bool:
        """Tell whether the calling thread is the queue's own, in which reporters run: the scans and
        commits of a reporter are not reported."""
        return threading.current_thread() is self._thread

    def add(self, call: Callable[[], object]) -> None:
        """Add a call to the queue. This takes microseconds, since every scan and commit waits for
        it. The call sees the context variables of the caller, so that a span that a reporter makes
        stands below the caller's.
        """
        with self._changed:
            if len(self._waiting) >= MOST_WAITING:
                _warn_once(
                    "Metrics reports are dropped: their reporter takes longer than the operations that are reported."
                )
                return
            self._waiting.append(partial(contextvars.copy_context().run, call))
            if self._thread is None:
                thread = threading.Thread(target=self._run, name="frazil-metrics", daemon=True)
                try:
                    thread.start()
                except RuntimeError:  # the interpreter is ending
                    self._waiting.clear()
                    return
                self._thread = thread
            self._changed.notify_all()

    def _run(self) -> None:
        while True:
            with self._changed:
                if not self._waiting:
                    self._changed.wait(_IDLE_SECONDS)
                if not self._waiting:
                    self._thread = None
                    return
                call, self._is_busy = self._waiting.popleft(), True
            try:
                call()
            except BaseException as error:
                # no error of a report may keep later ones from being made
                _warn_once(f"A metrics report could not be made ({type(error).__name__}: {error}).")
            finally:
                with self._changed:
                    self._is_busy = False
                    self._changed.notify_all()

    def flush(self, seconds: float = FLUSH_SECONDS) -> bool:
        """Wait at most some seconds until all calls have run, and tell whether they have."""
        if self.is_current:
            return False
        with self._changed:
            return self._changed.wait_for(
                lambda: not self._waiting and not self._is_busy, max(0.0, seconds)
            )


def flush(seconds: float = FLUSH_SECONDS) -> None:
    """Wait at most some seconds, for all catalogs together, until the reports of this process are
    made.
    """
    until = time.monotonic() + seconds
    for queue in list(_ALL):
        queue.flush(until - time.monotonic())


def _clear_all() -> None:
    for queue in list(_ALL):
        queue._clear()


atexit.register(flush)
os.register_at_fork(after_in_child=_clear_all)


@lru_cache(maxsize=100)
def _warn_once(text: str) -> None:
    _log.warning("%s", text)


def named_reporter(properties: Mapping[str, str]) -> MetricsReporter | None:
    """Import the reporter that the property `metrics-reporter-impl` names, as in
    `my_package.my_module:report`, or `otel`.

    Raises Unsupported for a Java class, InvalidInput for a name that is none or of which nothing
    can be called.
    """
    if (text := properties.get(REPORTER)) is None:
        return None
    own = _OWN.get(text.strip())
    module, _, name = (own or text.strip()).partition(":")
    hint = (
        f"pip install 'frazil[{text.strip()}]' brings what it needs."
        if own
        else "Name a Python function that takes a report, as package.module:function, or otel."
    )
    if not name:
        if module.rpartition(".")[2][:1].isupper():
            raise Unsupported(
                f"Catalog property {REPORTER} names the Java class {module}, which Frazil cannot run.",
                hint=hint,
            )
        raise InvalidInput(
            f"Catalog property {REPORTER} is {text!r}, which names no function.", hint=hint
        )
    try:
        reporter: Any = importlib.import_module(module)
        for part in name.split("."):
            reporter = getattr(reporter, part)
    except Exception as error:
        text = f"Catalog property {REPORTER}: {text!r} cannot be imported ({type(error).__name__}: {error})."
        raise InvalidInput(text, hint=hint) from error
    if isinstance(reporter, type) or not callable(reporter):
        kind = (
            "a class"
            if isinstance(reporter, type)
            else f"a value of type {type(reporter).__name__}"
        )
        raise InvalidInput(
            f"Catalog property {REPORTER}: {text!r} is {kind}, not a function.", hint=hint
        )
    return cast(MetricsReporter, reporter)


class Reporting:
    """Hold the reporters of a catalog and their queue. `to_server`: returns the reporter to the
    catalog's server for one table.
    """

    def __init__(
        self,
        name: str,
        properties: Mapping[str, str],
        to_server: Callable[[Identifier], MetricsReporter | None] = lambda _: None,
    ) -> None:
        self.name, self._properties, self._to_server = name, properties, to_server
        self.queue = ReportQueue()

    def reporter(self, identifier: Identifier) -> TableReporter | None:
        """Return the object that takes the reports of a table; None if the catalog has no reporter."""
        try:
            reporters = tuple(
                r
                for r in (named_reporter(self._properties), self._to_server(identifier))
                if r is not None
            )
        except Exception as error:  # for example, in a worker that lacks the module
            _warn_once(f"Catalog {self.name!r} reports no metrics: {error}")
            return None
        if not reporters or self.queue.is_current:
            return None
        return TableReporter(full_name((self.name, *identifier)), reporters, self.queue)

    def __reduce__(self) -> tuple[Any, ...]:
        return Reporting, (self.name, self._properties)

    def close(self) -> None:
        """Wait a moment until the queued reports are made."""
        self.queue.flush()


def _nothing() -> None:
    return None


@dataclass(frozen=True)
class TableReporter:
    """Take the reports of one table. Pickled into another process it becomes None, so that only the
    driver reports.
    """

    table_name: str
    reporters: tuple[MetricsReporter, ...] = field(repr=False)
    queue: ReportQueue = field(repr=False)

    def __reduce__(self) -> tuple[Any, ...]:
        return _nothing, ()

    def planned(
        self, plan: Plan, projection: Callable[[], Schema], options: Mapping[str, str]
    ) -> None:
        """Report a planned scan; one of an empty table is not reported, as in Java."""
        if plan.snapshot is not None:
            make = partial(
                scan_report,
                self.table_name,
                plan.snapshot.snapshot_id,
                plan.report,
                plan.row_filter,
                projection,
                options,
            )
            self.queue.add(partial(self._report, make))

    def committed(
        self,
        snapshots: tuple[Snapshot, ...],
        attempts: int,
        seconds: float,
        metadata: Mapping[str, str],
    ) -> None:
        """Report a commit, by one report for each snapshot that it made."""
        for snapshot in snapshots:
            self.queue.add(
                partial(
                    self._report,
                    partial(commit_report, self.table_name, snapshot, attempts, seconds, metadata),
                )
            )

    def _report(self, make: Callable[[], Report]) -> None:
        report = make()
        for reporter in self.reporters:
            try:
                reporter(report)
            except BaseException as error:  # the next reporter gets the report all the same
                _warn_once(
                    f"A reporter did not take a metrics report of {self.table_name} ({type(error).__name__}: {error})."
                )
