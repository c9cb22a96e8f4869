"""Serve a table's changelog to Spark's CHANGES and `spark.read.changes` (4.2, 4.3): the rows of
`Table.changes`, with the columns and the words that Spark has for them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from py4j.java_gateway import JavaObject
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from frazil.errors import InvalidInput, Unsupported
from frazil.expr.sql_text import back_quoted
from frazil.ops.find_table import FoundTable
from frazil.ops.reading import ChangelogReading
from frazil.ops.session import Session
from frazil.scan.changelog import CHANGE_ORDINAL, CHANGE_TYPE, COMMIT_SNAPSHOT_ID
from frazil.scan.changelog_range import ChangelogRange
from frazil.scan.snapshot_ref import CHANGES, resolve_read
from frazil.spark.catalog.proxy import ScanProxy, SparkProxy
from frazil.spark.engine.engine import engine_on
from frazil.spark.engine.read_target import ReadRequest, read_request, target_of
from frazil.spark.host.jvm import implementing
from frazil.spark.host.jvm_catalog import CATALOG, CONNECTOR, CatalogTypes
from frazil.spark.host.jvm_relations import AskedChanges, asked_changes, relation_of
from frazil.spark.host.settings import session_zone
from frazil.spec.metadata import TableMetadata

_VERSION, _TIMESTAMP = "_commit_version", "_commit_timestamp"
OPTIONS = ("branch",)
"""The options that say which changes are read."""
_RANGE = frozenset((
    "startingversion", "endingversion", "startingtimestamp", "endingtimestamp", "startingboundinclusive", "endingboundinclusive",
    "deduplicationmode", "computeupdates",
))  # fmt: skip
"""Spark's options, which arrive as a ChangelogContext, and on 4.2 as options, too."""
_KINDS = {
    "INSERT": "insert",
    "DELETE": "delete",
    "UPDATE_BEFORE": "update_preimage",
    "UPDATE_AFTER": "update_postimage",
}


def changelog_of(
    types: CatalogTypes,
    spark: Session,
    found: FoundTable,
    context: JavaObject,
    options: Mapping[str, str],
) -> ServedChangelog:
    """Return the changelog that a statement asks for. `options`: those of `spark.read` beside the
    ones that say the range. Raises InvalidInput for options that do not belong to it."""
    if found.suffixes:
        raise InvalidInput(
            f"CHANGES is asked of a table, not of {found.name}.",
            hint="A branch is an option: WITH ('branch' = 'audit').",
            table=found.place,
        )
    asked = asked_changes(context)
    request = _request(spark, found.place, options)
    reading = target_of(replace(found, suffixes=(CHANGES,)), request).changelog()
    reading = replace(
        reading,
        range=_range(reading.metadata, asked, reading.range.branch),
        net=asked.net,
        compute_updates=asked.updates or None,
    )
    return ServedChangelog(types, spark, found.place, _frame(spark, reading))


def _request(spark: Session, name: str, options: Mapping[str, str]) -> ReadRequest:
    own = {key: value for key, value in options.items() if key.lower() not in _RANGE}
    request = read_request({**own, "path": name}, session_zone(spark))
    if request.is_range or set(request.selectors) - {"branch"}:
        text = "The range of CHANGES is said by FROM and TO, not by options."
        raise InvalidInput(text, hint=f"Leave out {', '.join(own)}.", table=name)
    return request


