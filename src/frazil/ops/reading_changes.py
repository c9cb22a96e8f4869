"""Read a table's changelog: which snapshots and columns a read of it is about, and the files of which rows came or went."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from frazil.arrow.changelog.read_changelog import ChangeOptions, ChangeRead, count_changes, read_changes
from frazil.expr.bind import bind
from frazil.expr.nodes import AlwaysTrue, Predicate
from frazil.ops.reading import RowFilter, predicate_of
from frazil.scan.changelog import CHANGE_FIELDS, ChangelogPlan, changelog_schema, plan_changes, split_filter, update_columns
from frazil.scan.changelog_range import ChangeRange
from frazil.scan.options import ScanOptions
from frazil.spec.metadata import TableMetadata
from frazil.spec.schema import Schema
from frazil.storage import Storage


@dataclass(frozen=True)
class ChangesReading:
    """Fields as those of `RowsReading` and of the scan `t.changes(…)`."""

    metadata: TableMetadata
    storage: Storage
    range: ChangeRange = ChangeRange()
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
        """All columns of the changelog: those of the table, then what became of a row."""
        return changelog_schema(self.metadata.schema())

    def projection(self) -> Schema:
        """The schema of the rows that come out."""
        if "*" in self.selected_fields:
            return self.schema
        return self.schema.select(*self.selected_fields, *(f.name for f in CHANGE_FIELDS), case_sensitive=self.is_sensitive)

    def matching(self) -> ChangeOptions:
        """How rows that went and rows that came are matched."""
        columns = update_columns(self.metadata.schema(), self.net, self.identifier_columns, self.compute_updates, self.is_sensitive)
        return ChangeOptions(self.net, columns)

    def decided_first(self, row_filter: Predicate) -> Predicate:
        """The part of a filter that can be decided before rows are matched."""
        first = split_filter(row_filter, self.metadata.schema(), self.matching().key_ids, self.is_sensitive)[0]
        return AlwaysTrue() if first is None else first

    def plan(self, predicate: Predicate | None = None) -> ChangelogPlan:
        """The tasks of each snapshot. `predicate` replaces the part of the filter that is decided before rows are matched."""
        _ = self.schema  # raises where the table has a column of the changelog's names
        if predicate is None:
            predicate = self.decided_first(predicate_of(self.row_filter))
        return plan_changes(
            self.metadata, self.storage, self.range.snapshots(self.metadata), row_filter=predicate, case_sensitive=self.is_sensitive,
            options=ScanOptions.of(self.options, self.metadata.properties),
        )  # fmt: skip

    def batches(self) -> pa.RecordBatchReader:
        """The rows in this process, oldest snapshot first; memory stays bounded whatever was changed."""
        plan = self.plan()
        return read_changes(plan, self.read_of(plan), limit=self.limit)

    def count(self) -> int:
        """How many rows: from the manifests where files came or went whole."""
        if self.limit is not None:
            return sum(b.num_rows for b in self.batches())
        plan = self.plan()
        return count_changes(plan, self.read_of(plan))

    def read_of(self, plan: ChangelogPlan) -> ChangeRead:
        """What tasks that read the plan must know."""
        matching = self.matching()
        last = split_filter(predicate_of(self.row_filter), self.metadata.schema(), matching.key_ids, self.is_sensitive)[1]
        after = None if last is None else bind(last, self.schema, case_sensitive=self.is_sensitive)
        return ChangeRead.of(plan, self.projection(), self.storage, matching, after)
