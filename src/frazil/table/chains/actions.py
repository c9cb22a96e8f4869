"""Provide Java's chain for compactions:
`Actions.for_table(t).rewrite_data_files().option("rewrite-all", True).execute()`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

from frazil.errors import InvalidInput
from frazil.expr.nodes import AlwaysTrue, And, Predicate
from frazil.maintain.compact.procedure import RewriteDataFilesResult
from frazil.maintain.progress import ProgressCallback
from frazil.ops.reading import RowFilter
from frazil.ops.row_changes import condition_of
from frazil.ops.session import Session
from frazil.spec.sorting import SortOrder
from frazil.table.maintenance import MaintenanceTable
from frazil.table.table import Table


class Actions:
    """Begin an action on a table, as Java Iceberg's Actions do. `t.maintenance` runs the same and
    all other procedures in one call each.
    """

    def __init__(self, maintenance: MaintenanceTable, spark: Session | None):
        self._maintenance, self._spark = maintenance, spark

    @classmethod
    def for_table(cls, table: Table, *, spark: Session | None = None) -> Actions:
        """Begin actions on a table. `spark`: the session that does the work; None: the one that
        runs, else this process.
        """
        if not isinstance(table, Table):
            raise InvalidInput(
                f"Actions.for_table takes a table, not {table!r:.200}.",
                hint="frazil.load_table(name) loads one.",
            )
        return cls(table.maintenance, spark)

    def rewrite_data_files(self) -> RewriteDataFiles:
        """Begin a compaction; nothing happens before `execute()`."""
        return RewriteDataFiles(self._maintenance, self._spark)


@dataclass(frozen=True, repr=False)
class RewriteDataFiles:
    """Collect what a compaction is to do; each call returns a new chain. The methods of the chain
    set the fields: `spark` (the session), `strategy`, `order`, `chosen` (options), `where`,
    `branch`. The options are those of `t.maintenance.rewrite_data_files`."""

    maintenance: MaintenanceTable
    spark: Session | None = None
    strategy: str | None = None
    order: Any = None
    chosen: Mapping[str, Any] = field(default_factory=dict)
    where: Predicate = AlwaysTrue()
    branch: str | None = None

    def option(self, name: str, value: object) -> Self:
        """Set an option, such as "min-input-files"."""
        return self.options({name: value})

    def options(self, options: Mapping[str, Any]) -> Self:
        """Set several options."""
        return replace(self, chosen={**self.chosen, **options})

    def target_size_in_bytes(self, size: int) -> Self:
        """Set the size of new files."""
        return self.option("target-file-size-bytes", size)

    def filter(self, condition: RowFilter) -> Self:
        """Take only files that may hold rows matching this condition, and those of earlier calls."""
        both = condition_of(condition)
        return replace(
            self, where=both if isinstance(self.where, AlwaysTrue) else And(self.where, both)
        )

    def bin_pack(self) -> Self:
        """Keep the order of rows."""
        return self._by("binpack", None)

    def sort(self, sort_order: str | Sequence[str] | SortOrder | None = None) -> Self:
        """Sort the rows (None: by the table's sort order)."""
        return self._by("sort", sort_order)

    def z_order(self, *columns: str) -> Self:
        """Order the rows along a z-order curve over these columns."""
        return self._by("zorder", list(columns))

    def to_branch(self, branch: str) -> Self:
        """Choose the branch to compact (main without this)."""
        return replace(self, branch=branch)

    def execute(
        self, *, dry_run: bool = False, progress: ProgressCallback | None = None
    ) -> RewriteDataFilesResult:
        """Run the compaction; returns what it did."""
        return self.maintenance.rewrite_data_files(
            self.strategy,
            self.order,
            self.chosen,
            None if isinstance(self.where, AlwaysTrue) else self.where,
            self.branch,
            dry_run=dry_run,
            progress=progress,
            spark=self.spark,
        )

    def _by(self, strategy: str, order: object) -> Self:
        if self.strategy is not None:
            raise InvalidInput(
                f"Must use only one rewriter type (bin-pack, sort, zorder): {self.strategy} was chosen already."
            )
        return replace(self, strategy=strategy, order=order)
