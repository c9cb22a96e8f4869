"""Whether a published version of a path table stands in the table's line of versions, or beside it.

Old versions can be removed (write.metadata.delete-after-commit.enabled, orphan removal), and then their names are free again. A writer
that was slow between its last look and publishing can take such a name: its version would be acknowledged, and no reader would see it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from typing import Any

from frazil.catalog.base import Committed, Conflict, LoadedTable, Outcome, Unknown
from frazil.errors import CorruptData
from frazil.spec.metadata import TableMetadata
from frazil.storage.locations import base_name

_KEPT_BY_EVERY_COMMIT = {"last_updated_ms", "metadata_log", "snapshot_log", "extra", "snapshots", "last_sequence_number", "next_row_id"}


def settle(base: TableMetadata | None, table: LoadedTable, later: TableMetadata, is_next: bool) -> Outcome:
    """What became of `table`, made from `base`, seeing a later version (`is_next`: the very next one).

    Conflict: it stands beside the line, for the next version was built on another one of its name. Unknown: nothing tells.
    """
    if is_next and later.metadata_log:
        before = later.metadata_log[-1]
        mine = base_name(table.metadata_location), table.metadata.last_updated_ms
        if (base_name(before.metadata_file), before.timestamp_ms) != mine:
            return Conflict(f"{table.metadata_location} was made and removed by others")
    found = list(_evidence(base, table.metadata, later))
    if found and all(found):
        return Committed(table)
    return Unknown(
        CorruptData(f"It cannot be told whether {table.metadata_location} is in the table's line.", file=table.metadata_location)
    )


def _evidence(base: TableMetadata | None, mine: TableMetadata, later: TableMetadata) -> Iterator[bool]:
    """For each thing that `mine` has and `base` had not: whether `later` has it. New snapshots alone decide, for their ids are unique."""
    if base is None:
        yield mine.table_uuid == later.table_uuid
        return
    if fresh := set(mine.snapshots.ids) - set(base.snapshots.ids):
        yield fresh <= set(later.snapshots.ids)
        return
    for field in fields(TableMetadata):
        if field.name not in _KEPT_BY_EVERY_COMMIT:
            yield from _of_value(getattr(base, field.name), getattr(mine, field.name), getattr(later, field.name))


def _of_value(base: Any, mine: Any, later: Any) -> Iterator[bool]:
    if isinstance(mine, dict):
        yield from (later.get(k) == v for k, v in mine.items() if base.get(k) != v)
        yield from (k not in later for k in base if k not in mine)
    elif isinstance(mine, tuple):
        yield from (item in later for item in mine if item not in base)
    elif mine != base:
        yield mine == later
