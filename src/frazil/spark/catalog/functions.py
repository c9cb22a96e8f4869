"""Serve Iceberg's functions to Spark's SQL: `SELECT lake.system.bucket(16, id)`, with the types and
the refusals of Java Iceberg's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from py4j.java_gateway import JavaObject

from frazil.errors import Unsupported
from frazil.ops.session import Session
from frazil.spark.catalog.proxy import SparkProxy
from frazil.spark.host import jvm_errors
from frazil.spark.host.jvm import implementing
from frazil.spark.host.jvm_catalog import CATALOG, CatalogTypes
from frazil.spark.host.jvm_functions import integer_type, scalar_function

SYSTEM = "system"
_WHOLE = ("tinyint", "smallint", "int")
_BUCKETS = {  # Spark's type -> the class, and the type that the value is cast to (None: its own)
    "date": ("BucketInt", None), "tinyint": ("BucketInt", "int"), "smallint": ("BucketInt", "int"), "int": ("BucketInt", None),
    "bigint": ("BucketLong", None), "timestamp": ("BucketLong", None), "timestamp_ntz": ("BucketLong", None),
    "decimal": ("BucketDecimal", None), "string": ("BucketString", None), "binary": ("BucketBinary", None),
}  # fmt: skip
_TRUNCATES = {
    "tinyint": "TruncateTinyInt", "smallint": "TruncateSmallInt", "int": "TruncateInt", "bigint": "TruncateBigInt",
    "decimal": "TruncateDecimal", "string": "TruncateString", "binary": "TruncateBinary",
}  # fmt: skip
_TIMES = ("timestamp", "timestamp_ntz")


@dataclass(frozen=True)
class Choice:
    """Say which class computes a function. `casts`: the types that its arguments are cast to; None:
    their own."""

    class_name: str
    casts: tuple[str | None, ...] = ()


def _bucket(types: Sequence[str]) -> Choice:
    if len(types) != 2:
        raise Unsupported("Wrong number of inputs (expected numBuckets and value)")
    if types[0] not in _WHOLE:
        raise Unsupported("Expected number of buckets to be tinyint, smallint or int")
    if types[1] not in _BUCKETS:
        raise Unsupported(
            "Expected column to be date, tinyint, smallint, int, bigint, decimal, timestamp, string, or binary"
        )
    name, cast = _BUCKETS[types[1]]
    return Choice(name, ("int", cast))


def _truncate(types: Sequence[str]) -> Choice:
    if len(types) != 2:
        raise Unsupported("Wrong number of inputs (expected width and value)")
    if types[0] not in _WHOLE:
        raise Unsupported("Expected truncation width to be tinyint, smallint or int")
    if types[1] not in _TRUNCATES:
        raise Unsupported(
            "Expected truncation col to be tinyint, smallint, int, bigint, decimal, string, or binary"
        )
    return Choice(_TRUNCATES[types[1]], ("int", None))


def _of_time(unit: str, *, of_dates: bool = True) -> Callable[[Sequence[str]], Choice]:
    def choose(types: Sequence[str]) -> Choice:
        if len(types) != 1:
            raise Unsupported("Wrong number of inputs")
        if of_dates and types[0] == "date":
            return Choice(f"DateTo{unit}", (None,))
        if types[0] in _TIMES:
            return Choice(f"TimestampTo{unit}", (None,))
        raise Unsupported(
            f"Expected value to be {'date or ' if of_dates else ''}timestamp: {types[0]}"
        )

    return choose


def _version(types: Sequence[str]) -> Choice:
    if types:
        raise Unsupported("Wrong number of inputs (expected none)")
    return Choice("IcebergVersion")


FUNCTIONS: dict[str, Callable[[Sequence[str]], Choice]] = {
    "bucket": _bucket, "days": _of_time("Days"), "hours": _of_time("Hours", of_dates=False), "iceberg_version": _version,
    "months": _of_time("Months"), "truncate": _truncate, "years": _of_time("Years"),
}  # fmt: skip


class SystemFunction(SparkProxy):
    """Choose the class that computes a function, when Spark knows the types of its arguments."""

    Java = implementing(CATALOG + "functions.UnboundFunction")

    def __init__(self, types: CatalogTypes, spark: Session, name: str):
        super().__init__(types, name)
        self._spark, self._name = spark, name

    def name(self) -> str:
        return self._name

    def description(self) -> str:
        return f"{self._name} of Iceberg"

    def bind(self, inputs: JavaObject) -> Any:
        types = [field.dataType() for field in inputs.fields()]
        try:
            choice = FUNCTIONS[self._name]([_kind(t) for t in types])
        except Unsupported as error:
            raise jvm_errors.unsupported(self.types.jvm, str(error)) from error
        casts = [
            t if cast is None else integer_type(self.types.jvm)
            for t, cast in zip(types, choice.casts, strict=True)
        ]
        return scalar_function(self._spark, choice.class_name, self._name, casts)


def _kind(data_type: JavaObject) -> str:
    """Return the name of a type of the JVM, without its numbers and collation."""
    return str(data_type.simpleString()).partition("(")[0].partition(" ")[0]


def function_of(types: CatalogTypes, spark: Session, parts: Sequence[str]) -> SystemFunction | None:
    """Return the function of a name; it is in the namespace `system`, or in none. None: there is
    none.
    """
    *namespace, name = parts
    if [n.lower() for n in namespace] not in ([], [SYSTEM]) or name.lower() not in FUNCTIONS:
        return None
    return SystemFunction(types, spark, name.lower())


def function_names(namespace: Sequence[str]) -> list[tuple[str, ...]]:
    """Return the names of the functions in a namespace."""
    return (
        [(*namespace, name) for name in FUNCTIONS]
        if [n.lower() for n in namespace] in ([], [SYSTEM])
        else []
    )
