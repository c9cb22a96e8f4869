"""Use PostgreSQL, MySQL and MariaDB as databases of the SQL catalog, through SQLAlchemy."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeVar

from frazil.catalog.base import Unclear
from frazil.catalog.sql.database import Contended, DuplicateKey, MissingTable, Row, SqlStatement
from frazil.errors import FrazilError, InvalidInput, NotInstalledError, StorageError
from frazil.storage import redact_text

if TYPE_CHECKING:
    from sqlalchemy.engine import Connection

_DRIVERS = {
    "postgresql": (("psycopg", "psycopg"), ("psycopg2", "psycopg2")),
    "mysql": (("pymysql", "pymysql"), ("mysqldb", "MySQLdb"), ("mysqlconnector", "mysql")),
    "mariadb": (("pymysql", "pymysql"), ("mysqldb", "MySQLdb"), ("mariadbconnector", "mariadb")),
}
_EXTRAS = {"postgresql": "frazil[postgres]", "mysql": "frazil[mysql]", "mariadb": "frazil[mysql]"}
_CONNECT_S = 10
_KEPT = 8  # connections that stay open
# by these a connection notices that the server's machine has vanished
_ALIVE = {
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
}
# Deadlocks, serialization failures and lock time-outs: the server has rolled back, so the change
# was certainly not applied.
_ROLLED_BACK_STATES, _ROLLED_BACK_CODES = {"40001", "40P01", "55P03"}, {1205, 1213}
_LOST_CODES = {2006, 2013}
T = TypeVar("T")


class RemoteDatabase:
    """Use a database server through a connection pool; safe for threads and across a fork.

    `uri`: a SQLAlchemy URL; `user` and `password` override those in it. `pre_ping`: test pooled
    connections before use. `echo`: log the statements. `timeout`: how many seconds to wait for
    other transactions. Raises NotInstalledError without SQLAlchemy or a driver, InvalidInput for a
    URL of another kind.
    """

    def __init__(
        self,
        uri: str,
        *,
        user: str | None = None,
        password: str | None = None,
        pre_ping: bool = True,
        echo: bool = False,
        timeout: float = 30.0,
    ):
        alchemy = _sqlalchemy()
        url = _url(alchemy, uri, user, password)
        self._text, self._errors = alchemy.text, alchemy.exc
        arguments = {
            k: v
            for k, v in _arguments(url.get_driver_name(), timeout).items()
            if k not in url.query
        }
        # A transaction whose client has vanished may hold a row for hours. (MySQL and MariaDB end
        # such a wait after 50 seconds.)
        waits_for_ever = url.get_backend_name() == "postgresql" and "options" not in url.query
        self._limit = (
            self._text(f"SET LOCAL lock_timeout = {timeout * 1000:.0f}") if waits_for_ever else None
        )
        # SQLAlchemy hides no password among the URL's options
        self.shown = redact_text(url.render_as_string(hide_password=True))
        # Without a number SQLAlchemy keeps five connections, and opens others anew for each call
        # beside them.
        self._engine = alchemy.create_engine(
            url,
            pool_size=_KEPT,
            pool_pre_ping=pre_ping,
            echo=echo,
            hide_parameters=True,
            connect_args=arguments,
        )
        self._owner, self._lock = os.getpid(), threading.Lock()
        # By default these databases take `t` for `T` and `é` for `e`, and some hold no names
        # outside of Latin-1.
        self.table_options = (
            ""
            if url.get_backend_name() == "postgresql"
            else " CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"
        )

    def query(self, statement: str, parameters: Mapping[str, Any]) -> list[Row]:
        def rows(connection: Connection) -> list[Row]:
            return [
                tuple(row) for row in connection.execute(self._text(statement), dict(parameters))
            ]

        return self._again(rows)

    def columns(self, table: str) -> list[str]:
        return self._again(
            lambda connection: list(
                connection.execute(self._text(f"SELECT * FROM {table} WHERE 1 = 0")).keys()
            )
        )

    def _again(self, run: Callable[[Any], T]) -> T:
        """Run statements over a connection, and over another one where the first is lost meanwhile.
        Where COMMIT was sent, it is not.
        """
        for last in (False, True):
            with self._translated_errors(), self._connect() as connection:
                try:
                    return run(connection)
                except self._errors.DBAPIError as error:
                    if last or not self._is_lost(error):
                        raise
                    connection.invalidate()
        raise AssertionError("two rounds return or raise")

    def execute(self, steps: Sequence[SqlStatement], *, all_or_none: bool = False) -> list[int]:
        return self._again(lambda connection: self._run(connection, steps, all_or_none))

    def execute_ddl(self, statements: Sequence[str]) -> None:
        """Run DDL statements, once: databases commit some of them by themselves."""
        with self._translated_errors(), self._connect() as connection:
            self._run(connection, [(statement, {}) for statement in statements])

    def _run(
        self, connection: Connection, steps: Sequence[SqlStatement], all_or_none: bool = False
    ) -> list[int]:
        """Run statements in one transaction. While COMMIT has not been sent, a connection that is
        lost has applied nothing.
        """
        if self._limit is not None:
            connection.execute(self._limit)
        counts = [
            connection.execute(self._text(statement), dict(parameters)).rowcount
            for statement, parameters in steps
        ]
        if all_or_none and 0 in counts:
            connection.rollback()
            return counts
        try:
            connection.commit()
        except self._errors.SQLAlchemyError as error:
            if self._is_rolled_back(error):
                raise
            raise Unclear(
                f"Could not tell whether {self.shown} took a commit: {_reason(error)}."
            ) from error
        return counts

    def close(self) -> None:
        self._engine.dispose(close=os.getpid() == self._owner)

    def _connect(self) -> Any:
        with self._lock:
            if os.getpid() != self._owner:
                self._engine.dispose(close=False)
                self._owner = os.getpid()
        try:
            return self._engine.connect()
        except self._errors.DBAPIError as error:
            if not self._is_lost(error):
                raise
            return self._engine.connect()  # the server has been asked for nothing yet

    def _is_lost(self, error: Any) -> bool:
        """Tell whether a connection was lost, or could not be made, without a word of the server."""
        original = error.orig
        if isinstance(code := (getattr(original, "args", None) or (None,))[0], int):
            # drivers of MySQL
            return code in _LOST_CODES
        state = getattr(original, "sqlstate", None) or getattr(original, "pgcode", None)
        is_silent = state is None and "FATAL" not in str(original)
        return bool(error.connection_invalidated) or (
            is_silent and isinstance(error, self._errors.OperationalError)
        )

    def _is_rolled_back(self, error: object) -> bool:
        original = getattr(error, "orig", None)
        state, arguments = getattr(original, "sqlstate", None), getattr(original, "args", ())
        return state in _ROLLED_BACK_STATES or bool(
            arguments and arguments[0] in _ROLLED_BACK_CODES
        )

    @contextlib.contextmanager
    def _translated_errors(self) -> Iterator[None]:
        """Raise SQLAlchemy's errors as errors of Frazil."""
        try:
            yield
        except FrazilError:
            raise
        except self._errors.IntegrityError as error:
            raise DuplicateKey(f"A row with that key exists in {self.shown}.") from error
        except self._errors.SQLAlchemyError as error:
            if self._is_rolled_back(error):
                raise Contended(
                    f"Another transaction in {self.shown} was first: {_reason(error)}."
                ) from error
            original = getattr(error, "orig", None)
            arguments = getattr(original, "args", None) or (None,)
            if getattr(original, "sqlstate", None) == "42P01" or arguments[0] == 1146:
                raise MissingTable(f"The catalog's tables are not in {self.shown}.") from error
            raise StorageError(
                f"The catalog database {self.shown} failed: {_reason(error)}.", uri=self.shown
            ) from error


