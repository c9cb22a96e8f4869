"""Call Spark's JVM through py4j. Every class and object of Spark, Catalyst, Scala and Jackson that Frazil uses, and every private attribute
of PySpark that leads to them, is named in this file only; those of Hadoop's file systems in `host.hadoop`.

Spark promises to keep none of them. Where a version may change one, the caller has a slower way that returns the same rows and logs a
warning once (`host.fall_back`). On Spark Connect, which has no JVM to call, that way is the only one.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import tempfile
import threading
import weakref
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.find_spark_home import _find_spark_home
from pyspark.sql import Column, DataFrame
from pyspark.sql import types as s

from frazil.expr.quoted import back_quoted
from frazil.storage.base import temporary_files

NOT_AS_KNOWN = (Py4JError, TypeError, AttributeError, NotImplementedError)
"""The errors that calls raise where Spark lacks a class, a constructor or a method. TypeError is among them because py4j takes the name of
a class that does not exist for a package, which cannot be called."""
_SPARK = "org.apache.spark."
_CATALYST = _SPARK + "sql.catalyst."
_DATASOURCES = _SPARK + "sql.execution.datasources."
_JACKSON = "com.fasterxml.jackson."
FILE_INDEX = _DATASOURCES + "FileIndex"
EXPRESSIONS = _CATALYST + "expressions."

_KNOWN: weakref.WeakKeyDictionary[Any, Jvm] = weakref.WeakKeyDictionary()
_LISTENING = threading.Lock()


# The session ----------------------------------------------------------------------------------------------------------------------------


def is_stopped(spark: Any) -> bool:
    """Tell whether a session has been stopped."""
    context = getattr(spark, "_sc", None)  # sessions of Spark Connect have none
    return getattr(spark, "is_stopped", False) is True or (context is not None and getattr(context, "_jsc", context) is None)


def default_parallelism(spark: Any) -> int | None:
    """Return how many tasks a classic session runs at once; None on Spark Connect, where it is not known."""
    context = getattr(spark, "sparkContext", None) if hasattr(spark, "_jsc") else None
    return None if context is None else int(context.defaultParallelism)


def largest_heap(spark: Any) -> int | None:
    """Return the maximum heap of the driver's JVM in bytes (with a local master all tasks run in it); None on Spark Connect."""
    return int(spark._jvm.java.lang.Runtime.getRuntime().maxMemory()) if hasattr(spark, "_jsc") else None


def running_context() -> Any:
    """Return the SparkContext that runs in this process, or None."""
    context = SparkContext._active_spark_context
    return context if context is not None and context._jsc is not None else None


def has_jvm() -> bool:
    """Tell whether this process has started a JVM; it then runs until the process ends, also after the session is stopped."""
    return SparkContext._gateway is not None


def jvm_property(name: str) -> str | None:
    """Return a system property of the running JVM, or None. Call it only if `has_jvm`."""
    value = SparkContext._gateway.jvm.System.getProperty(name)
    return None if value is None else str(value)


def spark_home() -> Path:
    """Return the folder of the Spark installation that PySpark would start."""
    return Path(_find_spark_home())


def set_active(spark: Any, jvm: Jvm) -> None:
    """Make a session the active one of the JVM's thread that serves the calling thread."""
    getattr(jvm.view, _SPARK + "sql.classic.SparkSession").setActiveSession(spark._jsparkSession)


def running_tasks(spark: Any) -> int:
    """Return how many tasks the executors run at this moment. Raises the errors of py4j, and AttributeError on Spark Connect."""
    return sum(int(e.numRunningTasks()) for e in spark._jsc.sc().statusTracker().getExecutorInfos())


def class_is_loaded(spark: Any, name: str) -> bool:
    """Tell whether a Java class is on the session's class path; False on Spark Connect, where it is not known."""
    try:
        java = spark._jvm.java.lang
        java.Class.forName(name, False, java.Thread.currentThread().getContextClassLoader())
    except Exception:  # py4j's ClassNotFoundException, or no JVM
        return False
    return True


def listen(spark: Any) -> None:
    """Start py4j's callback server, through which the JVM calls objects of this process."""
    from pyspark.java_gateway import ensure_callback_server_started  # imported here since workers, which do not need it, import this module

    with _LISTENING:  # PySpark does not keep two threads from starting the server twice
        ensure_callback_server_started(spark.sparkContext._gateway)


# Plans of frames ------------------------------------------------------------------------------------------------------------------------


def is_classic(frame: Any) -> bool:
    """Tell whether a DataFrame has a plan in this process's JVM, which is not so on Spark Connect."""
    return hasattr(frame, "_jdf")


