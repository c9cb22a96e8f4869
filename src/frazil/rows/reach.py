"""What the keys of the source say of the target: a predicate that rows with a match fulfil; files are pruned, conflicts told by it."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from frazil.arrow.evaluate import compute_over
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
from frazil.expr.values import FLOATS
from frazil.rows.join_on import Key
from frazil.rows.key_index import Rows
from frazil.rows.pairing import Pairing, as_side
from frazil.spec.types import BooleanType, UUIDType

FEW = 200  # different keys that are listed; of more, the range


def reach(pairing: Pairing) -> Predicate:
    """TRUE for every row of the target that some row of the source may match, by its keys."""
    on = pairing.merge.on
    candidates = pairing.candidates
    rows = pairing.source.num_rows if candidates is None else len(candidates)
    if on.never or not rows:
        return AlwaysFalse()
    parts = [p for k in on.keys if not isinstance(p := _reach_of(k, pairing, candidates), AlwaysTrue)]
    if any(isinstance(p, AlwaysFalse) for p in parts):
        return AlwaysFalse()
    return AlwaysTrue() if not parts else parts[0] if len(parts) == 1 else And(*parts)


def _reach_of(key: Key, pairing: Pairing, candidates: Rows | None) -> Predicate:
    column = _column(key.target)
    if column is None or isinstance(key.source.type, UUIDType):
        return AlwaysTrue()
    values = _values(key.source, pairing, candidates)
    nulls, known = values.null_count, values.drop_null()
    if not len(known):
        return IsNull(column) if key.null_safe and nulls else AlwaysFalse()
    found = _range(key.source, column, known)
    return Or(found, IsNull(column)) if key.null_safe and nulls and not isinstance(found, AlwaysTrue) else found


def _range(source: Bound, column: Reference, known: Any) -> Predicate:
    type_ = source.type
    if isinstance(type_, FLOATS) and pc.any(pc.is_nan(known)).as_py():
        return AlwaysTrue()
    if len(known) <= 100 * FEW and len(different := known.unique()) <= FEW:
        return In(column, [Literal(v, type_) for v in different.to_pylist()])
    if isinstance(type_, BooleanType):
        return AlwaysTrue()
    bounds = pc.min_max(known)
    low, high = (Literal(bounds[n].as_py(), type_) for n in ("min", "max"))
    return And(GreaterThanOrEqual(column, low), LessThanOrEqual(column, high))


def _column(target: Bound) -> Reference | None:
    """The table's column that a key is, itself or cast to what it is compared as; the comparison with a literal casts it alike."""
    inner = target.term if isinstance(target, BoundCast) and not target.attempt else target
    if not isinstance(inner, BoundReference):
        return None
    path = inner.path[1:]
    return Reference(".".join(path), path)


def _values(source: Bound, pairing: Pairing, candidates: Rows | None) -> pa.ChunkedArray:
    """Internal values of a key over the source; a chunk a batch."""
    merge = pairing.merge
    names = merge.names_of_source([source]) or [f.name for f in merge.sides.source.fields[:1]]
    chunks = [compute_over(source, as_side(b, merge.sides.source_alias)) for b in pairing.source.batches(names)]
    found = pa.chunked_array(chunks)
    return found if candidates is None else found.take(pa.array(candidates))
