"""Run groups of work as Spark tasks: Spark schedules, places and retries them, Arrow reads and
writes the files, no row passes the JVM.

Groups are serialised with the job, and results come back pickled. An error that a retry cannot help
is returned as a result, so that Spark does not retry the task; any other error makes Spark retry
it. File names carry the task's id, which tells attempts apart. Tasks that outlive their job
(speculative copies, the other tasks of a failed job) are waited for, and what they wrote is
removed.

With a local master the executor is the driver's JVM, so workers see the same cores, files and
memory as the driver's Python does, but each must be started, import Frazil and be sent its work:
the first change of a session waits 2 s for that. There the work runs in threads of the driver's
Python instead (docs/adr/0033).
"""

from __future__ import annotations

import contextlib
import itertools
import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql import DataFrame

from frazil.errors import CorruptData, InvalidInput
from frazil.ops.session import Session
from frazil.spark.host.failures import failure
from frazil.spark.host.interruptible import cancel_jobs_of_client, interruptible
from frazil.spark.host.jvm import default_parallelism, running_tasks, setting
from frazil.spark.host.settings import temporarily
from frazil.spark.host.workers import check_shared, check_workers, guarded, parallelism
from frazil.spark.tasks.numbered_groups import jobs_over_groups, over_groups
from frazil.spark.tasks.this_task import this_task
from frazil.spec.metadata import TableMetadata
from frazil.storage import Storage
from frazil.storage.locations import data_root
from frazil.tasks.attempts import Attempts, WriteOperation
from frazil.tasks.runner import InProcess, Place, Runner, place

G = TypeVar("G")
R = TypeVar("R")
REPORT = "number long, result binary, retried boolean"
_DIVIDED = "part int, source long, number long, rows binary"
_RECORDS = "spark.sql.execution.arrow.maxRecordsPerBatch"
_BATCHES = 4  # of rows that Spark hands to a Python worker at once
_FINAL = (InvalidInput, CorruptData)  # errors that a retry cannot help


@dataclass
class SparkRunner:
    """Implement `frazil.tasks.runner.Runner` on a Spark session. `repeats` (whether a task may have
    run twice) and `linger` (for how many seconds ended tasks may still write) are known once `run`
    has yielded its results or has failed."""

    spark: Session
    directory: str = ""  # the folder that tasks write to, for errors that name no file
    repeats: bool = field(default=False, init=False)
    linger: float = field(default=0.0, init=False)

    @property
    def parallelism(self) -> int:
        """Return the number of tasks that the session runs at the same time."""
        return parallelism(self.spark)

    def run(self, work: Callable[[G], R], groups: Sequence[G]) -> Iterator[R]:
        """Yield the results in the order of the groups. Raises the error of `work` where it is one
        of Frazil's, else Spark's error.
        """
        for frame, count in jobs_over_groups(
            self.spark, groups, REPORT, __name__, "work_on", cloudpickle.dumps(work)
        ):
            yield from self._job(frame, count)
        self._settle()

    def exchange(
        self,
        divide: Callable[[G], Iterator[tuple[int, pa.RecordBatch]]],
        groups: Sequence[G],
        work: Callable[[Iterator[pa.RecordBatch]], R],
        parts: int,
    ) -> list[R]:
        """Implement `ExchangingRunner.exchange` by Spark's shuffle, for which a batch is one value:
        the shuffle is compressed, goes to disk where memory is short, and is read again by tasks
        that are tried once more.
        """
        divided = over_groups(
            self.spark, groups, _DIVIDED, __name__, "divide_on", cloudpickle.dumps(divide)
        )
        ordered = divided.repartitionById(parts, "part").sortWithinPartitions("source", "number")
        task = guarded(__name__, "work_on_part", cloudpickle.dumps(work))
        frame = ordered.select("part", "rows").mapInArrow(task, REPORT)
        with temporarily(self.spark, {_RECORDS: str(_BATCHES)}):
            results = self._job(frame, parts)
        self._settle()
        return results

    def _settle(self) -> None:
        if speculates(self.spark):
            # speculative copies that were not needed may write until they are ended, and a little
            # longer
            self.linger = settle(self.spark)

    def _job(self, frame: DataFrame, count: int) -> list[Any]:
        """Run one job of `count` groups and return their results in order."""
        check_workers(self.spark)
        self.repeats = self.repeats or speculates(self.spark)
        try:
            rows = interruptible(self.spark, frame.collect)
        except BaseException as error:
            lingering = settle(self.spark)
            self.linger = lingering if count > 1 else 0.0
            raise failure(error, self.directory) or error from error
        self.repeats = self.repeats or any(r["retried"] for r in rows)
        results = []
        for row in sorted(rows, key=lambda r: int(r["number"])):
            failed, result = cloudpickle.loads(bytes(row["result"]))
            if failed:
                raise result
            results.append(result)
        return results


def runner(spark: Session, metadata: TableMetadata, storage: Storage) -> SparkRunner:
    """Return a runner after a check that its workers have this version of Frazil and see the folder
    of a local table.

    Raises NotInstalledError where workers lack Frazil, InvalidInput where they do not see the
    folder.
    """
    check_workers(spark)
    if (root := storage.local_path(data_root(metadata.location, metadata.properties))) is not None:
        check_shared(spark, root)
    return SparkRunner(spark, data_root(metadata.location, metadata.properties))


