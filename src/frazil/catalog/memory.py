"""Keep a catalog in memory, until its process ends: the SQL catalog with an in-memory SQLite
database, and files in memory.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

from frazil.catalog.database import SqliteDatabase
from frazil.catalog.sql import SqlBackend
from frazil.errors import InvalidInput
from frazil.spec.above import from_above


class MemoryBackend(SqlBackend):
    """Keep tables in memory. `warehouse`: where the files of tables go; by default in memory, too."""

    def __init__(self, name: str, properties: Mapping[str, str]):
        if "uri" in properties:
            raise InvalidInput(
                f"Catalog {name!r} of type memory has no use for the property uri.",
                hint="Leave it out.",
            )
        defaults = {"warehouse": f"memory://{name}-{uuid.uuid4().hex[:8]}"}
        super().__init__(name, defaults | dict(properties), SqliteDatabase(":memory:"))


def __getattr__(name: str) -> Any:
    if name == "InMemoryCatalog":
        return from_above("table.catalog_classes", name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
