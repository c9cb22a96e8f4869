"""Say where a streamed table is found by processes that do not see the session: its catalog with all properties, or its location."""

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
    """Name a table for other processes. `catalog` None: the table is at `location`. `properties` hold secrets and are not shown."""

    name: str
    catalog: str | None
    identifier: tuple[str, ...]
    location: str
    properties: Mapping[str, str] = field(default_factory=dict, repr=False, hash=False)

    @classmethod
    def of(cls, backend: CatalogBackend | None, loaded: LoadedTable, name: str) -> StreamTable:
        """Describe a loaded table; one opened by a metadata file (its back end is None) stays as that file says.

        Raises Unsupported for a table in this process's memory.
        """
        if scheme_of(loaded.metadata.location) == "memory":
            text = "A table in memory lives in this process; a stream's processes cannot see it."
            raise Unsupported(text, hint="Use a catalog of another type, or incremental_append_scan().", table=name)
        if backend is None:
            return cls(name, None, (), absolute(name), dict(loaded.config))
        if isinstance(backend, LocationBackend):
            return cls(name, None, (), backend.location, dict(backend.properties))
        return cls(name, backend.name, tuple(loaded.identifier), loaded.metadata.location, dict(backend.properties))

    def loader(self) -> Callable[[], LoadedTable]:
        """Return a function that loads the table's newest state."""
        if self.catalog is None:
            return lambda: load_location(self.location, dict(self.properties))[1]
        properties: dict[str, Any] = dict(self.properties)
        backend = load_backend(self.catalog, environ={}, **properties)
        return lambda: backend.load(self.identifier)
