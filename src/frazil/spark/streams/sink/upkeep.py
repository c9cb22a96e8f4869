"""Run maintenance of the table that a streaming query writes to, after the commits of its batches:
the options `maintenance.…`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from frazil.catalog import LoadedTable
from frazil.commit.actions import Action
from frazil.maintain.procedure import MaintainedTable
from frazil.maintain.stream_upkeep.triggers import PREFIX, TASKS, TaskOptions, UpkeepOptions
from frazil.maintain.stream_upkeep.upkeep import Upkeep
from frazil.ops.engine import Engine
from frazil.spec.metadata import TableMetadata
from frazil.spec.properties import TARGET_FILE_SIZE
from frazil.stream.hooks import MicroBatch
from frazil.stream.sink.options import LOOKUP, SinkOptions

_COMMITS = 10
_SMALL = 16 << 20
_MOST_FILES = 1000


def with_usual_rewrite(
    maintained: UpkeepOptions | None,
    given: Mapping[str, Any],
    options: SinkOptions,
    metadata: TableMetadata,
) -> UpkeepOptions | None:
    """Add the compaction of small files to a stream of upserts that looks up its keys, unless the
    caller's options `maintenance.rewrite.…` say something about compaction.

    Each batch adds a file, and the next batches and all reads open every one of them. Files of 16
    MB and more are left alone unless a third of their rows is deleted, so that a batch's rows are
    rewritten a bounded number of times, however large the table is. The batches wait meanwhile, so
    that one run takes a limited number of files; the rest follows with the next ones.
    """
    is_named = any(
        k.lower().replace("_", "-").startswith(f"{PREFIX}rewrite.") and v is not None
        for k, v in given.items()
    )
    if is_named or not options.keyed or options.strategy != LOOKUP:
        return maintained
    small = min(_SMALL, TARGET_FILE_SIZE.of(metadata.properties) * 3 // 4)
    usual = TaskOptions(
        "rewrite",
        {"commits": _COMMITS},
        {"min-file-size-bytes": str(small), "max-files-to-rewrite": str(_MOST_FILES)},
    )
    if maintained is None:
        return UpkeepOptions((usual,))
    return replace(
        maintained,
        tasks=tuple(sorted((*maintained.tasks, usual), key=lambda t: TASKS.index(t.task))),
    )


@dataclass
class UpkeepHook:
    """Run due maintenance after each batch. `engine`: returns the engine of the session in which
    the query was defined. `shown`: called with each new state of the table."""

    upkeep: Upkeep
    engine: Callable[[], Engine]
    shown: Callable[[LoadedTable], Any]

    def actions(self, batch: MicroBatch, table: LoadedTable) -> Sequence[Action]:
        return ()

    def committed(self, batch: MicroBatch, table: LoadedTable) -> None:
        """Run due maintenance, except after a batch that is only staged (write-audit-publish),
        since it has not changed the branch.
        """
        if batch.wap_id is not None:
            return
        engine = self.engine()
        runner = engine.runner(table.metadata, table.storage)
        self.upkeep.after_commit(
            MaintainedTable(batch.backend, table, batch.name, engine, runner, self.shown),
            batch.branch,
        )
