"""Read a Spark session's settings, change some of them for a while, and keep copies of the session for scans.

What the session says of Iceberg reads and writes (Java's `spark.sql.iceberg.*` and `spark.wap.branch`) comes under what the caller says.
docs/spark.md lists every setting that Frazil changes, with the reason.
"""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections.abc import Iterator, Mapping
from typing import Any

from frazil.errors import Unsupported
from frazil.spark.host.jvm import Jvm, SessionCopies, put_setting

_PREFIX = "spark.sql.iceberg."
CASE_SENSITIVE = "spark.sql.caseSensitive"
ZONE, ANSI = "spark.sql.session.timeZone", "spark.sql.ansi.enabled"
_WRITE = (
    "compression-codec", "compression-level", "compression-strategy", "distribution-mode", "merge-schema", "check-nullability",
    "check-ordering",
)  # fmt: skip
READ_IDS = "spark.sql.parquet.fieldId.read.enabled"
FEWEST_PARTITIONS = "spark.sql.adaptive.coalescePartitions.minPartitionNum"
"""Spark warns that it is deprecated whenever it is set, and has nothing that does the same in its place."""
_LOCK = threading.RLock()  # settings are the session's: two threads that change them for a while must not meet


# What the session says -----------------------------------------------------------------------------------------------------------------


def all_settings(spark: Any) -> dict[str, str]:
    settings = spark.conf.getAll  # a property in some versions of PySpark, a method in others
    return dict(settings() if callable(settings) else settings)


def is_case_sensitive(spark: Any, given: bool | None = None) -> bool:
    """How names are matched: as the caller says, else as the session does."""
    return str(spark.conf.get(CASE_SENSITIVE, "false")).lower() == "true" if given is None else given


@contextlib.contextmanager
def sensitivity(spark: Any, given: bool | None) -> Iterator[bool]:
    """How names are looked up while frames are made; None: as the session does."""
    session = is_case_sensitive(spark)
    if given is None or given == session:
        yield session
        return
    with temporarily(spark, {CASE_SENSITIVE: str(given).lower()}):
        yield given


def is_ansi(spark: Any) -> bool:
    """Whether casts, sums and functions that fail are errors, as in Frazil's grammar, or null."""
    return str(spark.conf.get(ANSI)).lower() == "true"


def session_zone(spark: Any) -> str:
    """The zone of constants without one. Asked without a default, which Spark would give where nothing is set and the JVM's zone counts."""
    return str(spark.conf.get(ZONE))


def write_defaults(spark: Any) -> dict[str, str]:
    """Write options out of the session's settings. Raises Unsupported for shredded variants, which are not written."""
    found = {}
    for key, value in all_settings(spark).items():
        name = key.removeprefix(_PREFIX)
        if name == key:
            continue
        if name == "shred-variants" and value.lower() == "true":
            raise Unsupported(f"The setting {key}=true is not supported: variants are written unshredded.")
        if name in _WRITE or name.startswith("snapshot-property."):
            found[name] = value
    return found


def spark_facts(version: str) -> dict[str, str]:
    """What the summary of a snapshot says of the Spark that made it."""
    return {"engine-name": "spark", "engine-version": version}


# What is changed -----------------------------------------------------------------------------------------------------------------------


def enable_ids(spark: Any) -> None:
    """What a plan by field id needs when it runs, where Frazil's scans have no session of their own; set for good, as it runs later."""
    if str(spark.conf.get(READ_IDS, "false")).lower() != "true":
        spark.conf.set(READ_IDS, "true")


@contextlib.contextmanager
def temporarily(spark: Any, settings: Mapping[str, str]) -> Iterator[None]:
    """Set session settings and put back what was there, whatever happens inside."""
    with _LOCK:
        before = {key: spark.conf.get(key, None) for key in settings}
        try:
            for key, value in settings.items():
                _set(spark, key, value)
            yield
        finally:
            for key, old in before.items():
                _set(spark, key, old)


def _set(spark: Any, key: str, value: str | None) -> None:
    if key == FEWEST_PARTITIONS and put_setting(spark, key, value):
        return
    if value is None:
        spark.conf.unset(key)
    else:
        spark.conf.set(key, value)


# The session of scans -------------------------------------------------------------------------------------------------------------------
#
# Spark asks the session of a scan, not the one that runs the query, for what concerns reading: how columns are found, how large the pieces
# of files are, how a file system is opened. So Frazil's scans have a copy of the user's session, in which columns are found by field id
# whatever is set later; the user's settings stay as they are, and a read may have its own sizes. Spark's reader of rows asks the running
# session for field ids after all, so columns are read as vectors, always.

_ALWAYS = {
    READ_IDS: "true", "spark.sql.parquet.enableVectorizedReader": "true",
    "spark.sql.parquet.enableNestedColumnVectorizedReader": "true",
}  # fmt: skip

_COPIES: weakref.WeakKeyDictionary[Any, SessionCopies] = weakref.WeakKeyDictionary()


def scan_session(spark: Any, jvm: Jvm, own: Mapping[str, str]) -> Any:
    """The JVM's session for scans; `own`: settings of this read. Copies are kept while the session's settings stay as they are."""
    copies = _COPIES.get(spark)
    if copies is None or not copies.are_current(spark):
        copies = _COPIES[spark] = SessionCopies(spark, jvm)
    return copies.with_settings({**_ALWAYS, **own})
