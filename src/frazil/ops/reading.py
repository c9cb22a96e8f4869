"""Read the rows of a table, or of its changelog: choose the snapshots and columns, and plan the
files that the filter leaves.

Every way to read rows makes a `RowsReading`: scans of a table, `format("iceberg")` and the Python
data source. Every way to read inserted and deleted rows makes a `ChangelogReading`. Each planned
scan is noted: in the log of the process, and for the catalog's metrics reporters.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import pyarrow as pa

from frazil.arrow.changelog.read_changelog import (
    ChangelogOptions,
    ChangelogRead,
    count_changelog,
    read_changelog,
)
from frazil.arrow.read import read_tasks
from frazil.arrow.read.read_context import ReadContext
from frazil.catalog.backend import PlanHints, ScanPlanner
from frazil.catalog.reporting import TableReporter
from frazil.errors import InvalidInput
from frazil.expr.bind import bind
from frazil.expr.nodes import AlwaysTrue, Predicate, Translated
from frazil.expr.parse import parse
from frazil.ops.arguments import SparkColumn, is_spark_column
from frazil.scan import columns
from frazil.scan.changelog import (
    CHANGELOG_FIELDS,
    ChangelogPlan,
    changelog_schema,
    plan_changelog,
    split_filter,
    update_columns,
)
from frazil.scan.changelog_range import ChangelogRange
from frazil.scan.incremental import plan_appends
from frazil.scan.options import ScanOptions
from frazil.scan.plan import Plan, plan
from frazil.scan.served_plan import AskedScan
from frazil.scan.snapshot_ref import resolve
from frazil.spec import logs
from frazil.spec.metadata import TableMetadata
from frazil.spec.properties import WAP_ENABLED
from frazil.spec.schema import METADATA_COLUMNS, Schema
from frazil.spec.snapshot import Snapshot
from frazil.storage import Storage

_UPDATED = "_last_updated_sequence_number"
RowFilter: TypeAlias = str | Predicate | SparkColumn


@dataclass(frozen=True)
class RowsReading:
    """Describe a read of a table's rows.

    `selectors`: keyword arguments of `scan.snapshot_ref.resolve` (snapshot, branch, tag or time);
    empty: the current snapshot. `appends`: an incremental read of the rows that `append` snapshots
    added after one snapshot id (exclusive; None: from the first) up to another (inclusive; None:
    the current one). `row_filter`: Spark SQL text, a predicate or, for a read by Spark, a Column.
    `case_sensitive` None: True, and for a read by Spark the session's `spark.sql.caseSensitive`.
    `options`: read options as in Java Iceberg (`split-size`, …). `limit`: the most rows to return.
    `reporter`: takes the metrics report of each scan of a snapshot that Frazil has planned.
    `planner`: the catalog's server, where it is to plan the scans of snapshots; None: Frazil plans
    them all.
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
    reporter: TableReporter | None = field(default=None, repr=False, compare=False)
    planner: ScanPlanner | None = field(default=None, repr=False, compare=False)

    def on_wap_branch(self, wap_branch: Callable[[], str | None]) -> RowsReading:
        """Return this read as a session with `spark.wap.branch` does it: from that branch instead
        of main, once the branch exists, unless the caller selected a snapshot or the table has
        write-audit-publish switched off."""
        if (
            self.appends is not None
            or any(v is not None for v in self.selectors.values())
            or not WAP_ENABLED.of(self.metadata.properties)
        ):
            return self
        branch = wap_branch()
        return replace(self, selectors={"branch": branch}) if branch in self.metadata.refs else self

    @property
    def may_follow(self) -> bool:
        """Tell whether the read follows a branch or tag, rather than naming one snapshot, a time or
        a range of snapshots.
        """
        return self.appends is None and {k for k, v in self.selectors.items() if v is not None} <= {
            "branch",
            "tag",
        }

    def snapshot_and_schema(self) -> tuple[Snapshot | None, Schema]:
        """Return the snapshot to read (of a range, the last one) and the schema of its rows. Raises
        NoSuchSnapshotError, NoSuchRefError.
        """
        if self.appends is None:
            return resolve(self.metadata, **self.selectors)
        end = self.appends[1]
        return (
            self.metadata.current_snapshot() if end is None else self.metadata.snapshot_by_id(end)
        ), self.metadata.schema()

    def projection(self) -> Schema:
        """Return the schema of the result, metadata columns included."""
        return columns.project(
            self.metadata,
            self.snapshot_and_schema()[1],
            self.selected_fields,
            self.case_sensitive is not False,
        )

    def plan(self, predicate: Predicate | None = None, zone: str = "UTC") -> Plan:
        """Plan the files to read, with the deletes that apply to them. Engines that evaluate the
        filter themselves pass `predicate`, which replaces it for pruning, and `zone`, the time zone
        of literals that name none."""
        snapshot, schema = self.snapshot_and_schema()
        row_filter = predicate_of(self.row_filter) if predicate is None else predicate
        sensitive, options = (
            self.case_sensitive is not False,
            ScanOptions.of(self.options, self.metadata.properties),
        )
        if self.planner is not None and snapshot is not None and self._can_be_served():
            bound = bind(row_filter, schema, case_sensitive=sensitive, zone=zone)
            scan = AskedScan(
                self.metadata, self.storage, snapshot, schema, bound, str(row_filter), options
            )
            return self.planner.plan(scan, self._hints())
        if self.appends is None:
            planned = plan(
                self.metadata,
                self.storage,
                snapshot=snapshot,
                row_filter=row_filter,
                schema=schema,
                case_sensitive=sensitive,
                zone=zone,
                options=options,
                may_repeat=True,
            )
            note_plan(planned, self.reporter, self.projection, self.options)
            return planned
        return plan_appends(
            self.metadata,
            self.storage,
            from_snapshot_id_exclusive=self.appends[0],
            to_snapshot_id_inclusive=snapshot.snapshot_id if snapshot else None,
            row_filter=row_filter,
            schema=schema,
            case_sensitive=sensitive,
            zone=zone,
            options=options,
        )

    def _can_be_served(self) -> bool:
        """Tell whether the catalog's server can plan the read. Servers do not return the
        sequence numbers of which `_last_updated_sequence_number` is made; and the reference server
        includes the first snapshot of an incremental read, which the specification excludes."""
        return (
            self.appends is None
            and _UPDATED not in str(self.row_filter)
            and _UPDATED not in {f.name for f in self.projection().fields}
        )

    def _hints(self) -> PlanHints:
        own = METADATA_COLUMNS.values()
        columns = (
            None
            if "*" in self.selected_fields
            else [f.field_id for f in self.projection().fields if f.field_id not in own]
        )
        enough = self.limit if isinstance(self.row_filter, AlwaysTrue) else None
        return PlanHints(
            columns, enough, {k for k, v in self.selectors.items() if v is not None} <= {"branch"}
        )

    def batches(self, planned: Plan | None = None) -> pa.RecordBatchReader:
        """Read the rows in this process, as a stream of Arrow batches. Memory use does not grow
        with the table's size. `planned`: the plan of this read; None: it is planned now.
        """
        planned = self.plan() if planned is None else planned
        context = ReadContext.of(planned, self.projection(), planned.reads_by(self.storage))
        return read_tasks.read(planned.tasks(), context, limit=self.limit)

    def count(self) -> int:
        """Count the rows: by the manifests where their statistics suffice, else by reading the
        files concerned.
        """
        planned = self.plan()
        rows = planned.matched_records
        if self.limit is not None and rows >= self.limit:
            return self.limit
        undecided = planned.undecided_tasks()
        if undecided:
            context = ReadContext.of(
                planned, planned.filter_schema(), planned.reads_by(self.storage)
            )
            rows += sum(batch.num_rows for batch in read_tasks.read(undecided, context))
        return rows if self.limit is None else min(rows, self.limit)


