"""Serve catalogs in a SQL database, as Java's JDBC catalog and PyIceberg's SQL catalog lay them out:
SQLite, PostgreSQL, MySQL and MariaDB.

Start at `sql_catalog` in `store`, whose rows point to metadata files; `namespaces` keeps the
namespaces, `statements` the SQL, `setup` opens the `database` and creates its tables.
"""

from typing import Any

from frazil.catalog.sql.database import SqliteDatabase
from frazil.catalog.sql.store import sql_catalog
from frazil.spec.above import from_above

__all__ = ["SqliteDatabase", "sql_catalog"]


def __getattr__(name: str) -> Any:
    if name == "SqlCatalog":
        return from_above("table.catalog_classes", name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
