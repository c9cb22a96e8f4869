"""Spark's Parquet scan of given files."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import types as s

from frazil.scan.options import SplitOptions
from frazil.spark.host.jvm import NOT_AS_KNOWN, Jvm, fall_back, jvm_of
from frazil.spark.host.settings import enable_ids, scan_session, temporarily
from frazil.spark.scan.file_index import FileIndex, Kept, relation
from frazil.spark.scan.file_keys import FileKeys, Numbers, same_files
from frazil.spark.scan.paths import as_glob

_OPTIONS = {
    "mergeSchema": "false", "ignoreMissingFiles": "false", "ignoreCorruptFiles": "false", "recursiveFileLookup": "true",
    "datetimeRebaseMode": "CORRECTED", "int96RebaseMode": "CORRECTED",
    "parquet.page.verify-checksum.enabled": "true",  # costs nothing that can be measured
}  # fmt: skip
_USUAL = SplitOptions()
_SPLIT, _COST = "spark.sql.files.maxPartitionBytes", "spark.sql.files.openCostInBytes"
_AT_LEAST = "spark.sql.files.minPartitionNum"  # partitions: Spark makes its pieces smaller where there are fewer
_THRESHOLD = "spark.sql.sources.parallelPartitionDiscovery.threshold"
_LEAST_PIECE = 4 << 10
"""Bytes. Spark would cut files by bytes, into pieces of which most hold no row group; others cut by row groups only."""


@dataclass(frozen=True)
class ScannedFiles:
    """Some files of a table. `numbers`: of each file one that no other has, where rows must be told by their files. `kept`: which of them
    filters leave that are put on later."""

    root: str
    paths: Sequence[str] = field(repr=False)
    sizes: Sequence[int] = field(repr=False)
    numbers: Numbers | None = field(default=None, repr=False)
    kept: Kept = field(default=lambda _: None, repr=False)


@dataclass(frozen=True, eq=False)
class OpenedScan:
    """A scan. `by_id`: it finds columns by field id whatever the session is set to."""

    frame: DataFrame
    files: ScannedFiles
    by_id: bool

    def keys(self) -> FileKeys | None:
        """The files' keys, where they have numbers; None, on Spark Connect: it calls files as it should not."""
        if self.by_id:
            assert self.files.numbers is not None
            return FileKeys.given(self.files.numbers)
        return FileKeys.of(self.files.paths) if same_files(self.frame, self.files.paths) else None


def open_files(spark: Any, schema: s.StructType, files: ScannedFiles, split: SplitOptions = _USUAL) -> OpenedScan:
    """Spark's Parquet scan of exactly these files. `split`: how they are cut, unless it is the usual; then, and on Spark Connect, the
    session's settings count."""
    if (jvm := jvm_of(spark)) is not None:
        try:
            return OpenedScan(_by_index(spark, jvm, schema, files, split), files, True)
        except NOT_AS_KNOWN as error:
            fall_back("The file index", error)
    enable_ids(spark)
    globs = list(map(as_glob, files.paths))
    with _no_listing_job(spark, len(globs)):
        return OpenedScan(spark.read.format("parquet").schema(schema).options(**_OPTIONS).load(globs), files, False)


def _by_index(spark: Any, jvm: Jvm, schema: s.StructType, files: ScannedFiles, split: SplitOptions) -> DataFrame:
    """The scan that asks for its files when it runs."""
    sizes = {} if split == _USUAL else {_SPLIT: str(max(split.split_size, _LEAST_PIECE)), _COST: str(split.open_file_cost)}
    sizes |= {} if split.adaptive else {_AT_LEAST: "1"}
    numbers = None if files.numbers is None else files.numbers.tolist()
    index = FileIndex(jvm, files.root, files.paths, files.sizes, numbers, files.kept)
    return relation(spark, scan_session(spark, jvm, sizes), schema, index, _OPTIONS)


@contextlib.contextmanager
def _no_listing_job(spark: Any, count: int) -> Iterator[None]:
    if count <= int(spark.conf.get(_THRESHOLD)):
        yield
        return
    with temporarily(spark, {_THRESHOLD: str(count)}):
        yield
