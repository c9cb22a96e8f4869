"""Loaded by every Python that the tests' Spark session starts: its daemons import what tasks need,
before they fork a worker for each task.

Else each worker imports it anew, which takes a second: a read by `format("iceberg")` alone starts
three of them.
"""

import contextlib
import importlib
import sys

MODULES = (
    "pandas", "pyarrow.compute", "pyarrow.orc", "pyarrow.parquet", "pyspark.sql.pandas.serializers", "frazil.spark.engine.datasource",
    "frazil.spark.tasks.spark_runner",
)  # fmt: skip

if "pyspark.daemon" in sys.orig_argv:
    for name in MODULES:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
