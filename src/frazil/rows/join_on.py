"""Split the ON condition of a MERGE into join keys, which a key index can look up, parts over one
side, and the rest.

Rows match if every part is TRUE. So parts over one side are tested before rows are paired, and the
rest is tested on the pairs.
"""

from __future__ import annotations

from dataclasses import dataclass

from frazil.expr.bind import conjunction
from frazil.expr.bound import TRUE, Bound, Comparison, Constant, conjuncts
from frazil.expr.nodes import And, Expression, Reference, names
from frazil.rows.sides import Side, Sides, with_references


@dataclass(frozen=True)
class JoinKey:
    """Hold one join key: `target = source`, or `target <=> source` (`null_safe`); both sides have
    the same type.
    """

    target: Bound
    source: Bound
    null_safe: bool


@dataclass(frozen=True)
class JoinOn:
    """Hold a split ON condition. `of_target`, `of_source`: parts that read one side only (TRUE:
    none). `rest`: parts over both sides. Without keys every target row is paired with every source
    row."""

    keys: tuple[JoinKey, ...]
    of_target: Bound = TRUE
    of_source: Bound = TRUE
    rest: Bound = TRUE

    @property
    def never(self) -> bool:
        """Tell whether no two rows can match, whatever their values."""
        return isinstance(self.of_source, Constant) and self.of_source.value is not True


def split(on: Bound, sides: Sides) -> JoinOn:
    """Split a bound ON condition into its parts."""
    keys: list[JoinKey] = []
    parts: dict[Side, list[Bound]] = {s: [] for s in Side}
    for part in conjuncts(on):
        if (key := _key(part, sides)) is not None:
            keys.append(key)
        else:
            parts[sides.side_of(part) or Side.SOURCE].append(part)
    return JoinOn(
        tuple(keys), *(conjunction(parts[s]) for s in (Side.TARGET, Side.SOURCE, Side.BOTH))
    )


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
    """Return the parts of a qualified ON condition that read the target alone, as predicates over
    the table.
    """
    parts = on.parts if isinstance(on, And) else (on,)
    prefix = sides.target_alias + "."
    return [
        without_alias(p)
        for p in parts
        if (columns := names(p)) and all(n.startswith(prefix) for n in columns)
    ]


def without_alias(qualified: Expression) -> Expression:
    """Strip the alias from an expression over one side, so that it names that side's columns."""

    def bare(r: Reference) -> Reference:
        return Reference(".".join(r.parts[1:]), r.parts[1:])

    unqualified: Expression = with_references(qualified, bare)
    return unqualified
