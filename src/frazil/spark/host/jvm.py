"""Call Spark's JVM: every class and object of Spark, Catalyst, Hadoop, Scala and Jackson that Frazil names, and every private attribute of
PySpark that leads to them, stands in this file.

None of it is promised by Spark. Where a version may change it, the caller has another way that gives the same rows more slowly and says so
once (`fall_back`); on Spark Connect, which has no JVM to call, that way is the only one.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import logging
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
from frazil.storage.base import temporary

NOT_AS_KNOWN = (Py4JError, TypeError, AttributeError, NotImplementedError)
"""What calls end in where a class, a constructor or a method is gone: py4j takes the name of a class that is not there for a package."""
_LOG = logging.getLogger("frazil")
_SPARK = "org.apache.spark."
_CATALYST = _SPARK + "sql.catalyst."
_DATASOURCES = _SPARK + "sql.execution.datasources."
_JACKSON = "com.fasterxml.jackson."
FILE_INDEX = _DATASOURCES + "FileIndex"
EXPRESSIONS = _CATALYST + "expressions."

_KNOWN: weakref.WeakKeyDictionary[Any, Jvm] = weakref.WeakKeyDictionary()
_WARNED: set[str] = set()
_LISTENING = threading.Lock()


def fall_back(what: str, error: Exception) -> None:
    """Say once a process that an inside of Spark is not as it was, and that the slower way is taken."""
    if what not in _WARNED:
        _WARNED.add(what)
        _LOG.warning("%s of this Spark is not as Frazil knows it; rows are the same, reads are slower: %s", what, error)


# The session ----------------------------------------------------------------------------------------------------------------------------


def is_stopped(spark: Any) -> bool:
    """Whether a session can no longer be used."""
    context = getattr(spark, "_sc", None)  # Connect has none
    return getattr(spark, "is_stopped", False) is True or (context is not None and getattr(context, "_jsc", context) is None)


def default_parallelism(spark: Any) -> int | None:
    """Tasks that a classic session runs at once; None on Spark Connect, which does not tell."""
    context = getattr(spark, "sparkContext", None) if hasattr(spark, "_jsc") else None
    return None if context is None else int(context.defaultParallelism)


def largest_heap(spark: Any) -> int | None:
    """Bytes that the heap of the driver's JVM, where the tasks of a local master run, may have; None on Spark Connect."""
    return int(spark._jvm.java.lang.Runtime.getRuntime().maxMemory()) if hasattr(spark, "_jsc") else None


def running_context() -> Any:
    """The SparkContext that runs in this process, or None."""
    found = SparkContext._active_spark_context
    return found if found is not None and found._jsc is not None else None


def has_jvm() -> bool:
    """Whether this process has started a JVM, which stays until the process ends."""
    return SparkContext._gateway is not None


def jvm_property(name: str) -> str | None:
    """A system property of the JVM that runs. Call it only where `has_jvm`."""
    found = SparkContext._gateway.jvm.System.getProperty(name)
    return None if found is None else str(found)


def spark_home() -> Path:
    """The folder of the Spark that PySpark would start."""
    return Path(_find_spark_home())


def set_active(spark: Any, jvm: Jvm) -> None:
    """Make a session the active one of the calling thread, in the JVM as well."""
    getattr(jvm.view, _SPARK + "sql.classic.SparkSession").setActiveSession(spark._jsparkSession)


def running_tasks(spark: Any) -> int:
    """Tasks that the executors run now. Raises what py4j raises; on Spark Connect an AttributeError."""
    return sum(int(e.numRunningTasks()) for e in spark._jsc.sc().statusTracker().getExecutorInfos())


def class_is_loaded(spark: Any, name: str) -> bool:
    """Whether a class is on the session's class path; False on Spark Connect, which cannot be asked."""
    try:
        java = spark._jvm.java.lang
        java.Class.forName(name, False, java.Thread.currentThread().getContextClassLoader())
    except Exception:  # py4j's ClassNotFoundException, or no JVM
        return False
    return True


