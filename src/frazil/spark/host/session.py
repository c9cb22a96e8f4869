"""Start or find a SparkSession that is ready for Iceberg tables. docs/spark.md lists every setting
that Frazil changes, with the reason.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from frazil.errors import InvalidInput, NotInstalledError
from frazil.ops.session import Session
from frazil.spark.host.fall_back import fall_back
from frazil.spark.host.jvm import (
    NOT_AS_KNOWN,
    context_of,
    has_jvm,
    is_classic,
    jvm_property,
    running_context,
    spark_home,
)
from frazil.spark.host.jvm_plans import estimated_bytes

_PYTHON = "PYSPARK_PYTHON"
# a running session accepts these, and ignores them
_FIXED = (
    "spark.master",
    "spark.app.name",
    "spark.hadoop.",
)
_OF_THE_JVM = (
    "spark.driver.memory", "spark.driver.extraJavaOptions", "spark.driver.defaultJavaOptions", "spark.driver.extraClassPath",
    "spark.driver.extraLibraryPath", "spark.jars.packages", "spark.jars.repositories", "spark.jars.excludes", "spark.jars.ivy",
)  # fmt: skip
_DEFAULTS = {"spark.driver.memory": "1g"}


def configure(builder: SparkSession.Builder) -> Any:
    """Prepare a SparkSession builder and return it: workers run this Python unless PYSPARK_PYTHON
    is set, and `getOrCreate` raises NotInstalledError if Java is missing or too old."""
    os.environ.setdefault(_PYTHON, sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    builder.getOrCreate = _with_java_check(builder.getOrCreate, getattr(builder, "_options", {}))
    return builder


def _with_java_check(
    get_or_create: Callable[[], Any], options: Mapping[str, Any]
) -> Callable[[], Any]:
    def checked() -> Any:
        if not has_jvm() and "PYSPARK_GATEWAY_PORT" not in os.environ and not _connects(options):
            check_java(os.environ, spark_home())
        return get_or_create()

    return checked


def _connects(options: Mapping[str, Any]) -> bool:
    """Tell whether the session will be one of Spark Connect, whose JVM another process starts."""
    names = ("SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED", "SPARK_API_MODE")
    return (
        any(name in os.environ for name in names)
        or "spark.remote" in options
        or "spark.api.mode" in options
    )


def spark_session(
    app_name: str | None = None, master: str | None = None, config: Mapping[str, Any] | None = None
) -> SparkSession:
    """Return the running session, or start one that is prepared by `configure`.
    `frazil.spark_session` also installs Frazil in it.

    `master` defaults to Spark's own default (spark-submit's, else local[*]); `config` holds Spark
    settings, among them those of catalogs. Raises InvalidInput, which names the settings that a
    running session or JVM cannot take, and NotInstalledError without a Java for Spark.
    """
    named = {"spark.app.name": app_name, "spark.master": master}
    settings = {
        **{k: v for k, v in named.items() if v is not None},
        **{k: str(v).lower() if isinstance(v, bool) else str(v) for k, v in (config or {}).items()},
    }
    if not _connects(settings):
        _check_jvm(settings)
        _check_running(settings)
    builder = SparkSession.builder
    for key, value in settings.items():
        builder = builder.config(key, value)
    return configure(builder).getOrCreate()


def _check_jvm(settings: Mapping[str, str]) -> None:
    """Raise InvalidInput for settings of the JVM that differ from those of the one that runs. The
    JVM of a process's first session serves all later ones, also after `stop`, and PySpark ignores
    such settings without an error."""
    if not has_jvm():
        return
    current = {k: jvm_property(k) or _DEFAULTS.get(k) for k in _OF_THE_JVM if k in settings}
    if refused := {k: (settings[k], now) for k, now in current.items() if now != settings[k]}:
        hint = "Give it to the first session of the process: restart Python (in a notebook, the kernel)."
        raise InvalidInput(
            f"The JVM of this process is already running and cannot take {_listed(refused)}.",
            hint=hint,
        )


def _listed(refused: Mapping[str, tuple[str, str | None]]) -> str:
    return ", ".join(
        f"{k}={v} (it is {'not set' if now is None else now})" for k, (v, now) in refused.items()
    )


def _check_running(settings: Mapping[str, str]) -> None:
    """Raise InvalidInput for settings that the running session cannot take, and that Spark would
    ignore.
    """
    if not settings or (context := running_context()) is None:
        return
    running = context.getConf()
    scratch = (SparkSession.getActiveSession() or SparkSession(context)).newSession().conf
    refused = {}
    for key, value in settings.items():
        if (now := running.get(key, None)) == value:
            continue
        try:
            if key.startswith(_FIXED):
                raise ValueError(key)
            scratch.set(key, value)
        except Exception:
            # Spark's errors differ by the kind of setting; here it only matters whether the session
            # takes it
            refused[key] = (value, now)
    if refused:
        raise InvalidInput(
            f"A Spark session is already running and cannot take {_listed(refused)}.",
            hint="Leave it out, or stop that session first: frazil.spark_session().stop().",
        )


def use_this_python(spark: Session) -> None:
    """Let the workers of a local master run this Python, unless another one was chosen. PySpark
    would start the first python3 on the PATH, which is not that of a virtual environment unless the
    environment is activated."""
    context = context_of(spark)
    if (
        context is None
        or not str(context.master).startswith("local")
        or os.environ.get(_PYTHON) not in (None, sys.executable)
    ):
        return
    if (
        context.pythonExec == "python3"
        and context.getConf().get("spark.pyspark.python", None) is None
    ):
        context.pythonExec = sys.executable


# Check that a Java runtime which Spark can use is installed, before PySpark starts it: PySpark's
# own error comes late, and names neither the Java that was used nor what to install.

_OLDEST = 17
_NEEDED = f"Spark needs Java {_OLDEST} or newer"
_HINT = (
    "Install a JDK or JRE, 17 or 21, and set JAVA_HOME to its folder (the one that holds bin/java)."
)


def check_java(environ: Mapping[str, str], spark_home: Path) -> None:
    """Raise NotInstalledError if there is no Java, JAVA_HOME is wrong, or the Java is too old; the
    message names the Java and its path.

    Java is looked up as Spark's launch script does it. Nothing is checked where conf/spark-env.sh
    may set JAVA_HOME, and on Windows.
    """
    if (
        Path(environ.get("SPARK_CONF_DIR") or spark_home / "conf") / "spark-env.sh"
    ).exists() or os.name != "posix":
        return
    home = environ.get("JAVA_HOME")
    java = f"{home}/bin/java" if home else shutil.which("java", path=environ.get("PATH"))
    if java is None:
        raise NotInstalledError(
            f"{_NEEDED}, and none was found: JAVA_HOME is not set and no java is on the PATH.",
            hint=_HINT,
        )
    if not (os.path.isfile(java) and os.access(java, os.X_OK)):
        raise NotInstalledError(
            f"{_NEEDED}; JAVA_HOME is {home}, where there is no bin/java.", hint=_HINT
        )
    version = java_version(java)
    if version is not None and _major(version) < _OLDEST:
        where = f"JAVA_HOME is {home}" if home else f"java on the PATH is {java}"
        raise NotInstalledError(f"{_NEEDED}; {where}, which is Java {version}.", hint=_HINT)


def java_version(java: str) -> str | None:
    """Return the version of a Java executable, or None if it cannot be determined. The `release`
    file of the installation is read first, since starting Java takes longer."""
    release = Path(os.path.realpath(java)).parent.parent / "release"
    try:
        if release.is_file() and (
            version := re.search(
                r'^JAVA_VERSION="?([\d._]+)', release.read_text(errors="replace"), re.MULTILINE
            )
        ):
            return version[1]
        output = subprocess.run(
            [java, "-version"], capture_output=True, text=True, timeout=30, check=False
        )
    except (OSError, subprocess.SubprocessError):
        return None
    version = re.search(r'version "([\d._]+)', output.stderr + output.stdout)
    return version[1] if version else None


def _major(version: str) -> int:
    first, _, rest = version.partition(".")
    return int(rest.partition(".")[0]) if first == "1" and rest else int(re.match(r"\d+", first)[0])  # type: ignore[index]


def is_small(frame: DataFrame, most: int) -> bool:
    """Tell whether Spark expects the rows of a DataFrame to take at most so many bytes. False where
    Spark does not say: on Spark Connect, and if its plans have changed."""
    if not is_classic(frame):
        return False
    try:
        return estimated_bytes(frame) <= most
    except NOT_AS_KNOWN as error:
        fall_back(
            "The estimated size of a frame",
            error,
            "Rows are the same, but small frames are written as if they were large.",
        )
        return False
