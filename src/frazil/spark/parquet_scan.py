"""Spark's Parquet scan of given files."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import types as s

from frazil.spark.jvm import jvm_of
from frazil.spark.paths import as_glob
from frazil.spark.settings import temporarily

_OPTIONS = {
    "mergeSchema": "false", "ignoreMissingFiles": "false", "ignoreCorruptFiles": "false", "recursiveFileLookup": "true",
    "datetimeRebaseMode": "CORRECTED", "int96RebaseMode": "CORRECTED",
}  # fmt: skip
_THRESHOLD = "spark.sql.sources.parallelPartitionDiscovery.threshold"


def open_files(spark: Any, schema: s.StructType, paths: Sequence[str]) -> DataFrame:
    """Spark's Parquet scan of exactly these files."""
    globs = list(map(as_glob, paths))
    with _no_listing_job(spark, len(globs)):
        if (jvm := jvm_of(spark)) is None:
            return spark.read.format("parquet").schema(schema).options(**_OPTIONS).load(globs)
        own = spark._jsparkSession  # PySpark's reader takes three calls where one will do, which adds up in a session that has just begun
        reader = own.read().format("parquet").schema(own.parseDataType(schema.json())).options(jvm.map(_OPTIONS))
        return DataFrame(reader.load(jvm.texts(globs)), spark)


@contextlib.contextmanager
def _no_listing_job(spark: Any, count: int) -> Iterator[None]:
    if count <= int(spark.conf.get(_THRESHOLD)):
        yield
        return
    with temporarily(spark, {_THRESHOLD: str(count)}):
        yield
