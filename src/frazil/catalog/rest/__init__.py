"""Serve catalogs behind a REST server (Iceberg's open specification): the server keeps the
metadata, Frazil sends updates and requirements.

Other rooms use `RestBackend`.
"""

from typing import Any

from frazil.catalog.rest.catalog import RestBackend
from frazil.catalog.rest.settings import REST_PREFIXES, REST_PROPERTIES
from frazil.spec.above import from_above

__all__ = ["REST_PREFIXES", "REST_PROPERTIES", "RestBackend"]


def __getattr__(name: str) -> Any:
    if name == "RestCatalog":
        return from_above("table.catalog_classes", name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
