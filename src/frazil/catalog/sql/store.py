"""Keep the pointers and namespaces of a SQL catalog in its two tables, in a database that a
SQLAlchemy or JDBC URL names.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import unquote

from frazil.catalog.base import Identifier, LoadedTable, check_identifier, check_namespace
from frazil.catalog.names import full_name
from frazil.catalog.options import UNIQUE_LOCATION, value
from frazil.catalog.pointer import Noun, PointerCatalog, State, Stored, noun_of
from frazil.catalog.sql import options as o
from frazil.catalog.sql import statements
from frazil.catalog.sql.database import (
    Database,
    DuplicateKey,
    MissingTable,
    Row,
    SqliteDatabase,
    SqlStatement,
)
from frazil.catalog.sql.database_remote import RemoteDatabase
from frazil.catalog.sql.options import STRICT
from frazil.catalog.sql.statements import CREATE_TABLES, NAMESPACES, TABLES, UPGRADE_TO_V1
from frazil.errors import (
    CommitFailedException,
    FrazilError,
    InvalidInput,
    NamespaceNotEmptyError,
    StorageError,
    TableAlreadyExistsError,
    Unsupported,
)
from frazil.storage import absolute, redact_text, storage_for

_MAX_NAME, _MAX_LOCATION = 255, 1000


def sql_catalog(
    name: str,
    properties: Mapping[str, str],
    database: Database | None = None,
    kind: str = "sql",
    creation: Callable[[Callable[[], None]], None] | None = None,
) -> PointerCatalog:
    """Open a catalog in a SQL database. Properties: `uri` is the database (sqlite, postgresql,
    mysql, mariadb; JDBC URLs too), `warehouse` the directory of new tables; see docs/catalogs.md for
    the others. The first change creates the catalog's two tables; `creation`: calls what does, and
    makes the folder of a SQLite database before."""
    warehouse = absolute(properties["warehouse"]) if properties.get("warehouse") else None
    if warehouse is not None:  # a scheme without storage is an error now, not at the first table
        storage_for(warehouse, dict(properties))
    strict = value(properties, STRICT)
    unique_locations = value(properties, UNIQUE_LOCATION)
    database = database or open_database(name, properties, makes_folder=creation is not None)
    database, v1 = set_up(database, properties, creation)
    return PointerCatalog(
        kind,
        name,
        properties,
        SqlStore(name, database, v1),
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


_JDBC = re.compile(r"jdbc:(?P<kind>postgresql|mysql|mariadb):(?P<rest>//.*)")


def open_database(name: str, properties: Mapping[str, str], makes_folder: bool = False) -> Database:
    """Open the database that the property uri names. Raises InvalidInput for a URL that is missing
    or not a database's, NotInstalledError without a driver."""
    uri = properties.get("uri")
    if not uri:
        raise InvalidInput(
            f"Catalog {name!r} of type sql needs the property uri, as in sqlite:////data/catalog.db."
        )
    echo = value(properties, o.ECHO)
    if (path := sqlite_path(uri)) is not None:
        return SqliteDatabase(path, echo=echo, makes_folder=makes_folder)
    if jdbc := _JDBC.fullmatch(uri):
        uri = jdbc["kind"] + ":" + jdbc["rest"]
    if ":" not in uri or uri.startswith("jdbc:"):
        raise InvalidInput(
            f"The property uri of catalog {name!r} is no database URL: {redact_text(uri)}.",
            hint="Write it as sqlite:////data/catalog.db or postgresql://user:password@host/database.",
        )
    return RemoteDatabase(
        uri,
        user=value(properties, o.USER),
        password=value(properties, o.PASSWORD),
        pre_ping=value(properties, o.PRE_PING),
        echo=echo,
    )


