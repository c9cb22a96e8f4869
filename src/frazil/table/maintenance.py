"""Keep a table in shape: `t.maintenance.<procedure>(…)`, Java Iceberg's procedures by their names, arguments and defaults."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from frazil.maintain.advice.auto import AutoResult, auto
from frazil.maintain.advice.finding import Findings
from frazil.maintain.advice.recommend import recommend
from frazil.maintain.imports.add_files import AddFilesResult, add_files
from frazil.maintain.imports.source import resolve_source
from frazil.maintain.procedure import MaintainedTable
from frazil.maintain.relocate.table_path import RewriteTablePathResult, rewrite_table_path
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

    # --- advice

    def recommend(self) -> Findings:
        """Return what ails the table, in words and numbers, what each cure costs and brings, and the call that cures it; empty for a
        healthy table. Reads metadata only."""
        return recommend(self._table())

    def auto(self, *, budget_bytes: int | None = None, budget_minutes: float | None = None, dry_run: bool = False) -> AutoResult:
        """Do what `recommend` says, as far as it fits the budget: bytes read and written, and minutes (None: no limit).

        May run at any time beside writers and readers. A cure that fails is told in the result, and the others run.
        """
        return auto(
            lambda: self.recommend(), lambda verb: getattr(self, verb, None), budget_bytes=budget_bytes, budget_minutes=budget_minutes,
            dry_run=dry_run,
        )  # fmt: skip

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

    # --- copies of a table

    def rewrite_table_path(
        self,
        source_prefix: str,
        target_prefix: str,
        start_version: str | None = None,
        end_version: str | None = None,
        staging_location: str | None = None,
        create_file_list: bool = True,
        *,
        dry_run: bool = False,
    ) -> RewriteTablePathResult:
        """Stage the table's metadata as it is to be below `target_prefix`, and list the files to copy there.

        `start_version`, `end_version`: names of metadata files; only what was committed after the first, up to the second (None: the
        newest), is staged. `staging_location` None: a new directory beside the metadata. The table itself stays as it is.
        """
        return rewrite_table_path(
            self._table("in-process"), source_prefix, target_prefix, start_version=start_version, end_version=end_version,
            staging_location=staging_location, create_file_list=create_file_list, dry_run=dry_run,
        )  # fmt: skip

    def add_files(
        self,
        source_table: str,
        partition_filter: Mapping[str, Any] | None = None,
        check_duplicate_files: bool = True,
        parallelism: int | None = None,
        *,
        dry_run: bool = False,
        spark: Any = None,
    ) -> AddFilesResult:
        """Add the Parquet files of a directory, or of a table of Spark's own catalog, to the table, where they lie.

        `source_table`: parquet.`/a/directory`, a directory, or a name as in "db.table". `partition_filter`: values of partition columns,
        as in {"day": "2026-01-01"}. `check_duplicate_files`: refuse files that the table has already. `parallelism`: threads that read
        footers (None: one per core).
        """
        table = self._table("in-process")
        source = resolve_source(source_table, lambda _: table.storage, lambda: engines.spark_tables(spark))
        return add_files(
            table, source, partition_filter=partition_filter or {}, check_duplicate_files=check_duplicate_files, parallelism=parallelism,
            dry_run=dry_run,
        )  # fmt: skip