def put_setting(spark: Any, key: str, value: str | None) -> bool:
    """Set a session setting, or remove it (None), without Spark's warning that its name is deprecated. Returns False, and sets nothing, on
    Spark Connect."""
    if not hasattr(spark, "_jsparkSession"):
        return False
    settings = _settings(spark)
    if value is None:
        settings.remove(key)
    else:
        settings.put(key, value)
    return True


def written_plan(frame: DataFrame) -> Any:
    """Return the logical plan of a classic DataFrame before analysis; a temporary view keeps this plan."""
    return frame._jdf.logicalPlan()


def analysed_plan(frame: DataFrame) -> Any:
    """Return the analysed logical plan of a classic DataFrame, in which names are resolved."""
    return frame._jdf.queryExecution().analyzed()


def estimated_bytes(frame: DataFrame) -> int:
    """Return Spark's estimate of the size of a classic DataFrame's rows, by which Spark decides whether to broadcast them."""
    return int(str(frame._jdf.queryExecution().optimizedPlan().stats().sizeInBytes()))


def has_watermark(frame: DataFrame) -> bool:
    """Tell whether withWatermark was called on a streaming frame or on what it is made of; True on Spark Connect, which does not say."""
    return not is_classic(frame) or "EventTimeWatermark" in analysed_plan(frame).toString()


def batch_watermark_ms(query: Any) -> int:
    """Return the watermark of the batch that a streaming query runs, in milliseconds since 1970. Raises one of NOT_AS_KNOWN."""
    return int(query._jsq.streamingQuery().lastExecution().offsetSeqMetadata().batchWatermarkMs())


def parsed_kind(spark: Any, text: str) -> str | None:
    """Return the name of the Catalyst class that Spark's parser returns for the text of an expression; None on Spark Connect. Raises
    PySpark's ParseException."""
    session = getattr(spark, "_jsparkSession", None)
    return None if session is None else str(session.sessionState().sqlParser().parseExpression(text).getClass().getSimpleName())


def is_subquery(spark: Any, expression: Any) -> bool:
    """Tell whether a Catalyst expression holds a plan of its own."""
    return bool(spark._jvm.py4j.reflection.TypeUtil.isInstanceOf(EXPRESSIONS + "SubqueryExpression", expression))


def can_up_cast(spark: Any, given: str, wanted: str) -> bool:
    """Tell whether Spark converts values of a type to another without loss. Types as JSON."""
    parse = spark._jsparkSession.parseDataType
    return bool(getattr(spark._jvm, EXPRESSIONS + "Cast").canUpCast(parse(given), parse(wanted)))


def frame_of(spark: Any, plan: Any) -> DataFrame:
    """Make a classic DataFrame from a logical plan."""
    return DataFrame(spark._jvm.org.apache.spark.sql.classic.Dataset.ofRows(spark._jsparkSession, plan), spark)


def catalyst(spark: Any) -> Any:
    """Return Catalyst's package, through which expressions and plans are constructed."""
    return spark._jvm.org.apache.spark.sql.catalyst


def scala_seq(spark: Any, values: Sequence[Any]) -> Any:
    """Make a Scala sequence."""
    return spark._jvm.PythonUtils.toSeq(list(values))


def no_option(spark: Any) -> Any:
    """Return Scala's None, typed as a constructor's argument needs it."""
    return spark._jvm.scala.Option.empty()


def column_of(spark: Any, expression: Any) -> Column:
    """Make a Column from a Catalyst expression."""
    column: Column = _classic_column()(spark._jvm.org.apache.spark.sql.classic.ExpressionUtils.column(expression))
    return column


@functools.cache
def _classic_column() -> Any:
    return importlib.import_module("pyspark.sql.classic.column").Column  # imported here since it needs py4j


# Functions for reads, looked up once: py4j makes a call to the JVM for every part of a name ----------------------------------------------


