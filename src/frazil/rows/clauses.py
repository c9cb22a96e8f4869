"""Describe a MERGE: its ON condition and its WHEN clauses in the order given, checked by Spark's
rules.

For each pair of rows that match, each source row without a match, and each target row without a
match, the first clause of that kind whose condition is TRUE applies; if there is none, nothing
happens. Expressions are Spark SQL text, nodes of `frazil.expressions`, Python values (constants,
unless they are text), or, on Spark, Columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

from frazil.errors import InvalidInput
from frazil.expr.nodes import AlwaysTrue


class When(Enum):
    """Name the rows that a clause applies to."""

    MATCHED = "when matched"
    NOT_MATCHED = "when not matched"
    NOT_MATCHED_BY_SOURCE = "when not matched by source"


class Do(Enum):
    UPDATE = "update"
    UPDATE_ALL = "update all"
    DELETE = "delete"
    INSERT = "insert"
    INSERT_ALL = "insert all"


ALLOWED = {
    When.MATCHED: (Do.UPDATE, Do.UPDATE_ALL, Do.DELETE),
    When.NOT_MATCHED: (Do.INSERT, Do.INSERT_ALL),
    When.NOT_MATCHED_BY_SOURCE: (Do.UPDATE, Do.DELETE),
}


@dataclass(frozen=True)
class Clause:
    """Hold one WHEN clause. `condition` None: always. `assignments`: (target column, expression)
    pairs of UPDATE and INSERT, else empty.
    """

    when: When
    do: Do
    condition: Any = None
    assignments: tuple[tuple[str, Any], ...] = ()

    def __post_init__(self) -> None:
        if self.do not in ALLOWED[self.when]:
            raise InvalidInput(f"MERGE: {self.when.value} cannot {self.do.value}.")
        if self.do in (Do.UPDATE, Do.INSERT) and not self.assignments:
            raise InvalidInput(f"MERGE: {self} needs at least one column to set.")

    @property
    def is_unconditional(self) -> bool:
        return self.condition is None or isinstance(self.condition, AlwaysTrue)

    @property
    def takes_all(self) -> bool:
        """Tell whether all columns are matched by name with those of the source (UPDATE *, INSERT
        *).
        """
        return self.do in (Do.UPDATE_ALL, Do.INSERT_ALL)

    @property
    def updates(self) -> bool:
        return self.do in (Do.UPDATE, Do.UPDATE_ALL)

    def __str__(self) -> str:
        test = "" if self.condition is None else f" and {self.condition}"
        return f"{self.when.value}{test} then {self.do.value}"


def matched_update(assignments: Mapping[str, Any], condition: object = None) -> Clause:
    return Clause(When.MATCHED, Do.UPDATE, condition, tuple(assignments.items()))


def matched_update_all(condition: object = None) -> Clause:
    return Clause(When.MATCHED, Do.UPDATE_ALL, condition)


def matched_delete(condition: object = None) -> Clause:
    return Clause(When.MATCHED, Do.DELETE, condition)


def not_matched_insert(assignments: Mapping[str, Any], condition: object = None) -> Clause:
    return Clause(When.NOT_MATCHED, Do.INSERT, condition, tuple(assignments.items()))


def not_matched_insert_all(condition: object = None) -> Clause:
    return Clause(When.NOT_MATCHED, Do.INSERT_ALL, condition)


def not_matched_by_source_update(
    assignments: Mapping[str, Any], condition: object = None
) -> Clause:
    return Clause(When.NOT_MATCHED_BY_SOURCE, Do.UPDATE, condition, tuple(assignments.items()))


def not_matched_by_source_delete(condition: object = None) -> Clause:
    return Clause(When.NOT_MATCHED_BY_SOURCE, Do.DELETE, condition)


@dataclass(frozen=True)
class Merge:
    """Hold a MERGE without its source: `on` is the condition over both sides, whose columns are
    qualified by the aliases. `copied`: columns that are assigned the source's column of their own
    name, where the values do not tell, as those of Spark do not. `native`: makes the MERGE that an
    engine's SQL evaluates, where this one is its translation.

    `check` raises InvalidInput where Spark refuses the statement too: without clauses, or with a
    clause that can never apply because an earlier one of its kind has no condition.
    """

    on: Any
    clauses: tuple[Clause, ...] = ()
    target_alias: str = "target"
    source_alias: str = "source"
    merge_schema: bool = False
    copied: frozenset[tuple[str, ...]] = frozenset()
    native: Callable[[], Merge] | None = field(default=None, repr=False, compare=False)

    def for_engine(self) -> Merge:
        """Return the MERGE as an engine's SQL evaluates it."""
        return (
            self if self.native is None else replace(self.native(), merge_schema=self.merge_schema)
        )

    def of(self, when: When) -> tuple[Clause, ...]:
        """Return the clauses of one kind, in order."""
        return tuple(c for c in self.clauses if c.when is when)

    @property
    def words(self) -> list[Any]:
        """List every condition and assigned value."""
        return [
            self.on,
            *(c.condition for c in self.clauses),
            *(v for c in self.clauses for _, v in c.assignments),
        ]

    def with_words(self, words: Iterable[Any]) -> Merge:
        """Return the MERGE with other conditions and values, in the order of `words`."""
        rest = iter(words)
        on, conditions = next(rest), [next(rest) for _ in self.clauses]
        clauses = tuple(
            replace(c, condition=when, assignments=tuple((n, next(rest)) for n, _ in c.assignments))
            for c, when in zip(self.clauses, conditions, strict=True)
        )
        return replace(self, on=on, clauses=clauses)

    @property
    def checks_cardinality(self) -> bool:
        """Tell whether at most one source row may match a target row, whatever the conditions of
        the clauses; a lone DELETE without a condition is exempt, as in Spark.
        """
        match self.of(When.MATCHED):
            case () | (Clause(do=Do.DELETE, condition=None),):
                return False
        return True

    @property
    def may_pass_over_matches(self) -> bool:
        """Tell whether rows may match without a clause that acts on them."""
        matched = self.of(When.MATCHED)
        return bool(matched) and not matched[-1].is_unconditional

    def check(self) -> None:
        if isinstance(self.on, list | tuple):
            keys = [str(k) for k in self.on] or ["id"]
            both = " AND ".join(f"{self.target_alias}.{k} = {self.source_alias}.{k}" for k in keys)
            hint = f"on={both!r}; by a key alone: t.upsert(frame, join_cols={keys})."
            raise InvalidInput(f"MERGE: on is a condition, not {self.on!r}.", hint=hint)
        if not self.clauses:
            raise InvalidInput(
                "MERGE needs at least one when_… clause.",
                hint="For example .when_matched_update_all().",
            )
        if self.target_alias.lower() == self.source_alias.lower():
            raise InvalidInput(
                f"MERGE: target and source have the same alias {self.source_alias!r}."
            )
        for when in When:
            _last_only(self.of(when))


def _last_only(clauses: Sequence[Clause]) -> None:
    for clause in clauses[:-1]:
        if clause.condition is None:
            raise InvalidInput(
                f"MERGE: of several {clause.when.value.upper()} clauses only the last may have no condition; '{clause}' is not the last.",
                hint="Give it a condition, or put it last.",
            )
