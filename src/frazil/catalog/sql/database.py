"""Define the protocol of the SQL catalog's databases, and implement it for SQLite with the standard
library.

Statements use `:name` parameters. Every failure is either certain (the change was not applied) or
Unclear (it may have been applied).
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
SqlStatement = tuple[str, Mapping[str, Any]]


class DuplicateKey(StorageError):
    """Report that a row with the same key exists; nothing was applied."""


class Contended(CommitFailedException):
    """Report that other transactions held locks of the database for too long, or committed first;
    nothing was applied.
    """


class MissingTable(StorageError):
    """Report that the catalog's tables are not in the database."""


class Database(Protocol):
    """Run the SQL statements of a catalog. `table_options`: what follows a CREATE TABLE so that
    the database compares texts by each character.
    """

    table_options: str

    def query(self, statement: str, parameters: Mapping[str, Any]) -> list[Row]: ...

    def columns(self, table: str) -> list[str]:
        """Return the column names of a table. Raises MissingTable."""

    def execute(self, steps: Sequence[SqlStatement], *, all_or_none: bool = False) -> list[int]:
        """Run all steps in one transaction, durable on return. Returns the number of rows that each
        step changed. `all_or_none`: nothing is applied when a step changes no row.

        Raises DuplicateKey, Contended and MissingTable when nothing was applied, Unclear when the
        transaction may have been.
        """

    def execute_ddl(self, statements: Sequence[str]) -> None: ...

    def close(self) -> None: ...


class SqliteDatabase:
    """Use a SQLite database in a file or, with ":memory:", in memory. Safe for threads, for several
    processes and across a fork.

    `timeout`: how many seconds to wait for other writers. `echo`: log the statements.
    `makes_folder`: the folder of the file may be missing, since who makes the file makes it. Raises InvalidInput
    for a folder that does not exist.
    """

    table_options = ""

    def __init__(
        self, path: str, *, timeout: float = 30.0, echo: bool = False, makes_folder: bool = False
    ):
        self.path, self.timeout, self._echo = path, timeout, echo
        self._in_memory = path == ":memory:"
        if not self._in_memory:
            self.path = os.path.abspath(path)
            if not makes_folder and not os.path.isdir(os.path.dirname(self.path)):
                raise InvalidInput(
                    f"The directory of the SQLite database {self.path} does not exist.",
                    hint="Check the property uri.",
                )
        self._idle: list[sqlite3.Connection] = []
        self._owner, self._lock = os.getpid(), threading.RLock()
        self._finalizer = weakref.finalize(self, _close_all, self._idle)

    def _check_file(self) -> None:
        """Raise MissingTable where there is no file yet, which SQLite would make to read it."""
        if not self._in_memory and not os.path.exists(self.path):
            raise MissingTable(f"There is no database {self.path}.")

    def query(self, statement: str, parameters: Mapping[str, Any]) -> list[Row]:
        self._check_file()
        with self._connection() as connection, self._translated_errors():
            return connection.execute(statement, dict(parameters)).fetchall()

    def columns(self, table: str) -> list[str]:
        self._check_file()
        with self._connection() as connection, self._translated_errors():
            names = [str(row[1]) for row in connection.execute(f"PRAGMA table_info({table})")]
        if not names:
            raise MissingTable(f"There is no table {table} in {self.path}.")
        return names

    def execute(self, steps: Sequence[SqlStatement], *, all_or_none: bool = False) -> list[int]:
        self._check_file()
        with self._connection() as connection:
            with self._translated_errors():
                connection.execute("BEGIN IMMEDIATE")
            try:
                with self._translated_errors():
                    counts = [
                        connection.execute(statement, dict(parameters)).rowcount
                        for statement, parameters in steps
                    ]
                if all_or_none and 0 in counts:
                    connection.execute("ROLLBACK")
                else:
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
            # With a rollback journal, readers can block a COMMIT. The transaction is still open
            # then and can be rolled back.
            if connection.in_transaction and _is_locked(error):
                raise Contended(
                    f"The catalog database {self.path} stayed locked for {self.timeout:g} s."
                ) from error
            raise Unclear(
                f"Could not tell whether the catalog database {self.path} took a commit: {error}.",
                file=self.path,
            ) from error

    def execute_ddl(self, statements: Sequence[str]) -> None:
        """Run DDL statements. A database that is still empty is set to WAL mode, in which readers
        and writers do not block each other.
        """
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
                    raise StorageError(
                        f"Could not set up the catalog database {self.path}: {error}.",
                        file=self.path,
                    ) from error
                time.sleep(0.02)

    def close(self) -> None:
        with self._lock:
            if os.getpid() == self._owner:
                _close_all(self._idle)

    # --- connections

    @contextlib.contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        if self._in_memory:  # the database lives in its one connection
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
                # This is a forked process. It must neither use nor close the connections of its
                # parent, so it keeps them unused.
                _ABANDONED.extend(self._idle)
                self._idle.clear()
                self._owner = os.getpid()
            if self._idle:
                return self._idle.pop()
        return self._connect()

    def _connect(self) -> sqlite3.Connection:
        with self._translated_errors("open"):
            connection = sqlite3.connect(
                self.path, timeout=self.timeout, isolation_level=None, check_same_thread=False
            )
            try:
                _make_durable(connection)
            except sqlite3.Error:
                connection.close()
                raise
        if self._echo:
            connection.set_trace_callback(logger.info)
        return connection

    @contextlib.contextmanager
    def _translated_errors(self, doing: str = "use") -> Iterator[None]:
        """Raise SQLite's errors as errors of Frazil."""
        try:
            yield
        except sqlite3.IntegrityError as error:
            raise DuplicateKey(f"A row with that key exists in {self.path}: {error}.") from error
        except sqlite3.OperationalError as error:
            if _is_locked(error):
                raise Contended(
                    f"The catalog database {self.path} stayed locked for {self.timeout:g} s."
                ) from error
            if "no such table" in str(error):
                raise MissingTable(f"{self.path}: {error}.") from error
            raise StorageError(
                f"Could not {doing} the catalog database {self.path}: {error}.", file=self.path
            ) from error
        except sqlite3.Error as error:
            raise StorageError(
                f"Could not {doing} the catalog database {self.path}: {error}.", file=self.path
            ) from error


_ABANDONED: list[sqlite3.Connection] = []


def _close_all(connections: list[sqlite3.Connection]) -> None:
    while connections:
        connections.pop().close()


def _is_locked(error: sqlite3.Error) -> bool:
    code = getattr(error, "sqlite_errorcode", None)
    return (
        (code & 0xFF) in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
        if code is not None
        else "locked" in str(error)
    )


def _make_durable(connection: sqlite3.Connection) -> None:
    """Make commits durable when they return: a WAL needs `synchronous=FULL`, a rollback journal
    EXTRA, which syncs its directory too. The setting belongs to the connection and changes nothing
    in the file."""
    mode = connection.execute("PRAGMA journal_mode").fetchone()[0]
    connection.execute(f"PRAGMA synchronous={'FULL' if mode == 'wal' else 'EXTRA'}")
