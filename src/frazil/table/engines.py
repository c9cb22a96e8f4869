"""Choose the engine of an operation: this process, or a Spark session.

This is the only place that chooses, and the only one from which the room `frazil.spark` is
imported, once a frame or a call needs it.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from frazil.catalog import LoadedTable
from frazil.errors import InvalidInput, NotInstalledError, Unsupported
from frazil.maintain.migration.source import SparkTables
from frazil.ops.arguments import is_spark_frame
from frazil.ops.engine import Engine, Frame, InputFrame
from frazil.ops.in_process import IN_PROCESS
from frazil.ops.session import Session
from frazil.spec.metadata import TableMetadata
from frazil.spec.version import PYSPARK, check_pyspark
from frazil.storage import Storage
from frazil.storage.locations import scheme_of
from frazil.tasks.runner import InProcess, Runner

if TYPE_CHECKING:
    from frazil.spark.engine.entry_points import SparkEntryPoints

_ENTRY_POINTS = "frazil.spark.engine.entry_points"
_CATALOGS = "frazil.spark.engine.session_catalogs"
_FOLLOWED_VIEWS = "frazil.spark.read.view_refresh"


def of_frame(frame: Frame) -> InputFrame:
    """Pair a frame with the engine that evaluates it: its own session for a Spark frame, this
    process for any other.
    """
    return InputFrame(frame, on_spark(frame.sparkSession) if is_spark_frame(frame) else IN_PROCESS)


def of_rows(
    metadata: TableMetadata,
    storage: Storage,
    runner: Runner | str | None = None,
    spark: Session | None = None,
) -> tuple[Engine, Runner]:
    """Choose the engine and the runner that change existing rows: the given runner (a Runner or
    "in-process"), else Spark if a session is given or active, else this process.

    Raises InvalidInput for a runner that is neither, and where the session's workers cannot reach
    the table; Unsupported for a session with a table in memory.
    """
    if isinstance(runner, str) and runner == "in-process":
        return IN_PROCESS, InProcess()
    if runner is not None:
        if isinstance(runner, str) or not hasattr(runner, "run"):
            raise InvalidInput(f"runner must be 'in-process' or a Runner, not {runner!r}.")
        runner_session: Session | None = getattr(runner, "spark", None)
        return (IN_PROCESS if runner_session is None else on_spark(runner_session)), runner
    session = spark if spark is not None else active_session()
    if session is None or scheme_of(metadata.location) == "memory":
        if spark is not None:
            raise Unsupported(
                "A table in memory: lives in this process; Spark's workers cannot write to it.",
                table=metadata.location,
            )
        return IN_PROCESS, InProcess()
    engine = on_spark(session)
    return engine, engine.runner(metadata, storage)


def on_spark(spark: Session) -> Engine:
    """Return the engine of a Spark session. Raises InvalidInput for a session that was stopped,
    NotInstalledError where PySpark is missing."""
    return spark_entry_points().engine_on(spark)


def of_spark_frames(spark: Session | None = None) -> Engine:
    """Return the engine of the session that makes DataFrames (`session_of_frames`)."""
    return on_spark(_given_or_running(spark))


def session_of_frames(spark: Session | None = None) -> Session:
    """Return the session that makes DataFrames: the given one, or the running one. No session is
    started, since its settings are for the user to choose. Raises InvalidInput where none runs or
    the given one was stopped, NotInstalledError where PySpark is missing."""
    session = _given_or_running(spark)
    on_spark(session)  # raises where the session was stopped
    return session


def _given_or_running(spark: Session | None) -> Session:
    if (session := spark or active_session()) is None:
        # raises NotInstalledError, the more helpful error where PySpark is missing
        spark_entry_points()
        raise InvalidInput(
            "No Spark session is running.",
            hint="spark = frazil.spark_session(config={…}) starts one; to_arrow(), to_pandas() and to_polars() need none.",
        )
    return session


def active_session() -> Session | None:
    """Return the running SparkSession, or None. Never starts a session and never imports pyspark."""
    sql = sys.modules.get("pyspark.sql")
    if sql is None:
        return None
    session: Session | None = sql.SparkSession.getActiveSession()
    if session is None and hasattr(sql.SparkSession, "active"):
        # a PySpark that is too old has no such method
        # The active session belongs to a thread; a thread without one uses the session that this
        # process made.
        with contextlib.suppress(sys.modules["pyspark.errors"].PySparkRuntimeError):
            session = sql.SparkSession.active()
    if session is not None:
        check_pyspark(sys.modules["pyspark"].__version__)
    return session


def named_frame(name: str, spark: Session | None = None) -> Frame:
    """Return the rows of a view or table of the given session, or of the running one, as a
    DataFrame. Raises InvalidInput without a session."""
    return session_of_frames(spark).table(name)


def spark_tables(spark: Session | None = None) -> SparkTables:
    """Return the tables of the given session's own catalog, or of the running one's. Raises
    InvalidInput without a session.
    """
    return spark_entry_points().source_tables(session_of_frames(spark))


def refresh_views(loaded: LoadedTable) -> None:
    """Show temporary views of the running sessions the state after a commit. Does nothing where no
    frame has been made on Spark.
    """
    if (followed := sys.modules.get(_FOLLOWED_VIEWS)) is not None:
        followed.refresh(loaded)


def uncache(find: Callable[[], TableMetadata]) -> None:
    """Take out of Spark's cache what shows a table that will be dropped, where frames have been
    made on Spark. `find`: returns the table's metadata.
    """
    if (followed := sys.modules.get(_FOLLOWED_VIEWS)) is not None:
        followed.uncache(find)


def cache_renamed(loaded: LoadedTable, old: tuple[str, ...], new: tuple[str, ...]) -> None:
    """Let what Spark has in its cache by a table's name bear the new one, where frames have been
    made on Spark.
    """
    if (followed := sys.modules.get(_FOLLOWED_VIEWS)) is not None:
        followed.cache_renamed(loaded, old, new)


def session_catalogs() -> dict[str, str]:
    """Return the settings `spark.sql.catalog.*` of the running Spark session; none without a
    session. They are read by a module of their own, which loads little, since every `load_table`
    needs them."""
    spark = active_session()
    if spark is None:
        return {}
    catalogs: dict[str, str] = _loaded(_CATALOGS).session_catalogs(spark)
    return catalogs


def spark_entry_points() -> SparkEntryPoints:
    """Load the room `frazil.spark`, and return what tables and catalogs ask of it. Raises
    NotInstalledError where PySpark is missing.
    """
    entry_points: SparkEntryPoints = _loaded(_ENTRY_POINTS).ENTRY_POINTS
    return entry_points


def _loaded(module: str) -> Any:
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as e:
        if (e.name or "").split(".")[0] == "pyspark":
            raise NotInstalledError(
                f"This needs {PYSPARK}; none is installed.", hint="pip install 'frazil[spark]'"
            ) from e
        raise
