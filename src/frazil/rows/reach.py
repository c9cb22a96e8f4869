"""Derive a filter on the target of a MERGE from the source's keys, to prune data files and to
detect conflicts.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from frazil.arrow.values.evaluate import compute_over
from frazil.expr.bound import Bound, BoundCast, BoundReference
from frazil.expr.nodes import (
    AlwaysFalse,
    AlwaysTrue,
    And,
    GreaterThanOrEqual,
    In,
    IsNull,
    LessThanOrEqual,
    Literal,
    Or,
    Predicate,
    Reference,
)
from frazil.rows.bound_merge import JoinKey
from frazil.rows.key_index import Rows
from frazil.rows.pairing import Pairing, as_side
from frazil.spec.types import BooleanType, IcebergType, UUIDType

FEW = 200  # up to so many distinct keys become an IN list, more of them a range


def reach(pairing: Pairing) -> Predicate:
    """Build a predicate that is TRUE for every target row that some source row may match by its
    keys.
    """
    on = pairing.merge.on
    candidates = pairing.candidates
    rows = pairing.source.num_rows if candidates is None else len(candidates)
    if on.never or not rows:
        return AlwaysFalse()
    parts = [
        p for k in on.keys if not isinstance(p := _reach_of(k, pairing, candidates), AlwaysTrue)
    ]
    if any(isinstance(p, AlwaysFalse) for p in parts):
        return AlwaysFalse()
    return AlwaysTrue() if not parts else parts[0] if len(parts) == 1 else And(*parts)


def _reach_of(key: JoinKey, pairing: Pairing, candidates: Rows | None) -> Predicate:
    column = _column(key.target)
    if column is None or isinstance(key.source.type, UUIDType):
        return AlwaysTrue()
    key_values = _known(key.source, pairing, candidates)
    predicate = key_values.predicate(column, key.source.type)
    return (
        Or(predicate, IsNull(column))
        if key.null_safe and key_values.nulls and not isinstance(predicate, AlwaysTrue)
        else predicate
    )


@dataclass
class _KeyValues:
    """Summarise the values of one key over the source. `few`: the distinct values; None: there are
    more than `FEW`.
    """

    low: Any = None
    high: Any = None
    few: set[Any] | None = field(default_factory=set)
    nulls: bool = False
    nans: bool = False

    def add(self, values: pa.Array) -> None:
        self.nulls = self.nulls or values.null_count > 0
        values = values.drop_null()
        if pa.types.is_floating(values.type):
            nan = pc.is_nan(values)
            self.nans = self.nans or bool(pc.any(nan).as_py())
            values = values.filter(pc.invert(nan))
        if not len(values):
            return
        if self.few is not None:
            self.few.update(
                values.slice(0, 100 * FEW).unique().to_pylist()
                if len(values) > 100 * FEW
                else values.unique().to_pylist()
            )
            if len(values) > 100 * FEW or len(self.few) > FEW:
                self.few = None
        bounds = pc.min_max(values)
        low, high = bounds["min"].as_py(), bounds["max"].as_py()
        self.low, self.high = (
            (low, high) if self.low is None else (min(self.low, low), max(self.high, high))
        )

    def predicate(self, column: Reference, type_: IcebergType) -> Predicate:
        if self.nans:
            return AlwaysTrue()
        if self.low is None:
            return AlwaysFalse()
        if self.few is not None:
            return In(column, [Literal(v, type_) for v in self.few])
        if isinstance(type_, BooleanType):
            return AlwaysTrue()
        return And(
            GreaterThanOrEqual(column, Literal(self.low, type_)),
            LessThanOrEqual(column, Literal(self.high, type_)),
        )


def _column(target: Bound) -> Reference | None:
    """Return the table's column that a key is, itself or under a cast; a comparison of the column
    with a literal casts it in the same way."""
    inner = target.term if isinstance(target, BoundCast) and not target.attempt else target
    if not isinstance(inner, BoundReference):
        return None
    path = inner.path[1:]
    return Reference(".".join(path), path)


def _known(source: Bound, pairing: Pairing, candidates: Rows | None) -> _KeyValues:
    merge, key_values, first = pairing.merge, _KeyValues(), 0
    names = merge.names_of_source([source]) or [f.name for f in merge.sides.source.fields[:1]]
    for batch in pairing.source.batches(names):
        values = compute_over(source, as_side(batch, merge.sides.source_alias))
        if candidates is not None:
            low, high = np.searchsorted(candidates, (first, first + len(values)))
            values = values.take(pa.array(candidates[low:high] - first))
        key_values.add(values)
        first += batch.num_rows
    return key_values
