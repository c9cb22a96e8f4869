"""Cast columns safely: those of a frame to the types of a table by values (`cast_for`), those of a
data file by type promotion (`leaf_conversion`).

`cast_for` is the one rule for every write, with and without Spark: for rows of frames of any kind,
for Python values, and for columns that SET and VALUES name (docs/adr/0025). A column takes the
values that have an equal value in its type, and no others. The types decide where they can, else
each value: whole numbers go into any number that holds them exactly, times with a zone into
`timestamp`, times without one into `timestamp_ntz`. Nothing is lost silently; a loss is an error.

`leaf_conversion` knows the promotions of the spec ("Schema Evolution") and the habits of other
writers.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc

from frazil.arrow.values.arrow_schema import CODED, is_sparks_variant, to_arrow_type
from frazil.arrow.values.uuids import uuid_from_text, uuid_to_text
from frazil.arrow.values.variant import variant_to_json
from frazil.spec.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
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
    UnknownType,
    UUIDType,
    VariantType,
)

CastFunction = Callable[[pa.Array], pa.Array]
_ZONED = (TimestamptzType, TimestamptzNanoType)
_LOCAL = (TimestampType, TimestampNanoType)


def cast_for(have: pa.DataType, want: IcebergType) -> CastFunction | None:
    """Find the function that casts a frame's column to the table's; None when the types rule it
    out. It checks the values when it runs.
    """
    target = to_arrow_type(want)
    if have == target and not isinstance(want, UUIDType):
        return lambda a: a
    if isinstance(have, pa.BaseExtensionType):
        stored = None if have.extension_name in CODED else cast_for(have.storage_type, want)
        return None if stored is None else lambda a: stored(a.storage)
    if pa.types.is_dictionary(have) or pa.types.is_run_end_encoded(have):
        plain = have.value_type
        inner = cast_for(plain, want)
        if inner is None:
            return None
        return (
            (lambda a: inner(pc.cast(a, plain)))
            if pa.types.is_dictionary(have)
            else (lambda a: inner(pc.run_end_decode(a)))
        )
    if pa.types.is_null(have):
        return lambda a: pa.nulls(len(a), target)
    if isinstance(want, UUIDType):
        if have == pa.binary(16):
            return uuid_to_text
        return (lambda a: uuid_to_text(uuid_from_text(a))) if _is_text(have) else None
    if isinstance(want, VariantType) and is_sparks_variant(have):
        return variant_to_json
    if not _allowed(have, want):
        return None
    if (
        pa.types.is_integer(have)
        and pa.types.is_floating(target)
        and have.bit_width > exact_bits(target)
    ):
        return lambda a: whole_to_floating(a, target)
    if isinstance(want, DecimalType) and pa.types.is_integer(have):
        # through the widest decimal: each value decides, not the width
        widest = pa.decimal128(38, want.scale)
        return lambda a: pc.cast(pc.cast(a, widest), target)
    return lambda a: pc.cast(a, target)


def _allowed(have: pa.DataType, want: IcebergType) -> bool:
    types = pa.types
    match want:
        case BooleanType() | UnknownType():
            return False
        case IntegerType() | LongType():
            return bool(types.is_integer(have))
        case FloatType():  # not from double: hardly any double has an equal float
            return bool(have == pa.float16() or types.is_integer(have))
        case DoubleType():
            return bool(types.is_floating(have) or types.is_integer(have))
        case DecimalType(scale=s):
            if types.is_integer(have):
                return True
            return bool(types.is_decimal(have)) and have.scale <= s
        case DateType():
            return bool(types.is_date(have))
        case TimeType():
            return bool(types.is_time(have))
        case StringType() | VariantType():
            return _is_text(have)
        case BinaryType() | GeometryType() | GeographyType():
            return _is_bytes(have) or bool(types.is_fixed_size_binary(have))
        case FixedType():
            return bool(types.is_binary(have) or types.is_large_binary(have))
    if types.is_timestamp(have):
        # a time with a zone is a point in time, whatever the zone; one without a zone is not
        return bool(have.tz) == isinstance(want, _ZONED)
    return bool(types.is_date(have)) and isinstance(want, _LOCAL)


def exact_bits(target: pa.DataType) -> int:
    """Return the width of the widest integer type whose every value a floating-point type holds
    exactly.
    """
    return 32 if target == pa.float64() else 16


def whole_to_floating(array: pa.Array, target: pa.DataType) -> pa.Array:
    """Cast integers to the floating-point numbers that equal them. Raises ArrowInvalid for an
    integer that has none.
    """
    with contextlib.suppress(pa.ArrowInvalid):
        # this cast accepts only integers within 2^53 (float: 2^24)
        return pc.cast(array, target)
    floating = pc.cast(array, target, safe=False)
    # the least number above all integers of this type
    limit = 2.0 ** (array.type.bit_width - pa.types.is_signed_integer(array.type))
    inside = pc.less(floating, pa.scalar(limit, target))
    back = pc.cast(pc.if_else(inside, floating, pa.scalar(0, target)), array.type, safe=False)
    wrong = pc.fill_null(pc.invert(pc.and_(inside, pc.equal(back, array))), False)
    if pc.any(wrong).as_py():
        raise pa.ArrowInvalid(
            f"{array.filter(wrong)[0]} has no equal {'double' if target == pa.float64() else 'float'}."
        )
    return floating


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
            return bool(types.is_date(have) or have == pa.int32())
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
