"""Give all Python objects that Spark calls through py4j what they have in common: identity, and
errors that pass through the JVM.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any

from py4j.java_gateway import JavaObject
from pyspark.sql.types import StructType

from frazil.ops.session import Session
from frazil.spark.host.jvm import settings_held
from frazil.spark.host.jvm_catalog import CatalogTypes
from frazil.spark.host.jvm_classes import before
from frazil.spark.host.jvm_errors import thrown

# where no other object of the JVM is likely to have its hash
_NUMBERS = itertools.count(0x4652415A)


def _answering(method: Callable[..., Any]) -> Callable[..., Any]:
    """Let a method end the JVM's call with an exception of Java where it raises an error."""

    @functools.wraps(method)
    def answer(self: SparkProxy, *arguments: object) -> Any:
        try:
            with settings_held():
                return method(self, *arguments)
        except Exception as error:
            raise thrown(self.types.jvm, error) from None

    return answer


class SparkProxy:
    """Answer the JVM's calls of an interface. Methods have the names of Java's; what they raise
    reaches Spark as an exception of Java.

    py4j sends every method to Python, those with a default in Java included, and those of
    java.lang.Object. `described`: what plans show.
    """

    def __init__(self, types: CatalogTypes, described: str):
        self.types, self._described, self._number = types, described, next(_NUMBERS)

    def __init_subclass__(cls, **named: object) -> None:
        super().__init_subclass__(**named)
        for name, member in list(vars(cls).items()):
            if not name.startswith("_") and callable(member) and not isinstance(member, type):
                setattr(cls, name, _answering(member))

    def hashCode(self) -> int:
        """Return the object's number."""
        return self._number

    def equals(self, other: SparkProxy | JavaObject | None) -> bool:
        """Tell whether another object is this one: it arrives as a proxy, or as the object itself."""
        return other is self or (
            other is not None
            and not isinstance(other, SparkProxy)
            and int(other.hashCode()) == self._number
        )

    def toString(self) -> str:
        """Return the text by which plans show the object."""
        return self._described


def remembering(spark: Session, answer: Any) -> Any:
    """Return what a catalog hands over, with an object before it that Spark asks instead where it
    is one of this process."""
    return before(spark, answer) if isinstance(answer, SparkProxy) else answer


class ScanProxy(SparkProxy):
    """Answer Spark's calls of any scan that hands over its rows as they are."""

    def __init__(self, types: CatalogTypes, spark: Session, described: str, schema: StructType):
        super().__init__(types, described)
        self._spark, self._schema = spark, schema

    def readSchema(self) -> Any:
        return self.types.struct_type(self._spark, self._schema)

    def description(self) -> str:
        return self._described

    def supportedCustomMetrics(self) -> Any:
        return self.types.no_metrics

    def reportDriverMetrics(self) -> Any:
        return self.types.no_task_metrics

    def columnarSupportMode(self) -> Any:
        return self.types.not_columnar
