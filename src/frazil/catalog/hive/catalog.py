"""Keep tables and views in a Hive Metastore, in the layout of Java's HiveCatalog: the parameter
metadata_location of each points to its metadata.

`HiveBackend` names and finds tables, `views` does so for views; `pointers` moves their pointers.
"""

from __future__ import annotations

import contextlib
import difflib
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace

from frazil.catalog import metadata_files
from frazil.catalog.base import (
    Conflict,
    Identifier,
    Identifiers,
    LoadedTable,
    Outcome,
    OutcomeTogether,
    Swap,
    check_identifier,
    check_namespace,
    shown,
)
from frazil.catalog.hive import calls
from frazil.catalog.hive.client import HiveClient, MetastoreError
from frazil.catalog.hive.pointers import Pointers, table_change
from frazil.catalog.hive.settings import settings
from frazil.catalog.hive.structs import HiveTable
from frazil.catalog.hive.table_object import LOCATION, is_iceberg, new_table
from frazil.catalog.hive.view_object import described, is_iceberg_view
from frazil.catalog.hive.views import HiveViews
from frazil.catalog.names import full_name
from frazil.catalog.pointer import create_pointed, load_pointed, swap_pointed
from frazil.catalog.purge import check_gc, delete, own_and_others
from frazil.catalog.reporting import Reporting
from frazil.errors import (
    CommitFailedException,
    CorruptData,
    FrazilError,
    InvalidInput,
    NoSuchFileError,
    NoSuchTableError,
    TableAlreadyExistsError,
    Unsupported,
)
from frazil.spec.metadata import TableMetadata
from frazil.spec.updates import Requirement, Update
from frazil.storage import Storage, absolute, storage_for
from frazil.storage.locations import join


