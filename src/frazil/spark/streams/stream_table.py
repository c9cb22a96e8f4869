"""Describe where a streamed table is, for processes that cannot see the session: its catalog with
all properties, or its location.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from frazil.catalog import CatalogBackend, LoadedTable, load_backend
from frazil.catalog.path import LocationBackend, load_location
from frazil.errors import Unsupported
from frazil.storage.locations import absolute, scheme_of


@dataclass(frozen=True)
class StreamTable:
    """Name a table for other processes. `catalog`: None if the table is loaded by its location.
    `properties`: those of the catalog or of the storage; they may hold secrets, so no text shows
    them."""

    name: str
    catalog: str | None
    identifier: tuple[str, ...]
    location: str
    properties: Mapping[str, str] = field(default_factory=dict, repr=False, hash=False)

    @classmethod
    def of(cls, backend: CatalogBackend | None, loaded: LoadedTable, name: str) -> StreamTable:
        """Describe a loaded table. A table opened by its metadata file (`backend` is None) has no
        newer state than the one in that file.

        Raises Unsupported for a table at a memory: location.
        """
        if scheme_of(loaded.metadata.location) == "memory":
            text = "A table in memory lives in this process, and the processes of a streaming query cannot see it."
            raise Unsupported(
                text,
                hint="Use a catalog of another type, or incremental_append_scan().",
                table=name,
            )
        if backend is None:
            return cls(name, None, (), absolute(name), dict(loaded.config))
        if isinstance(backend, LocationBackend):
            return cls(name, None, (), backend.location, dict(backend.properties))
        return cls(
            name,
            backend.name,
            tuple(loaded.identifier),
            loaded.metadata.location,
            dict(backend.properties),
        )

    def loader(self) -> Callable[[], LoadedTable]:
        """Return a function that loads the table's newest state."""
        if self.catalog is None:
            return lambda: load_location(self.location, dict(self.properties))[1]
        properties: dict[str, Any] = dict(self.properties)
        backend = load_backend(self.catalog, environ={}, **properties)
        return lambda: backend.load(self.identifier)
