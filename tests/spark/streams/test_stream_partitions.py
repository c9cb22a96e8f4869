"""Partition commit of streams into Iceberg tables: with the batches' commits, by watermark, when a
query is idle, at the end of input.
"""

import time
from pathlib import Path

import pytest

from frazil.errors import InvalidInput, Unsupported
from frazil.spark.streams.sink.writer import _commit_partitions
from frazil.stream.hooks import MicroBatch
from frazil.stream.partitions.options import partition_commit_options
from tests.builders.frames import ids
from tests.builders.stream_folders import SCHEMA, FolderSource

pytestmark = pytest.mark.spark
KIND, TRIGGER, DELAY = (
    f"sink.partition-commit.{name}" for name in ("policy.kind", "trigger", "delay")
)
BY_TIME = {TRIGGER: "partition-time", DELAY: "1 d"}


@pytest.fixture
def table(catalog):
    return catalog.create_table("db.t", SCHEMA, partition_by=["dt"])


@pytest.fixture
def source(session, tmp_path):
    return FolderSource(session, tmp_path / "in")


def drained(writer, tmp_path, **options):
    query = (
        writer.options(**options)
        .option("checkpointLocation", str(tmp_path / "cp"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def commits(table):
    return {
        r["partition"].removeprefix("dt="): r
        for r in table.refresh().inspect.partition_commits().to_pylist()
        if r["committed_at"] is not None
    }


def mark_of(table, dt):
    return Path(table.location()) / "data" / f"dt={dt}" / "_SUCCESS"


def test_partitions_are_announced_by_the_watermark_and_late_rows_announce_them_again(
    table, source, tmp_path
):
    told = []
    policies = [lambda c: told.append((c.partition_values, c.late, c.watermark))]

    def run():
        frame = source.frame().withWatermark("at", "0 seconds")
        drained(
            table.write_stream(
                frame, policies=policies, **BY_TIME, **{KIND: "custom,success-file"}
            ),
            tmp_path,
        )

    source.put((1, "2026-01-01 10:00:00", "2026-01-01"), (2, "2026-01-01 11:00:00", "2026-01-01"))
    source.put((3, "2026-01-02 00:00:01", "2026-01-02"))
    run()
    assert ids(table.refresh()) == [1, 2, 3] and told == [] and commits(table) == {}
    # its batch is planned with the watermark of the third row
    source.put((4, "2026-01-02 12:00:00", "2026-01-02"))
    run()
    assert told == [(("2026-01-01",), False, 1767312001000)] and set(commits(table)) == {
        "2026-01-01"
    }
    assert mark_of(table, "2026-01-01").exists() and not mark_of(table, "2026-01-02").exists()
    source.put((5, "2026-01-01 23:00:00", "2026-01-01"))
    run()
    assert ids(table.refresh()) == [1, 2, 3, 4, 5] and [t[:2] for t in told] == [
        (("2026-01-01",), False),
        (("2026-01-01",), True),
    ]


def test_a_replayed_batch_doubles_neither_rows_nor_pending_partitions(table, source, tmp_path):
    frame, told = source.frame().withWatermark("at", "0 seconds"), []
    writer = lambda: table.write_stream(
        frame, policies=[told.append], **BY_TIME, **{KIND: "custom"}
    )
    source.put((1, "2026-01-01 10:00:00", "2026-01-01"))
    drained(writer(), tmp_path)
    for name in ("0", ".0.crc"):
        (tmp_path / "cp" / "commits" / name).unlink()
    source.put((2, "2026-01-03 10:00:00", "2026-01-03"))
    source.put((3, "2026-01-03 11:00:00", "2026-01-03"))
    drained(writer(), tmp_path)
    assert ids(table.refresh()) == [1, 2, 3] and [c.partition_values for c in told] == [
        ("2026-01-01",)
    ]


def test_the_end_of_input_announces_what_is_left_in_both_doors(spark, table, source, tmp_path):
    source.put((1, "2026-01-01 10:00:00", "2026-01-01"))
    options = {**BY_TIME, KIND: "success-file", "watermark-column": "at"}
    drained(table.write_stream(source.frame(), **options), tmp_path)
    assert not mark_of(table, "2026-01-01").exists()
    drained(
        table.write_stream(source.frame(), **options, sink_partition_commit_end_input=True),
        tmp_path,
    )
    assert mark_of(table, "2026-01-01").exists()
    source.put((2, "2026-01-05 10:00:00", "2026-01-05"))
    writer = (
        spark.readStream.schema(SCHEMA)
        .json(str(source.place))
        .writeStream.format("iceberg")
        .options(**options)
    )
    writer = writer.option("sink.partition-commit.end-input", True).option(
        "checkpointLocation", str(tmp_path / "cp2")
    )
    writer.trigger(availableNow=True).start(table.location()).awaitTermination()
    assert mark_of(table, "2026-01-05").exists()


def test_an_idle_query_announces_its_last_partitions_without_new_data(
    session, table, source, tmp_path
):
    source.put((1, "2026-01-01 10:00:00", "a"))
    session.conf.set("spark.sql.streaming.noDataProgressEventInterval", "500")
    writer = table.write_stream(
        source.frame(), **{KIND: "success-file,tag", TRIGGER: "idle", DELAY: "1 s"}
    )
    query = writer.option("checkpointLocation", str(tmp_path / "cp")).start()
    try:
        end = time.monotonic() + 120
        while "a" not in commits(table) and time.monotonic() < end:
            time.sleep(0.2)
        assert (
            mark_of(table, "a").exists()
            and set(commits(table)) == {"a"}
            and query.exception() is None
        )
        assert len(table.refresh().refs()) == 2  # main, and the partition's tag
    finally:
        query.stop()
        session.conf.unset("spark.sql.streaming.noDataProgressEventInterval")


def test_what_cannot_work_is_refused_before_the_query_starts(plain_spark, catalog, table, source):
    frame = source.frame()
    flat = catalog.create_table("db.flat", SCHEMA)
    for said, into, options in (
        ("needs a watermark", table, {**BY_TIME, KIND: "success-file"}),
        ("needs a partitioned table", flat, {KIND: "success-file"}),
        (
            "sink.partition-commit.policy.kynd",
            table,
            {"sink.partition-commit.policy.kynd": "success-file"},
        ),
        ("metastore", table, {KIND: "metastore"}),
        (
            "trigger never ends",
            table,
            {KIND: "success-file", "sink.partition-commit.end-input": "true"},
        ),
    ):
        with pytest.raises((InvalidInput, Unsupported), match=said):
            into.write_stream(frame, **options).option("checkpointLocation", "/nowhere").start()
    assert ids(table.refresh()) == [] and ids(flat.refresh()) == []


def test_a_session_under_audit_announces_partitions_of_the_branch_it_writes(
    session, table, source, tmp_path
):
    told = []
    table.set_properties(**{"write.wap.enabled": True})
    session.conf.set("spark.wap.branch", "audit")
    try:
        source.put((1, "2026-01-01 10:00:00", "a"))
        drained(
            table.write_stream(source.frame(), policies=[told.append], **{KIND: "custom"}), tmp_path
        )
        assert [(c.partition_values, c.branch) for c in told] == [(("a",), "audit")] and ids(
            table.refresh()
        ) == []
        session.conf.unset("spark.wap.branch")
        session.conf.set("spark.wap.id", "w")
        with pytest.raises(InvalidInput, match="contradicts the WAP id"):
            drained(
                table.write_stream(source.frame(), policies=[told.append], **{KIND: "custom"}),
                tmp_path / "other",
            )
    finally:
        session.conf.unset("spark.wap.branch")
        session.conf.unset("spark.wap.id")


def test_an_idle_query_announces_by_its_own_watermark(table):
    class Batches:
        watermark_ms = None

    class Commit:
        options, seen = partition_commit_options({**BY_TIME, KIND: "tag"}), []

        def committed(self, batch, newest):
            self.seen.append((batch.watermark_ms, batch.last))

    batch, batches, commit = (
        MicroBatch("q", -1, "db.t", table._backend, "main"),
        Batches(),
        Commit(),
    )
    _commit_partitions(commit, batch, table._loaded, batches, False)
    assert commit.seen == []
    batches.watermark_ms = 7
    _commit_partitions(commit, batch, table._loaded, batches, False)
    assert commit.seen == [(7, False)]
