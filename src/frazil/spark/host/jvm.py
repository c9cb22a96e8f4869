"""Call Spark's JVM through py4j: the session, its settings and contexts, and values of Java and
Scala.

Every class and object of Spark, Catalyst, Scala, Jackson and Hadoop that Frazil uses, and every
private attribute of PySpark that leads to them, is named in the `jvm` files of this room only:
here, in `jvm_plans` (Catalyst's plans and expressions), `jvm_reads` (the scan of Parquet files,
rows made in the JVM, file systems), `jvm_views` (temporary views, tags of plans), and `jvm_catalog`
and `jvm_errors` (catalogs implemented in Python, and the errors that they raise).

Spark promises to keep none of them. Where a version may change one, the caller has another way,
which returns the same rows and logs a warning once (`host.fall_back`). On Spark Connect, which has
no JVM to call, that way is the only one.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import itertools
import json
import threading
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from py4j.java_gateway import JavaObject, JVMView
from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.find_spark_home import _find_spark_home
from pyspark.sql import Column

from frazil.ops.session import Session

NOT_AS_KNOWN = (Py4JError, TypeError, AttributeError, NotImplementedError, ImportError)
"""The errors that calls raise where Spark lacks a class, a constructor or a method, and PySpark a
module. TypeError is among them because py4j takes the name of a class that does not exist for a
package, which cannot be called."""
SPARK = "org.apache.spark."
CATALYST = SPARK + "sql.catalyst."
EXPRESSIONS = CATALYST + "expressions."

_KNOWN: weakref.WeakKeyDictionary[Any, Jvm] = weakref.WeakKeyDictionary()
_KEYS: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()
_LISTENING = threading.Lock()


# The session
# --------------------------------------------------------------------------------------------------


def is_stopped(spark: Session) -> bool:
    """Tell whether a session has been stopped."""
    context = context_of(spark)
    return getattr(spark, "is_stopped", False) is True or (
        context is not None and getattr(context, "_jsc", context) is None
    )


def context_of(spark: Session) -> Any:
    """Return the SparkContext of a classic session, also of one that was stopped; None on Spark
    Connect.
    """
    return getattr(spark, "_sc", None)


def is_classic(frame: object) -> bool:
    """Tell whether a DataFrame has a plan in this process's JVM, which is not so on Spark Connect."""
    return hasattr(frame, "_jdf")


def session_key(spark: Any) -> str:
    """Return the id of a session, which all Python handles of it share."""
    if not hasattr(spark, "_jsparkSession"):
        return str(spark.session_id)
    if (key := _KEYS.get(spark)) is None:
        key = _KEYS[spark] = str(spark._jsparkSession.sessionUUID())
    return key


def thread_key(spark: Session) -> int:
    """Return the number of the thread that asks: of the JVM's thread that serves it, as the JVM
    calls back on a thread of its own.
    """
    jvm = jvm_of(spark)
    return threading.get_ident() if jvm is None else jvm.thread_id()


def default_parallelism(spark: Session) -> int | None:
    """Return how many tasks a classic session runs at once; None on Spark Connect, where it is not
    known.
    """
    context = getattr(spark, "sparkContext", None) if hasattr(spark, "_jsc") else None
    held, key = _held(), (id(spark), "parallelism")
    if context is not None and key not in held:
        held[key] = int(context.defaultParallelism)
    return None if context is None else held[key]


def largest_heap(spark: Session) -> int | None:
    """Return the maximum heap of the driver's JVM in bytes (with a local master all tasks run in
    it); None on Spark Connect.
    """
    return (
        int(spark._jvm.java.lang.Runtime.getRuntime().maxMemory())
        if hasattr(spark, "_jsc")
        else None
    )


def session_of(spark: Session, java_session: JavaObject) -> Any:
    """Return the Python handle of another session of the JVM, beside the one of `spark`."""
    handle: Any = type(spark)
    return handle(spark.sparkContext, java_session)


def running_context() -> Any:
    """Return the SparkContext that runs in this process, or None."""
    context = SparkContext._active_spark_context
    return context if context is not None and context._jsc is not None else None


def has_jvm() -> bool:
    """Tell whether this process has started a JVM; it then runs until the process ends, also after
    the session is stopped.
    """
    return SparkContext._gateway is not None


def jvm_property(name: str) -> str | None:
    """Return a system property of the running JVM, or None. Call it only if `has_jvm`."""
    value = SparkContext._gateway.jvm.System.getProperty(name)
    return None if value is None else str(value)


def spark_home() -> Path:
    """Return the folder of the Spark installation that PySpark would start."""
    return Path(_find_spark_home())


