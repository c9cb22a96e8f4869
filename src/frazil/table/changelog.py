"""Scan a table's changelog: `t.changes(…)`, which reads into the same kinds of frames as every
scan.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NoReturn

import pyarrow as pa

from frazil.errors import InvalidInput, Unsupported
from frazil.expr.nodes import Predicate
from frazil.ops.engine import Frame
from frazil.ops.in_process import IN_PROCESS
from frazil.ops.reading import ChangelogReading
from frazil.ops.session import Session
from frazil.scan.changelog import ChangelogPlan, ChangelogTask
from frazil.scan.changelog_range import ChangelogRange
from frazil.spec.schema import Schema
from frazil.spec.snapshot import Snapshot
from frazil.table import engines
from frazil.table.scan import DataScan


@dataclass(frozen=True, repr=False)
class ChangesScan(DataScan):
    """Read the rows that snapshots inserted (INSERT) and deleted (DELETE), each with
    `_change_type`, `_change_ordinal` and `_commit_snapshot_id`. Rows that a snapshot only copied to
    another file are left out.

    `range`: from one snapshot (exclusive) to another (inclusive). `net`: leave out rows that were
    both inserted and deleted in the range. `identifier_columns`: report a DELETE and an INSERT with
    the same values in these columns as UPDATE_BEFORE and UPDATE_AFTER; `compute_updates=True` uses
    the table's identifier fields. With `net` these are the row before the range and after it. The
    columns are those of the table's current schema; the three columns of the changelog are always
    included. The other fields are those of DataScan.
    """

    range: ChangelogRange = ChangelogRange()
    net: bool = False
    identifier_columns: tuple[str, ...] | None = None
    compute_updates: bool | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if any(x is not None for x in (self.snapshot_id, self.tag, self.as_of_ms, self.branch)):
            raise InvalidInput(
                "A changelog has a start and an end; it cannot be read as of one snapshot."
            )

    # --- planning

    def _changelog(self) -> ChangelogReading:
        return ChangelogReading(
            self.source.metadata,
            self.source.storage,
            self.range,
            self.net,
            self.identifier_columns,
            self.compute_updates,
            self.row_filter,
            self.selected_fields,
            self.case_sensitive,
            self.options,
            self.limit,
        )

    def snapshot(self) -> Snapshot | None:
        """Return the last snapshot of the range; None: the range is empty."""
        snapshots = self.range.snapshots(self.source.metadata)
        return snapshots[-1] if snapshots else None

    def projection(self) -> Schema:
        """Return the schema of the result."""
        return self._changelog().projection()

    def use_ref(self, name: str) -> ChangesScan:
        return replace(self, range=replace(self.range, branch=name))

    def plan(  # type: ignore[override]
        self, predicate: Predicate | None = None, case_sensitive: bool | None = None
    ) -> ChangelogPlan:
        """Plan the tasks of each snapshot. `predicate` replaces the part of the filter that is
        evaluated before rows are matched.
        """
        reading = self._changelog()
        with self.source.naming():
            return (
                reading
                if case_sensitive is None
                else replace(reading, case_sensitive=case_sensitive)
            ).plan(predicate)

    def plan_files(self) -> Sequence[ChangelogTask]:  # type: ignore[override]
        """Return one task per file with inserted or deleted rows: `.inserted`, `.ordinal`,
        `.snapshot_id`, `.task`.
        """
        return self.plan().tasks

    def explain(self) -> NoReturn:
        raise Unsupported(
            "explain() of a changelog is not supported.", hint="plan_files() lists what is read."
        )

    # --- results

    def to_arrow_batch_reader(self) -> pa.RecordBatchReader:
        """Return the changes as a stream of Arrow batches, oldest snapshot first. Memory use does
        not grow with their number.
        """
        with self.source.naming():
            return IN_PROCESS.read_changelog(self._changelog())

    def _read_for_polars(self) -> pa.RecordBatchReader:
        return self.to_arrow_batch_reader()

    def count(self) -> int:
        """Count the changes: by the manifests for files that were added or removed as a whole, else
        by reading.
        """
        with self.source.naming():
            return self._changelog().count()

    def to_spark(self, spark: Session | None = None) -> Frame:
        """Return the changes as a Spark DataFrame, planned now and read by Spark's tasks when it is
        used. `spark`: the session; None: the running one. Raises InvalidInput where none runs."""
        engine = engines.of_spark_frames(spark)
        with self.source.naming():
            return engine.read_changelog(self._changelog())
