"""Evaluate bound expressions over columns of internal values (see `values`), with Spark's
three-valued logic and order of floats.

NaN equals NaN and is above every number, -0.0 equals 0.0. AND, OR, CASE and COALESCE compute a part
that can fail only for the rows that need it, as Spark does, so `d <> 0 AND 10 / d > 1` does not
divide by zero.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from frazil.errors import EvaluationError
from frazil.expr.bound import (
    Bound,
    BoundAnd,
    BoundCall,
    BoundCast,
    BoundLiteral,
    BoundNot,
    BoundOr,
    BoundReference,
    Comparison,
    Constant,
    LikeTest,
    Membership,
    NaNTest,
    NullOr,
    NullTest,
    PrefixTest,
    walk,
)
from frazil.expr.casts import cast_values
from frazil.expr.functions.by_name import FUNCTIONS
from frazil.expr.functions.function import Function
from frazil.expr.functions.text import as_regex
from frazil.expr.values import FLOATS, array, arrow_type, scalar
from frazil.spec.types import IcebergType

ValuesOf = Callable[[BoundReference], pa.Array]
_BOOL = pa.bool_()


def compute(bound: Bound, column: ValuesOf, rows: int) -> pa.Array:
    """Compute an expression for each of `rows` rows; `column` returns a referenced column as an
    array of internal values.

    Raises EvaluationError for a value for which the expression fails (overflow, division by zero, a
    cast that does not fit).
    """
    match bound:
        case BoundReference():
            return column(bound)
        case BoundLiteral(value=value, type=type_):
            return pa.repeat(scalar(value, type_), rows)
        case Constant(value=value):
            return pa.repeat(pa.scalar(value, _BOOL), rows)
        case BoundAnd(parts=parts):
            return _junction(parts, column, rows, pc.and_kleene, stops=False)
        case BoundOr(parts=parts):
            return _junction(parts, column, rows, pc.or_kleene, stops=True)
        case BoundNot(child=child):
            return pc.invert(compute(child, column, rows))
        case Comparison():
            return _comparison(bound, column, rows)
        case BoundCast(term=term, type=type_, zone=zone, attempt=attempt, stores=stores):
            values = compute(term, column, rows)
            try:
                return cast_values(values, term.type, type_, zone=zone, attempt=attempt)
            except EvaluationError as e:
                if stores:
                    e.facts["condition"] = "CAST_OVERFLOW_IN_TABLE_INSERT"
                raise
        case BoundCall(function="case", arguments=arguments):
            return _case(arguments, bound.type, column, rows)
        case BoundCall(function="coalesce", arguments=arguments):
            return _coalesce(arguments, column, rows)
        case BoundCall(function=function, arguments=arguments, type=type_, zone=zone):
            values = _arguments(FUNCTIONS[function], arguments, column, rows)
            return FUNCTIONS[function].kernel(values, [a.type for a in arguments], type_, zone)
    return _test(bound, column, rows)


def _test(bound: Bound, column: ValuesOf, rows: int) -> pa.Array:
    match bound:
        case NullTest(term=term):
            return compute(term, column, rows).is_null()
        case NaNTest(term=term):
            return _filled(pc.is_nan(compute(term, column, rows)), False)
        case NullOr(term=term, value=answer):
            values = compute(term, column, rows)
            return pc.if_else(values.is_valid(), pa.scalar(answer), pa.scalar(None, _BOOL))
        case PrefixTest(term=term, prefix=prefix):
            return pc.starts_with(compute(term, column, rows), prefix)
        case LikeTest(term=term, pieces=pieces):
            return _like(compute(term, column, rows), pieces)
        case Membership(term=term, values=values, has_null=has_null):
            return _member(compute(term, column, rows), values, has_null, term.type)
    raise AssertionError(f"unknown node {bound!r}")


def evaluate_constant(bound: Bound) -> Any:
    """Compute the internal value of an expression without columns."""
    return compute(bound, _no_column, 1)[0].as_py()


def _no_column(reference: BoundReference) -> pa.Array:
    raise AssertionError(f"{reference} in a constant")


# Logic
# --------------------------------------------------------------------------------------------------


def _junction(
    parts: Sequence[Bound], column: ValuesOf, rows: int, join: Callable[..., pa.Array], stops: bool
) -> pa.Array:
    joined = compute(parts[0], column, rows)
    for part in parts[1:]:
        if can_fail(part):
            open_ = _filled(pc.not_equal(joined, stops), True)
            joined = join(joined, _on(open_, part, column))
        else:
            joined = join(joined, compute(part, column, rows))
    return joined


def can_fail(bound: Bound) -> bool:
    """Tell whether computing the expression may raise EvaluationError."""
    for node in walk(bound):
        match node:
            case BoundCast(attempt=False):
                return True
            case BoundCall(function=function) if FUNCTIONS[function].can_fail:
                return True
    return False


def _on(mask: pa.Array, bound: Bound, column: ValuesOf) -> pa.Array:
    """Compute the value only for the rows where `mask` is true; null elsewhere."""
    count = mask.true_count
    if count == len(mask):
        return compute(bound, column, count)
    values = compute(bound, lambda r: column(r).filter(mask), count)
    indices = pc.if_else(
        mask, pc.subtract(pc.cumulative_sum(mask.cast(pa.int64())), 1), pa.scalar(None, pa.int64())
    )
    return values.take(indices)


def _arguments(
    function: Function, arguments: Sequence[Bound], column: ValuesOf, rows: int
) -> list[pa.Array]:
    """Compute arguments in turn, those that can fail only for the rows in which none before them is
    null, as Spark does.
    """
    values, valid = [pa.nulls(0)] * len(arguments), pa.repeat(pa.scalar(True), rows)
    places = range(len(arguments))
    for place in reversed(places) if function.divides else places:
        argument = arguments[place]
        lazily = function.goes_on is not None and can_fail(argument)
        values[place] = _on(valid, argument, column) if lazily else compute(argument, column, rows)
        if function.goes_on is not None:
            valid = pc.and_(valid, function.goes_on(values[place]))
    return values


def _case(arguments: Sequence[Bound], type_: IcebergType, column: ValuesOf, rows: int) -> pa.Array:
    """Compute CASE: pairs of condition and value, then possibly the value of ELSE."""
    left = pa.repeat(pa.scalar(True), rows)
    result = pa.nulls(rows, arrow_type(type_))
    for condition, value in zip(arguments[::2], arguments[1::2], strict=False):
        hit = pc.and_(left, _filled(_on(left, condition, column), False))
        result = pc.if_else(hit, _on(hit, value, column), result)
        left = pc.and_not(left, hit)
    if len(arguments) % 2:
        result = pc.if_else(left, _on(left, arguments[-1], column), result)
    return result


def _coalesce(arguments: Sequence[Bound], column: ValuesOf, rows: int) -> pa.Array:
    result = compute(arguments[0], column, rows)
    for a in arguments[1:]:
        if not result.null_count:
            break
        empty = result.is_null()
        result = pc.if_else(empty, _on(empty, a, column), result)
    return result


def _filled(values: pa.Array, with_: bool) -> pa.Array:
    return pc.fill_null(values, with_) if values.null_count else values


# Tests
# --------------------------------------------------------------------------------------------------


def _comparison(node: Comparison, column: ValuesOf, rows: int) -> pa.Array:
    left = compute(node.left, column, rows)
    if isinstance(node.right, BoundLiteral):
        return compare_with(node.op, left, node.right.value, node.right.type)
    # as in Spark, which computes the right side where the left one is not null
    lazily = node.op != "nseq" and left.null_count and can_fail(node.right)
    right = (
        _on(left.is_valid(), node.right, column) if lazily else compute(node.right, column, rows)
    )
    return compare_arrays(node.op, left, right, floats=isinstance(node.left.type, FLOATS))


def compare_with(op: str, left: pa.Array, value: object, type_: IcebergType) -> pa.Array:
    """Compare an array with a constant: `left op value`; the value is not null."""
    if op == "nseq":
        return _filled(compare_with("eq", left, value, type_), False)
    if value is True and op == "eq":
        return left
    if isinstance(type_, FLOATS):
        if value != value:
            return _against_nan(op, left)
        if op in (
            "gt",
            "ge",
        ):
            # NaN is above every number, but Arrow's gt is false for it; so the opposite is negated
            return pc.invert(_PLAIN["le" if op == "gt" else "lt"](left, scalar(value, type_)))
    return _PLAIN[op](left, scalar(value, type_))


def _against_nan(op: str, left: pa.Array) -> pa.Array:
    nan = pc.is_nan(left)
    match op:
        case "lt":
            return pc.invert(nan)
        case "le":
            return pc.or_(nan, pc.invert(nan))
        case "gt":
            return pc.and_(nan, pc.invert(nan))
    return nan


def compare_arrays(op: str, left: pa.Array, right: pa.Array, floats: bool) -> pa.Array:
    """Compare two arrays row by row: `left op right`."""
    if op == "nseq":
        both = pc.and_(left.is_null(), right.is_null())
        return pc.or_(both, _filled(compare_arrays("eq", left, right, floats), False))
    if not floats:
        return _PLAIN[op](left, right)
    if op in ("gt", "ge"):
        return compare_arrays("lt" if op == "gt" else "le", right, left, floats)
    nan_left, nan_right = pc.is_nan(left), pc.is_nan(right)
    match op:
        case "eq":
            return pc.or_(pc.equal(left, right), pc.and_(nan_left, nan_right))
        case "lt":
            return pc.or_(pc.less(left, right), pc.and_(nan_right, pc.invert(nan_left)))
    return pc.or_(pc.less_equal(left, right), nan_right)


def _member(
    operand: pa.Array, values: tuple[Any, ...], has_null: bool, type_: IcebergType
) -> pa.Array:
    plain = [v for v in values if v == v]
    has_nan = len(plain) < len(values)
    if isinstance(type_, FLOATS) and 0.0 in plain:
        plain = [*plain, -0.0, 0.0]  # both, since Arrow's hash set distinguishes them
    answer = pc.is_in(operand, value_set=array(plain, type_))
    if has_nan:
        answer = pc.or_(answer, _filled(pc.is_nan(operand), False))
    if has_null:
        return pc.if_else(answer, True, pa.scalar(None, _BOOL))
    return (
        pc.if_else(operand.is_valid(), answer, pa.scalar(None, _BOOL))
        if operand.null_count
        else answer
    )


def _like(values: pa.Array, pieces: tuple[str | int | None, ...]) -> pa.Array:
    match pieces:
        case (None, str() as text):
            return pc.ends_with(values, text)
        case (None, str() as text, None):
            return pc.match_substring(values, text)
        case (None,):
            return pc.if_else(values.is_valid(), True, pa.scalar(None, _BOOL))
    return pc.match_substring_regex(values, as_regex(pieces))


_PLAIN: dict[str, Callable[..., pa.Array]] = {
    "eq": pc.equal, "lt": pc.less, "le": pc.less_equal, "gt": pc.greater, "ge": pc.greater_equal,
}  # fmt: skip