def has_file_system(spark: Any, scheme: str) -> bool:
    """Whether Hadoop knows a file system for a scheme; False on Spark Connect."""
    try:
        spark._jvm.org.apache.hadoop.fs.FileSystem.getFileSystemClass(scheme, spark._jsc.hadoopConfiguration())
    except Exception:
        return False
    return True


def listen(spark: Any) -> None:
    """Let the JVM call objects of this process."""
    from pyspark.java_gateway import ensure_callback_server_started  # not in workers, which import this module as well

    with _LISTENING:  # PySpark itself lets two threads start the server
        ensure_callback_server_started(spark.sparkContext._gateway)


def watermark_ms(spark: Any, query_id: str) -> int | None:
    """The watermark of the batch that a streaming query runs now, in milliseconds since 1970; None: it has none, or Spark does not tell."""
    try:
        query = spark.streams.get(query_id)
        found = int(query._jsq.streamingQuery().lastExecution().offsetSeqMetadata().batchWatermarkMs())
    except Exception as error:  # an inside of Spark, which versions may change
        if "watermark" not in _WARNED:
            _WARNED.add("watermark")
            _LOG.warning("This Spark does not tell the watermark of a streaming query's batch: %s", error)
        return None
    return found or None


# Plans of frames ------------------------------------------------------------------------------------------------------------------------


def is_classic(frame: Any) -> bool:
    """Whether the plan of a frame is within reach: not on Spark Connect."""
    return hasattr(frame, "_jdf")


def put_setting(spark: Any, key: str, value: str | None) -> bool:
    """Set or remove (None) a session setting without Spark's warning that its name is deprecated; False on Spark Connect."""
    if not hasattr(spark, "_jsparkSession"):
        return False
    settings = _settings(spark)
    if value is None:
        settings.remove(key)
    else:
        settings.put(key, value)
    return True


def written_plan(frame: DataFrame) -> Any:
    """The logical plan of a classic frame as it was written down, which is the one that a view keeps."""
    return frame._jdf.logicalPlan()


def analysed_plan(frame: DataFrame) -> Any:
    """The logical plan of a classic frame, its names resolved."""
    return frame._jdf.queryExecution().analyzed()


def parsed_kind(spark: Any, text: str) -> str | None:
    """The class of Catalyst that Spark's parser makes of an expression's text; None on Spark Connect. Raises PySpark's ParseException."""
    session = getattr(spark, "_jsparkSession", None)
    return None if session is None else str(session.sessionState().sqlParser().parseExpression(text).getClass().getSimpleName())


def frame_of(spark: Any, plan: Any) -> DataFrame:
    """A classic frame of a logical plan."""
    return DataFrame(spark._jvm.org.apache.spark.sql.classic.Dataset.ofRows(spark._jsparkSession, plan), spark)


def catalyst(spark: Any) -> Any:
    """Catalyst's package: its expressions and plans are made by their constructors."""
    return spark._jvm.org.apache.spark.sql.catalyst


def scala_seq(spark: Any, values: Sequence[Any]) -> Any:
    return spark._jvm.PythonUtils.toSeq(list(values))


def no_option(spark: Any) -> Any:
    """Scala's None, typed for a constructor's argument."""
    return spark._jvm.scala.Option.empty()


def column_of(spark: Any, expression: Any) -> Column:
    """A Column of one of Catalyst's expressions."""
    column: Column = _classic_column()(spark._jvm.org.apache.spark.sql.classic.ExpressionUtils.column(expression))
    return column


@functools.cache
def _classic_column() -> Any:
    return importlib.import_module("pyspark.sql.classic.column").Column  # only where plans are within reach


