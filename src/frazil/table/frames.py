"""What kind of frame a caller handed in, and the door to the Spark room, which is opened only when a frame or a call needs it."""

from __future__ import annotations

import importlib
import sys
from typing import Any

from frazil.catalog import LoadedTable
from frazil.errors import InvalidInput, NotInstalledError
from frazil.spec.version import PYSPARK, check_pyspark

SPARK_ROOM = "frazil.spark"


def is_spark_frame(frame: Any) -> bool:
    """A Spark DataFrame, classic or Connect, without importing pyspark."""
    return any(c.__name__ == "DataFrame" and c.__module__.startswith("pyspark.sql") for c in type(frame).__mro__)


def is_spark_column(value: Any) -> bool:
    return any(c.__name__ == "Column" and c.__module__.startswith("pyspark.sql") for c in type(value).__mro__)


def is_spark_type(value: Any) -> bool:
    return any(c.__name__ == "DataType" and c.__module__.startswith("pyspark.sql") for c in type(value).__mro__)


def spark_room(module: str) -> Any:
    """A module of the Spark room. Raises NotInstalledError when PySpark is missing."""
    try:
        return importlib.import_module(f"{SPARK_ROOM}.{module}")
    except ModuleNotFoundError as e:
        if (e.name or "").split(".")[0] == "pyspark":
            raise NotInstalledError(f"This needs {PYSPARK}; none is installed.", hint="pip install 'frazil[spark]'") from e
        raise


def active_session() -> Any:
    """The running SparkSession, or None; never starts one and never imports pyspark."""
    sql = sys.modules.get("pyspark.sql")
    if sql is None:
        return None
    # The active session belongs to a thread; the one that this process made serves where a thread has none.
    found = sql.SparkSession.getActiveSession() or getattr(sql.SparkSession, "_instantiatedSession", None)
    if found is not None:
        check_pyspark(sys.modules["pyspark"].__version__)
    return found


def after_commit(loaded: LoadedTable) -> None:
    """Lets the temporary views of running sessions follow; only where frames were made for Spark is there anything to do."""
    if (room := sys.modules.get(f"{SPARK_ROOM}.read.following")) is not None:
        room.refresh(loaded)


def is_stream(frame: Any) -> bool:
    """Whether a frame can be read only once, as far as one can tell: what has nothing but an Arrow stream may be a stream itself."""
    if hasattr(frame, "__next__") or hasattr(frame, "read_next_batch"):
        return True
    return hasattr(frame, "__arrow_c_stream__") and not (hasattr(frame, "__len__") or hasattr(frame, "num_rows"))


def pandas_of(table: Any, **kwargs: Any) -> Any:
    """An Arrow table as a pandas frame. Raises NotInstalledError."""
    try:
        return table.to_pandas(**kwargs)
    except ModuleNotFoundError as e:
        if e.name != "pandas":
            raise
        raise NotInstalledError("to_pandas needs pandas.", hint="pip install 'frazil[pandas]', or use to_arrow().") from e


def polars_of(table: Any) -> Any:
    """An Arrow table as a polars frame. Raises NotInstalledError."""
    try:
        import polars
    except ModuleNotFoundError as e:
        raise NotInstalledError("to_polars needs polars.", hint="pip install 'frazil[polars]'") from e
    return polars.from_arrow(table)


def in_duckdb(table: Any, name: str, connection: Any = None) -> Any:
    """An Arrow table under a name in a DuckDB connection (without one: new, in memory), which is returned. Raises NotInstalledError."""
    try:
        import duckdb
    except ModuleNotFoundError as e:
        raise NotInstalledError("to_duckdb needs duckdb.", hint="pip install 'frazil[duckdb]'") from e
    connection = connection or duckdb.connect(database=":memory:")
    connection.register(name, table)
    return connection


def session(spark: Any = None) -> Any:
    """`spark`, or the running session. None is ever started: what it would be set to is for its user to say. Raises InvalidInput."""
    if (found := spark or active_session()) is None:
        spark_room("host.session")  # without PySpark that is what is told
        raise InvalidInput(
            "No Spark session is running.",
            hint="spark = frazil.spark_session(config={…}) starts one; to_arrow(), to_pandas() and to_polars() need none.",
        )
    return running(found)


def running(spark: Any) -> Any:
    """The session, unless it was stopped. Raises InvalidInput."""
    context = getattr(spark, "_sc", None)  # Connect has none
    if getattr(spark, "is_stopped", False) is True or (context is not None and getattr(context, "_jsc", context) is None):
        raise InvalidInput("The Spark session was stopped.", hint="Make a new one, as by frazil.spark_session(), and frames of it.")
    return spark
