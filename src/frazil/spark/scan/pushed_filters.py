"""Convert the filters that Spark pushes into a scan from Catalyst expressions to predicates with
which planning can prune files, and find the columns of which Spark's Parquet scan may lose rows by
them.

A filter that holds anything that Frazil does not compute exactly as Spark does (`jvm_trees`) prunes
no files, which is safe: Spark applies every filter to the rows itself.

The scan loses rows where it cannot hold a constant. Spark converts constants to Java's old types
before it compares them with the statistics of row groups. `java.sql.Date` lacks the days 1582-10-05
to 14, which the Gregorian calendar left out and Iceberg's does not; instants before 1900 pass
through the local clock, which is ambiguous where it was set back. A decimal is compared in the
width of the file, into which a constant of a wider column does not fit, and an instant in the
file's unit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial, reduce

import msgspec

from frazil.arrow.footers.parquet_footer import INT64, TIMESTAMP_MICROS, ParquetNode
from frazil.expr import nodes as n
from frazil.expr.bind import bind
from frazil.scan.narrow import any_may_hold
from frazil.scan.plan import Plan
from frazil.spark.host.jvm_trees import Tree, constant, decoded
from frazil.spec.metadata import TableMetadata
from frazil.spec.schema import Schema
from frazil.spec.types import DateType, DecimalType, IcebergType, StructType, TimestamptzType


@dataclass(frozen=True)
class Pushed:
    """Hold a pushed filter, with the scan's names of columns. `zone`: the time zone of its casts
    from timestamp to date, which Spark fixed when it analysed the query."""

    predicate: n.Expression
    zone: str = "UTC"


def filters_of(trees: str) -> list[Pushed | None]:
    """Return the filters of a JSON list of trees, as `ExpressionTrees.java` writes them, None for
    each that cannot be converted and prunes no files."""
    try:
        return [tree and _filter_of(tree) for tree in msgspec.json.decode(trees)]
    except RecursionError:  # a filter is deeper than Python's stack
        return [None]


def _filter_of(tree: Tree) -> Pushed | None:
    zones = frozenset(_zones(tree))
    if len(zones) > 1:  # a predicate is bound in one zone
        return None
    zone = next(iter(zones), "UTC")
    predicate = decoded(tree, _column_of, partial(str, zone))
    return None if predicate is None else Pushed(predicate, zone)


def filters_of_joins(values: str) -> list[Pushed]:
    """Return the values of columns that joins leave, a JSON list as `ParquetFiles.java` writes it,
    as filters; those of types that prune no files are left out.
    """
    filters = []
    for form, *trees in filter(None, msgspec.json.decode(values)):
        column, *constants = (c for tree in trees if (c := constant(tree)) is not None)
        if len(constants) < len(trees) - 1 or not isinstance(column, n.Literal):
            continue
        term = n.Reference(column.value, (column.value,))
        if not constants:
            filters.append(Pushed(n.AlwaysFalse()))
        else:
            filters.append(
                Pushed(n.In(term, constants) if form == "IN" else n.Between(term, *constants))
            )
    return filters


def _column_of(node: Tree) -> n.Reference:
    return n.Reference(node["name"], (node["name"],))


def _zones(tree: Tree) -> Iterator[str]:
    if zone := tree.get("fields", {}).get("timeZoneId"):
        yield zone
    for child in tree.get("children", ()):
        yield from _zones(child)


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
