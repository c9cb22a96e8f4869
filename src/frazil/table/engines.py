"""Choose the engine of an operation: this process, or a Spark session.

This is the only place that chooses, and the only one from which the room `frazil.spark` is imported, once a frame or a call needs it.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import Any

from frazil.catalog import CatalogBackend, LoadedTable
from frazil.errors import InvalidInput, NotInstalledError, Unsupported
from frazil.maintain.imports.source import SparkTables
from frazil.ops.engine import Engine, Frame
from frazil.ops.frames import is_spark_frame
from frazil.ops.in_process import IN_PROCESS
from frazil.ops.stage import InputFrame
from frazil.spec.metadata import TableMetadata
from frazil.spec.schema import Schema
from frazil.spec.version import PYSPARK, check_pyspark
from frazil.storage import Storage
from frazil.storage.locations import scheme_of
from frazil.tasks.runner import InProcess, Runner

_SPARK = "frazil.spark.door.engine"
_STREAMS = "frazil.spark.door.stream_read"
_TABLES = "frazil.spark.door.source_tables"
_CATALOGS = "frazil.spark.door.session_catalogs"
_VIEWS = "frazil.spark.door.view_query"


def of_frame(frame: Frame) -> InputFrame:
    """Pair a frame with the engine that evaluates it: its own session for a Spark frame, this process for any other."""
    return InputFrame(frame, on_spark(frame.sparkSession) if is_spark_frame(frame) else IN_PROCESS)


def of_rows(metadata: TableMetadata, storage: Storage, runner: Any = None, spark: Any = None) -> tuple[Engine, Runner]:
    """Choose the engine and the runner that change existing rows: the given runner (a Runner or "in-process"), else Spark if a session is
    given or active, else this process.

    Raises InvalidInput for a runner that is neither, and where the session's workers cannot reach the table; Unsupported for a session
    with a table in memory.
    """
    if isinstance(runner, str) and runner == "in-process":
        return IN_PROCESS, InProcess()
    if runner is not None:
        if not hasattr(runner, "run"):
            raise InvalidInput(f"runner must be 'in-process' or a Runner, not {runner!r}.")
        runner_session = getattr(runner, "spark", None)
        return (IN_PROCESS if runner_session is None else on_spark(runner_session)), runner
    session = spark if spark is not None else active_session()
    if session is None or scheme_of(metadata.location) == "memory":
        if spark is not None:
            raise Unsupported("A table in memory: lives in this process; Spark's workers cannot write to it.", table=metadata.location)
        return IN_PROCESS, InProcess()
    engine = on_spark(session)
    return engine, engine.runner(metadata, storage)


def of_spark_frames(spark: Any = None) -> Engine:
    """Return the engine of the session that makes DataFrames: the given one, or the running one. No session is started, since its settings
    are for the user to choose. Raises InvalidInput where none runs, NotInstalledError where PySpark is missing."""
    if (session := spark or active_session()) is None:
        _spark_room()  # raises NotInstalledError, the more helpful error where PySpark is missing
        raise InvalidInput(
            "No Spark session is running.",
            hint="spark = frazil.spark_session(config={…}) starts one; to_arrow(), to_pandas() and to_polars() need none.",
        )
    return on_spark(session)


def on_spark(spark: Any) -> Engine:
    """Return the engine of a Spark session. Raises InvalidInput for a session that was stopped, NotInstalledError where PySpark is
    missing."""
    engine: Engine = _spark_room().engine_on(spark)
    return engine


def spark_schema(frame_or_type: Any) -> Schema:
    """Return the schema of a Spark DataFrame or StructType; this needs no running session."""
    schema: Schema = _spark_room().schema_of(frame_or_type)
    return schema


def read_stream(spark: Any, backend: CatalogBackend | None, loaded: LoadedTable, name: str, options: Mapping[str, Any]) -> Any:
    """Return a streaming DataFrame over a table, in the session given or the running one. Raises InvalidInput without one."""
    of_spark_frames(spark)  # says what is missing
    return _spark_room(_STREAMS).stream_of(spark or active_session(), backend, loaded, name, options)


def view_frame(spark: Any, name: str, sql: str, schema: Schema, query_columns: Sequence[str], resolve: Callable[..., Any]) -> Any:
    """Return the rows of a view as a Spark DataFrame, in the session given or the running one. Raises InvalidInput without one."""
    of_spark_frames(spark)  # says what is missing
    return _spark_room(_VIEWS).query_frame(spark or active_session(), name, sql, schema, query_columns, resolve)


def active_session() -> Any:
    """Return the running SparkSession, or None. Never starts a session and never imports pyspark."""
    sql = sys.modules.get("pyspark.sql")
    if sql is None:
        return None
    # The active session belongs to a thread; a thread without one uses the session that this process made.
    session = sql.SparkSession.getActiveSession() or getattr(sql.SparkSession, "_instantiatedSession", None)
    if session is not None:
        check_pyspark(sys.modules["pyspark"].__version__)
    return session


def named_frame(name: str, spark: Any = None) -> Frame:
    """Return the rows of a view or table of the given session, or of the running one, as a DataFrame. Raises InvalidInput without a
    session."""
    of_spark_frames(spark)  # says what is missing
    return (spark or active_session()).table(name)


def spark_tables(spark: Any = None) -> SparkTables:
    """Return the tables of the given session's own catalog, or of the running one's. Raises InvalidInput without a session."""
    of_spark_frames(spark)  # says what is missing
    tables: SparkTables = _spark_room(_TABLES).SessionTables(spark or active_session())
    return tables


def stream_writer(frame: Frame, backend: CatalogBackend | None, loaded: LoadedTable, name: str, sink_arguments: Mapping[str, Any]) -> Any:
    """Return a DataStreamWriter into a table. Raises NotInstalledError when PySpark is missing."""
    return _spark_room().stream_writer(frame, backend, loaded, name, sink_arguments)


def stream_writer_of_many(frame: Frame, sink_arguments: Mapping[str, Any], of_tables: Mapping[str, Any]) -> Any:
    """Return a DataStreamWriter into many tables. Raises NotInstalledError when PySpark is missing."""
    return _spark_room().stream_writer_of_many(frame, sink_arguments, of_tables)


def refresh_views(loaded: LoadedTable) -> None:
    """Show temporary views of the running sessions the state after a commit. Does nothing where the room `frazil.spark` is not loaded."""
    if (room := sys.modules.get(_SPARK)) is not None:
        room.refresh_views(loaded)


def session_catalogs() -> dict[str, str]:
    """Return the settings `spark.sql.catalog.*` of the running Spark session; none without a session."""
    spark = active_session()
    if spark is None:
        return {}
    found: dict[str, str] = _spark_room(_CATALOGS).session_catalogs(spark)
    return found


def _spark_room(door: str = _SPARK) -> ModuleType:
    try:
        return importlib.import_module(door)
    except ModuleNotFoundError as e:
        if (e.name or "").split(".")[0] == "pyspark":
            raise NotInstalledError(f"This needs {PYSPARK}; none is installed.", hint="pip install 'frazil[spark]'") from e
        raise
