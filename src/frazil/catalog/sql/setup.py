"""Open the database of a SQL catalog, given by a SQLAlchemy or JDBC URL, and create the catalog's
tables in it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import unquote

from frazil.catalog.options import value
from frazil.catalog.sql import options as o
from frazil.catalog.sql.database import Database, DuplicateKey, MissingTable, SqliteDatabase
from frazil.catalog.sql.database_remote import RemoteDatabase
from frazil.catalog.sql.statements import CREATE_TABLES, NAMESPACES, TABLES, UPGRADE_TO_V1
from frazil.errors import FrazilError, InvalidInput, StorageError, Unsupported
from frazil.storage import redact_text

_JDBC = re.compile(r"jdbc:(?P<kind>postgresql|mysql|mariadb):(?P<rest>//.*)")


def open_database(name: str, properties: Mapping[str, str]) -> Database:
    """Open the database that the property uri names. Raises InvalidInput for a URL that is missing
    or not a database's, NotInstalledError without a driver."""
    uri = properties.get("uri")
    if not uri:
        raise InvalidInput(
            f"Catalog {name!r} of type sql needs the property uri, as in sqlite:////data/catalog.db."
        )
    echo = value(properties, o.ECHO)
    if (path := sqlite_path(uri)) is not None:
        return SqliteDatabase(path, echo=echo)
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


def set_up(database: Database, properties: Mapping[str, str]) -> bool:
    """Create the catalog's two tables if they are missing and the property init_catalog_tables is
    true (default). Returns whether they have the layout V1.

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
        _create(database)
        v1 = "iceberg_type" in database.columns(TABLES)
    if version == "v1" and not v1:
        database.execute_ddl([UPGRADE_TO_V1])
        v1 = True
    return v1


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
