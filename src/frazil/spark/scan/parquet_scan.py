"""Open Spark's Parquet scan over a list of files, by field id: as planned files
(`planned_files`), or where Spark takes none (on Spark Connect, or if its interfaces have changed)
by `spark.read` with the files' paths.

A scan by paths has no session of its own and depends on the running session's setting
`spark.sql.parquet.fieldId.read.enabled`. If the setting is off by the time the query runs, Spark
matches columns by name: columns of a table with renamed columns come back swapped or null, without
an error. So such a scan is given a check that raises one.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as s

from frazil.arrow.footers.parquet_footer import ParquetNode
from frazil.errors import Unsupported
from frazil.expr.sql_text import back_quoted
from frazil.ops.session import Session
from frazil.scan.options import SplitOptions
from frazil.spark.host.fall_back import fall_back
from frazil.spark.host.jvm import NOT_AS_KNOWN, Jvm, jvm_of, setting
from frazil.spark.host.jvm_reads import scan_of
from frazil.spark.host.settings import enable_ids, scan_session, temporarily
from frazil.spark.scan.file_columns import file_schemas
from frazil.spark.scan.file_keys import ROW_INDEX, FileKeys, Numbers, same_files
from frazil.spark.scan.paths import as_glob
from frazil.spark.scan.planned_files import CONSTANTS, FileAnswers, NoPruning, Prune
from frazil.spark.scan.read_schema import ID
from frazil.storage import Storage, normalise

_OPTIONS = {
    "mergeSchema": "false", "ignoreMissingFiles": "false", "ignoreCorruptFiles": "false", "recursiveFileLookup": "true",
    "datetimeRebaseMode": "CORRECTED", "int96RebaseMode": "CORRECTED",
    "parquet.page.verify-checksum.enabled": "true",  # costs nothing that can be measured
}  # fmt: skip
_USUAL = SplitOptions()
_SPLIT, _COST = "spark.sql.files.maxPartitionBytes", "spark.sql.files.openCostInBytes"
# if there would be fewer, Spark makes splits smaller than asked
_LEAST_PARTITIONS = "spark.sql.files.minPartitionNum"
_THRESHOLD = "spark.sql.sources.parallelPartitionDiscovery.threshold"
_LEAST_SPLIT = 4 << 10
"""The smallest split in bytes. Iceberg splits files at row groups, but Spark at any byte: smaller
splits would mostly hold no row group.
"""


@dataclass(frozen=True)
class ScannedFiles:
    """Hold the files of one scan. `root`: the table's location; `sizes`: bytes, `rows`: rows per
    file; `numbers`: a distinct number per file, None if the rows need no file keys; `prune`: prunes
    the files by the filters of a query; `hadoop`: options by which Hadoop opens their store.

    `positions`: planned files show each row's position as `ROW_INDEX`. They show each file's number
    as `FILE` and its location as `LOCATION`.
    """

    root: str
    paths: Sequence[str] = field(repr=False)
    sizes: Sequence[int] = field(repr=False)
    rows: Sequence[int] = field(repr=False)
    numbers: Numbers | None = field(default=None, repr=False)
    prune: Prune = field(default=NoPruning(), repr=False)
    hadoop: Mapping[str, str] = field(default_factory=dict, repr=False)
    positions: bool = False


@dataclass(frozen=True, eq=False)
class OpenedScan:
    """Hold an opened scan. `by_id`: its files are planned, and so are read by field id whatever is
    set on the running session.
    """

    frame: DataFrame
    files: ScannedFiles
    by_id: bool

    def keys(self) -> FileKeys | None:
        """Return the keys of files that have numbers; None if keys must be hashed from paths and
        Spark spells the paths in another way.
        """
        if self.by_id:
            assert self.files.numbers is not None
            return FileKeys.given(self.files.numbers)
        return FileKeys.of(self.files.paths) if same_files(self.frame, self.files.paths) else None


def open_files(
    spark: Session, schema: s.StructType, files: ScannedFiles, split: SplitOptions = _USUAL
) -> OpenedScan:
    """Open Spark's Parquet scan of exactly these files. `split`: the size of splits and the cost of
    opening a file; by default, and always by paths, the session's settings apply."""
    if (jvm := jvm_of(spark)) is not None:
        try:
            return OpenedScan(_as_planned(spark, jvm, schema, files, split), files, True)
        except (Unsupported, *NOT_AS_KNOWN) as error:
            fall_back("The scan of planned files", error)
    if len({normalise(path) for path in files.paths}) < len(files.paths):
        # Spark reads one path once
        text = f"Table {files.root} lists a data file twice, whose rows a scan by paths would read once."
        raise Unsupported(
            text, hint="Read it as Arrow (to_arrow), or on a classic session of Spark."
        )
    enable_ids(spark)
    globs = list(map(as_glob, files.paths))
    with _without_listing_job(spark, len(globs)):
        return OpenedScan(
            spark.read.format("parquet")
            .schema(schema)
            .options(**_OPTIONS, **files.hadoop)
            .load(globs),
            files,
            False,
        )


def _as_planned(
    spark: Session, jvm: Jvm, schema: s.StructType, files: ScannedFiles, split: SplitOptions
) -> DataFrame:
    """Open the scan as planned files, about which Spark asks when it plans and runs the query."""
    settings = (
        {}
        if split == _USUAL
        else {_SPLIT: str(max(split.split_size, _LEAST_SPLIT)), _COST: str(split.open_file_cost)}
    )
    settings |= {} if split.adaptive else {_LEAST_PARTITIONS: "1"}
    numbers = None if files.numbers is None else files.numbers.tolist()
    answers = FileAnswers(files.root, files.paths, files.sizes, files.rows, numbers, files.prune)
    if files.positions and ROW_INDEX not in schema.names:
        schema = s.StructType([*schema.fields, s.StructField(ROW_INDEX, s.LongType())])
    return scan_of(
        spark,
        scan_session(spark, jvm, settings),
        (schema, CONSTANTS),
        (answers.identity, answers.title, files.root, answers.telling),
        {**_OPTIONS, **files.hadoop},
        answers,
    )


@contextlib.contextmanager
def _without_listing_job(spark: Session, count: int) -> Iterator[None]:
    """Keep Spark from starting a job that lists so many paths: 5,000 files then take 10 s to open
    instead of 0.6 s.
    """
    if count <= int(setting(spark, _THRESHOLD, "32") or 0):
        yield
        return
    with temporarily(spark, {_THRESHOLD: str(count)}):
        yield


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
