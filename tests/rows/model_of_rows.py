"""A plain Python model of a table under row-level changes: rows by a key that never changes, conditions and new values as functions.

A condition is SQL text beside a function that gives True, False or None (NULL); NaN is above every number, as in Spark.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Row = dict[str, Any]
SCHEMA = "k long not null, id long, x double, s string, p int, t struct<a: int, b: string>"


def order(v: float) -> tuple[bool, float]:
    return (True, 0.0) if math.isnan(v) else (False, v + 0.0)


def above(column: str, bound: float) -> Callable[[Row], bool | None]:
    return lambda r: None if r[column] is None else order(r[column]) > order(bound)


def both(a: bool | None, b: bool | None) -> bool | None:
    return False if a is False or b is False else None if a is None or b is None else True


def either(a: bool | None, b: bool | None) -> bool | None:
    return True if a or b else None if a is None or b is None else False


def no(a: bool | None) -> bool | None:
    return None if a is None else not a


@dataclass(frozen=True)
class Condition:
    text: str
    holds: Callable[[Row], bool | None]

    def __repr__(self) -> str:
        return self.text


def eq(column: str, value: Any) -> Callable[[Row], bool | None]:
    return lambda r: None if r[column] is None else r[column] == value


def starts(r: Row) -> bool | None:
    return None if r["s"] is None else r["s"].startswith("a")


CONDITIONS = (
    Condition("x > 1", above("x", 1)),
    Condition("NOT (x > 1)", lambda r: no(above("x", 1)(r))),
    Condition("x > 100", above("x", 100)),
    Condition("isnan(x)", lambda r: r["x"] is not None and math.isnan(r["x"])),
    Condition("x IS NULL", lambda r: r["x"] is None),
    Condition("id IN (1, 3, 5, 7, null)", lambda r: True if r["id"] in (1, 3, 5, 7) else None),
    Condition("id NOT IN (1, 2, 3)", lambda r: None if r["id"] is None else r["id"] not in (1, 2, 3)),
    Condition("s LIKE 'a%' OR x < 0", lambda r: either(starts(r), None if r["x"] is None else order(r["x"]) < (False, 0.0))),
    Condition("s LIKE 'a%' AND p = 1", lambda r: both(starts(r), eq("p", 1)(r))),
    Condition("p = 1", eq("p", 1)),
    Condition("p <=> null", lambda r: r["p"] is None),
    Condition("t.a = 2", lambda r: None if r["t"] is None or r["t"]["a"] is None else r["t"]["a"] == 2),
    Condition("id = p", lambda r: None if r["id"] is None or r["p"] is None else r["id"] == r["p"]),
    Condition("true", lambda r: True),
    Condition("false", lambda r: False),
    Condition("x > null", lambda r: None),
)


@dataclass(frozen=True)
class Setting:
    given: dict[str, Any]
    change: Callable[[Row], Row]

    def __repr__(self) -> str:
        return repr(self.given)


def concat(value: str | None) -> str | None:
    return None if value is None else value + "!"


def plus(value: Any, more: Any) -> Any:
    return None if value is None or more is None else value + more


SETTINGS = (
    Setting({"x": "x + 1"}, lambda r: {"x": plus(r["x"], 1)}),
    Setting({"s": "concat(s, '!')"}, lambda r: {"s": concat(r["s"])}),
    Setting({"p": "p + 1", "id": "p"}, lambda r: {"p": plus(r["p"], 1), "id": r["p"]}),
    Setting({"s": None, "x": 2.5}, lambda r: {"s": None, "x": 2.5}),
    Setting({"p": "cast(id % 3 as int)"}, lambda r: {"p": None if r["id"] is None else int(math.fmod(r["id"], 3))}),
    Setting(
        {"t.a": "coalesce(p, 9)"}, lambda r: {"t": {"a": 9 if r["p"] is None else r["p"], "b": None if r["t"] is None else r["t"]["b"]}}
    ),
    Setting({"id": "id"}, lambda r: {}),
)


def same(rows: list[Row], wanted: list[Row]) -> bool:
    """Rows equal in any order; NaN equals NaN."""
    return sorted(map(shown, rows)) == sorted(map(shown, wanted))


def shown(row: Row) -> str:
    return repr(sorted((k, shown(v) if isinstance(v, dict) else v) for k, v in row.items()))
