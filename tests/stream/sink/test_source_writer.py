"""Streams by key through the writer of the Python data source: each call on a writer of its own, as
PySpark makes them. No Spark runs.
"""

from __future__ import annotations

import pickle
import re
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql.types import LongType, StringType, StructField, StructType

import frazil
from frazil.errors import InvalidInput, SchemaMismatch, Unsupported
from frazil.spark.engine.datasource import IcebergSource
from frazil.spark.streams.sink import keyed_writer, source_writer
from frazil.spark.streams.sink.writer import require_checkpoint

TYPES = {
    "id": LongType(),
    "p": StringType(),
    "v": LongType(),
    "op": StringType(),
    "seq": LongType(),
}
UPSERT = {"write-mode": "upsert", "key-columns": "id"}
CDC = {"write-mode": "cdc", "key-columns": "id", "order-column": "seq"}


@pytest.fixture
def table(tmp_path):
    return frazil.load_catalog("c", type="path", warehouse=str(tmp_path / "wh")).create_table(
        "db.t", "id bigint, p string, v bigint"
    )


def writer(table, columns="id p v", **options):
    schema = StructType([StructField(n, TYPES[n]) for n in columns.split()])
    return IcebergSource({"path": table.location(), **options}).streamWriter(schema, False)


def sent(monkeypatch, table, batch, *tasks, columns="id p v", **options):
    """Return the messages of tasks that have written these rows."""
    first, messages = pickle.loads(pickle.dumps(writer(table, columns, **options))), []
    for part, rows in enumerate(tasks):

        class Task:
            number = part

            def getLocalProperty(self, name):
                return {"sql.streaming.queryId": "q", "streaming.sql.batchId": str(batch)}.get(name)

            def partitionId(self):
                return self.number

            def attemptNumber(self):
                return 0

            taskAttemptId = partitionId

        monkeypatch.setattr(
            "frazil.spark.tasks.this_task.TaskContext", type("Now", (), {"get": staticmethod(Task)})
        )
        names = columns.split()
        types = [pa.int64() if isinstance(TYPES[n], LongType) else pa.string() for n in names]
        arrays = [pa.array([row[n] for row in rows], t) for n, t in enumerate(types)]
        messages.append(first.write(iter([pa.record_batch(arrays, names=names)] if rows else [])))
    return messages[::-1]  # they arrive in any order


def held(table):
    return sorted(
        (tuple(r.values()) for r in table.refresh().scan().to_arrow().to_pylist()), key=repr
    )


def files(table):
    return {str(f) for f in (Path(table.location()) / "data").rglob("*") if f.is_file()}


def unknown_files(table):
    return files(table) - {
        r["file_path"].removeprefix("file://")
        for r in table.refresh().inspect.all_files().to_pylist()
    }


@pytest.mark.parametrize("strategy", ["lookup", "equality-deletes"])
def test_the_last_row_of_each_key_over_all_tasks_is_there_once(table, monkeypatch, strategy):
    options = {**UPSERT, "upsert-strategy": strategy}
    batches = [
        [[(1, "a", 1), (1, "a", 2), (None, "a", 1)], [], [(1, "b", 3), (2, "b", 1)]],
        [[(2, "c", 9)], [(None, "c", 9)]],
    ]
    for n, tasks in enumerate(batches):
        for _ in range(2):  # the second time as after a restart that did not know of the commit
            writer(table, **options).commit(sent(monkeypatch, table, n, *tasks, **options), n)
    assert held(table) == [(1, "b", 3), (2, "c", 9), (None, "c", 9)]
    assert len(table.snapshots()) == 2 and unknown_files(table) == set()
    assert {s.summary["spark.sql.streaming.queryId"] for s in table.snapshots()} == {"q"}


def test_changes_are_applied_by_their_kind_in_the_order_of_their_column(table, monkeypatch):
    columns = "id p v op seq"
    batches = [
        [[(1, "a", 1, "c", 1), (2, "a", 9, "u", 5)], [(2, "a", 8, "u", 4), (3, "a", 1, "c", 1)]],
        [[(1, "a", 2, "d", 1)], [(3, "a", 3, "u", 2), (4, "a", 1, "d", 1)]],
    ]
    for n, tasks in enumerate(batches):
        writer(table, columns, **CDC).commit(
            sent(monkeypatch, table, n, *tasks, columns=columns, **CDC), n
        )
    assert held(table) == [(2, "a", 9), (3, "a", 3)] and unknown_files(table) == set()


def test_an_empty_batch_and_a_batch_that_failed_leave_nothing(table, monkeypatch):
    writer(table, **UPSERT).commit(sent(monkeypatch, table, 0, [], [], **UPSERT), 0)
    message = sent(monkeypatch, table, 1, [(1, "a", 1)], **UPSERT)
    assert len(files(table)) == 1
    writer(table, **UPSERT).abort([*message, None], 1)
    assert files(table) == set() and len(table.refresh().snapshots()) == 0


def test_a_column_that_the_table_lacks_is_refused_or_added(table, monkeypatch):
    tasks, columns = [[(1, "a", 1, 7)]], "id p v seq"
    with pytest.raises(SchemaMismatch, match="seq"):
        writer(table, columns, **UPSERT).commit(
            sent(monkeypatch, table, 0, *tasks, columns=columns, **UPSERT), 0
        )
    assert files(table) == set()
    merging = {**UPSERT, "merge-schema": "true"}
    writer(table, columns, **merging).commit(
        sent(monkeypatch, table, 0, *tasks, columns=columns, **merging), 0
    )
    assert held(table) == [(1, "a", 1, 7)]


def test_the_tables_property_says_upsert_where_no_option_says_otherwise(table, monkeypatch):
    table.set_properties({"write.upsert.enabled": "true"})
    assert isinstance(writer(table, **{"key-columns": "id"}), keyed_writer.KeyedStreamWriter)
    assert isinstance(writer(table, **{"write-mode": "append"}), source_writer.StreamSourceWriter)


@pytest.mark.parametrize(
    ("options", "error", "told"),
    [
        ({"write-mode": "upsert"}, InvalidInput, "needs keys"),
        ({**UPSERT, "key-columns": "x"}, InvalidInput, "'x'"),
        ({"write-mode": "cdc", "key-columns": "id"}, SchemaMismatch, "op-column"),
        ({**UPSERT, "max-continuous-empty-commits": "3"}, Unsupported, r"frazil\.install"),
        ({**UPSERT, "sink.partition-commit.policy.kind": "tag"}, Unsupported, r"frazil\.install"),
    ],
)
def test_what_cannot_work_is_refused_before_a_row_is_written(table, options, error, told):
    with pytest.raises(error) as found:
        writer(table, **options)
    assert re.search(told, str(found.value))


def test_a_query_without_a_checkpoint_is_refused_since_its_restart_would_write_all_rows_again():
    class Session:
        conf: dict[str, str] = {}

    for options in ({}, {"checkpoint-location": "c"}, {"checkpointLocation": None}):
        with pytest.raises(InvalidInput, match="A stream into table t needs a checkpoint location"):
            require_checkpoint(Session, options, "A stream into table t")
    require_checkpoint(Session, {"checkpointlocation": "c"}, "")
    Session.conf = {"spark.sql.streaming.checkpointLocation": "c"}
    require_checkpoint(Session, {}, "")
