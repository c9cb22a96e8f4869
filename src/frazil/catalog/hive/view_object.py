"""Make the object that a Hive Metastore stores for an Iceberg view, as Java's HiveCatalog writes
it: a virtual view whose text is the query, and whose parameter metadata_location points to the
view's metadata."""

from __future__ import annotations

import time
from dataclasses import replace

from frazil.catalog.base import LoadedView
from frazil.catalog.hive.settings import HiveSettings
from frazil.catalog.hive.structs import HiveTable
from frazil.catalog.hive.table_object import (
    CURRENT_SCHEMA,
    LOCATION,
    LONGEST_INT,
    OWNER,
    PREVIOUS,
    TABLE_TYPE,
    columns_of,
    formats,
    is_iceberg,
)
from frazil.spec.view import SQLViewRepresentation, ViewVersion

_VIEW, _ICEBERG_VIEW, _DIALECT = "VIRTUAL_VIEW", "ICEBERG-VIEW", "hive"


def is_view(stored: HiveTable) -> bool:
    """Tell whether an object of the metastore is a view, Iceberg's or Hive's own."""
    return (stored.tableType or "").upper() == _VIEW


def is_iceberg_view(stored: HiveTable) -> bool:
    """Tell whether an object of the metastore is an Iceberg view, rather than a table or one of
    Hive's own views.
    """
    parameters = stored.parameters or {}
    return (
        is_view(stored)
        and parameters.get(TABLE_TYPE, "").upper() == _ICEBERG_VIEW
        and bool(parameters.get(LOCATION))
    )


def described(stored: HiveTable) -> str:
    """Format what an object of the metastore is, for messages: `an Iceberg view`, `a view`, `a
    MANAGED_TABLE of Hive`, `… of delta`.
    """
    if is_iceberg(stored) or is_iceberg_view(stored):
        return "an Iceberg view" if is_view(stored) else "an Iceberg table"
    parameters = stored.parameters or {}
    if kind := parameters.get(TABLE_TYPE) or parameters.get("spark.sql.sources.provider"):
        return f"a {stored.tableType or 'table'} of {kind}"
    return (
        "a view of Hive"
        if "VIEW" in (stored.tableType or "")
        else f"a {stored.tableType or 'table'} of Hive"
    )


def new_view_object(
    view: LoadedView, database: str, name: str, settings: HiveSettings
) -> HiveTable:
    """Make the object of a view that is not in the metastore yet."""
    now = int(time.time())
    empty = HiveTable(
        name,
        database,
        settings.user,
        now,
        now,
        LONGEST_INT,
        partitionKeys=[],
        parameters={},
        tableType=_VIEW,
    )
    return updated_view(empty, None, view, settings)


def updated_view(
    stored: HiveTable, base: LoadedView | None, view: LoadedView, settings: HiveSettings
) -> HiveTable:
    """Return a stored object with the pointer, properties, columns and query of the view's new
    state. What others put there stays.

    `base`: the state before, whose properties go where the new state does not have them.
    """
    metadata, parameters = view.metadata, dict(stored.parameters or {})
    for key in base.metadata.properties.keys() - metadata.properties.keys() if base else ():
        parameters.pop(key, None)
    parameters |= {key: value for key, value in metadata.properties.items() if key != OWNER}
    parameters |= {
        "uuid": metadata.view_uuid,
        TABLE_TYPE: _ICEBERG_VIEW,
        LOCATION: view.metadata_location,
    }
    if base is not None:
        parameters[PREVIOUS] = base.metadata_location
    parameters.pop(CURRENT_SCHEMA, None)
    schema = metadata.schema()
    if len(text := schema.model_dump_json()) <= settings.property_size:
        parameters[CURRENT_SCHEMA] = text
    query = _query(metadata.current_version())
    return replace(
        stored,
        parameters=parameters,
        sd=formats(columns_of(schema, settings), metadata.location, in_hive=False),
        owner=metadata.properties.get(OWNER, stored.owner),
        viewOriginalText=query or stored.viewOriginalText,
        viewExpandedText=query or stored.viewExpandedText,
    )


def _query(version: ViewVersion) -> str | None:
    """Return the query that Hive is shown: that of its own dialect, else the first one."""
    queries = [r for r in version.representations if isinstance(r, SQLViewRepresentation)]
    chosen = next(
        (r for r in queries if r.dialect.lower() == _DIALECT), queries[0] if queries else None
    )
    return None if chosen is None else chosen.sql
