"""Keep tables and views in a Hive Metastore, in the layout of Java's HiveCatalog: the parameter
metadata_location of each points to its metadata; views are virtual views of Hive.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from frazil.catalog.base import Identifier, LoadedTable, LoadedView
from frazil.catalog.hive import calls
from frazil.catalog.hive.client import HiveClient, MetastoreError
from frazil.catalog.hive.pointers import PointerChange, Pointers, table_change, view_change
from frazil.catalog.hive.settings import HiveSettings, settings
from frazil.catalog.hive.structs import (
    ClientCapabilities,
    GetTablesRequest,
    HiveDatabase,
    HiveTable,
)
from frazil.catalog.hive.table_object import (
    LOCATION,
    described,
    is_iceberg,
    is_iceberg_view,
    new_table,
    new_view_object,
)
from frazil.catalog.names import full_name
from frazil.catalog.pointer import Noun, PointerCatalog, State, Stored
from frazil.errors import (
    InvalidInput,
    NamespaceNotEmptyError,
    TableAlreadyExistsError,
    Unsupported,
)
from frazil.storage import Storage, absolute, storage_for
from frazil.storage.locations import join

_IS: dict[Noun, Callable[[HiveTable], bool]] = {"table": is_iceberg, "view": is_iceberg_view}
_BATCH = 200  # tables and views that are asked for with one call


def hive_catalog(name: str, properties: Mapping[str, str]) -> PointerCatalog:
    """Open a catalog in a Hive Metastore (2.3, 3.1, 4.0). Properties: `uri` holds its addresses,
    `warehouse` is the directory of new namespaces; see docs/catalogs.md for the others.
    """
    warehouse = absolute(properties["warehouse"]) if properties.get("warehouse") else None
    if warehouse is not None:  # a scheme without storage is an error now, not at the first table
        storage_for(warehouse, dict(properties))
    chosen = settings(dict(properties))
    client = HiveClient(chosen)
    return PointerCatalog(
        "hive",
        name,
        properties,
        HiveStore(name, client, chosen, lambda location: storage_for(location, dict(properties))),
        HiveNamespaces(client, warehouse),
        unique_locations=chosen.unique_locations,
    )


class HiveStore:
    """Store pointers in the parameters of a metastore's tables and views."""

    def __init__(
        self,
        catalog: str,
        client: HiveClient,
        settings: HiveSettings,
        storage_of: Callable[[str], Storage],
    ):
        self.catalog, self.client, self.settings = catalog, client, settings
        self.pointers, self._storage_of = Pointers(client, settings), storage_of

    def stored(self, identifier: Identifier) -> HiveTable | None:
        """Return the object that the metastore has under a name, be it Iceberg's or not; None:
        there is none.
        """
        *namespace, name = identifier
        return self.pointers.stored(namespace[0], name) if len(namespace) == 1 else None

    def get(self, identifier: Identifier) -> Stored | None:
        stored = self.stored(identifier)
        if stored is None:
            return None
        for noun, is_one in _IS.items():
            if is_one(stored):
                return Stored(noun, (stored.parameters or {})[LOCATION])
        return Stored(None, described=described(stored))

    def insert(self, new: State) -> bool:
        names = _names(new.identifier)
        new_object = (
            new_view_object(new, *names, self.settings)
            if isinstance(new, LoadedView)
            else new_table(new, *names, self.settings)
        )
        return self.pointers.create(new_object, new.metadata_location)

    def move(self, new: State, old: str, base: Callable[[], State]) -> bool:
        return self.pointers.move(_names(new.identifier), self._change(base(), new))

    def move_together(self, moves: Sequence[tuple[LoadedTable, str]]) -> bool:
        raise Unsupported(
            f"Hive catalog {self.catalog!r} cannot commit to several tables at once: a Hive Metastore changes one table with each call.",
            hint="Use a catalog of type sql or rest, or one transaction for each table: t.transaction().",
        )

    def delete(self, noun: Noun, identifier: Identifier, old: str | None) -> bool:
        try:
            self.client.ask(calls.DROP_TABLE, *identifier, False)  # it has no condition
        except MetastoreError as error:
            if error.kind == "NoSuchObjectException":
                return False
            raise
        return True

    def rename(
        self, noun: Noun, source: Identifier, target: Identifier, state: Callable[[], State]
    ) -> bool:
        if self.stored(target) is not None:
            raise TableAlreadyExistsError(f"Table or view already exists: {'.'.join(target)}.")
        unchanged = state()
        change = self._change(unchanged, unchanged)
        return self.pointers.rename(_names(source), _names(target), change)

    def list(self, noun: Noun, namespace: Identifier) -> Iterable[str]:
        """Return the Iceberg tables of a database (with the property list-all-tables, of Java's
        catalog, all its tables and views), or its Iceberg views, without Hive's own.
        """
        if noun == "view":
            names = self.client.ask(calls.GET_NAMES_BY_TYPE, namespace[0], "*", "VIRTUAL_VIEW")
        else:
            names = self.client.ask(calls.GET_TABLE_NAMES, namespace[0])
            if self.settings.list_all:
                return [str(name) for name in names]
        objects = self._objects(namespace[0], sorted(names))
        return [str(one.tableName) for one in objects if _IS[noun](one)]

    def check(self, noun: Noun, identifier: Identifier, location: str) -> None:
        """Do nothing: the metastore says what it cannot hold."""

    def close(self) -> None:
        self.client.close()

    def _change(self, base: State, new: State) -> PointerChange:
        if isinstance(base, LoadedView) and isinstance(new, LoadedView):
            return view_change(base, new, self._storage_of, self.settings)
        assert isinstance(base, LoadedTable) and isinstance(new, LoadedTable)
        return table_change(base, new, self.settings)

    def _objects(self, database: str, names: Sequence[str]) -> Iterator[HiveTable]:
        """Yield the objects that the metastore has under names, without those that have gone."""
        for at in range(0, len(names), _BATCH):
            batch = [*names[at : at + _BATCH]]
            request = GetTablesRequest(database, batch, ClientCapabilities([]))
            yield from self.client.ask(calls.GET_TABLES, request).tables or []


def _names(identifier: Identifier) -> tuple[str, str]:
    database, name = identifier
    return database, name


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