# What reads need, looked up once: py4j asks the JVM for every part of a name -------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Jvm:
    """Functions and values of the JVM. `no_metadata`: what a column carries that is to carry none; `none`, `nil`: Scala's."""

    view: Any = field(repr=False)
    col: Any
    nanvl: Any
    no_metadata: Any
    none: Any
    nil: Any
    _split: Any
    _maps: dict[tuple[tuple[str, str], ...], Any] = field(default_factory=dict, repr=False)

    def texts(self, texts: Sequence[str]) -> Any:
        """An array of the JVM. One call instead of one per text: 100k paths cross in 0.2 s, not in 20. The texts hold no line ends."""
        return self._split("\n".join(texts), "\n")

    def map(self, pairs: Mapping[str, str]) -> Any:
        """A map of the JVM, made once; nobody may change it."""
        key = tuple(pairs.items())
        if key not in self._maps:
            made = self.view.java.util.HashMap()
            for k, v in key:
                made.put(k, v)
            self._maps[key] = made
        return self._maps[key]

    def named_column(self, source: str, name: str, barrier: bool) -> Column:
        """The column `source` (quoted) as `name`, without metadata; with a barrier Spark pushes no filter on it into the scan."""
        found = self.col(source)
        found = self.nanvl(found, found) if barrier else found
        column: Column = _classic_column()(getattr(found, "as")(name, self.no_metadata))
        return column


def jvm_of(spark: Any) -> Jvm | None:
    """None for sessions of Spark Connect, which have no JVM to call."""
    view = getattr(spark, "_jvm", None)
    if view is None:
        return None
    if (found := _KNOWN.get(view)) is None:
        functions = getattr(view, _SPARK + "sql.functions")
        empty = getattr(view, _SPARK + "sql.types.Metadata").empty()
        split = getattr(view, "org.apache.commons.lang3.StringUtils").split
        none, nil = (getattr(getattr(view, f"scala.{name}$"), "MODULE$") for name in ("None", "collection.immutable.Nil"))
        found = _KNOWN[view] = Jvm(view, functions.col, functions.nanvl, empty, none, nil, split)
    return found


class SessionCopies:
    """Copies of a classic session with settings of their own, kept while the session's own settings stay as they are."""

    def __init__(self, spark: Any, jvm: Jvm):
        self._session, self._known = spark._jsparkSession, jvm.view.java.util.HashMap(_settings(spark))
        self._copies: dict[tuple[tuple[str, str], ...], Any] = {}

    def are_current(self, spark: Any) -> bool:
        """Whether the session's settings are what they were when the copies were made."""
        return bool(_settings(spark).equals(self._known))

    def with_settings(self, settings: Mapping[str, str]) -> Any:
        key = tuple(sorted(settings.items()))
        if key not in self._copies:
            copy = self._session.cloneSession()
            conf = copy.sessionState().conf()
            for name, value in settings.items():
                conf.setConfString(name, value)
            self._copies[key] = copy
        return self._copies[key]


def _settings(spark: Any) -> Any:
    return spark._jsparkSession.sessionState().conf().settings()


