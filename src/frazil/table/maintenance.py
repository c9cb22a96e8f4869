"""Keep a table in shape: `t.maintenance.<procedure>(…)`, Java Iceberg's procedures by their names, arguments and defaults."""

from __future__ import annotations

from typing import Any

from frazil.maintain.procedure import MaintainedTable
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