@dataclass(frozen=True, eq=False)
class Jvm:
    """Hold functions and values of the JVM that reads use. `no_metadata`: empty column metadata; `none`, `nil`: Scala's None and Nil."""

    view: Any = field(repr=False)
    col: Any
    nanvl: Any
    no_metadata: Any
    none: Any
    nil: Any
    _split: Any
    _maps: dict[tuple[tuple[str, str], ...], Any] = field(default_factory=dict, repr=False)

    def texts(self, texts: Sequence[str]) -> Any:
        """Make a Java array of strings, which must contain no line ends. One call carries all of them: 100,000 paths take 0.2 s, with one
        call per string 20 s."""
        return self._split("\n".join(texts), "\n")

    def map(self, pairs: Mapping[str, str]) -> Any:
        """Return a Java map of strings. Maps are reused for equal pairs, so no caller may change one."""
        key = tuple(pairs.items())
        if key not in self._maps:
            java_map = self.view.java.util.HashMap()
            for k, v in key:
                java_map.put(k, v)
            self._maps[key] = java_map
        return self._maps[key]

    def named_column(self, source: str, name: str, barrier: bool) -> Column:
        """Return the column `source` (back-quoted) under a name and without metadata. `barrier`: Spark pushes no filter on the column into
        the scan, as `nanvl(x, x)` is x but no plain column."""
        java_column = self.col(source)
        java_column = self.nanvl(java_column, java_column) if barrier else java_column
        column: Column = _classic_column()(getattr(java_column, "as")(name, self.no_metadata))
        return column


def jvm_of(spark: Any) -> Jvm | None:
    """Return a session's JVM; None for sessions of Spark Connect, which have none to call."""
    view = getattr(spark, "_jvm", None)
    if view is None:
        return None
    if (jvm := _KNOWN.get(view)) is None:
        functions = getattr(view, _SPARK + "sql.functions")
        empty = getattr(view, _SPARK + "sql.types.Metadata").empty()
        split = getattr(view, "org.apache.commons.lang3.StringUtils").split
        none, nil = (getattr(getattr(view, f"scala.{name}$"), "MODULE$") for name in ("None", "collection.immutable.Nil"))
        jvm = _KNOWN[view] = Jvm(view, functions.col, functions.nanvl, empty, none, nil, split)
    return jvm


class SessionCopies:
    """Hold copies of a classic session with additional settings, valid while the session's own settings do not change (`are_current`)."""

    def __init__(self, spark: Any, jvm: Jvm):
        self._session, self._settings_then = spark._jsparkSession, jvm.view.java.util.HashMap(_settings(spark))
        self._copies: dict[tuple[tuple[str, str], ...], Any] = {}

    def are_current(self, spark: Any) -> bool:
        """Tell whether the session's settings are those from which the copies were made."""
        return bool(_settings(spark).equals(self._settings_then))

    def with_settings(self, settings: Mapping[str, str]) -> Any:
        """Return the JVM's copy of the session with these settings, cloned at the first call for them."""
        key = tuple(sorted(settings.items()))
        if key not in self._copies:
            copy = self._session.cloneSession()
            conf = copy.sessionState().conf()
            for name, value in settings.items():
                conf.setConfString(name, value)
            self._copies[key] = copy
        return self._copies[key]


def settings_of(spark: Any) -> dict[str, str]:
    """Return the settings of a classic session, the SparkContext's included; PySpark's `conf.getAll` calls the JVM for each of them."""
    copy = getattr(spark._jvm, "java.util.HashMap")(_settings(spark))
    join = getattr(spark._jvm, "java.lang.String").join
    values = copy.__getattr__("values")()  # Java's method: that of py4j's class calls the JVM for each value
    return dict(zip(join("\0", copy.keySet()).split("\0"), join("\0", values).split("\0"), strict=True))


def _settings(spark: Any) -> Any:
    return spark._jsparkSession.sessionState().conf().settings()