class ParquetRelations:
    """Spark's own Parquet scan of an index of files, and what such an index answers with.

    Raises when it is made, where Spark's file index is not as Frazil implements it: a method that Frazil lacks, or another listing.
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
        every = find(_JACKSON + "annotation.JsonAutoDetect$Visibility").getField("ANY").get(None)
        mapper.setVisibility(getattr(view, _JACKSON + "annotation.PropertyAccessor").FIELD, every)
        mapper.configure(find(_JACKSON + "databind.DeserializationFeature").getField("USE_LONG_FOR_INTS").get(None), True)
        rows = getattr(view, _JACKSON + "databind.module.SimpleModule")()
        rows.addAbstractTypeMapping(find(f"{_CATALYST}InternalRow"), find(f"{EXPRESSIONS}GenericInternalRow"))
        mapper.registerModule(rows)
        self._read = mapper.readValue
        self._check(find, index)

    def _check(self, find: Any, index: type) -> None:
        is_abstract = self._jvm.view.java.lang.reflect.Modifier.isAbstract
        asked = {str(m.getName()) for m in find(FILE_INDEX).getMethods() if is_abstract(m.getModifiers())}
        if missing := sorted(name for name in asked if not hasattr(index, name)):
            raise NotImplementedError(f"{FILE_INDEX} has methods that are not known: {', '.join(missing)}.")
        one = '[{"values":{"values":[7]},"files":[{"fileStatus":{"path":"file:/a","length":5,"isdir":false},"metadata":{}}]}]'
        listed = self.listing(one).apply(0)
        if (listed.values().getLong(0), listed.files().apply(0).getLen()) != (7, 5):
            raise NotImplementedError("A listing of files comes out otherwise than it went in.")

    def path(self, text: str) -> Any:
        """A sequence of one Hadoop path."""
        return self._nil.prepended(self._path(text))

    def listing(self, json: str) -> Any:
        """Spark's partition directories out of JSON, which crosses in one call: 5,000 files take a quarter of a second, one by one six
        times that."""
        return self._sequence(self._read(json, self._directories))

    def scan(self, spark: Any, session: Any, schema: s.StructType, index: Any, options: Mapping[str, str]) -> DataFrame:
        """A frame over an index's files; `session`: the JVM's, by which the scan reads."""
        listen(spark)
        own, jvm = spark._jsparkSession, self._jvm
        columns = own.parseDataType(schema.json())
        made = self._relation(
            index, index.partitionSchema(), columns, jvm.none, self._parquet(), self._scala_map(jvm.map(options)), session
        )
        return DataFrame(own.baseRelationToDataFrame(made), spark)


def array_frame(spark: Any, jvm: Jvm, schema: s.StructType, numbers: npt.NDArray[np.int64]) -> DataFrame:
    """One row with one column, an array of longs, as a local relation: a dozen calls where PySpark's own way takes an Arrow file and some
    sixty."""
    view, own, gateway = jvm.view, spark._jsparkSession, spark.sparkContext._gateway
    longs = gateway.new_array(view.long, len(numbers))
    with contextlib.ExitStack() as stack:  # py4j would spell the bytes as text
        with temporary():
            file = stack.enter_context(tempfile.NamedTemporaryFile())
            file.write(numbers.astype(">i8").tobytes())
            file.flush()
        with contextlib.closing(view.java.io.RandomAccessFile(file.name, "r")) as opened:
            read_only = view.java.nio.channels.FileChannel.MapMode.READ_ONLY
            opened.getChannel().map(read_only, 0, opened.length()).asLongBuffer().get(longs)
    values = gateway.new_array(view.java.lang.Object, 1)
    values[0] = getattr(view, EXPRESSIONS + "UnsafeArrayData").fromPrimitiveArray(longs)
    row = getattr(view, EXPRESSIONS + "GenericInternalRow")(values)
    columns = getattr(view, _CATALYST + "types.DataTypeUtils").toAttributes(own.parseDataType(schema.json()))
    plan = getattr(view, _CATALYST + "plans.logical.LocalRelation")(columns, jvm.nil.prepended(row), False, jvm.none)
    return frame_of(spark, plan)


def each(values: Any) -> Iterator[Any]:
    """The items of a Scala sequence."""
    return (values.apply(n) for n in range(values.size()))


# Temporary views ------------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TemporaryView:
    """A temporary view. `database`: that of global views, None for those of a session; `raw`: Catalyst's definition."""

    name: str
    database: str | None
    raw: Any = field(repr=False)

    @property
    def quoted(self) -> str:
        """The name as SQL takes it."""
        return back_quoted(part for part in (self.database, self.name) if part is not None)

    @property
    def plan(self) -> Any:
        """The plan that the view keeps; None for one that is a text, which Spark analyses whenever it is used."""
        return self.raw.plan().get() if self.raw.plan().isDefined() else None


