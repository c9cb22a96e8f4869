"""Run groups of work as Spark tasks: Spark schedules, places and retries them, Arrow reads and
writes the files, no row passes the JVM.

Groups are serialised with the job, and results come back pickled. An error that a retry cannot help
is returned as a result, so that Spark does not retry the task; any other error makes Spark retry
it. File names carry the task's id, which tells attempts apart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql import DataFrame

from frazil.errors import CorruptData, InvalidInput
from frazil.ops.session import Session
from frazil.spark.host.failures import failure
from frazil.spark.host.interruptible import interruptible
from frazil.spark.host.workers import check_shared, check_workers, parallelism
from frazil.spark.tasks.numbered_groups import jobs_over_groups
from frazil.spark.tasks.stragglers import settle, speculates
from frazil.spark.tasks.this_task import this_task
from frazil.spec.metadata import TableMetadata
from frazil.storage import Storage
from frazil.storage.locations import data_root
from frazil.tasks.runner import Place, place

G = TypeVar("G")
R = TypeVar("R")
REPORT = "number long, result binary, retried boolean"
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
        check_workers(self.spark)
        self.repeats = self.repeats or speculates(self.spark)
        for frame, count in jobs_over_groups(
            self.spark, groups, REPORT, __name__, "work_on", cloudpickle.dumps(work)
        ):
            yield from self._job(frame, count)
        if speculates(
            self.spark
        ):  # speculative copies that were not needed may write until they are ended, and a little longer
            self.linger = settle(self.spark)

    def _job(self, frame: DataFrame, count: int) -> list[Any]:
        """Run one job of `count` groups and return their results in order."""
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


def work_on(number: int, group: Any, payload: bytes) -> Iterator[pa.RecordBatch]:
    """Compute the result of one group in a worker; an error that a retry cannot help is returned as
    the result.
    """
    task, work = this_task(), cloudpickle.loads(payload)
    with place(Place(number, task.attempt, 1)):
        try:
            failed, result = False, work(group)
        except _FINAL as error:
            failed, result = True, error
    pickled = pa.array([cloudpickle.dumps((failed, result))], pa.binary())
    yield pa.record_batch(
        {"number": pa.array([number]), "result": pickled, "retried": pa.array([task.retried])}
    )
