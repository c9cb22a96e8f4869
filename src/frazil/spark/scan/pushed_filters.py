"""Convert the filters that Spark pushes into a scan from Catalyst expressions to predicates with
which planning can prune files, and find the columns of which Spark's Parquet scan may lose rows by
them.

A filter is converted node by node from Catalyst's JSON. Its SQL text would be ambiguous: it prints
timestamps in local time, a column named `null` like the constant, and a user's function like the
built-in one of that name. A filter that contains anything not listed here prunes no files, which is
safe: Spark applies every filter to the rows itself.

The scan loses rows where it cannot hold a constant. Spark converts constants to Java's old types
before it compares them with the statistics of row groups. `java.sql.Date` lacks the days 1582-10-05
to 14, which the Gregorian calendar left out and Iceberg's does not; instants before 1900 pass
through the local clock, which is ambiguous where it was set back. A decimal is compared in the
width of the file, into which a constant of a wider column does not fit, and an instant in the
file's unit.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import reduce
from typing import Any

from py4j.java_gateway import JavaObject

from frazil.arrow.footers.parquet_footer import INT64, TIMESTAMP_MICROS, ParquetNode
from frazil.expr import nodes as n
from frazil.expr.bind import bind
from frazil.scan.narrow import any_may_hold
from frazil.scan.plan import Plan
from frazil.spark.host.fall_back import fall_back
from frazil.spark.host.jvm_plans import (
    FilterNode,
    NodeKind,
    descendant,
    filter_nodes,
    in_set_values,
    literal_value,
)
from frazil.spec import types as i
from frazil.spec.metadata import TableMetadata
from frazil.spec.schema import Schema
from frazil.spec.types import DateType, DecimalType, IcebergType, StructType, TimestamptzType

_PAIRS: dict[str, Callable[..., n.Predicate]] = {
    NodeKind.AND: n.And, NodeKind.OR: n.Or, NodeKind.EQUAL: n.EqualTo, NodeKind.EQUAL_NULL_SAFE: n.NullSafeEqualTo,
    NodeKind.GREATER: n.GreaterThan, NodeKind.GREATER_OR_EQUAL: n.GreaterThanOrEqual, NodeKind.LESS: n.LessThan,
    NodeKind.LESS_OR_EQUAL: n.LessThanOrEqual, NodeKind.STARTS_WITH: n.StartsWith,
}  # fmt: skip
_SINGLE: dict[str, Callable[..., n.Predicate]] = {
    NodeKind.NOT: n.Not, NodeKind.IS_NULL: n.IsNull, NodeKind.IS_NOT_NULL: n.NotNull, NodeKind.IS_NAN: n.IsNaN,
}  # fmt: skip
_NODES = frozenset((*_PAIRS, *_SINGLE, NodeKind.IN, NodeKind.IN_SET, NodeKind.MEMBER))
_TYPES_OF_SETS = ("byte", "short", "integer", "long", "date", "timestamp", "timestamp_ntz")
_ESCAPED = re.compile(r"\\(.)")
_MOST_CONSTANTS = 10_000  # of an IN list; a longer one prunes no files


@dataclass(frozen=True)
class Pushed:
    """Hold a pushed filter, with the scan's names of columns. `zone`: the time zone of its casts
    from timestamp to date, which Spark fixed when it analysed the query."""

    predicate: n.Predicate
    zone: str = "UTC"


class _Unknown(Exception):
    """Report an expression that has no equal among Frazil's predicates."""


def values_of_join(text: str) -> Pushed | None:
    """Return the values of a column that a join leaves, as `ParquetFiles.java` writes them, as a
    filter; None for types that prune no files.
    """
    column, form, type_, *values = text.split("\n")
    term = n.Reference(column, (column,))
    try:
        constants = [_constant(_unescaped(v), type_) for v in values]
    except _Unknown:
        return None
    if not constants:
        return Pushed(n.AlwaysFalse())
    return Pushed(n.In(term, constants) if form == "IN" else n.Between(term, *constants))


def _unescaped(text: str) -> str:
    return _ESCAPED.sub(lambda m: {"n": "\n", "f": "\f"}.get(m[1], m[1]), text)


def filters_of(expressions: JavaObject) -> list[Pushed]:
    """Return the filters among a Java list of Catalyst expressions that can be converted; the
    others prune no files.
    """
    filters = []
    for expression in expressions:
        try:
            reader = _CatalystReader(expression, filter_nodes(expression))
            predicate = reader.node(())
        except _Unknown:
            continue
        except Exception as error:
            # this Spark has another form of JSON: the filter prunes no files, and Spark applies it
            # to the rows
            fall_back("The JSON form of pushed filters", error)
            continue
        if len(reader.zones) < 2:  # a predicate is bound in one zone
            filters.append(Pushed(predicate, next(iter(reader.zones), "UTC")))
    return filters


