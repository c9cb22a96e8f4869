"""Move the pointer of a table or view in a Hive Metastore: under its lock, and on condition that
the pointer is still that of the base.

The condition is `expected_parameter_key` of an alter_table, which Hive 2.3.10 and 4.0 check within
their own transaction; older servers ignore it. It is sent always: with the lock it guards against
writers without one, without the lock it is all there is. So before its first commit without a lock,
a connection is sent an alter_table that every server rejects: the error's text shows whether the
server checks the condition.
"""

from __future__ import annotations

import contextlib
import logging
import re
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from frazil.catalog import metadata_files
from frazil.catalog.base import LoadedTable, LoadedView, Unclear
from frazil.catalog.hive import calls
from frazil.catalog.hive.client import Connection, HiveClient, MetastoreError
from frazil.catalog.hive.locks import TableLock, table_lock
from frazil.catalog.hive.settings import HiveSettings
from frazil.catalog.hive.structs import (
    ClientCapabilities,
    EnvironmentContext,
    FieldSchema,
    GetTableRequest,
    HiveTable,
)
from frazil.catalog.hive.table_object import (
    LOCATION,
    is_iceberg,
    is_iceberg_view,
    is_view,
    lock_enabled,
    updated,
    updated_view,
)
from frazil.codec.view_json import decode_view
from frazil.errors import (
    CommitFailedException,
    FrazilError,
    InvalidInput,
    TableAlreadyExistsError,
    Unsupported,
)
from frazil.spec.properties import HIVE_LOCK_ENABLED
from frazil.storage import Storage

logger = logging.getLogger("frazil.catalog")
_NO_STATISTICS = {"DO_NOT_UPDATE_STATS": "true"}
# how servers refuse an expected parameter, in two sentences that differ otherwise
_STALE = "has been modified"
_INCOMPARABLE = re.compile("Comparisons between 'CLOB|ORA-00932: .*CLOB|ORA-22848")
_NO_SUCH_LOCATION = (
    "none: asked by Frazil to see whether this server checks expected_parameter_value"
)


@dataclass(frozen=True)
class PointerChange:
    """Describe how a table or view changes: from the metadata file `expected` to `location`. Both
    are the same where it is renamed.

    `is_own`: tells whether a stored object is of the same kind; `applied`: returns it with the new
    state; `went_by`: tells, by the metadata file that is current now, whether the new state was
    current for a moment, and raises Unclear where it does not know.
    """

    expected: str
    location: str
    locked: bool
    is_own: Callable[[HiveTable], bool]
    applied: Callable[[HiveTable], HiveTable]
    went_by: Callable[[str], bool]

    def is_at_base(self, stored: HiveTable | None) -> bool:
        return stored is not None and self.is_own(stored) and _points_to(stored, self.expected)


def table_change(base: LoadedTable, table: LoadedTable, settings: HiveSettings) -> PointerChange:
    """Describe the change of a table from one state to the next."""
    return PointerChange(
        base.metadata_location,
        table.metadata_location,
        lock_enabled(table.metadata, settings),
        is_iceberg,
        lambda stored: updated(stored, base, table, settings),
        lambda current: _table_went_by(current, table),
    )


def view_change(
    base: LoadedView, view: LoadedView, storage_of: Callable[[str], Storage], settings: HiveSettings
) -> PointerChange:
    """Describe the change of a view from one state to the next. The catalog alone says whether it
    takes the lock, as in Java.
    """
    return PointerChange(
        base.metadata_location,
        view.metadata_location,
        settings.lock_enabled,
        is_iceberg_view,
        lambda stored: updated_view(stored, base, view, settings),
        lambda current: _view_went_by(current, base, view, storage_of),
    )


