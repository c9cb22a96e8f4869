"""Convert the filters that Spark pushes into a scan from Catalyst expressions to predicates with which planning can prune files.

A filter is converted node by node from Catalyst's JSON. Its SQL text would be ambiguous: it prints timestamps in local time, a column named
`null` like the constant, and a user's function like the built-in one of that name. A filter that contains anything not listed here prunes
no files, which is safe: Spark applies every filter to the rows itself.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import msgspec

from frazil.expr import nodes as n
from frazil.spark.host.fall_back import fall_back
from frazil.spark.host.jvm import EXPRESSIONS
from frazil.spec import types as i

_PAIRS: dict[str, Callable[..., n.Predicate]] = {
    "And": n.And, "Or": n.Or, "EqualTo": n.EqualTo, "EqualNullSafe": n.NullSafeEqualTo, "GreaterThan": n.GreaterThan,
    "GreaterThanOrEqual": n.GreaterThanOrEqual, "LessThan": n.LessThan, "LessThanOrEqual": n.LessThanOrEqual, "StartsWith": n.StartsWith,
}  # fmt: skip
_SINGLE: dict[str, Callable[..., n.Predicate]] = {"Not": n.Not, "IsNull": n.IsNull, "IsNotNull": n.NotNull, "IsNaN": n.IsNaN}
_MOST_CONSTANTS = 10_000  # of an IN list; a longer one prunes no files


@dataclass(frozen=True)
class Pushed:
    """Hold a pushed filter, with the scan's names of columns. `zone`: the time zone of its casts from timestamp to date, which Spark fixed
    when it analysed the query."""

    predicate: n.Predicate
    zone: str = "UTC"


class _Unknown(Exception):
    """Report an expression that has no equal among Frazil's predicates."""


def filters_of(expressions: Any) -> list[Pushed]:
    """Return the filters among a Scala sequence of Catalyst expressions that can be converted; the others prune no files."""
    filters = []
    for place in range(expressions.length()):
        expression = expressions.apply(place)
        try:
            reader = _CatalystReader(expression, msgspec.json.decode(expression.toJSON()))
            predicate = reader.node(())
        except _Unknown:
            continue
        except Exception as error:  # this Spark has another form of JSON: the filter prunes no files, and Spark applies it to the rows
            fall_back("The JSON form of pushed filters", error)
            continue
        if len(reader.zones) < 2:  # a predicate is bound in one zone
            filters.append(Pushed(predicate, next(iter(reader.zones), "UTC")))
    return filters


@dataclass(eq=False)
class _CatalystReader:
    """Convert one Catalyst expression. `nodes`: its JSON, a list in which each node stands before its children. `expression`: the JVM's
    object, which is used where the JSON is ambiguous: dates and timestamps, and the values of InSet."""

    expression: Any
    nodes: list[dict[str, Any]]
    zones: set[str] = field(default_factory=set)
    next_node: int = 0

    def node(self, path: Sequence[int]) -> n.Expression:
        """Convert the next node of the list. `path`: the positions of children that lead to it from the root."""
        node = self.nodes[self.next_node]
        self.next_node += 1
        kind, count = str(node["class"]).removeprefix(EXPRESSIONS), node["num-children"]
        if kind == "AttributeReference":
            return n.Reference(node["name"], (node["name"],))
        if kind == "Literal":
            type_ = node["dataType"]
            return _constant(self._object(path).value() if type_ in ("date", "timestamp") else node["value"], type_)
        if kind == "Cast":
            return self._date(node, path)
        if kind not in (*_PAIRS, *_SINGLE, "In", "InSet", "GetStructField"):
            raise _Unknown
        children = [self.node((*path, place)) for place in range(count)]
        if kind == "GetStructField":
            return _member(children[0], node.get("name"))
        if kind == "In":
            return n.In(children[0], children[1:])
        if kind == "InSet":
            return n.In(children[0], self._constants(path))
        return (_PAIRS.get(kind) or _SINGLE[kind])(*children)

    def _object(self, path: Sequence[int]) -> Any:
        """Return the JVM's object of the node at a path."""
        expression = self.expression
        for place in path:
            expression = expression.children().apply(place)
        return expression

    def _constants(self, path: Sequence[int]) -> list[n.Expression]:
        in_set = self._object(path)
        type_, values = in_set.child().dataType().typeName(), in_set.hset()
        if type_ not in ("byte", "short", "integer", "long", "date", "timestamp", "timestamp_ntz") or values.size() > _MOST_CONSTANTS:
            raise _Unknown
        return [_constant(None if text == "null" else int(text), type_) for text in values.mkString(",").split(",")]

    def _date(self, cast: dict[str, Any], path: Sequence[int]) -> n.Expression:
        """Convert a cast of a timestamp column to date. Other casts are not converted: what they return depends on ANSI mode."""
        child = self.nodes[self.next_node]
        if (
            cast["dataType"] != "date"
            or child["class"] != EXPRESSIONS + "AttributeReference"
            or child["dataType"] not in ("timestamp", "timestamp_ntz")
        ):
            raise _Unknown
        if child["dataType"] == "timestamp":
            if not cast.get("timeZoneId"):
                raise _Unknown
            self.zones.add(cast["timeZoneId"])
        return n.Cast(self.node((*path, 0)), i.DateType())


def _member(struct_column: n.Expression, name: Any) -> n.Expression:
    if not isinstance(struct_column, n.Reference) or not isinstance(name, str):
        raise _Unknown
    parts = (*struct_column.parts, name)
    return n.Reference(".".join(parts), parts)


def _constant(value: Any, type_: Any) -> n.Expression:
    """Convert a constant of a Catalyst type. `value`: its text, or Spark's internal value (days, microseconds)."""
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
