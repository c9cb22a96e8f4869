"""The rule of `arrow.values.casts` for Spark's columns: the same types and values go into a column, whichever engine brings them.

A cast of Spark's own would wrap, round or give null where a session is not in ANSI mode; here a value without an equal one in the column's
type fails the job, with the mark that `misfit` looks for.
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
    try:
        return arrow_type(have)
    except Unsupported:
        return None


def castable(have: s.DataType, want: i.IcebergType) -> bool:
    """Whether a column of an Iceberg type takes values of a Spark type; which of them, `safe_cast` checks."""
    if isinstance(want, i.VariantType):
        return isinstance(have, s.VariantType | s.NullType)
    if i.children(want) or isinstance(have, s.VariantType):
        return isinstance(have, s.NullType)
    if isinstance(want, i.TimestampNanoType | i.TimestamptzNanoType):  # which Spark cannot show either
        return isinstance(have, s.NullType)
    known = _arrow(have)
    return known is not None and cast_for(known, want) is not None


def not_taken(have: s.DataType, want: i.IcebergType, path: str, verb: str) -> Problem:
    """Values of a type that a column does not take, and what to do about it."""
    known = _arrow(have)
    hint = (advice(known, want) if known is not None else "") or CAST
    return Problem(path, have.simpleString(), str(want), f"{have.simpleString()} {verb} {want}", hint)


def safe_cast(c: Column, have: s.DataType, to: s.DataType, path: str) -> Column:
    """The cast between types of which `castable` is true; values without an equal one are errors while rows are taken."""
    bits, target = _BITS.get(type(have)), _BITS.get(type(to))
    if bits is not None and isinstance(to, s.FloatType | s.DoubleType):
        narrow = isinstance(to, s.FloatType)
        exact = exact_bits(pa.float32() if narrow else pa.float64())
        return c.cast(to) if bits <= exact else _checked(c, to, path, lambda x: _is_exact(x, x.cast(to)))
    if bits is not None and isinstance(to, s.DecimalType):
        return c.cast(to) if _DIGITS[bits] <= to.precision - to.scale else _checked(c, to, path)
    if bits is not None and target is not None:
        return c.cast(to) if bits <= target else _checked(c, to, path)
    if isinstance(have, s.DecimalType) and isinstance(to, s.DecimalType):
        return c.cast(to) if have.precision - have.scale <= to.precision - to.scale else _checked(c, to, path)
    return c.cast(to)


def _is_exact(whole: Column, floating: Column) -> Column:
    """Whether a whole number and what it became are equal. 2^63 itself is no bigint, though casts may take it for the largest."""
    return (floating < F.lit(2.0**63)) & (floating.try_cast("bigint") == whole)


def _checked(c: Column, to: s.DataType, path: str, fits: Callable[[Column], Column] | None = None) -> Column:
    """The cast, or an error that names the column; the value is computed once, whatever it is."""

    def one(x: Column) -> Column:
        good = fits(x) if fits is not None else x.try_cast(to).isNotNull()
        text = F.concat(F.lit(f"{MISFIT}A value of column {path} does not fit its type {to.simpleString()}: "), x.cast("string"))
        return F.when(x.isNull() | F.coalesce(good, F.lit(False)), x.try_cast(to)).otherwise(F.raise_error(text).cast(to))

    return F.transform(F.array(c), one).getItem(0)


def misfit(text: str) -> ValueMismatch | None:
    """The error behind a failed job whose reason was a value that a column does not take."""
    at = text.find(MISFIT)
    if at < 0:
        return None
    message = text[at + len(MISFIT) :].split(". SQLSTATE")[0].split(" SQLSTATE")[0].splitlines()[0]
    return ValueMismatch(f"{message}.", hint="Make the table's column wider, or cast the frame's, which rounds or fails.")
