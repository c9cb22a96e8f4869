"""Hold a Hive Metastore's exclusive lock of a table during a commit: wait with growing pauses, send
heartbeats, release.

A process that is killed leaves its lock; the metastore forgets it when no heartbeat has come for
`hive.txn.timeout` (300 s). A time-out names who holds the lock, and for how long.
"""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
import time
import uuid
from collections.abc import Iterator

from frazil.catalog.base import Unclear
from frazil.catalog.hive import calls
from frazil.catalog.hive.client import HiveClient, MetastoreError
from frazil.catalog.hive.structs import (
    CheckLockRequest,
    HeartbeatRequest,
    HeldLock,
    LockComponent,
    LockRequest,
    LockResponse,
    ShowLocksRequest,
    UnlockRequest,
)
from frazil.errors import FrazilError, StorageError, WaitingForLockException

logger = logging.getLogger("frazil.catalog")
_EXCLUSIVE, _OF_TABLE, _OUTSIDE_TRANSACTIONS = 3, 2, 6
_ACQUIRED, _WAITING = 1, 2
_GROWTH = 1.5


class TableLock:
    """Hold a lock that was acquired. Heartbeats go out in the background, the first one after an
    interval.
    """

    def __init__(self, client: HiveClient, lock_id: int, name: str):
        self._client, self._id, self._name = client, lock_id, name
        # the last time that the metastore said that the lock is held
        self._alive_at = time.monotonic()
        self._released, self._lost, self._left = threading.Event(), "", False
        self._beating = threading.Thread(
            target=self._beat, name="frazil-hive-heartbeat", daemon=True
        )
        self._beating.start()

    def check(self) -> None:
        """Raise WaitingForLockException if the metastore has said that the lock is no longer held.
        Where heartbeats are missing, because this process was stopped or they did not get through,
        it is asked now."""
        if (
            not self._lost
            and time.monotonic() - self._alive_at > 1.5 * self._client.settings.heartbeat_interval
        ):
            try:
                self._send_heartbeat()
            except MetastoreError as error:
                self._lost = str(error)
        if self._lost:
            raise WaitingForLockException(
                f"The metastore's lock on {self._name} was lost: {self._lost}", table=self._name
            )

    def leave(self) -> None:
        """Leave the lock to the metastore, which forgets it when no more heartbeats come, instead
        of releasing it.
        """
        logger.warning(
            "Lock %d on %s is left until it expires: the outcome of a commit under it is not known.",
            self._id,
            self._name,
        )
        self._left = True

    def release(self) -> None:
        self._released.set()
        if not self._left:
            unlock(self._client, self._id, self._name)

    def _send_heartbeat(self) -> None:
        self._client.ask(calls.HEARTBEAT, HeartbeatRequest(self._id))
        self._alive_at = time.monotonic()

    def _beat(self) -> None:
        while not self._released.wait(self._client.settings.heartbeat_interval):
            try:
                self._send_heartbeat()
            except MetastoreError as error:
                if not self._released.is_set():
                    self._lost = str(error)
                return
            except FrazilError as error:  # the next one may get through
                logger.warning("No heartbeat for the lock on %s: %s", self._name, error)


@contextlib.contextmanager
def table_lock(client: HiveClient, database: str, table: str) -> Iterator[TableLock]:
    """Take the exclusive lock of a table, which need not exist. Raises WaitingForLockException if
    others hold it for too long.
    """
    name = f"{database}.{table}"
    answer, repeated = _requested(client, database, table)
    if answer.lockid is None:
        raise StorageError(f"The metastore gave a lock on {name} without a number.", table=name)
    try:
        _wait(client, answer, database, table, repeated)
        lock = TableLock(client, answer.lockid, name)
    except BaseException:
        unlock(client, answer.lockid, name)
        raise
    try:
        yield lock
    finally:
        lock.release()
        if repeated is not None:
            _release_others(client, database, table, repeated, answer.lockid)


def _requested(client: HiveClient, database: str, table: str) -> tuple[LockResponse, str | None]:
    """Ask for a lock. Where the answer is lost, look for the request among all locks, by a name
    that no other has. Returns the answer, and that name if the request was sent more than once: the
    server may carry out each of them, however late."""
    agent = f"Frazil-{uuid.uuid4()}"
    # In small letters, as the metastore stores names: 2.3 gives the locks of `DB.T` and of `db.t`
    # to two writers at once.
    component = LockComponent(
        _EXCLUSIVE, _OF_TABLE, database.lower(), table.lower(), _OUTSIDE_TRANSACTIONS
    )
    request = LockRequest([component], client.settings.user, socket.gethostname(), agent)
    end = time.monotonic() + client.settings.lock_creation_timeout
    pauses, repeated = _pauses(client), None
    while True:
        try:
            return client.ask(calls.LOCK, request), repeated
        except Unclear as error:
            if time.monotonic() > end:
                message = f"Could not ask for the metastore's lock on {database}.{table}: {error}"
                raise StorageError(message, table=f"{database}.{table}") from error
        if own := [lock for lock in locks_on(client, database, table) if lock.agentInfo == agent]:
            return LockResponse(own[0].lockid, own[0].state), repeated
        repeated = agent
        time.sleep(next(pauses))


