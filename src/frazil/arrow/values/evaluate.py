"""A bound predicate over Arrow batches: `evaluate` gives TRUE, FALSE or null a row with Spark's meaning; a row is kept iff TRUE.

Columns come in any Arrow form that a reader gives (date32, timestamps of any unit, uuid as text or bytes, dictionaries, large or view
types) and are taken as internal values without copying where that is possible.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from frazil.arrow.values.internal_values import as_internal
from frazil.errors import ValidationError
from frazil.expr.bound import Bound, BoundReference, Constant
from frazil.expr.compute import compute

Path = Sequence[str | int]


def evaluate(bound: Bound, batch: pa.RecordBatch, columns: Mapping[int, Path] | None = None) -> pa.BooleanArray:
    """Three-valued answer, one a row. `columns`: where a field id lies in the batch, by names or positions from the top
    (None: by bound names).

    Raises EvaluationError when a value breaks the expression, ValidationError when a column is not in the batch.
    """
    if isinstance(bound, Constant):
        return pa.repeat(pa.scalar(bound.value, pa.bool_()), batch.num_rows)
    return compute_over(bound, batch, columns)


def compute_over(bound: Bound, batch: pa.RecordBatch, columns: Mapping[int, Path] | None = None) -> pa.Array:
    """The value of any bound expression, as internal values."""
    seen: dict[int, pa.Array] = {}

    def column(reference: BoundReference) -> pa.Array:
        if reference.field_id not in seen:
            path = reference.path if columns is None else columns.get(reference.field_id, reference.path)
            seen[reference.field_id] = as_internal(_column(batch, path, reference), reference.type)
        return seen[reference.field_id]

    return compute(bound, column, batch.num_rows)


def keep(bound: Bound, batch: pa.RecordBatch, columns: Mapping[int, Path] | None = None) -> pa.RecordBatch:
    """Only the rows for which the predicate is TRUE; the batch itself when that is all of them."""
    if bound == Constant(True):
        return batch
    mask = evaluate(bound, batch, columns)
    return batch if mask.true_count == len(mask) else batch.filter(mask)


def _column(batch: pa.RecordBatch, path: Path, reference: BoundReference) -> pa.Array:
    try:
        found = batch.column(path[0])
        for step in path[1:]:
            found = _child(found, step)
    except (KeyError, IndexError, pa.ArrowInvalid) as e:
        raise ValidationError(f"Column {reference.name!r} (id {reference.field_id}) is not in the batch.", column=reference.name) from e
    return found


def _child(parent: pa.Array, step: str | int) -> pa.Array:
    """A field of a struct, null where the struct is."""
    index = parent.type.get_field_index(step) if isinstance(step, str) else step
    if index < 0:
        raise KeyError(step)
    return pc.struct_field(parent, [index])
