"""Decide whether a published version of a path table is part of the table's history.

Old versions can be removed (write.metadata.delete-after-commit.enabled, orphan removal), which
frees their file names. A slow writer that listed the directory before can then publish under such a
name: its commit would be acknowledged, but no reader would ever see it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import Any

from frazil.catalog.base import Committed, Conflict, LoadedTable, Outcome, Unknown
from frazil.errors import CorruptData
from frazil.spec.metadata import TableMetadata
from frazil.storage.locations import base_name

# Every commit changes these fields, so they do not tell whether a certain commit is part of the
# history; snapshots are compared by id.
_NOT_COMPARED = {
    "last_updated_ms",
    "metadata_log",
    "snapshot_log",
    "extra",
    "snapshots",
    "last_sequence_number",
    "next_row_id",
}


def settle(
    base: TableMetadata | None, table: LoadedTable, later: TableMetadata, is_next: bool
) -> Outcome:
    """Decide the outcome of publishing `table`, which was made from `base`, by a later version
    (`is_next`: the one that follows directly).

    Committed: the later version holds the changes. Conflict: the next version was built on another
    file with the same name. Unknown: neither can be told.
    """
    if is_next and later.metadata_log:
        listed_entry = later.metadata_log[-1]
        published_entry = base_name(table.metadata_location), table.metadata.last_updated_ms
        if (base_name(listed_entry.metadata_file), listed_entry.timestamp_ms) != published_entry:
            return Conflict(
                f"{table.metadata_location} was written and removed by other writers before"
            )
    evidence = list(_evidence(base, table.metadata, later))
    if evidence and all(evidence):
        return Committed(table)
    return Unknown(
        CorruptData(
            f"It is not known whether {table.metadata_location} is part of the table's history.",
            file=table.metadata_location,
        )
    )


def _evidence(
    base: TableMetadata | None, published: TableMetadata, later: TableMetadata
) -> Iterator[bool]:
    """Yield, for each change from `base` to `published` (the metadata in question), whether `later`
    has it. If `published` has new snapshots, they alone decide, since their ids are unique."""
    if base is None:
        yield published.table_uuid == later.table_uuid
        return
    if new_ids := set(published.snapshots.ids) - set(base.snapshots.ids):
        yield new_ids <= set(later.snapshots.ids)
        return
    for field in fields(TableMetadata):
        if field.name not in _NOT_COMPARED:
            yield from _of_value(
                getattr(base, field.name),
                getattr(published, field.name),
                getattr(later, field.name),
            )


def _of_value(base: Any, published: Any, later: Any) -> Iterator[bool]:
    if isinstance(published, dict):
        yield from (later.get(k) == v for k, v in published.items() if base.get(k) != v)
        yield from (k not in later for k in base if k not in published)
    elif isinstance(published, tuple):
        yield from (item in later for item in published if item not in base)
    elif published != base:
        yield published == later
