"""A table's state as one metadata file holds it, read-only (PyIceberg's StaticTable)."""

from __future__ import annotations

from collections.abc import Mapping

from frazil.catalog.path import load_location
from frazil.table.table import Table


class StaticTable(Table):
    """`StaticTable.from_metadata(path)`: reads, time travel and inspection; no writes, no refresh."""

    @classmethod
    def from_metadata(cls, metadata_location: str, properties: Mapping[str, str] = {}) -> StaticTable:
        """From a `…metadata.json`, or from the directory of a table (its current state)."""
        _, loaded = load_location(metadata_location, dict(properties))
        return cls(None, loaded, metadata_location)
