"""Set and remove table properties: PyIceberg's builder, the texts that a table stores, and a
warning where a name resembles a known one.
"""

from __future__ import annotations

import difflib
import functools
import logging
import re
from collections.abc import Mapping, Sequence
from typing import Any

from frazil.spec.properties import (
    COLUMN_PROPERTIES,
    OF_OTHERS,
    RESERVED_PROPERTIES,
    TABLE_PROPERTIES,
    property_text,
)
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


_NEAR = 0.86  # least similarity (difflib) of a name to the property that it is taken for


def meant_by(name: str) -> str | None:
    """Return the known property that an unknown name resembles most; None for a known name and for
    a name that resembles none.
    """
    if _is_known(name):
        return None
    if (column := _of_column(name)) is not None:
        return column
    names = _known_names()
    near = difflib.get_close_matches(_plain(name), names, 1, _NEAR)
    return names[near[0]] if near else None


def _is_known(name: str) -> bool:
    # delete files have the properties of data files
    of_data_files = re.sub(r"^write\.delete\.(parquet|orc|avro)\.", r"write.\1.", name)
    names = {*TABLE_PROPERTIES, *RESERVED_PROPERTIES, *OF_OTHERS}
    return any(n in names or n.startswith(tuple(COLUMN_PROPERTIES)) for n in (name, of_data_files))


def _of_column(name: str) -> str | None:
    """Correct the part of a misspelt name before the column: `write.metadata.metrics.colum.id`
    becomes `write.metadata.metrics.column.id`."""
    for prefix in COLUMN_PROPERTIES:
        parts = name.split(".")
        head, column = ".".join(parts[: prefix.count(".")]), ".".join(parts[prefix.count(".") :])
        if (
            column
            and difflib.SequenceMatcher(None, _plain(head), _plain(prefix[:-1])).ratio()
            >= _NEAR + 0.05
        ):
            return prefix + column
    return None


@functools.cache
def _known_names() -> dict[str, str]:
    return {_plain(n): n for n in sorted({*TABLE_PROPERTIES, *RESERVED_PROPERTIES, *OF_OTHERS})}


def _plain(name: str) -> str:
    """Normalise a property name: lower case, with one separator between words."""
    return re.sub(r"[._\s-]+", "-", name.strip().lower())
