"""Keep a table in shape: `t.maintenance.<procedure>(…)`, Java Iceberg's procedures by their names, arguments and defaults."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from frazil.maintain.procedure import MaintainedTable
from frazil.maintain.stats.partition_stats import PartitionStatsResult, compute_partition_stats
from frazil.maintain.stats.table_stats import TableStatsResult, compute_table_stats
from frazil.table import engines
from frazil.table.handle import TableHandle


class MaintenanceTable:
    """Run maintenance procedures on one table. Each takes `dry_run=True`, which returns the plan and changes nothing.

    `runner` and `spark` choose where the work is done: a Runner or "in-process", a Spark session; by default the session that runs, else
    this process.
    """

    def __init__(self, handle: TableHandle):
        self._handle = handle

    def _table(self, runner: Any = None, spark: Any = None) -> MaintainedTable:
        handle = self._handle
        engine, chosen = engines.of_rows(handle.metadata, handle._loaded.storage, runner, spark)
        return MaintainedTable(handle._backend, handle._loaded, handle._name, engine, chosen, handle._show)

    # --- statistics

    def compute_table_stats(
        self,
        snapshot_id: int | None = None,
        columns: Sequence[str] | None = None,
        *,
        dry_run: bool = False,
        runner: Any = None,
        spark: Any = None,
    ) -> TableStatsResult:
        """Compute the numbers of distinct values of columns (None: all primitive ones at the top), as sketches in a Puffin file that other
        engines read. `snapshot_id` None: the current one."""
        return compute_table_stats(self._table(runner, spark), snapshot_id=snapshot_id, columns=columns, dry_run=dry_run)

    def compute_partition_stats(
        self, snapshot_id: int | None = None, *, dry_run: bool = False, runner: Any = None, spark: Any = None
    ) -> PartitionStatsResult:
        """Count files, rows and deletes of each partition, as a file that other engines read. Where an ancestor of the snapshot has such a
        file, only what came since is read. `snapshot_id` None: the current one."""
        return compute_partition_stats(self._table(runner, spark), snapshot_id=snapshot_id, dry_run=dry_run)
