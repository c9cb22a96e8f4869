"""Describe a MERGE: the builder that `t.merge(…)` returns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from frazil.rows import clauses as c
from frazil.rows.clauses import Clause, Merge
from frazil.table.habits import OF_MERGES, no_such_method

R = TypeVar("R")


@dataclass(frozen=True)
class MergeBuilder(Generic[R]):
    """A MERGE that is being described; every `when_…` returns a new builder, `execute` does it.

    Clauses of a kind are tried in the order given, the first whose condition is TRUE acts. Conditions and values are Spark SQL text over
    `target.…` and `source.…` (or the aliases given), expressions, or constants; on Spark also Columns.
    """

    frame: Any
    merge: Merge
    run: Callable[[Any, Merge, str | None], R]

    def _with(self, clause: Clause) -> MergeBuilder[R]:
        return replace(self, merge=replace(self.merge, clauses=(*self.merge.clauses, clause)))

    def when_matched_update(self, set: Mapping[str, Any], condition: Any = None) -> MergeBuilder[R]:
        """Sets columns (or members of structs, "s.x") of target rows that match."""
        return self._with(c.matched_update(set, condition))

    def when_matched_update_all(self, condition: Any = None) -> MergeBuilder[R]:
        """Sets every column to the source's of the same name."""
        return self._with(c.matched_update_all(condition))

    def when_matched_delete(self, condition: Any = None) -> MergeBuilder[R]:
        return self._with(c.matched_delete(condition))

    def when_not_matched_insert(self, values: Mapping[str, Any], condition: Any = None) -> MergeBuilder[R]:
        """Inserts source rows that match nothing; columns that are not named take their default, or null."""
        return self._with(c.not_matched_insert(values, condition))

    def when_not_matched_insert_all(self, condition: Any = None) -> MergeBuilder[R]:
        """Inserts source rows that match nothing, columns by name."""
        return self._with(c.not_matched_insert_all(condition))

    def when_not_matched_by_source_update(self, set: Mapping[str, Any], condition: Any = None) -> MergeBuilder[R]:
        """Sets columns of target rows that no source row matches."""
        return self._with(c.not_matched_by_source_update(set, condition))

    def when_not_matched_by_source_delete(self, condition: Any = None) -> MergeBuilder[R]:
        return self._with(c.not_matched_by_source_delete(condition))

    def with_schema_evolution(self) -> MergeBuilder[R]:
        """Columns that only the source has are added to the table where they are assigned; those it lacks stay as they are."""
        return replace(self, merge=replace(self.merge, merge_schema=True))

    def execute(self, mode: str | None = None) -> R:
        """Does it: one snapshot. `mode`: copy-on-write, merge-on-read, None: the table's write.merge.mode."""
        self.merge.check()
        return self.run(self.frame, self.merge, mode)

    def __repr__(self) -> str:
        """The statement; the frame by its kind, as rows need not be seen."""
        clauses = "".join(f"\n  {c}" for c in self.merge.clauses) or "\n  (no clause yet)"
        return f"MergeBuilder({type(self.frame).__name__} on {self.merge.on}){clauses}"

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            raise no_such_method(self, name, OF_MERGES)
