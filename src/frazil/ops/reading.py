"""Read a table's rows: which snapshot, branch and columns a read is about, and the files that its filter leaves.

All doors to rows make a `RowsReading`: scans of a table, `format("iceberg")`, the Python data source.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import pyarrow as pa

from frazil.arrow.read import read_tasks
from frazil.arrow.read.read_context import ReadContext
from frazil.errors import InvalidInput
from frazil.expr.nodes import AlwaysTrue, Predicate
from frazil.expr.parse import parse
from frazil.ops.frames import is_spark_column
from frazil.ops.session import has_write_audit_publish
from frazil.scan import columns
from frazil.scan.incremental import plan_appends
from frazil.scan.options import ScanOptions
from frazil.scan.plan import Plan, plan
from frazil.scan.snapshot_ref import resolve
from frazil.spec.metadata import TableMetadata
from frazil.spec.schema import Schema
from frazil.spec.snapshot import Snapshot
from frazil.storage import Storage

RowFilter: TypeAlias = str | Predicate | Any


@dataclass(frozen=True)
class RowsReading:
    """`selectors`: keyword arguments of `scan.snapshot_ref.resolve`; none: the current state. `appends`: only the rows that append
    snapshots added after one snapshot (exclusive, None: from the first) up to another (inclusive, None: the current one).

    `row_filter`: Spark SQL text, a predicate, or on Spark a Column. `case_sensitive` None: True, on Spark what the session says.
    `options`: Java's read options (`split-size`, …).
    """

    metadata: TableMetadata
    storage: Storage
    selectors: Mapping[str, Any] = field(default_factory=dict, hash=False)
    appends: tuple[int | None, int | None] | None = None
    row_filter: RowFilter = field(default_factory=AlwaysTrue)
    selected_fields: tuple[str, ...] = ("*",)
    case_sensitive: bool | None = None
    options: Mapping[str, str] = field(default_factory=dict, hash=False)
    limit: int | None = None

    def following(self, wap_branch: Callable[[], str | None]) -> RowsReading:
        """The read in a session that is in write-audit-publish: of the session's branch in place of main, once that branch is there,
        unless a snapshot was selected."""
        if self.appends is not None or any(v is not None for v in self.selectors.values()) or not has_write_audit_publish(self.metadata):
            return self
        branch = wap_branch()
        return replace(self, selectors={"branch": branch}) if branch in self.metadata.refs else self

    @property
    def may_follow(self) -> bool:
        """Whether the read is of a branch or tag as it stands, and not of one snapshot, one time or a range of them."""
        return self.appends is None and {k for k, v in self.selectors.items() if v is not None} <= {"branch", "tag"}

    def snapshot_and_schema(self) -> tuple[Snapshot | None, Schema]:
        """The snapshot that is read, the last one of several, and the schema of its rows. Raises NoSuchSnapshotError, NoSuchRefError."""
        if self.appends is None:
            return resolve(self.metadata, **self.selectors)
        end = self.appends[1]
        return (self.metadata.current_snapshot() if end is None else self.metadata.snapshot_by_id(end)), self.metadata.schema()

    def projection(self) -> Schema:
        """The schema of the rows that come out, metadata columns included."""
        return columns.project(self.metadata, self.snapshot_and_schema()[1], self.selected_fields, self.case_sensitive is not False)

    def plan(self, predicate: Predicate | None = None, zone: str = "UTC") -> Plan:
        """The files to read, with the deletes that apply to them. `predicate` replaces the filter for pruning, and `zone` is that of
        literals without one (engines that decide the filter themselves do that)."""
        snapshot, schema = self.snapshot_and_schema()
        row_filter = predicate_of(self.row_filter) if predicate is None else predicate
        sensitive, options = self.case_sensitive is not False, ScanOptions.of(self.options, self.metadata.properties)
        if self.appends is None:
            return plan(
                self.metadata, self.storage, snapshot=snapshot, row_filter=row_filter, schema=schema, case_sensitive=sensitive, zone=zone,
                options=options,
            )  # fmt: skip
        return plan_appends(
            self.metadata, self.storage, from_snapshot_id_exclusive=self.appends[0],
            to_snapshot_id_inclusive=snapshot.snapshot_id if snapshot else None, row_filter=row_filter, schema=schema,
            case_sensitive=sensitive, zone=zone, options=options,
        )  # fmt: skip

    def batches(self) -> pa.RecordBatchReader:
        """The rows in this process, as a stream of Arrow batches; memory stays bounded whatever the table's size."""
        planned = self.plan()
        return read_tasks.read(planned.tasks(), ReadContext.of(planned, self.projection(), self.storage), limit=self.limit)

    def count(self) -> int:
        """How many rows: from the manifests where they tell, reading only the files they cannot decide."""
        planned = self.plan()
        known = planned.matched_records
        if self.limit is not None and known >= self.limit:
            return self.limit
        undecided = planned.undecided_tasks()
        if undecided:
            context = ReadContext.of(planned, planned.filter_schema(), self.storage)
            known += sum(batch.num_rows for batch in read_tasks.read(undecided, context))
        return known if self.limit is None else min(known, self.limit)


def predicate_of(row_filter: RowFilter) -> Predicate:
    """Text or an expression as a predicate; a Spark Column is refused."""
    if isinstance(row_filter, str):
        return parse(row_filter)
    if isinstance(row_filter, Predicate):
        return row_filter
    if is_spark_column(row_filter):
        raise InvalidInput("A Spark Column filters only Spark reads.", hint="Give a string or a predicate of frazil.expressions here.")
    raise InvalidInput(f"A filter is a string or a predicate of frazil.expressions, not {type(row_filter).__name__}.")
