"""Keep a catalog in memory, until its process ends: the SQL catalog with an in-memory SQLite
database, and files in memory.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

from frazil.catalog.pointer import PointerCatalog
from frazil.catalog.sql.database import SqliteDatabase
from frazil.catalog.sql.store import sql_catalog
from frazil.errors import InvalidInput
from frazil.spec.on_demand import on_demand


def memory_catalog(name: str, properties: Mapping[str, str]) -> PointerCatalog:
    """Open a catalog in memory. `warehouse`: where the files of tables go; by default in memory,
    too.
    """
    if "uri" in properties:
        raise InvalidInput(
            f"Catalog {name!r} of type memory has no use for the property uri.",
            hint="Leave it out.",
        )
    defaults = {"warehouse": f"memory://{name}-{uuid.uuid4().hex[:8]}"}
    return sql_catalog(name, defaults | dict(properties), SqliteDatabase(":memory:"), "memory")


def __getattr__(name: str) -> Any:
    if name == "InMemoryCatalog":
        return on_demand("table.catalog_classes", name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
