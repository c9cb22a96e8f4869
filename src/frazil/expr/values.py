"""Map Iceberg types to the Arrow types of internal values (see spec.types), as used by bounds,
partition values and kernels.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from frazil.errors import Unsupported
from frazil.expr import building
from frazil.spec.types import (
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    LongType,
    StringType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UnknownType,
    VariantType,
)

MICROS, NANOS = (TimestampType, TimestamptzType), (TimestampNanoType, TimestamptzNanoType)
MOMENTS = (*MICROS, *NANOS)
INTEGERS, FLOATS = (IntegerType, LongType), (FloatType, DoubleType)
NUMBERS = (*INTEGERS, *FLOATS, DecimalType)
_PLAIN: dict[type, pa.DataType] = {
    BooleanType: pa.bool_(), IntegerType: pa.int32(), DateType: pa.int32(), LongType: pa.int64(), TimeType: pa.int64(),
    **{t: pa.int64() for t in MOMENTS}, FloatType: pa.float32(), DoubleType: pa.float64(), StringType: pa.string(),
    VariantType: pa.string(), UnknownType: pa.null(),
}  # fmt: skip


def arrow_type(type_: IcebergType) -> pa.DataType:
    """Return the Arrow type of *internal values*: int32 for int and date, int64 for long, time and
    timestamps, binary for uuid, fixed and geo."""
    if plain := _PLAIN.get(type(type_)):
        return plain
    if isinstance(type_, DecimalType):
        return pa.decimal128(type_.precision, type_.scale)
    if type_.is_primitive:
        return pa.binary()
    raise Unsupported(f"Values of type {type_} cannot be compared or computed with.")


def scalar(value: object, type_: IcebergType) -> pa.Scalar:
    return building.scalar(value, arrow_type(type_))


def array(values: Iterable[Any], type_: IcebergType) -> pa.Array:
    return building.column(tuple(values), arrow_type(type_))
