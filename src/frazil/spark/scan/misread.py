"""Find the columns of which Spark's Parquet scan may lose rows, because it cannot hold the
constants of a pushed filter.

Spark converts constants to Java's old types before it compares them with the statistics of row
groups. `java.sql.Date` lacks the days 1582-10-05 to 14, which the Gregorian calendar left out and
Iceberg's does not; instants before 1900 pass through the local clock, which is ambiguous where it
was set back. A decimal is compared in the width of the file, into which a constant of a wider
column does not fit.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce

from frazil.expr import nodes as n
from frazil.expr.bind import bind
from frazil.scan.narrow import any_may_hold
from frazil.scan.plan import Plan
from frazil.spec.metadata import TableMetadata
from frazil.spec.schema import Schema
from frazil.spec.types import DateType, DecimalType, IcebergType, StructType, TimestamptzType

_DAY_AFTER_GAP = -141_426  # 1582-10-16; the 15th is what Java makes of the days before
_OLD_INSTANT = (
    -25_567 * 86_400_000_000 + 2 * 86_400_000_000
)  # 1900-01-03, in every zone after the last change of the calendar


def misread_columns(plan: Plan, schema: Schema) -> frozenset[int]:
    """Return the ids of the columns of `schema` on which Spark must push no filter: decimals that
    were narrower, and dates and instants where a planned file may hold old ones."""
    fields = [f for f in _pushed(schema) if f in plan.schema.by_id]
    old = [f for f in fields if _limit(schema.by_id[f].field_type) is not None]
    wider = {f for f in fields if _was_narrower(f, plan.metadata)}
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