def _arguments(driver: str, timeout: float) -> dict[str, Any]:
    """Return the arguments by which a driver sets time limits: without them a call would wait for a
    server that no longer answers for ever.
    """
    match driver:
        case "psycopg" | "psycopg2":
            return {"connect_timeout": _CONNECT_S, **_ALIVE}
        case "pymysql":
            return {
                "connect_timeout": _CONNECT_S,
                "read_timeout": 2 * timeout,
                "write_timeout": 2 * timeout,
            }
        case "mysqldb":
            return {
                "connect_timeout": _CONNECT_S,
                "read_timeout": round(2 * timeout),
                "write_timeout": round(2 * timeout),
            }
    return {}


def _reason(error: Exception) -> str:
    return redact_text(str(getattr(error, "orig", None) or error).strip().splitlines()[0])


def _sqlalchemy() -> Any:
    try:
        import sqlalchemy
    except ImportError as error:
        raise NotInstalledError(
            "SQL catalogs other than SQLite need SQLAlchemy.", hint='pip install "frazil[postgres]"'
        ) from error
    return sqlalchemy


def _url(alchemy: ModuleType, uri: str, user: str | None, password: str | None) -> Any:
    try:
        url = alchemy.engine.make_url(uri)
    except alchemy.exc.ArgumentError:  # not chained, since its text may hold the password
        raise InvalidInput(f"The property uri is no database URL: {redact_text(uri)}.") from None
    kind, _, driver = url.drivername.partition("+")
    if kind == "postgres":
        kind = "postgresql"
    if kind not in _DRIVERS:
        databases = ", ".join(["sqlite", *_DRIVERS])
        raise InvalidInput(
            f"The property uri names the database {kind!r}; a SQL catalog can be in {databases}."
        )
    if not driver:
        driver = next(
            (name for name, module in _DRIVERS[kind] if importlib.util.find_spec(module)), ""
        )
    if not driver or not any(importlib.util.find_spec(m) for n, m in _DRIVERS[kind] if n == driver):
        raise NotInstalledError(
            f"No driver for {kind} is installed.", hint=f'pip install "{_EXTRAS[kind]}"'
        )
    url = url.set(drivername=f"{kind}+{driver}")
    if user is not None or password is not None:
        url = url.set(username=user or url.username, password=password or url.password)
    return url
