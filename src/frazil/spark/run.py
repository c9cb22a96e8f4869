"""A Runner whose groups are tasks of Spark: files to files by Arrow, scheduled, retried and placed by Spark; no row passes the JVM.

Groups travel with the job, results come back pickled. An error that trying again cannot help comes back as a result, so that Spark does not
try; any other lets Spark try the task again. Attempts are told apart by the task's id, which the names of files carry.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import pyarrow as pa
from pyspark import TaskContext, cloudpickle

from frazil.arrow.runner import Place, place
from frazil.errors import CorruptData, InvalidInput
from frazil.spark.arrow_read import parallelism
from frazil.spark.failures import failure
from frazil.spark.workers import check_shared, check_workers, guarded, settle, speculates
from frazil.spec.metadata import TableMetadata
from frazil.storage import Storage
from frazil.storage.locations import data_root

G = TypeVar("G")
R = TypeVar("R")
REPORT = "number long, result binary, again boolean"
JOB_BYTES = 16 << 20  # packed groups that travel with one job at most: every task gets all of them
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
        payload = cloudpickle.dumps(work)
        for packed in _jobs(groups):
            yield from self._job(payload, packed)
        if speculates(self.spark):  # copies that were not needed may write on until they are ended, and a little longer
            self.linger = settle(self.spark)

    def _job(self, payload: bytes, packed: list[bytes]) -> list[Any]:
        count = len(packed)
        task = guarded("frazil.spark.run", "work_on", payload, packed)
        try:
            rows = self.spark.range(0, count, 1, count).mapInArrow(task, REPORT).collect()
        except BaseException as error:
            lingering = settle(self.spark)
            self.linger = lingering if count > 1 else 0.0
            raise failure(error, self.directory) or error from error
        self.repeats = self.repeats or any(r["again"] for r in rows)
        found: list[Any] = [None] * count
        for row in rows:
            failed, result = cloudpickle.loads(bytes(row["result"]))
            if failed:
                raise result
            found[row["number"]] = result
        return found


def runner(spark: Any, metadata: TableMetadata, storage: Storage) -> SparkRunner:
    """A runner whose workers have been asked whether they can: this Frazil, and a local table's folder in their sight.

    Raises NotInstalledError and InvalidInput that say what is missing.
    """
    check_workers(spark)
    if (root := storage.local_path(data_root(metadata.location, metadata.properties))) is not None:
        check_shared(spark, root)
    return SparkRunner(spark, data_root(metadata.location, metadata.properties))


def _jobs(groups: Sequence[Any]) -> Iterator[list[bytes]]:
    """Groups packed, in as few lists as their size allows."""
    held: list[bytes] = []
    size = 0
    for group in groups:
        one = zlib.compress(cloudpickle.dumps(group), 1)
        if held and size + len(one) > JOB_BYTES:
            yield held
            held, size = [], 0
        held.append(one)
        size += len(one)
    if held:
        yield held


def work_on(payload: bytes, packed: Sequence[bytes], batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The worker's side: each number that comes in is a group to work on."""
    context = TaskContext.get()
    attempt, again = (0, False) if context is None else (context.taskAttemptId(), context.attemptNumber() > 0)
    work = cloudpickle.loads(payload)
    for numbers in batches:
        for number in numbers.column(0).to_pylist():
            with place(Place(number, attempt, 1)):
                outcome = _outcome(work, cloudpickle.loads(zlib.decompress(packed[number])))
            result = pa.array([cloudpickle.dumps(outcome)], pa.binary())
            yield pa.record_batch({"number": pa.array([number]), "result": result, "again": pa.array([again])})


def _outcome(work: Callable[[Any], Any], group: Any) -> tuple[bool, Any]:
    try:
        return False, work(group)
    except _FINAL as error:
        return True, error
