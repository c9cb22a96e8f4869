"""Take a lease on the maintenance of a table, so that one task at a time runs on it: a table
property, set by compare-and-swap.

A lease ends when its owner gives it back, when its time is over, or when its owner's process is
found to have ended on the same machine. Correctness does not depend on the lease: tasks that run at
the same time would only do the same work twice.
"""

from __future__ import annotations

import json
import logging
import os
import socket
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from frazil.commit.actions import MetadataChange
from frazil.errors import CommitStateUnknownException, FrazilError
from frazil.maintain.procedure import MaintainedTable
from frazil.spec.metadata import TableMetadata
from frazil.spec.properties import MAINTENANCE
from frazil.spec.updates import RemoveProperties, SetProperties, Update

_log = logging.getLogger("frazil.maintain")
LEASE_SECONDS = 3600
"""How long a lease lasts whose owner does not give it back, unless an option says otherwise."""
LEASE = f"{MAINTENANCE.prefix}lease"


@dataclass(frozen=True)
class Owner:
    """Identify who holds a lease: one process on one machine. `started`: the process's start, since
    process ids are used again.
    """

    host: str
    process: int
    started: str
    token: str

    @classmethod
    def this(cls) -> Owner:
        return cls(socket.gethostname(), os.getpid(), _started(os.getpid()) or "", uuid.uuid4().hex)

    @property
    def is_gone(self) -> bool:
        """Tell whether the owner's process is known to have ended. False where it ran on another
        machine, since nothing is known then.
        """
        return (
            self.host == socket.gethostname()
            and bool(self.started)
            and _started(self.process) != self.started
        )


class LeaseHeld(Exception):
    """Report that another owner maintains the table at the moment."""


@contextmanager
def lease(table: MaintainedTable, task: str, seconds: float) -> Iterator[Callable[[], None]]:
    """Hold the lease on a table for the block. Raises LeaseHeld where another owner has it.

    Yields a function that renews the lease when half of its time is over; it raises LeaseHeld where
    another owner has taken it since.
    """
    owner, until = Owner.this(), 0.0

    def take(metadata: TableMetadata) -> Sequence[Update]:
        if (held := _held(metadata)) is not None and held["token"] != owner.token:
            raise LeaseHeld(
                f"{held.get('task')} by process {held.get('process')} on {held.get('host')}"
            )
        mark = {
            "task": task,
            "until": int((time.time() + seconds) * 1000),
            "host": owner.host,
            "process": owner.process,
            "started": owner.started,
            "token": owner.token,
        }
        return (SetProperties({LEASE: json.dumps(mark)}),)

    def give_back(metadata: TableMetadata) -> Sequence[Update]:
        mark = _parsed(metadata.properties.get(LEASE))
        return (RemoveProperties((LEASE,)),) if mark.get("token") == owner.token else ()

    def renew() -> None:
        nonlocal until
        if time.time() > until - seconds / 2:
            _commit(table, take)
            until = time.time() + seconds

    try:
        renew()
    except CommitStateUnknownException:
        with suppress(FrazilError):
            _commit(table, give_back)
        raise
    try:
        yield renew
    finally:
        try:
            _commit(table, give_back)
        except FrazilError:
            # the work of the block is done; the lease ends by its time, or with this process
            _log.warning(
                "The lease on the maintenance of %s could not be given back.",
                table.name,
                exc_info=True,
            )


def _commit(table: MaintainedTable, build: Callable[[TableMetadata], Sequence[Update]]) -> None:
    with table.begin(table.newest()) as operation:
        operation.stage(MetadataChange(build))


def _held(metadata: TableMetadata) -> Mapping[str, Any] | None:
    mark = _parsed(metadata.properties.get(LEASE))
    if not mark or mark.get("until", 0) <= time.time() * 1000:
        return None
    try:
        owner = Owner(
            str(mark["host"]), int(mark["process"]), str(mark["started"]), str(mark["token"])
        )
    except (KeyError, TypeError, ValueError):
        return None
    return None if owner.is_gone else mark


def _parsed(text: str | None) -> Mapping[str, Any]:
    """Parse a lease. A text that cannot be parsed counts as no lease, since correctness does not
    depend on leases.
    """
    try:
        mark = json.loads(text or "{}")
    except ValueError:
        return {}
    return mark if isinstance(mark, dict) else {}


def _started(process: int) -> str | None:
    """Return when a process of this machine started, as a text that is the same whenever it is
    asked; None: it does not run.

    Where the system has no /proc, the empty text is returned for every process: a lease then ends
    by its time.
    """
    if not os.path.isdir("/proc/self"):
        return ""
    try:
        with open(f"/proc/{process}/stat", encoding="ascii", errors="replace") as stat:
            return stat.read().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return None
