"""Parse the suffixes of a table name, as in Java: `db.t.files`, `/path/to/t#files,branch_audit`,
`db.t.changes`, `db.t.tag_v1`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from frazil.errors import InvalidInput
from frazil.scan.inspect import METADATA_TABLES, TIME_TRAVEL_TABLES
from frazil.scan.snapshot_ref import selector_suffix

CHANGES = "changes"


@dataclass(frozen=True)
class Suffixes:
    """Hold parsed suffixes. `view`: a metadata table's name, `CHANGES`, or None for the table's
    rows. `selectors`: keyword arguments of `snapshot_ref.resolve`."""

    view: str | None = None
    selectors: Mapping[str, Any] = field(default_factory=dict)


def is_suffix(text: str) -> bool:
    return text.lower() in (*METADATA_TABLES, CHANGES) or selector_suffix(text) is not None


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
