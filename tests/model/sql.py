"""Random expressions: their Spark SQL text, and their values on a row of the model (None is null,
as in SQL).
"""

from __future__ import annotations

import datetime as dt
import math
import operator
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from tests.model.values import KINDS, Column, Columns, Invalid, Row, at, find, leaves, quoted

Env = Mapping[str, tuple[Row | None, Columns]]  # side ("" for the only one) -> its row and columns


@dataclass(frozen=True)
class Expr:
    """`parts`: simpler ones that may stand in its place when a failure shrinks. `uses`: the
    columns, as (side, path). `given`: a new value that is handed over as a Python value, not as
    text."""

    text: str
    value: Callable[[Env], Any]
    parts: tuple[Expr, ...] = ()
    uses: frozenset[tuple[str, str]] = frozenset()
    given: bool = False

    def __repr__(self) -> str:
        return self.text

    def code(self) -> str:
        return self.text if self.given else repr(self.text)

    def check(self, env: Env) -> Expr:
        """Raises Invalid when a column is not there."""
        for side, path in self.uses:
            if side not in env:
                raise Invalid(f"no {side}")
            find(env[side][1], path)
        return self

    def holds(self, env: Env) -> bool:
        return self.value(env) is True


def over(row: Row, columns: Columns) -> Env:
    return {"": (row, columns)}


def order(value: Any) -> Any:
    """Spark's order: NaN above all, -0.0 as 0.0, text by its bytes."""
    if isinstance(value, float):
        return (1, 0.0) if math.isnan(value) else (0, value + 0.0)
    return value.encode() if isinstance(value, str) else value


def literal(value: Any, kind: str) -> Expr:
    match value:
        case None:
            text = "NULL"
        case bool():
            text = str(value).lower()
        case float() if not math.isfinite(value):
            text = f"CAST('{'NaN' if math.isnan(value) else 'Infinity' if value > 0 else '-Infinity'}' AS {kind.upper()})"
        case float():
            value += 0.0  # a literal has no negative zero
            text = f"CAST({value} AS {kind.upper()})"
        case Decimal():
            text = f"CAST({value} AS {KINDS[kind][0].upper()})"
        case str():
            text = f"'{value}'"
        case dt.datetime():
            text = f"TIMESTAMP_NTZ '{value.isoformat(sep=' ')}'"
        case dt.date():
            text = f"DATE '{value.isoformat()}'"
        case int():
            text = str(value) if -(2**31) <= value < 2**31 else f"CAST('{value}' AS BIGINT)"
    return Expr(text, lambda env: value)


def given(value: Any) -> Expr:
    """A Python value as the new value of a column."""
    return Expr(repr(value), lambda env: value, given=True)


def of(text: str, function: Callable[..., Any], *terms: Expr, nulls: bool = False) -> Expr:
    """Any text, with what it is worth as a function of its terms; `nulls`: the function takes
    nulls, else they make it null.
    """

    def value(env: Env) -> Any:
        found = [term.value(env) for term in terms]
        return function(*found) if nulls or None not in found else None

    return Expr(text, value, (), frozenset().union(*(term.uses for term in terms)))


def column(path: str, side: str = "") -> Expr:
    def value(env: Env) -> Any:
        row, columns = env[side]
        found = find(columns, path)
        return None if row is None else at(row, found)

    text = ".".join(quoted(p) for p in path.split("."))
    return Expr(f"{side}.{text}" if side else text, value, (), frozenset({(side, path)}))


TESTS = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def compare(left: Expr, word: str, right: Expr) -> Expr:
    def value(env: Env) -> bool | None:
        a, b = left.value(env), right.value(env)
        if word == "<=>":
            return order(a) == order(b)
        return None if a is None or b is None else bool(TESTS[word](order(a), order(b)))

    return Expr(f"{left.text} {word} {right.text}", value, (), left.uses | right.uses)


def is_null(term: Expr) -> Expr:
    return Expr(f"{term.text} IS NULL", lambda env: term.value(env) is None, (), term.uses)


def is_in(term: Expr, values: Sequence[Expr]) -> Expr:
    def value(env: Env) -> bool | None:
        a, found = term.value(env), [v.value(env) for v in values]
        if a is None:
            return None
        if any(b is not None and order(a) == order(b) for b in found):
            return True
        return None if None in found else False

    return Expr(f"{term.text} IN ({', '.join(v.text for v in values)})", value, (), term.uses)


def negated(one: Expr) -> Expr:
    def value(env: Env) -> bool | None:
        found = one.value(env)
        return None if found is None else not found

    return Expr(f"NOT ({one.text})", value, (one,), one.uses)


def both(a: Expr, b: Expr) -> Expr:
    def value(env: Env) -> bool | None:
        x, y = a.value(env), b.value(env)
        return False if x is False or y is False else None if x is None or y is None else True

    return Expr(f"({a.text}) AND ({b.text})", value, (a, b), a.uses | b.uses)


def either(a: Expr, b: Expr) -> Expr:
    found = negated(both(negated(a), negated(b)))
    return Expr(f"({a.text}) OR ({b.text})", found.value, (a, b), found.uses)