def set_active(spark: Session, jvm: Jvm) -> None:
    """Make a session the active one of the JVM's thread that serves the calling thread."""
    getattr(jvm.view, SPARK + "sql.classic.SparkSession").setActiveSession(spark._jsparkSession)


def running_tasks(spark: Session) -> int:
    """Return how many tasks the executors run at this moment. Raises the errors of py4j, and
    AttributeError on Spark Connect.
    """
    return sum(int(e.numRunningTasks()) for e in spark._jsc.sc().statusTracker().getExecutorInfos())


def class_is_loaded(spark: Session, name: str) -> bool:
    """Tell whether a Java class is on the session's class path; False on Spark Connect, where it is
    not known.
    """
    try:
        java = spark._jvm.java.lang
        loader = java.Thread.currentThread().getContextClassLoader()
        # The class loader answers null for a class that is not there, where PySpark would take 30 ms
        # to translate an error.
        if loader.getResource(f"{name.replace('.', '/')}.class") is None:
            return False
        java.Class.forName(name, False, loader)
    except Exception:  # py4j's ClassNotFoundException, or no JVM
        return False
    return True


# Its settings
# --------------------------------------------------------------------------------------------------


def set_settings(spark: Session, settings: Mapping[str, str | None]) -> None:
    """Set settings of a session, None: remove one. A classic session does not warn of names that
    are deprecated.
    """
    _held().clear()
    added = {key: value for key, value in settings.items() if value is not None}
    removed = [key for key in settings if key not in added]
    if hasattr(spark, "_jsparkSession"):
        live = seen.live if (seen := _SEEN.get(spark)) else _settings(spark)
        if removed:
            live.keySet().removeAll(classic_jvm(spark).from_json(removed, "java.util.ArrayList"))
        if added:
            live.putAll(classic_jvm(spark).from_json(added, "java.util.HashMap"))
        return
    for key in removed:
        spark.conf.unset(key)
    for key, value in added.items():
        spark.conf.set(key, value)


def settings_of(spark: Session) -> dict[str, str]:
    """Return the settings of a classic session, the SparkContext's included; PySpark's
    `conf.getAll` calls the JVM for each of them.
    """
    return dict(_values(spark, _seen(spark)))


def _values(spark: Session, seen: _SeenSettings) -> dict[str, str]:
    if seen.values is None:
        seen.values = text_pairs(spark._jvm, seen.copy)
    return seen.values


def setting(spark: Session, key: str, default: str | None = None) -> str | None:
    """Return a setting of a session, `default` where it is not set."""
    if hasattr(spark, "_jsparkSession"):
        with contextlib.suppress(*NOT_AS_KNOWN, ValueError):  # as in `all_settings`
            return _values(spark, _seen(spark)).get(key, default)
    value: str | None = spark.conf.get(key, default)
    return value


def setting_or_own(spark: Session, key: str) -> str:
    """Return a setting of a session; where it is not set Spark's own default, such as the JVM's
    time zone."""
    if (value := setting(spark, key)) is None:
        defaults = _seen(spark).defaults if hasattr(spark, "_jsparkSession") else {}
        if (value := defaults.get(key)) is None:
            value = defaults[key] = str(spark.conf.get(key))
    return value


@contextlib.contextmanager
def settings_held() -> Iterator[None]:
    """Look at the settings of sessions once in the block, which runs for one question or statement
    of a session: the JVM is asked at each look whether they have changed."""
    held: dict[tuple[int, str], Any] = {}
    token = _HELD.set(held)
    try:
        yield
    finally:
        _HELD.reset(token)
        held[_ENDED] = True  # for threads that go on with a copy of this one's context


def settings_version(spark: Session) -> int:
    """Return a number that changes when a setting of a classic session does."""
    return _seen(spark).version


class _SeenSettings:
    """Hold a copy of a session's settings, which are compared with it in one call. `values`: the
    copy as a dict, once it was asked for; `defaults`: of settings that it has not, Spark's own.
    """

    def __init__(self, live: JavaObject, copy: JavaObject):
        self.live, self.copy = live, copy
        self.version = next(_VERSIONS)
        self.values: dict[str, str] | None = None
        self.defaults: dict[str, str] = {}


_VERSIONS = itertools.count(1)
_SEEN: weakref.WeakKeyDictionary[Any, _SeenSettings] = weakref.WeakKeyDictionary()
_ENDED = (0, "ended")
_HELD: ContextVar[dict[tuple[int, str], Any] | None] = ContextVar("held settings", default=None)


def _held() -> dict[tuple[int, str], Any]:
    held = _HELD.get()
    return {} if held is None or _ENDED in held else held