def _range(metadata: TableMetadata, asked: AskedChanges, branch: str | None) -> ChangelogRange:
    """Return a range of Spark's as Frazil has it: the start exclusive, the end inclusive."""
    if asked.versions is not None:
        first, last = (_snapshot(metadata, v) for v in asked.versions)
        if first is not None and asked.with_start:
            first = metadata.snapshot_by_id(first).parent_snapshot_id
        if last is not None and not asked.with_end:
            before = metadata.snapshot_by_id(last).parent_snapshot_id
            if before is None:  # there is nothing before the first snapshot
                return ChangelogRange(last, last, branch=branch)
            last = before
        return ChangelogRange(first, last, branch=branch)
    start, end = asked.micros or (None, None)
    if start is not None:
        start = -(-start // 1000) - 1 if asked.with_start else start // 1000
    if end is not None:
        end = end // 1000 if asked.with_end else -(-end // 1000) - 1
    return ChangelogRange(start_ms=start, end_ms=end, branch=branch)


def _snapshot(metadata: TableMetadata, version: str | None) -> int | None:
    """Return the id of the snapshot that a version names: an id, a tag or a branch."""
    if version is None:
        return None
    snapshot = resolve_read(metadata, version=version).snapshot
    return None if snapshot is None else snapshot.snapshot_id


def _frame(spark: Session, reading: ChangelogReading) -> DataFrame:
    """Return the changes with the columns that Spark names."""
    names = [field.name for field in reading.metadata.schema().fields]
    if taken := [n for n in (_VERSION, _TIMESTAMP) if n in names]:
        raise InvalidInput(
            f"The table has the column {taken[0]}, which CHANGES adds.",
            hint="Read the table's name with .changes at its end.",
        )
    frame: DataFrame = engine_on(spark).read_changelog(reading)
    kind: Column = F.lit(None)
    for ours, sparks in _KINDS.items():
        kind = F.when(F.col(CHANGE_TYPE) == ours, sparks).otherwise(kind)
    times = [(s.snapshot_id, s.timestamp_ms) for s in reading.range.snapshots(reading.metadata)]
    commits = spark.createDataFrame(times, f"{_VERSION} BIGINT, ms BIGINT").select(
        F.col(_VERSION), F.timestamp_millis("ms").alias(_TIMESTAMP)
    )
    frame = frame.withColumn(CHANGE_TYPE, kind).withColumnRenamed(COMMIT_SNAPSHOT_ID, _VERSION)
    joined = frame.drop(CHANGE_ORDINAL).join(F.broadcast(commits), _VERSION)
    columns = (*names, CHANGE_TYPE, _VERSION, _TIMESTAMP)
    return joined.select(*(back_quoted((name,)) for name in columns))


class ServedChangelog(SparkProxy):
    """Describe a changelog to Spark, which has nothing left to compute of it: rows that were only
    copied are left out, and updates and net changes are found as the statement asks."""

    Java = implementing(CATALOG + "Changelog")

    def __init__(
        self,
        types: CatalogTypes,
        spark: Session,
        name: str,
        frame: DataFrame,
    ):
        super().__init__(types, f"{name} changes")
        self._spark, self._table, self._frame = spark, name, frame

    def name(self) -> str:
        return self._described

    def columns(self) -> Any:
        return self.types.columns(self.types.struct_type(self._spark, self._frame.schema))

    def containsCarryoverRows(self) -> bool:
        return False

    def containsIntermediateChanges(self) -> bool:
        return False

    def representsUpdateAsDeleteAndInsert(self) -> bool:
        return False

    def rowId(self) -> Any:
        return self.types.references(())

    def rowVersion(self) -> Any:
        return self.types.references((_VERSION,))[0]

    def newScanBuilder(self, options: JavaObject) -> Any:
        # Spark 4.3 has passed the options of OPTIONS alone when the changelog was loaded
        _request(self._spark, self._table, self.types.options(options))
        return ChangelogScanBuilder(self.types, self._spark, self._described, self._frame)


class ChangelogScanBuilder(SparkProxy):
    """Note the columns that a query needs of a changelog."""

    Java = implementing(
        CONNECTOR + "read.ScanBuilder", CONNECTOR + "read.SupportsPushDownRequiredColumns"
    )

    def __init__(self, types: CatalogTypes, spark: Session, described: str, frame: DataFrame):
        super().__init__(types, described)
        self._spark, self._frame = spark, frame

    def pruneColumns(self, schema: JavaObject) -> None:
        names = [str(name) for name in schema.fieldNames()]
        self._frame = self._frame.select(*(back_quoted((name,)) for name in names))

    def build(self) -> Any:
        return ChangelogV1Scan(self.types, self._spark, self._described, self._frame)


class ChangelogV1Scan(ScanProxy):
    """Hand the rows of a changelog over, when Spark runs the query."""

    Java = implementing(CONNECTOR + "read.V1Scan")

    def __init__(self, types: CatalogTypes, spark: Session, described: str, frame: DataFrame):
        super().__init__(types, spark, described, frame.schema)
        self._frame = frame

    def toV1TableScan(self, context: JavaObject) -> Any:
        return relation_of(self._spark, self._frame, context)

    def toBatch(self) -> Any:
        raise Unsupported("The rows of a changelog are no batch of Spark's DataSourceV2.")

    def toMicroBatchStream(self, checkpoint: str) -> Any:
        raise Unsupported(
            "A changelog is not streamed this way.",
            hint='readStream.format("iceberg").load("db.t.changes").',
        )

    def toContinuousStream(self, checkpoint: str) -> Any:
        return self.toMicroBatchStream(checkpoint)


__all__ = ["OPTIONS", "changelog_of"]
