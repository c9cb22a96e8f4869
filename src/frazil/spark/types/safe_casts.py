"""Cast Spark columns to the types of a table by the rule of `arrow.values.casts`, so that a column
takes the same types and values from Spark as from Arrow.

Outside ANSI mode Spark's own casts wrap around, round or return null. Here a value that has no
equal in the table's type fails the job, with a mark in the message by which `misfit` recognises it.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as s

from frazil.arrow.values.casts import cast_for, exact_bits
from frazil.arrow.values.mismatch import CAST, Problem, advice
from frazil.errors import Unsupported, ValueMismatch
from frazil.spark.types.arrow_types import arrow_type
from frazil.spec import types as i

MISFIT = "FRAZIL_MISFIT: "
_BITS = {s.ByteType: 8, s.ShortType: 16, s.IntegerType: 32, s.LongType: 64}
_DIGITS = {8: 3, 16: 5, 32: 10, 64: 19}


def _arrow(have: s.DataType) -> pa.DataType | None:
    """Return the Arrow type of a Spark type, None where there is none."""
    try:
        return arrow_type(have)
    except Unsupported:
        return None


def castable(have: s.DataType, want: i.IcebergType) -> bool:
    """Tell whether a column of an Iceberg type takes values of a Spark type at all; `safe_cast`
    then checks each value.
    """
    if isinstance(want, i.VariantType):
        return isinstance(have, s.VariantType | s.NullType)
    if i.children(want) or isinstance(have, s.VariantType):
        return isinstance(have, s.NullType)
    if isinstance(want, i.TimestampNanoType | i.TimestamptzNanoType):
        # Spark has no such type, so nothing but null can be written
        return isinstance(have, s.NullType)
    arrow = _arrow(have)
    return arrow is not None and cast_for(arrow, want) is not None


def not_taken(have: s.DataType, want: i.IcebergType, path: str, verb: str) -> Problem:
    """Describe, with a hint, a column of a type that the table's column does not take. `verb`: such
    as "cannot be written as".
    """
    arrow = _arrow(have)
    hint = (advice(arrow, want) if arrow is not None else "") or CAST
    return Problem(
        path, have.simpleString(), str(want), f"{have.simpleString()} {verb} {want}", hint
    )


def safe_cast(c: Column, have: s.DataType, to: s.DataType, path: str) -> Column:
    """Return a column cast to the Spark type of the table's column, for types that are `castable`.
    A value that has no equal in that type fails the job when the row is read. `path`: the column's
    name, for the message."""
    bits, target = _BITS.get(type(have)), _BITS.get(type(to))
    if bits is not None and isinstance(to, s.FloatType | s.DoubleType):
        narrow = isinstance(to, s.FloatType)
        exact = exact_bits(pa.float32() if narrow else pa.float64())
        return (
            c.cast(to)
            if bits <= exact
            else _checked(c, to, path, lambda x: _is_exact(x, x.cast(to)))
        )
    if bits is not None and isinstance(to, s.DecimalType):
        return c.cast(to) if _DIGITS[bits] <= to.precision - to.scale else _checked(c, to, path)
    if bits is not None and target is not None:
        return c.cast(to) if bits <= target else _checked(c, to, path)
    if isinstance(have, s.DecimalType) and isinstance(to, s.DecimalType):
        return (
            c.cast(to)
            if have.precision - have.scale <= to.precision - to.scale
            else _checked(c, to, path)
        )
    return c.cast(to)


def _is_exact(whole: Column, floating: Column) -> Column:
    """Tell, per row, whether an integer and the floating-point number that it was cast to are
    equal. 2^63 is excluded: it is not a bigint, but a cast may turn it into the largest one."""
    return (floating < F.lit(2.0**63)) & (floating.try_cast("bigint") == whole)


def _checked(
    c: Column, to: s.DataType, path: str, fits: Callable[[Column], Column] | None = None
) -> Column:
    """Return the cast that fails the job, with the column's name, for values that do not fit.
    Without `fits`, those that `try_cast` makes null do not fit."""

    def cast_value(value: Column) -> Column:
        is_exact = fits(value) if fits is not None else value.try_cast(to).isNotNull()
        text = F.concat(
            F.lit(f"{MISFIT}A value of column {path} does not fit its type {to.simpleString()}: "),
            value.cast("string"),
        )
        return F.when(
            value.isNull() | F.coalesce(is_exact, F.lit(False)), value.try_cast(to)
        ).otherwise(F.raise_error(text).cast(to))

    # The value is an element of an array so that Spark computes it once, although the cast refers
    # to it several times: it may be expensive, or differ at each evaluation.
    return F.transform(F.array(c), cast_value).getItem(0)


def misfit(text: str) -> ValueMismatch | None:
    """Return the error to raise if the text of a failed job's error reports a value that does not
    fit its column, else None.
    """
    start = text.find(MISFIT)
    if start < 0:
        return None
    message = (
        text[start + len(MISFIT) :].split(". SQLSTATE")[0].split(" SQLSTATE")[0].splitlines()[0]
    )
    return ValueMismatch(
        f"{message}.",
        hint="Make the table's column wider, or change the values before they are written.",
    )
