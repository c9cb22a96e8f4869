"""Suggest the table property that a misspelt name was meant to be."""

from __future__ import annotations

import difflib
import functools
import re

from frazil.spec.properties import (
    COLUMN_PROPERTIES,
    OF_OTHERS,
    RESERVED_PROPERTIES,
    TABLE_PROPERTIES,
)

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
    of_data_files = re.sub(
        r"^write\.delete\.(parquet|orc|avro)\.", r"write.\1.", name
    )  # delete files have the properties of data files
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
