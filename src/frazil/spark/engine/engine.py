"""Implement `ops.engine.Engine` on a Spark session, by the modules of `frazil.spark`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import types as s

from frazil.arrow.values.arrow_schema import from_arrow_schema as iceberg_schema
from frazil.arrow.write.write_context import WriteContext
from frazil.arrow.write.write_options import WriteOptions
from frazil.errors import InvalidInput
from frazil.expr.nodes import AlwaysTrue, Predicate
from frazil.ops.arguments import is_spark_frame, is_spark_type
from frazil.ops.engine import ContextOf, Engine, Frame, Lineage, Planned, ReadySource, RowChanges
from frazil.ops.reading import ChangelogReading, RowFilter, RowsReading
from frazil.ops.session import Session, SessionSettings, WriteAuditPublish
from frazil.rows.clauses import Merge
from frazil.rows.source import MergeSource, SourceFiles, on_storage, open_source
from frazil.rows.source import stage as stage_in_process
from frazil.spark.dml import merge_by_sql, row_changes
from frazil.spark.dml.small_source import CollectedFrame, collect
from frazil.spark.dml.staging import folder_of
from frazil.spark.dml.staging import stage as stage_by_spark
from frazil.spark.dml.subquery_values import evaluated_on
from frazil.spark.host.jvm import is_stopped, setting
from frazil.spark.host.jvm_servers import client_facts
from frazil.spark.host.quiet import quietly
from frazil.spark.host.settings import (
    ANSI,
    ZONE,
    is_ansi,
    is_case_sensitive,
    is_usual,
    sensitivity,
    session_zone,
    spark_facts,
    temporarily,
    write_defaults,
)
from frazil.spark.read import changelog_frame, native_read
from frazil.spark.read.view_refresh import follow, lineage_of
from frazil.spark.tasks.spark_runner import remove_folder, runner_of, runs_in_driver
from frazil.spark.types.arrow_types import for_spark, struct_of
from frazil.spark.types.spark_types import collated_columns, from_spark
from frazil.spark.write import write_frame
from frazil.spec.manifest import DataFile
from frazil.spec.metadata import TableMetadata
from frazil.spec.schema import Schema
from frazil.spec.types import NestedField
from frazil.storage import Storage
from frazil.tasks.runner import Runner

WITH_TASKS = 8 << 20
"""The bytes of an Arrow MERGE source that is serialised with the tasks, at most; a larger source is
put into a file beside the table.
"""


def engine_on(spark: Session) -> Engine:
    """Return the engine on a session, classic or Connect. Raises InvalidInput for a session that
    was stopped.
    """
    if is_stopped(spark):
        raise InvalidInput(
            "The Spark session was stopped.",
            hint="Start a new one, as by frazil.spark_session(), and make frames on it.",
        )
    return SparkEngine(spark)


def schema_of(frame_or_type: DataFrame | s.DataType) -> Schema:
    """Return the Iceberg schema of a DataFrame or of a StructType."""
    return from_spark(frame_or_type if is_spark_type(frame_or_type) else frame_or_type.schema)


@dataclass(frozen=True)
class SparkEngine:
    """Implement `ops.engine.Engine`. Frames may be DataFrames of any session, or Arrow frames (the
    source of a MERGE).
    """

    spark: Session

    @property
    def evaluates_sql(self) -> bool:
        """Return True: conditions and values may be any Spark SQL."""
        return True

    # --- the session

    def settings(self, case_sensitive: bool | None = None) -> SessionSettings:
        """Return the settings of the session that decide what expressions mean: case, time zone,
        ANSI mode, and whether others are as usual.
        """
        spark = self.spark
        sensitive = is_case_sensitive(spark, case_sensitive)
        return SessionSettings(
            sensitive, session_zone(spark), is_ansi(spark), is_usual(spark), spark=True
        )

    @contextmanager
    def as_meant(self, settings: SessionSettings) -> Iterator[None]:
        """Set the time zone and ANSI mode of the session to these settings for the time of a block."""
        changed = {}
        if session_zone(self.spark) != settings.zone:
            changed[ZONE] = settings.zone
        if is_ansi(self.spark) != settings.ansi:
            changed[ANSI] = str(settings.ansi).lower()
        with temporarily(self.spark, changed) if changed else nullcontext():
            yield

    def write_audit_publish(self) -> WriteAuditPublish:
        """Return the session's `spark.wap.id` and `spark.wap.branch`."""
        return WriteAuditPublish(
            setting(self.spark, "spark.wap.id"), setting(self.spark, "spark.wap.branch")
        )

    def write_defaults(self) -> Mapping[str, str]:
        """Return the session's defaults for write options."""
        return write_defaults(self.spark)

    def facts(self) -> dict[str, str]:
        """Return what a snapshot summary says about the engine: name, version, the application by
        Java's names, and the client of a server who asks.
        """
        app_id = str(setting(self.spark, "spark.app.id", ""))
        return {
            **spark_facts(self.spark.version),
            "spark.app.id": app_id,
            "app-id": app_id,
            "app-name": str(setting(self.spark, "spark.app.name", "")),
            **client_facts(self.spark),
        }

    def runner(self, metadata: TableMetadata, storage: Storage) -> Runner:
        """Return a runner of Spark tasks, or of threads in this process (`spark_runner.runner_of`).
        Raises what `spark_runner.runner` raises.
        """
        return runner_of(self.spark, metadata, storage)

    # --- frames

    def schema_of(self, frame: Frame) -> Schema:
        """Return the Iceberg schema of a frame."""
        return schema_of(frame)

    def lineage(self, frame: Frame, metadata: TableMetadata) -> Lineage:
        """Tell how a frame depends on a table (`view_refresh.lineage_of`)."""
        return lineage_of(frame, metadata) if is_spark_frame(frame) else Lineage()

    @quietly()
    def write(
        self,
        frame: Frame,
        metadata: TableMetadata,
        storage: Storage,
        options: WriteOptions,
        case_sensitive: bool | None = None,
    ) -> list[DataFile]:
        """Write the rows of a DataFrame as data files (`write_frame.write`)."""
        return write_frame.write(frame, metadata, storage, options, case_sensitive=case_sensitive)

    @contextmanager
    def stage_source(
        self, frame: Frame, write: WriteContext, like: Schema, case_sensitive: bool = True
    ) -> Iterator[ReadySource]:
        """Stage the source of a MERGE for the time of a block: DataFrames and large Arrow frames in
        files beside the table, or in memory where tasks run in this process."""
        folder = folder_of(write)
        in_driver = runs_in_driver(self.spark)
        if is_spark_frame(frame):
            if in_driver and (collected := collect(frame, folder)) is not None:
                yield _held_here(frame, collected)
                return
            try:
                yield _staged_by_spark(frame, folder, write.storage)
            finally:
                remove_folder(write.storage, folder)
            return
        with stage_in_process(frame, like=like, case_sensitive=case_sensitive) as source:
            if in_driver or source.nbytes <= WITH_TASKS:
                yield ReadySource.of(source)
                return
            with on_storage(source, folder, write.storage) as shared:
                yield ReadySource.of(shared)

    @quietly()
    def read(self, reading: RowsReading) -> DataFrame:
        """Return a DataFrame that is planned now and read when it is used. Temporary views over it
        follow what this process commits.
        """
        frame = self._frame(reading)
        reread = lambda metadata, storage: self._frame(
            replace(reading, metadata=metadata, storage=storage)
        )
        followed: DataFrame = follow(
            self.spark, frame, reading.metadata, reread if reading.may_follow else None
        )
        return followed

    def _frame(self, reading: RowsReading) -> DataFrame:
        """Plan a read, pruned by what Frazil understands of its filter; Spark applies the whole
        filter.
        """
        spark, case_sensitive = self.spark, reading.case_sensitive
        sensitive = is_case_sensitive(spark, case_sensitive)
        reading = replace(
            reading.on_wap_branch(lambda: self.write_audit_publish().branch),
            case_sensitive=sensitive,
        )
        where = None if isinstance(reading.row_filter, AlwaysTrue) else reading.row_filter
        pruning: Predicate = AlwaysTrue()
        zone = "UTC"
        if where is not None:
            pruning, zone = native_read.pruning(
                spark, where, reading.snapshot_and_schema()[1], sensitive
            )
        plan = reading.plan(pruning, zone)
        with sensitivity(spark, case_sensitive):  # Spark looks the filter's names up
            frame = native_read.read(
                spark,
                plan,
                projection=reading.projection(),
                storage=plan.reads_by(reading.storage),
                where=where,
                limit=reading.limit,
            )
            if case_sensitive is not None:
                # Spark Connect resolves names only when it must: here, while the setting holds
                _ = frame.columns
            return frame

    @quietly()
    def read_changelog(self, reading: ChangelogReading) -> DataFrame:
        """Return a DataFrame of a changelog. Spark applies the filter, after deleted and inserted
        rows were paired; what Frazil understands of it prunes files."""
        spark, case_sensitive = self.spark, reading.case_sensitive
        reading = replace(reading, case_sensitive=is_case_sensitive(spark, case_sensitive))
        where = None if isinstance(reading.row_filter, AlwaysTrue) else reading.row_filter
        pruning = (
            AlwaysTrue()
            if where is None
            else native_read.pruning_predicate(spark, where, reading.schema, reading.is_sensitive)
        )
        plan = reading.plan(reading.decided_first(pruning))
        with sensitivity(spark, case_sensitive):  # Spark looks the filter's names up
            return changelog_frame.changelog_frame(
                spark,
                plan,
                projection=reading.projection(),
                storage=reading.storage,
                options=reading.matching(),
                where=where,
                limit=reading.limit,
            )

    def shown(self, table: pa.Table) -> DataFrame:
        """Return a DataFrame of a metadata table."""
        return self._frame_of(for_spark(table))

    def _frame_of(self, table: pa.Table) -> DataFrame:
        """Return Arrow rows as a DataFrame."""
        frame: DataFrame = self.spark.createDataFrame(table, schema=struct_of(table.schema))
        return frame

    # --- rows found by any SQL

    def lacking(self, schema: Schema) -> NestedField | None:
        """Return the first column, if any, that keeps whole rows from passing through Spark."""
        return row_changes.lacking(self.spark, schema)

    @quietly()
    def evaluated(
        self,
        metadata: TableMetadata,
        words: Sequence[Any],
        *,
        case_sensitive: bool | None = None,
        alias: str = "",
    ) -> list[Any] | None:
        """Evaluate sub-queries that do not depend on the row (`subquery_values.evaluated_on`)."""
        with sensitivity(self.spark, case_sensitive):
            return evaluated_on(self.spark, metadata, words, alias)

    @quietly()
    def delete(
        self,
        planned: Planned,
        where: RowFilter,
        context_of: ContextOf,
        *,
        case_sensitive: bool | None = None,
        alias: str = "",
    ) -> RowChanges:
        """Delete rows by any Spark SQL (`row_changes.delete`)."""
        return row_changes.delete(
            self.spark, planned, where, context_of, case_sensitive=case_sensitive, alias=alias
        )

    @quietly()
    def update(
        self,
        planned: Planned,
        assignments: Mapping[str, Any],
        where: RowFilter,
        context_of: ContextOf,
        *,
        case_sensitive: bool | None = None,
        alias: str = "",
    ) -> RowChanges:
        """Update rows by any Spark SQL (`row_changes.update`)."""
        return row_changes.update(
            self.spark,
            planned,
            assignments,
            where,
            context_of,
            case_sensitive=case_sensitive,
            alias=alias,
        )

    @quietly()
    def check_merge(
        self,
        metadata: TableMetadata,
        frame: Frame,
        merge: Merge,
        *,
        case_sensitive: bool | None = None,
    ) -> None:
        """Check the expressions of a MERGE before its source is read (`merge_by_sql.check`)."""
        merge_by_sql.check(self.spark, metadata, frame, merge, case_sensitive=case_sensitive)

    @quietly()
    def merge(
        self,
        planned: Planned,
        source: ReadySource,
        merge: Merge,
        context_of: ContextOf,
        *,
        case_sensitive: bool | None = None,
        checked: bool = False,
    ) -> RowChanges:
        """Merge a staged source, or a small Arrow source, by any Spark SQL (`merge_by_sql.merge`)."""
        frame = source.native if source.native is not None else self._frame_of(source.open().table)
        return merge_by_sql.merge(
            self.spark,
            planned,
            frame,
            merge,
            context_of,
            case_sensitive=case_sensitive,
            like=source.frame,
            checked=checked,
        )


def _held_here(frame: DataFrame, collected: CollectedFrame) -> ReadySource:
    """Make the source of a MERGE of the rows of a DataFrame that this process holds."""
    source = collected.source
    return ReadySource(
        source.schema,
        source.num_rows,
        lambda: source,
        collected,
        frame,
        collated_columns(frame.schema),
    )


def _staged_by_spark(frame: DataFrame, folder: str, storage: Storage) -> ReadySource:
    """Stage a DataFrame as the source of a MERGE, which both Spark and Frazil's own tasks can open."""
    staged = stage_by_spark(frame, folder, storage)
    files = SourceFiles(tuple(f.location for f in staged.files), storage)
    opened = (
        partial(open_source, files)
        if staged.files
        else partial(MergeSource, staged.schema.empty_table())
    )
    return ReadySource(
        iceberg_schema(staged.schema),
        staged.rows,
        opened,
        staged,
        frame,
        collated_columns(frame.schema),
    )
