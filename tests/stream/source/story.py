"""Tables with a history, made op by op, and streams over them read to the end: what a test of the
source needs.
"""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pyarrow as pa

import frazil
from frazil.arrow.changelog.read_changelog import read_changelog
from frazil.arrow.read.read_tasks import read_task
from frazil.arrow.write.write_context import WriteContext
from frazil.arrow.write.write_options import write_options
from frazil.arrow.write.write_rows import write
from frazil.commit.actions import MetadataChange, RewriteFiles
from frazil.commit.table_commit import commit
from frazil.scan.incremental import snapshots_between
from frazil.spec.updates import RemoveSnapshots
from frazil.stream.source.options import Limits, stream_options
from frazil.stream.source.plan_batch import BatchPlan
from frazil.stream.source.source import Clock, StreamSource

_names = itertools.count()
PARTS = 2


class Story:
    """A table `id bigint, p int`, of which each op is a commit: op k brings ids 10k, 10k + 1, …,
    each in a file of its own.

    Ops: `a` append, `o` overwrite everything, `d` delete the rows of the newest append, `r` compact
    all files into one.
    """

    def __init__(
        self,
        ops: str = "",
        parts: int = PARTS,
        properties: Mapping[str, str] | None = None,
        columns: str = "id bigint, p int",
    ):
        catalog = frazil.load_catalog(f"story{next(_names)}", type="memory")
        catalog.create_namespace("db")
        self.table = catalog.create_table(
            "db.t", columns, partition_by=["p"], properties=dict(properties or {})
        )
        self.parts, self.count = parts, 0
        self.snapshot_of: list[int] = []
        self.loads = 0
        for op in ops:
            self.do(op)

    def ids(self, k: int) -> list[int]:
        return [10 * k + n for n in range(self.parts)]

    def rows(self, k: int) -> pa.Table:
        return pa.table({"id": self.ids(k), "p": pa.array(range(self.parts), pa.int32())})

    def do(self, op: str, branch: str = "main") -> int:
        """One commit; returns its snapshot's id."""
        k, self.count = self.count, self.count + 1
        time.sleep(0.003)  # times of snapshots differ
        table = self.table
        if op == "a":
            table.append(self.rows(k), branch=branch)
        elif op == "o":
            table.overwrite(self.rows(k), branch=branch)
        elif op == "d":
            newest = max(r for r in table.scan(branch=branch).to_arrow()["id"].to_pylist()) // 10
            table.delete(f"id >= {10 * newest}", branch=branch)
        elif op == "r" and not len(table.scan().plan_files()):
            table.append(self.rows(k))
        elif op == "r":
            self.compact()
        table.refresh()
        made = table.metadata.ref_snapshot(branch)
        assert made is not None
        self.snapshot_of.append(made.snapshot_id)
        return made.snapshot_id

    def compact(self) -> None:
        loaded, table = self.table._loaded, self.table
        files = [t.file for t in table.scan().plan_files()]
        context = WriteContext.of(table.metadata, loaded.storage, write_options({}, "append"))
        added = write(table.scan().to_arrow_batch_reader(), context)
        assert table._backend is not None
        commit(table._backend, loaded, [RewriteFiles(removed=files, added=added)])

    def expire(self, *snapshot_ids: int) -> None:
        assert self.table._backend is not None
        commit(
            self.table._backend,
            self.table._loaded,
            [MetadataChange(lambda _: [RemoveSnapshots(tuple(snapshot_ids))])],
        )
        self.table.refresh()

    def roll_back(self, snapshot_id: int) -> None:
        with self.table.manage_snapshots() as update:
            update.rollback_to_snapshot(snapshot_id)
        self.table.refresh()

    def load(self) -> Any:
        self.loads += 1
        return self.table.refresh()._loaded

    def source(
        self, clock: Clock | None = None, load: Callable[[], Any] | None = None, **options: Any
    ) -> StreamSource:
        given = {"monitor_interval": "0s", **options}
        clock = clock or Clock(wait=lambda _: None)
        return StreamSource(load or self.load, stream_options(given), self.table.schema(), clock)

    def appended_between(self, start: int | None, end: int | None) -> list[int]:
        """Ids of the append snapshots after one up to another, by the batch reader."""
        between = snapshots_between(self.table.metadata, start, end)
        return [
            i
            for s in between
            if s.operation == "append"
            for i in sorted(self.rows_added(s.snapshot_id))
        ]

    def rows_added(self, snapshot_id: int) -> list[int]:
        parent = self.table.metadata.snapshot_by_id(snapshot_id).parent_snapshot_id
        scan = self.table.incremental_append_scan(
            from_snapshot_id_exclusive=parent, to_snapshot_id_inclusive=snapshot_id
        )
        return list(scan.to_arrow()["id"].to_pylist())


def ids_of(plan: BatchPlan) -> list[int]:
    return [row["id"] for row in rows_of(plan)]


def rows_of(plan: BatchPlan) -> list[dict[str, Any]]:
    if plan.changes is not None:
        assert plan.changelog_read is not None
        return list(read_changelog(plan.changes, plan.changelog_read).read_all().to_pylist())
    return [
        row
        for part in plan.rows
        for task in part.tasks
        for batch in read_task(task, part.context)
        for row in batch.to_pylist()
    ]


def as_stored(offset: dict[str, Any]) -> dict[str, Any]:
    """An offset as Spark hands it back, from the text in the checkpoint."""
    text = json.dumps(offset)
    assert len(text) < 1024
    found: dict[str, Any] = json.loads(text)
    return found


def batches(
    source: StreamSource, start: dict[str, Any] | None = None, limits: Limits | None = None
) -> Iterator[tuple[dict[str, Any], BatchPlan]]:
    """The batches up to the head: each one's end and plan."""
    at = as_stored(source.initial_offset() if start is None else start)
    for _ in range(1000):
        end = as_stored(source.latest_offset(at, limits))
        if json.dumps(end) == json.dumps(at):
            return
        yield end, source.plan(at, end)
        at = end
    raise AssertionError("the stream does not come to an end")


def drained(
    source: StreamSource, start: dict[str, Any] | None = None
) -> tuple[list[int], dict[str, Any]]:
    """All ids up to the head, in order, and the last offset."""
    found: list[int] = []
    at = source.initial_offset() if start is None else start
    for end, plan in batches(source, start):
        found += ids_of(plan)
        at = end
    return found, at