def every_third(term: Expr, rest: int) -> Expr:
    def value(env: Env) -> bool | None:
        a = term.value(env)
        return None if a is None else math.fmod(a, 3) == rest

    return Expr(f"{term.text} % 3 = {rest}", value, (), term.uses)


def starts(term: Expr, prefix: str) -> Expr:
    def value(env: Env) -> bool | None:
        a = term.value(env)
        return None if a is None else a.startswith(prefix)

    return Expr(f"{term.text} LIKE '{prefix}%'", value, (), term.uses)


def true() -> Expr:
    return Expr("true", lambda env: True)


# --- at random


def predicate(
    rng: random.Random, columns: Columns, side: str = "", top: int = 20, depth: int = 0
) -> Expr:
    """`top`: the greatest key that may be there."""
    if depth < 2 and rng.random() < 0.3:
        a, b = (predicate(rng, columns, side, top, depth + 1) for _ in range(2))
        return rng.choice([both, either, lambda x, y: negated(x)])(a, b)
    path, c = rng.choice(list(leaves(columns)))
    if rng.random() < 0.25:
        path, c = "k", find(columns, "k")[-1]
    term = column(path, side)
    literals = [
        literal(v, c.kind)
        for v in (
            [rng.randrange(1, top + 1) for _ in range(3)] if path == "k" else KINDS[c.kind][1]
        )
    ]
    match rng.randrange(9):
        case 0:
            return is_null(term)
        case 1:
            return negated(is_null(term))
        case 2:
            some = rng.sample(literals, 2) + ([literal(None, c.kind)] if rng.random() < 0.1 else [])
            return is_in(term, some) if rng.random() < 0.7 else negated(is_in(term, some))
        case 3 if path == "k":
            return every_third(term, rng.randrange(3))
        case 3 if c.kind == "string":
            return starts(term, rng.choice(["a", "b/", "z"]))
        case 4:
            others = [p for p, o in leaves(columns) if o.kind == c.kind and p != path]
            if others:
                return compare(term, rng.choice([*TESTS, "<=>"]), column(rng.choice(others), side))
    return compare(term, rng.choice([*TESTS, "=", "=", "<=>"]), rng.choice(literals))


def new_value(
    rng: random.Random,
    c: Column,
    columns: Columns,
    sides: Sequence[tuple[str, Columns]] = (),
    top: int = 20,
) -> Expr:
    """A value for a column; `sides`: (name, columns) that it may be taken from."""
    sides = sides or [("", columns)]
    same = [
        column(path, side) for side, there in sides for path, o in leaves(there) if o.kind == c.kind
    ]
    constant = literal(rng.choice(KINDS[c.kind][1]), c.kind)
    match rng.randrange(6):
        case 0:
            # texts are expressions
            return (
                literal(None, c.kind)
                if rng.random() < 0.7 or c.kind == "string"
                else given(rng.choice(KINDS[c.kind][1]))
            )
        case 1 | 2 if same:
            return rng.choice(same)
        case 3 if same:
            return coalesce(rng.choice(same), constant)
        case 4 if same:
            side, there = rng.choice(list(sides))
            return case(predicate(rng, there, side, top), rng.choice(same), constant)
        case 5 if same and c.kind == "string":
            return concat(rng.choice(same), "!")
        case 5 if same and c.kind == "date":
            return next_day(rng.choice(same))
        case 5 if same and c.kind == "int":
            return plus_one(rng.choice(same))
    return constant


def coalesce(a: Expr, b: Expr) -> Expr:
    def value(env: Env) -> Any:
        found = a.value(env)
        return b.value(env) if found is None else found

    return Expr(f"coalesce({a.text}, {b.text})", value, (a, b), a.uses | b.uses)


def case(test: Expr, a: Expr, b: Expr) -> Expr:
    text = f"CASE WHEN {test.text} THEN {a.text} ELSE {b.text} END"
    return Expr(
        text,
        lambda env: a.value(env) if test.holds(env) else b.value(env),
        (a, b),
        test.uses | a.uses | b.uses,
    )


def concat(a: Expr, end: str) -> Expr:
    def value(env: Env) -> Any:
        found = a.value(env)
        return None if found is None else found + end

    return Expr(f"concat({a.text}, '{end}')", value, (a,), a.uses)


def next_day(a: Expr) -> Expr:
    def value(env: Env) -> Any:
        found = a.value(env)
        return None if found is None else found + dt.timedelta(days=1)

    return Expr(f"date_add({a.text}, 1)", value, (a,), a.uses)


def plus_one(a: Expr) -> Expr:
    def value(env: Env) -> Any:
        found = a.value(env)
        return None if found is None else found + 1

    return Expr(f"{a.text} + 1", value, (a,), a.uses)


def moved(path: str, by: int) -> Expr:
    """`path + by`, for keys."""
    a = column(path)

    def value(env: Env) -> Any:
        found = a.value(env)
        if found is None:
            raise Invalid("a key is null")
        return found + by

    return Expr(f"{a.text} + {by}", value, (), a.uses)