def sqlite_path(uri: str) -> str | None:
    """Return the file of a SQLite URL (sqlite:///relative, sqlite:////absolute, jdbc:sqlite:path)
    or ":memory:"; None for other URLs.
    """
    if uri.startswith("jdbc:sqlite:"):
        path = uri[len("jdbc:sqlite:") :].removeprefix("file:")
    elif match := re.match(r"sqlite(\+pysqlite)?:(//)?", uri):
        path = uri[match.end() :]
        if match[2]:
            if path and not path.startswith("/"):
                text = f"The property uri names a host for SQLite: {redact_text(uri)}."
                raise InvalidInput(text, hint="Use sqlite:////absolute or sqlite:///relative.")
            path = path[1:]
        path = unquote(path)
    else:
        return None
    if path in ("", ":memory:"):
        return ":memory:"
    if "?" in path:
        raise Unsupported(
            f"Options in the property uri are not served for SQLite: {path.partition('?')[2]}.",
            hint="Leave them out.",
        )
    return path


def set_up(
    database: Database,
    properties: Mapping[str, str],
    creation: Callable[[Callable[[], None]], None] | None = None,
) -> tuple[Database, bool]:
    """Return the database, which creates the catalog's two tables with the first change if they are
    missing and the property init_catalog_tables is true (default), and whether they have the layout
    V1.

    Tables of the layout V0 stay as they are, unless schema_version=v1 (Java:
    jdbc.schema-version=V1) asks to upgrade them.
    """
    version, may_create = value(properties, o.SCHEMA_VERSION), value(properties, o.MAY_CREATE)
    try:
        v1 = "iceberg_type" in database.columns(TABLES)
        database.columns(NAMESPACES)
    except MissingTable:
        if not may_create:
            raise InvalidInput(
                "The database has no catalog tables, and init_catalog_tables=false forbids creating them.",
                hint="Check the property uri.",
            ) from None
        return _MadeByWriting(database, creation or (lambda create: create())), True
    if version == "v1" and not v1:
        database.execute_ddl([UPGRADE_TO_V1])
        v1 = True
    return database, v1


class _MadeByWriting:
    """Create the tables of a database with its first change. Until then it has no rows, and reading
    it leaves nothing behind.
    """

    def __init__(self, database: Database, creation: Callable[[Callable[[], None]], None]):
        self._database, self._creation = database, creation
        self.table_options = database.table_options
        self.columns, self.execute_ddl = database.columns, database.execute_ddl
        self.close = database.close

    def query(self, statement: str, parameters: Mapping[str, Any]) -> list[Row]:
        try:
            return self._database.query(statement, parameters)
        except MissingTable:
            return []

    def execute(self, steps: Sequence[SqlStatement], *, all_or_none: bool = False) -> list[int]:
        try:
            return self._database.execute(steps, all_or_none=all_or_none)
        except MissingTable:
            self._creation(lambda: _create(self._database))
            return self._database.execute(steps, all_or_none=all_or_none)


def _create(database: Database) -> None:
    """Create the catalog's tables. Several processes may do so at once; the later ones find them
    existing.
    """
    problem: FrazilError | None = None
    for _ in range(5):
        try:
            database.execute_ddl(
                [statement + database.table_options for statement in CREATE_TABLES]
            )
            return
        except (DuplicateKey, StorageError) as error:
            problem = error
            try:
                database.columns(TABLES), database.columns(NAMESPACES)
                return
            except MissingTable:
                continue
    raise problem or StorageError("The catalog's tables could not be created.")


_MARK, _SHOWN, _TRIES = "exists", 5, 10


def joined(namespace: Identifier) -> str:
    """Return a namespace as the database stores it: its levels joined by dots. Raises InvalidInput
    for a level that has a dot.
    """
    for level in check_namespace(namespace):
        if "." in level:
            raise InvalidInput(f"A namespace of a SQL catalog cannot hold a dot: {level!r}.")
    if len(text := ".".join(namespace)) > 255:
        raise InvalidInput(f"A namespace has at most 255 characters, not {len(text)}.")
    return text


