"""Answer what Spark's own classes ask in the JVM: `format("iceberg")` and streams of clients that
know nothing of Frazil, by the same readers and writers that PySpark's are routed to."""

from __future__ import annotations

import json
from typing import Any

from pyspark.sql import DataFrame, DataFrameReader, DataFrameWriter
from pyspark.sql.streaming import DataStreamReader
from pyspark.sql.types import StructType

from frazil.catalog.names import full_name
from frazil.dropin.names import in_full, is_ours
from frazil.dropin.reader import IcebergReader, IcebergStreamReader
from frazil.dropin.tables import open_table
from frazil.dropin.writer import IcebergWriter
from frazil.errors import InvalidInput, Unsupported
from frazil.ops.session import Session
from frazil.spark.engine.entry_points import sink_table
from frazil.spark.host.fall_back import fall_back
from frazil.spark.host.jvm import NOT_AS_KNOWN, class_is_loaded
from frazil.spark.host.jvm_sources import SourceAsked, SourceWrites, TakeBatch, serve_sources
from frazil.spark.streams.sink.writer import batches_of_client

_JAR = "org.apache.iceberg.spark.source.IcebergSource"
_PARTITIONS, _CLUSTERED = "__partition_columns", "__clustering_columns"
_MODES = {"ErrorIfExists": "error"}


def read_of(spark: Session, asked: SourceAsked) -> DataFrame | None:
    """Return the rows that a source or a streamed table is asked for; None where it is Spark's or
    the jar's.
    """
    if asked.table is None:
        if class_is_loaded(spark, _JAR):
            return None
    elif not is_ours(spark, full_name(asked.table)):
        return None
    reader: Any = (
        IcebergStreamReader(DataStreamReader(spark), spark)
        if asked.streams
        else IcebergReader(DataFrameReader(spark), spark)
    )
    reader = reader.options(**asked.options)
    if asked.name:
        reader = reader.name(asked.name)
    if asked.table is not None:
        return reader.table(full_name(asked.table))
    path = asked.paths[0] if len(asked.paths) == 1 else list(asked.paths) or None
    return reader.load(path, "iceberg", StructType() if asked.has_schema else None)


def serve_writes(spark: Session) -> None:
    """Let clients of a session's server write `format("iceberg")`; not where the jar does."""
    if class_is_loaded(spark, _JAR):
        return
    try:
        serve_sources(spark, SourceWrites(_save, _stream))
    except Unsupported:  # the class did not compile, as was said then
        pass
    except NOT_AS_KNOWN as error:
        loss = 'Clients of a server do not write format("iceberg") by name.'
        fall_back("The sources of a server", error, loss)


def _save(frame: DataFrame, mode: str, options: dict[str, str]) -> None:
    partitions, clustered = options.pop(_PARTITIONS, "[]"), options.pop(_CLUSTERED, None)
    writer: Any = IcebergWriter(DataFrameWriter(frame), frame)
    writer = writer.format("iceberg").mode(_MODES.get(mode, mode)).options(**options)
    if columns := json.loads(partitions):
        writer = writer.partitionBy(*columns)
    if clustered is not None:
        writer = writer.clusterBy(*json.loads(clustered))
    writer.save()


def _stream(spark: Session, output: str, options: dict[str, str]) -> TakeBatch:
    if not (name := options.get("path")):
        raise InvalidInput('format("iceberg") needs a table: start("db.events").')
    name = in_full(spark, name)
    table, branch = open_table(name, options, spark)
    target = sink_table(table._backend, table._loaded, name)
    return batches_of_client(spark, target, options, branch, output.lower())
