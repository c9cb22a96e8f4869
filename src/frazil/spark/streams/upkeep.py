"""Run maintenance of the table that a streaming query writes to, after the commits of its batches: the options `maintenance.…`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from frazil.catalog import LoadedTable
from frazil.commit.actions import Action
from frazil.maintain.procedure import MaintainedTable
from frazil.maintain.upkeep import Upkeep
from frazil.ops.engine import Engine
from frazil.stream.hooks import MicroBatch


@dataclass
class UpkeepHook:
    """Run due maintenance after each batch. `engine`: returns the engine of the session in which the query was defined. `shown`: called
    with each new state of the table."""

    upkeep: Upkeep
    engine: Callable[[], Engine]
    shown: Callable[[LoadedTable], Any]

    def actions(self, batch: MicroBatch, table: LoadedTable) -> Sequence[Action]:
        return ()

    def committed(self, batch: MicroBatch, table: LoadedTable) -> None:
        """Run due maintenance, except after a batch that is only staged (write-audit-publish), since it has not changed the branch."""
        if batch.wap_id is not None:
            return
        engine = self.engine()
        runner = engine.runner(table.metadata, table.storage)
        self.upkeep.after_commit(MaintainedTable(batch.backend, table, batch.name, engine, runner, self.shown), batch.branch)
