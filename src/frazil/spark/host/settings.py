"""Read a Spark session's settings, set some of them for the time of a block, and keep copies of the
session for scans.

Options of the caller override the session's settings for Iceberg reads and writes (Java's
`spark.sql.iceberg.*`). `spark.wap.id` and `spark.wap.branch` are read in `spark.engine.engine` and
resolved in `ops.target` for writes and `ops.reading` for reads. docs/spark.md lists every setting
that Frazil changes, with the reason.
"""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections.abc import Iterator, Mapping
from typing import Any

from frazil.errors import Unsupported
from frazil.ops.session import Session
from frazil.spark.host.jvm import (
    NOT_AS_KNOWN,
    Jvm,
    SessionCopies,
    set_settings,
    setting,
    setting_or_own,
    settings_of,
)

_PREFIX = "spark.sql.iceberg."
CASE_SENSITIVE = "spark.sql.caseSensitive"
ZONE, ANSI = "spark.sql.session.timeZone", "spark.sql.ansi.enabled"
_WRITE = (
    "compression-codec", "compression-level", "compression-strategy", "distribution-mode", "merge-schema", "check-nullability",
    "check-ordering",
)  # fmt: skip
READ_IDS = "spark.sql.parquet.fieldId.read.enabled"
FEWEST_PARTITIONS = "spark.sql.adaptive.coalescePartitions.minPartitionNum"
"""The least number of partitions after adaptive coalescing. Spark warns at each use that it is
deprecated, but has no replacement.
"""
# threads share the session's settings: only one may set and restore them at a time
_LOCK = threading.RLock()


# Settings that are read
# --------------------------------------------------------------------------------------------------


def all_settings(spark: Session) -> dict[str, str]:
    """Return the session's settings that are set explicitly, those of the SparkContext included."""
    with contextlib.suppress(*NOT_AS_KNOWN, ValueError):
        # ValueError: a value holds the character that separates values
        return settings_of(spark)
    settings = spark.conf.getAll  # a property in some versions of PySpark, a method in others
    return dict(settings() if callable(settings) else settings)


def is_case_sensitive(spark: Session, given: bool | None = None) -> bool:
    """Tell whether column names are case-sensitive: as `given`, else by the session's
    `spark.sql.caseSensitive`.
    """
    return (
        str(setting(spark, CASE_SENSITIVE, "false")).lower() == "true" if given is None else given
    )


@contextlib.contextmanager
def sensitivity(spark: Session, given: bool | None) -> Iterator[bool]:
    """Set whether Spark looks up names case-sensitively while DataFrames are made in the block;
    `given` None: as the session does.
    """
    as_set = is_case_sensitive(spark)
    if given is None or given == as_set:
        yield as_set
        return
    with temporarily(spark, {CASE_SENSITIVE: str(given).lower()}):
        yield given


def is_ansi(spark: Session) -> bool:
    """Tell whether the session is in ANSI mode, in which casts, sums and functions that fail are
    errors (as in Frazil) instead of null.
    """
    return setting_or_own(spark, ANSI).lower() == "true"


_USUAL = {
    "spark.sql.decimalOperations.allowPrecisionLoss": "true",
    "spark.sql.parser.escapedStringLiterals": "false",
    "spark.sql.ansi.doubleQuotedIdentifiers": "false",
    "spark.sql.timestampType": "timestamp_ltz",
    "spark.sql.function.concatBinaryAsString": "false",
    "spark.sql.icu.caseMappings.enabled": "true",
    "spark.sql.legacy.sizeOfNull": "false",
    "spark.sql.legacy.integralDivide.returnBigint": "true",
    "spark.sql.legacy.exponentLiteralAsDecimal.enabled": "false",
    "spark.sql.legacy.literal.pickMinimumPrecision": "true",
    "spark.sql.legacy.typeCoercion.datetimeToString.enabled": "false",
    "spark.sql.legacy.allowNegativeScaleOfDecimal": "false",
    "spark.sql.legacy.decimal.retainFractionDigitsOnTruncate": "false",
}
"""Settings under which Spark reads or computes what Frazil's grammar has, too, with the values by
which it does so as Frazil does."""


