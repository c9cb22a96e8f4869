"""Serve path tables (Java's Hadoop tables), which are found by their directory: `PathCatalog` for a
warehouse of them, `load_location` for one.

`files` reads and publishes their metadata files.
"""

from frazil.catalog.path.catalog import PathCatalog
from frazil.catalog.path.location import LocationBackend, create_at, load_location

__all__ = ["LocationBackend", "PathCatalog", "create_at", "load_location"]
