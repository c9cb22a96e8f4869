"""Define bound expressions: columns by id, literals as internal values, both sides of a comparison
of the same type.

There are few node types, so that every walk is short: `a <> b` is Not(Comparison("eq")), NOT IN is
Not(Membership), IS NOT NULL is Not(NullTest), which is exact in three-valued logic. `str()` is
readable, but not SQL.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from frazil.spec.types import BooleanType, IcebergType

BOOLEAN = BooleanType()


class Bound:
    """Define the base of bound nodes. `type` is the type of the node's value; a predicate's is
    boolean.
    """

    __slots__ = ()
    type: IcebergType


@dataclass(frozen=True)
class BoundReference(Bound):
    """Refer to a column: `path` holds the names from the top, `ids` their field ids (`ids[-1]` is
    `field_id`). Only structs are stepped into."""

    field_id: int
    type: IcebergType
    path: tuple[str, ...]
    ids: tuple[int, ...] = ()

    @property
    def name(self) -> str:
        return ".".join(self.path)

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class BoundLiteral(Bound):
    """Hold a constant; `value` is an internal value or None."""

    value: Any
    type: IcebergType

    def __str__(self) -> str:
        return repr(self.value)


@dataclass(frozen=True)
class BoundCast(Bound):
    """Represent a cast with Spark's ANSI meaning. `attempt`: null instead of an error. `stores`: it
    is to the type of the column that takes the value, and no CAST of an expression. `zone` is the
    time zone in which dates and text meet timestamps."""

    term: Bound
    type: IcebergType
    zone: str = "UTC"
    attempt: bool = False
    stores: bool = False

    def __str__(self) -> str:
        return f"cast({self.term} as {self.type})"


@dataclass(frozen=True)
class BoundCall(Bound):
    """Represent a call of one of `functions.FUNCTIONS` (by its canonical name), with arguments of
    the types that the function takes.
    """

    function: str
    arguments: tuple[Bound, ...]
    type: IcebergType
    zone: str = "UTC"

    def __str__(self) -> str:
        return f"{self.function}({', '.join(map(str, self.arguments))})"


@dataclass(frozen=True)
class Constant(Bound):
    """Represent TRUE, FALSE or NULL (None) for every row."""

    value: bool | None
    type: IcebergType = BOOLEAN

    def __str__(self) -> str:
        return {True: "TRUE", False: "FALSE", None: "NULL"}[self.value]


@dataclass(frozen=True)
class NullOr(Bound):
    """Represent `value` where the term is not null, else NULL: what remains of `int_col <
    3000000000`.
    """

    term: Bound
    value: bool
    type: IcebergType = BOOLEAN

    def __str__(self) -> str:
        return f"({self.term} is null ? null : {self.value})"


@dataclass(frozen=True)
class Comparison(Bound):
    """Compare two terms. `op` is eq, lt, le, gt, ge or nseq (`<=>`). A literal is on the right.
    Floats are in Spark's order: NaN = NaN, above all; -0.0 = 0.0."""

    op: str
    left: Bound
    right: Bound
    type: IcebergType = BOOLEAN

    def __str__(self) -> str:
        sign = {"eq": "=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "nseq": "<=>"}[self.op]
        return f"({self.left} {sign} {self.right})"


@dataclass(frozen=True)
class Membership(Bound):
    """Represent `term IN (values)`; `values` are internal values of the term's type, sorted and
    different; `has_null`: NULL where none is equal."""

    term: Bound
    values: tuple[Any, ...]
    has_null: bool = False
    type: IcebergType = BOOLEAN

    def __str__(self) -> str:
        shown = ", ".join(repr(v) for v in self.values[:10]) + (
            f", … {len(self.values)} values" if len(self.values) > 10 else ""
        )
        return f"({self.term} in ({shown}{', null' if self.has_null else ''}))"


@dataclass(frozen=True)
class NullTest(Bound):
    """Represent `term IS NULL`."""

    term: Bound
    type: IcebergType = BOOLEAN

    def __str__(self) -> str:
        return f"({self.term} is null)"


@dataclass(frozen=True)
class NaNTest(Bound):
    """Represent `isnan(term)`: false for null, as in Spark."""

    term: Bound
    type: IcebergType = BOOLEAN

    def __str__(self) -> str:
        return f"isnan({self.term})"


@dataclass(frozen=True)
class PrefixTest(Bound):
    """Represent `startswith(term, prefix)`, also what `LIKE 'abc%'` becomes."""

    term: Bound
    prefix: str | bytes
    type: IcebergType = BOOLEAN

    def __str__(self) -> str:
        return f"startswith({self.term}, {self.prefix!r})"


@dataclass(frozen=True)
class LikeTest(Bound):
    """Represent LIKE with wildcards: `pieces` is the pattern taken apart: text, or None for `%` and
    1 for `_`.
    """

    term: Bound
    pieces: tuple[str | int | None, ...]
    type: IcebergType = BOOLEAN

    def __str__(self) -> str:
        text = "".join("%" if p is None else "_" if p == 1 else str(p) for p in self.pieces)
        return f"({self.term} like {text!r})"


@dataclass(frozen=True)
class BoundNot(Bound):
    child: Bound
    type: IcebergType = BOOLEAN

    def __str__(self) -> str:
        return f"(not {self.child})"


@dataclass(frozen=True)
class BoundAnd(Bound):
    parts: tuple[Bound, ...]
    type: IcebergType = BOOLEAN

    def __str__(self) -> str:
        return "(" + " and ".join(map(str, self.parts)) + ")"


@dataclass(frozen=True)
class BoundOr(Bound):
    parts: tuple[Bound, ...]
    type: IcebergType = BOOLEAN

    def __str__(self) -> str:
        return "(" + " or ".join(map(str, self.parts)) + ")"


TRUE, FALSE, NULL = Constant(True), Constant(False), Constant(None)


def children(bound: Bound) -> tuple[Bound, ...]:
    """Return the child nodes."""
    match bound:
        case BoundAnd(parts=parts) | BoundOr(parts=parts) | BoundCall(arguments=parts):
            return parts
        case BoundNot(child=child):
            return (child,)
        case Comparison(left=left, right=right):
            return (left, right)
        case (
            Membership(term=term)
            | NullTest(term=term)
            | NaNTest(term=term)
            | PrefixTest(term=term)
            | LikeTest(term=term)
        ):
            return (term,)
        case NullOr(term=term) | BoundCast(term=term):
            return (term,)
    return ()


def walk(bound: Bound) -> Iterator[Bound]:
    """Yield every node, outermost first."""
    todo = [bound]
    while todo:
        node = todo.pop()
        yield node
        todo.extend(reversed(children(node)))


def references(bound: Bound) -> dict[int, BoundReference]:
    """Return the columns that an expression reads, by field id."""
    return {n.field_id: n for n in walk(bound) if isinstance(n, BoundReference)}


def conjuncts(bound: Bound) -> tuple[Bound, ...]:
    """Return the parts that must all be TRUE for a row to be kept."""
    match bound:
        case Constant(value=True):
            return ()
        case BoundAnd(parts=parts):
            return parts
    return (bound,)
