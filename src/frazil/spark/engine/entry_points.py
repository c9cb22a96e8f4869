"""Implement what the rooms above ask of Spark beside an engine's work: sessions and their settings,
rows of views, streams, Spark's own tables.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame

from frazil.catalog import CatalogBackend, LoadedTable
from frazil.errors import InvalidInput
from frazil.maintain.migration.source import SparkTables
from frazil.ops.arguments import is_spark_frame
from frazil.ops.engine import Engine, Frame, SparkSessions, ViewQuery
from frazil.ops.session import Session
from frazil.spark.engine import engine
from frazil.spark.engine.engine import engine_on
from frazil.spark.engine.source_tables import SessionTables
from frazil.spark.engine.stream_read import stream_of
from frazil.spark.engine.view_query import query_frame
from frazil.spark.read.view_refresh import refresh
from frazil.spark.streams.sink.many_tables import start_many
from frazil.spark.streams.sink.writer import SinkTable, TableStreamWriter, start
from frazil.spec.schema import Schema
from frazil.stream.engine import StreamEngine
from frazil.stream.sink.arguments import ManyTables, SinkArguments


@dataclass(frozen=True)
class SparkEntryPoints(SparkSessions, StreamEngine):
    """Implement the protocols `ops.engine.SparkSessions` and `stream.engine.StreamEngine`, and look
    up Spark's own tables.
    """

    def engine_on(self, session: Session) -> Engine:
        """Return the engine on a session (`engine.engine_on`)."""
        return engine_on(session)

    def schema_of(self, frame_or_type: Frame) -> Schema:
        """Return the Iceberg schema of a DataFrame or of a StructType."""
        return engine.schema_of(frame_or_type)

    def view_rows(self, session: Session, query: ViewQuery) -> DataFrame:
        """Run the query of a view (`view_query.query_frame`)."""
        return query_frame(
            session, query.name, query.sql, query.schema, query.query_columns, query.resolve
        )

    def source_tables(self, session: Session) -> SparkTables:
        """Return the tables of a session's own catalog, whose files may be taken over."""
        return SessionTables(session)

    def read_stream(
        self,
        session: Session,
        backend: CatalogBackend | None,
        loaded: LoadedTable,
        name: str,
        options: Mapping[str, Any],
    ) -> DataFrame:
        """Return a streaming DataFrame of a table (`stream_read.stream_of`)."""
        return stream_of(session, backend, loaded, name, options)

    def write_stream(
        self,
        frame: Frame,
        backend: CatalogBackend | None,
        loaded: LoadedTable,
        name: str,
        given: SinkArguments,
    ) -> TableStreamWriter:
        """Return the writer of a streaming DataFrame into one table."""
        table = sink_table(backend, loaded, name)
        _check_frame(frame)
        return TableStreamWriter(
            frame, name, given, lambda own, rows, typed: start(own, rows, table, typed)
        )

    def write_many(
        self, frame: Frame, tables: ManyTables, given: SinkArguments
    ) -> TableStreamWriter:
        """Return the writer of a streaming DataFrame whose rows name their table."""
        _check_frame(frame)
        begin = lambda own, rows, typed: start_many(own, rows, tables, typed, engine_on, refresh)
        return TableStreamWriter(frame, f"named by column {tables.table_column}", given, begin)


ENTRY_POINTS = SparkEntryPoints()


def sink_table(backend: CatalogBackend | None, loaded: LoadedTable, name: str) -> SinkTable:
    """Return the table of a streaming write, with the functions of this room that its batches need."""
    return SinkTable(backend, loaded, name, engine_on, refresh)


def _check_frame(frame: Frame) -> None:
    if not is_spark_frame(frame):
        raise InvalidInput(
            f"write_stream takes a streaming DataFrame of Spark, not {type(frame).__name__}."
        )
