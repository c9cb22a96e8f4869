"""Implement arithmetic and number functions as in Spark's ANSI mode: overflow and division by zero
raise EvaluationError.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import ROUND_HALF_EVEN, Context
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from frazil.errors import EvaluationError
from frazil.expr.casts import OUT_OF_RANGE, over_numpy
from frazil.expr.coerce import as_decimal, bounded, common_type
from frazil.expr.functions.function import Bind, Function, Kernel, Signature, plain
from frazil.expr.values import FLOATS, INTEGERS, NUMBERS, arrow_type
from frazil.spec.transform_values import scaled, unscaled
from frazil.spec.types import (
    DecimalType,
    DoubleType,
    IcebergType,
    LongType,
    StringType,
    UnknownType,
)

ARITHMETIC = {
    "+": "addition", "-": "subtraction", "*": "multiplication", "/": "division", "div": "division", "%": "remainder", "pmod": "remainder",
}  # fmt: skip
_SIGN_CHANGES = Context(prec=34, rounding=ROUND_HALF_EVEN)
_OVERFLOW = "ARITHMETIC_OVERFLOW"
_BY_ZERO = {"%": "REMAINDER_BY_ZERO", "pmod": "REMAINDER_BY_ZERO"}


# Types
# --------------------------------------------------------------------------------------------------


def _binary(op: str) -> Bind:
    def bind(types: tuple[IcebergType, ...]) -> Signature | str:
        if len(types) != 2:
            return "takes two numbers."
        a, b = types
        if not all(isinstance(t, (*NUMBERS, StringType, UnknownType)) for t in types):
            return "takes two numbers."
        if isinstance(a, StringType) and isinstance(b, StringType):
            return "takes two numbers, of which one may be text."
        wide = common_type(a, b)
        if isinstance(wide, StringType | UnknownType) or wide is None:
            wide = DoubleType()
        if isinstance(wide, FLOATS) and op != "div":
            wide = DoubleType() if op == "/" else wide
            return Signature((wide, wide), wide)
        if op == "div":
            return (
                Signature((LongType(), LongType()), LongType())
                if isinstance(wide, INTEGERS)
                else "takes two whole numbers."
            )
        if isinstance(wide, DecimalType):
            x, y = (
                as_decimal(a) if isinstance(a, NUMBERS) else wide,
                as_decimal(b) if isinstance(b, NUMBERS) else wide,
            )
            return Signature((x, y), _decimal_result(op, x, y))
        if op == "/":  # a text beside a whole number is one as well, before both become doubles
            return Signature((LongType(), LongType()), DoubleType())
        return Signature((wide, wide), wide)

    return bind


def _decimal_result(op: str, x: DecimalType, y: DecimalType) -> DecimalType:
    """Return the result type by Spark's DecimalPrecision: enough digits for the exact result,
    limited to 38.
    """
    whole, scale = max(x.precision - x.scale, y.precision - y.scale), max(x.scale, y.scale)
    match op:
        case "+" | "-":
            return bounded(whole + scale + 1, scale)
        case "*":
            return bounded(x.precision + y.precision + 1, x.scale + y.scale)
        case "/":
            digits = max(6, x.scale + y.precision + 1)
            return bounded(x.precision - x.scale + y.scale + digits, digits)
    return bounded(min(x.precision - x.scale, y.precision - y.scale) + scale, scale)


def _unary(result: Callable[[IcebergType], IcebergType | None]) -> Bind:
    def bind(types: tuple[IcebergType, ...]) -> Signature | str:
        if len(types) != 1:
            return "takes one number."
        type_ = DoubleType() if isinstance(types[0], StringType | UnknownType) else types[0]
        result_type = result(type_) if isinstance(type_, NUMBERS) else None
        if result_type is None:
            return "takes one number."
        wants = DoubleType() if result_type == DoubleType() else type_
        return Signature((wants,), result_type)

    return bind


# Kernels
# --------------------------------------------------------------------------------------------------


def _arithmetic(op: str) -> Kernel:
    def kernel(
        values: Sequence[pa.Array], types: Sequence[IcebergType], result: IcebergType, zone: str
    ) -> pa.Array:
        a, b = values
        if isinstance(result, DecimalType):
            return _decimals(op, a, b, types, result)
        if op in ("/", "%", "div", "pmod"):
            _check_divisor(op, a, b)
        try:
            return _FAST[op](a, b)
        except pa.ArrowInvalid as e:
            raise EvaluationError(
                f"Overflow in {ARITHMETIC[op]} of {types[0]}: {e}",
                hint="Cast to a wider type.",
                condition=_OVERFLOW,
            ) from e

    return kernel


def _check_divisor(op: str, a: pa.Array, b: pa.Array) -> None:
    zero = pc.equal(b, pa.scalar(0, b.type) if not pa.types.is_floating(b.type) else 0.0)
    if a.null_count:
        zero = pc.and_(zero, a.is_valid())
    if pc.any(zero).as_py():
        raise EvaluationError(
            f"Division by zero in {ARITHMETIC[op]}.",
            hint="Keep such rows out, as in `d <> 0 AND 10 / d > 1`.",
            condition=_BY_ZERO.get(op, "DIVIDE_BY_ZERO"),
        )


def _with_numpy(function: Callable[[Any, Any], Any]) -> Callable[[pa.Array, pa.Array], pa.Array]:
    """Wrap a numpy function of two arguments; the result is null where an argument is null."""

    def run(a: pa.Array, b: pa.Array) -> pa.Array:
        null = pc.or_(a.is_null(), b.is_null()).to_numpy(zero_copy_only=False)
        x = (pc.fill_null(a, pa.scalar(0, a.type)) if a.null_count else a).to_numpy(
            zero_copy_only=False
        )
        y = np.where(
            null,
            1,
            (pc.fill_null(b, pa.scalar(1, b.type)) if b.null_count else b).to_numpy(
                zero_copy_only=False
            ),
        ).astype(x.dtype)
        with np.errstate(all="ignore"):
            return pa.array(function(x, y).astype(x.dtype), mask=null)

    return run


def _pmod(x: npt.NDArray[Any], y: npt.NDArray[Any]) -> Any:
    rest = np.fmod(x, y)
    return np.where(rest < 0, np.fmod(rest + y, y), rest)


def _quotient(a: pa.Array, b: pa.Array) -> pa.Array:
    return pc.divide(a.cast(pa.float64(), safe=False), b.cast(pa.float64(), safe=False))


_FAST: dict[str, Callable[[pa.Array, pa.Array], pa.Array]] = {
    "+": pc.add_checked, "-": pc.subtract_checked, "*": pc.multiply_checked, "/": _quotient, "div": pc.divide_checked,
    "%": _with_numpy(np.fmod), "pmod": _with_numpy(_pmod),
}  # fmt: skip


def _decimals(
    op: str, a: pa.Array, b: pa.Array, types: Sequence[IcebergType], result: DecimalType
) -> pa.Array:
    """Compute decimal arithmetic exactly on unscaled integers, row by row, and round half up to the
    result's scale.
    """
    x_type, y_type = types
    assert isinstance(x_type, DecimalType) and isinstance(y_type, DecimalType)
    decimals: list[Any] = []
    for x, y in zip(a.to_pylist(), b.to_pylist(), strict=True):
        if x is None or y is None:
            decimals.append(None)
            continue
        units = _units(
            op,
            unscaled(x, x_type.scale),
            unscaled(y, y_type.scale),
            x_type.scale,
            y_type.scale,
            result.scale,
        )
        if abs(units) >= 10**result.precision:
            raise EvaluationError(
                f"{x} {op} {y} does not fit into {result}.",
                hint="Cast to a wider type.",
                condition=OUT_OF_RANGE,
            )
        decimals.append(scaled(units, result.scale))
    return pa.array(decimals, arrow_type(result))


def _units(op: str, x: int, y: int, x_scale: int, y_scale: int, scale: int) -> int:
    wider_scale = max(x_scale, y_scale)
    if op == "*":
        exact = x_scale + y_scale
        return (
            _half_up(x * y, 10 ** (exact - scale))
            if exact >= scale
            else x * y * 10 ** (scale - exact)
        )
    if op == "/":
        if y == 0:
            raise EvaluationError(
                "Division by zero in division.",
                hint="Keep such rows out, as in `d <> 0 AND 10 / d > 1`.",
                condition="DIVIDE_BY_ZERO",
            )
        return _half_up(x * 10 ** (scale + y_scale), y * 10**x_scale)
    x, y = x * 10 ** (wider_scale - x_scale), y * 10 ** (wider_scale - y_scale)
    if op in ("%", "pmod"):
        if y == 0:
            raise EvaluationError("Division by zero in remainder.", condition=_BY_ZERO["%"])
        rest = abs(x) % abs(y) * (-1 if x < 0 else 1)
        if op == "pmod" and rest < 0:
            rest = abs(rest + y) % abs(y) * (-1 if rest + y < 0 else 1)
        units = rest
    else:
        units = x + y if op == "+" else x - y
    return (
        _half_up(units, 10 ** (wider_scale - scale))
        if wider_scale >= scale
        else units * 10 ** (scale - wider_scale)
    )


def _half_up(x: int, y: int) -> int:
    """Divide x by y, rounding half away from zero."""
    sign = -1 if (x < 0) != (y < 0) else 1
    return sign * ((2 * abs(x) + abs(y)) // (2 * abs(y)))


def _negative(
    values: Sequence[pa.Array], types: Sequence[IcebergType], result: IcebergType, zone: str
) -> pa.Array:
    if isinstance(result, DecimalType):
        return _with_sign(values[0], result, pc.negate(values[0]))
    return _checked(pc.negate_checked, values[0], "negation")


def _abs(
    values: Sequence[pa.Array], types: Sequence[IcebergType], result: IcebergType, zone: str
) -> pa.Array:
    if isinstance(result, DecimalType):
        return _with_sign(values[0], result, pc.abs(values[0]))
    return _checked(pc.abs_checked, values[0], "abs")


def _with_sign(before: pa.Array, type_: DecimalType, after: pa.Array) -> pa.Array:
    """Round decimals whose sign has changed to 34 digits, half even, as Spark does."""
    if type_.precision <= _SIGN_CHANGES.prec:
        return after
    pairs = zip(before.to_pylist(), after.to_pylist(), strict=True)
    rounded = [new if new == old else _SIGN_CHANGES.plus(new) for old, new in pairs]
    if any(v is not None and abs(unscaled(v, type_.scale)) >= 10**type_.precision for v in rounded):
        raise EvaluationError(f"A value does not fit into {type_}.", condition=OUT_OF_RANGE)
    return pa.array(rounded, after.type)


def _checked(function: Callable[[pa.Array], pa.Array], values: pa.Array, name: str) -> pa.Array:
    try:
        return function(values)
    except pa.ArrowInvalid as e:
        raise EvaluationError(
            f"Overflow in {name}: {e}", hint="Cast to a wider type.", condition=_OVERFLOW
        ) from e


def _rounding(name: str) -> Kernel:
    def kernel(
        values: Sequence[pa.Array], types: Sequence[IcebergType], result: IcebergType, zone: str
    ) -> pa.Array:
        (v,) = values
        if isinstance(types[0], INTEGERS):
            return v.cast(pa.int64())
        if isinstance(types[0], DecimalType):
            # decimal128 may round beyond its precision to 0
            v = v.cast(pa.decimal256(76, types[0].scale))
        rounded = pc.ceil(v) if name == "ceil" else pc.floor(v)
        if isinstance(types[0], FLOATS):
            return over_numpy(rounded, _as_long, pa.int64())
        return rounded.cast(arrow_type(result))

    return kernel


def _as_long(numbers: npt.NDArray[Any]) -> Any:
    """Convert to bigint as Java does: NaN is 0, and what lies beyond is the greatest or least."""
    numbers = np.nan_to_num(numbers.astype(np.float64), nan=0.0)
    beyond = numbers >= 2.0**63
    inside = np.where(beyond, 0.0, np.maximum(numbers, -(2.0**63))).astype(np.int64)
    return np.where(beyond, np.int64(2**63 - 1), inside)


def _rounded_type(type_: IcebergType) -> IcebergType | None:
    if not isinstance(type_, DecimalType):
        return LongType()
    return type_ if type_.scale == 0 else bounded(max(type_.precision - type_.scale + 1, 1), 0)


def _double(type_: IcebergType) -> IcebergType | None:
    return DoubleType()


def _itself(type_: IcebergType) -> IcebergType | None:
    return type_


NUMBER_FUNCTIONS = (
    *(
        Function(
            op, _binary(op), _arithmetic(op), can_fail=True, divides=op in ("/", "div", "pmod")
        )
        for op in ("+", "-", "*", "/", "div", "pmod")
    ),
    Function("%", _binary("%"), _arithmetic("%"), ("mod",), can_fail=True, divides=True),
    Function("negative", _unary(_itself), _negative, can_fail=True),
    Function("positive", _unary(_itself), plain(lambda v: v)),
    Function("abs", _unary(_itself), _abs, can_fail=True),
    Function("ceil", _unary(_rounded_type), _rounding("ceil"), ("ceiling",)),
    Function("floor", _unary(_rounded_type), _rounding("floor")),
    # -0.0 stays what it is
    Function(
        "sign",
        _unary(_double),
        plain(lambda v: pc.if_else(pc.equal(v, 0.0), v, pc.sign(v))),
        ("signum",),
    ),
    Function("sqrt", _unary(_double), plain(pc.sqrt)),
)
