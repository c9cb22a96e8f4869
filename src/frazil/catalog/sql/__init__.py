"""Serve catalogs in a SQL database, as Java's JDBC catalog and PyIceberg's SQL catalog lay them
out: SQLite, PostgreSQL, MySQL and MariaDB.

Start at `sql_catalog` in `store`, which opens the database, creates its two tables and keeps in
them the pointers to metadata files and the namespaces; `statements` has the SQL, `database` and
`database_remote` run it.
"""

from typing import Any

from frazil.spec.on_demand import on_demand

__all__ = ["database", "options", "store"]


def __getattr__(name: str) -> Any:
    if name == "SqlCatalog":
        return on_demand("table.catalog_classes", name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
