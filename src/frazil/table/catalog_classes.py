"""Make catalogs by their classes, as PyIceberg does: `SqlCatalog("prod", uri="sqlite:///c.db",
warehouse="w")`.

They are found by PyIceberg's paths: `frazil.catalog.sql.SqlCatalog`,
`frazil.catalog.memory.InMemoryCatalog`, `frazil.catalog.rest.RestCatalog`,
`frazil.catalog.hive.HiveCatalog`.
"""

from __future__ import annotations

from typing import Any, ClassVar

from frazil.catalog import load_backend
from frazil.errors import InvalidInput
from frazil.table.catalog import Catalog
from frazil.table.engines import session_catalogs


class _OfType(Catalog):
    """Load a catalog of one type; `name` and `properties` as for `frazil.load_catalog`, with the
    same sources and errors.
    """

    _TYPE: ClassVar[str]

    def __init__(self, name: str, **properties: Any):
        if (chosen := properties.pop("type", self._TYPE)) != self._TYPE:
            raise InvalidInput(
                f"{type(self).__name__} is a catalog of type {self._TYPE}, not {chosen}.",
                hint=f"frazil.load_catalog({name!r}, type={chosen!r}, …) chooses the class by the type.",
            )
        super().__init__(
            load_backend(name, spark_conf=session_catalogs(), type=self._TYPE, **properties)
        )


class SqlCatalog(_OfType):
    """Keep tables in a SQL database (SQLite, PostgreSQL, MySQL). Properties: `uri`, `warehouse`,
    and those of docs/catalogs.md.
    """

    _TYPE = "sql"


class InMemoryCatalog(_OfType):
    """Keep tables in this process until it ends. `name` is "in-memory" by default."""

    _TYPE = "memory"

    def __init__(self, name: str = "in-memory", **properties: Any):
        super().__init__(name, **properties)


class RestCatalog(_OfType):
    """Keep tables behind a REST server. Properties: `uri`, and those of docs/catalogs.md."""

    _TYPE = "rest"


class HiveCatalog(_OfType):
    """Keep tables in a Hive Metastore. Properties: `uri`, `warehouse`, and those of
    docs/catalogs.md.
    """

    _TYPE = "hive"