class HiveBackend(HiveViews):
    """Keep tables and views in a Hive Metastore (2.3, 3.1, 4.0). Properties: `uri` holds its
    addresses, `warehouse` is the directory of new namespaces; see docs/options.md for the others.
    """

    writes_metadata_files = True

    def __init__(self, name: str, properties: Mapping[str, str]):
        self.name, self.properties = name, dict(properties)
        self.warehouse = (
            absolute(self.properties["warehouse"]) if self.properties.get("warehouse") else None
        )
        if self.warehouse is not None:
            storage_for(
                self.warehouse, self.properties
            )  # raises for a scheme without storage now, not at the first table
        self.settings = settings(self.properties)
        self.client = HiveClient(self.settings)
        self._pointers = Pointers(self.client, self.settings)
        self.reporting = Reporting(name, self.properties)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({shown(self.name, self.properties)})"

    def close(self) -> None:
        self.reporting.close()
        self.client.close()

    def _stored(self, identifier: Identifier) -> HiveTable | None:
        """Return what the metastore has under a name, be it an Iceberg table or not; None: nothing."""
        *namespace, name = check_identifier(identifier)
        return self._pointers.stored(namespace[0], name) if len(namespace) == 1 else None

    def _pointer(self, identifier: Identifier) -> str | None:
        """Return the metadata location of a table; None: there is none of that name, or it is no
        Iceberg table.
        """
        stored = self._stored(identifier)
        return (
            (stored.parameters or {})[LOCATION]
            if stored is not None and is_iceberg(stored)
            else None
        )

    def _iceberg(self, identifier: Identifier) -> HiveTable:
        stored = self._stored(identifier)
        if stored is None or not is_iceberg(stored):
            raise self._no_table(identifier)
        return stored

    def _no_table(self, identifier: Identifier) -> NoSuchTableError:
        name = f"{self.name}.{full_name(identifier)}"
        stored = None
        with contextlib.suppress(FrazilError):
            stored = self._stored(identifier)
        if stored is not None and is_iceberg_view(stored):
            return NoSuchTableError(
                f"{name} is a view, not a table.",
                hint=f"load_view({full_name(identifier)!r}) loads it.",
                table=name,
            )
        if stored is not None and not is_iceberg(stored):
            return NoSuchTableError(
                f"{name} is no Iceberg table, but {described(stored)}.",
                hint="It is left alone.",
                table=name,
            )
        return NoSuchTableError(
            f"Table does not exist: {name}.", hint=self._near(identifier), table=name
        )

    def _near(self, identifier: Identifier) -> str | None:
        """Return the hint for a table that does not exist, by what its namespace holds."""
        *namespace, name = identifier
        with contextlib.suppress(FrazilError):
            if not self.namespace_exists(tuple(namespace)):
                return f"The namespace {full_name(namespace)} does not exist either; list_namespaces() lists those that do."
            names = [t[-1] for t in self.list_tables(tuple(namespace))]
            if similar := difflib.get_close_matches(name, names, 1):
                return f"Did you mean {similar[0]!r}?"
            return f"list_tables({full_name(namespace)!r}) lists those that do."
        return None

    def _storage(self, location: str) -> Storage:
        return storage_for(location, self.properties)

    def _names(self, identifier: Identifier) -> tuple[str, str]:
        """Return the database and name of a new table. Raises NoSuchNamespaceError."""
        *namespace, name = check_identifier(identifier)
        self._existing(tuple(namespace))
        return namespace[0], name

    # --- tables

    def table_location(self, identifier: Identifier) -> str:
        """Choose the location of a new table: its name below the location of the database.

        A suffix makes it unique if the property unique-table-location (of Java's catalogs) is true,
        or if the directory holds the files of another table already: a table keeps its files where
        they are when it is renamed.
        """
        parent = self._existing(identifier[:-1]).locationUri
        if not parent:
            raise InvalidInput(
                f"Database {identifier[0]} has no location, so a new table needs one.",
                hint="Set one of them.",
            )
        place = join(absolute(parent), identifier[-1])
        if self.settings.unique_locations or self._storage(place).is_directory(
            join(place, "metadata")
        ):
            place += f"-{uuid.uuid4().hex}"
        return place

    def load(self, identifier: Identifier) -> LoadedTable:
        loaded = load_pointed(
            lambda: self._pointer(identifier), self._storage, full_name(identifier)
        )
        if loaded is None:
            raise self._no_table(identifier)
        location, metadata, storage = loaded
        return LoadedTable(tuple(identifier), location, metadata, storage, dict(self.properties))

    def table_exists(self, identifier: Identifier) -> bool:
        return self._pointer(identifier) is not None

    def stage_create(self, identifier: Identifier, metadata: TableMetadata) -> LoadedTable:
        self._names(identifier)
        if (stored := self._stored(identifier)) is not None:
            raise self._taken(identifier, stored)
        return self._staged(identifier, metadata)

    def _taken(self, identifier: Identifier, stored: HiveTable | None) -> TableAlreadyExistsError:
        name = f"{self.name}.{full_name(identifier)}"
        kind = (
            ""
            if stored is None or is_iceberg(stored)
            else f" It is no Iceberg table, but {described(stored)}."
        )
        return TableAlreadyExistsError(f"Table or view already exists: {name}.{kind}", table=name)

    def _staged(self, identifier: Identifier, metadata: TableMetadata) -> LoadedTable:
        place = metadata.location or self.table_location(identifier)
        return LoadedTable(
            tuple(identifier),
            "",
            replace(metadata, location=place),
            self._storage(place),
            dict(self.properties),
        )

    def create(
        self,
        identifier: Identifier,
        metadata: TableMetadata,
        *,
        updates: Sequence[Update] = (),
        requirements: Sequence[Requirement] = (),
    ) -> Outcome:
        database, name = self._names(identifier)
        if (stored := self._stored(identifier)) is not None:
            return Conflict(str(self._taken(identifier, stored)))
        create = self._create_pointer_of
        return create_pointed(
            self._staged(identifier, metadata),
            lambda t: create(database, name, t),
            lambda: self.load(identifier),
        )

    def _create_pointer_of(self, database: str, name: str, table: LoadedTable) -> bool:
        return self._pointers.create(
            new_table(table, database, name, self.settings), table.metadata_location
        )

    def swap(
        self,
        base: LoadedTable,
        metadata: TableMetadata,
        *,
        updates: Sequence[Update] = (),
        requirements: Sequence[Requirement] = (),
    ) -> Outcome:
        database, name = base.identifier

        def move(table: LoadedTable) -> bool:
            return self._pointers.move((database, name), table_change(base, table, self.settings))

        return swap_pointed(base, metadata, move, lambda: self.load(base.identifier))

    def swap_together(self, swaps: Sequence[Swap]) -> OutcomeTogether:
        raise Unsupported(
            f"Hive catalog {self.name!r} cannot commit to several tables at once: a Hive Metastore changes one table with each call.",
            hint="Use a catalog of type sql or rest, or one transaction for each table: t.transaction().",
        )

    def drop_table(self, identifier: Identifier, purge: bool = False) -> tuple[str, ...]:
        stored = self._iceberg(identifier)
        loaded = self.load(identifier) if purge else None
        if loaded is not None:
            check_gc(loaded.metadata, f"{self.name}.{full_name(identifier)}")
        try:
            self.client.ask(calls.DROP_TABLE, stored.dbName, stored.tableName, False)
        except MetastoreError as error:
            if error.kind == "NoSuchObjectException":
                raise self._no_table(identifier) from error
            raise
        return _purge(loaded) if loaded is not None else ()

    def rename_table(self, source: Identifier, target: Identifier) -> None:
        if not self.table_exists(source):
            raise self._no_table(source)
        database, name = self._names(target)
        if (stored := self._stored(target)) is not None:
            raise self._taken(target, stored)
        table = self.load(source)
        if not self._pointers.rename(
            (source[0], source[1]), (database, name), table_change(table, table, self.settings)
        ):
            message = f"Table {full_name(source)} changed while it was renamed."
            raise CommitFailedException(message, hint="Try again.", table=full_name(source))

    def register_table(
        self, identifier: Identifier, metadata_location: str, overwrite: bool = False
    ) -> LoadedTable:
        location = absolute(metadata_location)
        if not metadata_files.is_metadata_file(location):
            raise InvalidInput(
                f"{location} is no metadata file: its name ends in .metadata.json.", file=location
            )
        storage = self._storage(location)
        table = LoadedTable(
            tuple(identifier),
            location,
            metadata_files.read(storage, location),
            storage,
            dict(self.properties),
        )
        database, name = self._names(identifier)
        stored = self._stored(identifier)
        if stored is not None and overwrite and is_iceberg(stored):
            base = self._base_of(stored, table)
            if not self._pointers.move((database, name), table_change(base, table, self.settings)):
                message = f"Table {full_name(identifier)} changed while it was registered."
                raise CommitFailedException(message, hint="Try again.", table=full_name(identifier))
            return table
        if stored is not None or not self._create_pointer_of(database, name, table):
            stored = stored or self._stored(identifier)
            error = self._taken(identifier, stored)
            if stored is None or is_iceberg(stored):
                error.advise("overwrite=True replaces it.")
            raise error
        return table

    def _base_of(self, stored: HiveTable, table: LoadedTable) -> LoadedTable:
        """Return the table that another one replaces. Where its metadata file is missing or
        damaged, it stands for the pointer alone, and all of its parameters in the metastore stay.
        """
        try:
            return self.load(table.identifier)
        except (NoSuchFileError, CorruptData):
            return replace(table, metadata_location=(stored.parameters or {})[LOCATION])

    def list_tables(self, namespace: Identifier) -> Identifiers:
        """Return the Iceberg tables of a database; with the property list-all-tables (of Java's
        catalog) all its tables and views.
        """
        self._existing(check_namespace(namespace))
        names = sorted(self.client.ask(calls.GET_TABLE_NAMES, namespace[0]))
        if not self.settings.list_all:
            names = sorted(
                str(table.tableName)
                for table in self._objects(namespace[0], names)
                if is_iceberg(table)
            )
        return [(*namespace, name) for name in names]


def _purge(table: LoadedTable) -> tuple[str, ...]:
    return delete(table, *own_and_others(table))
