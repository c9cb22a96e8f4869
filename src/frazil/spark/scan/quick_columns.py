"""Select the columns of a scan under the table's names with few calls to the JVM: PySpark's own
functions make some fifteen per column to record the caller's line, which takes time where a table
is wide or the JVM has just started."""

from __future__ import annotations

import weakref
from collections.abc import Callable

from pyspark.sql import Column

from frazil.ops.session import Session
from frazil.spark.host.jvm import Jvm, jvm_of

_REMEMBERED: weakref.WeakKeyDictionary[Jvm, dict[str, Column]] = weakref.WeakKeyDictionary()
_MOST = 256
Shown = Callable[[str, str, bool], Column]
"""Return the column `source` (back-quoted) as `name`, without metadata; with `barrier`, Spark
pushes no filter on it into the scan.
"""


def shown_columns(spark: Session) -> Shown | None:
    """Return the function that selects a column by source, name and barrier (`Jvm.named_column`);
    None on Spark Connect.
    """
    jvm = jvm_of(spark)
    return None if jvm is None else jvm.named_column


def renamed(spark: Session, column: Column, name: str) -> Column:
    """Return a column under a name and without metadata."""
    jvm = jvm_of(spark)
    return column.alias(name, metadata={}) if jvm is None else jvm.renamed(column, name)


def remembered(spark: Session, text: str, make: Callable[[], Column]) -> Column:
    """Return a column that is the same for each scan, made at the first call for it. `text`: tells
    it from others.
    """
    if (jvm := jvm_of(spark)) is None:
        return make()
    columns = _REMEMBERED.setdefault(jvm, {})
    if text not in columns:
        if len(columns) >= _MOST:
            columns.clear()
        columns[text] = make()
    return columns[text]
