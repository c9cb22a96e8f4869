"""Bind the expressions of a MERGE over target and source: one schema of two structs, named by the
aliases (`target.x`, `source.y`).

A name without an alias means the side that has such a column; a name that both sides have is
refused. Clauses for rows of one side see only that side.
"""

from __future__ import annotations

import copy
import dataclasses
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from typing import Any

from frazil.errors import InvalidInput
from frazil.expr.bind import bind, bind_term, refuse_metadata_column
from frazil.expr.bound import Bound, references
from frazil.expr.double_quotes import columns_of, columns_of_sides
from frazil.expr.nodes import AlwaysFalse, AlwaysTrue, Expression, Reference, Translated
from frazil.expr.parse import parse
from frazil.spec.schema import Schema, assign_fresh_ids, no_column
from frazil.spec.types import NestedField, StructType


class Side(Enum):
    TARGET = "target"
    SOURCE = "source"
    BOTH = "both"


@dataclass(frozen=True)
class Sides:
    """Hold the schemas of both sides. The field ids of `source` are none of the table's (see
    `sides_of`). Aliases are as the user gave them."""

    target: Schema
    source: Schema
    target_alias: str = "target"
    source_alias: str = "source"
    case_sensitive: bool = True
    zone: str = "UTC"
    ansi: bool = True
    spark: bool = False

    @cached_property
    def pair(self) -> Schema:
        """Return the schema over both sides: one struct per side, named by the aliases."""
        first = max(self.target.highest_field_id, self.source.highest_field_id) + 1
        target = NestedField(first, self.target_alias, StructType(*self.target.fields))
        return Schema(
            target, NestedField(first + 1, self.source_alias, StructType(*self.source.fields))
        )

    @cached_property
    def of_source(self) -> frozenset[int]:
        return frozenset(self.source.by_id)

    def condition(self, condition: object, side: Side = Side.BOTH) -> Bound:
        """Bind a condition over the columns of one side, or of both."""
        return bind(self.qualified(condition, side), self.pair, **self._means)

    def term(self, expression: Expression, side: Side = Side.BOTH) -> Bound:
        """Bind a value over the columns of one side, or of both."""
        return bind_term(self.qualified(expression, side), self.pair, **self._means)

    @cached_property
    def _means(self) -> dict[str, Any]:
        sides = [(self.target_alias, self.target), (self.source_alias, self.source)]
        named = columns_of_sides([(a, columns_of(s)) for a, s in sides])
        return {
            "case_sensitive": self.case_sensitive,
            "zone": self.zone,
            "ansi": self.ansi,
            "spark": self.spark,
            "column_of": named,
        }

    def qualified(self, expression: object, side: Side = Side.BOTH) -> Expression:
        """Qualify every column name of an expression with the alias of its side."""
        qualified: Expression = with_references(
            _expression(expression), lambda r: self._placed(r, side)
        )
        return qualified

    def side_of(self, bound: Bound) -> Side | None:
        """Return the side whose columns an expression reads; None: it reads no column."""
        in_source = {i in self.of_source for i in references(bound)}
        return (
            None
            if not in_source
            else Side.BOTH
            if len(in_source) == 2
            else Side.SOURCE
            if True in in_source
            else Side.TARGET
        )

    def _placed(self, reference: Reference, side: Side) -> Reference:
        first = reference.parts[0]
        for alias, named in ((self.target_alias, Side.TARGET), (self.source_alias, Side.SOURCE)):
            if len(reference.parts) > 1 and self.same_name(first, alias):
                if side not in (named, Side.BOTH):
                    text = f"{reference} cannot be used here: this clause is for rows that have no {named.value} row."
                    raise InvalidInput(text, column=str(reference))
                return Reference(
                    ".".join((alias, *reference.parts[1:])), (alias, *reference.parts[1:])
                )
        alias = (
            self.target_alias if self._owner(reference, side) is Side.TARGET else self.source_alias
        )
        return Reference(f"{alias}.{reference.name}", (alias, *reference.parts))

    def _owner(self, reference: Reference, side: Side) -> Side:
        schemas = ((Side.TARGET, self.target), (Side.SOURCE, self.source))
        owners = [
            s for s, schema in schemas if side in (s, Side.BOTH) and self._has(schema, reference)
        ]
        if len(owners) == 2:
            raise InvalidInput(
                f"Column {reference} is in both the target and the source of the MERGE.",
                hint=f"Write {self.target_alias}.{reference} or {self.source_alias}.{reference}.",
                column=str(reference),
            )
        if not owners:
            refuse_metadata_column(reference.parts[0], str(reference))
            names = [
                f"{a}.{n}"
                for a, s in ((self.target_alias, self.target), (self.source_alias, self.source))
                for n in s.column_names
            ]
            raise no_column(str(reference), names)
        return owners[0]

    def _has(self, schema: Schema, r: Reference) -> bool:
        return bool(schema.fields_named(r.parts[0], self.case_sensitive)) or schema.has_name(
            r.name, self.case_sensitive
        )

    def has_target(self, parts: Sequence[str]) -> bool:
        """Tell whether the target has a column of this name; of a path only the first part is
        looked up.
        """
        return self._has(self.target, Reference(".".join(parts), tuple(parts)))

    def is_target(self, name: str) -> bool:
        return self.same_name(name, self.target_alias)

    def same_name(self, a: str, b: str) -> bool:
        return a == b or (not self.case_sensitive and a.lower() == b.lower())


def sides_of(target: Schema, source: Schema, **more: Any) -> Sides:
    """Make the two sides, with fresh field ids for the source. `more`: aliases, case_sensitive,
    zone, ansi, spark.
    """
    fresh = itertools.count(target.highest_field_id + 1).__next__
    return Sides(target, assign_fresh_ids(source, fresh), **more)


def _expression(condition: object) -> Expression:
    if isinstance(condition, bool):
        return AlwaysTrue() if condition else AlwaysFalse()
    if isinstance(condition, str):
        return parse(condition)
    if isinstance(condition, Expression):
        return condition.node if isinstance(condition, Translated) else condition
    raise InvalidInput(
        f"A condition must be a string or a predicate of frazil.expressions, not {type(condition).__name__}."
    )


def with_references(node: Any, change: Callable[[Reference], Expression]) -> Any:
    """Replace each column of an expression by the result of `change`."""
    if isinstance(node, Reference):
        return change(node)
    if isinstance(node, tuple):
        return tuple(with_references(n, change) for n in node)
    if not isinstance(node, Expression) or not dataclasses.is_dataclass(node):
        return node
    changed = copy.copy(node)
    for f in dataclasses.fields(node):
        object.__setattr__(changed, f.name, with_references(getattr(node, f.name), change))
    return changed