def _seen(spark: Session) -> _SeenSettings:
    held, key = _held(), (id(spark), "settings")
    seen: _SeenSettings | None = held.get(key)
    if seen is not None:
        return seen
    seen = _SEEN.get(spark)
    if seen is None or not seen.live.equals(seen.copy):
        live = _settings(spark) if seen is None else seen.live
        seen = _SEEN[spark] = _SeenSettings(live, getattr(spark._jvm, "java.util.HashMap")(live))
    held[key] = seen
    return seen


def text_pairs(view: JVMView, java_map: JavaObject) -> dict[str, str]:
    """Return a Java map of strings by two calls: py4j asks for one element after the other, and
    finds the end by an error, which PySpark compares with each of its own by calls. Raises
    ValueError for texts with the character that separates them."""
    if java_map.isEmpty():
        return {}
    join = getattr(view, "java.lang.String").join
    # Java's method: that of py4j's class calls the JVM for each value
    values = java_map.__getattr__("values")()
    return dict(
        zip(join("\0", java_map.keySet()).split("\0"), join("\0", values).split("\0"), strict=True)
    )


def _settings(spark: Session) -> Any:
    return spark._jsparkSession.sessionState().conf().settings()


class SessionCopies:
    """Hold copies of a classic session with additional settings, valid while the session's own
    settings do not change (`are_current`).
    """

    def __init__(self, spark: Session, jvm: Jvm):
        self._session, self._version = spark._jsparkSession, settings_version(spark)
        self._copies: dict[tuple[tuple[str, str], ...], Any] = {}

    def are_current(self, spark: Session) -> bool:
        """Tell whether the session's settings are those from which the copies were made."""
        return settings_version(spark) == self._version

    def with_settings(self, settings: Mapping[str, str]) -> Any:
        """Return the JVM's copy of the session with these settings, cloned at the first call for
        them.
        """
        key = tuple(sorted(settings.items()))
        if key not in self._copies:
            copy = self._session.cloneSession()
            conf = copy.sessionState().conf()
            for name, value in settings.items():
                conf.setConfString(name, value)
            self._copies[key] = copy
        return self._copies[key]


# Objects of this process in the JVM
# --------------------------------------------------------------------------------------------------


def listen(spark: Session) -> None:
    """Start py4j's callback server, through which the JVM calls objects of this process."""
    # imported here since workers, which do not need it, import this module
    from pyspark.java_gateway import (
        ensure_callback_server_started,
    )

    with _LISTENING:  # PySpark does not keep two threads from starting the server twice
        ensure_callback_server_started(spark.sparkContext._gateway)


def implementing(*interfaces: str) -> type:
    """Make the class `Java` in which py4j looks up the interfaces of the JVM that objects of a
    Python class implement.
    """
    return type("Java", (), {"implements": list(interfaces)})


# Values of Scala
# --------------------------------------------------------------------------------------------------


def each(values: JavaObject) -> Iterator[Any]:
    """Iterate over a Scala sequence."""
    return (values.apply(n) for n in range(values.size()))


def scala_seq(spark: Session, values: Sequence[Any]) -> Any:
    """Make a Scala sequence."""
    jvm = classic_jvm(spark)
    return functools.reduce(lambda after, value: after.prepended(value), reversed(values), jvm.nil)


def texts_of_seq(values: JavaObject) -> tuple[str, ...]:
    """Return a Scala sequence of strings, by one call."""
    return tuple(text.split("\0")) if (text := str(values.mkString("\0"))) else ()


def some(spark: Session, value: object) -> Any:
    """Make Scala's Some."""
    return spark._jvm.scala.Option.apply(value)


def is_instance(spark: Session, name: str, value: object) -> bool:
    """Tell whether an object of the JVM is of a class or interface."""
    jvm = classic_jvm(spark)
    return bool(jvm.is_instance(name, value))


def no_option(spark: Session) -> Any:
    """Return Scala's None, typed as a constructor's argument needs it."""
    return spark._jvm.scala.Option.empty()


@functools.cache
def classic_column() -> Any:
    """Return the class of the columns of classic sessions."""
    # The module is imported here since it needs py4j.
    return importlib.import_module("pyspark.sql.classic.column").Column


