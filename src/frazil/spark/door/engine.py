"""The engine on a Spark session: what operations ask of Spark, answered by the rooms of `frazil.spark`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_schema

from frazil.arrow.values.arrow_schema import from_arrow_schema as iceberg_schema
from frazil.arrow.write.write_context import WriteContext
from frazil.arrow.write.write_options import WriteOptions
from frazil.catalog import CatalogBackend, LoadedTable
from frazil.errors import InvalidInput
from frazil.expr.nodes import AlwaysTrue, Predicate
from frazil.ops.engine import ContextOf, Engine, Frame, Planned, ReadySource, RowChanges
from frazil.ops.frames import is_spark_frame, is_spark_type
from frazil.ops.reading import RowsReading
from frazil.ops.reading_changes import ChangesReading
from frazil.ops.session import SessionSettings, WriteAuditPublish
from frazil.rows.clauses import Merge
from frazil.rows.source import MergeSource, SourceFiles, on_storage, open_source
from frazil.rows.source import stage as stage_in_process
from frazil.spark.dml import merge_by_sql, row_changes
from frazil.spark.dml.staging import folder_of, remove
from frazil.spark.dml.staging import stage as stage_by_spark
from frazil.spark.host.jvm import is_stopped
from frazil.spark.host.quiet import quietly
from frazil.spark.host.settings import (
    ANSI,
    ZONE,
    is_ansi,
    is_case_sensitive,
    sensitivity,
    session_zone,
    spark_facts,
    temporarily,
    write_defaults,
)
from frazil.spark.read import changelog_frame, native_read
from frazil.spark.read.view_refresh import follow, refresh
from frazil.spark.streams import writer
from frazil.spark.tasks.spark_runner import SparkRunner, runner
from frazil.spark.types.arrow_types import for_spark
from frazil.spark.types.spark_types import from_spark
from frazil.spark.write import native_write
from frazil.spec.data_file import DataFile
from frazil.spec.metadata import TableMetadata
from frazil.spec.schema import Schema
from frazil.spec.types import NestedField
from frazil.storage import Storage

WITH_TASKS = 8 << 20
"""Bytes of a source of Arrow rows that travel with the tasks themselves; larger ones lie in a file beside the table."""


def engine_on(spark: Any) -> Engine:
    """The engine on a session, classic or Connect. Raises InvalidInput for one that was stopped."""
    if is_stopped(spark):
        raise InvalidInput("The Spark session was stopped.", hint="Make a new one, as by frazil.spark_session(), and frames of it.")
    return SparkEngine(spark)


def refresh_views(loaded: LoadedTable) -> None:
    """Let temporary views over the table's frames show this state, those in Spark's cache too."""
    refresh(loaded)


def stream_writer(
    frame: Any, backend: CatalogBackend | None, loaded: LoadedTable, name: str, given: Mapping[str, Any]
) -> writer.TableStreamWriter:
    """What `write_stream` returns. `given`: the fields of `writer.SinkArguments`."""
    if not is_spark_frame(frame):
        raise InvalidInput(f"write_stream takes a streaming DataFrame of Spark, not {type(frame).__name__}.")
    return writer.TableStreamWriter(frame, sink_table(backend, loaded, name), writer.SinkArguments(**given))


def sink_table(backend: CatalogBackend | None, loaded: LoadedTable, name: str) -> writer.SinkTable:
    """The table of a streaming write, and what its batches need of this room."""
    return writer.SinkTable(backend, loaded, name, engine_on, refresh_views)


def schema_of(frame_or_type: Any) -> Schema:
    """The Iceberg schema of a DataFrame or of a StructType."""
    return from_spark(frame_or_type if is_spark_type(frame_or_type) else frame_or_type.schema)


@dataclass(frozen=True)
class SparkEngine:
    """Implements `ops.engine.Engine`. Frames may be Spark's, of any session, or Arrow's (the source of a MERGE)."""

    spark: Any

    @property
    def evaluates_sql(self) -> bool:
        return True

    # --- the session

    def settings(self, case_sensitive: bool | None = None) -> SessionSettings:
        spark = self.spark
        sensitive = is_case_sensitive(spark, case_sensitive)
        return SessionSettings(sensitive, session_zone(spark), is_ansi(spark))

    @contextmanager
    def as_meant(self, settings: SessionSettings) -> Iterator[None]:
        changed = {}
        if session_zone(self.spark) != settings.zone:
            changed[ZONE] = settings.zone
        if is_ansi(self.spark) != settings.ansi:
            changed[ANSI] = str(settings.ansi).lower()
        with temporarily(self.spark, changed) if changed else nullcontext():
            yield

    def write_audit_publish(self) -> WriteAuditPublish:
        return WriteAuditPublish(self.spark.conf.get("spark.wap.id", None), self.spark.conf.get("spark.wap.branch", None))

    def write_defaults(self) -> Mapping[str, str]:
        return write_defaults(self.spark)

    def facts(self) -> dict[str, str]:
        return {**spark_facts(self.spark.version), "spark.app.id": self.spark.conf.get("spark.app.id", "")}

    def runner(self, metadata: TableMetadata, storage: Storage) -> SparkRunner:
        return runner(self.spark, metadata, storage)

    # --- frames

    def schema_of(self, frame: Frame) -> Schema:
        return schema_of(frame)

    @quietly()
    def write(
        self, frame: Frame, metadata: TableMetadata, storage: Storage, options: WriteOptions, case_sensitive: bool | None = None
    ) -> list[DataFile]:
        return native_write.write(frame, metadata, storage, options, case_sensitive=case_sensitive)

    @contextmanager
    def stage_source(self, frame: Frame, write: WriteContext, like: Schema, case_sensitive: bool = True) -> Iterator[ReadySource]:
        folder = folder_of(write)
        if is_spark_frame(frame):
            try:
                yield _staged_by_spark(frame, folder, write.storage)
            finally:
                remove(folder, write.storage)
            return
        with stage_in_process(frame, like=like, case_sensitive=case_sensitive) as source:
            if source.nbytes <= WITH_TASKS:
                yield ReadySource.of(source)
                return
            with on_storage(source, folder, write.storage) as shared:
                yield ReadySource.of(shared)

    @quietly()
    def read(self, reading: RowsReading) -> DataFrame:
        """A DataFrame, planned now and read when it is used. Temporary views over it follow what this process commits."""
        frame = self._frame(reading)
        if not reading.may_follow:
            return frame
        again = lambda loaded: self._frame(replace(reading, metadata=loaded.metadata, storage=loaded.storage))
        followed: DataFrame = follow(self.spark, frame, reading.metadata, again)
        return followed

    def _frame(self, reading: RowsReading) -> DataFrame:
        spark, given = self.spark, reading.case_sensitive
        sensitive = is_case_sensitive(spark, given)
        reading = replace(reading.following(lambda: self.write_audit_publish().branch), case_sensitive=sensitive)
        where = None if isinstance(reading.row_filter, AlwaysTrue) else reading.row_filter
        known: Predicate = AlwaysTrue()
        zone = "UTC"
        if where is not None:
            known, zone = native_read.pruning(spark, where, reading.snapshot_and_schema()[1], sensitive)
        plan = reading.plan(known, zone)
        with sensitivity(spark, given):  # Spark looks the filter's names up
            frame = native_read.read(
                spark, plan, projection=reading.projection(), storage=reading.storage, where=where, case_sensitive=sensitive,
                limit=reading.limit,
            )  # fmt: skip
            if given is not None:
                _ = frame.columns  # Spark Connect looks names up when it is asked
            return frame

    @quietly()
    def read_changes(self, reading: ChangesReading) -> DataFrame:
        """A DataFrame of a changelog. Spark decides the filter itself, after rows were matched; what Frazil understands of it prunes."""
        spark, given = self.spark, reading.case_sensitive
        reading = replace(reading, case_sensitive=is_case_sensitive(spark, given))
        where = None if isinstance(reading.row_filter, AlwaysTrue) else reading.row_filter
        pruning = AlwaysTrue() if where is None else native_read.pruning_predicate(spark, where, reading.schema, reading.is_sensitive)
        plan = reading.plan(reading.decided_first(pruning))
        with sensitivity(spark, given):  # Spark looks the filter's names up
            return changelog_frame.changes_frame(
                spark, plan, projection=reading.projection(), storage=reading.storage, options=reading.matching(), where=where,
                limit=reading.limit,
            )  # fmt: skip

    def shown(self, table: pa.Table) -> DataFrame:
        """A DataFrame of a metadata table; timestamps without a zone stay that."""
        table = for_spark(table)
        frame: DataFrame = self.spark.createDataFrame(table, schema=from_arrow_schema(table.schema, prefer_timestamp_ntz=True))
        return frame

    # --- rows found by any SQL

    def lacking(self, schema: Schema) -> NestedField | None:
        return row_changes.lacking(self.spark, schema)

    @quietly()
    def delete(self, planned: Planned, where: Any, context_of: ContextOf, *, case_sensitive: bool | None = None) -> RowChanges:
        return row_changes.delete(self.spark, planned, where, context_of, case_sensitive=case_sensitive)

    @quietly()
    def update(
        self, planned: Planned, assignments: Mapping[str, Any], where: Any, context_of: ContextOf, *, case_sensitive: bool | None = None
    ) -> RowChanges:
        return row_changes.update(self.spark, planned, assignments, where, context_of, case_sensitive=case_sensitive)

    @quietly()
    def check_merge(self, schema: Schema, frame: Frame, merge: Merge, *, case_sensitive: bool | None = None) -> None:
        merge_by_sql.check(self.spark, schema, frame, merge, case_sensitive=case_sensitive)

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
        frame = source.native if source.native is not None else self.spark.createDataFrame(source.open().table)
        return merge_by_sql.merge(
            self.spark, planned, frame, merge, context_of, case_sensitive=case_sensitive, like=source.frame, checked=checked
        )


def _staged_by_spark(frame: DataFrame, folder: str, storage: Storage) -> ReadySource:
    made = stage_by_spark(frame, folder, storage)
    files = SourceFiles(tuple(f.location for f in made.files), storage)
    opened = partial(open_source, files) if made.files else partial(MergeSource, made.schema.empty_table())
    return ReadySource(iceberg_schema(made.schema), made.rows, opened, made, frame)
