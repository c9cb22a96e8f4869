"""Columns of a scan under the table's names, in few calls of the JVM: PySpark's own functions take some fifteen a column, to keep track of
the caller's line, which adds up where a table is wide or the JVM is cold."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark.sql import Column

from frazil.spark.host.jvm import jvm_of

Shown = Callable[[str, str, bool], Column]


def shown_columns(spark: Any) -> Shown | None:
    """`shown(source, name, barrier)`: the column `source` (quoted) as `name`, without metadata; with a barrier, nothing is pushed for it.

    None where there is no JVM to call.
    """
    jvm = jvm_of(spark)
    return None if jvm is None else jvm.named_column