# Functions for reads, looked up once: py4j makes a call to the JVM for every part of a name
# --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Jvm:
    """Hold functions and values of the JVM that reads use. `no_metadata`: empty column metadata;
    `none`, `nil`: Scala's None and Nil.
    """

    view: Any = field(repr=False)
    col: Any
    nanvl: Any
    no_metadata: Any
    none: Any
    nil: Any
    _maps: dict[tuple[tuple[str, str], ...], Any] = field(default_factory=dict, repr=False)
    _classes: dict[Any, Any] = field(default_factory=dict, repr=False)

    @functools.cached_property
    def dataset(self) -> Any:
        """Return the class of classic DataFrames."""
        return getattr(self.view, SPARK + "sql.classic.Dataset")

    def java_class(self, name: str) -> Any:
        """Return a class, looked up once."""
        if name not in self._classes:
            self._classes[name] = getattr(self.view, name)
        return self._classes[name]

    @functools.cached_property
    def frame_of(self) -> Any:
        """Return the function that makes a classic DataFrame of a session and a plan."""
        return self.dataset.ofRows

    @functools.cached_property
    def skip(self) -> Any:
        """Return the mode in which a command is analysed and not run."""
        return getattr(
            getattr(self.view, SPARK + "sql.execution.CommandExecutionMode$"), "MODULE$"
        ).SKIP()

    @functools.cached_property
    def column_from(self) -> Any:
        """Return the function that makes a classic column of a Catalyst expression."""
        return self.view.org.apache.spark.sql.classic.ExpressionUtils.column

    @functools.cached_property
    def attributes_of(self) -> Any:
        """Return the function that makes the columns of a plan of a StructType."""
        return getattr(self.view, CATALYST + "types.DataTypeUtils").toAttributes

    @functools.cached_property
    def is_instance(self) -> Any:
        """Return the function that tells whether an object is of the class or interface of a name."""
        return self.view.py4j.reflection.TypeUtil.isInstanceOf

    @functools.cached_property
    def _json(self) -> Any:
        return getattr(self.view, "com.fasterxml.jackson.databind.ObjectMapper")()

    @functools.cached_property
    def _current_thread(self) -> Any:
        return self.view.java.lang.Thread.currentThread

    def thread_id(self) -> int:
        """Return the number of the JVM's thread that serves the calling one."""
        return int(self._current_thread().getId())

    def from_json(self, value: object, class_name: str) -> Any:
        """Make a value of a Java class by one call, whatever its size: 100,000 paths take tenths of
        a second, with one call per string 20 s."""
        key = ("of", class_name)
        if key not in self._classes:
            self._classes[key] = self.view.java.lang.Class.forName(class_name)
        return self._json.readValue(json.dumps(value), self._classes[key])

    def texts(self, texts: Sequence[str]) -> Any:
        """Make a Java array of strings."""
        return self.from_json(list(texts), "[Ljava.lang.String;")

    def map(self, pairs: Mapping[str, str]) -> Any:
        """Return a Java map of strings. Maps are reused for equal pairs, so no caller may change
        one.
        """
        key = tuple(pairs.items())
        if key not in self._maps:
            self._maps[key] = self.from_json(dict(pairs), "java.util.HashMap")
        return self._maps[key]

    def column(self, source: str, barrier: bool = False) -> Column:
        """Return the column `source` (back-quoted) of any frame. `barrier`: Spark pushes no filter
        on it into the scan, as `nanvl(x, x)` is x but no plain column."""
        java_column = self.col(source)
        column: Column = classic_column()(
            self.nanvl(java_column, java_column) if barrier else java_column
        )
        return column

    def renamed(self, column: Column, name: str, comment: str | None = None) -> Column:
        """Return a column under a name, with a comment and no other metadata."""
        metadata = (
            self.java_class(SPARK + "sql.types.Metadata").fromJson(json.dumps({"comment": comment}))
            if comment
            else self.no_metadata
        )
        named: Column = classic_column()(getattr(column._jc, "as")(name, metadata))
        return named


def jvm_of(spark: Session) -> Jvm | None:
    """Return a session's JVM; None for sessions of Spark Connect, which have none to call."""
    view = getattr(spark, "_jvm", None)
    if view is None:
        return None
    if (jvm := _KNOWN.get(view)) is None:
        functions = getattr(view, SPARK + "sql.functions")
        empty = getattr(view, SPARK + "sql.types.Metadata").empty()
        none, nil = (
            getattr(getattr(view, f"scala.{name}$"), "MODULE$")
            for name in ("None", "collection.immutable.Nil")
        )
        jvm = _KNOWN[view] = Jvm(view, functions.col, functions.nanvl, empty, none, nil)
    return jvm


def classic_jvm(spark: Session) -> Jvm:
    """Return the JVM of a session that is known to be a classic one: Spark Connect has no plans,
    catalogs or statements in this process.
    """
    jvm = jvm_of(spark)
    assert jvm is not None, "a session of Spark Connect has no JVM in this process"
    return jvm
