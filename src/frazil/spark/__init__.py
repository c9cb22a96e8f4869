"""Carry out operations on Spark: data files as DataFrames and back, row-level changes as tasks.

Entry points: `engine/entry_points` (what tables and catalogs ask), `engine/engine` (the Engine),
`engine/datasource` (the Python data source), `host/session`, `types` (schemas). Takes plans,
metadata and storages, never a table. Only this room, `sql` and `dropin` import PySpark.
"""

import pyspark

from frazil.spec.version import check_pyspark

check_pyspark(pyspark.__version__)

__all__ = ["catalog", "dml", "engine", "host", "streams", "types"]