class ParquetRelations:
    """Make Parquet scans over a file index that is implemented in Python, and the Java values that such an index returns.

    The constructor raises one of NOT_AS_KNOWN if this Spark's FileIndex differs from the one that Frazil implements: it has a method that
    the Python class lacks, or it lists files in another form.
    """

    def __init__(self, jvm: Jvm, index: type, number_column: str):
        view, self._nil, self._jvm = jvm.view, jvm.nil, jvm
        self.no_columns = getattr(view, _SPARK + "sql.types.StructType")()
        self.numbers = self.no_columns.add(number_column, getattr(view, _SPARK + "sql.types.LongType$").__getattr__("MODULE$"))
        self._relation = getattr(view, _DATASOURCES + "HadoopFsRelation")
        self._parquet = getattr(view, _DATASOURCES + "parquet.ParquetFileFormat")
        self._path = getattr(view, "org.apache.hadoop.fs.Path")
        self._scala_map = getattr(view, _SPARK + "api.python.PythonUtils").toScalaMap
        self._sequence = getattr(view, "scala.collection.immutable.ArraySeq").unsafeWrapArray
        find = view.java.lang.Class.forName
        self._directories = find(f"[L{_DATASOURCES}PartitionDirectory;")
        mapper = getattr(view, _JACKSON + "databind.ObjectMapper")()
        mapper.registerModule(getattr(view, _JACKSON + "module.scala.DefaultScalaModule")())
        any_visibility = find(_JACKSON + "annotation.JsonAutoDetect$Visibility").getField("ANY").get(None)
        mapper.setVisibility(getattr(view, _JACKSON + "annotation.PropertyAccessor").FIELD, any_visibility)
        mapper.configure(find(_JACKSON + "databind.DeserializationFeature").getField("USE_LONG_FOR_INTS").get(None), True)
        rows = getattr(view, _JACKSON + "databind.module.SimpleModule")()
        rows.addAbstractTypeMapping(find(f"{_CATALYST}InternalRow"), find(f"{EXPRESSIONS}GenericInternalRow"))
        mapper.registerModule(rows)
        self._read = mapper.readValue
        self._check(find, index)

    def _check(self, find: Any, index: type) -> None:
        is_abstract = self._jvm.view.java.lang.reflect.Modifier.isAbstract
        required = {str(m.getName()) for m in find(FILE_INDEX).getMethods() if is_abstract(m.getModifiers())}
        if missing := sorted(name for name in required if not hasattr(index, name)):
            raise NotImplementedError(f"{FILE_INDEX} has methods that Frazil does not implement: {', '.join(missing)}.")
        one_file = '[{"values":{"values":[7]},"files":[{"fileStatus":{"path":"file:/a","length":5,"isdir":false},"metadata":{}}]}]'
        directory = self.listing(one_file).apply(0)
        if (directory.values().getLong(0), directory.files().apply(0).getLen()) != (7, 5):
            raise NotImplementedError("PartitionDirectory does not return the values and files that it was made from.")

    def path(self, text: str) -> Any:
        """Make a Scala sequence of one Hadoop path."""
        return self._nil.prepended(self._path(text))

    def listing(self, json: str) -> Any:
        """Make a Scala sequence of PartitionDirectory from JSON. One call carries all of it: 5,000 files take 0.25 s, with calls per file
        six times that."""
        return self._sequence(self._read(json, self._directories))

    def scan(self, spark: Any, session: Any, schema: s.StructType, index: Any, options: Mapping[str, str]) -> DataFrame:
        """Make a DataFrame over the files of an index. `session`: the JVM's session whose settings the Parquet reader uses."""
        listen(spark)
        jsession, jvm = spark._jsparkSession, self._jvm
        columns = jsession.parseDataType(schema.json())
        relation = self._relation(
            index, index.partitionSchema(), columns, jvm.none, self._parquet(), self._scala_map(jvm.map(options)), session
        )
        return DataFrame(jsession.baseRelationToDataFrame(relation), spark)


def array_frame(spark: Any, jvm: Jvm, schema: s.StructType, numbers: npt.NDArray[np.int64]) -> DataFrame:
    """Make a DataFrame of one row and one column, an array of longs, as a LocalRelation. It takes a dozen calls to the JVM, where PySpark's
    createDataFrame takes some sixty and an Arrow file."""
    view, jsession, gateway = jvm.view, spark._jsparkSession, spark.sparkContext._gateway
    longs = gateway.new_array(view.long, len(numbers))
    with contextlib.ExitStack() as stack:  # the numbers go through a file, since py4j encodes bytes as text
        with temporary_files():
            file = stack.enter_context(tempfile.NamedTemporaryFile())
            file.write(numbers.astype(">i8").tobytes())
            file.flush()
        with contextlib.closing(view.java.io.RandomAccessFile(file.name, "r")) as java_file:
            read_only = view.java.nio.channels.FileChannel.MapMode.READ_ONLY
            java_file.getChannel().map(read_only, 0, java_file.length()).asLongBuffer().get(longs)
    values = gateway.new_array(view.java.lang.Object, 1)
    values[0] = getattr(view, EXPRESSIONS + "UnsafeArrayData").fromPrimitiveArray(longs)
    row = getattr(view, EXPRESSIONS + "GenericInternalRow")(values)
    columns = getattr(view, _CATALYST + "types.DataTypeUtils").toAttributes(jsession.parseDataType(schema.json()))
    plan = getattr(view, _CATALYST + "plans.logical.LocalRelation")(columns, jvm.nil.prepended(row), False, jvm.none)
    return frame_of(spark, plan)


def each(values: Any) -> Iterator[Any]:
    """Iterate over a Scala sequence."""
    return (values.apply(n) for n in range(values.size()))