def work_on(number: int, group: object, payload: bytes) -> Iterator[pa.RecordBatch]:
    """Compute the result of one group in a worker; an error that a retry cannot help is returned as
    the result.
    """
    yield _report(number, partial(cloudpickle.loads(payload), group))


def divide_on(number: int, group: object, payload: bytes) -> Iterator[pa.RecordBatch]:
    """Divide the rows of one group in a worker: each batch becomes one value of binary."""
    with place(Place(number, this_task().attempt, 1)):
        batches = enumerate(cloudpickle.loads(payload)(group))
        for n, (part, batch) in batches:
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, batch.schema) as writer:
                writer.write_batch(batch)
            columns = (pa.array([part], pa.int32()), pa.array([number]), pa.array([n]))
            value = sink.getvalue()
            ends = pa.py_buffer(np.array([0, value.size], np.int32))
            rows = pa.Array.from_buffers(pa.binary(), 1, [None, ends, value])
            yield pa.record_batch([*columns, rows], ["part", "source", "number", "rows"])


def work_on_part(payload: bytes, values: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Compute the result of one part in a worker, as `work_on` does of a group."""
    work, parts = (
        cloudpickle.loads(payload),
        (
            (part.as_py(), rows)
            for batch in values
            for part, rows in zip(batch.column("part"), batch.column("rows"), strict=True)
        ),
    )
    for part, of_part in itertools.groupby(parts, key=lambda value: value[0]):
        batches = (b for _, rows in of_part for b in pa.ipc.open_stream(rows.as_buffer()))
        yield _report(part, partial(work, batches))


def _report(number: int, work: Callable[[], object]) -> pa.RecordBatch:
    task = this_task()
    with place(Place(number, task.attempt, 1)):
        try:
            failed, result = False, work()
        except _FINAL as error:
            failed, result = True, error
    pickled = pa.array([cloudpickle.dumps((failed, result))], pa.binary())
    return pa.record_batch(
        {"number": pa.array([number]), "result": pickled, "retried": pa.array([task.retried])}
    )


LINGER = 2.5
"""The seconds for which the Python worker of a killed task may still write:
spark.python.task.killTimeout, and some more.
"""
_SETTLE = 15.0  # seconds to wait at most; Spark ends the Python worker of a killed task after two


def attempts_on(spark: Session, operation: WriteOperation) -> Attempts:
    """Return the attempts of an operation whose tasks run in this session."""
    return Attempts(operation, speculates(spark), partial(settle, spark))


def speculates(spark: Session) -> bool:
    """Return whether Spark may run two copies of a task at the same time (spark.speculation)."""
    return str(setting(spark, "spark.speculation", "false")).lower() == "true"


def settle(spark: Session) -> float:
    """Wait until no task of the session runs, 15 seconds at most, and return for how many seconds
    killed tasks may still write.

    Called after a job that failed or was speculated: a task that still runs may write files after
    the operation's files were removed.
    """
    end = time.monotonic() + _SETTLE
    with contextlib.suppress(Exception):
        # Spark Connect does not list running tasks; files that one leaves there are orphans
        while running_tasks(spark) and time.monotonic() < end:
            time.sleep(0.05)
    return LINGER


@contextlib.contextmanager
def folder_removed_on_error(spark: Session, storage: Storage, folder: str) -> Iterator[None]:
    """Remove a folder after an error in the block, once no task of the session runs that would
    create it again.
    """
    try:
        yield
    except BaseException:
        cancel_jobs_of_client(spark)
        settle(spark)
        remove_folder(storage, folder)
        raise


def remove_folder(storage: Storage, folder: str) -> None:
    """Delete a folder for temporary files. Errors are ignored, since files that stay are harmless
    orphans.
    """
    with contextlib.suppress(Exception):
        if storage.is_directory(folder):
            storage.delete_tree(folder)


RUN_IN = "spark.frazil.tasks.run-in"
"""The session's setting: `spark`, `driver`, or `auto` (the default), which is the driver for the
masters local, local[n] and local[*].
"""
_CHOICES = ("auto", "spark", "driver")
# not local[n,tries]: who asks for tries of a task wants Spark's tasks
_LOCAL = re.compile(r"local(\[(\d+|\*)\])?")


def runs_in_driver(spark: Session) -> bool:
    """Tell whether tasks that work from file to file run in the driver's Python. Raises
    InvalidInput for an unknown value of `RUN_IN`.
    """
    choice = str(setting(spark, RUN_IN) or "auto").lower()
    if choice not in _CHOICES:
        raise InvalidInput(
            f"{RUN_IN} is {choice!r}.", hint=f"Set it to one of {', '.join(_CHOICES)}."
        )
    if choice == "auto":
        # with Spark Connect the master is the server's
        is_classic = default_parallelism(spark) is not None
        return is_classic and _LOCAL.fullmatch(str(setting(spark, "spark.master", ""))) is not None
    return choice == "driver"


def runner_of(spark: Session, metadata: TableMetadata, storage: Storage) -> Runner:
    """Return the runner of a session for a table. Raises what `spark_runner.runner` raises, where
    tasks run in Spark.
    """
    return (
        InProcess(parallelism(spark)) if runs_in_driver(spark) else runner(spark, metadata, storage)
    )
