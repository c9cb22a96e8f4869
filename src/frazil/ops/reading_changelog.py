"""Read a table's changelog: choose the snapshots and columns, and plan the files whose rows were
inserted or deleted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from frazil.arrow.changelog.read_changelog import (
    ChangelogOptions,
    ChangelogRead,
    count_changelog,
    read_changelog,
)
from frazil.expr.bind import bind
from frazil.expr.nodes import AlwaysTrue, Predicate
from frazil.ops.reading import RowFilter, predicate_of
from frazil.scan.changelog import (
    CHANGELOG_FIELDS,
    ChangelogPlan,
    changelog_schema,
    plan_changelog,
    split_filter,
    update_columns,
)
from frazil.scan.changelog_range import ChangelogRange
from frazil.scan.options import ScanOptions
from frazil.spec.metadata import TableMetadata
from frazil.spec.schema import Schema
from frazil.storage import Storage


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
