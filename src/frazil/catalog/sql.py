"""The SQL catalog: a row per table in a database, shared with Java's JDBC catalog and PyIceberg's SQL catalog.

The compare-and-swap is one UPDATE that names the old metadata location; one row touched means won.
"""

from __future__ import annotations

import contextlib
import difflib
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace

from frazil.catalog import metadata_files, purge, sql_statements
from frazil.catalog.base import (
    Conflict,
    Identifier,
    Identifiers,
    LoadedTable,
    Outcome,
    check_identifier,
    check_namespace,
    flag,
    shown,
)
from frazil.catalog.database import Contended, Database, DuplicateKey
from frazil.catalog.names import full_name
from frazil.catalog.pointer import create_pointed, load_pointed, swap_pointed
from frazil.catalog.sql_namespaces import SqlNamespaces
from frazil.catalog.sql_setup import open_database, set_up
from frazil.errors import (
    FrazilError,
    InvalidInput,
    NoSuchNamespaceError,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from frazil.spec.metadata import TableMetadata
from frazil.spec.updates import Requirement, Update
from frazil.storage import Storage, absolute, storage_for
from frazil.storage.locations import join

_MAX_LOCATION = 1000


class SqlCatalog(SqlNamespaces):
    """`uri` is the database (sqlite, postgresql, mysql, mariadb; JDBC URLs too), `warehouse` the place of new tables."""

    writes_metadata_files = True

    def __init__(self, name: str, properties: Mapping[str, str], database: Database | None = None):
        self.name, self.properties = name, dict(properties)
        self.warehouse = absolute(self.properties["warehouse"]) if self.properties.get("warehouse") else None
        if self.warehouse is not None:
            storage_for(self.warehouse, self.properties)  # a scheme that has no storage is told now, not at the first table
        self._strict = flag(self.properties, "jdbc.strict-mode", default=True)
        self._unique_locations = flag(self.properties, "unique-table-location", default=False)
        self.database: Database = database or open_database(name, self.properties)
        self._v1 = set_up(self.database, self.properties)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({shown(self.name, self.properties)})"

    def close(self) -> None:
        self.database.close()

    def _row(self, identifier: Identifier) -> dict[str, str]:
        *namespace, name = check_identifier(identifier)
        if len(name) > 255:
            raise InvalidInput(f"A table name has at most 255 characters, not {len(name)}.")
        return {"catalog": self.name, "namespace": self._joined(tuple(namespace)), "name": name}

    def _pointer(self, identifier: Identifier) -> str | None:
        """The metadata location of a table, None when there is none (or a view)."""
        if any("." in level for level in check_identifier(identifier)[:-1]):
            return None  # no namespace holds a dot: it is a table whose name does, and what follows that name
        row = self._row(identifier)
        for location, namespace, name, kind in self.database.query(sql_statements.get(self._v1), row):
            # MySQL compares without regard to case
            if (namespace, name) == (row["namespace"], row["name"]) and kind in (None, "TABLE") and location:
                return str(location)
        return None

    def _no_table(self, identifier: Identifier) -> NoSuchTableError:
        name = f"{self.name}.{full_name(identifier)}"
        return NoSuchTableError(f"Table does not exist: {name}.", hint=self._elsewhere() or self._near(identifier), table=name)

    def _near(self, identifier: Identifier) -> str | None:
        """What there is instead of a table that is missing."""
        *namespace, name = identifier
        with contextlib.suppress(FrazilError):
            if not self.namespace_exists(tuple(namespace)):
                return f"Nor is there a namespace {full_name(namespace)}; list_namespaces() shows those that are."
            names = [t[-1] for t in self.list_tables(tuple(namespace))]
            if near := difflib.get_close_matches(name, names, 1):
                return f"Did you mean {near[0]!r}?"
            return f"list_tables({full_name(namespace)!r}) shows those that do."
        return None

    def _storage(self, location: str) -> Storage:
        return storage_for(location, self.properties)

    # --- tables

    def table_location(self, identifier: Identifier) -> str:
        """`location` of the namespace, else `<warehouse>/<namespace>`, and the table's name; made unique (Java's property
        unique-table-location) when asked for, or when another table's files are there: a renamed one keeps its place."""
        *namespace, name = check_identifier(identifier)
        above = self._stored_properties(tuple(namespace)).get("location")
        if above is None:
            if self.warehouse is None:
                raise InvalidInput(
                    f"Catalog {self.name!r} has no property warehouse, so a new table needs a location.", hint="Set one of them."
                )
            above = join(self.warehouse, *namespace)
        place = join(absolute(above), name)
        if self._unique_locations or self._storage(place).is_directory(join(place, "metadata")):
            place += f"-{uuid.uuid4().hex}"
        return place

    def load(self, identifier: Identifier) -> LoadedTable:
        found = load_pointed(lambda: self._pointer(identifier), self._storage, full_name(identifier))
        if found is None:
            raise self._no_table(identifier)
        location, metadata, storage = found
        return LoadedTable(tuple(identifier), location, metadata, storage, dict(self.properties))

    def table_exists(self, identifier: Identifier) -> bool:
        return self._pointer(identifier) is not None

    def stage_create(self, identifier: Identifier, metadata: TableMetadata) -> LoadedTable:
        self._check_namespace_of(identifier)
        if self._is_taken(identifier):
            name = f"{self.name}.{full_name(identifier)}"
            raise TableAlreadyExistsError(f"Table or view already exists: {name}.", table=name)
        return self._staged(identifier, metadata)

    def create(
        self, identifier: Identifier, metadata: TableMetadata, *, updates: Sequence[Update] = (), requirements: Sequence[Requirement] = ()
    ) -> Outcome:
        row = self._row(identifier)
        self._check_namespace_of(identifier)
        if self._is_taken(identifier):
            return Conflict(f"Table or view exists: {full_name(identifier)}")

        def insert(table: LoadedTable) -> bool:
            try:
                return self.database.execute([(sql_statements.insert(self._v1), row | {"new": table.metadata_location})])[0] == 1
            except DuplicateKey:
                return False

        return create_pointed(self._staged(identifier, metadata), insert, lambda: self.load(identifier), _check_length)

    def swap(
        self, base: LoadedTable, metadata: TableMetadata, *, updates: Sequence[Update] = (), requirements: Sequence[Requirement] = ()
    ) -> Outcome:
        row = self._row(base.identifier)

        def update(table: LoadedTable) -> bool:
            values = row | {"new": table.metadata_location, "old": base.metadata_location}
            return self.database.execute([(sql_statements.swap(self._v1), values)])[0] == 1

        return swap_pointed(base, metadata, update, lambda: self.load(base.identifier), _check_length)

    def _staged(self, identifier: Identifier, metadata: TableMetadata) -> LoadedTable:
        place = metadata.location or self.table_location(identifier)
        return LoadedTable(tuple(identifier), "", replace(metadata, location=place), self._storage(place), dict(self.properties))

    def _is_taken(self, identifier: Identifier) -> bool:
        """Whether a row of that name is there; that of a view counts as well."""
        return bool(self.database.query(sql_statements.get(self._v1), self._row(identifier)))

    def _check_namespace_of(self, identifier: Identifier) -> None:
        """Raises NoSuchNamespaceError where namespaces must be made first (jdbc.strict-mode, true)."""
        namespace = check_identifier(identifier)[:-1]
        if self._strict and not self.namespace_exists(namespace):
            hint = self._elsewhere() or "Make it with create_namespace first."
            raise NoSuchNamespaceError(f"Namespace does not exist: {full_name(namespace)}.", hint=hint, namespace=full_name(namespace))

    def drop_table(self, identifier: Identifier, purge: bool = False) -> tuple[str, ...]:
        if self._pointer(identifier) is None:
            raise self._no_table(identifier)
        loaded = self.load(identifier) if purge else None
        if self.database.execute([(sql_statements.drop(self._v1), self._row(identifier))])[0] == 0:
            raise self._no_table(identifier)
        return _purge(loaded) if loaded is not None else ()

    def rename_table(self, source: Identifier, target: Identifier) -> None:
        to = self._row(target)
        if not self.table_exists(source):
            raise self._no_table(source)
        if not self.namespace_exists(tuple(target[:-1])):
            raise NoSuchNamespaceError(f"Namespace does not exist: {full_name(target[:-1])}.", namespace=full_name(target[:-1]))
        values = self._row(source) | {"to_namespace": to["namespace"], "to_name": to["name"]}
        try:
            moved = self.database.execute([(sql_statements.rename(self._v1), values)])[0]
        except DuplicateKey as error:
            raise TableAlreadyExistsError(f"Table already exists: {self.name}.{full_name(target)}.", table=full_name(target)) from error
        if moved == 0:
            raise self._no_table(source)

    def register_table(self, identifier: Identifier, metadata_location: str, overwrite: bool = False) -> LoadedTable:
        location = absolute(metadata_location)
        if not metadata_files.is_metadata_file(location):
            raise InvalidInput(f"{location} is no metadata file: its name ends in .metadata.json.", file=location)
        storage, row = self._storage(location), self._row(identifier)
        metadata = metadata_files.read(storage, location)
        self._check_namespace_of(identifier)
        old = self._pointer(identifier)
        try:
            if old is not None and overwrite:
                if self.database.execute([(sql_statements.swap(self._v1), row | {"new": location, "old": old})])[0] == 0:
                    raise Contended(f"Table {full_name(identifier)} changed while it was registered.")
            else:
                self.database.execute([(sql_statements.insert(self._v1), row | {"new": location})])
        except DuplicateKey as error:
            name = f"{self.name}.{full_name(identifier)}"
            raise TableAlreadyExistsError(f"Table already exists: {name}.", hint="overwrite=True replaces it.", table=name) from error
        return LoadedTable(tuple(identifier), location, metadata, storage, dict(self.properties))

    def list_tables(self, namespace: Identifier) -> Identifiers:
        self._check_exists(check_namespace(namespace))
        joined = self._joined(namespace)
        found = self.database.query(sql_statements.names(self._v1), {"catalog": self.name, "namespace": joined})
        return sorted((*namespace, str(name)) for there, name in found if there == joined)


def _check_length(location: str) -> None:
    if len(location) > _MAX_LOCATION:
        raise InvalidInput(
            f"A SQL catalog holds metadata locations of at most {_MAX_LOCATION} characters; this one has {len(location)}."
        )


def _purge(table: LoadedTable) -> tuple[str, ...]:
    return purge.delete(table, *purge.own_and_others(table))
