"""What the SQL catalog asks of a database, and SQLite by the standard library.

Statements use `:name` parameters. Failures come in two kinds only: refused (definitely not applied) and unclear (may be applied).
"""

from __future__ import annotations

import contextlib
import logging
import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

from frazil.catalog.base import Unclear
from frazil.errors import CommitFailedException, InvalidInput, StorageError

logger = logging.getLogger("frazil.catalog.sql")

Row = tuple[Any, ...]
Step = tuple[str, Mapping[str, Any]]


class DuplicateKey(StorageError):
    """A row of that key is there; nothing was applied."""


class Contended(CommitFailedException):
    """Others held the database for too long, or won; nothing was applied."""


class MissingTable(StorageError):
    """The catalog's tables are not in the database."""


class Database(Protocol):
    def query(self, statement: str, parameters: Mapping[str, Any]) -> list[Row]: ...

    def columns(self, table: str) -> list[str]:
        """Raises MissingTable."""

    def execute(self, steps: Sequence[Step]) -> list[int]:
        """All steps in one transaction, durable on return; the number of rows that each touched."""

    def execute_ddl(self, statements: Sequence[str]) -> None: ...

    def close(self) -> None: ...


class SqliteDatabase:
    """One file, or ":memory:". Safe for threads, for processes, and over fork. Waits up to `timeout` seconds for other writers."""

    def __init__(self, path: str, *, timeout: float = 30.0, create: bool = True, echo: bool = False):
        self.path, self.timeout, self._echo = path, timeout, echo
        self._in_memory = path == ":memory:"
        if not self._in_memory:
            self.path = os.path.abspath(path)
            if not os.path.isdir(os.path.dirname(self.path)):
                raise InvalidInput(f"The directory of the SQLite database {self.path} does not exist.", hint="Check the property uri.")
            if not create and not os.path.exists(self.path):
                raise InvalidInput(f"There is no SQLite database {self.path}.", hint="Check the property uri.")
        self._idle: list[sqlite3.Connection] = []
        self._owner, self._lock = os.getpid(), threading.RLock()
        self._finalizer = weakref.finalize(self, _close_all, self._idle)

    def query(self, statement: str, parameters: Mapping[str, Any]) -> list[Row]:
        with self._connection() as connection, self._told():
            return connection.execute(statement, dict(parameters)).fetchall()

    def columns(self, table: str) -> list[str]:
        with self._connection() as connection, self._told():
            found = [str(row[1]) for row in connection.execute(f"PRAGMA table_info({table})")]
        if not found:
            raise MissingTable(f"There is no table {table} in {self.path}.")
        return found

    def execute(self, steps: Sequence[Step]) -> list[int]:
        with self._connection() as connection:
            with self._told():
                connection.execute("BEGIN IMMEDIATE")
            try:
                with self._told():
                    counts = [connection.execute(statement, dict(parameters)).rowcount for statement, parameters in steps]
                self._commit(connection)
            except BaseException:
                with contextlib.suppress(sqlite3.Error):
                    if connection.in_transaction:
                        connection.execute("ROLLBACK")
                raise
            return counts

    def _commit(self, connection: sqlite3.Connection) -> None:
        try:
            connection.execute("COMMIT")
        except sqlite3.Error as error:
            if connection.in_transaction and _is_locked(error):  # readers in the way (rollback journals only): still ours to take back
                raise Contended(f"The catalog database {self.path} stayed locked for {self.timeout:g} s.") from error
            raise Unclear(f"Could not tell whether the catalog database {self.path} took a commit: {error}.", file=self.path) from error

    def execute_ddl(self, statements: Sequence[str]) -> None:
        """A database that is empty so far is put into WAL mode, where readers and writers do not wait for each other."""
        with self._connection() as connection:
            if not self._in_memory:
                self._use_wal(connection)
        self.execute([(s, {}) for s in statements])

    def _use_wal(self, connection: sqlite3.Connection) -> None:
        deadline = time.monotonic() + self.timeout
        while True:
            try:
                if connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0:
                    connection.execute("PRAGMA journal_mode=WAL")
                    _make_durable(connection)
                return
            except sqlite3.Error as error:
                if not _is_locked(error) or time.monotonic() > deadline:
                    raise StorageError(f"Could not set the catalog database {self.path} up: {error}.", file=self.path) from error
                time.sleep(0.02)

    def close(self) -> None:
        with self._lock:
            if os.getpid() == self._owner:
                _close_all(self._idle)

    # --- connections

    @contextlib.contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        if self._in_memory:  # one connection is the database
            with self._lock:
                if not self._idle:
                    self._idle.append(self._connect())
                yield self._idle[0]
            return
        connection = self._borrow()
        try:
            yield connection
        except BaseException:
            connection.close()
            raise
        with self._lock:
            self._idle.append(connection)

    def _borrow(self) -> sqlite3.Connection:
        with self._lock:
            if os.getpid() != self._owner:
                # After a fork: the parent's connections must neither be used nor closed here, so they are put away.
                _ABANDONED.extend(self._idle)
                self._idle.clear()
                self._owner = os.getpid()
            if self._idle:
                return self._idle.pop()
        return self._connect()

    def _connect(self) -> sqlite3.Connection:
        with self._told("open"):
            connection = sqlite3.connect(self.path, timeout=self.timeout, isolation_level=None, check_same_thread=False)
            try:
                _make_durable(connection)
            except sqlite3.Error:
                connection.close()
                raise
        if self._echo:
            connection.set_trace_callback(logger.info)
        return connection

    @contextlib.contextmanager
    def _told(self, doing: str = "use") -> Iterator[None]:
        try:
            yield
        except sqlite3.IntegrityError as error:
            raise DuplicateKey(f"A row of that key exists in {self.path}: {error}.") from error
        except sqlite3.OperationalError as error:
            if _is_locked(error):
                raise Contended(f"The catalog database {self.path} stayed locked for {self.timeout:g} s.") from error
            if "no such table" in str(error):
                raise MissingTable(f"{self.path}: {error}.") from error
            raise StorageError(f"Could not {doing} the catalog database {self.path}: {error}.", file=self.path) from error
        except sqlite3.Error as error:
            raise StorageError(f"Could not {doing} the catalog database {self.path}: {error}.", file=self.path) from error


_ABANDONED: list[sqlite3.Connection] = []


def _close_all(connections: list[sqlite3.Connection]) -> None:
    while connections:
        connections.pop().close()


def _is_locked(error: sqlite3.Error) -> bool:
    code = getattr(error, "sqlite_errorcode", None)
    return (code & 0xFF) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED) if code is not None else "locked" in str(error)


def _make_durable(connection: sqlite3.Connection) -> None:
    """A commit is on disk when it returns: WAL needs FULL, a rollback journal EXTRA (the directory too). Nothing is changed in the file."""
    mode = connection.execute("PRAGMA journal_mode").fetchone()[0]
    connection.execute(f"PRAGMA synchronous={'FULL' if mode == 'wal' else 'EXTRA'}")
