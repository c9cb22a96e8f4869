"""Read the metadata tables as Arrow tables: `t.inspect.files()` and the other fifteen of Java
Iceberg, with Java's columns.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa

from frazil.scan.inspect import METADATA_TABLES, metadata_table
from frazil.spec.metadata import TableMetadata
from frazil.spec.on_demand import on_demand
from frazil.spec.snapshot import MAIN_BRANCH
from frazil.storage import Storage
from frazil.table.shown.rows_text import show_arrow_tables


class InspectTable:
    """Return metadata tables of one table, each as a pyarrow.Table by a method of its name.
    `snapshot_id` chooses the snapshot for those that allow time travel in Java (entries, files, …,
    manifests, partitions)."""

    def __init__(self, metadata: TableMetadata, metadata_location: str, storage: Storage):
        self._metadata, self._location, self._storage = metadata, metadata_location, storage

    def table(self, name: str, snapshot_id: int | None = None, **arguments: Any) -> pa.Table:
        """Return a metadata table by its name in Java Iceberg."""
        show_arrow_tables()
        return metadata_table(
            name,
            self._metadata,
            self._storage,
            metadata_location=self._location,
            snapshot_id=snapshot_id,
            **arguments,
        )

    def partition_commits(self, branch: str = MAIN_BRANCH) -> pa.Table:
        """List the partitions that a stream's partition commit, or mark_partition_done, has
        announced, and those that are pending.

        A partition is complete when it has a `committed_at` and no `late_data_since`;
        `times_committed`: more than once after late data.
        """
        listed: pa.Table = on_demand("stream.partitions.by_hand", "partition_commits")(
            self._metadata, self._storage, branch
        )
        return listed

    def __repr__(self) -> str:
        return f"Metadata tables of {self._metadata.location}, each by a method: {', '.join(METADATA_TABLES)}, partition_commits"

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *METADATA_TABLES]

    def __getattr__(self, name: str) -> Callable[..., pa.Table]:
        if name not in METADATA_TABLES:
            raise AttributeError(
                f"No metadata table {name!r}; there are: {', '.join(METADATA_TABLES)}"
            )
        return lambda snapshot_id=None, **arguments: self.table(name, snapshot_id, **arguments)
