"""A guard for plans by field id. Spark looks at the session's id setting when a plan runs; where it is gone by then, columns of renamed
tables would be matched by name, and come back swapped or null without a word. The guard makes such a plan fail instead."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as s

from frazil.arrow.footers.parquet_footer import ParquetNode
from frazil.spark.scan.paths import as_glob
from frazil.spark.scan.presence import file_schemas
from frazil.storage import Storage

_NO_COLUMN = 2_147_480_000  # an id that no file has
_NULL_HASH = 42  # Spark's hash of nulls only is its seed
_MESSAGE = (
    "spark.sql.parquet.fieldId.read.enabled was switched off after this frame was made; its columns are found by field id. Set it to true."
)


def still_by_id(scan: DataFrame, spark: Any, paths: Sequence[str], storage: Storage) -> DataFrame:
    """The scan behind a check that runs once, when the scan runs, over one of its files: read by id, a column of no id is null; by name,
    it would be a column of the file, of another type."""
    for path in paths[:8]:
        if (name := _plain_column(file_schemas([path], storage)[path])) is not None:
            break
    else:
        return scan
    schema = s.StructType([s.StructField(name, s.ArrayType(s.IntegerType()), True, {"parquet.field.id": _NO_COLUMN})])
    one = spark.read.format("parquet").schema(schema).load(as_glob(path)).limit(1)
    seen = one.select(F.hash(F.col("`" + name.replace("`", "``") + "`")).alias("h")).agg(F.max("h").alias("h"))
    kept = F.coalesce(seen.scalar() == F.lit(_NULL_HASH), F.lit(True))
    # not assert_true: its result is null for all that Spark knows, and Spark would leave it out
    return scan.filter(F.when(kept, F.lit(True)).otherwise(F.raise_error(F.lit(_MESSAGE)).cast("boolean")))


def _plain_column(root: ParquetNode) -> str | None:
    return next((c.name for c in root.children if not c.children and c.field_id is not None), None)
