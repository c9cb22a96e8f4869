"""Move the pointer of a table in a Hive Metastore: under its lock, and on condition that the pointer is still the one of the base.

The condition is `expected_parameter_key` of an alter_table, which Hive 2.3.10 and 4.0 check within their own transaction; older servers
ignore it. It is sent always: with the lock it guards against writers without one, without the lock it is all there is. So before the first
commit without a lock it sends an alter_table that every server rejects: the error's text shows whether the server checks the condition.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from dataclasses import replace

from frazil.catalog import metadata_files
from frazil.catalog.base import LoadedTable, Unclear
from frazil.catalog.hive import calls
from frazil.catalog.hive.client import HiveClient, MetastoreError
from frazil.catalog.hive.locks import TableLock, table_lock
from frazil.catalog.hive.settings import HiveSettings
from frazil.catalog.hive.structs import ClientCapabilities, EnvironmentContext, FieldSchema, GetTableRequest, HiveTable
from frazil.catalog.hive.table_object import LOCATION, is_iceberg, lock_enabled, new_table, updated
from frazil.errors import CommitFailedException, FrazilError, InvalidInput, TableAlreadyExistsError, Unsupported
from frazil.spec.metadata import TableMetadata
from frazil.spec.properties import HIVE_LOCK_ENABLED

logger = logging.getLogger("frazil.catalog")
_NO_STATISTICS = {"DO_NOT_UPDATE_STATS": "true"}
_STALE = "has been modified"  # how servers refuse an expected parameter, in two sentences that differ otherwise
_NO_SUCH_LOCATION = "none: asked by Frazil to see whether this server checks expected_parameter_value"


class Pointers:
    """Create, move and rename pointers. What was learned about the server is kept: whether it checks the expected pointer, and whether its
    database can."""

    def __init__(self, client: HiveClient, settings: HiveSettings):
        self._client, self._settings = client, settings
        self._checks_expected: bool | None = None
        self._cannot_compare = False  # Derby, as Hive 4 uses it, cannot compare the texts of parameters

    def stored(self, database: str, name: str) -> HiveTable | None:
        """Return what the metastore has under a name; None: nothing."""
        try:
            table: HiveTable | None = self._client.ask(calls.GET_TABLE, GetTableRequest(database, name, ClientCapabilities([]))).table
        except MetastoreError as error:
            if error.kind == "NoSuchObjectException":
                return None
            raise
        return table

    def create(self, database: str, name: str, table: LoadedTable) -> bool:
        """Create a table with its pointer. False: the name is taken. Raises as `catalog.pointer.Move` does."""
        made = new_table(table, database, name, self._settings)
        try:
            self._client.ask(calls.CREATE_TABLE, made, EnvironmentContext(_NO_STATISTICS))
        except MetastoreError as error:
            # The server may have tried twice by itself, so that "already exists" can mean this table.
            stored_now = self._stored_after_error(database, name, error)
            if stored_now is not None:
                return _points_to(stored_now, table.metadata_location)
            if error.kind == "InvalidObjectException":
                raise InvalidInput(f"The metastore takes no table {database}.{name}: {error}", table=f"{database}.{name}") from error
            raise
        return True

    def move(self, database: str, name: str, base: LoadedTable, table: LoadedTable) -> bool:
        """Move a pointer from the base to the new state. False: it is no longer at the base. Raises as `catalog.pointer.Move` does."""
        with self._guarded(database, name, table.metadata) as lock:
            stored = self.stored(database, name)
            if stored is None or not is_iceberg(stored) or not _points_to(stored, base.metadata_location):
                return False
            try:
                return self._altered(stored, updated(stored, base, table, self._settings), base, table, lock)
            except Unclear:
                if lock is not None and not self._is_settled(stored, table):
                    lock.leave()
                raise

    def rename(self, source: tuple[str, str], target: tuple[str, str], table: LoadedTable) -> bool:
        """Rename a table. False: another writer has changed it. Its pointer is expected to stay, so that no commit is lost beside it."""
        with self._guarded(*source, table.metadata) as lock:
            stored = self.stored(*source)
            if stored is None or not is_iceberg(stored) or not _points_to(stored, table.metadata_location):
                return False
            try:
                self._alter(source, replace(stored, dbName=target[0], tableName=target[1]), table.metadata_location, lock)
            except MetastoreError as error:
                if _STALE in str(error):
                    return False
                if "already exists" in str(error):
                    name = ".".join(target)
                    raise TableAlreadyExistsError(f"Table already exists: {name}.", table=name) from error
                raise
        return True

    def _is_settled(self, stored: HiveTable, table: LoadedTable) -> bool:
        """Tell, after an answer was lost, whether others may have the lock: the pointer has moved, or the server would refuse to move it on
        top of what others commit meanwhile. Else a server that still works on the call could undo their commits."""
        names = (str(stored.dbName), str(stored.tableName))
        try:
            stored_now = self.stored(*names)
            if stored_now is None or _points_to(stored_now, table.metadata_location):
                return True
            self._check_server(names, stored_now)
        except FrazilError:
            return False
        return True

    @contextlib.contextmanager
    def _guarded(self, database: str, name: str, metadata: TableMetadata) -> Iterator[TableLock | None]:
        if lock_enabled(metadata, self._settings):
            with table_lock(self._client, database, name) as lock:
                yield lock
        else:
            yield None

    def _altered(self, stored: HiveTable, new: HiveTable, base: LoadedTable, table: LoadedTable, lock: TableLock | None) -> bool:
        """Change a table, and tell whether its pointer has moved. An answer with an error is judged by where the pointer is afterwards."""
        names = (str(stored.dbName), str(stored.tableName))
        try:
            self._alter(names, new, base.metadata_location, lock)
        except MetastoreError as error:
            if "types incompatible" in str(error) and new.sd and stored.sd and new.sd.cols is not stored.sd.cols:
                logger.warning("The metastore keeps the former columns of %s.%s, which Hive shows: %s", *names, error)
                return self._altered(stored, replace(new, sd=replace(new.sd, cols=stored.sd.cols)), base, table, lock)
            stored_now = self._stored_after_error(*names, error)
            if stored_now is None or not is_iceberg(stored_now):
                return False
            if _points_to(stored_now, table.metadata_location):
                return True
            if not _points_to(stored_now, base.metadata_location):
                return _went_by(stored_now, table)
            if _STALE in str(error):
                raise CommitFailedException(f"The metastore says that the table has changed: {error}") from error
            raise
        return True

    def _stored_after_error(self, database: str, name: str, error: MetastoreError) -> HiveTable | None:
        """Return what the metastore has after an answer with an error. Raises Unclear if it does not tell."""
        try:
            return self.stored(database, name)
        except FrazilError as second:
            raise Unclear(f"{error} Whether it was applied could not be told: {second}") from error

    def _alter(self, names: tuple[str, str], new: HiveTable, expected: str, lock: TableLock | None) -> None:
        if lock is None:
            self._check_server(names, new)
        else:
            lock.check()
        properties = dict(_NO_STATISTICS)
        if not self._cannot_compare:
            properties |= _expected(expected)
        try:
            self._client.ask(calls.ALTER_TABLE, *names, new, EnvironmentContext(properties))
        except MetastoreError as error:
            if not _is_incomparable(error) or self._cannot_compare:
                raise
            self._cannot_compare = True
            if lock is None:
                raise _refused(error) from error
            self._alter(names, new, expected, lock)

    def _check_server(self, names: tuple[str, str], table: HiveTable) -> None:
        """Raise Unsupported if the server does not check expected parameters.

        It is sent an alter_table that adds a partition key, which no server ever applies, with an expectation that cannot hold: a server
        that checks says that the table has been modified, another one that partition keys cannot change.
        """
        if self._checks_expected is None:
            keys = [*(table.partitionKeys or []), FieldSchema("frazil", "string")]
            impossible = replace(table, dbName=names[0], tableName=names[1], partitionKeys=keys)
            context = EnvironmentContext(_NO_STATISTICS | _expected(_NO_SUCH_LOCATION))
            try:
                self._client.ask(calls.ALTER_TABLE, *names, impossible, context)
                self._checks_expected = False
            except MetastoreError as error:
                if _STALE not in str(error) and "partition keys" not in str(error):
                    raise
                self._checks_expected = _STALE in str(error)
        if not self._checks_expected or self._cannot_compare:
            raise _refused(None)


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
    return "CLOB" in str(error) or "JDODataStoreException" in str(error)


def _went_by(stored_now: HiveTable, table: LoadedTable) -> bool:
    """Tell whether the new state was current for a moment: the log of the metadata that is current now names its
    file. The server has answered, so the state cannot become current later. Raises Unclear if the current metadata cannot be read."""
    location = (stored_now.parameters or {})[LOCATION]
    try:
        return metadata_files.in_log(metadata_files.read(table.storage, location), table.metadata_location)
    except FrazilError as error:
        raise Unclear(f"Could not tell whether {table.metadata_location} was committed before {location}: {error}") from error
