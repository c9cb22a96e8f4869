"""The changelog scan: `t.changes(…)`, with the doors of every scan."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from frazil.arrow.changelog.read_changelog import ChangeOptions, ChangeRead, count_changes, read_changes
from frazil.errors import InvalidInput, Unsupported
from frazil.expr.bind import bind
from frazil.expr.nodes import AlwaysTrue, Predicate
from frazil.scan.changelog import CHANGE_FIELDS, ChangelogPlan, changelog_schema, plan_changes, split_filter, update_columns
from frazil.scan.changelog_range import ChangeRange
from frazil.scan.options import ScanOptions
from frazil.spec.schema import Schema
from frazil.spec.snapshot import Snapshot
from frazil.table.frames import session, spark_room
from frazil.table.scan import DataScan, predicate_of


@dataclass(frozen=True)
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

    def _target(self) -> tuple[Snapshot | None, Schema]:
        snapshots = self.range.snapshots(self.source.metadata)
        return (snapshots[-1] if snapshots else None), changelog_schema(self.source.metadata.schema())

    def projection(self) -> Schema:
        """The schema of the rows."""
        schema = changelog_schema(self.source.metadata.schema())
        if "*" in self.selected_fields:
            return schema
        return schema.select(*self.selected_fields, *(f.name for f in CHANGE_FIELDS), case_sensitive=self.case_sensitive is not False)

    def use_ref(self, name: str) -> ChangesScan:
        return replace(self, range=replace(self.range, branch=name))

    def _options(self) -> ChangeOptions:
        schema = self.source.metadata.schema()
        return ChangeOptions(
            self.net, update_columns(schema, self.net, self.identifier_columns, self.compute_updates, self.case_sensitive is not False)
        )

    def plan(self, predicate: Predicate | None = None, case_sensitive: bool | None = None) -> ChangelogPlan:  # type: ignore[override]
        """The tasks of each snapshot. `predicate` replaces the part of the filter that is decided before rows are matched."""
        sensitive = self.case_sensitive is not False if case_sensitive is None else case_sensitive
        metadata = self.source.metadata
        with self.source.naming():
            changelog_schema(metadata.schema())
            if predicate is None:
                predicate = split_filter(predicate_of(self.row_filter), metadata.schema(), self._options().key_ids, sensitive)[0]
            return plan_changes(
                metadata, self.source.storage, self.range.snapshots(metadata), row_filter=predicate, case_sensitive=sensitive,
                options=ScanOptions.of(self.options, metadata.properties),
            )  # fmt: skip

    def plan_files(self) -> Any:
        """A task for each file of which rows came or went: `.inserted`, `.ordinal`, `.snapshot_id`, `.task`."""
        return self.plan().tasks

    def explain(self) -> Any:
        raise Unsupported("explain() of a changelog is not supported.", hint="plan_files() lists what is read.")

    def _read(self, plan: ChangelogPlan) -> ChangeRead:
        schema, sensitive = self.source.metadata.schema(), self.case_sensitive is not False
        options = self._options()
        with self.source.naming():
            last = split_filter(predicate_of(self.row_filter), schema, options.key_ids, sensitive)[1]
            after = None if last is None else bind(last, changelog_schema(schema), case_sensitive=sensitive)
        return ChangeRead.of(plan, self.projection(), self.source.storage, options, after)

    # --- doors

    def to_arrow_batch_reader(self) -> pa.RecordBatchReader:
        """Rows as a stream of Arrow batches, oldest snapshot first; memory stays bounded whatever was changed."""
        plan = self.plan()
        return read_changes(plan, self._read(plan), limit=self.limit)

    def count(self) -> int:
        """How many rows: from the manifests where files came or went whole."""
        if self.limit is not None:
            return sum(b.num_rows for b in self.to_arrow_batch_reader())
        plan = self.plan()
        return count_changes(plan, self._read(plan))

    def to_spark(self, spark: Any = None) -> Any:
        """A DataFrame, planned now and read by tasks of Spark when it is used."""
        spark = session(spark)
        room = spark_room("read.changelog_frame")
        sensitive = spark_room("host.session_conf").is_case_sensitive(spark, self.case_sensitive)
        scan = replace(self, case_sensitive=sensitive)
        options, schema = scan._options(), self.source.metadata.schema()
        # Spark decides the filter itself, after rows were matched; what Frazil understands of it prunes.
        pruning = spark_room("read.native_read").pruning_predicate(spark, self.row_filter, changelog_schema(schema), sensitive)
        predicate = split_filter(pruning, schema, options.key_ids, sensitive)[0]
        found = scan.plan(AlwaysTrue() if predicate is None else predicate, sensitive)
        where = None if isinstance(self.row_filter, AlwaysTrue) else self.row_filter
        with spark_room("host.session_conf").sensitivity(spark, self.case_sensitive):  # Spark looks the filter's names up
            return room.changes_frame(
                spark, found, projection=scan.projection(), storage=self.source.storage, options=options, where=where, limit=self.limit
            )
