"""Names to current metadata, and the one compare-and-swap.

Door: `load_backend(name, **properties)`, `load_location`, and the types of `base`. A back end hands out data, never a Table.
"""

from frazil.catalog.base import (
    CatalogBackend,
    Committed,
    Conflict,
    Identifier,
    LoadedTable,
    Outcome,
    PropertiesUpdateSummary,
    Unknown,
)
from frazil.catalog.configuration import DEFAULT_CATALOG, configured_names
from frazil.catalog.load import first_found, load_backend, meanings
from frazil.catalog.path import create_at, load_location

__all__ = [
    "DEFAULT_CATALOG",
    "CatalogBackend",
    "Committed",
    "Conflict",
    "Identifier",
    "LoadedTable",
    "Outcome",
    "PropertiesUpdateSummary",
    "Unknown",
    "base",
    "configuration",
    "configured_names",
    "create_at",
    "first_found",
    "load_backend",
    "load_location",
    "meanings",
    "metadata_files",
    "names",
    "path",
    "purge",
]
