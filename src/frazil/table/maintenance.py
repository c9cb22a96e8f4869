"""Keep a table in shape: `t.maintenance.<procedure>(…)`, Java Iceberg's procedures by their names, arguments and defaults."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from frazil.maintain.compact.procedure import RewriteDataFilesResult, rewrite_data_files
from frazil.maintain.procedure import MaintainedTable
from frazil.maintain.progress import ProgressCallback
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

    def rewrite_data_files(
        self,
        strategy: str | None = None,
        sort_order: Any = None,
        options: Mapping[str, Any] | None = None,
        where: Any = None,
        branch: str | None = None,
        *,
        dry_run: bool = False,
        progress: ProgressCallback | None = None,
        runner: Any = None,
        spark: Any = None,
    ) -> RewriteDataFilesResult:
        """Rewrite small files, files with many deletes and too large ones to files of the target size (compaction); rows stay the same.

        `strategy`: `binpack` (the default: rows keep their order), `sort`, `zorder` or `hilbert`. `sort_order`: `a ASC NULLS LAST, b DESC`,
        `zorder(a, b)`, `hilbert(a, b)`, a list of columns; by default the table's. `options`: Java's, such as
        `{"target-file-size-bytes": 128 << 20, "partial-progress.enabled": True}`. `where`: only files that may hold matching rows.
        `progress`: called with how many files are done, how many there are, and a text. Writers may go on meanwhile; raises
        ValidationException when one of them removes a file that is being rewritten.
        """
        return rewrite_data_files(self._table(runner, spark), strategy, sort_order, options, where, branch, dry_run, progress)