# Temporary views ------------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TemporaryView:
    """Describe a temporary view. `database`: that of global temporary views, None for those of a session; `raw`: Catalyst's definition."""

    name: str
    database: str | None
    raw: Any = field(repr=False)

    @property
    def quoted(self) -> str:
        """Return the name in back quotes, for SQL."""
        return back_quoted(part for part in (self.database, self.name) if part is not None)

    @property
    def plan(self) -> Any:
        """Return the logical plan that the view keeps; None for a view that keeps SQL text, which Spark analyses at each use."""
        return self.raw.plan().get() if self.raw.plan().isDefined() else None


@dataclass(frozen=True)
class CachedView:
    """Describe a view that is in Spark's cache. `by_name`: it was cached by its name, as by CACHE TABLE, and not as a DataFrame."""

    view: TemporaryView
    frame: Any
    level: Any
    by_name: bool


class TemporaryViews:
    """List and replace the temporary views of a classic session, global ones included, and their entries in Spark's cache."""

    def __init__(self, spark: Any, jvm: Jvm):
        self._session, self._jvm = spark._jsparkSession, jvm
        self._catalog = self._session.sessionState().catalog()
        self._cache = self._session.sharedState().cacheManager()
        self._identifier = getattr(jvm.view, _CATALYST + "TableIdentifier")
        self._some = getattr(jvm.view, "scala.Option").apply

    def __iter__(self) -> Iterator[TemporaryView]:
        catalog = self._catalog
        of_session = [(name, None, catalog.getRawTempView) for name in each(catalog.getTempViewNames())]
        global_names = each(catalog.globalTempViewManager().listViewNames("*"))
        of_all = [(name, catalog.globalTempDatabase(), catalog.getRawGlobalTempView) for name in global_names]
        for name, database, look_up in [*of_session, *of_all]:
            if (raw := look_up(name)).isDefined():  # another thread may have dropped the view
                yield TemporaryView(name, database, raw.get())

    def replace(self, view: TemporaryView, plan: Any) -> None:
        """Replace the plan of a view."""
        identifier = self._identifier(view.name, self._some(view.database))
        self._catalog.alterTempViewDefinition(identifier, view.raw.copy(view.raw.tableMeta(), self._some(plan)))

    @property
    def nothing_is_cached(self) -> bool:
        """Tell whether Spark's cache is empty."""
        return bool(self._cache.isEmpty())

    def cached(self, view: TemporaryView) -> CachedView | None:
        """Return the entry of a view in Spark's cache, or None. Raises Spark's error for a view that cannot be analysed."""
        frame = self._session.table(view.quoted)
        entry = self._cache.lookupCachedData(frame)
        if not entry.isDefined():
            return None
        builder = entry.get().cachedRepresentation().cacheBuilder()
        return CachedView(view, frame, builder.storageLevel(), builder.tableName().isDefined())

    def uncache(self, cached: CachedView) -> None:
        """Remove a view's entry from Spark's cache."""
        self._cache.uncacheQuery(cached.frame, False)

    def cache_again(self, cached: CachedView) -> None:
        """Cache the view's present rows, at its former storage level."""
        name = cached.view.quoted
        self._cache.cacheQuery(self._session.table(name), self._some(name), cached.level)


class PlanTags:
    """Tag Catalyst plans with an object of this process, and exchange a plan for another one under the same column ids."""

    def __init__(self, jvm: Jvm, name: str):
        self._jvm = jvm
        self._tag = getattr(jvm.view, _CATALYST + "trees.TreeNodeTag")(name)
        self._alias = getattr(jvm.view, EXPRESSIONS + "Alias")
        self._project = getattr(jvm.view, _CATALYST + "plans.logical.Project")

    def set(self, spark: Any, plan: Any, value: Any) -> None:
        """Tag a plan. `value`: a Python object that implements a Java interface."""
        listen(spark)
        plan.setTagValue(self._tag, value)

    def get(self, plan: Any) -> Any:
        """Return the tag's value, None if the plan is not tagged."""
        value = plan.getTagValue(self._tag)
        return value.get() if value.isDefined() else None

    def under_columns_of(self, old: Any, new: Any) -> Any:
        """Return a new plan that has an old one's columns, with their ids, by which the nodes above the old plan refer to them. Raises
        ValueError for a column that the new plan lacks or has with another type."""
        new_columns = {a.name(): a for a in each(new.output())}
        columns = self._jvm.nil
        for column in reversed(list(each(old.output()))):
            replacement = new_columns.get(column.name())
            if replacement is None or replacement.dataType().catalogString() != column.dataType().catalogString():
                raise ValueError(f"column {column.name()} {'is gone' if replacement is None else 'has another type'}.")
            named = self._alias(replacement, column.name(), column.exprId(), column.qualifier(), self._jvm.none, self._jvm.nil)
            columns = columns.prepended(named)
        return self._project(columns, new)
