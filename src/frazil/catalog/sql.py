"""Keep a catalog in a SQL database, with one row per table, in the layout of Java's JDBC catalog
and PyIceberg's SQL catalog.

The compare-and-swap is one UPDATE with the old metadata location in its condition; the commit
succeeds if it changes one row.
"""

from __future__ import annotations

import contextlib
import difflib
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from frazil.catalog import metadata_files, purge, sql_statements
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
    flag,
    shown,
)
from frazil.catalog.database import Contended, Database, DuplicateKey
from frazil.catalog.names import full_name
from frazil.catalog.pointer import create_pointed, load_pointed, swap_pointed, swap_pointed_together
from frazil.catalog.reporting import Reporting
from frazil.catalog.sql_setup import open_database, set_up
from frazil.catalog.sql_views import SqlViews, check_length
from frazil.errors import (
    CommitFailedException,
    FrazilError,
    InvalidInput,
    NoSuchNamespaceError,
    NoSuchTableError,
    TableAlreadyExistsError,
)
from frazil.spec.above import from_above
from frazil.spec.metadata import TableMetadata
from frazil.spec.updates import Requirement, Update
from frazil.storage import Storage, absolute, storage_for
from frazil.storage.locations import join

_TRIES = 10


class SqlBackend(SqlViews):
    """Keep tables in a SQL database. Properties: `uri` is the database (sqlite, postgresql, mysql,
    mariadb; JDBC URLs too), `warehouse` the directory of new tables; see docs/options.md for the
    others."""

    writes_metadata_files = True

    def __init__(self, name: str, properties: Mapping[str, str], database: Database | None = None):
        self.name, self.properties = name, dict(properties)
        self.warehouse = (
            absolute(self.properties["warehouse"]) if self.properties.get("warehouse") else None
        )
        if self.warehouse is not None:
            storage_for(
                self.warehouse, self.properties
            )  # a scheme without storage is an error now, not at the first table
        self._strict = flag(self.properties, "jdbc.strict-mode", default=True)
        self._unique_locations = flag(self.properties, "unique-table-location", default=False)
        self.database: Database = database or open_database(name, self.properties)
        self._v1 = set_up(self.database, self.properties)
        self.reporting = Reporting(name, self.properties)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({shown(self.name, self.properties)})"

    def close(self) -> None:
        self.reporting.close()
        self.database.close()

    def _row(self, identifier: Identifier) -> dict[str, str]:
        *namespace, name = check_identifier(identifier)
        if len(name) > 255:
            raise InvalidInput(f"A table name has at most 255 characters, not {len(name)}.")
        return {"catalog": self.name, "namespace": self._joined(tuple(namespace)), "name": name}

    def _pointer(self, identifier: Identifier) -> str | None:
        """Return the metadata location of a table; None: there is none, or it is a view."""
        kind, location = self._kind(identifier)
        return location if kind == "TABLE" else None

    def _no_table(self, identifier: Identifier) -> NoSuchTableError:
        name = f"{self.name}.{full_name(identifier)}"
        if self.view_exists(identifier):
            return NoSuchTableError(
                f"{name} is a view, not a table.",
                hint=f"load_view({full_name(identifier)!r}) loads it.",
                table=name,
            )
        return NoSuchTableError(
            f"Table does not exist: {name}.",
            hint=self._elsewhere() or self._near(identifier),
            table=name,
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

    # --- tables

    def table_location(self, identifier: Identifier) -> str:
        """Choose the location of a new table: its name below the namespace's property `location`,
        else below `<warehouse>/<namespace>`.

        A suffix makes it unique if the property unique-table-location (of Java's catalogs) is true,
        or if the directory holds the files of another table already: a table keeps its files where
        they are when it is renamed.
        """
        *namespace, name = check_identifier(identifier)
        parent = self._stored_properties(tuple(namespace)).get("location")
        if parent is None:
            if self.warehouse is None:
                raise InvalidInput(
                    f"Catalog {self.name!r} has no property warehouse, so a new table needs a location.",
                    hint="Set one of them.",
                )
            parent = join(self.warehouse, *namespace)
        place = join(absolute(parent), name)
        if self._unique_locations or self._storage(place).is_directory(join(place, "metadata")):
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
        self._check_namespace_of(identifier)
        if self._is_taken(identifier):
            name = f"{self.name}.{full_name(identifier)}"
            raise TableAlreadyExistsError(f"Table or view already exists: {name}.", table=name)
        return self._staged(identifier, metadata)

    def create(
        self,
        identifier: Identifier,
        metadata: TableMetadata,
        *,
        updates: Sequence[Update] = (),
        requirements: Sequence[Requirement] = (),
    ) -> Outcome:
        row = self._row(identifier)
        self._check_namespace_of(identifier)
        if self._is_taken(identifier):
            return Conflict(f"Table or view exists: {full_name(identifier)}")

        def insert(table: LoadedTable) -> bool:
            try:
                return (
                    self.database.execute(
                        [(sql_statements.insert(self._v1), row | {"new": table.metadata_location})]
                    )[0]
                    == 1
                )
            except DuplicateKey:
                return False

        return create_pointed(
            self._staged(identifier, metadata), insert, lambda: self.load(identifier), check_length
        )

    def swap(
        self,
        base: LoadedTable,
        metadata: TableMetadata,
        *,
        updates: Sequence[Update] = (),
        requirements: Sequence[Requirement] = (),
    ) -> Outcome:
        row = self._row(base.identifier)

        def update(table: LoadedTable) -> bool:
            values = row | {"new": table.metadata_location, "old": base.metadata_location}
            return self.database.execute([(sql_statements.swap(self._v1), values)])[0] == 1

        return swap_pointed(
            base, metadata, update, lambda: self.load(base.identifier), check_length
        )

    def swap_together(self, swaps: Sequence[Swap]) -> OutcomeTogether:
        old = {swap.base.identifier: swap.base.metadata_location for swap in swaps}

        def update(tables: Sequence[LoadedTable]) -> bool:
            statement = sql_statements.swap(self._v1)
            # Rows are locked in the order of names, so that two commits to the same tables do not
            # deadlock.
            rows = sorted(tables, key=lambda table: table.identifier)
            values = [
                self._row(t.identifier) | {"new": t.metadata_location, "old": old[t.identifier]}
                for t in rows
            ]
            return 0 not in self.database.execute(
                [(statement, row) for row in values], all_or_none=True
            )

        return swap_pointed_together(swaps, update, self.load, check_length) if swaps else ()

    def _staged(self, identifier: Identifier, metadata: TableMetadata) -> LoadedTable:
        place = metadata.location or self.table_location(identifier)
        return LoadedTable(
            tuple(identifier),
            "",
            replace(metadata, location=place),
            self._storage(place),
            dict(self.properties),
        )

    def _is_taken(self, identifier: Identifier) -> bool:
        """Tell whether a table or view of that name exists."""
        return bool(self.database.query(sql_statements.get(self._v1), self._row(identifier)))

    def _check_namespace_of(self, identifier: Identifier) -> None:
        """Raise NoSuchNamespaceError if the namespace does not exist and must be created first
        (jdbc.strict-mode, default true).
        """
        namespace = check_identifier(identifier)[:-1]
        if self._strict and not self.namespace_exists(namespace):
            hint = self._elsewhere() or "Create it with create_namespace first."
            raise NoSuchNamespaceError(
                f"Namespace does not exist: {full_name(namespace)}.",
                hint=hint,
                namespace=full_name(namespace),
            )

    def drop_table(self, identifier: Identifier, purge: bool = False) -> tuple[str, ...]:
        if self._pointer(identifier) is None:
            raise self._no_table(identifier)
        if purge:
            return _purge(self._dropped(identifier))
        if self.database.execute([(sql_statements.drop(self._v1), self._row(identifier))])[0] == 0:
            raise self._no_table(identifier)
        return ()

    def _dropped(self, identifier: Identifier) -> LoadedTable:
        """Remove the row of a table and return the table as it was last. Others may commit
        meanwhile, or create another table of that name, whose files must not be lost: only the
        state that was loaded is dropped. Raises CommitFailedException."""
        row = self._row(identifier)
        for _ in range(_TRIES):
            table = self.load(identifier)
            purge.check_gc(table.metadata, f"{self.name}.{full_name(identifier)}")
            if (
                self.database.execute(
                    [(sql_statements.drop_at(self._v1), row | {"old": table.metadata_location})]
                )[0]
                == 1
            ):
                return table
        text = f"Table {full_name(identifier)} changed {_TRIES} times while it was dropped."
        raise CommitFailedException(
            text, hint="Others commit to it; try again.", table=full_name(identifier)
        )

    def rename_table(self, source: Identifier, target: Identifier) -> None:
        to = self._row(target)
        if not self.table_exists(source):
            raise self._no_table(source)
        if not self.namespace_exists(tuple(target[:-1])):
            raise NoSuchNamespaceError(
                f"Namespace does not exist: {full_name(target[:-1])}.",
                namespace=full_name(target[:-1]),
            )
        values = self._row(source) | {"to_namespace": to["namespace"], "to_name": to["name"]}
        try:
            moved = self.database.execute([(sql_statements.rename(self._v1), values)])[0]
        except DuplicateKey as error:
            text = f"Table or view already exists: {self.name}.{full_name(target)}."
            raise TableAlreadyExistsError(text, table=full_name(target)) from error
        if moved == 0:
            raise self._no_table(source)

    def register_table(
        self, identifier: Identifier, metadata_location: str, overwrite: bool = False
    ) -> LoadedTable:
        location = absolute(metadata_location)
        if not metadata_files.is_metadata_file(location):
            raise InvalidInput(
                f"{location} is no metadata file: its name ends in .metadata.json.", file=location
            )
        check_length(location)
        storage, row = self._storage(location), self._row(identifier)
        metadata = metadata_files.read(storage, location)
        self._check_namespace_of(identifier)
        old = self._pointer(identifier)
        try:
            if old is not None and overwrite:
                if (
                    self.database.execute(
                        [(sql_statements.swap(self._v1), row | {"new": location, "old": old})]
                    )[0]
                    == 0
                ):
                    raise Contended(
                        f"Table {full_name(identifier)} changed while it was registered."
                    )
            else:
                self.database.execute([(sql_statements.insert(self._v1), row | {"new": location})])
        except DuplicateKey as error:
            name = f"{self.name}.{full_name(identifier)}"
            if self.view_exists(identifier):
                raise TableAlreadyExistsError(
                    f"A view has that name: {name}.", hint="drop_view drops it.", table=name
                ) from error
            raise TableAlreadyExistsError(
                f"Table already exists: {name}.", hint="overwrite=True replaces it.", table=name
            ) from error
        return LoadedTable(tuple(identifier), location, metadata, storage, dict(self.properties))

    def list_tables(self, namespace: Identifier) -> Identifiers:
        self._check_exists(check_namespace(namespace))
        joined = self._joined(namespace)
        rows = self.database.query(
            sql_statements.names(self._v1), {"catalog": self.name, "namespace": joined}
        )
        return sorted((*namespace, str(name)) for stored, name in rows if stored == joined)


def _purge(table: LoadedTable) -> tuple[str, ...]:
    return purge.delete(table, *purge.own_and_others(table))


def __getattr__(name: str) -> Any:
    if name == "SqlCatalog":
        return from_above("table.catalog_classes", name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
