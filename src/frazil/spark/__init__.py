"""Data files as Spark DataFrames and back. Doors: `types` (schemas), `session`, `native_read.read`, `native_write.write`, `datasource`.

Takes plans, metadata and storages, never a table. Only here, in `sql` and in `dropin` is pyspark known.
"""

import pyspark

from frazil.spec.version import check_pyspark

check_pyspark(pyspark.__version__)

__all__ = ["dml", "door", "host", "types"]
