"""Pickle tables and catalogs: by the settings of the catalog without its secrets, and by name. The
copy is opened anew where it is loaded, and finds secrets there as every catalog does (environment,
files, the session)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from frazil.catalog import CatalogBackend, LoadedTable, load_backend, load_location
from frazil.catalog.configuration import store_properties
from frazil.errors import Unsupported
from frazil.storage import absolute, without_secrets
from frazil.storage.locations import scheme_of
from frazil.table.engines import session_catalogs

CatalogSettings = tuple[str, dict[str, str]]


def settings_of(backend: CatalogBackend) -> CatalogSettings:
    """Return the name of a catalog and its properties without secrets. Raises Unsupported for a
    catalog in memory.
    """
    properties = without_secrets(backend.properties)
    if scheme_of(properties.get("warehouse", "")) == "memory":
        raise Unsupported(
            f"Catalog {backend.name!r} is kept in the memory of this process; a copy in another one would be empty.",
            hint="Pickle the rows instead, as table.to_arrow(), or use a catalog of type sql.",
        )
    if properties.get("warehouse"):
        properties["warehouse"] = absolute(properties["warehouse"])
    if (file := properties.get("uri", "").removeprefix("sqlite:///")) != properties.get(
        "uri", ""
    ) and not file.startswith("/"):
        properties["uri"] = f"sqlite:///{Path(file).absolute()}"
    return backend.name, properties


def open_backend(settings: CatalogSettings) -> CatalogBackend:
    """Open the catalog that `settings_of` has described."""
    name, properties = settings
    named: dict[str, Any] = dict(properties)
    return load_backend(name, spark_conf=session_catalogs(), **named)


def place_of_table(
    backend: CatalogBackend | None, loaded: LoadedTable
) -> tuple[CatalogSettings | None, tuple[str, ...] | str, dict[str, str]]:
    """Return the place by which a table is found again: catalog and identifier, or a location and
    the properties of its store.
    """
    if backend is None:
        return None, loaded.metadata_location, without_secrets(loaded.config)
    if not loaded.identifier:
        return None, loaded.metadata.location, without_secrets(backend.properties)
    return settings_of(backend), loaded.identifier, {}


def load_again(
    catalog: CatalogSettings | None, place: tuple[str, ...] | str, properties: Mapping[str, str]
) -> tuple[CatalogBackend | None, LoadedTable]:
    """Load the newest state of the table that `place_of_table` has described."""
    if catalog is None:
        location = str(place)
        return load_location(location, store_properties(location, properties, session_catalogs()))
    backend = open_backend(catalog)
    return backend, backend.load(tuple(place))
