"""What the session says of Iceberg reads and writes (Java's `spark.sql.iceberg.*` and `spark.wap.branch`), under what the caller says."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from frazil.errors import Unsupported
from frazil.spark.host.settings import temporarily

_PREFIX = "spark.sql.iceberg."
CASE_SENSITIVE = "spark.sql.caseSensitive"
ZONE, ANSI = "spark.sql.session.timeZone", "spark.sql.ansi.enabled"
_WRITE = (
    "compression-codec", "compression-level", "compression-strategy", "distribution-mode", "merge-schema", "check-nullability",
    "check-ordering",
)  # fmt: skip


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