class Pointers:
    """Create, move and rename pointers. What was learned is kept: of each connection, whether its
    server checks the expected pointer, since servers of one metastore may be of different releases;
    and whether their database can."""

    def __init__(self, client: HiveClient, settings: HiveSettings):
        self._client, self._settings = client, settings
        self._cannot_compare = (
            False  # Derby, as Hive 4 uses it, cannot compare the texts of parameters
        )

    def stored(self, database: str, name: str) -> HiveTable | None:
        """Return the object that the metastore has under a name; None: there is none."""
        try:
            table: HiveTable | None = self._client.ask(
                calls.GET_TABLE, GetTableRequest(database, name, ClientCapabilities([]))
            ).table
        except MetastoreError as error:
            if error.kind == "NoSuchObjectException":
                return None
            raise
        return table

    def create(self, made: HiveTable, location: str) -> bool:
        """Create a table or view that points to a location. False: the name is taken. Raises as
        `catalog.pointer.Move` does.
        """
        database, name = str(made.dbName), str(made.tableName)
        try:
            self._client.ask(calls.CREATE_TABLE, made, EnvironmentContext(_NO_STATISTICS))
        except MetastoreError as error:
            # The server may have tried twice by itself, so that "already exists" can mean this
            # table.
            stored_now = self._stored_after_error(database, name, error)
            if stored_now is not None:
                return _points_to(stored_now, location)
            if error.kind == "InvalidObjectException":
                raise InvalidInput(
                    f"The metastore does not take {database}.{name}: {error}",
                    table=f"{database}.{name}",
                ) from error
            raise
        return True

    def move(self, names: tuple[str, str], change: PointerChange) -> bool:
        """Move a pointer from the base to the new state. False: it is no longer at the base. Raises
        as `catalog.pointer.Move` does.
        """
        with self._guarded(names, change) as lock:
            stored = self.stored(*names)
            if stored is None or not change.is_at_base(stored):
                return False
            with self._keeping(lock, stored, change.location):
                return self._altered(stored, change.applied(stored), change, lock)

    def rename(
        self, source: tuple[str, str], target: tuple[str, str], change: PointerChange
    ) -> bool:
        """Rename a table or view. False: another writer has changed it. Its pointer is expected to
        stay, so that no commit is lost beside it. Raises TableAlreadyExistsError where the
        metastore has a table or view of that name, Unclear where it may have been renamed."""
        with self._guarded(source, change) as lock:
            stored = self.stored(*source)
            if stored is None or not change.is_at_base(stored):
                return False
            with self._keeping(lock, stored, None):
                return self._renamed(stored, target, change, lock)

    @contextlib.contextmanager
    def _keeping(
        self, lock: TableLock | None, stored: HiveTable, location: str | None
    ) -> Iterator[None]:
        """Leave the lock to the metastore where a call may still be carried out that would undo
        what others commit meanwhile: its answer was lost, or the process was interrupted while it
        waited for it. `location`: as for `_is_settled`."""
        try:
            yield
        except BaseException as error:
            settled = lock is None or (
                isinstance(error, FrazilError) and not isinstance(error, Unclear)
            )
            try:
                settled = settled or self._is_settled(stored, location)
            finally:
                if lock is not None and not settled:
                    lock.leave()
            raise

    def _renamed(
        self,
        stored: HiveTable,
        target: tuple[str, str],
        change: PointerChange,
        lock: TableLock | None,
    ) -> bool:
        """Rename a stored object. A lost answer, and an answer with an error, are judged by which
        name it has.
        """
        source = (str(stored.dbName), str(stored.tableName))
        try:
            self._alter(
                source,
                replace(stored, dbName=target[0], tableName=target[1]),
                change.expected,
                lock,
            )
        except Unclear as error:
            if not self._is_now(source, target, change, error):
                raise
        except MetastoreError as error:
            if self._is_now(source, target, change, error):
                return True
            if _STALE in str(error):
                return False
            if "already exists" in str(error):
                name = ".".join(target)
                raise TableAlreadyExistsError(
                    f"Table or view already exists: {name}.", table=name
                ) from error
            if lock is None and _is_incomparable(error):
                raise _refused(error) from error
            raise
        return True

    def _is_now(
        self,
        source: tuple[str, str],
        target: tuple[str, str],
        change: PointerChange,
        error: FrazilError,
    ) -> bool:
        """Tell whether the metastore has a table or view under its new name only. Raises Unclear if
        it does not tell.
        """
        return self._stored_after_error(*source, error) is None and change.is_at_base(
            self._stored_after_error(*target, error)
        )

    def _is_settled(self, stored: HiveTable, location: str | None) -> bool:
        """Tell, after an answer was lost, whether others may have the lock: the pointer has moved
        to the location (None: the name alone was to change), the name is free, or the server would
        refuse to change it on top of what others commit meanwhile. Else a server that still works
        on the call could undo their commits."""
        names = (str(stored.dbName), str(stored.tableName))
        try:
            stored_now = self.stored(*names)
            if stored_now is None or (location is not None and _points_to(stored_now, location)):
                return True
            request = GetTableRequest(*names, ClientCapabilities([]))
            self._client.ask(
                calls.GET_TABLE,
                request,
                first=lambda connection: self._check_server(connection, names, stored_now),
            )
        except FrazilError:
            return False
        return True

    @contextlib.contextmanager
    def _guarded(self, names: tuple[str, str], change: PointerChange) -> Iterator[TableLock | None]:
        if change.locked:
            with table_lock(self._client, *names) as lock:
                yield lock
        else:
            yield None

    def _altered(
        self, stored: HiveTable, new: HiveTable, change: PointerChange, lock: TableLock | None
    ) -> bool:
        """Change a stored object, and tell whether its pointer has moved. An answer with an error
        is judged by where the pointer is.
        """
        names = (str(stored.dbName), str(stored.tableName))
        try:
            self._alter(names, new, change.expected, lock)
        except MetastoreError as error:
            if (
                "types incompatible" in str(error)
                and new.sd
                and stored.sd
                and new.sd.cols is not stored.sd.cols
            ):
                logger.warning(
                    "The metastore keeps the former columns of %s.%s, which Hive shows: %s",
                    *names,
                    error,
                )
                return self._altered(
                    stored, replace(new, sd=replace(new.sd, cols=stored.sd.cols)), change, lock
                )
            stored_now = self._stored_after_error(*names, error)
            if stored_now is None or not change.is_own(stored_now):
                return False
            if _points_to(stored_now, change.location):
                return True
            if not _points_to(stored_now, change.expected):
                return change.went_by((stored_now.parameters or {})[LOCATION])
            if _STALE in str(error):
                raise CommitFailedException(
                    f"The metastore says that {'.'.join(names)} has changed: {error}"
                ) from error
            if lock is None and _is_incomparable(error):
                raise _refused(error) from error
            raise
        return True

    def _stored_after_error(self, database: str, name: str, error: FrazilError) -> HiveTable | None:
        """Return the object that the metastore has after an answer with an error, or a lost one.
        Raises Unclear if the metastore does not answer.
        """
        try:
            return self.stored(database, name)
        except FrazilError as second:
            raise Unclear(
                f"{error} Frazil could not find out whether it was applied: {second}"
            ) from error

    def _alter(
        self, names: tuple[str, str], new: HiveTable, expected: str, lock: TableLock | None
    ) -> None:
        properties = dict(_NO_STATISTICS)
        if not self._cannot_compare:
            properties |= _expected(expected)
        arguments = (*names, new, EnvironmentContext(properties))
        try:
            if lock is None:
                self._client.ask(
                    calls.ALTER_TABLE,
                    *arguments,
                    first=lambda connection: self._check_server(connection, names, new),
                )
                return
            lock.check()
            self._client.ask(calls.ALTER_TABLE, *arguments)
        except MetastoreError as error:
            if not _is_incomparable(error) or self._cannot_compare:
                raise
            self._cannot_compare = True
            if lock is None:
                raise
            self._alter(names, new, expected, lock)

    def _check_server(
        self, connection: Connection, names: tuple[str, str], table: HiveTable
    ) -> None:
        """Raise Unsupported if the server at the other end does not check expected parameters.

        It is sent an alter_table that no server ever applies, with an expectation that cannot hold:
        a server that checks says that the table has been modified, another one that partition keys
        cannot change, or that the database of a view does not exist.
        """
        if connection.compares is None:
            impossible = _impossible(replace(table, dbName=names[0], tableName=names[1]))
            context = EnvironmentContext(_NO_STATISTICS | _expected(_NO_SUCH_LOCATION))
            try:
                connection.call(calls.ALTER_TABLE, (*names, impossible, context))
                connection.compares = False
            except MetastoreError as error:
                if _STALE in str(error):
                    connection.compares = True
                elif "partition keys" in str(error):
                    connection.compares = False
                elif not is_view(table) or "exist" not in str(error):
                    # a view that has just gone does not exist either: not remembered
                    raise
        if not connection.compares or self._cannot_compare:
            raise _refused(None)


