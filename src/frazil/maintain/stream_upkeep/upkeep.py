"""Run the maintenance tasks that are due on a table which a stream writes to: after a batch's
commit, under the table's lease.

A task that fails is reported and tried again when it is next due; the stream goes on. A table
property holds when each task ran last, and at which version of the metadata, so that no later run
repeats it and a query that is started again goes on counting from there.
"""

from __future__ import annotations

import json
import logging
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from frazil.catalog import LoadedTable
from frazil.commit.actions import MetadataChange
from frazil.errors import CommitStateUnknownException
from frazil.maintain.procedure import MaintainedTable, ProcedureResult, log_result
from frazil.maintain.stream_upkeep.lease import LeaseHeld, lease
from frazil.maintain.stream_upkeep.triggers import READ_BACK, Counted, TaskOptions, UpkeepOptions
from frazil.spec import logs
from frazil.spec.metadata import TableMetadata
from frazil.spec.properties import MAINTENANCE
from frazil.spec.snapshot import MAIN_BRANCH
from frazil.spec.updates import SetProperties

_log = logging.getLogger("frazil.maintain")
RunTask = Callable[[MaintainedTable, str], ProcedureResult]
"""Run a procedure on a branch of a table, with the arguments that the options gave."""
Told = Callable[[str, ProcedureResult | BaseException], object]
_AFTER_FAILURE = (
    10  # batches after which a task that failed, or found the lease taken, is tried again
)


@dataclass
class Upkeep:
    """Run the tasks of one query on one table when they are due. Not shared between queries.

    `procedures`: the function that runs each task. `on_task`: called with the task's name, and its
    result or error.
    """

    options: UpkeepOptions
    procedures: Mapping[str, RunTask]
    on_task: Told | None = None
    _counted: dict[str, Counted] = field(default_factory=dict)
    _pauses: dict[str, int] = field(default_factory=dict)
    _rests_until: float = 0.0
    _began_ms: int = field(default_factory=lambda: int(time.time() * 1000))

    def after_commit(self, table: MaintainedTable, branch: str = MAIN_BRANCH) -> LoadedTable | None:
        """Run the tasks that are due after a commit. `table`: in the state after the commit.
        Returns the newest state if a task has run.
        """
        newest, rests = None, time.monotonic() < self._rests_until
        for task in self.options.tasks:
            now = int(time.time() * 1000)
            ran_ms = last_run(table.metadata, task.task)
            counted = self._counted.get(task.task) or Counted(
                self._oldest_ms(table.metadata, branch) if ran_ms is None else ran_ms
            )
            self._counted[task.task] = counted = counted.up_to(
                (newest or table.loaded).metadata, branch
            )
            if rests or (why := counted.is_due(task, now)) is None:
                continue
            if self._pauses.get(task.task, 0) > 0:
                self._pauses[task.task] -= 1
                continue
            self._rests_until = time.monotonic() + self.options.rest_seconds
            newest = self._run(task, table, branch, why) or newest
        return newest

    def _run(
        self, task: TaskOptions, table: MaintainedTable, branch: str, why: str
    ) -> LoadedTable | None:
        extra = logs.facts(table.name, task.task, branch=branch)
        _log.info("Maintenance of %s: %s begins (%s).", table.name, task.task, why, extra=extra)
        try:
            with lease(table, task.task, self.options.lease_seconds):
                current = table.in_state(table.newest())
                result = self.procedures[task.task](current, branch)
                self._ran(task.task, table, branch)
        except LeaseHeld as held:
            _log.info(
                "Maintenance of %s: %s waits, since the table is maintained by another owner: %s",
                table.name,
                task.task,
                held,
                extra=extra,
            )
            self._pauses[task.task] = _AFTER_FAILURE
            return None
        except Exception as error:
            self._pauses[task.task] = _AFTER_FAILURE
            unknown = (
                " Its files are kept." if isinstance(error, CommitStateUnknownException) else ""
            )
            _log.warning(
                "Maintenance of %s: %s failed, the stream goes on.%s",
                table.name,
                task.task,
                unknown,
                exc_info=True,
                extra=extra,
            )
            self._tell(task.task, error)
            return None
        log_result(table.name, task.task, result, branch=branch)
        self._tell(task.task, result)
        try:
            newest = table.newest()
            table.on_commit(newest)
        except Exception:
            _log.warning(
                "Maintenance of %s: the newest state could not be loaded; the next batch loads it.",
                table.name,
                exc_info=True,
                extra=extra,
            )
            return None
        return newest

    def _oldest_ms(self, metadata: TableMetadata, branch: str) -> int:
        """Return the time from which a task that never ran counts: commits of earlier queries
        count, however short each of them runs.
        """
        read_back = islice(metadata.ancestors(metadata.branch_head(branch)), READ_BACK)
        return min((snapshot.timestamp_ms for snapshot in read_back), default=self._began_ms)

    def _ran(self, task: str, table: MaintainedTable, branch: str) -> None:
        """Record that a task has run, in the table and here."""
        now, newest = record_run(table, task)
        head = newest.metadata.branch_head(branch)
        self._counted[task] = Counted(now, None if head is None else head.snapshot_id)

    def _tell(self, task: str, outcome: ProcedureResult | BaseException) -> None:
        if self.on_task is None:
            return
        try:
            self.on_task(task, outcome)
        except Exception:
            _log.warning("on_task failed; the stream goes on.", exc_info=True)


_NUMBER = re.compile(r"v?(\d{1,9})[-.]")


def record_run(table: MaintainedTable, task: str) -> tuple[int, LoadedTable]:
    """Record that a task has run; return the time in milliseconds since 1970, and the state of the
    table before the record.
    """
    now, newest = int(time.time() * 1000), table.newest()
    mark = {"at": now, "version": version_number(newest.metadata_location)}
    with table.begin(newest) as operation:
        operation.stage(
            MetadataChange(
                lambda _: (SetProperties({f"{MAINTENANCE.prefix}{task}": json.dumps(mark)}),)
            )
        )
    return now, newest


def last_run(metadata: TableMetadata, task: str) -> int | None:
    """Return when a task ran last, in milliseconds since 1970; None if it never ran, or that is not
    known.
    """
    return _recorded(metadata, task, "at")


def last_version(metadata: TableMetadata, task: str) -> int:
    """Return the version of the metadata at which a task ran last; 0 if it never ran, or that is
    not known.
    """
    return _recorded(metadata, task, "version") or 0


def version_number(metadata_location: str) -> int | None:
    """Return the number with which the name of a metadata file begins; None where it has none."""
    number = _NUMBER.match(metadata_location.rpartition("/")[2])
    return None if number is None else int(number[1])


def _recorded(metadata: TableMetadata, task: str, word: str) -> int | None:
    try:
        mark: Mapping[str, Any] = json.loads(
            metadata.properties.get(f"{MAINTENANCE.prefix}{task}", "{}")
        )
        return int(mark[word])
    except (ValueError, KeyError, TypeError):
        return None
