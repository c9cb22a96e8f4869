"""What PySpark looks for by itself: a module named `pyspark_*` with a `DefaultSource`. It makes `format("iceberg")` work unregistered."""

from frazil.spark.door.datasource import IcebergSource as DefaultSource

__all__ = ["DefaultSource"]
