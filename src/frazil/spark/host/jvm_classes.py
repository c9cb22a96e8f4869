"""Compile Frazil's classes of Java (`spark/jvm/*.java`) with Spark's own compiler, Janino, on the
Spark that runs, and find them in its JVM.

What is compiled where it runs has no binary to wait for. The classes are kept in the user's cache
folder under a hash of the texts and of Spark's jars, so that each machine compiles them once for
each Spark, in the background while a session starts. Each file is compiled by itself: where one
does not compile, the others go on, and a warning names what is closed (`DOORS`).

A line `//since 4.2: …` or `//before 4.2: …` in a text stands for its rest on those versions only.
"""

from __future__ import annotations

import atexit
import hashlib
import json
import os
import re
import shutil
import sys
import tempfile
import threading
import weakref
import zipfile
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import pyspark

from frazil.errors import Unsupported
from frazil.ops.session import Session
from frazil.spark.host.fall_back import fall_back
from frazil.spark.host.jvm import SPARK, Jvm, classic_jvm, is_instance, jvm_of, spark_home
from frazil.spark.host.workers import frazil_version

DOORS = {
    "Answered": "Catalogs and tables are asked again for what they answered before.",
    "DefaultSource": 'Clients of a server do not write format("iceberg") by name.',
    "ExpressionTrees": "Rows are the same, but Spark finds all that change.",
    "FrameRelation": "CHANGES of Spark's SQL is closed.",
    "Functions": "Iceberg's functions of SQL (system.bucket, …) are closed.",
    "ParquetFiles": "Reads prune no files by filters that are put on a DataFrame later, or by joins.",
    "PartitionOverwrites": "INSERT OVERWRITE of partitions, and overwritePartitions outside Python, are closed.",
    "RowChanges": "mergeInto outside Python is closed, and new sessions know no catalog before a statement.",
    "RowStatements": "DELETE, UPDATE, MERGE, TRUNCATE and ANALYZE of Spark's SQL are closed.",
    "StreamWrites": "writeStream.toTable outside Python is closed.",
    "TaggedParts": "Temporary views keep the rows that they were created with.",
}
"""What is closed where a class does not compile, by the name of its file."""
_PACKAGE = "frazil.spark.jvm"
_OPEN_LOADER = SPARK + "util.MutableURLClassLoader"
_MARKED = re.compile(r"//(since|before) (\d+)\.(\d+): ")
_SERVED = "iceberg.DefaultSource"
"""The class by which Spark finds the source `iceberg`, in a jar of its own: of a server only."""
_JAR, _SERVED_JAR, _CLOSED = "frazil.jar", "iceberg.jar", "closed.json"
_LOADED: weakref.WeakKeyDictionary[Jvm, _Classes] = weakref.WeakKeyDictionary()
_LOCK = threading.Lock()


class _Classes:
    """Hold the classes of one JVM, and the sessions whose tasks load them."""

    def __init__(self, spark: Session, jvm: Jvm):
        folder = _compiled(jvm)
        self.closed = json.loads((folder / _CLOSED).read_text())
        self.jar = folder / _JAR
        self.sessions: weakref.WeakSet[Any] = weakref.WeakSet()
        self.loader = spark._jsparkSession.sharedState().jarClassLoader()
        self.loader.addURL(_url(jvm, self.jar))
        self.constructors: dict[str, Any] = {}
        self.answered: Any = None


def prepare(spark: Session) -> None:
    """Compile the classes in the background, where that was not done on this machine."""
    jvm = jvm_of(spark)
    if jvm is not None and not (kept_classes() / _CLOSED).exists():
        threading.Thread(target=_find, args=(spark, jvm, True), daemon=True).start()


def make(spark: Session, name: str, *arguments: object) -> Any:
    """Make an object of a class of `spark/jvm`, in the driver's JVM. Raises Unsupported where the
    class did not compile on this Spark.
    """
    jvm = classic_jvm(spark)
    classes = _find(spark, jvm)
    if (constructor := classes.constructors.get(name)) is None:
        if error := classes.closed.get(name.partition("$")[0]):
            raise Unsupported(f"{name} does not compile on this Spark: {error}")
        full = f"{_PACKAGE}.{name}"
        if name == _SERVED.rpartition(".")[2]:
            full = _SERVED
            _serve(spark, classes.loader, classes.jar.parent / _SERVED_JAR)
        java_class = jvm.view.java.lang.Class.forName(full, True, classes.loader)
        constructor = classes.constructors[name] = java_class.getConstructors()[0]
    array = spark.sparkContext._gateway.new_array(jvm.view.java.lang.Object, len(arguments))
    put = jvm.view.java.lang.reflect.Array.set  # which also takes objects of this process
    for place, argument in enumerate(arguments):
        put(array, place, argument)
    return constructor.newInstance(array)


_REMEMBERED = (
    "canRenameConflictingMetadataColumns", "capabilities", "changelogStateOptionKeys", "columns", "constraints", "description",
    "id", "isDeterministic", "metadataColumns", "name", "parameters", "partitioning", "properties", "schema", "tableStateOptionKeys",
    "toString", "version",
)  # fmt: skip
"""The methods of catalogs, tables and procedures whose answers an object of this process gives alike
as long as Spark has it."""


