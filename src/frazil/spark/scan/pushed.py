"""Filters that Spark hands to a scan, as predicates that planning can use.

A filter comes as a tree of Catalyst. It is read node by node: its text would not do, as it tells instants in a local time, columns named
`null` like constants, and functions that somebody registered like Spark's own. What is not listed here prunes nothing: Spark evaluates
every filter itself.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import msgspec

from frazil.expr import nodes as n
from frazil.spark.host.jvm import EXPRESSIONS, fall_back
from frazil.spec import types as i

_PAIRS: dict[str, Callable[..., n.Predicate]] = {
    "And": n.And, "Or": n.Or, "EqualTo": n.EqualTo, "EqualNullSafe": n.NullSafeEqualTo, "GreaterThan": n.GreaterThan,
    "GreaterThanOrEqual": n.GreaterThanOrEqual, "LessThan": n.LessThan, "LessThanOrEqual": n.LessThanOrEqual, "StartsWith": n.StartsWith,
}  # fmt: skip
_SINGLE: dict[str, Callable[..., n.Predicate]] = {"Not": n.Not, "IsNull": n.IsNull, "IsNotNull": n.NotNull, "IsNaN": n.IsNaN}
_MOST = 10_000  # constants of a list


@dataclass(frozen=True)
class Pushed:
    """A filter; names are those of the scan. `zone`: that of its casts of instants to dates, which Spark settled when it was written."""

    predicate: n.Predicate
    zone: str = "UTC"


class _Unknown(Exception):
    pass


def filters_of(trees: Any) -> list[Pushed]:
    """Those of a sequence of Catalyst's expressions that are understood."""
    found = []
    for place in range(trees.length()):
        tree = trees.apply(place)
        try:
            reader = _Reader(tree, msgspec.json.decode(tree.toJSON()))
            predicate = reader.node(())
        except _Unknown:
            continue
        except Exception as error:  # another form of the JSON: Spark evaluates the filter, and no file is left out by it
            fall_back("The form in which pushed filters are told", error)
            continue
        if len(reader.zones) < 2:
            found.append(Pushed(predicate, next(iter(reader.zones), "UTC")))
    return found


@dataclass(eq=False)
class _Reader:
    """Nodes come in the order of the text, each before its children; `tree` is asked for what the text tells in words of its own."""

    tree: Any
    rest: list[dict[str, Any]]
    zones: set[str] = field(default_factory=set)
    at: int = 0

    def node(self, path: Sequence[int]) -> n.Expression:
        """The next node, which lies on this path of children."""
        told = self.rest[self.at]
        self.at += 1
        kind, count = str(told["class"]).removeprefix(EXPRESSIONS), told["num-children"]
        if kind == "AttributeReference":
            return n.Reference(told["name"], (told["name"],))
        if kind == "Literal":
            return self._literal(told, path)
        if kind == "Cast":
            return self._date(told, path)
        if kind not in (*_PAIRS, *_SINGLE, "In", "InSet", "GetStructField"):
            raise _Unknown
        children = [self.node((*path, place)) for place in range(count)]
        if kind == "GetStructField":
            return _inside(children[0], told.get("name"))
        if kind == "In":
            return n.In(children[0], children[1:])
        if kind == "InSet":
            return n.In(children[0], self._constants(path))
        return (_PAIRS.get(kind) or _SINGLE[kind])(*children)

    def _object(self, path: Sequence[int]) -> Any:
        found = self.tree
        for place in path:
            found = found.children().apply(place)
        return found

    def _literal(self, told: dict[str, Any], path: Sequence[int]) -> n.Expression:
        type_ = told["dataType"]
        return _constant(self._object(path).value() if type_ in ("date", "timestamp") else told["value"], type_)

    def _constants(self, path: Sequence[int]) -> list[n.Expression]:
        tree = self._object(path)
        type_, values = tree.child().dataType().typeName(), tree.hset()
        if type_ not in ("byte", "short", "integer", "long", "date", "timestamp", "timestamp_ntz") or values.size() > _MOST:
            raise _Unknown
        return [_constant(None if text == "null" else int(text), type_) for text in values.mkString(",").split(",")]

    def _date(self, told: dict[str, Any], path: Sequence[int]) -> n.Expression:
        """The day of an instant or a local time; other casts depend on how strict Spark is."""
        of = self.rest[self.at]
        if (
            told["dataType"] != "date"
            or of["class"] != EXPRESSIONS + "AttributeReference"
            or of["dataType"] not in ("timestamp", "timestamp_ntz")
        ):
            raise _Unknown
        if of["dataType"] == "timestamp":
            if not told.get("timeZoneId"):
                raise _Unknown
            self.zones.add(told["timeZoneId"])
        return n.Cast(self.node((*path, 0)), i.DateType())


def _inside(child: n.Expression, name: Any) -> n.Expression:
    if not isinstance(child, n.Reference) or not isinstance(name, str):
        raise _Unknown
    parts = (*child.parts, name)
    return n.Reference(".".join(parts), parts)


def _constant(value: Any, type_: Any) -> n.Expression:
    """`value`: as text, or as Spark has it inside."""
    if value is None:
        return n.Literal(None)
    match type_:
        case "byte" | "short" | "integer" | "long":
            return n.Literal(int(value))
        case "boolean":
            return n.Literal(value == "true")
        case "string":
            return n.Literal(str(value))
        case "double":
            return n.Literal(float(value))
        case "float":
            return n.Literal(struct.unpack("f", struct.pack("f", float(value)))[0])
        case "date":
            return n.Literal(int(value), i.DateType())
        case "timestamp":
            return n.Literal(int(value), i.TimestamptzType())
        case "timestamp_ntz":
            return n.Literal(int(value), i.TimestampType())
        case str() if type_.startswith("decimal("):
            return n.Literal(Decimal(value))
    raise _Unknown
