"""Partition commit at the end of a run: all runs of one checkpoint have the same query id, and
Spark tells of their ends late.
"""

import threading
import time

import pytest

import frazil
from frazil.spark.streams.sink.files import _FolderBatches
from frazil.spark.streams.sink.partition_commits import PartitionListener
from frazil.spark.streams.sink.writer import BatchWriter
from tests.builders.stream_folders import SCHEMA, FolderSource

pytestmark = [pytest.mark.spark, pytest.mark.versions]
KIND, TRIGGER, DELAY, END = (
    f"sink.partition-commit.{n}" for n in ("policy.kind", "trigger", "delay", "end-input")
)
AT_THE_END = {
    KIND: "custom",
    TRIGGER: "partition-time",
    DELAY: "9 d",
    "watermark-column": "at",
    END: "true",
}
SECONDS = 30
BEFORE, NOW = "2026-01-01", "2026-01-02"


class Stream:
    """A stream of batches of ten rows into a table or a plain folder. Its policy counts the rows of
    a partition that it is told of; `after`: called after each batch with how many batches all runs
    have written."""

    def __init__(self, kind, spark, catalog, place, patch):
        self.spark, self.place = spark, place
        self.source, self.told, self.done, self.after = (
            FolderSource(spark, place / "in"),
            [],
            0,
            lambda n: None,
        )
        self.table = (
            catalog.create_table("db.t", SCHEMA, partition_by=["dt"]) if kind == "table" else None
        )
        of, name = (BatchWriter, "__call__") if kind == "table" else (_FolderBatches, "write")
        own = getattr(of, name)

        def write(batches, rows, batch_id):
            own(batches, rows, batch_id)
            self.done += 1
            self.after(self.done)

        patch.setattr(of, name, write)

    def put(self, dt, batches=1):
        for _ in range(batches):
            first = 10 * self.source.count
            self.source.put(*((first + i, "2026-01-01 10:00:00", dt) for i in range(10)))

    def _announced(self, context):
        dt = context.partition_values[0]
        if self.table is not None:
            rows = self.table.refresh().scan(row_filter=f"dt = '{dt}'").count()
        else:
            rows = self.spark.read.parquet(str(self.place / "out")).where(f"dt = '{dt}'").count()
        self.told.append((dt, rows))

    def start(self, ends=True, **options):
        options = options or AT_THE_END
        if self.table is not None:
            writer = self.table.write_stream(
                self.source.frame(), policies=[self._announced], **options
            )
        else:
            place = str(self.place / "out")
            writer = frazil.write_stream_files(
                self.source.frame(),
                place,
                partition_by=["dt"],
                policies=[self._announced],
                **options,
            )
        writer = writer.option("checkpointLocation", str(self.place / "cp"))
        return (writer.trigger(availableNow=True) if ends else writer).start()


class HeldBack:
    """Hold back what Spark tells its listeners, at the first event of a kind, until `go` is set.
    `passed`: the end of a run was told.
    """

    def __init__(self, patch, event):
        self.held, self.go, self.passed = threading.Event(), threading.Event(), threading.Event()
        own, terminated = getattr(PartitionListener, event), PartitionListener.onQueryTerminated

        def late(listener, told):
            self.held.set()
            assert self.go.wait(SECONDS)
            own(listener, told)

        def ended(listener, told):
            (late if event == "onQueryTerminated" else terminated)(listener, told)
            self.passed.set()

        patch.setattr(PartitionListener, event, late)
        patch.setattr(PartitionListener, "onQueryTerminated", ended)


def wait_for(condition):
    end = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.fixture(params=["table", "folder"])
def stream(request, session, catalog, tmp_path, monkeypatch):
    return Stream(request.param, session, catalog, tmp_path, monkeypatch)


@pytest.mark.parametrize("event", ["onQueryProgress", "onQueryTerminated"])
def test_the_late_end_of_the_run_before_announces_no_partition_that_the_next_run_is_writing(
    stream, monkeypatch, event
):
    late = HeldBack(monkeypatch, event)
    stream.put(BEFORE)
    first = stream.start()
    wait_for(lambda: late.held.is_set() and not first.isActive)
    stream.put(NOW, batches=5)

    def let_the_end_come(done):
        if done == 2:
            late.go.set()
            assert late.passed.wait(SECONDS)
            time.sleep(0.3)  # until every listener has heard it

    stream.after = let_the_end_come
    second = stream.start()
    second.awaitTermination()
    assert second.id == first.id and late.passed.is_set() and stream.done == 6
    wait_for(lambda: len(stream.told) == 2)
    assert sorted(stream.told) == [(BEFORE, 10), (NOW, 50)]


def test_a_run_that_the_start_of_the_next_one_stops_is_not_at_the_end_of_its_input(
    stream, monkeypatch
):
    late = HeldBack(monkeypatch, "onQueryTerminated")
    late.go.set()
    stream.put(NOW, batches=5)
    starting = threading.Event()

    def stay_in_the_batch(done):
        if done == 1:
            assert starting.wait(SECONDS)
            time.sleep(0.5)  # the start of the next run waits for this batch
        elif done == 2:
            assert late.passed.wait(SECONDS)

    stream.after = stay_in_the_batch
    first = stream.start()
    wait_for(lambda: stream.done == 1)
    starting.set()
    second = stream.start()
    second.awaitTermination()
    assert second.id == first.id and first.exception() is None and not first.isActive
    assert stream.told == [(NOW, 50)]


def test_a_run_stopped_through_another_object_of_its_query_is_not_at_the_end_of_its_input(
    stream, session, monkeypatch
):
    late = HeldBack(monkeypatch, "onQueryTerminated")
    late.go.set()
    stream.put(NOW, batches=5)
    stopping = threading.Event()
    stream.after = lambda done: stopping.wait(SECONDS) and time.sleep(0.5)
    query = stream.start()
    wait_for(lambda: stream.done == 1)
    stopping.set()
    session.streams.get(query.id).stop()
    # awaitTermination takes the listener away, and Spark may tell of the end only after that.
    assert late.passed.wait(SECONDS) and not query.isActive
    query.awaitTermination()
    assert 1 <= stream.done < 5 and stream.told == []


def test_the_late_end_of_the_run_before_leaves_the_next_run_its_listener(
    stream, session, monkeypatch
):
    late = HeldBack(monkeypatch, "onQueryProgress")
    idle = {KIND: "custom", TRIGGER: "idle", DELAY: "1 s"}
    stream.put(BEFORE)
    first = stream.start(**idle)
    wait_for(lambda: late.held.is_set() and not first.isActive)
    session.conf.set("spark.sql.streaming.noDataProgressEventInterval", "300")
    stream.put(NOW)
    second = stream.start(ends=False, **idle)
    try:
        wait_for(lambda: stream.done == 2)
        late.go.set()
        wait_for(lambda: (NOW, 10) in stream.told)
        assert late.passed.is_set() and second.exception() is None
    finally:
        second.stop()
        session.conf.unset("spark.sql.streaming.noDataProgressEventInterval")
