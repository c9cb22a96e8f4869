"""Run functions of Frazil as Python tasks on Spark's workers, and check that the workers have the
driver's Frazil and see its files.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
import tempfile
import zipimport
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.metadata import PackageNotFoundError, version
from types import ModuleType
from typing import Any

import pyarrow as pa

from frazil.errors import InvalidInput, NotInstalledError
from frazil.ops.session import Session
from frazil.spark.host.interruptible import interruptible
from frazil.spark.host.jvm import context_of, default_parallelism, largest_heap, setting
from frazil.spec.options import size_in_bytes
from frazil.storage.base import translated_errors

_checked: set[str] = set()


@cache
def frazil_version() -> str:
    """Return the version of the installed package; "0" where it is on the path without being
    installed.
    """
    try:
        return version("frazil")
    except PackageNotFoundError:
        return "0"


def prepare() -> None:
    """Prepare a worker's Python for a task: do without the import of pandas, and keep the import
    caches of zip files until one changes.

    PySpark 4.1 invalidates the import caches before each task. Up to Python 3.12 the directories of
    Spark's zip files on the path are then read again by Python code, which takes 0.2 s per task.
    """
    without_pandas()
    for finder in list(sys.path_importer_cache.values()):
        if isinstance(finder, zipimport.zipimporter) and "invalidate_caches" not in vars(finder):
            checked = partial(_invalidate_if_changed, finder, [_stamp(finder.archive)])
            vars(finder)["invalidate_caches"] = checked


def _invalidate_if_changed(
    finder: zipimport.zipimporter, last_stamp: list[tuple[int, int] | None]
) -> None:
    if (stamp := _stamp(finder.archive)) != last_stamp[0]:
        last_stamp[0] = stamp
        type(finder).invalidate_caches(finder)


def _stamp(path: str) -> tuple[int, int] | None:
    """Return the time of modification and the size of a file, None if it cannot be read."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size


