"""A SparkSession that is ready for Iceberg tables. `settings` lists what else is set, when and why."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from typing import Any

from pyspark.sql import SparkSession

from frazil.errors import InvalidInput
from frazil.spark.host.java import check_java
from frazil.spark.host.jvm import has_jvm, jvm_property, running_context, spark_home

_PYTHON = "PYSPARK_PYTHON"
_FIXED = ("spark.master", "spark.app.name", "spark.hadoop.")  # a running session takes them and does not act on them
_OF_THE_JVM = (
    "spark.driver.memory", "spark.driver.extraJavaOptions", "spark.driver.defaultJavaOptions", "spark.driver.extraClassPath",
    "spark.driver.extraLibraryPath", "spark.jars.packages", "spark.jars.repositories", "spark.jars.excludes", "spark.jars.ivy",
)  # fmt: skip
_DEFAULTS = {"spark.driver.memory": "1g"}


def configure(builder: Any) -> Any:
    """A builder, made ready: workers get this Python, unless PYSPARK_PYTHON is set; a Java that is missing or too old is told at once."""
    os.environ.setdefault(_PYTHON, sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    builder.getOrCreate = _checked(builder.getOrCreate, getattr(builder, "_options", {}))
    return builder


def _checked(make: Callable[[], Any], options: Mapping[str, Any]) -> Callable[[], Any]:
    def get_or_create() -> Any:
        if not has_jvm() and "PYSPARK_GATEWAY_PORT" not in os.environ and not _connects(options):
            check_java(os.environ, spark_home())
        return make()

    return get_or_create


def _connects(options: Mapping[str, Any]) -> bool:
    """Whether the session will be one of Spark Connect, whose JVM is another process's affair."""
    names = ("SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED", "SPARK_API_MODE")
    return any(name in os.environ for name in names) or "spark.remote" in options or "spark.api.mode" in options


def spark_session(app_name: str | None = None, master: str | None = None, config: Mapping[str, Any] | None = None) -> SparkSession:
    """The running session or a new one, made ready (`configure`); `frazil.spark_session` installs it, too.

    `master` defaults to what Spark itself would take (spark-submit's, else local[*]); `config` are settings of Spark, catalogs included.
    Raises InvalidInput naming those that a session which runs already cannot take, NotInstalledError where there is no Java for Spark.
    """
    named = {"spark.app.name": app_name, "spark.master": master}
    asked = {**{k: v for k, v in named.items() if v is not None}, **{k: _text(v) for k, v in (config or {}).items()}}
    if not _connects(asked):
        _check_jvm(asked)
        _check_running(asked)
    builder = SparkSession.builder
    for key, value in asked.items():
        builder = builder.config(key, value)
    return configure(builder).getOrCreate()


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _check_jvm(asked: Mapping[str, str]) -> None:
    """The JVM of the first session of a process serves all others, also after `stop`: PySpark leaves unheard what only a new one takes."""
    if not has_jvm():
        return
    there = {k: jvm_property(k) or _DEFAULTS.get(k) for k in _OF_THE_JVM if k in asked}
    if refused := {k: (asked[k], now) for k, now in there.items() if now != asked[k]}:
        hint = "Give it to the first session of a process: start Python anew (in a notebook, the kernel)."
        raise InvalidInput(f"The JVM of this process runs already and cannot take {_told(refused)}.", hint=hint)


def _told(refused: Mapping[str, tuple[str, str | None]]) -> str:
    return ", ".join(f"{k}={v} (it is {'not set' if now is None else now})" for k, (v, now) in refused.items())


def _check_running(asked: Mapping[str, str]) -> None:
    """Spark leaves unheard what a running session cannot take."""
    if not asked or (context := running_context()) is None:
        return
    running = context.getConf()
    scratch = (SparkSession.getActiveSession() or SparkSession(context)).newSession().conf
    refused = {}
    for key, value in asked.items():
        if (now := running.get(key, None)) == value:
            continue
        try:
            if key.startswith(_FIXED):
                raise ValueError(key)
            scratch.set(key, value)
        except Exception:  # Spark names the kind of setting; what counts is that it takes it or not
            refused[key] = (value, now)
    if refused:
        raise InvalidInput(
            f"A Spark session runs already and cannot take {_told(refused)}.",
            hint="Leave it out, or stop that session first: frazil.spark_session().stop().",
        )


def use_this_python(spark: Any) -> None:
    """Workers of a local master become this Python, where nobody has chosen one: an environment that is not activated is not on the PATH,
    and PySpark would take any python3 that is."""
    context = getattr(spark, "_sc", None)  # Connect has none
    if context is None or not str(context.master).startswith("local") or os.environ.get(_PYTHON) not in (None, sys.executable):
        return
    if context.pythonExec == "python3" and context.getConf().get("spark.pyspark.python", None) is None:
        context.pythonExec = sys.executable