class SqlNamespaces:
    """Store namespaces in the rows of iceberg_namespace_properties."""

    def __init__(self, catalog: str, database: Database):
        self.catalog, self.database = catalog, database

    def _values(self, namespace: Identifier) -> dict[str, str]:
        return {"catalog": self.catalog, "namespace": joined(namespace)}

    def _all(self) -> set[Identifier]:
        """Return all namespaces, including their parents."""
        rows = self.database.query(statements.ALL_NAMESPACES, {"catalog": self.catalog})
        namespaces = [tuple(str(r[0]).split(".")) for r in rows if r[0]]
        return {
            namespace[:depth] for namespace in namespaces for depth in range(1, len(namespace) + 1)
        }

    def get(self, namespace: Identifier) -> dict[str, str] | None:
        if any("." in level for level in namespace):
            return None
        values = self._values(namespace)
        rows = self.database.query(statements.PROPERTIES, values)
        stored = {str(key): str(value) for n, key, value in rows if n == values["namespace"]}
        if not stored and namespace not in self._all():
            return None
        stored.pop(_MARK, None)
        return stored

    def create(self, namespace: Identifier, properties: Mapping[str, str]) -> bool:
        values = self._values(namespace)
        steps = [_adding(values, k, v) for k, v in ({_MARK: "true"} | dict(properties)).items()]
        if self.get(namespace) is not None:
            return False
        try:
            self.database.execute(steps)
        except DuplicateKey:
            return False
        return True

    def change(
        self, namespace: Identifier, removals: set[str], updates: Mapping[str, str]
    ) -> dict[str, str] | None:
        # The mark is set with every change: PyIceberg gives none to a namespace with properties,
        # which would go with the last of them.
        values, added = self._values(namespace), {**updates, _MARK: "true"}
        steps: list[SqlStatement] = [
            (statements.DROP_PROPERTY, values | {"key": key})
            for key in sorted(removals | set(added))
        ]
        steps += [_adding(values, key, value) for key, value in added.items()]
        for _ in range(_TRIES):
            if (before := self.get(namespace)) is None:
                return None
            try:
                self.database.execute(steps)
                return before
            except DuplicateKey:  # another process has set the same key in the meantime
                continue
        name = full_name(namespace)
        raise CommitFailedException(
            f"Properties of namespace {name} kept changing.", namespace=name
        )

    def drop(self, namespace: Identifier) -> bool:
        if self.get(namespace) is None:
            return False
        values, name = self._values(namespace), full_name(namespace)
        inside = self.database.query(statements.ANY_IN_NAMESPACE, values)
        children = [*self.list(namespace)]
        if inside or children:
            contents = f"it holds {len(inside)} tables or views and {len(children)} namespaces"
            raise NamespaceNotEmptyError(
                f"Namespace {name} is not empty: {contents}.", namespace=name
            )
        self.database.execute([(statements.DROP_NAMESPACE, values)])
        return True

    def list(self, parent: Identifier) -> Iterable[Identifier]:
        depth = len(parent)
        return (n for n in self._all() if len(n) == depth + 1 and n[:depth] == parent)

    def hint(self, namespace: Identifier) -> str | None:
        """Return a hint if the database holds nothing under this catalog's name but holds other
        catalogs, whose tables it does not show.
        """
        with contextlib.suppress(FrazilError):
            names = sorted({str(r[0]) for r in self.database.query(statements.CATALOGS, {})})
            if names and self.catalog not in names:
                shown = ", ".join(map(repr, names[:_SHOWN])) + (
                    ", …" if len(names) > _SHOWN else ""
                )
                return f"The database holds no catalog named {self.catalog!r}, but {shown}: load the catalog under that name."
        return None


def _adding(values: Mapping[str, str], key: str, value: str) -> SqlStatement:
    if not key or len(key) > 255:
        raise InvalidInput(f"The key of a namespace property has 1 to 255 characters: {key!r}.")
    if len(value) > 1000:
        raise InvalidInput(
            f"The value of namespace property {key!r} has more than 1000 characters."
        )
    return statements.ADD_PROPERTY, {**values, "key": key, "value": value}
