"""Make streaming DataFrames over a table. The properties of its catalog reach the query's processes
in a pickled class, not as options.

The properties may hold secrets. Spark shows the options of a data source in plans, logs and its UI,
but not the class of a data source, so each read registers a data source of its own.
"""

from __future__ import annotations

import hashlib
import threading
import weakref
from typing import TYPE_CHECKING, Any

from pyspark import cloudpickle
from pyspark.sql import DataFrame
from pyspark.sql import types as s
from pyspark.sql.datasource import DataSource, DataSourceStreamReader

from frazil.ops.session import Session
from frazil.spark.host.workers import check_workers
from frazil.spark.streams.source.stream_reader import TableStreamReader
from frazil.spark.streams.stream_table import StreamSpec
from frazil.spark.types.spark_types import time_enabled

if TYPE_CHECKING:
    from pyspark.sql.streaming import DataStreamReader

_REGISTERED: weakref.WeakKeyDictionary[Any, set[str]] = weakref.WeakKeyDictionary()
_LOCK = threading.Lock()


def stream_frame(
    spark: Session, spec: StreamSpec, own: DataStreamReader | None = None
) -> DataFrame:
    """Return the streaming DataFrame of a read. `own`: Spark's own DataStreamReader of the session."""
    check_workers(spark)
    reader = own if own is not None else spark.readStream
    name = _registered(spark, spec)
    frame: DataFrame = reader.format(name).schema(spec.spark_schema(time_enabled(spark))).load()
    return frame


def _registered(spark: Session, spec: StreamSpec) -> str:
    """Register a data source for this read, once for the same read of a session, and return its
    name.
    """
    name = f"iceberg_{hashlib.sha256(cloudpickle.dumps(spec)).hexdigest()[:16]}"
    with _LOCK:
        names = _REGISTERED.setdefault(spark, set())
        if name not in names:
            spark.dataSource.register(_source_of(spec, name))
            names.add(name)
    return name


def _source_of(spec: StreamSpec, name: str) -> type[DataSource]:
    given_name, pickled, columns = name, cloudpickle.dumps(spec), spec.spark_schema()

    class StreamedTable(DataSource):  # type: ignore[misc]
        """Read one table as a stream. The class is pickled by value, with the description of the
        read in its closure, because the process that calls it gets nothing else."""

        @classmethod
        def name(cls) -> str:
            return given_name

        def schema(self) -> s.StructType:
            return columns

        def streamReader(self, schema: s.StructType) -> DataSourceStreamReader:
            return TableStreamReader(pickled, schema)

    return StreamedTable
