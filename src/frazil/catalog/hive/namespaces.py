"""Store the namespaces of a Hive catalog: the metastore's databases, of one level, with a location
and properties.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from frazil.catalog.base import Identifier
from frazil.catalog.hive import calls
from frazil.catalog.hive.client import HiveClient, MetastoreError
from frazil.catalog.hive.structs import HiveDatabase
from frazil.catalog.names import full_name
from frazil.errors import (
    InvalidInput,
    NamespaceNotEmptyError,
)
from frazil.storage.locations import join

_LOCATION, _COMMENT = "location", "comment"
_OWNER, _OWNER_TYPE = "hive.metastore.database.owner", "hive.metastore.database.owner-type"
_OWNER_TYPES = ("USER", "ROLE", "GROUP")  # numbered from 1


class HiveNamespaces:
    """Store namespaces as databases. `warehouse`: the directory of new ones."""

    def __init__(self, client: HiveClient, warehouse: str | None):
        self._client, self.warehouse = client, warehouse

    def _database(self, namespace: Identifier) -> HiveDatabase | None:
        """Return a database; None: there is none, or the namespace has several levels, which no
        database has.
        """
        if len(namespace) != 1:
            return None
        try:
            database: HiveDatabase = self._client.ask(calls.GET_DATABASE, namespace[0])
        except MetastoreError as error:
            if error.kind == "NoSuchObjectException":
                return None
            raise
        return database

    def get(self, namespace: Identifier) -> dict[str, str] | None:
        database = self._database(namespace)
        return None if database is None else _properties(database)

    def create(self, namespace: Identifier, properties: Mapping[str, str]) -> bool:
        """Create a database. Its location is the property `location`, else `<warehouse>/<name>.db`,
        else what the metastore chooses.
        """
        if len(namespace) != 1:
            raise InvalidInput(
                f"A namespace of a Hive Metastore has one level, not {len(namespace)}: {full_name(namespace)}."
            )
        name, user = namespace[0], self._client.settings.user
        place = join(self.warehouse, f"{name}.db") if self.warehouse else None
        empty = HiveDatabase(name, locationUri=place, parameters={}, ownerName=user, ownerType=1)
        try:
            self._client.ask(calls.CREATE_DATABASE, _with(empty, properties))
        except MetastoreError as error:
            if error.kind == "AlreadyExistsException":
                return False
            if error.kind == "InvalidObjectException":
                raise InvalidInput(
                    f"The metastore takes no namespace {name!r}: {error}", namespace=name
                ) from error
            raise
        return True

    def change(
        self, namespace: Identifier, removals: set[str], updates: Mapping[str, str]
    ) -> dict[str, str] | None:
        if fixed := sorted(removals & {_LOCATION, _OWNER, _OWNER_TYPE}):
            raise InvalidInput(
                f"A database of a Hive Metastore always has {', '.join(fixed)}.",
                hint="Set another value instead.",
            )
        if (database := self._database(namespace)) is None:
            return None
        left = {
            key: value for key, value in (database.parameters or {}).items() if key not in removals
        }
        comment = None if _COMMENT in removals else database.description
        changed = _with(replace(database, parameters=left, description=comment), updates)
        self._client.ask(calls.ALTER_DATABASE, namespace[0], changed)
        return _properties(database)

    def drop(self, namespace: Identifier) -> bool:
        if self._database(namespace) is None:
            return False
        try:
            self._client.ask(calls.DROP_DATABASE, namespace[0], False, False)
        except MetastoreError as error:
            if error.kind == "NoSuchObjectException":
                return False
            if error.kind == "InvalidOperationException" and "not empty" in str(error):
                raise NamespaceNotEmptyError(
                    f"Namespace {namespace[0]} is not empty: {error}", namespace=namespace[0]
                ) from error
            raise
        return True

    def list(self, parent: Identifier) -> Iterable[Identifier]:
        """Return all databases. No database has others within it."""
        return [] if parent else [(str(name),) for name in self._client.ask(calls.GET_DATABASES)]

    def hint(self, namespace: Identifier) -> str | None:
        return None if len(namespace) == 1 else "A namespace of a Hive Metastore has one level."


def _properties(database: HiveDatabase) -> dict[str, str]:
    kind = database.ownerType or 0
    shown = {
        _LOCATION: database.locationUri,
        _COMMENT: database.description,
        _OWNER: database.ownerName,
        _OWNER_TYPE: _OWNER_TYPES[kind - 1] if 0 < kind <= len(_OWNER_TYPES) else None,
    }
    return {**(database.parameters or {}), **{key: value for key, value in shown.items() if value}}


def _with(database: HiveDatabase, properties: Mapping[str, str]) -> HiveDatabase:
    """Return a database with properties; four of them are members of their own. Raises InvalidInput
    for an unknown owner-type.
    """
    parameters = {**(database.parameters or {}), **properties}
    place = parameters.pop(_LOCATION, None)
    kind = parameters.pop(_OWNER_TYPE, None)
    if kind is not None and kind.upper() not in _OWNER_TYPES:
        raise InvalidInput(
            f"Namespace property {_OWNER_TYPE} must be one of {', '.join(_OWNER_TYPES)}, not {kind!r}."
        )
    return replace(
        database,
        description=parameters.pop(_COMMENT, database.description),
        ownerName=parameters.pop(_OWNER, database.ownerName),
        ownerType=database.ownerType if kind is None else _OWNER_TYPES.index(kind.upper()) + 1,
        locationUri=database.locationUri if place is None else place,
        parameters=parameters,
    )
