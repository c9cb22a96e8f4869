"""Apply partition transforms to the columns of data files."""

from __future__ import annotations

import pyarrow as pa

from frazil.arrow.values.python_values import as_internal
from frazil.expr.transforms import transformed
from frazil.spec.transforms import Transform, VoidTransform
from frazil.spec.types import IcebergType


def apply_arrow(
    transform: Transform, source_type: IcebergType, array: pa.Array | pa.ChunkedArray
) -> pa.Array:
    """Compute the partition values of a column, as `transformed` does of internal values."""
    if isinstance(transform, VoidTransform) or not transform.can_transform(source_type):
        return transformed(transform, source_type, array)
    return transformed(transform, source_type, as_internal(array, source_type))
