"""Build a MERGE clause by clause: the builder that `t.merge(…)` returns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Generic, NoReturn, TypeVar

from frazil.ops.engine import Frame
from frazil.ops.reading import RowFilter
from frazil.rows import clauses as c
from frazil.rows.clauses import Clause, Merge
from frazil.table.missing_methods import OF_MERGES, no_such_method

R = TypeVar("R")


@dataclass(frozen=True)
class MergeBuilder(Generic[R]):
    """Build a MERGE: every `when_…` method returns a new builder, `execute` runs it. It holds the
    source (`frame`), the clauses so far (`merge`), and what executes them (`run`).

    Clauses of one kind are tried in the order given; the first one whose condition is TRUE applies.
    Conditions and values are Spark SQL text over `target.…` and `source.…` (or the aliases given),
    expressions or constants, and with Spark also Columns.
    """

    frame: Frame
    merge: Merge
    run: Callable[[Frame, Merge, str | None], R]

    def _with(self, clause: Clause) -> MergeBuilder[R]:
        return replace(self, merge=replace(self.merge, clauses=(*self.merge.clauses, clause)))

    def when_matched_update(
        self, set: Mapping[str, object], condition: RowFilter | None = None
    ) -> MergeBuilder[R]:
        """Update columns, or struct members as in "s.x", of the target rows that match."""
        return self._with(c.matched_update(set, condition))

    def when_matched_update_all(self, condition: RowFilter | None = None) -> MergeBuilder[R]:
        """Update every column of the target rows that match, to the source column of the same name."""
        return self._with(c.matched_update_all(condition))

    def when_matched_delete(self, condition: RowFilter | None = None) -> MergeBuilder[R]:
        """Delete the target rows that match."""
        return self._with(c.matched_delete(condition))

    def when_not_matched_insert(
        self, values: Mapping[str, object], condition: RowFilter | None = None
    ) -> MergeBuilder[R]:
        """Insert the source rows that match no target row. Columns that are not named get their
        write default, or null.
        """
        return self._with(c.not_matched_insert(values, condition))

    def when_not_matched_insert_all(self, condition: RowFilter | None = None) -> MergeBuilder[R]:
        """Insert the source rows that match no target row, with columns matched by name."""
        return self._with(c.not_matched_insert_all(condition))

    def when_not_matched_by_source_update(
        self, set: Mapping[str, object], condition: RowFilter | None = None
    ) -> MergeBuilder[R]:
        """Update columns of the target rows that no source row matches."""
        return self._with(c.not_matched_by_source_update(set, condition))

    def when_not_matched_by_source_delete(
        self, condition: RowFilter | None = None
    ) -> MergeBuilder[R]:
        """Delete the target rows that no source row matches."""
        return self._with(c.not_matched_by_source_delete(condition))

    def with_schema_evolution(self) -> MergeBuilder[R]:
        """Add to the table the assigned columns that only the source has. Columns that the source
        lacks stay as they are.
        """
        return replace(self, merge=replace(self.merge, merge_schema=True))

    def execute(self, mode: str | None = None) -> R:
        """Run the MERGE as one snapshot. `mode`: copy-on-write or merge-on-read; None: the table's
        write.merge.mode.
        """
        self.merge.check()
        return self.run(self.frame, self.merge, mode)

    def __repr__(self) -> str:
        """Show the clauses, and the frame by its type only."""
        clauses = "".join(f"\n  {c}" for c in self.merge.clauses) or "\n  (no clause yet)"
        return f"MergeBuilder({type(self.frame).__name__} on {self.merge.on}){clauses}"

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> NoReturn:
            raise no_such_method(self, name, OF_MERGES)
