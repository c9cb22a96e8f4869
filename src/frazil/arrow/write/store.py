"""Assign new values to a column in UPDATE and MERGE: Python values by the rule of safe casts, SQL
by Spark's store assignment.

Columns of a source that are matched by name (upsert, update all, insert all) and Python values are
taken as an append would take them (`arrow.values.casts`): with an equal value in the column's type,
or not at all. Expressions in SET and VALUES are Spark SQL, whose arithmetic makes wider numbers
(`price * 1.1` has one digit more than `price`); so their numbers and text are cast as Spark's ANSI
store assignment does, and overflow is an error. Times never move into or out of a zone unless a
CAST says so, in expressions neither. Only literals of SQL text without a zone are taken to be in
the time zone in which the expressions are evaluated.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

import pyarrow as pa

from frazil.arrow.values.arrays import internal_values
from frazil.arrow.values.arrow_schema import to_arrow_type
from frazil.arrow.values.casts import cast_for
from frazil.arrow.values.mismatch import CAST, Problem, advice
from frazil.arrow.values.python_values import column_of
from frazil.arrow.write.conform import column_maker
from frazil.errors import EvaluationError, InvalidInput, SchemaMismatch, ValueMismatch
from frazil.expr.bind import fold
from frazil.expr.bound import Bound, BoundCast, BoundLiteral, BoundReference, Constant
from frazil.expr.casts import castable
from frazil.expr.nodes import Cast, Expression, Literal, Reference
from frazil.expr.values import MICROS, MOMENTS, NANOS, NUMBERS
from frazil.spec.types import (
    BinaryType,
    DateType,
    FixedType,
    GeographyType,
    GeometryType,
    IcebergType,
    ListType,
    MapType,
    NestedField,
    StringType,
    StructType,
    UnknownType,
    UUIDType,
    VariantType,
)


class Origin(Enum):
    """Name the ways in which a new value is given."""

    CONSTANT = "a Python value"
    LITERAL = "a literal of SQL text"
    BY_NAME = "a column of a source, matched by its name"
    EXPRESSION = "any other expression"


@dataclass(frozen=True)
class ByName:
    """Refer to the column of a source that is matched with one of the target by its name."""

    column: Reference


def origin_of(value: object, expression: Expression) -> Origin:
    """Tell how a value was given. `expression`: what the value was parsed as."""
    if isinstance(value, ByName):
        return Origin.BY_NAME
    match expression:
        case Literal(type=None) if not isinstance(value, str):
            return Origin.CONSTANT
        case Literal() | Cast(term=Literal()):
            return Origin.LITERAL
    return Origin.EXPRESSION


def stored(
    value: Bound,
    origin: Origin,
    field: NestedField,
    name: str,
    zone: str = "UTC",
    case_sensitive: bool = True,
) -> Bound:
    """Cast a value to the type of a column. A column matched by name stays as it is: `column_maker`
    casts it when rows are read.

    Raises InvalidInput for types that the column does not take, EvaluationError for a constant that
    does not fit.
    """
    if isinstance(value, Constant):
        value = BoundLiteral(value.value, value.type)
    want = field.field_type
    if isinstance(value, BoundLiteral) and value.value is None:
        if field.required:
            raise SchemaMismatch(
                f"Column {name} is required and cannot be set to null.",
                column=name,
                condition="NOT_NULL_ASSERT_VIOLATION",
            )
        return BoundLiteral(None, want)
    if value.type == want:
        return value
    if isinstance(value, BoundReference) and (
        origin is Origin.BY_NAME or not _casts_freely(value.type, want)
    ):
        return _column(value, field, name, case_sensitive)
    if not want.is_primitive or not value.type.is_primitive:
        raise refused(str(value), value.type, want, name)
    if is_type_in_frames(value.type, want):
        return value
    if not assignable(value.type, want, origin):
        raise refused(str(value), value.type, want, name)
    try:
        return fold(BoundCast(value, want, zone, stores=True))
    except EvaluationError as e:
        raise of_column(e, name) from e


def of_column(error: EvaluationError, name: str) -> EvaluationError:
    """Return the error of a value that cannot be computed or stored, with the column it is for."""
    facts = {**error.facts, "column": name}
    return EvaluationError(f"Column {name}: {error.message}", hint=error.hint, **facts)


def constant_of(value: Any, own_type: IcebergType, field: NestedField, name: str) -> BoundLiteral:
    """Convert a Python value that is not None to the type of a column. `own_type`: the type that
    the value has by itself.

    Raises SchemaMismatch for a type that the column does not take, ValueMismatch for a value that
    does not fit.
    """
    want = field.field_type
    for convert in ("as_py", "to_pydatetime", "item"):
        if (
            hasattr(value, convert)
            and not isinstance(value, str | bytes)
            and not getattr(value, "nanosecond", 0)
        ):
            value = getattr(value, convert)()
    try:
        array = column_of(name, [value], want)
        cast = cast_for(array.type, want) if want.is_primitive else None
        if cast is None:
            raise refused(repr(value), own_type, want, name)
        return BoundLiteral(internal_values(want, cast(array))[0], want)
    except (pa.ArrowInvalid, InvalidInput) as error:
        if isinstance(error, SchemaMismatch) and not isinstance(error, ValueMismatch):
            raise
        text = (
            str(error)
            .splitlines()[0]
            .removeprefix(f"A value of column {name} does not fit its type {want}: ")
        )
        hint = error.hint if isinstance(error, InvalidInput) else None
        text = text.removesuffix(f" {hint}")
        raise ValueMismatch(
            f"Column {name}: {value!r} does not fit its type {want}: {text}", hint=hint, column=name
        ) from error


def problem_of(value: Bound, field: NestedField, name: str) -> Problem | None:
    """Describe why the type of a column matched by name does not fit the target's; None when it
    does. `stored` checks nested types.
    """
    have, want = value.type, field.field_type
    nested = (
        isinstance(have, StructType | ListType | MapType),
        isinstance(want, StructType | ListType | MapType),
    )
    if (
        all(nested)
        or (not any(nested) and cast_for(to_arrow_type(have), want) is not None)
        or isinstance(have, UnknownType)
    ):
        return None
    hint = "" if any(nested) else advice(to_arrow_type(have), want)
    return Problem(name, str(have), str(want), "cannot be cast safely", hint or CAST)


def _column(
    value: BoundReference, field: NestedField, name: str, case_sensitive: bool
) -> BoundReference:
    want = field.field_type
    have = to_arrow_type(value.type)
    if want.is_primitive != value.type.is_primitive and not isinstance(value.type, UnknownType):
        raise refused(str(value), value.type, want, name)
    if want.is_primitive and cast_for(have, want) is None:
        raise refused(str(value), value.type, want, name)
    to = NestedField(field.field_id, field.name, want, field.required)
    # refuses now what would not fit
    column_maker(to, pa.field(field.name, have), case_sensitive=case_sensitive, name=name)
    return value


def _casts_freely(have: IcebergType, want: IcebergType) -> bool:
    """Tell whether an expression is cast without an explicit CAST: numbers to numbers, anything to
    text.
    """
    return (
        isinstance(have, NUMBERS)
        and isinstance(want, NUMBERS)
        or (isinstance(want, StringType) and castable(have, want))
    )


def is_type_in_frames(have: IcebergType, want: IcebergType) -> bool:
    """Tell whether values come as the type that frames have in place of the column's: JSON text for
    variant, WKB for geo types.
    """
    if isinstance(want, VariantType):
        return isinstance(have, StringType)
    return isinstance(want, GeometryType | GeographyType) and isinstance(have, BinaryType)


def assignable(have: IcebergType, want: IcebergType, origin: Origin) -> bool:
    """Tell whether an expression is cast to the column's type implicitly.

    The rule is Spark's ANSI store assignment: numbers to numbers, anything to text, text to nothing
    but uuids. Unlike there, times that are not literals are never moved into or out of a zone.
    """
    if have == want or isinstance(have, UnknownType):
        return True
    if _casts_freely(have, want):
        return True
    if isinstance(have, (DateType, *MOMENTS)) and isinstance(want, (DateType, *MOMENTS)):
        if origin is Origin.LITERAL:
            return True
        return cast_for(to_arrow_type(have), want) is not None and not (
            isinstance(have, NANOS) and isinstance(want, MICROS)
        )
    if isinstance(have, StringType) and isinstance(want, UUIDType):
        return True
    return isinstance(have, BinaryType | FixedType) and isinstance(want, BinaryType | FixedType)


def refused(value: str, have: IcebergType, want: IcebergType, name: str) -> SchemaMismatch:
    """Make the error for a value of a type that the column does not take."""
    hint = advice(to_arrow_type(have), want) if have.is_primitive else ""
    text = f"Cannot assign {value} of type {have} to column {name} of type {want}."
    return SchemaMismatch(
        text, hint=f"{hint} In an expression: CAST it." if hint else "CAST it.", column=name
    )
