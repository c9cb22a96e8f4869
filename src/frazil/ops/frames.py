"""Tell what kind of frame or value a caller handed in, without importing the library that it comes from."""

from __future__ import annotations

from typing import Any


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
    return any(c.__name__ == name and c.__module__.startswith("pyspark.sql") for c in type(value).__mro__)


def is_stream(frame: Any) -> bool:
    """Tell whether a frame may be readable only once: iterators, readers, and objects with an Arrow stream but no length."""
    if hasattr(frame, "__next__") or hasattr(frame, "read_next_batch"):
        return True
    return hasattr(frame, "__arrow_c_stream__") and not (hasattr(frame, "__len__") or hasattr(frame, "num_rows"))