def _impossible(table: HiveTable) -> HiveTable:
    """Return a change that no server makes: a new partition key of a table, or a database that does
    not exist, to which a view moves, since servers do not look at the partition keys of views."""
    if is_view(table):
        return replace(table, dbName=f"frazil_{uuid.uuid4().hex}")
    return replace(
        table, partitionKeys=[*(table.partitionKeys or []), FieldSchema("frazil", "string")]
    )


def _refused(error: MetastoreError | None) -> Unsupported:
    why = f": {error}" if error else ", as 2.3.10 and 4.0 do"
    return Unsupported(
        f"Commits without lock are not safe here: the metastore does not compare expected_parameter_value{why}.",
        hint=f"Set {HIVE_LOCK_ENABLED.name}=true (table or catalog property).",
    )


def _expected(location: str) -> dict[str, str]:
    return {"expected_parameter_key": LOCATION, "expected_parameter_value": location}


def _points_to(table: HiveTable, location: str) -> bool:
    return (table.parameters or {}).get(LOCATION) == location


def _is_incomparable(error: MetastoreError) -> bool:
    """Tell whether the database refused the statement that compares parameters, by the texts of
    Derby and Oracle. Other errors of a database may pass, and may come after the change was made.
    """
    return _INCOMPARABLE.search(str(error)) is not None


