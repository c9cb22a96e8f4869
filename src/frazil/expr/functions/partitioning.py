"""Implement Iceberg's partition transforms as functions, by the names that its catalogs give them
in Spark's SQL: `system.bucket(16, id)`, `system.days(ts)`. Timestamps are split in UTC, in whatever
zone the session is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from frazil.expr.functions.function import Function, Signature
from frazil.expr.transforms import transformed
from frazil.expr.values import arrow_type
from frazil.spec.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    MonthTransform,
    Transform,
    TruncateTransform,
    YearTransform,
)
from frazil.spec.types import DecimalType, IcebergType, IntegerType, LongType

SYSTEM = "system"
BUCKET = f"{SYSTEM}.bucket"


def _of_value(name: str, transform: Transform) -> Function:
    """Define the function of a transform without a parameter, which keeps the order of times."""

    def bind(types: tuple[IcebergType, ...]) -> Signature | str:
        if len(types) != 1 or not transform.can_transform(types[0]):
            return "takes a timestamp." if name == "hours" else "takes a date or timestamp."
        return Signature(types, transform.result_type(types[0]))

    def kernel(
        values: Sequence[pa.Array], types: Sequence[IcebergType], result: IcebergType, zone: str
    ) -> pa.Array:
        return transformed(transform, types[0], values[0])

    return Function(f"{SYSTEM}.{name}", bind, kernel, monotone=0, zoned=False)


def _with_parameter(name: str, transform: Callable[[int], Transform]) -> Function:
    """Define the function of a transform with a number of buckets or a width, its first argument."""

    def bind(types: tuple[IcebergType, ...]) -> Signature | str:
        if len(types) != 2 or not _is_whole(types[0]) or not transform(1).can_transform(types[1]):
            return "takes a whole number and a value that the transform of this name takes."
        return Signature((IntegerType(), types[1]), transform(1).result_type(types[1]))

    def kernel(
        values: Sequence[pa.Array], types: Sequence[IcebergType], result: IcebergType, zone: str
    ) -> pa.Array:
        numbers, sources = values
        results = pa.nulls(len(numbers), arrow_type(result))
        for number in numbers.unique().drop_null().to_pylist():
            of_number = transformed(transform(number), types[1], sources)
            results = pc.if_else(pc.equal(numbers, number), of_number, results)
        return results

    return Function(f"{SYSTEM}.{name}", bind, kernel, zoned=False)


def _is_whole(type_: IcebergType) -> bool:
    """Tell whether a number is a whole one; beside a decimal it is a decimal, too."""
    is_decimal = isinstance(type_, DecimalType) and type_.scale == 0
    return is_decimal or isinstance(type_, IntegerType | LongType)


PARTITION_FUNCTIONS = (
    _with_parameter("bucket", BucketTransform),
    _with_parameter("truncate", TruncateTransform),
    _of_value("years", YearTransform()),
    _of_value("months", MonthTransform()),
    _of_value("days", DayTransform()),
    _of_value("hours", HourTransform()),
)
