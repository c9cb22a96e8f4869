"""Begin a procedure on the newest state of its table, not on the one that the caller happened to
have loaded.
"""

from __future__ import annotations

from dataclasses import replace

from frazil.errors import ValidationError
from frazil.maintain.procedure import MaintainedTable


def newest_state(table: MaintainedTable, dry_run: bool = False) -> MaintainedTable:
    """Return the table in its newest state. A table that was opened from a metadata file has no
    other, and takes only dry runs.

    Raises ValidationError for a read-only table, and for one that was dropped and created again.
    """
    if table.backend is None and dry_run:
        return table
    fresh = table.newest()
    if fresh.metadata.table_uuid != table.metadata.table_uuid:
        raise ValidationError(
            f"Table {table.name} was dropped and created again: its uuid was {table.metadata.table_uuid} and is now "
            f"{fresh.metadata.table_uuid}.",
            hint="Load it again.",
            table=table.name,
        )
    return replace(table, loaded=fresh)


def newest_readable(table: MaintainedTable) -> MaintainedTable:
    """Return the table in its newest state, or, where it is read-only, in the state that it was
    opened in; for procedures that read only.

    Raises ValidationError for a table that was dropped and created again.
    """
    return newest_state(table, dry_run=True)
