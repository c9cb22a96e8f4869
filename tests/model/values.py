"""Columns and values of the model: a row is a dict by the number of a column, a struct a dict by
the numbers of its members.

A list is a list of structs.
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

nan = math.nan
Row = dict[int, Any]


class Invalid(Exception):
    """A step that makes no sense (any more): scripts with one are not run to the end."""


# kind -> name in DDL, values
KINDS: dict[str, tuple[str, tuple[Any, ...]]] = {
    "int": ("int", (0, 1, 2, 5, -7, 1000, -(2**31))),
    "long": ("bigint", (0, 1, -1, 3, 2**40, -(2**63), 2**63 - 1)),
    "float": ("float", (0.0, -0.0, 1.5, -2.25, nan, math.inf)),
    "double": ("double", (0.0, -0.0, -0.5, 2.0, nan, -math.inf)),
    "decimal": (
        "decimal(9,2)",
        (Decimal("0.00"), Decimal("-0.01"), Decimal("12.50"), Decimal("9999999.99")),
    ),
    "wide": ("decimal(18,2)", (Decimal("0.00"), Decimal("12.50"), Decimal("123456789012.99"))),
    "string": ("string", ("", "a", "ab", "aß𝔘", "b/c=d %", "zzzzzzzzzzzzzzzzzzzz")),
    "date": (
        "date",
        (
            dt.date(1970, 1, 1),
            dt.date(1969, 12, 31),
            dt.date(2024, 2, 29),
            dt.date(2024, 3, 1),
            dt.date(1, 1, 1),
        ),
    ),
    "timestamp": (
        "timestamp_ntz",
        (
            dt.datetime(1969, 12, 31, 23, 59, 59),
            dt.datetime(2024, 2, 29, 1),
            dt.datetime(2024, 2, 29, 2, 0, 0, 7),
        ),
    ),
    "boolean": ("boolean", (True, False)),
}
WIDER = {"int": "long", "float": "double", "decimal": "wide"}
TRANSFORMS = {
    "int": ("{}", "bucket(2, {})", "truncate(4, {})"), "long": ("bucket(3, {})", "truncate(10, {})"), "decimal": ("bucket(2, {})", "truncate(50, {})"),
    "wide": ("truncate(50, {})",), "string": ("{}", "bucket(2, {})", "truncate(1, {})"), "date": ("{}", "years({})", "months({})", "days({})"),
    "timestamp": ("days({})", "months({})", "bucket(2, {})"), "boolean": ("{}",), "float": ("{}",), "double": (),
}  # fmt: skip


@dataclass(frozen=True)
class Column:
    """`default`: what rows have that were written before it came, and inserts that do not name it.
    `members`: of a struct, or of the structs in a list (kind "list")."""

    number: int
    name: str
    kind: str
    default: Any = None
    members: tuple[Column, ...] = ()


Columns = tuple[Column, ...]


def quoted(name: str) -> str:
    return name if name.isidentifier() and name.isascii() else "`" + name.replace("`", "``") + "`"


def ddl(columns: Columns) -> str:
    def one(c: Column) -> str:
        if not c.members:
            return KINDS[c.kind][0]
        struct = f"struct<{', '.join(f'{quoted(m.name)}: {one(m)}' for m in c.members)}>"
        return f"array<{struct}>" if c.kind == "list" else struct

    return ", ".join(f"{quoted(c.name)} {one(c)}" for c in columns)


def find(columns: Columns, path: str) -> tuple[Column, ...]:
    """The columns along a dotted path; the "element" of a list stands for its struct and is no
    column. Raises Invalid.
    """
    found: tuple[Column, ...] = ()
    inside = columns
    for name in path.split("."):
        if name == "element" and found and found[-1].kind == "list":
            continue
        try:
            found += (next(c for c in inside if c.name == name),)
        except StopIteration:
            raise Invalid(f"no column {path}") from None
        inside = found[-1].members
    return found


def leaves(columns: Columns) -> Iterator[tuple[str, Column]]:
    """(dotted path, column) of all that are no structs and lie in no list."""
    for c in columns:
        if c.kind == "list":
            continue
        if c.members:
            yield from ((f"{c.name}.{path}", m) for path, m in leaves(c.members))
        else:
            yield c.name, c


def evolving(columns: Columns) -> list[str]:
    """Dotted paths of the columns that can be dropped, renamed or widened, in lists as well."""
    inside = [f"{c.name}.element.{m.name}" for c in columns if c.kind == "list" for m in c.members]
    return [path for path, _ in leaves(columns)] + [c.name for c in columns if c.members] + inside


def changed(columns: Columns, path: str, **changes: Any) -> Columns:
    """With one column (or member) changed."""
    target = find(columns, path)

    def one(c: Column, rest: tuple[Column, ...]) -> Column:
        if c != rest[0]:
            return c
        return (
            replace(c, **changes)
            if len(rest) == 1
            else replace(c, members=tuple(one(m, rest[1:]) for m in c.members))
        )

    return tuple(one(c, target) for c in columns)


def without(columns: Columns, path: str) -> Columns:
    target = find(columns, path)

    def some(inside: Columns, rest: tuple[Column, ...]) -> Columns:
        if len(rest) == 1:
            return tuple(c for c in inside if c != rest[0])
        return tuple(
            replace(c, members=some(c.members, rest[1:])) if c == rest[0] else c for c in inside
        )

    return some(columns, target)


def value_of(row: Row | None, c: Column) -> Any:
    """Of a stored row (or struct), structs by number."""
    return None if row is None else row.get(c.number, c.default)


def at(row: Row, path: tuple[Column, ...]) -> Any:
    found: Any = row
    for c in path:
        found = value_of(found, c)
    return found


def shown(row: Row | None, columns: Columns) -> dict[str, Any] | None:
    """A stored row as a reader sees it: by names."""
    return None if row is None else {c.name: _each(value_of(row, c), c, shown) for c in columns}


def stored(named: dict[str, Any] | None, columns: Columns) -> Row | None:
    """What a frame holds, by number; columns that it lacks are null, those that the table lacks are
    dropped.
    """
    return (
        None if named is None else {c.number: _each(named.get(c.name), c, stored) for c in columns}
    )


def _each(value: Any, c: Column, turned: Callable[[Any, Columns], Any]) -> Any:
    """`turned` applied to the structs of a value."""
    if c.kind == "list":
        return None if value is None else [turned(v, c.members) for v in value]
    return turned(value, c.members) if c.members else value


def stored_value(value: Any, c: Column) -> Any:
    return _each(value, c, stored)


def plain(value: Any) -> Any:
    """Comparable by ==: NaN is itself, and -0.0 is not 0.0."""
    match value:
        case float():
            return f"float {value!r}"
        case dict():
            return tuple((k, plain(v)) for k, v in sorted(value.items()))
        case list() | tuple():
            return tuple(plain(v) for v in value)
    return value


def alike(one: Any, other: Any) -> bool:
    """Equal as SQL compares: NaN is itself, and -0.0 is 0.0."""
    return _no_sign(plain(one)) == _no_sign(plain(other))


def _no_sign(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(_no_sign, value))
    return "float 0.0" if value == "float -0.0" else value


def as_set(rows: Iterable[Any]) -> list[Any]:
    """Rows (dicts by name) in an order of their own, to be compared by ==."""
    return sorted(map(plain, rows), key=repr)
