"""Tell what kind of frame or value a caller handed in, without importing the library that it comes
from.

`GivenFrame` names for type checkers and editors what the methods that write rows take;
`arrow.values.frames` converts it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeAlias, runtime_checkable


@runtime_checkable
class SparkFrame(Protocol):
    """Stand for a Spark DataFrame, classic or Connect, where PySpark is not imported."""

    @property
    def sparkSession(self) -> Any: ...


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


def is_spark_frame(frame: Any) -> bool:
    """Tell whether a value is a Spark DataFrame, classic or Connect."""
    return _is_spark(frame, "DataFrame")


def is_spark_column(value: Any) -> bool:
    """Tell whether a value is a Spark Column, classic or Connect."""
    return _is_spark(value, "Column")


def is_spark_type(value: Any) -> bool:
    """Tell whether a value is a type of Spark, such as a StructType."""
    return _is_spark(value, "DataType")


def _is_spark(value: Any, name: str) -> bool:
    return any(
        c.__name__ == name and c.__module__.startswith("pyspark.sql") for c in type(value).__mro__
    )


def is_stream(frame: Any) -> bool:
    """Tell whether a frame may be readable only once: iterators, readers, and objects with an Arrow
    stream but no length.
    """
    if hasattr(frame, "__next__") or hasattr(frame, "read_next_batch"):
        return True
    if hasattr(
        frame, "to_arrow_batch_reader"
    ):  # a table or scan of ours, each pass of which reads its files again
        return True
    return hasattr(frame, "__arrow_c_stream__") and not (
        hasattr(frame, "__len__") or hasattr(frame, "num_rows")
    )


def holds_rows(given: Any) -> bool:
    """Tell whether a value is a frame that has rows, as far as that can be told without reading it;
    of Spark's it cannot.
    """
    if isinstance(given, Mapping | str):
        return False
    rows = getattr(given, "num_rows", None)
    rows = getattr(given, "height", None) if rows is None else rows
    if rows is None and hasattr(given, "iloc"):
        rows = len(given)
    return isinstance(rows, int) and rows > 0
