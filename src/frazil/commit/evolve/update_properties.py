"""Set and remove table properties: PyIceberg's builder, and the texts that a table stores."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from frazil.spec.misspelt_properties import meant_by
from frazil.spec.properties import property_text
from frazil.spec.updates import RemoveProperties, SetProperties, Update

_log = logging.getLogger("frazil")


def property_texts(properties: Mapping[str, Any]) -> dict[str, str]:
    """Return table properties as the texts that a table stores. A name that resembles a known one
    is logged as a warning and kept, since other engines may have properties of their own."""
    for name in map(str, properties):
        if (meant := meant_by(name)) is not None:
            _log.warning(
                "Table property %r is not known, and has no effect here. Did you mean %r?",
                name,
                meant,
            )
    return {str(k): property_text(k, v) for k, v in properties.items()}


class UpdateProperties:
    """Set and remove table properties: `update.set("k", "v").remove("old")`."""

    def __init__(self) -> None:
        self._updates: list[Update] = []

    def set(self, key: str, value: object) -> UpdateProperties:
        """Set a property; booleans and numbers become text. Raises InvalidInput for None."""
        self._updates.append(SetProperties(property_texts({key: value})))
        return self

    def remove(self, key: str) -> UpdateProperties:
        """Remove a property."""
        self._updates.append(RemoveProperties((key,)))
        return self

    def updates(self, _: object) -> Sequence[Update]:
        """Return the metadata updates that set and remove the properties, in the order of the
        calls."""
        return tuple(self._updates)
