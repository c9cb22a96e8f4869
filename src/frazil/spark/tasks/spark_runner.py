"""A Runner whose groups are tasks of Spark: files to files by Arrow, scheduled, retried and placed by Spark; no row passes the JVM.

Groups travel with the job, results come back pickled. An error that trying again cannot help comes back as a result, so that Spark does not
try; any other lets Spark try the task again. Attempts are told apart by the task's id, which the names of files carry.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import pyarrow as pa
from pyspark import TaskContext, cloudpickle
from pyspark.sql import DataFrame

from frazil.errors import CorruptData, InvalidInput
from frazil.spark.host.failures import failure
from frazil.spark.host.interruptible import interruptible
from frazil.spark.host.workers import check_shared, check_workers, parallelism
from frazil.spark.tasks.numbered_groups import jobs_over_groups
from frazil.spark.tasks.stragglers import settle, speculates
from frazil.spec.metadata import TableMetadata
from frazil.storage import Storage
from frazil.storage.locations import data_root
from frazil.tasks.runner import Place, place

G = TypeVar("G")
R = TypeVar("R")
REPORT = "number long, result binary, again boolean"
_FINAL = (InvalidInput, CorruptData)


@dataclass
class SparkRunner:
    """`repeats` and `linger` are known once `run` has given its results, or has failed."""

    spark: Any
    directory: str = ""  # where the tasks write, for errors that name no file
    repeats: bool = field(default=False, init=False)
    linger: float = field(default=0.0, init=False)

    @property
    def parallelism(self) -> int:
        return parallelism(self.spark)

    def run(self, work: Callable[[G], R], groups: Sequence[G]) -> Iterator[R]:
        """The results in the order of the groups. Raises what `work` raised where that is Frazil's own, else Spark's error."""
        check_workers(self.spark)
        self.repeats = self.repeats or speculates(self.spark)
        for frame, count in jobs_over_groups(self.spark, groups, REPORT, __name__, "work_on", cloudpickle.dumps(work)):
            yield from self._job(frame, count)
        if speculates(self.spark):  # copies that were not needed may write on until they are ended, and a little longer
            self.linger = settle(self.spark)

    def _job(self, frame: DataFrame, count: int) -> list[Any]:
        try:
            rows = interruptible(self.spark, frame.collect)
        except BaseException as error:
            lingering = settle(self.spark)
            self.linger = lingering if count > 1 else 0.0
            raise failure(error, self.directory) or error from error
        self.repeats = self.repeats or any(r["again"] for r in rows)
        results = []
        for row in sorted(rows, key=lambda r: int(r["number"])):
            failed, result = cloudpickle.loads(bytes(row["result"]))
            if failed:
                raise result
            results.append(result)
        return results


def runner(spark: Any, metadata: TableMetadata, storage: Storage) -> SparkRunner:
    """A runner whose workers have been asked whether they can: this Frazil, and a local table's folder in their sight.

    Raises NotInstalledError and InvalidInput that say what is missing.
    """
    check_workers(spark)
    if (root := storage.local_path(data_root(metadata.location, metadata.properties))) is not None:
        check_shared(spark, root)
    return SparkRunner(spark, data_root(metadata.location, metadata.properties))


def work_on(number: int, group: Any, payload: bytes) -> Iterator[pa.RecordBatch]:
    """The worker's side: the result of one group, or the error that trying again cannot help."""
    task = TaskContext.get()
    attempt, again = (0, False) if task is None else (task.taskAttemptId(), task.attemptNumber() > 0)
    work = cloudpickle.loads(payload)
    with place(Place(number, attempt, 1)):
        outcome = _outcome(work, group)
    result = pa.array([cloudpickle.dumps(outcome)], pa.binary())
    yield pa.record_batch({"number": pa.array([number]), "result": result, "again": pa.array([again])})


def _outcome(work: Callable[[Any], Any], group: Any) -> tuple[bool, Any]:
    try:
        return False, work(group)
    except _FINAL as error:
        return True, error
