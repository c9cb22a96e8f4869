"""Define the SQL statements on the two tables of Java's JDBC catalog and PyIceberg's SQL catalog.

The layout V0 lacks the column iceberg_type, and so has no views; such tables stay as they are. New
databases get the layout V1. Functions take `noun`: table or view, and `v1`: whether the tables have
that column.
"""

from __future__ import annotations

TABLES, NAMESPACES = "iceberg_tables", "iceberg_namespace_properties"

CREATE_TABLES = (
    f"CREATE TABLE IF NOT EXISTS {TABLES} (catalog_name VARCHAR(255) NOT NULL, table_namespace VARCHAR(255) NOT NULL, "
    "table_name VARCHAR(255) NOT NULL, metadata_location VARCHAR(1000), previous_metadata_location VARCHAR(1000), "
    "iceberg_type VARCHAR(5), PRIMARY KEY (catalog_name, table_namespace, table_name))",
    f"CREATE TABLE IF NOT EXISTS {NAMESPACES} (catalog_name VARCHAR(255) NOT NULL, namespace VARCHAR(255) NOT NULL, "
    "property_key VARCHAR(255) NOT NULL, property_value VARCHAR(1000) NOT NULL, PRIMARY KEY (catalog_name, namespace, property_key))",
)
UPGRADE_TO_V1 = f"ALTER TABLE {TABLES} ADD COLUMN iceberg_type VARCHAR(5)"

_ROW = "catalog_name = :catalog AND table_namespace = :namespace AND table_name = :name"
_IS = {
    "table": " AND (iceberg_type = 'TABLE' OR iceberg_type IS NULL)",
    "view": " AND iceberg_type = 'VIEW'",
}


def _is(noun: str, v1: bool) -> str:
    return _IS[noun] if v1 else ""


def get(v1: bool) -> str:
    """Select the metadata location, namespace, name and type of a table or view."""
    kind = "iceberg_type" if v1 else "NULL"
    return (
        f"SELECT metadata_location, table_namespace, table_name, {kind} FROM {TABLES} WHERE {_ROW}"
    )


def insert(noun: str, v1: bool) -> str:
    """Add the row of a new table or view; fails with a duplicate key if there is one of that name."""
    column, value = (", iceberg_type", f", '{noun.upper()}'") if v1 else ("", "")
    columns = (
        "catalog_name, table_namespace, table_name, metadata_location, previous_metadata_location"
    )
    return f"INSERT INTO {TABLES} ({columns}{column}) VALUES (:catalog, :namespace, :name, :new, NULL{value})"


def swap(noun: str, v1: bool) -> str:
    """Replace a metadata location if it is still the old one: the compare-and-swap of a commit."""
    return (
        f"UPDATE {TABLES} SET metadata_location = :new, previous_metadata_location = :old "
        f"WHERE {_ROW} AND metadata_location = :old{_is(noun, v1)}"
    )


def drop(noun: str, v1: bool) -> str:
    return f"DELETE FROM {TABLES} WHERE {_ROW}{_is(noun, v1)}"


def drop_at(noun: str, v1: bool) -> str:
    """Remove a row if its metadata location is still the old one."""
    return f"{drop(noun, v1)} AND metadata_location = :old"


def rename(noun: str, v1: bool) -> str:
    return f"UPDATE {TABLES} SET table_namespace = :to_namespace, table_name = :to_name WHERE {_ROW}{_is(noun, v1)}"


def names(noun: str, v1: bool) -> str:
    return f"SELECT table_namespace, table_name FROM {TABLES} WHERE catalog_name = :catalog AND table_namespace = :namespace{_is(noun, v1)}"


CATALOGS = f"SELECT DISTINCT catalog_name FROM {TABLES} UNION SELECT DISTINCT catalog_name FROM {NAMESPACES}"
ALL_NAMESPACES = (
    f"SELECT table_namespace FROM {TABLES} WHERE catalog_name = :catalog "
    f"UNION SELECT namespace FROM {NAMESPACES} WHERE catalog_name = :catalog"
)
ANY_IN_NAMESPACE = f"SELECT table_name FROM {TABLES} WHERE catalog_name = :catalog AND table_namespace = :namespace"
PROPERTIES = f"SELECT namespace, property_key, property_value FROM {NAMESPACES} WHERE catalog_name = :catalog AND namespace = :namespace"
ADD_PROPERTY = (
    f"INSERT INTO {NAMESPACES} (catalog_name, namespace, property_key, property_value) "
    "VALUES (:catalog, :namespace, :key, :value)"
)
DROP_PROPERTY = f"DELETE FROM {NAMESPACES} WHERE catalog_name = :catalog AND namespace = :namespace AND property_key = :key"
DROP_NAMESPACE = (
    f"DELETE FROM {NAMESPACES} WHERE catalog_name = :catalog AND namespace = :namespace"
)
