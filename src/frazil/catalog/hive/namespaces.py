"""Manage the namespaces of a Hive catalog: the metastore's databases, of one level, with a location
and properties.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from frazil.catalog.base import Identifier, Identifiers, PropertiesUpdateSummary, check_namespace
from frazil.catalog.hive import calls
from frazil.catalog.hive.client import HiveClient, MetastoreError
from frazil.catalog.hive.structs import HiveDatabase
from frazil.catalog.names import full_name
from frazil.errors import (
    InvalidInput,
    NamespaceAlreadyExistsError,
    NamespaceNotEmptyError,
    NoSuchNamespaceError,
)
from frazil.storage import place_of
from frazil.storage.locations import join

_LOCATION, _COMMENT = "location", "comment"
_OWNER, _OWNER_TYPE = "hive.metastore.database.owner", "hive.metastore.database.owner-type"
_OWNER_TYPES = ("USER", "ROLE", "GROUP")  # numbered from 1


class HiveNamespaces:
    """Create, list and drop databases in a Hive Metastore; a part of HiveBackend."""

    name: str
    client: HiveClient
    warehouse: str | None

    def _database(self, namespace: Identifier) -> HiveDatabase | None:
        """Return a database; None: there is none, or the namespace has several levels, which no
        database has.
        """
        if len(check_namespace(namespace)) != 1:
            return None
        try:
            database: HiveDatabase = self.client.ask(calls.GET_DATABASE, namespace[0])
        except MetastoreError as error:
            if error.kind == "NoSuchObjectException":
                return None
            raise
        return database

    def _existing(self, namespace: Identifier) -> HiveDatabase:
        database = self._database(namespace)
        if database is None:
            text = f"Namespace does not exist: {full_name(namespace)}."
            hint = (
                "Create it with create_namespace first."
                if len(namespace) == 1
                else "A namespace of a Hive Metastore has one level."
            )
            raise NoSuchNamespaceError(text, hint=hint, namespace=full_name(namespace))
        return database

    def namespace_exists(self, namespace: Identifier) -> bool:
        return self._database(namespace) is not None

    def list_namespaces(self, parent: Identifier = ()) -> Identifiers:
        """Return all databases. No database has others within it."""
        if parent:
            self._existing(parent)
            return []
        return sorted((str(name),) for name in self.client.ask(calls.GET_DATABASES))

    def create_namespace(self, namespace: Identifier, properties: Mapping[str, str] = {}) -> None:
        """Create a database. Its location is the property `location`, else `<warehouse>/<name>.db`,
        else what the metastore chooses.
        """
        if len(check_namespace(namespace)) != 1:
            raise InvalidInput(
                f"A namespace of a Hive Metastore has one level, not {len(namespace)}: {full_name(namespace)}."
            )
        name = namespace[0]
        place = join(self.warehouse, f"{name}.db") if self.warehouse else None
        user = self.client.settings.user
        database = _with(
            HiveDatabase(name, locationUri=place, parameters={}, ownerName=user, ownerType=1),
            properties,
        )
        try:
            self.client.ask(calls.CREATE_DATABASE, database)
        except MetastoreError as error:
            if error.kind == "AlreadyExistsException":
                raise NamespaceAlreadyExistsError(
                    f"Namespace already exists: {name}.", namespace=name
                ) from error
            if error.kind == "InvalidObjectException":
                raise InvalidInput(
                    f"The metastore takes no namespace {name!r}: {error}", namespace=name
                ) from error
            raise

    def drop_namespace(self, namespace: Identifier) -> None:
        self._existing(namespace)
        try:
            self.client.ask(calls.DROP_DATABASE, namespace[0], False, False)
        except MetastoreError as error:
            if error.kind == "NoSuchObjectException":
                raise NoSuchNamespaceError(
                    f"Namespace does not exist: {namespace[0]}.", namespace=namespace[0]
                ) from error
            if error.kind == "InvalidOperationException" and "not empty" in str(error):
                raise NamespaceNotEmptyError(
                    f"Namespace {namespace[0]} is not empty: {error}", namespace=namespace[0]
                ) from error
            raise

    def load_namespace_properties(self, namespace: Identifier) -> dict[str, str]:
        return _properties(self._existing(namespace))

    def update_namespace_properties(
        self,
        namespace: Identifier,
        removals: set[str] | None = None,
        updates: Mapping[str, str] = {},
    ) -> PropertiesUpdateSummary:
        removals = set(removals or ())
        if both := sorted(removals & set(updates)):
            raise InvalidInput(
                f"A namespace property cannot be set and removed at once: {', '.join(both)}."
            )
        if fixed := sorted(removals & {_LOCATION, _OWNER, _OWNER_TYPE}):
            raise InvalidInput(
                f"A database of a Hive Metastore always has {', '.join(fixed)}.",
                hint="Set another value instead.",
            )
        database = self._existing(namespace)
        before = _properties(database)
        left = {
            key: value for key, value in (database.parameters or {}).items() if key not in removals
        }
        comment = None if _COMMENT in removals else database.description
        self.client.ask(
            calls.ALTER_DATABASE,
            namespace[0],
            _with(replace(database, parameters=left, description=comment), updates),
        )
        return PropertiesUpdateSummary(
            removed=tuple(sorted(removals & set(before))),
            updated=tuple(sorted(updates)),
            missing=tuple(sorted(removals - set(before))),
        )


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
    parameters = {**(database.parameters or {}), **{k: str(v) for k, v in properties.items()}}
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
        locationUri=database.locationUri
        if place is None
        else place_of(place, "property location of a namespace"),
        parameters=parameters,
    )