def predicate_of(row_filter: RowFilter) -> Predicate:
    """Return a filter as a predicate, parsing text. Raises ParseError for text outside the grammar,
    InvalidInput for a Spark Column.
    """
    if isinstance(row_filter, str):
        return parse(row_filter)
    if isinstance(row_filter, Predicate):
        return row_filter.node if isinstance(row_filter, Translated) else row_filter
    if is_spark_column(row_filter):
        raise InvalidInput(
            "A Spark Column filters only Spark reads.",
            hint="Use a string or a predicate of frazil.expressions here.",
        )
    raise InvalidInput(
        f"A filter is a string or a predicate of frazil.expressions, not {type(row_filter).__name__}."
    )


@dataclass(frozen=True)
class ChangelogReading:
    """Describe a read of a table's changelog. The fields are those of `RowsReading` and of
    `frazil.table.changelog.ChangesScan`.
    """

    metadata: TableMetadata
    storage: Storage
    range: ChangelogRange = ChangelogRange()
    net: bool = False
    identifier_columns: tuple[str, ...] | None = None
    compute_updates: bool | None = None
    row_filter: RowFilter = field(default_factory=AlwaysTrue)
    selected_fields: tuple[str, ...] = ("*",)
    case_sensitive: bool | None = None
    options: Mapping[str, str] = field(default_factory=dict, hash=False)
    limit: int | None = None

    @property
    def is_sensitive(self) -> bool:
        return self.case_sensitive is not False

    @property
    def schema(self) -> Schema:
        """Return all columns of the changelog: the table's, then `_change_type`, `_change_ordinal`
        and `_commit_snapshot_id`.
        """
        return changelog_schema(self.metadata.schema())

    def projection(self) -> Schema:
        """Return the schema of the result: the selected columns, then those of the changelog."""
        if "*" in self.selected_fields:
            return self.schema
        return self.schema.select(
            *self.selected_fields,
            *(f.name for f in CHANGELOG_FIELDS),
            case_sensitive=self.is_sensitive,
        )

    def matching(self) -> ChangelogOptions:
        """Return how deleted and inserted rows are matched: net of both, and as updates of the rows
        with the same identifier columns.
        """
        columns = update_columns(
            self.metadata.schema(),
            self.identifier_columns,
            self.compute_updates,
            self.is_sensitive,
        )
        return ChangelogOptions(self.net, columns)

    def decided_first(self, row_filter: Predicate) -> Predicate:
        """Return the part of a filter that can be evaluated before deleted and inserted rows are
        matched.
        """
        first = split_filter(
            row_filter, self.metadata.schema(), self.matching().key_ids, self.is_sensitive
        )[0]
        return AlwaysTrue() if first is None else first

    def plan(self, predicate: Predicate | None = None) -> ChangelogPlan:
        """Plan the tasks of each snapshot. `predicate` replaces the part of the filter that is
        evaluated before rows are matched.

        Raises ValidationError where the table has a column with the name of a changelog column.
        """
        _ = self.schema  # computed for its check of column names
        if predicate is None:
            predicate = self.decided_first(predicate_of(self.row_filter))
        return plan_changelog(
            self.metadata,
            self.storage,
            self.range.snapshots(self.metadata),
            row_filter=predicate,
            case_sensitive=self.is_sensitive,
            options=ScanOptions.of(self.options, self.metadata.properties),
        )

    def batches(self) -> pa.RecordBatchReader:
        """Read the changelog in this process, oldest snapshot first. Memory use does not grow with
        the number of changes.
        """
        plan = self.plan()
        return read_changelog(plan, self.read_of(plan), limit=self.limit)

    def count(self) -> int:
        """Count the rows of the changelog: by the manifests for files that were added or removed as
        a whole, else by reading.
        """
        if self.limit is not None:
            return sum(b.num_rows for b in self.batches())
        plan = self.plan()
        return count_changelog(plan, self.read_of(plan))

    def read_of(self, plan: ChangelogPlan) -> ChangelogRead:
        """Return what the tasks that read the plan need to know."""
        matching = self.matching()
        last = split_filter(
            predicate_of(self.row_filter),
            self.metadata.schema(),
            matching.key_ids,
            self.is_sensitive,
        )[1]
        after_matching = (
            None if last is None else bind(last, self.schema, case_sensitive=self.is_sensitive)
        )
        return ChangelogRead.of(plan, self.projection(), self.storage, matching, after_matching)


_log = logging.getLogger("frazil.scan")


def note_plan(
    plan: Plan,
    reporter: TableReporter | None,
    projection: Callable[[], Schema],
    options: Mapping[str, str],
) -> None:
    """Log a planned scan (at level DEBUG, since there may be many), and report it where there is a
    reporter.
    """
    if _log.isEnabledFor(logging.DEBUG):
        report = plan.report
        name = report.table if reporter is None else reporter.table_name
        _log.debug(
            "Planned a scan of %s: %d data files, %d skipped",
            name,
            report.result_data_files,
            report.skipped_data_files,
            extra=logs.facts(
                name,
                "scan",
                location=report.table,
                snapshot_id=report.snapshot_id,
                seconds=report.total_planning_duration / 1e9,
                result={
                    k: v
                    for k, v in vars(report).items()
                    if k not in ("table", "snapshot_id", "filter")
                },
            ),
        )
    if reporter is not None:
        reporter.planned(plan, projection, options)