def before(spark: Session, asked: object) -> Any:
    """Return an object of the JVM that stands before one of this process and remembers what it
    always answers alike; the object itself where the classes are not compiled yet."""
    jvm = classic_jvm(spark)
    if jvm not in _LOADED and not (kept_classes() / _CLOSED).exists():
        return asked
    classes = _find(spark, jvm)
    if classes.answered is None:
        names = getattr(spark._jvm, "java.util.HashSet")()
        for name in _REMEMBERED:
            names.add(name)
        try:
            classes.answered = make(spark, "Answered", names)
        except Unsupported:
            return asked
    return classes.answered.before(asked)


def _url(jvm: Jvm, file: Path) -> Any:
    return jvm.view.java.io.File(str(file)).toURI().toURL()


def _serve(spark: Session, loader: Any, jar: Path) -> None:
    """Let the threads of a server find the classes of a jar: they look by the class loader that
    spark-submit made, which is above the sessions' own.
    """
    while is_instance(spark, _OPEN_LOADER, above := loader.getParent()):
        loader = above
    loader.addURL(_url(classic_jvm(spark), jar))


def let_tasks_load(spark: Session) -> None:
    """Let a session's tasks load the classes, as ADD JAR does."""
    classes = _find(spark, classic_jvm(spark))
    with _LOCK:
        if spark not in classes.sessions:
            spark._jsparkSession.sessionState().resourceLoader().addJar(str(classes.jar))
            classes.sessions.add(spark)


def _find(spark: Session, jvm: Jvm, early: bool = False) -> Any:
    with _LOCK:
        if (classes := _LOADED.get(jvm)) is None:
            try:
                classes = _LOADED[jvm] = _Classes(spark, jvm)
            except Exception:
                if early:  # the first statement that needs them tries again, and says why
                    return None
                raise
            for name, error in classes.closed.items():
                fall_back(f"A class of Java ({name})", RuntimeError(error), DOORS[name])
        return classes


@cache
def _texts() -> dict[str, str]:
    """Return the texts that this Spark compiles, by the names of their classes."""
    version = tuple(int(n) for n in pyspark.__version__.split(".")[:2])

    def unmarked(mark: re.Match[str]) -> str:
        since = version >= (int(mark[2]), int(mark[3]))
        return "" if since is (mark[1] == "since") else mark[0]

    return {
        file.name.removesuffix(".java"): _MARKED.sub(unmarked, file.read_text("utf-8")).replace(
            "<version>", frazil_version()
        )
        for file in sorted((resources.files("frazil.spark") / "jvm").iterdir(), key=str)
        if file.name.endswith(".java")
    }


@cache
def kept_classes() -> Path:
    """Return the folder that keeps the classes for this Spark; it may not exist."""
    jars = sorted((f.name, f.stat().st_size) for f in (spark_home() / "jars").glob("spark-*.jar"))
    key = hashlib.sha256(repr((jars, sorted(_texts().items()))).encode()).hexdigest()[:16]
    home = {"darwin": "~/Library/Caches", "win32": "~/AppData/Local"}.get(sys.platform, "~/.cache")
    cache_home = Path(os.environ.get("XDG_CACHE_HOME") or home).expanduser()
    return cache_home / "frazil" / f"spark-{pyspark.__version__}-{key}"


def _compiled(jvm: Jvm) -> Path:
    """Return a folder with the compiled classes, which are made where they are not kept."""
    place = kept_classes()
    if (place / _CLOSED).exists():
        return place
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        new = Path(tempfile.mkdtemp(prefix=place.name, dir=place.parent))
    except OSError:
        new = Path(tempfile.mkdtemp(prefix="frazil-classes-"))
    _compile(jvm, new)
    try:
        # A folder takes the place of an empty one; the one of another process stays.
        new.rename(place)
    except OSError:
        if not (place / _CLOSED).exists():
            atexit.register(shutil.rmtree, new, ignore_errors=True)
            return new
        shutil.rmtree(new, ignore_errors=True)
    return place


def _said(error: Exception) -> str:
    """Return what the innermost of the exceptions says that an error of the JVM consists of."""
    cause = getattr(error, "java_exception", None)
    while cause is not None and cause.getCause() is not None:
        cause = cause.getCause()
    return str(error if cause is None else cause.getMessage())


def _compile(jvm: Jvm, folder: Path) -> None:
    closed, names = {}, []
    for name, text in _texts().items():
        compiler = getattr(jvm.view, "org.codehaus.janino.SimpleCompiler")()
        loader = jvm.view.java.lang.Thread.currentThread().getContextClassLoader()
        compiler.setParentClassLoader(loader)
        compiler.setSourceVersion(8)
        compiler.setTargetVersion(8)
        try:
            compiler.cook(text)
        except Exception as error:  # whatever Janino raises closes this class alone
            closed[name] = _said(error)
            continue
        code = compiler.getBytecodes()
        for of_class in code:
            names.append(f"{str(of_class).replace('.', '/')}.class")
            file = folder / names[-1]
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(bytes(code[of_class]))
    for jar_name, served in ((_JAR, False), (_SERVED_JAR, True)):
        with zipfile.ZipFile(folder / jar_name, "w") as jar:
            for of_class in names:
                if of_class.startswith("iceberg/") is served:
                    jar.write(folder / of_class, of_class)
    (folder / _CLOSED).write_text(json.dumps(closed))


__all__ = ["kept_classes", "let_tasks_load", "make", "prepare"]
