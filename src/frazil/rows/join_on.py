"""A MERGE's ON condition taken apart: equalities of one side with the other, which an index can answer, and the rest.

Rows match iff every part is TRUE, so parts of one side alone are tested before rows meet, and the rest on rows that have met.
"""

from __future__ import annotations

from dataclasses import dataclass

from frazil.expr.bind import conjunction
from frazil.expr.bound import TRUE, Bound, Comparison, Constant, conjuncts
from frazil.expr.nodes import And, Expression, Reference, names
from frazil.rows.sides import Side, Sides, with_references


@dataclass(frozen=True)
class JoinKey:
    """`target = source`, or `target <=> source`; both sides are of one type."""

    target: Bound
    source: Bound
    null_safe: bool


@dataclass(frozen=True)
class JoinOn:
    """`of_target`, `of_source`: parts that read one side only (TRUE: none). `rest`: parts over both. No keys: every row meets all."""

    keys: tuple[JoinKey, ...]
    of_target: Bound = TRUE
    of_source: Bound = TRUE
    rest: Bound = TRUE

    @property
    def never(self) -> bool:
        """No two rows match, whatever they hold."""
        return isinstance(self.of_source, Constant) and self.of_source.value is not True


def split(on: Bound, sides: Sides) -> JoinOn:
    """The parts of a bound ON condition."""
    keys: list[JoinKey] = []
    parts: dict[Side, list[Bound]] = {s: [] for s in Side}
    for part in conjuncts(on):
        if (key := _key(part, sides)) is not None:
            keys.append(key)
        else:
            parts[sides.side_of(part) or Side.SOURCE].append(part)
    return JoinOn(tuple(keys), *(conjunction(parts[s]) for s in (Side.TARGET, Side.SOURCE, Side.BOTH)))


def _key(part: Bound, sides: Sides) -> JoinKey | None:
    match part:
        case Comparison(op="eq" | "nseq" as op, left=left, right=right):
            match sides.side_of(left), sides.side_of(right):
                case Side.TARGET, Side.SOURCE:
                    return JoinKey(left, right, op == "nseq")
                case Side.SOURCE, Side.TARGET:
                    return JoinKey(right, left, op == "nseq")
    return None


def parts_of_target(on: Expression, sides: Sides) -> list[Expression]:
    """The parts of a qualified ON condition that read the target alone, as predicates over the table."""
    parts = on.parts if isinstance(on, And) else (on,)
    prefix = sides.target_alias + "."
    return [without_alias(p) for p in parts if (found := names(p)) and all(n.startswith(prefix) for n in found)]


def without_alias(qualified: Expression) -> Expression:
    """A qualified expression over one side as one over that side's columns."""

    def bare(r: Reference) -> Reference:
        return Reference(".".join(r.parts[1:]), r.parts[1:])

    found: Expression = with_references(qualified, bare)
    return found
