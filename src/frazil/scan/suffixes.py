"""What may follow a table's name: `db.t.files`, `/path/to/t#files,branch_audit`, `db.t.changes`, `db.t.tag_v1` (as Java takes it)."""

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
    """`view`: a metadata table's name, `CHANGES`, or None for the rows. `selectors`: keyword arguments of `snapshot_ref.resolve`."""

    view: str | None = None
    selectors: Mapping[str, Any] = field(default_factory=dict)


def is_suffix(text: str) -> bool:
    return text.lower() in (*METADATA_TABLES, CHANGES) or selector_suffix(text) is not None


def no_suffix(parts: Sequence[str]) -> str:
    """The hint where the last part of a name was meant as a suffix, and is none."""
    return f"{'.'.join(parts[:-1])} is a table; of {parts[-1]!r} it has nothing. Metadata tables: {', '.join((*METADATA_TABLES, CHANGES))}."


def split_location(location: str) -> tuple[str, list[str]]:
    """`/path/to/t#files,branch_b` as its location and its suffixes; a `#` in a folder's name is none of them."""
    place, mark, suffix = location.rpartition("#")
    return (place, suffix.split(",")) if mark and "/" not in suffix else (location, [])


def read_suffixes(texts: Sequence[str], table: str, selectors: Mapping[str, Any] | None = None) -> Suffixes:
    """The suffixes of a table's name, beside selectors that came as options. Raises InvalidInput for unknown and contradictory ones."""
    view, chosen = None, dict(selectors or {})
    for text in texts:
        if text.lower() in (*METADATA_TABLES, CHANGES):
            view = text.lower()
            continue
        found = selector_suffix(text)
        if found is None:
            hint = f"Metadata tables: {', '.join((*METADATA_TABLES, CHANGES))}."
            raise InvalidInput(f"{text!r} is no metadata table and selects no snapshot.", table=table, hint=hint)
        if chosen:
            raise InvalidInput(f"{text} and {', '.join(chosen)} each select a snapshot.", table=table)
        chosen.update(found)
    if view is not None and chosen and view not in TIME_TRAVEL_TABLES:
        raise InvalidInput(f"Cannot select snapshot in table: {view.upper()}", table=table)
    return Suffixes(view, chosen)
