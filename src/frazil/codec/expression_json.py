"""Convert a filter to Iceberg's JSON of expressions, as a REST catalog's server is sent it to plan
a scan by.

The server leaves out files without matching rows, so the JSON may keep more rows than the filter,
never fewer: a part that it cannot express, or that Java evaluates in another way than Spark's SQL,
becomes true. Negations are moved inwards before that, so that such a part is never negated. What is
different in Java: NaN is beyond no bound (bounds leave it out), -0.0 is less than 0.0, and uuids
are compared as signed numbers.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from functools import reduce
from typing import Any, TypeAlias

from frazil.codec.single_value import to_json
from frazil.errors import FrazilError
from frazil.expr.bound import (
    Bound,
    BoundAnd,
    BoundLiteral,
    BoundNot,
    BoundOr,
    BoundReference,
    Comparison,
    Constant,
    Membership,
    NaNTest,
    NullOr,
    NullTest,
    PrefixTest,
)
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
)

Json: TypeAlias = bool | dict[str, Any]
Name: TypeAlias = Callable[[BoundReference], str | None]
"""Return the name under which the server knows a column; None: the column must not be sent."""

_NEGATED = {"eq": "ne", "lt": "ge", "le": "gt", "gt": "le", "ge": "lt"}
_WORDS = {"eq": "eq", "ne": "not-eq", "lt": "lt", "le": "lt-eq", "gt": "gt", "ge": "gt-eq"}
_ISO = (DateType, TimeType, TimestampType, TimestamptzType, TimestampNanoType, TimestamptzNanoType)
_MOST_VALUES = 1000  # of an IN; a longer list takes a server longer than it saves


def filter_to_json(bound: Bound, name: Name) -> Json:
    """Return a filter as JSON that is true for every row for which the filter is TRUE; True where
    nothing of it can be sent.
    """
    return _json(bound, name, False)


def _json(bound: Bound, name: Name, negated: bool) -> Json:
    """Return the JSON of an expression, or of its negation, which is not true where the expression
    is NULL.
    """
    match bound:
        case Constant(value=value):
            return value is not None and value is not negated
        case BoundAnd(parts=parts):
            return _joined("or" if negated else "and", [_json(p, name, negated) for p in parts])
        case BoundOr(parts=parts):
            return _joined("and" if negated else "or", [_json(p, name, negated) for p in parts])
        case BoundNot(child=child):
            return _json(child, name, not negated)
        case Comparison(op=op, left=BoundReference() as term, right=BoundLiteral(value=value)) if (
            value is not None
        ):
            return (
                True
                if (column := name(term)) is None
                else _comparison(op, term, column, value, negated)
            )
        case Membership(term=BoundReference() as term, values=values):
            return (
                True
                if (column := name(term)) is None
                else _membership(term, column, values, negated)
            )
        case NullTest(term=BoundReference() as term):
            return True if (column := name(term)) is None else _null_test(term, column, negated)
        case NullOr(term=BoundReference() as term, value=value):
            if value is negated:
                return False
            return True if (column := name(term)) is None else _null_test(term, column, True)
        case NaNTest(term=BoundReference() as term) if isinstance(
            term.type, FloatType | DoubleType
        ):
            return (
                True
                if (column := name(term)) is None
                else {"type": "not-nan" if negated else "is-nan", "term": column}
            )
        case PrefixTest(term=BoundReference() as term, prefix=str() as prefix) if (
            isinstance(term.type, StringType) and prefix
        ):
            return (
                True if negated or (column := name(term)) is None else _prefix_test(column, prefix)
            )
        case BoundReference(type=BooleanType()):
            return (
                True
                if (column := name(bound)) is None
                else {"type": "eq", "term": column, "value": not negated}
            )
    return True


def _comparison(op: str, term: BoundReference, column: str, value: object, negated: bool) -> Json:
    if op == "nseq":
        if not negated:
            return _comparison("eq", term, column, value, False)
        return _joined(
            "or", [_null_test(term, column, False), _comparison("eq", term, column, value, True)]
        )
    op = _NEGATED[op] if negated and op != "ne" else op
    if isinstance(term.type, FloatType | DoubleType):
        return _of_floats(op, term.type, column, value)
    if isinstance(term.type, BooleanType) and op not in ("eq", "ne"):
        return True
    sent = _value(term.type, value)
    return True if sent is None else {"type": _WORDS[op], "term": column, "value": sent}


def _of_floats(op: str, type_: IcebergType, column: str, value: Any) -> Json:
    """Compare a float as Spark does, by what Java evaluates: NaN is above all numbers, and both
    zeros are equal.
    """
    is_nan = {"type": "is-nan", "term": column}
    if math.isnan(value):
        return is_nan if op in ("eq", "ge") else op != "gt"
    if (sent := _value(type_, value)) is None:
        return True
    if value == 0:
        least, most = (
            {"type": "gt-eq", "term": column, "value": -0.0},
            {"type": "lt-eq", "term": column, "value": 0.0},
        )
        if op == "ne":
            return True
        return (
            _joined("and", [least, most])
            if op == "eq"
            else most
            if op in ("lt", "le")
            else _joined("or", [least, is_nan])
        )
    compared: Json = {"type": _WORDS[op], "term": column, "value": sent}
    return _joined("or", [compared, is_nan]) if op in ("gt", "ge") else compared


def _membership(term: BoundReference, column: str, values: tuple[Any, ...], negated: bool) -> Json:
    sent = [_value(term.type, v) for v in values[: _MOST_VALUES + 1]]
    has_zero = isinstance(term.type, FloatType | DoubleType) and 0 in values
    if len(sent) > _MOST_VALUES or any(v is None for v in sent) or has_zero:
        return True
    if not sent:
        return True
    return {"type": "not-in" if negated else "in", "term": column, "values": sent}


def _null_test(term: BoundReference, column: str, negated: bool) -> Json:
    """Test for null. Writers do not agree on whether a column inside a null struct counts as a
    null, so IS NULL is sent of top-level columns only."""
    if negated:
        return {"type": "not-null", "term": column}
    return True if len(term.path) > 1 else {"type": "is-null", "term": column}


def _prefix_test(column: str, prefix: str) -> Json:
    """Test for a prefix by a range: Java's server (1.11.0) fails at the word starts-with where a
    partition value is null.
    """
    if not _is_text(prefix):
        return True
    least: Json = {"type": "gt-eq", "term": column, "value": prefix}
    after = ord(prefix[-1]) + 1
    if 0xD800 <= after < 0xE000 or after > 0x10FFFF:
        return least
    return _joined(
        "and", [least, {"type": "lt", "term": column, "value": prefix[:-1] + chr(after)}]
    )


def _joined(word: str, sides: list[Json]) -> Json:
    neutral = word == "and"
    if any(s is (not neutral) for s in sides):
        return not neutral
    sides = [s for s in sides if s is not neutral]
    return (
        reduce(lambda left, right: {"type": word, "left": left, "right": right}, sides)
        if sides
        else neutral
    )


def _value(type_: IcebergType, value: Any) -> Any:
    """Return a constant as JSON; None where it has none from which a server certainly makes the
    same constant.
    """
    match type_:
        case BooleanType():
            return value if isinstance(value, bool) else None
        case IntegerType() | LongType():
            bits = 31 if isinstance(type_, IntegerType) else 63
            return value if -(2**bits) <= value < 2**bits else None
        case FloatType() | DoubleType():
            exact = math.isfinite(value) and (isinstance(type_, DoubleType) or _is_single(value))
            return float(value) if exact else None
        case StringType():
            return value if _is_text(value) else None
        case (
            DecimalType()
            | DateType()
            | TimeType()
            | TimestampType()
            | TimestamptzType()
            | TimestampNanoType()
            | TimestamptzNanoType()
        ):
            return _text(type_, value)
    return None


def _is_text(value: str) -> bool:
    """Tell whether a text can be encoded."""
    return value.isascii() or not any("\ud800" <= c <= "\udfff" for c in value)


def _is_single(value: float) -> bool:
    try:
        return bool(struct.unpack("<f", struct.pack("<f", value))[0] == value)
    except OverflowError:
        return False


def _text(type_: IcebergType, value: object) -> str | None:
    """Return a decimal, date or time as text; None for one that does not fit its type, and for
    years of other than four digits.
    """
    try:
        text = str(to_json(type_, value))
    except (FrazilError, ValueError, ArithmeticError):
        return None
    if isinstance(type_, _ISO) and not isinstance(type_, TimeType):
        return text if text[:4].isdigit() and text[4:5] == "-" and text[:4] != "0000" else None
    return text