def _table_went_by(current: str, table: LoadedTable) -> bool:
    """Tell whether the new state was current for a moment: the log of the metadata that is current
    now names its file. The server has answered, so the state cannot become current later. Raises
    Unclear if the current metadata cannot be read."""
    try:
        return metadata_files.in_log(
            metadata_files.read(table.storage, current), table.metadata_location
        )
    except FrazilError as error:
        raise Unclear(
            f"Could not tell whether {table.metadata_location} was committed before {current}: {error}"
        ) from error


def _view_went_by(
    current: str, base: LoadedView, view: LoadedView, storage_of: Callable[[str], Storage]
) -> bool:
    """Tell whether the new state of a view was current for a moment: the version log that is
    current now has its newest entry.

    The log loses its oldest entries, so one that still has the newest entry of the base lacks none
    that came after it. Raises Unclear where it has neither, where the new state brought no entry,
    and if the current metadata cannot be read.
    """
    message = f"Could not tell whether {view.metadata_location} was committed before {current}"
    try:
        now = decode_view(metadata_files.read_bytes(storage_of(current), current), current)
    except FrazilError as error:
        raise Unclear(f"{message}: {error}") from error
    before, (*_, newest) = base.metadata.version_log, view.metadata.version_log
    if newest not in before and now.view_uuid == view.metadata.view_uuid:
        if newest in now.version_log and view.metadata.current_version() in now.versions:
            return True
        if before[-1] in now.version_log:
            return False
    raise Unclear(f"{message}.")
