"""The session settings that Frazil needs or changes while it works; docs/spark.md holds the same table.

| setting | value | who sets it | why |
|---|---|---|---|
| spark.sql.parquet.fieldId.read.enabled | true | to_spark on Connect; stays | columns are found by field id |
| spark.sql.variant.writeShredding.enabled | false | append, while it writes | variants are written whole |
| spark.sql.files.maxRecordsPerFile | 0 | append, while it writes | files end by size, not by rows |
| spark.sql.sources.parallelPartitionDiscovery.threshold | number of files | to_spark on Connect, while it opens files | no listing job |
| spark.sql.parquet.outputTimestampType | TIMESTAMP_MICROS | append, while it writes | Iceberg has no INT96 |
| spark.sql.session.timeZone | UTC | row changes by any SQL that name no session, while they run | as without one |
| spark.sql.ansi.enabled | true | row changes by any SQL that name no session, while they run | as without one |
| spark.sql.parquet.writeLegacyFormat | false | append, while it writes | lists and decimals as the format wants them |
| spark.sql.parquet.datetimeRebaseModeInWrite | CORRECTED | append, while it writes | dates before 1582 as they are |
| spark.sql.adaptive.advisoryPartitionSizeInBytes | by target file size | append with a shuffle, while it writes | file sizes |
| spark.sql.maxConcurrentOutputFileWriters | 128 | append without sort order, while it writes | no sort before the files of a partition |
| PYSPARK_PYTHON (environment) | this Python | spark_session, when it is unset | workers have the same packages |
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Mapping
from typing import Any

READ_IDS = "spark.sql.parquet.fieldId.read.enabled"
_LOCK = threading.RLock()  # settings are the session's: two threads that change them for a while must not meet


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
                spark.conf.set(key, value)
            yield
        finally:
            for key, old in before.items():
                if old is None:
                    spark.conf.unset(key)
                else:
                    spark.conf.set(key, old)