@dataclass(eq=False)
class _CatalystReader:
    """Convert one Catalyst expression. `nodes`: those of its JSON, each before its children.
    `expression`: the JVM's object, which is used where the JSON is ambiguous: dates and timestamps,
    and the values of InSet."""

    expression: Any
    nodes: list[FilterNode]
    zones: set[str] = field(default_factory=set)
    next_node: int = 0

    def node(self, path: Sequence[int]) -> n.Expression:
        """Convert the next node of the list. `path`: the positions of children that lead to it from
        the root.
        """
        node = self.nodes[self.next_node]
        self.next_node += 1
        kind = node.kind
        if kind == NodeKind.ATTRIBUTE:
            return n.Reference(node.column, (node.column,))
        if kind == NodeKind.LITERAL:
            is_ambiguous = node.type in ("date", "timestamp")
            return _constant(
                literal_value(descendant(self.expression, path)) if is_ambiguous else node.value,
                node.type,
            )
        if kind == NodeKind.CAST:
            return self._date(node, path)
        if kind not in _NODES:
            raise _Unknown
        children = [self.node((*path, place)) for place in range(node.children)]
        if kind == NodeKind.MEMBER:
            return _member(children[0], node.member)
        if kind == NodeKind.IN:
            return n.In(children[0], children[1:])
        if kind == NodeKind.IN_SET:
            return n.In(children[0], self._constants(path))
        return (_PAIRS.get(kind) or _SINGLE[kind])(*children)

    def _constants(self, path: Sequence[int]) -> list[n.Expression]:
        in_set = in_set_values(descendant(self.expression, path), _TYPES_OF_SETS, _MOST_CONSTANTS)
        if in_set is None:
            raise _Unknown
        type_, texts = in_set
        return [_constant(None if text == "null" else int(text), type_) for text in texts]

    def _date(self, cast: FilterNode, path: Sequence[int]) -> n.Expression:
        """Convert a cast of a timestamp column to date. Other casts are not converted: what they
        return depends on ANSI mode.
        """
        child = self.nodes[self.next_node]
        if (
            cast.type != "date"
            or child.kind != NodeKind.ATTRIBUTE
            or child.type not in ("timestamp", "timestamp_ntz")
        ):
            raise _Unknown
        if child.type == "timestamp":
            if not cast.zone:
                raise _Unknown
            self.zones.add(cast.zone)
        return n.Cast(self.node((*path, 0)), i.DateType())


def _member(struct_column: n.Expression, name: object) -> n.Expression:
    if not isinstance(struct_column, n.Reference) or not isinstance(name, str):
        raise _Unknown
    parts = (*struct_column.parts, name)
    return n.Reference(".".join(parts), parts)


def _constant(value: Any, type_: object) -> n.Expression:
    """Convert a constant of a Catalyst type. `value`: its text, or Spark's internal value (days,
    microseconds).
    """
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


_DAY_AFTER_GAP = -141_426  # 1582-10-16; the 15th is what Java makes of the days before
# 1900-01-03, in every zone after the last change of the calendar
_OLD_INSTANT = -25_567 * 86_400_000_000 + 2 * 86_400_000_000


def takes_constants(column: ParquetNode, type_: IcebergType) -> bool:
    """Tell whether a file's column can hold the constants that Spark compares with it: instants in
    milliseconds cannot, nor decimals of another precision than the table's, to which Spark cuts
    the constants."""
    match type_:
        case TimestamptzType():
            return column.physical == INT64 and column.converted_type == TIMESTAMP_MICROS
        case DecimalType(precision=precision):
            return column.precision == precision
    return True


def misread_columns(
    plan: Plan, schema: Schema, files: Sequence[ParquetNode] = ()
) -> frozenset[int]:
    """Return the ids of the columns of `schema` on which Spark must push no filter: decimals that
    were narrower, dates and instants where a planned file may hold old ones, and what other
    writers' `files` hold in another unit or width."""
    fields = [f for f in _pushed(schema) if f in plan.schema.by_id]
    old = [f for f in fields if _limit(schema.by_id[f].field_type) is not None]
    wider = {f for f in fields if _was_narrower(f, plan.metadata)} | {
        column.field_id
        for root in files
        for column in root.walk()
        if column.field_id in fields
        and not takes_constants(column, schema.by_id[column.field_id].field_type)
    }
    if not old or not len(plan):
        return frozenset(wider)
    if not any_may_hold(
        plan, bind(reduce(n.Or, (_is_old(f, plan.schema) for f in old)), plan.schema)
    ):
        return frozenset(wider)
    may_be_old = {
        f
        for f in old
        if len(old) == 1 or any_may_hold(plan, bind(_is_old(f, plan.schema), plan.schema))
    }
    return frozenset(wider | may_be_old)


def _pushed(schema: Schema) -> Iterator[int]:
    """Yield the primitive columns on which Spark pushes filters: those that lie in no list or map."""
    for field_id, f in schema.by_id.items():
        if f.field_type.is_primitive and all(
            isinstance(schema.by_id[p].field_type, StructType) for p in schema.parents[field_id]
        ):
            yield field_id


def _limit(type_: IcebergType) -> int | None:
    return (
        _DAY_AFTER_GAP
        if isinstance(type_, DateType)
        else _OLD_INSTANT
        if isinstance(type_, TimestamptzType)
        else None
    )


def _is_old(field_id: int, schema: Schema) -> n.Predicate:
    type_ = schema.by_id[field_id].field_type
    parts = tuple(schema.by_id[p].name for p in (*schema.parents[field_id], field_id))
    return n.LessThan(n.Reference(".".join(parts), parts), n.Literal(_limit(type_), type_))


def _was_narrower(field_id: int, metadata: TableMetadata) -> bool:
    types = {s.by_id[field_id].field_type for s in metadata.schemas if field_id in s.by_id}
    return len({t.precision for t in types if isinstance(t, DecimalType)}) > 1
