"""Compute partition transforms as Spark columns, with the values of `spec.transform_values`.

Transforms are built of Spark's own functions, so that Catalyst compiles them and no row leaves the
JVM. Buckets of strings, decimals and bytes are computed by an Arrow UDF, because Spark's hash of
these differs from Iceberg's.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as s

from frazil.errors import Unsupported
from frazil.spark.host.workers import frazil_version
from frazil.spark.tasks.this_task import INPUT
from frazil.spec import transforms as t
from frazil.spec import types as i
from frazil.spec.transform_values import hours_beyond_an_int

# Iceberg hashes with seed 0, Spark with 42; this int hashes to 0, which is the seed of what is
# hashed next
_SEED_ZERO = -1693959553
_DAY, _HOUR = 86_400_000_000, 3_600_000_000
_MOST_DIGITS = 38  # of a decimal in Spark
_BY_ARROW = (i.StringType, i.DecimalType, i.BinaryType, i.FixedType, i.UUIDType)


def transformed(transform: t.Transform, type_: i.IcebergType, c: Column) -> Column:
    """Return the partition value of a column, in the transform's result type (`day` as a number of
    days). Null stays null.

    Raises Unsupported for a transform that Frazil does not know.
    """
    match transform:
        case t.IdentityTransform():
            return c
        case t.VoidTransform():
            return F.lit(None).cast("string")
        case t.BucketTransform(num_buckets=n):
            return _bucket(type_, c, n)
        case t.TruncateTransform(width=width):
            return _truncate(type_, c, width)
        case t.YearTransform():
            return F.year(_utc_date(type_, c)) - 1970
        case t.MonthTransform():
            return (F.year(_utc_date(type_, c)) - 1970) * 12 + F.month(_utc_date(type_, c)) - 1
        case t.DayTransform():
            return F.unix_date(_utc_date(type_, c))
        case t.HourTransform():
            return _hours(type_, c)
    raise Unsupported(
        f"Cannot write with the unknown transform {transform}.", transform=str(transform)
    )


def _bucket(type_: i.IcebergType, c: Column, n: int) -> Column:
    """Return the bucket of a column, from 0 to n - 1."""
    if isinstance(type_, _BY_ARROW):
        return _arrow_udf(t.BucketTransform(n), type_, s.IntegerType())(c)
    long = (
        F.unix_date(c).cast("long")
        if isinstance(type_, i.DateType)
        else c.cast("long")
        if isinstance(type_, i.IntegerType)
        else c
    )
    bucket = F.hash(F.lit(_SEED_ZERO), long).bitwiseAND(F.lit(0x7FFFFFFF)) % n
    return F.when(c.isNotNull(), bucket)


def _arrow_udf(transform: t.Transform, type_: i.IcebergType, returns: s.DataType) -> Any:
    """Return a UDF that computes the transform with Arrow.

    The function imports what it needs when it runs in a worker, because Spark serialises it by
    value: workers then report a missing or a different version of Frazil by name, rather than fail
    to unpickle the function.
    """
    version, type_text, transform_text = frazil_version(), str(type_), str(transform)

    def transform_values(values: pa.Array) -> Any:
        import importlib

        try:
            if importlib.import_module("frazil.spark.host.workers").frazil_version() != version:
                raise RuntimeError(
                    f"FRAZIL_WORKER: a Spark worker has another Frazil than the driver's {version}."
                )
            apply = importlib.import_module("frazil.arrow.values.transforms").apply_arrow
        except ImportError as e:
            raise RuntimeError(
                f"FRAZIL_WORKER: a Spark worker cannot import Frazil {version}: {e}."
            ) from None
        kind = importlib.import_module("frazil.spec.types").parse_primitive(type_text)
        parse = importlib.import_module("frazil.spec.transforms").parse_transform
        try:
            return apply(parse(transform_text), kind, values)
        except importlib.import_module("frazil.errors").InvalidInput as e:
            raise RuntimeError(f"{INPUT}{e}") from None

    # Spark takes the kind of UDF from its type hints
    transform_values.__annotations__ = {
        "values": pa.Array,
        "return": pa.Array,
    }
    return F.arrow_udf(transform_values, returnType=returns)


def _truncate(type_: i.IcebergType, c: Column, width: int) -> Column:
    """Return a column truncated to a width: texts and bytes to a length, numbers down to a
    multiple.
    """
    match type_:
        case i.StringType() | i.BinaryType():
            return F.substring(c, 1, width)
        case i.DecimalType(precision=p, scale=scale):
            if p >= _MOST_DIGITS or width >= 10**p:
                # Spark rounds decimals of more than 38 digits, or makes them null
                return _arrow_udf(t.TruncateTransform(width), type_, s.DecimalType(p, scale))(c)
            step = F.lit(Decimal(width).scaleb(-scale))
            # a value near the least one gets one digit more, as in Java
            return (c - F.pmod(c, step)).cast(s.DecimalType(p + 1, scale))
    kind, bits = ("int", 31) if isinstance(type_, i.IntegerType) else ("long", 63)
    rest = F.pmod(c, F.lit(width).cast(kind))
    exact = c.cast("decimal(20,0)") - rest.cast("decimal(20,0)")
    # below the least number, as in Java
    wrapped = (exact + F.lit(Decimal(2 ** (bits + 1)))).cast("decimal(20,0)").cast(kind)
    least = F.lit(Decimal(-(2**bits)))
    return F.when(exact < least, wrapped).otherwise(F.try_subtract(c, rest))


def _utc_date(type_: i.IcebergType, c: Column) -> Column:
    """Return the date of a date or timestamp column; that of a timestamptz is in UTC, whatever the
    session's zone.
    """
    match type_:
        case i.DateType():
            return c
        case i.TimestampType():
            return c.cast("date")
    return F.date_from_unix_date(_floor_div(F.unix_micros(c), _DAY).cast("int"))


def _hours(type_: i.IcebergType, c: Column) -> Column:
    """Return the hours since 1970 as an int; a value beyond an int makes the task fail with a
    message that says so.
    """
    if isinstance(type_, i.TimestampType):
        hours = F.unix_date(c.cast("date")).cast("long") * 24 + F.hour(c)
    else:
        hours = _floor_div(F.unix_micros(c), _HOUR)
    before, _, after = hours_beyond_an_int("|").partition("|")
    refused = F.raise_error(
        F.concat(F.lit(INPUT + before), hours.cast("string"), F.lit(after))
    ).cast("int")
    return F.when(hours.between(-(2**31), 2**31 - 1), hours.try_cast("int")).when(
        hours.isNotNull(), refused
    )


def _floor_div(c: Column, number: int) -> Column:
    """Divide longs, rounding towards minus infinity. No double is involved, and nothing below `c`
    is computed, which might overflow.
    """
    divisor = F.lit(number).cast("long")
    return F.call_function("div", c, divisor) - F.when(c % divisor < 0, 1).otherwise(0)


def as_directory(type_: i.IcebergType, c: Column) -> Column:
    """Return a partition value in a form that Spark puts into a folder's name and `from_directory`
    reads back exactly. Null stays null.
    """
    match type_:
        case i.StringType() | i.UUIDType():
            return F.concat(F.lit("s"), c)
        case i.BinaryType() | i.FixedType():
            return F.concat(F.lit("s"), F.hex(c))
        case i.DateType():
            return F.unix_date(c)
        case i.TimestamptzType():
            return F.unix_micros(c)
        case i.TimestampType():
            second = F.extract(F.lit("SECOND"), c) * 1_000_000
            minutes = F.hour(c) * 60 + F.minute(c)
            return (
                F.unix_date(c.cast("date")).cast("long") * _DAY
                + minutes.cast("long") * 60_000_000
                + second.cast("long")
            )
        case i.DecimalType() | i.FloatType() | i.DoubleType() | i.BooleanType():
            return c.cast("string")
    return c


def from_directory(type_: i.IcebergType, text: str) -> Any:
    """Return the internal partition value for the text that `as_directory` put into a folder's
    name, percent-encoded by Spark.
    """
    text = re.sub("%([0-9A-Fa-f]{2})", lambda m: chr(int(m[1], 16)), text)
    match type_:
        case i.StringType():
            return text[1:]
        case i.BinaryType() | i.FixedType():
            return bytes.fromhex(text[1:])
        case i.BooleanType():
            return text == "true"
        case i.FloatType() | i.DoubleType():
            return float(text)
        case i.DecimalType():
            return Decimal(text)
    return int(text)