def is_usual(spark: Session) -> bool:
    """Tell whether texts within Frazil's grammar mean the same in a session, whose case, zone and
    ANSI mode are told otherwise.
    """
    session = all_settings(spark)
    return all(session.get(key, usual).lower() == usual for key, usual in _USUAL.items())


def session_zone(spark: Session) -> str:
    """Return the session's time zone, which timestamp constants without a zone are in: the JVM's
    where the setting is not set.
    """
    return setting_or_own(spark, ZONE)


def write_defaults(spark: Session) -> dict[str, str]:
    """Return the write options among the session's settings (`spark.sql.iceberg.*`). Raises
    Unsupported for shredded variants.
    """
    options = {}
    for key, value in all_settings(spark).items():
        name = key.removeprefix(_PREFIX)
        if name == key:
            continue
        if name == "shred-variants" and value.lower() == "true":
            hint = "Unset it; other readers take unshredded variants too."
            raise Unsupported(
                f"The setting {key}=true is not supported: variants are written unshredded.",
                hint=hint,
            )
        if name in _WRITE or name.startswith("snapshot-property."):
            options[name] = value
    return options


def spark_facts(version: str) -> dict[str, str]:
    """Return the properties of a snapshot's summary that name the engine and its version."""
    return {"engine-name": "spark", "engine-version": version}


# Settings that are changed
# --------------------------------------------------------------------------------------------------


def enable_ids(spark: Session) -> None:
    """Set `spark.sql.parquet.fieldId.read.enabled` on the session, where scans have no session of
    their own (`scan_session`). It stays set, since Spark reads the setting when the DataFrame is
    used, which is after it was made."""
    if str(spark.conf.get(READ_IDS, "false")).lower() != "true":
        spark.conf.set(READ_IDS, "true")


@contextlib.contextmanager
def temporarily(
    spark: Session, settings: Mapping[str, str], *, shared: bool = True
) -> Iterator[None]:
    """Set session settings inside the block, and restore the former values after it, also after an
    error. `shared`: other threads may use the session. That of a streaming query is its own, and
    with a lock the queries of a process would wait for each other's batches.
    """
    with _LOCK if shared else contextlib.nullcontext():
        former = {key: setting(spark, key) for key in settings}
        set_settings(spark, settings)
        try:
            yield
        finally:
            set_settings(spark, former)


# The session of scans
# --------------------------------------------------------------------------------------------------
#
# For reading, Spark uses the settings of the session in which a scan was made, not of the session
# that runs the query: how columns are matched, how large the splits of files are, how file systems
# are opened. Frazil's scans are made in a copy of the user's session in which columns are matched
# by field id. So a later change of the user's settings cannot swap columns, the user's session
# stays as it is, and each read may have a split size of its own. Only the row-based Parquet reader
# asks the running session for field ids, so the vectorised reader is always switched on.

_SCAN_SETTINGS = {
    READ_IDS: "true", "spark.sql.parquet.enableVectorizedReader": "true",
    "spark.sql.parquet.enableNestedColumnVectorizedReader": "true",
}  # fmt: skip

_COPIES: weakref.WeakKeyDictionary[Any, SessionCopies] = weakref.WeakKeyDictionary()


def scan_session(spark: Session, jvm: Jvm, settings: Mapping[str, str]) -> Any:
    """Return the JVM's copy of a session in which scans are made, with the settings of one read on
    top. Copies are reused until the session's own settings change."""
    copies = _COPIES.get(spark)
    if copies is None or not copies.are_current(spark):
        copies = _COPIES[spark] = SessionCopies(spark, jvm)
    return copies.with_settings({**_SCAN_SETTINGS, **settings})
