"""Keep a table in shape: `t.maintenance.<procedure>(…)`, Java Iceberg's procedures by their names, arguments and defaults."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from frazil.maintain import convert_equality, delete_files
from frazil.maintain.convert_equality import ConvertEqualityDeletesResult
from frazil.maintain.delete_files import RewritePositionDeleteFilesResult
from frazil.maintain.procedure import MaintainedTable
from frazil.maintain.progress import ProgressCallback
from frazil.spec.snapshot import MAIN_BRANCH
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

    def rewrite_position_delete_files(
        self,
        where: Any = None,
        options: Mapping[str, Any] | None = None,
        *,
        branch: str = MAIN_BRANCH,
        dry_run: bool = False,
        progress: ProgressCallback | None = None,
        runner: Any = None,
        spark: Any = None,
    ) -> RewritePositionDeleteFilesResult:
        """Rewrite small position delete files as few, drop deletes of data files that are gone, and in tables of format version 3 turn
        what is left of them into deletion vectors.

        `where`: only partitions that may hold matching rows. `options`: Java's, as `{"rewrite-all": "true"}`.
        """
        table = self._table(runner, spark)
        return delete_files.rewrite_position_delete_files(table, where, options, branch, dry_run=dry_run, callback=progress)

    def convert_equality_deletes(
        self,
        where: Any = None,
        *,
        branch: str = MAIN_BRANCH,
        dry_run: bool = False,
        progress: ProgressCallback | None = None,
        runner: Any = None,
        spark: Any = None,
    ) -> ConvertEqualityDeletesResult:
        """Turn equality deletes into deletion vectors (format version 3) or position deletes, which are read faster and by every engine.

        `where`: only data files that may hold matching rows. A dry run reads the data files too, since nothing else tells what is deleted.
        """
        table = self._table(runner, spark)
        return convert_equality.convert_equality_deletes(table, where, branch, dry_run=dry_run, callback=progress)
