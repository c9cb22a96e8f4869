"""Evaluate a bound predicate over Arrow batches: TRUE, FALSE or null per row, as in Spark SQL; a
row is kept where it is TRUE.

Columns may have any Arrow type that a reader gives (date32, timestamps of any unit, uuid as text or
bytes, dictionaries, large or view types) and become internal values, without a copy where that is
possible.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from frazil.arrow.values.python_values import as_internal
from frazil.errors import ValidationError
from frazil.expr.bound import Bound, BoundReference, Constant
from frazil.expr.compute import compute

Path = Sequence[str | int]


def evaluate(
    bound: Bound, batch: pa.RecordBatch, columns: Mapping[int, Path] | None = None
) -> pa.BooleanArray:
    """Evaluate a predicate to TRUE, FALSE or null per row.

    `columns`: the path of each field id in the batch, by names or indexes from the top (None: by
    the names in the predicate). Raises EvaluationError when a value cannot be evaluated (overflow,
    …), ValidationError when a column is not in the batch.
    """
    if isinstance(bound, Constant):
        return pa.repeat(pa.scalar(bound.value, pa.bool_()), batch.num_rows)
    return compute_over(bound, batch, columns)


def compute_over(
    bound: Bound, batch: pa.RecordBatch, columns: Mapping[int, Path] | None = None
) -> pa.Array:
    """Evaluate any bound expression to internal values, one per row."""
    seen: dict[int, pa.Array] = {}

    def column(reference: BoundReference) -> pa.Array:
        if reference.field_id not in seen:
            path = (
                reference.path
                if columns is None
                else columns.get(reference.field_id, reference.path)
            )
            seen[reference.field_id] = as_internal(_column(batch, path, reference), reference.type)
        return seen[reference.field_id]

    return compute(bound, column, batch.num_rows)


def keep(
    bound: Bound, batch: pa.RecordBatch, columns: Mapping[int, Path] | None = None
) -> pa.RecordBatch:
    """Filter a batch by a predicate; returns the batch itself when the predicate is TRUE for all
    rows.
    """
    if bound == Constant(True):
        return batch
    mask = evaluate(bound, batch, columns)
    return batch if mask.true_count == len(mask) else batch.filter(mask)


def _column(batch: pa.RecordBatch, path: Path, reference: BoundReference) -> pa.Array:
    try:
        column = batch.column(path[0])
        for step in path[1:]:
            column = _child(column, step)
    except (KeyError, IndexError, pa.ArrowInvalid) as e:
        raise ValidationError(
            f"Column {reference.name!r} (id {reference.field_id}) is not in the batch.",
            column=reference.name,
        ) from e
    return column


def _child(parent: pa.Array, step: str | int) -> pa.Array:
    """Take a field of a struct; it is null where the struct is."""
    index = parent.type.get_field_index(step) if isinstance(step, str) else step
    if index < 0:
        raise KeyError(step)
    return struct_member(parent, index)


def struct_member(parent: pa.Array, index: int) -> pa.Array:
    """Return a member of a struct; it is null where the struct is. The kernel, which carries these
    nulls over, takes time for each of the struct's members."""
    return (
        pc.struct_field(parent, [index])
        if parent.null_count or not isinstance(parent, pa.StructArray)
        else parent.field(index)
    )
