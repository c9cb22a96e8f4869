"""Serve catalogs behind a REST server (Iceberg's open specification): the server keeps the
metadata, Frazil sends updates and requirements.

`catalog` is the back end, `options` lists its properties.
"""

from typing import Any

from frazil.spec.on_demand import on_demand

__all__ = ["options"]


def __getattr__(name: str) -> Any:
    if name == "RestCatalog":
        return on_demand("table.catalog_classes", name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
