"""Convert Arrow columns to arrays of internal values (see `expr.values`): dates and times as whole
numbers, uuids as bytes.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from frazil.arrow.values.uuids import uuid_from_text
from frazil.errors import InvalidInput
from frazil.expr.casts import floor_divide
from frazil.expr.values import MOMENTS, NANOS, arrow_type
from frazil.spec.types import (
    DateType,
    IcebergType,
    TimeType,
    UUIDType,
)

_UNITS = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1000, "ns": 1}


def as_internal(values: pa.Array | pa.ChunkedArray, type_: IcebergType) -> pa.Array:
    """Convert a column to internal values of `type_`. Raises InvalidInput when its Arrow type
    cannot hold them.
    """
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks() if values.num_chunks != 1 else values.chunk(0)
    if not type_.is_primitive:
        return values
    if isinstance(values, pa.ExtensionArray):
        values = values.storage
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    if pa.types.is_run_end_encoded(values.type):
        values = pc.run_end_decode(values)
    wanted = arrow_type(type_)
    if values.type == wanted:
        return values
    try:
        return _converted(values, type_, wanted)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError) as e:
        raise InvalidInput(
            f"An Arrow column of type {values.type} cannot be read as {type_}: {e}"
        ) from e


def _converted(values: pa.Array, type_: IcebergType, storage_type: pa.DataType) -> pa.Array:
    if isinstance(type_, MOMENTS) and pa.types.is_timestamp(values.type):
        return _moments(values, 1 if isinstance(type_, NANOS) else 1000)
    if isinstance(type_, DateType) and pa.types.is_date32(values.type):
        return values.view(pa.int32())
    if isinstance(type_, MOMENTS) and pa.types.is_date32(values.type):  # promoted from date
        return values.cast(pa.timestamp("ns" if isinstance(type_, NANOS) else "us")).view(
            pa.int64()
        )
    if isinstance(type_, TimeType) and pa.types.is_time(values.type):
        return (values if values.type == pa.time64("us") else values.cast(pa.time64("us"))).view(
            pa.int64()
        )
    if isinstance(type_, UUIDType) and (
        pa.types.is_string(values.type) or pa.types.is_large_string(values.type)
    ):
        return uuid_from_text(values).cast(pa.binary())
    return values.cast(storage_type)


def _moments(values: pa.Array, nanos: int) -> pa.Array:
    """Convert timestamps to whole numbers in units of `nanos` nanoseconds; finer units are rounded
    down.
    """
    have = _UNITS[values.type.unit]
    whole = values.view(pa.int64())
    if have == nanos:
        return whole
    if have > nanos:
        return pc.multiply_checked(whole, have // nanos)
    return floor_divide(whole, nanos // have)
