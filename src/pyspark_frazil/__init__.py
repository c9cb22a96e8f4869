"""Provide the `DefaultSource` that PySpark finds in modules named `pyspark_*`, so that
`format("iceberg")` works unregistered.
"""

from frazil.spark.engine.datasource import IcebergSource as DefaultSource

__all__ = ["DefaultSource"]