def _release_others(
    client: HiveClient, database: str, table: str, agent: str, kept_lock_id: int | None
) -> None:
    """Remove the locks of a request that was sent more than once, but the one that is kept: it
    would wait for them, or others would.
    """
    try:
        for lock in locks_on(client, database, table):
            if lock.agentInfo == agent and lock.lockid not in (None, kept_lock_id):
                unlock(client, lock.lockid, f"{database}.{table}")
    except FrazilError as error:
        logger.warning("Could not look for more locks of ours on %s.%s: %s", database, table, error)


def _wait(
    client: HiveClient, answer: LockResponse, database: str, table: str, repeated: str | None
) -> None:
    """Wait until the metastore gives the lock. `repeated`: see `_requested`. Raises
    WaitingForLockException.
    """
    name, began, pauses = f"{database}.{table}", time.monotonic(), _pauses(client)
    lock_id = answer.lockid
    while answer.state == _WAITING:
        left = client.settings.lock_timeout - (time.monotonic() - began)
        if left <= 0:
            others = _lock_holders(client, database, table, lock_id)
            message = f"Waited {client.settings.lock_timeout:g} s for the metastore's lock on {name}, held by {others}."
            hint = "A lock whose holder was killed goes after hive.txn.timeout (300 s)."
            raise WaitingForLockException(message, hint=hint, table=name)
        time.sleep(min(next(pauses), left))
        if repeated is not None:
            _release_others(client, database, table, repeated, lock_id)
        try:
            answer = client.ask(calls.CHECK_LOCK, CheckLockRequest(lock_id))
        except MetastoreError as error:
            if error.kind != "TApplicationException":
                raise
            # the metastore's database failed: the next may get through
            logger.warning("The lock on %s is asked for again: %s", name, error)
    if answer.state != _ACQUIRED:
        why = f": {answer.errorMessage}" if answer.errorMessage else ""
        raise WaitingForLockException(
            f"The metastore refused its lock on {name} (state {answer.state}){why}.", table=name
        )


def _pauses(client: HiveClient) -> Iterator[float]:
    pause, longest = client.settings.lock_least_wait, client.settings.lock_longest_wait
    while True:
        yield min(pause, longest)
        pause = min(pause * _GROWTH, longest)


def locks_on(client: HiveClient, database: str, table: str) -> list[HeldLock]:
    """Return all locks on a table, those that wait among them."""
    # compared as the metastore stores names, in small letters
    request = ShowLocksRequest(database.lower(), table.lower())
    locks: list[HeldLock] = client.ask(calls.SHOW_LOCKS, request).locks or []
    return [
        lock
        for lock in locks
        if ((lock.dbname or "").lower(), (lock.tablename or "").lower())
        == (database.lower(), table.lower())
    ]


def _lock_holders(client: HiveClient, database: str, table: str, own_lock_id: int | None) -> str:
    """Format who else holds the lock: owner, age and last heartbeat."""
    try:
        foreign_locks = [
            lock
            for lock in locks_on(client, database, table)
            if lock.lockid != own_lock_id and lock.state == _ACQUIRED
        ]
    except FrazilError as error:
        return f"an owner that the metastore does not name ({error})"
    now = time.time()
    holders = (
        f"{lock.user}@{lock.hostname} ({lock.agentInfo}), lock {lock.lockid}, acquired {_age(lock.acquiredat, now)}, "
        f"last heartbeat {_age(lock.lastheartbeat, now)}"
        for lock in foreign_locks
    )
    return "; ".join(holders) or "others, which have released it by now"


def _age(milliseconds: int | None, now: float) -> str:
    return (
        f"{max(0, now - milliseconds / 1000):.0f} s ago" if milliseconds else "at an unknown time"
    )


def unlock(client: HiveClient, lock_id: int, name: str) -> None:
    """Give a lock back. A failure is logged: the metastore forgets the lock when it hears no
    heartbeats.
    """
    try:
        client.ask(calls.UNLOCK, UnlockRequest(lock_id))
    except FrazilError as error:
        if not (isinstance(error, MetastoreError) and error.kind == "NoSuchLockException"):
            logger.warning("Could not release lock %d on %s: %s", lock_id, name, error)
