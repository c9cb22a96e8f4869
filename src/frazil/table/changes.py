"""The changelog scan: `t.changes(…)`, with the doors of every scan."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from frazil.errors import InvalidInput, Unsupported
from frazil.expr.nodes import Predicate
from frazil.ops.in_process import IN_PROCESS
from frazil.ops.reading_changes import ChangesReading
from frazil.scan.changelog import ChangelogPlan
from frazil.scan.changelog_range import ChangeRange
from frazil.spec.schema import Schema
from frazil.spec.snapshot import Snapshot
from frazil.table import engines
from frazil.table.scan import DataScan


@dataclass(frozen=True, repr=False)
class ChangesScan(DataScan):
    """The rows that snapshots brought (INSERT) and took away (DELETE), each with `_change_type`, `_change_ordinal` and
    `_commit_snapshot_id`; rows that a snapshot only moved to another file are left out.

    `range`: after one snapshot (exclusive) up to another. `net`: what came and went within the range is left out as well.
    `identifier_columns`: a DELETE and an INSERT of the same values there come as UPDATE_BEFORE and UPDATE_AFTER; `compute_updates=True`
    takes the table's identifier fields. The columns are those of the table's current schema, the three of the changelog always come.
    """

    range: ChangeRange = ChangeRange()
    net: bool = False
    identifier_columns: tuple[str, ...] | None = None
    compute_updates: bool | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if any(x is not None for x in (self.snapshot_id, self.tag, self.as_of_ms, self.branch)):
            raise InvalidInput("A changelog has a start and an end; it cannot be read as of one snapshot.")

    # --- what will be read

    def _changes(self) -> ChangesReading:
        return ChangesReading(
            self.source.metadata, self.source.storage, self.range, self.net, self.identifier_columns, self.compute_updates, self.row_filter,
            self.selected_fields, self.case_sensitive, self.options, self.limit,
        )  # fmt: skip

    def snapshot(self) -> Snapshot | None:
        """The last snapshot of the range."""
        snapshots = self.range.snapshots(self.source.metadata)
        return snapshots[-1] if snapshots else None

    def projection(self) -> Schema:
        """The schema of the rows."""
        return self._changes().projection()

    def use_ref(self, name: str) -> ChangesScan:
        return replace(self, range=replace(self.range, branch=name))

    def plan(self, predicate: Predicate | None = None, case_sensitive: bool | None = None) -> ChangelogPlan:  # type: ignore[override]
        """The tasks of each snapshot. `predicate` replaces the part of the filter that is decided before rows are matched."""
        reading = self._changes()
        with self.source.naming():
            return (reading if case_sensitive is None else replace(reading, case_sensitive=case_sensitive)).plan(predicate)

    def plan_files(self) -> Any:
        """A task for each file of which rows came or went: `.inserted`, `.ordinal`, `.snapshot_id`, `.task`."""
        return self.plan().tasks

    def explain(self) -> Any:
        raise Unsupported("explain() of a changelog is not supported.", hint="plan_files() lists what is read.")

    # --- doors

    def to_arrow_batch_reader(self) -> pa.RecordBatchReader:
        """Rows as a stream of Arrow batches, oldest snapshot first; memory stays bounded whatever was changed."""
        with self.source.naming():
            return IN_PROCESS.read_changes(self._changes())

    def count(self) -> int:
        """How many rows: from the manifests where files came or went whole."""
        with self.source.naming():
            return self._changes().count()

    def to_spark(self, spark: Any = None) -> Any:
        """A DataFrame, planned now and read by tasks of Spark when it is used."""
        engine = engines.of_spark_frames(spark)
        with self.source.naming():
            return engine.read_changes(self._changes())
