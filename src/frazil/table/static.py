"""Open one metadata file of a table read-only (PyIceberg's StaticTable)."""

from __future__ import annotations

from collections.abc import Mapping

from frazil.catalog.path import load_location
from frazil.table.table import Table


class StaticTable(Table):
    """Read the state of a table that one metadata file holds: scans, time travel and inspection,
    but no writes and no refresh.
    """

    @classmethod
    def from_metadata(
        cls, metadata_location: str, properties: Mapping[str, str] = {}
    ) -> StaticTable:
        """Open a `…metadata.json`, or the current state of the table in a directory. `properties`:
        those of the store (`s3.…`).

        Raises NoSuchTableError, NoSuchFileError, CorruptData.
        """
        _, loaded = load_location(metadata_location, dict(properties))
        return cls(None, loaded, metadata_location)
