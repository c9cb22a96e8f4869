"""Convert a leaf column of a data file to the table's type: type promotion (spec, "Schema
Evolution") and the habits of other writers.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from frazil.arrow.values.arrow_schema import to_arrow_type
from frazil.arrow.values.uuids import uuid_to_text
from frazil.arrow.values.variant import variant_to_json
from frazil.spec.types import (
    BinaryType,
    DateType,
    DecimalType,
    FixedType,
    GeographyType,
    GeometryType,
    IcebergType,
    IntegerType,
    LongType,
    StringType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UUIDType,
    VariantType,
)

Convert = Callable[[pa.Array], pa.Array]
_TIMESTAMPS = (TimestampType, TimestamptzType, TimestampNanoType, TimestamptzNanoType)


def as_is(array: pa.Array) -> pa.Array:
    """Return a column that has the wanted type already."""
    return array


def leaf_conversion(have: pa.DataType, want: IcebergType) -> Convert | None:
    """Find the function that converts a file's column to the table's type: `as_is` for an equal
    type, None when there is no conversion.
    """
    if isinstance(want, VariantType):
        return variant_to_json
    target = to_arrow_type(want)
    if have == target:
        return as_is
    if pa.types.is_dictionary(have) or pa.types.is_run_end_encoded(have):
        inner = leaf_conversion(have.value_type, want)
        decoded = have.value_type
        return None if inner is None else lambda a: inner(a.cast(decoded))
    if isinstance(want, UUIDType):
        return (
            uuid_to_text
            if have == pa.binary(16) or _is_bytes(have)
            else (_cast(target) if _is_text(have) else None)
        )
    if isinstance(want, _TIMESTAMPS):
        return _timestamp(have, want, target)
    return _cast(target) if _castable(have, want) else None


def _cast(target: pa.DataType) -> Convert:
    return lambda a: pc.cast(a, target)


def _castable(have: pa.DataType, want: IcebergType) -> bool:
    types = pa.types
    match want:
        case IntegerType():
            return have in (pa.int8(), pa.int16(), pa.uint8(), pa.uint16())
        case LongType():
            return bool(types.is_integer(have) and have != pa.uint64())
        case DecimalType(precision=p, scale=s):
            return bool(types.is_decimal(have) and have.scale == s and have.precision <= p)
        case StringType():
            return _is_text(have) or _is_bytes(have)
        case BinaryType() | GeometryType() | GeographyType():
            return _is_text(have) or _is_bytes(have) or bool(types.is_fixed_size_binary(have))
        case FixedType():
            return _is_bytes(have)
        case TimeType():
            return bool(have == pa.int64() or (types.is_time(have) and have.unit != "ns"))
        case DateType():
            return bool(types.is_date(have))
    # the only promotion left is float to double
    return bool(have == pa.float32() and to_arrow_type(want) == pa.float64())


def _timestamp(have: pa.DataType, want: IcebergType, target: pa.DataType) -> Convert | None:
    """Find the conversion of a timestamp or date: other units are rescaled, finer ones rounded
    down. With or without a zone, files hold UTC."""
    if pa.types.is_date(have):
        return _cast(target) if isinstance(want, TimestampType | TimestampNanoType) else None
    if not pa.types.is_timestamp(have):
        return None
    if have.unit == target.unit:
        return lambda a: a.view(pa.int64()).view(target) if a.type.tz != target.tz else a
    per_unit = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
    factor, divisor = per_unit[target.unit], per_unit[have.unit]

    def rescaled(array: pa.Array) -> pa.Array:
        numbers = array.view(pa.int64())
        if factor >= divisor:
            return pc.multiply_checked(numbers, factor // divisor).view(target)
        step = divisor // factor
        quotient = pc.divide(numbers, step)
        below = pc.and_(pc.less(numbers, 0), pc.not_equal(pc.multiply(quotient, step), numbers))
        return pc.subtract(quotient, below.cast(pa.int64())).view(target)

    return rescaled


def _is_text(have: pa.DataType) -> bool:
    return bool(
        pa.types.is_string(have) or pa.types.is_large_string(have) or pa.types.is_string_view(have)
    )


def _is_bytes(have: pa.DataType) -> bool:
    return bool(
        pa.types.is_binary(have) or pa.types.is_large_binary(have) or pa.types.is_binary_view(have)
    )
