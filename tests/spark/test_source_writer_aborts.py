"""The batch writer of the Python data source: what Spark's abort may remove, before, after and
without a commit.
"""

from __future__ import annotations

import pickle
from pathlib import Path

import pyarrow as pa
import pytest

import frazil
from frazil.errors import CommitStateUnknownException, InvalidInput
from frazil.testing import FlakyBackend
from tests.spark.streams.test_stream_sink import unknown_files

pytestmark = pytest.mark.spark


@pytest.fixture
def table(tmp_path: Path) -> frazil.Table:
    return frazil.load_catalog("c", type="path", warehouse=str(tmp_path)).create_table(
        "db.t", "id bigint"
    )


def source_writer(table: frazil.Table):
    from pyspark.sql.types import LongType, StructField, StructType

    from frazil.spark.engine.datasource import IcebergSource

    return IcebergSource({"path": table.location()}).writer(
        StructType([StructField("id", LongType())]), False
    )


def written(writer, monkeypatch: pytest.MonkeyPatch, *ids: int):
    """The message of a task that has written rows, as if in a worker."""

    class Task:
        def attemptNumber(self) -> int:
            return 0

        def getLocalProperty(self, key: str) -> None:
            return None

        partitionId = taskAttemptId = attemptNumber

    monkeypatch.setattr(
        "frazil.spark.tasks.this_task.TaskContext", type("Now", (), {"get": staticmethod(Task)})
    )
    return writer.write(iter([pa.record_batch({"id": list(ids)})]))


def ids(table: frazil.Table) -> list[int]:
    return sorted(table.refresh().scan().to_arrow().column("id").to_pylist())


def test_a_commit_that_was_applied_loses_no_file_to_the_abort_that_follows(table, monkeypatch):
    writer = source_writer(table)
    message = written(writer, monkeypatch, 1, 2)
    # in a process of its own, which dies before it answers
    pickle.loads(pickle.dumps(writer)).commit([message])
    pickle.loads(pickle.dumps(writer)).abort([message])
    assert ids(table) == [1, 2] and unknown_files(table) == set()


def test_a_commit_of_unknown_outcome_loses_no_file_to_the_abort_that_follows(table, monkeypatch):
    writer = source_writer(table)
    message = written(writer, monkeypatch, 1, 2)
    table.set_properties({"commit.status-check.num-retries": "0"})
    flaky = FlakyBackend(table._backend, ["applied"], unreachable_loads=9)
    loaded = table.refresh()._loaded
    with monkeypatch.context() as patched:
        patched.setattr(
            type(writer), "table", property(lambda _: (flaky, loaded, table.location()))
        )
        with pytest.raises(CommitStateUnknownException):
            writer.commit([message])
    writer.abort([message])
    assert len(flaky.fired) == 1 and ids(table) == [1, 2] and unknown_files(table) == set()


def test_an_abort_of_a_failed_job_removes_the_files_of_its_tasks(table, monkeypatch):
    monkeypatch.setattr("frazil.spark.engine.datasource.LINGER", 0.0)
    writer = source_writer(table)
    message = written(writer, monkeypatch, 1)
    assert len(unknown_files(table)) == 1
    writer.abort([message, None])
    assert unknown_files(table) == set() and ids(table) == []


def test_a_commit_that_fails_before_it_begins_removes_its_files_itself(table, monkeypatch):
    writer = source_writer(table)
    message = written(writer, monkeypatch, 1)

    def unreadable(_: object):
        raise InvalidInput("The catalog is gone.")

    with monkeypatch.context() as patched:
        patched.setattr(type(writer), "table", property(unreadable))
        with pytest.raises(InvalidInput, match="gone"):
            writer.commit([message])
    writer.abort([message])
    assert unknown_files(table) == set() and ids(table) == []


def test_spark_aborts_a_write_whose_commit_was_applied_and_raised_and_every_row_stays(
    plain_spark, table
):
    from frazil.spark.engine.datasource import IcebergSource, SourceWriter

    class AnswerLost(SourceWriter):
        def commit(self, messages):
            super().commit(messages)
            raise OSError("the answer was lost")

        def abort(self, messages):
            super().abort(messages)
            Path(where, "aborted").write_text(str(len(messages)))

    class LosesAnswer(IcebergSource):
        @classmethod
        def name(cls) -> str:
            return "loses_answer"

        def writer(self, schema, overwrite):
            return AnswerLost(self.options, schema, overwrite)

    where = table.location()
    plain_spark.dataSource.register(LosesAnswer)
    with pytest.raises(Exception, match="the answer was lost"):
        plain_spark.range(4, numPartitions=2).write.format("loses_answer").mode("append").save(
            where
        )
    assert Path(where, "aborted").read_text() == "2"
    assert ids(table) == [0, 1, 2, 3] and unknown_files(table) == set()
