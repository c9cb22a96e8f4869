"""Parse the suffixes of a table name, as in Java: `db.t.files`, `/path/to/t#files,branch_audit`,
`db.t.changes`, `db.t.tag_v1`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from frazil.errors import InvalidInput, NoSuchTableError
from frazil.scan.inspect import METADATA_TABLES, TIME_TRAVEL_TABLES
from frazil.scan.snapshot_ref import selector_suffix

CHANGES = "changes"
T = TypeVar("T")


@dataclass(frozen=True)
class Suffixes:
    """Hold parsed suffixes. `view`: a metadata table's name, `CHANGES`, or None for the table's
    rows. `selectors`: keyword arguments of `snapshot_ref.resolve`."""

    view: str | None = None
    selectors: Mapping[str, Any] = field(default_factory=dict)


def is_suffix(text: str) -> bool:
    return text.lower() in (*METADATA_TABLES, CHANGES) or selector_suffix(text) is not None


def _no_suffix(parts: Sequence[str]) -> str:
    """Make the hint for a name whose last part follows the name of a table but is not a suffix."""
    table_names = ", ".join((*METADATA_TABLES, CHANGES))
    return f"{'.'.join(parts[:-1])} is a table, and {parts[-1]!r} is not one of its metadata tables: {table_names}."


def load_named(
    parts: tuple[str, ...],
    load: Callable[[tuple[str, ...]], T],
    exists: Callable[[tuple[str, ...]], bool],
    name: str,
) -> tuple[T, list[str]]:
    """Load the table that a name means in its catalog, and return it with the suffixes of the name:
    none, or the last part where the name as a whole is no table. `name`: the whole name, for
    errors. Raises NoSuchTableError."""
    try:
        return load(parts), []
    except NoSuchTableError as e:
        if len(parts) < 3 or not is_suffix(parts[-1]):
            if len(parts) > 2 and exists(parts[:-1]):
                raise NoSuchTableError(e.message, hint=_no_suffix(parts), table=name) from e
            raise
    return load(parts[:-1]), [parts[-1]]


def split_location(location: str) -> tuple[str, list[str]]:
    """Split `/path/to/t#files,branch_b` into the location and its suffixes; a `#` before the last
    `/` belongs to the location.
    """
    place, mark, suffix = location.rpartition("#")
    return (place, suffix.split(",")) if mark and "/" not in suffix else (location, [])


def read_suffixes(
    texts: Sequence[str], table: str, selectors: Mapping[str, Any] | None = None
) -> Suffixes:
    """Parse the suffixes of a table name and join them with selectors given as options. Raises
    InvalidInput for unknown and conflicting ones."""
    view, chosen = None, dict(selectors or {})
    for text in texts:
        if text.lower() in (*METADATA_TABLES, CHANGES):
            view = text.lower()
            continue
        selector = selector_suffix(text)
        if selector is None:
            hint = f"Metadata tables: {', '.join((*METADATA_TABLES, CHANGES))}."
            raise InvalidInput(
                f"{text!r} is neither a metadata table nor a snapshot selector.",
                table=table,
                hint=hint,
            )
        if chosen:
            raise InvalidInput(
                f"Cannot use {text} together with {', '.join(chosen)}: each selects a snapshot.",
                table=table,
            )
        chosen.update(selector)
    if view is not None and chosen and view not in TIME_TRAVEL_TABLES:
        raise InvalidInput(f"Cannot select snapshot in table: {view.upper()}", table=table)
    return Suffixes(view, chosen)