def guarded(
    module: str, function: str, *arguments: object
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return `module.function(*arguments, batches)` as a function for mapInArrow that first checks
    which Frazil the worker has.

    The arguments are pickled here and unpickled after the check, since a worker without Frazil, or
    with another version, could not load them: it would fail with an error that says nothing of the
    reason. For the same reason the task imports Frazil only by name.
    """
    from pyspark import cloudpickle

    version, payload = frazil_version(), cloudpickle.dumps(arguments)

    def task(batches: Iterator[pa.RecordBatch]) -> Any:
        import importlib
        import pickle
        import sys as worker

        try:
            workers = importlib.import_module("frazil.spark.host.workers")
            version_there = workers.frazil_version()
            call: Any = (
                getattr(importlib.import_module(module), function)
                if version_there == version
                else None
            )
        except ImportError as e:
            raise RuntimeError(
                f"FRAZIL_WORKER: the Python of a Spark worker ({worker.executable}) cannot import Frazil {version}: {e}. "
                "Install frazil there, or ship a packed environment (spark.archives and PYSPARK_PYTHON)."
            ) from None
        if version_there != version:
            raise RuntimeError(
                f"FRAZIL_WORKER: a Spark worker ({worker.executable}) has Frazil {version_there}, the driver has {version}."
            )
        workers.prepare()
        yield from call(*pickle.loads(payload), batches)

    return task


def check_workers(spark: Session) -> None:
    """Check, once per session and before other jobs, that Spark's workers can import this version
    of Frazil. Local sessions whose workers run this Python are not checked.

    Raises NotInstalledError, which names the worker's Python, if one lacks Frazil or has another
    version.
    """
    master = _master(spark)
    python = shutil.which(_python_of(spark))
    if (
        master.startswith("local")
        and python
        and os.path.samefile(os.path.dirname(python), os.path.dirname(sys.executable))
    ):
        return
    key = str(spark.conf.get("spark.app.id", master))
    if key in _checked:
        return
    slots = _slots(spark)
    try:
        interruptible(
            spark,
            spark.range(0, slots, 1, slots)
            .mapInArrow(guarded("frazil.spark.host.workers", "answer"), "ok long")
            .collect,
        )
    except Exception as e:
        raise worker_error(e) or e from e
    _checked.add(key)


def _python_of(spark: Session) -> str:
    """Return the Python executable that workers are started with. The SparkContext is asked first:
    `session.use_this_python` may have changed it there."""
    if (context := context_of(spark)) is not None:
        return str(context.pythonExec)
    return os.environ.get("PYSPARK_PYTHON") or str(
        spark.conf.get("spark.pyspark.python", None) or "python3"
    )


def _master(spark: Session) -> str:
    return str(setting(spark, "spark.master", ""))


def check_shared(spark: Session, directory: str) -> None:
    """Check that the workers of a cluster see a directory of a local path, else the files that they
    write would be lost. The check runs once per session and directory; with a local master there is
    nothing to check.

    Raises InvalidInput, which names the directory.
    """
    key = f"{setting(spark, 'spark.app.id', '')} {directory}"
    if _master(spark).startswith("local") or key in _checked:
        return
    with translated_errors(directory, "write into"):
        os.makedirs(directory, exist_ok=True)
        descriptor, probe = tempfile.mkstemp(prefix=".frazil-probe-", dir=directory)
        os.close(descriptor)
    try:
        slots = spark.range(0, _slots(spark), 1, _slots(spark))
        answers = interruptible(
            spark,
            slots.mapInArrow(
                guarded("frazil.spark.host.workers", "sees", probe), "ok long"
            ).collect,
        )
    finally:
        os.unlink(probe)
    if any(r["ok"] == 0 for r in answers):
        raise InvalidInput(
            f"Spark's workers cannot see {directory}, which holds the table.",
            hint="Put the table on a file system that driver and workers share, or on an object store.",
        )
    _checked.add(key)


def sees(path: str, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Return, in a worker, 1 if a path exists there and else 0, per batch: the task of
    `check_shared`.
    """
    for _ in batches:
        yield pa.record_batch({"ok": pa.array([int(os.path.exists(path))], pa.int64())})


def parallelism(spark: Session) -> int:
    """Return how many tasks a session runs at once; on Spark Connect, where that is not known, its
    number of shuffle partitions.
    """
    return default_parallelism(spark) or int(spark.conf.get("spark.sql.shuffle.partitions", "200"))


def heap_of_a_task(spark: Session) -> int:
    """Return the bytes of a JVM's heap per task that the JVM runs at once. Where the cores of an
    executor are not set, the executor counts as running all tasks of the session."""
    conf, master = spark.conf, _master(spark)
    if master.startswith("local") and not master.startswith("local-cluster"):
        heap = largest_heap(spark) or size_in_bytes(str(conf.get("spark.driver.memory", "1g")))
        tasks = default_parallelism(spark) or os.cpu_count() or 1
    else:
        heap = size_in_bytes(str(conf.get("spark.executor.memory", "1g")))
        cores = conf.get("spark.executor.cores", None)
        tasks = int(cores) // int(conf.get("spark.task.cpus", "1")) if cores else parallelism(spark)
    return heap // max(1, tasks)


def _slots(spark: Session) -> int:
    """Return a number of tasks large enough that, as a rule, every worker gets one."""
    return max(2, 2 * (default_parallelism(spark) or 1))


def answer(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Return, in a worker, a count of rows: the task of `check_workers`, which only asks whether it
    can run.
    """
    rows = sum(b.num_rows for b in batches)
    yield pa.record_batch({"ok": pa.array([rows], pa.int64())})


def marked(text: str, mark: str) -> str | None:
    """Return the message that a task raised behind a mark, or None. The mark is looked up behind
    the name of the exception, since the traceback also shows the line of source that raises it."""
    prefix = "RuntimeError: " + mark
    start = text.find(prefix)
    return None if start < 0 else text[start + len(prefix) :].splitlines()[0]


def worker_error(error: BaseException) -> NotInstalledError | None:
    """Return the error to raise if a Spark job failed because of a worker's Python, else None."""
    text = str(error)
    if (message := marked(text, "FRAZIL_WORKER: ")) is not None:
        return NotInstalledError(
            message, hint="docs/spark.md shows how to ship a packed environment."
        )
    for line in text.splitlines():
        if "ModuleNotFoundError" in line or "PYTHON_VERSION_MISMATCH" in line:
            hint = (
                "With a local master, frazil.install(spark) makes workers run this Python; else set PYSPARK_PYTHON before Spark starts. "
                "docs/spark.md shows how to ship a packed environment."
            )
            return NotInstalledError(f"A Spark worker cannot run Frazil: {line.strip()}", hint=hint)
    return None


_PANDAS = "pandas"


def without_pandas() -> None:
    """Make pyarrow look for pandas now and not find it, until pandas is imported. Does nothing
    where pandas is imported already, or where this version of pyarrow cannot look again.
    """
    if _PANDAS in sys.modules or not hasattr(type(getattr(pa.lib, "_pandas_api", None)), "pd"):
        return
    finder = _PandasFinder()
    sys.meta_path.insert(0, finder)
    pa.array([0])
    finder.hidden = False


class _PandasFinder(MetaPathFinder):
    """Hide pandas from pyarrow's first look. Later find pandas as the import system does, and have
    pyarrow look again after the import.
    """

    hidden = True

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != _PANDAS:
            return None
        if self.hidden:
            raise ModuleNotFoundError("pandas is hidden from pyarrow's first look", name=_PANDAS)
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(_PANDAS)
        if spec is not None and spec.loader is not None:
            spec.loader = _LoaderThatTellsPyarrow(spec.loader)
        return spec


class _LoaderThatTellsPyarrow(Loader):
    """Load pandas by its own loader, and have pyarrow look for pandas again as soon as the import
    has ended.
    """

    def __init__(self, loader: Loader):
        self._loader = loader

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        pa.lib._pandas_api.pd  # noqa: B018 - reading it makes pyarrow look for pandas
