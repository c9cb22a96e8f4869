"""Cast among numbers and booleans as Spark's ANSI mode does: truncate fractions, round decimals
half up, fail on overflow.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from frazil.errors import EvaluationError
from frazil.expr.values import FLOATS, INTEGERS, arrow_type
from frazil.spec.transform_values import scaled, unscaled
from frazil.spec.types import (
    BooleanType,
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
)

_WIDE = 76


def cast_number(
    values: pa.Array, source: IcebergType, target: IcebergType, attempt: bool
) -> pa.Array:
    """Cast numbers and booleans, for `casts.cast_values`."""
    to = arrow_type(target)
    if isinstance(target, BooleanType):
        return pc.not_equal(
            values,
            pa.scalar(0, pa.int32()).cast(values.type) if not isinstance(source, FLOATS) else 0.0,
        )
    if isinstance(source, BooleanType):
        return cast_number(values.cast(pa.int32()), IntegerType(), target, attempt)
    if isinstance(source, FLOATS):
        return _from_float(values, source, target, attempt)
    if isinstance(source, DecimalType):
        return _from_decimal(values, source, target, attempt)
    if isinstance(target, DecimalType):
        wide = values.cast(pa.decimal256(_WIDE, target.scale))
        return checked(lambda v: v.cast(to), wide, to, target, attempt)
    if isinstance(target, FLOATS):
        return values.cast(to, safe=False)
    return checked(lambda v: v.cast(to), values, to, target, attempt)


def _from_float(
    values: pa.Array, source: IcebergType, target: IcebergType, attempt: bool
) -> pa.Array:
    to = arrow_type(target)
    if isinstance(target, DoubleType):
        return values.cast(to)
    if isinstance(target, FloatType):
        return values.cast(to, safe=False)
    if isinstance(target, DecimalType):
        return checked(
            lambda v: _float_to_decimal(v, target), values.cast(pa.float64()), to, target, attempt
        )
    low, high = (-(2**31), 2**31 - 1) if isinstance(target, IntegerType) else (-(2**63), 2**63)
    numbers = pc.fill_null(values, 0.0).to_numpy(zero_copy_only=False).astype(np.float64)
    null = pc.is_null(values).to_numpy(zero_copy_only=False)
    with np.errstate(invalid="ignore"):
        bad = ~((np.floor(numbers) <= high) & (np.ceil(numbers) >= low))
    if bad.any() and not attempt:
        raise overflow(numbers[bad][0], target)
    cut = np.trunc(np.where(bad, 0.0, numbers))
    top = cut >= 2.0**63
    whole = np.where(top, 0, cut).astype(np.int64)
    whole[top] = 2**63 - 1
    return pa.array(whole, mask=null | bad).cast(to)


def _float_to_decimal(values: pa.Array, target: DecimalType) -> pa.Array:
    decimals = [
        None if v is None else rounded(Decimal(repr(v)), target.precision, target.scale)
        for v in values.to_pylist()
    ]
    return pa.array(decimals, arrow_type(target))


def rounded(number: Decimal, precision: int, scale: int) -> Decimal:
    """Round half up to the scale. Raises OverflowError beyond the precision."""
    sign, digits, exponent = number.as_tuple()
    if not isinstance(exponent, int) or exponent + len(digits) > precision + 1:
        raise OverflowError(number)
    shift = exponent + scale
    if -shift > len(digits) + 1:
        return scaled(0, scale)
    units = (
        unscaled(number.copy_abs(), scale)
        if shift >= 0
        else (int("".join(map(str, digits))) * 2 + 10**-shift) // (2 * 10**-shift)
    )
    if units >= 10**precision:
        raise OverflowError(number)
    return scaled(-units if sign else units, scale)


def _from_decimal(
    values: pa.Array, source: DecimalType, target: IcebergType, attempt: bool
) -> pa.Array:
    to = arrow_type(target)
    if isinstance(target, INTEGERS):
        options = pc.CastOptions(to, allow_decimal_truncate=True)
        return checked(lambda v: pc.cast(v, options=options), values, to, target, attempt)
    if isinstance(target, FLOATS):
        return decimal_to_double(values, source).cast(to, safe=False)
    assert isinstance(target, DecimalType)
    return checked(lambda v: rescale(v, source, target), values, to, target, attempt)


def rescale(values: pa.Array, source: DecimalType, target: DecimalType) -> pa.Array:
    """Change precision and scale, rounding half up. Raises ArrowInvalid when a value does not fit."""
    wide = values.cast(
        pa.decimal256(_WIDE, max(target.scale, source.scale))
    )  # decimal128 may round beyond its precision to 0
    if target.scale < source.scale:
        wide = pc.round(wide, target.scale, round_mode="half_towards_infinity")
    return wide.cast(pa.decimal256(_WIDE, target.scale)).cast(arrow_type(target))


def unscaled_int64(values: pa.Array) -> Any:
    """Return the unscaled values of a decimal128 array of at most 18 digits as numpy int64; the
    value in place of a null is undefined.
    """
    words = np.frombuffer(values.buffers()[1], np.int64)
    return words[2 * values.offset : 2 * (values.offset + len(values)) : 2]


def decimal_to_double(values: pa.Array, source: DecimalType) -> pa.Array:
    """Convert decimals to the nearest doubles: up to 15 digits by one exact division, beyond that
    one by one.
    """
    if source.precision <= 15 and 0 <= source.scale <= 22:
        mask = pc.is_null(values).to_numpy(zero_copy_only=False) if values.null_count else None
        return pa.array(unscaled_int64(values) / 10.0**source.scale, mask=mask)
    return pa.array([None if v is None else float(v) for v in values.to_pylist()], pa.float64())


def checked(
    run: Callable[[pa.Array], pa.Array],
    values: pa.Array,
    to: pa.DataType,
    target: IcebergType,
    attempt: bool,
) -> pa.Array:
    """Return `run(values)`. A value that does not fit raises an EvaluationError that names it, or
    becomes null with `attempt`.
    """
    try:
        return run(values)
    except (pa.ArrowInvalid, ArithmeticError):
        pass
    results = []
    for i in range(len(values)):
        try:
            results.append(run(values.slice(i, 1)))
        except (pa.ArrowInvalid, ArithmeticError) as e:
            if not attempt:
                raise overflow(values[i].as_py(), target) from e
            results.append(pa.nulls(1, to))
    return pa.concat_arrays(results)


def overflow(value: Any, target: IcebergType) -> EvaluationError:
    return EvaluationError(
        f"The value {value} does not fit into {target}.",
        hint="TRY_CAST gives null instead.",
        value=str(value)[:80],
    )
