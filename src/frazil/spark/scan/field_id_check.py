"""Make a scan by field id fail if Spark no longer reads by field id when the query runs.

A scan that has no session of its own (on Spark Connect, or if the file index is not available)
depends on the running session's setting `spark.sql.parquet.fieldId.read.enabled`. If the setting is
off by then, Spark matches columns by name: columns of a table with renamed columns come back
swapped or null, without an error. The check that is added here raises one.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as s

from frazil.arrow.footers.parquet_footer import ParquetNode
from frazil.expr.sql_text import back_quoted
from frazil.ops.session import Session
from frazil.spark.scan.file_columns import file_schemas
from frazil.spark.scan.parquet_scan import ScannedFiles
from frazil.spark.scan.paths import as_glob
from frazil.spark.scan.read_schema import ID
from frazil.storage import Storage

_UNUSED_ID = 2_147_480_000  # a field id that no file has
_HASH_OF_NULL = 42  # Spark's hash of nothing but nulls is its seed
_MESSAGE = (
    "spark.sql.parquet.fieldId.read.enabled was switched off after this DataFrame was made, which reads columns by field id. "
    "Set it to true and run the query again."
)


def still_by_id(
    scan: DataFrame, spark: Session, files: ScannedFiles, storage: Storage
) -> DataFrame:
    """Return a scan of these files that raises an error when it runs while the session does not
    read by field id.

    The check is a scalar sub-query, which Spark runs once per query. It reads one row of one file
    under the name of one of its columns, but with an id that no file has and as an array. By id
    that column is null; by name it would be the file's column, which is no array.
    """
    for path in files.paths[:8]:
        if (name := _plain_column(file_schemas([path], storage)[path])) is not None:
            break
    else:
        return scan
    schema = s.StructType(
        [s.StructField(name, s.ArrayType(s.IntegerType()), True, {ID: _UNUSED_ID})]
    )
    row = (
        spark.read.format("parquet")
        .schema(schema)
        .options(**files.hadoop)
        .load(as_glob(path))
        .limit(1)
    )
    hashes = row.select(F.hash(F.col(back_quoted([name]))).alias("h")).agg(F.max("h").alias("h"))
    is_by_id = F.coalesce(hashes.scalar() == F.lit(_HASH_OF_NULL), F.lit(True))
    # assert_true would not do: Spark knows that its result is always null, and removes the check
    return scan.filter(
        F.when(is_by_id, F.lit(True)).otherwise(F.raise_error(F.lit(_MESSAGE)).cast("boolean"))
    )


def _plain_column(root: ParquetNode) -> str | None:
    return next((c.name for c in root.children if not c.children and c.field_id is not None), None)
