"""Loaded by every Python that the tests' Spark session starts: its daemons import what tasks need, before they fork a worker for each task.

Else each worker imports it anew, which takes a second: a read by `format("iceberg")` alone starts three of them.
"""

import contextlib
import sys

if "pyspark.daemon" in sys.orig_argv:
    with contextlib.suppress(ImportError):
        import pandas  # noqa: F401
        import pyarrow.compute
        import pyarrow.orc
        import pyarrow.parquet
        from pyspark.sql.pandas import serializers  # noqa: F401

        import frazil.spark.door.datasource
        import frazil.spark.tasks.spark_runner  # noqa: F401