@dataclass(frozen=True)
class CachedView:
    """A view in Spark's cache. `by_name`: it came there by its name, as by CACHE TABLE, and not as a DataFrame."""

    view: TemporaryView
    frame: Any
    level: Any
    by_name: bool


class TemporaryViews:
    """The temporary views of a classic session, global ones too: their plans, and what Spark's cache holds of them."""

    def __init__(self, spark: Any, jvm: Jvm):
        self._session, self._jvm = spark._jsparkSession, jvm
        self._catalog = self._session.sessionState().catalog()
        self._cache = self._session.sharedState().cacheManager()
        self._identifier = getattr(jvm.view, _CATALYST + "TableIdentifier")
        self._some = getattr(jvm.view, "scala.Option").apply

    def __iter__(self) -> Iterator[TemporaryView]:
        catalog = self._catalog
        own = [(name, None, catalog.getRawTempView) for name in each(catalog.getTempViewNames())]
        shared = each(catalog.globalTempViewManager().listViewNames("*"))
        for name, database, look_up in [*own, *((n, catalog.globalTempDatabase(), catalog.getRawGlobalTempView) for n in shared)]:
            if (raw := look_up(name)).isDefined():  # it may have been dropped meanwhile
                yield TemporaryView(name, database, raw.get())

    def replace(self, view: TemporaryView, plan: Any) -> None:
        """Puts another plan under the view's name."""
        identifier = self._identifier(view.name, self._some(view.database))
        self._catalog.alterTempViewDefinition(identifier, view.raw.copy(view.raw.tableMeta(), self._some(plan)))

    @property
    def nothing_is_cached(self) -> bool:
        return bool(self._cache.isEmpty())

    def cached(self, view: TemporaryView) -> CachedView | None:
        """What Spark's cache holds of a view. Raises what Spark raises of a view that is broken."""
        frame = self._session.table(view.quoted)
        found = self._cache.lookupCachedData(frame)
        if not found.isDefined():
            return None
        builder = found.get().cachedRepresentation().cacheBuilder()
        return CachedView(view, frame, builder.storageLevel(), builder.tableName().isDefined())

    def uncache(self, cached: CachedView) -> None:
        self._cache.uncacheQuery(cached.frame, False)

    def cache_again(self, cached: CachedView) -> None:
        """Caches what the view shows now, at the level it was cached at."""
        name = cached.view.quoted
        self._cache.cacheQuery(self._session.table(name), self._some(name), cached.level)


class PlanTags:
    """A tag on Catalyst's plans, under which an object of this process is found again, and plans put in the place of others."""

    def __init__(self, jvm: Jvm, name: str):
        self._jvm = jvm
        self._tag = getattr(jvm.view, _CATALYST + "trees.TreeNodeTag")(name)
        self._alias = getattr(jvm.view, EXPRESSIONS + "Alias")
        self._project = getattr(jvm.view, _CATALYST + "plans.logical.Project")

    def set(self, spark: Any, plan: Any, value: Any) -> None:
        """`value`: an object of this process that the JVM may call."""
        listen(spark)
        plan.setTagValue(self._tag, value)

    def get(self, plan: Any) -> Any:
        """The tag's value, None where the plan has none."""
        found = plan.getTagValue(self._tag)
        return found.get() if found.isDefined() else None

    def under_columns_of(self, old: Any, new: Any) -> Any:
        """A new plan under an old one's columns, which what stands above knows by their ids. Raises ValueError for a column that the new
        plan lacks or has with another type."""
        there = {a.name(): a for a in each(new.output())}
        columns = self._jvm.nil
        for column in reversed(list(each(old.output()))):
            found = there.get(column.name())
            if found is None or found.dataType().catalogString() != column.dataType().catalogString():
                raise ValueError(f"column {column.name()} {'is gone' if found is None else 'has another type'}.")
            named = self._alias(found, column.name(), column.exprId(), column.qualifier(), self._jvm.none, self._jvm.nil)
            columns = columns.prepended(named)
        return self._project(columns, new)
