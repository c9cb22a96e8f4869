"""Raise errors that Spark has a condition for as Spark's own as well: a script that catches
AnalysisException or SparkRuntimeException, and asks for its condition, goes on as it did with Java
Iceberg.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from pyspark.errors import (
    AnalysisException,
    ArithmeticException,
    DateTimeException,
    NumberFormatException,
    ParseException,
    PySparkException,
    SparkRuntimeException,
)

from frazil import errors as e
from frazil.spark.host.jvm_errors import CONDITIONS

_WHILE_RUNNING: dict[str, type[Any]] = {
    "MERGE_CARDINALITY_VIOLATION": SparkRuntimeException,
    "NOT_NULL_ASSERT_VIOLATION": SparkRuntimeException,
    "ARITHMETIC_OVERFLOW": ArithmeticException,
    "CAST_OVERFLOW": ArithmeticException,
    "CAST_OVERFLOW_IN_TABLE_INSERT": ArithmeticException,
    "DIVIDE_BY_ZERO": ArithmeticException,
    "NUMERIC_VALUE_OUT_OF_RANGE": ArithmeticException,
    "REMAINDER_BY_ZERO": ArithmeticException,
}
"""The class of conditions that Spark finds while it reads or writes rows."""
_MALFORMED_NUMBER: type[Any] = NumberFormatException
_MALFORMED: dict[str, type[Any]] = {
    "boolean": SparkRuntimeException,
    "date": DateTimeException,
    "time": DateTimeException,
}
"""The classes of CAST_INVALID_INPUT: of numbers, and by how the type begins."""


class _Conditioned(PySparkException):
    """Answer what callers ask an error of Spark's; the rest is Frazil's error."""

    facts: dict[str, Any]
    args: tuple[Any, ...]

    def __init__(self) -> None:
        """Do nothing: FrazilError keeps the text and the facts."""

    def getCondition(self) -> str:
        return str(self.facts["condition"])

    def getErrorClass(self) -> str:
        return self.getCondition()

    def getMessageParameters(self) -> dict[str, str]:
        return {name: str(fact) for name, fact in self.facts.items()}

    def getSqlState(self) -> None:
        return None

    def getMessage(self) -> str:
        return str(self)

    def getBreakingChangeInfo(self) -> None:
        return None

    def getQueryContext(self) -> list[Any]:
        return []

    def __str__(self) -> str:
        return str(self.args[0])


_OF_BOTH: dict[Any, type[e.FrazilError]] = {}


def _spark_kind(error: e.FrazilError, condition: str) -> type[Any]:
    """Return the class of the errors that Spark raises for a condition."""
    if condition == "CAST_INVALID_INPUT":
        type_ = str(error.facts.get("type"))
        kinds = [kind for name, kind in _MALFORMED.items() if type_.startswith(name)]
        return kinds[0] if kinds else _MALFORMED_NUMBER
    otherwise: type[Any] = ParseException if isinstance(error, e.ParseError) else AnalysisException
    return _WHILE_RUNNING.get(condition.partition(".")[0], otherwise)


def _of_both(kind: type[e.FrazilError], spark_kind: type[Any]) -> type[e.FrazilError]:
    """Return the class of errors that are of Frazil's kind and of one of Spark's."""
    if (both := _OF_BOTH.get((kind, spark_kind))) is not None:
        return both
    # A copy in another process is of Frazil's kind alone.
    reduced = lambda error: (e._rebuild, (kind, error.message, error.hint, error.facts))
    members = {"__reduce__": reduced, "__module__": kind.__module__}
    # Of a value that cannot be computed scripts look at the name that Spark's error has, too.
    name = (spark_kind if issubclass(kind, e.EvaluationError) else kind).__name__
    both = type(name, (kind, _Conditioned, spark_kind), members)
    return _OF_BOTH.setdefault((kind, spark_kind), both)


@contextmanager
def known_to_spark(words: Callable[[str], str] | None = None) -> Iterator[None]:
    """Give an error that ends a block the condition that Spark has for it: that of its facts, else
    that of its class. Others are left as they are. `words`: says its hint in those of the door."""
    try:
        yield
    except e.FrazilError as error:
        if words is not None and error.hint:
            error.hint = words(error.hint)
            error._set_text()
        condition = error.facts.get("condition", CONDITIONS.get(type(error)))
        if condition is None or isinstance(error, _Conditioned):
            raise
        text = error.message if condition in error.message else f"[{condition}] {error.message}"
        facts = {**error.facts, "condition": condition}
        both = _of_both(type(error), _spark_kind(error, condition))(text, hint=error.hint, **facts)
        raise both.with_traceback(error.__traceback__) from error.__cause__
