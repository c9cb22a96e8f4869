"""The session that Spark's scans of Frazil read by: a copy of the user's, in which columns are found by field id whatever is set later.

Spark asks the session of a scan, not the one that runs the query, for what concerns reading: how columns are found, how large the pieces
of files are, how a file system is opened. So the user's settings stay as they are, and a read may have its own sizes. Spark's reader of
rows asks the running session for field ids after all, so columns are read as vectors, always.
"""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from typing import Any

from frazil.spark.host.jvm import Jvm, SessionCopies
from frazil.spark.host.settings import READ_IDS

_ALWAYS = {
    READ_IDS: "true", "spark.sql.parquet.enableVectorizedReader": "true",
    "spark.sql.parquet.enableNestedColumnVectorizedReader": "true",
}  # fmt: skip

_KNOWN: weakref.WeakKeyDictionary[Any, SessionCopies] = weakref.WeakKeyDictionary()


def reading_session(spark: Any, jvm: Jvm, own: Mapping[str, str]) -> Any:
    """The JVM's session for scans; `own`: settings of this read. Copies are kept while the session's settings stay as they are."""
    copies = _KNOWN.get(spark)
    if copies is None or not copies.are_current(spark):
        copies = _KNOWN[spark] = SessionCopies(spark, jvm)
    return copies.with_settings({**_ALWAYS, **own})
