"""Check the arguments of reads and writes before anything is done, with errors that name the
argument and its value; and tell what kind of frame or value a caller handed in, without importing
the library that it comes from.

`GivenFrame` names for type checkers and editors what the methods that write rows take;
`arrow.values.frames` converts it.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol, TypeAlias, TypeGuard, TypeVar, runtime_checkable

from frazil.errors import InvalidInput

T = TypeVar("T")
Check = Callable[[str, Any], Any]


def checked(checks: Mapping[str, Check]) -> Callable[[type[T]], type[T]]:
    """Return a decorator of classes, which checks arguments of these names at every call of a
    public method. A check may return another value."""

    def decorate(cls: type[T]) -> type[T]:
        for name, method in [*vars(cls).items()]:
            public = inspect.isfunction(method) and not name.startswith("_")
            if public and not checks.keys().isdisjoint(inspect.signature(method).parameters):
                setattr(cls, name, _checked(method, checks))
        return cls

    return decorate


def _checked(method: Callable[..., Any], checks: Mapping[str, Check]) -> Callable[..., Any]:
    signature = inspect.signature(method)

    @functools.wraps(method)
    def call(*args: object, **named: object) -> Any:
        bound = signature.bind(*args, **named)
        bound.arguments.update(
            {
                name: checks[name](name, value)
                for name, value in bound.arguments.items()
                if name in checks
            }
        )
        return method(*bound.args, **bound.kwargs)

    return call


def names(argument: str, given: object) -> tuple[str, ...]:
    """Return column names as a tuple, from one name or a sequence of names. Raises InvalidInput for
    anything else.
    """
    if isinstance(given, str):
        return (given,)
    if (
        not isinstance(given, Sequence)
        or isinstance(given, bytes)
        or not all(isinstance(n, str) for n in given)
    ):
        raise InvalidInput(f"{argument} must be a list of column names, not {given!r}.")
    return tuple(given)


def number(argument: str, given: object, least: int | None = None) -> int | None:
    """Return a whole number, given as such or as text; None stays None. Raises InvalidInput for
    anything else and for less than `least`, which is 0 or None (no limit)."""
    if given is None:
        return None
    try:
        value = int(str(given))
    except ValueError:
        raise InvalidInput(f"{argument} must be a whole number, not {given!r}.") from None
    if least is not None and value < least:
        raise InvalidInput(f"{argument} must not be negative, got {given!r}.")
    return value


def numbers(argument: str, given: object) -> tuple[int, ...] | None:
    """Return whole numbers, each given as such or as text; None stays None. Raises InvalidInput for
    anything else.
    """
    if given is None:
        return None
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise InvalidInput(f"{argument} must be a list of whole numbers, not {given!r}.")
    return tuple(value for value in (number(argument, each) for each in given) if value is not None)


def flag(argument: str, given: object) -> bool | None:
    """Return True, False or None as given. Raises InvalidInput for anything else."""
    if given is not None and not isinstance(given, bool):
        raise InvalidInput(f"{argument} must be True or False, not {given!r}.")
    return given


def text(argument: str, given: object) -> str | None:
    """Return a text or None as given. Raises InvalidInput for anything else."""
    if given is not None and not isinstance(given, str):
        raise InvalidInput(f"{argument} must be a text, not {given!r}.")
    return given


def function(argument: str, given: object) -> Any:
    """Return a function or None as given. Raises InvalidInput for anything else."""
    if given is not None and not callable(given):
        raise InvalidInput(f"{argument} must be a function, not {given!r}.")
    return given


def mapping(argument: str, given: object) -> dict[str, Any]:
    """Return a mapping as a dict with text keys; None gives an empty one. Raises InvalidInput for
    anything that is not a mapping.
    """
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise InvalidInput(f"{argument} must be a dict, not {given!r}.")
    return {str(k): v for k, v in given.items()}


@runtime_checkable
class SparkFrame(Protocol):
    """Stand for a Spark DataFrame, classic or Connect, where PySpark is not imported."""

    @property
    def sparkSession(self) -> Any: ...

    @property
    def schema(self) -> Any: ...

    def toArrow(self) -> Any: ...


class SparkColumn(Protocol):
    """Stand for a Column of Spark, classic or Connect."""

    def isNull(self) -> Any: ...


@runtime_checkable
class ArrowStream(Protocol):
    """Stand for what lends a stream of Arrow batches: Arrow tables and readers, polars and pandas
    frames, relations of DuckDB, …
    """

    def __arrow_c_stream__(self, requested_schema: object | None = None, /) -> object: ...


@runtime_checkable
class ArrowArray(Protocol):
    """Stand for what lends one batch of Arrow rows, such as a RecordBatch."""

    def __arrow_c_array__(self, requested_schema: object | None = None, /) -> object: ...


@runtime_checkable
class PandasFrame(Protocol):
    """Stand for a pandas DataFrame of any version; older ones lend no Arrow stream."""

    @property
    def iloc(self) -> Any: ...

    @property
    def columns(self) -> Any: ...


@runtime_checkable
class LazyFrame(Protocol):
    """Stand for a LazyFrame of polars, which is collected when its rows are needed."""

    def collect_schema(self) -> Any: ...


GivenFrame: TypeAlias = (
    SparkFrame
    | ArrowStream
    | ArrowArray
    | PandasFrame
    | LazyFrame
    | Sequence[Mapping[str, Any]]
    | Mapping[str, Any]
)
"""Rows that a caller gives: a DataFrame of Spark, pandas or polars, Arrow data, a list of dicts, or
a dict of columns.
"""


def is_spark_frame(frame: object) -> TypeGuard[SparkFrame]:
    """Tell whether a value is a Spark DataFrame, classic or Connect."""
    return _is_spark(frame, "DataFrame")


def is_spark_column(value: object) -> TypeGuard[SparkColumn]:
    """Tell whether a value is a Spark Column, classic or Connect."""
    return _is_spark(value, "Column")


def is_spark_type(value: object) -> bool:
    """Tell whether a value is a type of Spark, such as a StructType."""
    return _is_spark(value, "DataType")


def _is_spark(value: object, name: str) -> bool:
    return any(
        c.__name__ == name and c.__module__.startswith("pyspark.sql") for c in type(value).__mro__
    )


def is_stream(frame: object) -> bool:
    """Tell whether a frame may be readable only once: iterators, readers, and objects with an Arrow
    stream but no length.
    """
    if hasattr(frame, "__next__") or hasattr(frame, "read_next_batch"):
        return True
    if hasattr(frame, "to_arrow_batch_reader"):
        # a table or scan of ours, each pass of which reads its files again
        return True
    return hasattr(frame, "__arrow_c_stream__") and not (
        hasattr(frame, "__len__") or hasattr(frame, "num_rows")
    )


def holds_rows(given: Any) -> bool:
    """Tell whether a value is a frame that has rows, as far as its metadata say; those of Spark's
    frames do not.
    """
    if isinstance(given, Mapping | str):
        return False
    rows = getattr(given, "num_rows", None)
    rows = getattr(given, "height", None) if rows is None else rows
    if rows is None and hasattr(given, "iloc"):
        rows = len(given)
    return isinstance(rows, int) and rows > 0
