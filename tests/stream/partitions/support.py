"""A stream into a table of this process, with partition commit, in place of Spark's: batches are
committed as the sink commits them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa

import frazil
from frazil.ops.changes import AppendRows
from frazil.ops.operation import TableOperation
from frazil.stream.hooks import MicroBatch
from frazil.stream.partitions.commit_hook import PartitionCommit
from frazil.stream.partitions.options import partition_commit_options

KIND, TRIGGER, DELAY = (f"sink.partition-commit.{n}" for n in ("policy.kind", "trigger", "delay"))
HOUR, DAY = 3_600_000, 86_400_000


class Killed(BaseException):
    """Stands for the end of the driver: nothing of the process's work goes on."""


def ms(text: str) -> int:
    """Milliseconds of a time in UTC."""
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1000)


@dataclass
class Clock:
    now: int = 1_000_000_000_000

    def __call__(self) -> int:
        return self.now


@dataclass
class Stream:
    """A query that writes batches. `restarted` gives one that knows only what the table knows."""

    catalog: Any
    name: str
    options: dict[str, Any]
    policies: tuple[Any, ...] = ()
    branch: str = "main"
    query_id: str = "q"
    backend: Any = None
    clock: Clock = field(default_factory=Clock)

    def __post_init__(self) -> None:
        self.hook = PartitionCommit(
            partition_commit_options(self.options, self.policies), self.clock
        )

    @property
    def table(self) -> frazil.Table:
        return self.catalog.load_table(self.name)

    def batch(
        self, number: int, rows: Any, watermark: int | None = None, last: bool = False
    ) -> None:
        """Commit a batch unless it was committed before, and do what follows its commit, as a sink
        does.
        """
        table = self.table
        backend = self.backend or table._backend
        batch = MicroBatch(self.query_id, number, self.name, backend, self.branch, watermark, last)
        if rows is not None:
            from frazil.commit.done_once import Txn

            with TableOperation(
                backend, table._loaded, self.name, txn=Txn(self.query_id, number)
            ) as operation:
                frame = rows if isinstance(rows, pa.Table) else pa.table(rows)
                operation.run(AppendRows(frame, branch=self.branch))
                operation.stage(*self.hook.actions(batch, table._loaded))
        self.hook.committed(batch, self.table._loaded)

    def restarted(self, **changed: Any) -> Stream:
        given = {
            k: getattr(self, k)
            for k in (
                "catalog",
                "name",
                "options",
                "policies",
                "branch",
                "query_id",
                "backend",
                "clock",
            )
        }
        return Stream(**{**given, **changed})

    def commits(self) -> dict[str, dict[str, Any]]:
        """What `t.inspect.partition_commits()` tells, by partition."""
        return {
            row["partition"]: row
            for row in self.table.inspect.partition_commits(self.branch).to_pylist()
        }

    @property
    def pending(self) -> set[str]:
        return {p for p, row in self.commits().items() if row["pending_since"] is not None}

    @property
    def late(self) -> set[str]:
        return {p for p, row in self.commits().items() if row["late_data_since"] is not None}

    @property
    def times(self) -> dict[str, int]:
        return {
            p: row["times_committed"] for p, row in self.commits().items() if row["times_committed"]
        }


def catalog_at(place: Any) -> Any:
    catalog = frazil.load_catalog("streams", type="memory", warehouse=str(place))
    catalog.create_namespace("db")
    return catalog


def stream(
    place: Any,
    options: dict[str, Any],
    policies: tuple[Any, ...] = (),
    columns: str = "id bigint, dt string",
    by: Any = ("dt",),
    **rest: Any,
) -> Stream:
    """A stream into a new table `db.t`."""
    catalog = rest.pop("catalog", None)
    if catalog is None:
        catalog = catalog_at(place)
    else:
        catalog.create_namespace("db")
    properties = rest.pop("properties", {})
    catalog.create_table(
        "db.t",
        columns,
        partition_by=list(by),
        properties=properties,
        format_version=rest.pop("format_version", 2),
    )
    return Stream(catalog, "db.t", options, policies, **rest)


def rows(ids: Any, dt: Any) -> pa.Table:
    ids = list(ids)
    values = [dt] * len(ids) if dt is None or isinstance(dt, str) else list(dt)
    return pa.table({"id": pa.array(ids, pa.int64()), "dt": pa.array(values, pa.string())})
