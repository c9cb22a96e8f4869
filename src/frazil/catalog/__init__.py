"""Resolve table names to their current metadata, and commit new metadata by compare-and-swap: path,
SQL, Hive, REST and in-memory catalogs.

To add a catalog type see `load`.

Start at `load_backend(name, **properties)`, `load_location`, and the protocol of `backend`. A back
end returns data (LoadedTable), never a Table. `Catalog`, `load_catalog` and `list_catalogs`, which
PyIceberg's users import from this path, are defined in the room `table`.
"""

from typing import Any

from frazil.catalog.backend import CatalogBackend
from frazil.catalog.base import (
    Committed,
    Conflict,
    Identifier,
    LoadedTable,
    Outcome,
    PropertiesUpdateSummary,
    Unknown,
)
from frazil.catalog.configuration import DEFAULT_CATALOG, configured_names
from frazil.catalog.load import described, first_found, load_backend, meanings
from frazil.catalog.path import create_at, load_location
from frazil.spec.on_demand import on_demand

_FROM_ABOVE = {
    "Catalog": "table.catalog",
    "list_catalogs": "table.load",
    "load_catalog": "table.load",
}

__all__ = [
    "DEFAULT_CATALOG",
    "Catalog",
    "CatalogBackend",
    "Committed",
    "Conflict",
    "Identifier",
    "LoadedTable",
    "Outcome",
    "PropertiesUpdateSummary",
    "Unknown",
    "backend",
    "base",
    "configuration",
    "configured_names",
    "create_at",
    "described",
    "first_found",
    "hive",
    "list_catalogs",
    "load_backend",
    "load_catalog",
    "load_location",
    "meanings",
    "metadata_files",
    "names",
    "options",
    "own_files",
    "path",
    "reporting",
    "reports",
]


def __getattr__(name: str) -> Any:
    if name in _FROM_ABOVE:
        return on_demand(_FROM_ABOVE[name], name)
    raise AttributeError(f"module 'frazil.catalog' has no attribute {name!r}")
