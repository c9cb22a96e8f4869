"""Make the actions that change a table's metadata and no rows: properties, location, format
version.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from frazil.commit.actions import Action, MetadataChange
from frazil.commit.evolve.update_properties import property_texts
from frazil.errors import InvalidInput
from frazil.spec.metadata import TableMetadata
from frazil.spec.updates import RemoveProperties, SetLocation, SetProperties, UpgradeFormatVersion


def set_properties(properties: Mapping[str, Any]) -> Action:
    updates = property_texts(properties)
    return MetadataChange(lambda _: (SetProperties(updates),))


def remove_properties(keys: Sequence[str]) -> Action:
    return MetadataChange(lambda _: (RemoveProperties(tuple(keys)),))


def set_location(location: str) -> Action:
    return MetadataChange(lambda _: (SetLocation(location),))


def upgrade(format_version: int, metadata: TableMetadata) -> Action:
    """Upgrade a table to a newer format version; a table that has the version already stays as it
    is.
    """
    if not isinstance(format_version, int):
        raise InvalidInput(
            f"format_version is a number, not {format_version!r}.", table=metadata.location
        )
    return MetadataChange(
        lambda m: (
            () if m.format_version == format_version else (UpgradeFormatVersion(format_version),)
        )
    )
