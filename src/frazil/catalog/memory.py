"""A catalog that lives as long as the process that made it: the SQL catalog over SQLite in memory, with files in memory."""

from __future__ import annotations

import uuid
from collections.abc import Mapping

from frazil.catalog.database import SqliteDatabase
from frazil.catalog.sql import SqlCatalog
from frazil.errors import InvalidInput


class MemoryCatalog(SqlCatalog):
    """`warehouse` may be any location (a directory keeps the files); by default files are in memory too."""

    def __init__(self, name: str, properties: Mapping[str, str]):
        if "uri" in properties:
            raise InvalidInput(f"Catalog {name!r} of type memory has no use for the property uri.")
        place = {"warehouse": f"memory://{name}-{uuid.uuid4().hex[:8]}"}
        super().__init__(name, place | dict(properties), SqliteDatabase(":memory:"))
