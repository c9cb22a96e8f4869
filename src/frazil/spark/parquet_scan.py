"""Spark's Parquet scan of given files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import types as s

from frazil.spark.paths import as_glob
from frazil.spark.settings import temporarily

_OPTIONS = {
    "mergeSchema": "false", "ignoreMissingFiles": "false", "ignoreCorruptFiles": "false", "recursiveFileLookup": "true",
    "datetimeRebaseMode": "CORRECTED", "int96RebaseMode": "CORRECTED",
}  # fmt: skip


def open_files(spark: Any, schema: s.StructType, paths: Sequence[str]) -> DataFrame:
    """Spark's Parquet scan of exactly these files."""
    reader = spark.read.format("parquet").schema(schema).options(**_OPTIONS)
    with temporarily(spark, {"spark.sql.sources.parallelPartitionDiscovery.threshold": str(len(paths) + 1)}):
        if hasattr(reader, "_jreader"):  # one call instead of one a path: 100k paths cross in 0.2 s, not in 20
            split_paths = spark._jvm.org.apache.commons.lang3.StringUtils.split("\n".join(map(as_glob, paths)), "\n")
            return DataFrame(reader._jreader.load(split_paths), spark)
        return reader.load(list(map(as_glob, paths)))
