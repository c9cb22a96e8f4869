"""Keep a catalog in a SQL database, with one row per table and view, in the layout of Java's JDBC
catalog and PyIceberg's SQL catalog.

The compare-and-swap is one UPDATE with the old metadata location in its condition; the commit
succeeds if it changes one row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from frazil.catalog.base import Identifier, LoadedTable, check_identifier
from frazil.catalog.options import UNIQUE_LOCATION, value
from frazil.catalog.pointer import Noun, PointerCatalog, State, Stored, noun_of
from frazil.catalog.sql import statements
from frazil.catalog.sql.database import Database, DuplicateKey
from frazil.catalog.sql.namespaces import SqlNamespaces, joined
from frazil.catalog.sql.options import STRICT
from frazil.catalog.sql.setup import open_database, set_up
from frazil.errors import InvalidInput, TableAlreadyExistsError, Unsupported
from frazil.storage import absolute, storage_for

_MAX_NAME, _MAX_LOCATION = 255, 1000


def sql_catalog(
    name: str,
    properties: Mapping[str, str],
    database: Database | None = None,
    kind: str = "sql",
) -> PointerCatalog:
    """Open a catalog in a SQL database. Properties: `uri` is the database (sqlite, postgresql,
    mysql, mariadb; JDBC URLs too), `warehouse` the directory of new tables; see docs/options.md for
    the others."""
    warehouse = absolute(properties["warehouse"]) if properties.get("warehouse") else None
    if warehouse is not None:  # a scheme without storage is an error now, not at the first table
        storage_for(warehouse, dict(properties))
    strict = value(properties, STRICT)
    unique_locations = value(properties, UNIQUE_LOCATION)
    database = database or open_database(name, properties)
    return PointerCatalog(
        kind,
        name,
        properties,
        SqlStore(name, database, set_up(database, properties)),
        SqlNamespaces(name, database),
        warehouse=warehouse,
        unique_locations=unique_locations,
        strict=strict,
    )


class SqlStore:
    """Store pointers in the rows of iceberg_tables. `v1`: the table has the layout V1; V0 keeps no
    views.
    """

    def __init__(self, catalog: str, database: Database, v1: bool):
        self.catalog, self.database, self._v1 = catalog, database, v1

    def row(self, identifier: Identifier) -> dict[str, str]:
        """Return the key of a row. Raises InvalidInput for a name that the database cannot hold."""
        *namespace, name = check_identifier(identifier)
        if len(name) > _MAX_NAME:
            raise InvalidInput(f"A table name has at most {_MAX_NAME} characters, not {len(name)}.")
        return {"catalog": self.catalog, "namespace": joined(tuple(namespace)), "name": name}

    def get(self, identifier: Identifier) -> Stored | None:
        if any("." in level for level in identifier[:-1]):
            return None  # no namespace of a SQL catalog has a dot in its name
        row, stored = self.row(identifier), None
        for location, namespace, name, kind in self.database.query(statements.get(self._v1), row):
            # MySQL may compare texts without regard to case: then the name is taken by another
            if (namespace, name) == (row["namespace"], row["name"]) and location:
                return Stored("view" if kind == "VIEW" else "table", str(location))
            stored = Stored(None)
        return stored

    def insert(self, new: State) -> bool:
        values = self.row(new.identifier) | {"new": new.metadata_location}
        try:
            return self._changes(statements.insert(noun_of(new), self._v1), values)
        except DuplicateKey:
            return False

    def move(self, new: State, old: str, base: Callable[[], State]) -> bool:
        return self._changes(statements.swap(noun_of(new), self._v1), self._moved(new, old))

    def move_together(self, moves: Sequence[tuple[LoadedTable, str]]) -> bool:
        # Rows are locked in the order of names, so that two commits to the same tables do not
        # deadlock.
        ordered = sorted(moves, key=lambda move: move[0].identifier)
        statement = statements.swap("table", self._v1)
        steps = [(statement, self._moved(new, old)) for new, old in ordered]
        return not steps or 0 not in self.database.execute(steps, all_or_none=True)

    def delete(self, noun: Noun, identifier: Identifier, old: str | None) -> bool:
        row = self.row(identifier)
        if old is None:
            return self._changes(statements.drop(noun, self._v1), row)
        return self._changes(statements.drop_at(noun, self._v1), row | {"old": old})

    def rename(
        self, noun: Noun, source: Identifier, target: Identifier, state: Callable[[], State]
    ) -> bool:
        to = self.row(target)
        values = self.row(source) | {"to_namespace": to["namespace"], "to_name": to["name"]}
        try:
            return self._changes(statements.rename(noun, self._v1), values)
        except DuplicateKey as error:
            raise TableAlreadyExistsError(error.message) from error

    def list(self, noun: Noun, namespace: Identifier) -> Iterable[str]:
        if noun == "view" and not self._v1:
            return []
        values = {"catalog": self.catalog, "namespace": joined(namespace)}
        rows = self.database.query(statements.names(noun, self._v1), values)
        return [str(name) for stored, name in rows if stored == values["namespace"]]

    def check(self, noun: Noun, identifier: Identifier, location: str) -> None:
        self.row(identifier)
        if len(location) > _MAX_LOCATION:
            raise InvalidInput(
                f"A SQL catalog holds metadata locations of at most {_MAX_LOCATION} characters; this one has {len(location)}."
            )
        if noun == "view" and not self._v1:
            raise Unsupported(
                f"The database of catalog {self.catalog!r} has the layout V0, which keeps no views.",
                hint="The property schema_version=v1 upgrades it; Java and PyIceberg read V1, too.",
            )

    def close(self) -> None:
        self.database.close()

    def _moved(self, new: State, old: str) -> dict[str, str]:
        return self.row(new.identifier) | {"new": new.metadata_location, "old": old}

    def _changes(self, statement: str, values: Mapping[str, Any]) -> bool:
        """Run a statement, and tell whether it has changed a row."""
        return self.database.execute([(statement, values)])[0] == 1
