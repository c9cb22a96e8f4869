"""Take the rows that Spark writes to a table as a DataFrame: Spark's write builder, its write, and
the relation that rows go into.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from py4j.java_gateway import JavaObject
from pyspark.sql import DataFrame

from frazil.errors import Unsupported
from frazil.ops.insert import Insertion, insertion
from frazil.ops.session import Session
from frazil.spark.catalog.proxy import SparkProxy
from frazil.spark.host.interruptible import ended_with_caller
from frazil.spark.host.jvm import implementing
from frazil.spark.host.jvm_catalog import INSERTABLE, STREAMS_CHANGES, WRITE, CatalogTypes
from frazil.spark.host.jvm_plans import session_frame
from frazil.spark.host.jvm_sources import TakeBatch, stream_write

Take = Callable[[Insertion], None]
"""Insert the rows of a DataFrame."""
Stream = Callable[[bool], TakeBatch]
"""Return what writes the batches of a stream. The argument tells whether each replaces all rows."""


class WriteBuilder(SparkProxy):
    """Note what a write replaces: Spark calls a method for each kind."""

    Java = implementing(
        WRITE + "SupportsOverwriteV2", WRITE + "SupportsDynamicOverwrite", STREAMS_CHANGES
    )

    def __init__(
        self,
        types: CatalogTypes,
        described: str,
        options: Mapping[str, str],
        take: Take,
        spark: Session,
        stream: Stream | None = None,
    ):
        super().__init__(types, described)
        self._options, self._take, self._spark, self._stream = options, take, spark, stream
        self._where: str | None = None
        self._dynamic = False

    def truncate(self) -> Any:
        self._where = "true"
        return self

    def overwriteDynamicPartitions(self) -> Any:
        self._dynamic = True
        return self

    def canOverwrite(self, predicates: JavaObject) -> bool:
        return True

    def overwrite(self, predicates: JavaObject) -> Any:
        self._where = self.types.condition(predicates)
        return self

    def build(self) -> Any:
        stream = None if self._stream is None else partial(self._stream, self._where is not None)
        return V1Write(self.types, self._described, self._inserted, self._spark, stream)

    def _inserted(self, frame: DataFrame) -> None:
        self._take(insertion(frame, self._where, dynamic=self._dynamic, options=self._options))

    def buildForBatch(self) -> Any:
        raise Unsupported(
            "Frazil writes no batches of Spark's DataSourceV2.",
            hint="Insert into the table by SQL, or use writeTo.",
        )

    def buildForStreaming(self) -> Any:
        raise _no_stream()


class V1Write(SparkProxy):
    """Answer that rows are taken as a DataFrame."""

    Java = implementing(WRITE + "V1Write")

    def __init__(
        self,
        types: CatalogTypes,
        described: str,
        take: Callable[[DataFrame], None],
        spark: Session,
        stream: Callable[[], TakeBatch] | None,
    ):
        super().__init__(types, described)
        self._take, self._spark, self._stream = take, spark, stream

    def description(self) -> str:
        return self._described

    def toInsertableRelation(self) -> Any:
        return InsertedRows(self.types, self._described, self._take, self._spark)

    def supportedCustomMetrics(self) -> Any:
        return self.types.no_metrics

    def reportDriverMetrics(self) -> Any:
        return self.types.no_task_metrics

    def toBatch(self) -> Any:
        raise Unsupported("Frazil writes no batches of Spark's DataSourceV2.")

    def toStreaming(self) -> Any:
        if self._stream is None:
            raise _no_stream()
        return stream_write(self._spark, self._stream())


class InsertedRows(SparkProxy):
    """Take the rows, when Spark runs the statement."""

    Java = implementing(INSERTABLE)

    def __init__(
        self, types: CatalogTypes, described: str, take: Callable[[DataFrame], None], spark: Session
    ):
        super().__init__(types, described)
        self._take, self._spark = take, spark

    def insert(self, data: JavaObject, overwrite: bool) -> None:
        with ended_with_caller(self._spark):
            self._take(session_frame(self._spark, data))


def _no_stream() -> Unsupported:
    return Unsupported(
        "Streams do not reach a table this way.",
        hint="Use df.writeStream.toTable(…), or table.write_stream(…).",
    )
