"""Make the actions that change a table's metadata and no rows: properties, location, format version."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from frazil.commit.actions import Action, MetadataChange
from frazil.errors import InvalidInput
from frazil.spec.metadata import TableMetadata
from frazil.spec.misspelt_properties import meant_by
from frazil.spec.properties import property_text
from frazil.spec.updates import RemoveProperties, SetLocation, SetProperties, UpgradeFormatVersion

_log = logging.getLogger("frazil")


def set_properties(properties: Mapping[str, Any]) -> Action:
    updates = property_texts(properties)
    return MetadataChange(lambda _: (SetProperties(updates),))


def property_texts(properties: Mapping[str, Any]) -> dict[str, str]:
    """Return table properties as the texts that a table stores. A name that resembles a known one is logged as a warning and kept, since
    other engines may have properties of their own."""
    for name in map(str, properties):
        if (meant := meant_by(name)) is not None:
            _log.warning("Table property %r is not known, and has no effect here. Did you mean %r?", name, meant)
    return {str(k): property_text(k, v) for k, v in properties.items()}


def remove_properties(keys: Sequence[str]) -> Action:
    return MetadataChange(lambda _: (RemoveProperties(tuple(keys)),))


def set_location(location: str) -> Action:
    return MetadataChange(lambda _: (SetLocation(location),))


def upgrade(format_version: int, metadata: TableMetadata) -> Action:
    """Upgrade a table to a newer format version; a table that has the version already stays as it is."""
    if not isinstance(format_version, int):
        raise InvalidInput(f"format_version is a number, not {format_version!r}.", table=metadata.location)
    return MetadataChange(lambda m: () if m.format_version == format_version else (UpgradeFormatVersion(format_version),))
