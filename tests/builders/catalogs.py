"""Catalogs of one test, each with the namespace `db`."""

from __future__ import annotations

from pathlib import Path

import frazil
from frazil.catalog import Catalog


def catalog_of(kind: str, place: Path, name: str = "test") -> Catalog:
    """A catalog of kind "memory", "path" or "sql" (SQLite) whose database and warehouse lie below
    `place`.
    """
    more = {"uri": f"sqlite:///{place}/catalog.db"} if kind == "sql" else {}
    found = frazil.load_catalog(name, type=kind, warehouse=str(place / "wh"), **more)
    found.create_namespace("db")
    return found
