"""Python tasks on Spark's workers: the same Frazil there as here, or one clear error."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import zipimport
from collections.abc import Callable, Iterator
from functools import cache, partial
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import pyarrow as pa

from frazil.errors import InvalidInput, NotInstalledError
from frazil.spark.host.interruptible import interruptible
from frazil.spark.host.jvm import default_parallelism, largest_heap
from frazil.spark.host.quick_arrow import without_pandas
from frazil.spec.properties import size_in_bytes
from frazil.storage.base import told

_checked: set[str] = set()


@cache
def frazil_version() -> str:
    try:
        return version("frazil")
    except PackageNotFoundError:
        return "0"


def prepare() -> None:
    """In a worker: imports are quick from now on.

    PySpark 4.1 has Python forget its import caches before each task. Up to Python 3.12 that reads the directories of Spark's zip files on
    the path again, in Python: 0.2 s a task. Here they are read again when they have changed.
    """
    without_pandas()
    for finder in list(sys.path_importer_cache.values()):
        if isinstance(finder, zipimport.zipimporter) and "invalidate_caches" not in vars(finder):
            setattr(finder, "invalidate_caches", partial(_forget, finder, [_stamp(finder.archive)]))  # noqa: B010 - mypy: a method


def _forget(finder: zipimport.zipimporter, seen: list[tuple[int, int] | None]) -> None:
    if (now := _stamp(finder.archive)) != seen[0]:
        seen[0] = now
        type(finder).invalidate_caches(finder)


def _stamp(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size


def guarded(module: str, function: str, *arguments: Any) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """`module.function(*arguments, batches)` as a task of mapInArrow. The task itself needs nothing of Frazil until it has checked it."""
    from pyspark import cloudpickle

    here, payload = frazil_version(), cloudpickle.dumps(arguments)

    def task(batches: Any) -> Any:
        import importlib
        import pickle
        import sys as worker

        try:
            workers = importlib.import_module("frazil.spark.host.workers")
            found = workers.frazil_version()
            call: Any = getattr(importlib.import_module(module), function) if found == here else None
        except ImportError as e:
            raise RuntimeError(
                f"FRAZIL_WORKER: the Python of a Spark worker ({worker.executable}) cannot import Frazil {here}: {e}. "
                "Install frazil there, or ship a packed environment (spark.archives and PYSPARK_PYTHON)."
            ) from None
        if found != here:
            raise RuntimeError(f"FRAZIL_WORKER: a Spark worker ({worker.executable}) has Frazil {found}, the driver has {here}.")
        workers.prepare()
        yield from call(*pickle.loads(payload), batches)

    return task


def check_workers(spark: Any) -> None:
    """Before any work: every worker that answers must have this Frazil. Once a session; local sessions with our own Python need no asking.

    Raises NotInstalledError, naming the worker's Python, when one has none or another version.
    """
    master = _master(spark)
    python = shutil.which(_python_of(spark))
    if master.startswith("local") and python and os.path.samefile(os.path.dirname(python), os.path.dirname(sys.executable)):
        return
    key = str(spark.conf.get("spark.app.id", master))
    if key in _checked:
        return
    slots = _slots(spark)
    try:
        interruptible(spark, spark.range(0, slots, 1, slots).mapInArrow(guarded("frazil.spark.host.workers", "answer"), "ok long").collect)
    except Exception as e:
        raise worker_error(e) or e from e
    _checked.add(key)


def _python_of(spark: Any) -> str:
    """What workers are started with: the context knows, where there is one (`session.use_this_python` may have told it)."""
    if (context := getattr(spark, "_sc", None)) is not None:
        return str(context.pythonExec)
    return os.environ.get("PYSPARK_PYTHON") or str(spark.conf.get("spark.pyspark.python", None) or "python3")


def _master(spark: Any) -> str:
    return str(spark.conf.get("spark.master", ""))


def check_shared(spark: Any, directory: str) -> None:
    """Before any work on a local path: workers of a cluster must see what the driver sees there, or their files would be lost.

    Raises InvalidInput naming the directory.
    """
    key = f"{spark.conf.get('spark.app.id', '')} {directory}"
    if _master(spark).startswith("local") or key in _checked:
        return
    with told(directory, "write into"):
        os.makedirs(directory, exist_ok=True)
        descriptor, probe = tempfile.mkstemp(prefix=".frazil-probe-", dir=directory)
        os.close(descriptor)
    try:
        slots = spark.range(0, _slots(spark), 1, _slots(spark))
        seen = interruptible(spark, slots.mapInArrow(guarded("frazil.spark.host.workers", "sees", probe), "ok long").collect)
    finally:
        os.unlink(probe)
    if any(r["ok"] == 0 for r in seen):
        raise InvalidInput(
            f"Spark's workers do not see {directory}, where the table lies.",
            hint="A table on a local path needs a file system that driver and workers share.",
        )
    _checked.add(key)


def sees(path: str, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for _ in batches:
        yield pa.record_batch({"ok": pa.array([int(os.path.exists(path))], pa.int64())})


def parallelism(spark: Any) -> int:
    """Groups that a session can work on at once; on Spark Connect, which does not tell, the partitions of a shuffle."""
    return default_parallelism(spark) or int(spark.conf.get("spark.sql.shuffle.partitions", "200"))


def heap_of_a_task(spark: Any) -> int:
    """Bytes of a JVM's heap for each of the tasks that it runs at once. Where nothing tells how many these are, as many as the session
    runs in all."""
    conf, master = spark.conf, _master(spark)
    if master.startswith("local") and not master.startswith("local-cluster"):
        heap = largest_heap(spark) or size_in_bytes(str(conf.get("spark.driver.memory", "1g")))
        tasks = default_parallelism(spark) or os.cpu_count() or 1
    else:
        heap = size_in_bytes(str(conf.get("spark.executor.memory", "1g")))
        cores = conf.get("spark.executor.cores", None)
        tasks = int(cores) // int(conf.get("spark.task.cpus", "1")) if cores else parallelism(spark)
    return heap // max(1, tasks)


def _slots(spark: Any) -> int:
    """Tasks enough that every worker gets one, as a rule."""
    return max(2, 2 * (default_parallelism(spark) or 1))


def answer(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    rows = sum(b.num_rows for b in batches)
    yield pa.record_batch({"ok": pa.array([rows], pa.int64())})


def marked(text: str, mark: str) -> str | None:
    """What a task said behind a mark; the traceback shows the line that raised it as well, which is not meant."""
    found = text.find("RuntimeError: " + mark)
    return None if found < 0 else text[found + len("RuntimeError: " + mark) :].splitlines()[0]


def worker_error(error: BaseException) -> NotInstalledError | None:
    """The clear error behind a failed Spark job, when the job failed because of a worker's Python."""
    text = str(error)
    if (message := marked(text, "FRAZIL_WORKER: ")) is not None:
        return NotInstalledError(message, hint="docs/spark.md has the recipe of a packed environment.")
    for line in text.splitlines():
        if "ModuleNotFoundError" in line or "PYTHON_VERSION_MISMATCH" in line:
            hint = (
                "With a local master frazil.install(spark) sees to it; else set PYSPARK_PYTHON to this Python before the session starts. "
                "docs/spark.md has the recipe of a packed environment."
            )
            return NotInstalledError(f"A Spark worker cannot run Frazil: {line.strip()}", hint=hint)
    return None
