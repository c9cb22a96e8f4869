"""Make the metadata columns of a batch: where its rows come from, and their lineage (spec,
"Reserved Field IDs", "Row Lineage").
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from frazil.arrow.values.arrays import repeated
from frazil.arrow.values.arrow_schema import to_arrow_type
from frazil.errors import Unsupported
from frazil.spec.schema import (
    DELETED_ID,
    FILE_ID,
    LAST_UPDATED_SEQUENCE_NUMBER_ID,
    PARTITION_ID,
    POS_ID,
    ROW_ID_ID,
    SPEC_ID_ID,
)
from frazil.spec.types import NestedField, StructType

LINEAGE_IDS = (
    ROW_ID_ID,
    LAST_UPDATED_SEQUENCE_NUMBER_ID,
)  # the metadata columns that files may store, too
# first_row_id of a file that is not committed yet: its rows have the lineage that the file stores,
# or none
UNSETTLED = -1
Positions = np.ndarray[Any, Any]


def metadata_column(
    field: NestedField, task: Any, positions: Positions, stored: pa.Array | None
) -> pa.Array:
    """Make one metadata column. `positions`: of the rows in the file. `stored`: the lineage column
    that the file itself holds, or None.
    """
    count = len(positions)
    match field.field_id:
        case _ if field.field_id == FILE_ID:
            return pa.repeat(task.file.file_path, count)
        case _ if field.field_id == POS_ID:
            return pa.array(positions, pa.int64())
        case _ if field.field_id == DELETED_ID:
            return pa.repeat(False, count)
        case _ if field.field_id == SPEC_ID_ID:
            return pa.repeat(pa.scalar(task.spec.spec_id, pa.int32()), count)
        case _ if field.field_id == PARTITION_ID:
            return _partition(field, task, count)
        case _ if field.field_id == ROW_ID_ID:
            return _row_ids(task.file.first_row_id, positions, stored)
        case _ if field.field_id == LAST_UPDATED_SEQUENCE_NUMBER_ID:
            number = (
                task.data_sequence_number
                if task.file.first_row_id not in (None, UNSETTLED)
                else None
            )
            fresh = pa.repeat(pa.scalar(number, pa.int64()), count)
            return (
                fresh
                if stored is None
                else pc.if_else(stored.is_null(), fresh, stored)
                if number is not None
                else stored_or_null(task, stored)
            )
    raise Unsupported(f"Metadata column {field.name} cannot be read.", column=field.name)


def stored_or_null(task: Any, stored: pa.Array) -> pa.Array:
    """Take the lineage that a file stores, or nulls: a file without first_row_id has no lineage
    (spec, "Row Lineage").
    """
    return stored if task.file.first_row_id is not None else pa.nulls(len(stored), pa.int64())


def _row_ids(first_row_id: int | None, positions: Positions, stored: pa.Array | None) -> pa.Array:
    if first_row_id is None:
        return pa.nulls(len(positions), pa.int64())
    if first_row_id == UNSETTLED:
        return pa.nulls(len(positions), pa.int64()) if stored is None else stored
    fresh = pa.array(positions + first_row_id, pa.int64())
    return fresh if stored is None else pc.if_else(stored.is_null(), fresh, stored)


def _partition(field: NestedField, task: Any, count: int) -> pa.Array:
    """Make the `_partition` column: a struct of the fields of all specs, in which those of other
    specs than the file's are null.
    """
    assert isinstance(field.field_type, StructType)
    if not field.field_type.fields:
        return pa.nulls(count, to_arrow_type(field.field_type))
    values = {p.field_id: v for p, v in zip(task.spec.fields, task.file.partition, strict=False)}
    row = {member.field_id: values.get(member.field_id) for member in field.field_type.fields}
    return repeated(field.field_type, row, count)
