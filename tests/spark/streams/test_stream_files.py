"""Streams into plain folders on Spark: each batch once over restarts, partitions committed by
watermark, idleness and the end of input.
"""

import shutil
import time

import pytest
from pyspark.sql import functions as F

import frazil
from frazil.errors import InvalidInput, Unsupported
from frazil.spark.host.jvm_plans import has_watermark
from frazil.spark.streams.sink import files
from frazil.stream.partitions.directories import publish
from tests.builders.stream_folders import FolderSource

pytestmark = pytest.mark.spark
KIND = "sink.partition-commit.policy.kind"


def run(frame, place, checkpoint, policies=(), **options):
    """Run all batches there are, to the end."""
    writer = frazil.write_stream_files(
        frame, str(place), partition_by=["dt"], policies=policies, **options
    )
    query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    query.awaitTermination()
    return query


def ids(spark, place):
    return sorted(r.id for r in spark.read.parquet(str(place)).select("id").collect())


@pytest.fixture
def source(session, tmp_path):
    return FolderSource(session, tmp_path / "in")


@pytest.mark.versions
def test_batches_are_written_once_over_restarts_and_their_partitions_committed_by_the_watermark(
    session, tmp_path
):
    source, told = FolderSource(session, tmp_path / "in"), []
    options = {
        KIND: "merge,custom,success-file",
        "sink.partition-commit.trigger": "partition-time",
        "sink.partition-commit.delay": "1 d",
    }
    frame = source.frame().withWatermark("at", "0 seconds")
    source.put((1, "2026-01-01 10:00:00", "2026-01-01"), (2, "2026-01-01 11:00:00", "2026-01-01"))
    source.put((3, "2026-01-02 00:00:01", "2026-01-02"))
    policies = [lambda c: told.append((c.partition_values, c.late, c.watermark))]
    run(frame, tmp_path / "out", tmp_path / "cp", policies, **options)
    assert ids(session, tmp_path / "out") == [1, 2, 3] and told == []
    # its batch is planned with the watermark of the third row
    source.put((4, "2026-01-02 12:00:00", "2026-01-02"))
    run(frame, tmp_path / "out", tmp_path / "cp", policies, **options)
    assert told == [(("2026-01-01",), False, 1767312001000)]
    source.put((5, "2026-01-01 23:00:00", "2026-01-01"))
    run(frame, tmp_path / "out", tmp_path / "cp", policies, **options)
    assert ids(session, tmp_path / "out") == [1, 2, 3, 4, 5]
    assert [t[:2] for t in told] == [(("2026-01-01",), False), (("2026-01-01",), True)]
    assert (tmp_path / "out/dt=2026-01-01/_SUCCESS").exists() and not (
        tmp_path / "out/dt=2026-01-02/_SUCCESS"
    ).exists()
    assert len(list((tmp_path / "out/dt=2026-01-01").glob("*.parquet"))) == 1
    rows = (
        session.read.parquet(str(tmp_path / "out"))
        .where("id = 5")
        .select("at", F.col("dt").cast("string"))
        .first()
    )
    assert str(rows.at) == "2026-01-01 23:00:00" and rows.dt == "2026-01-01"


def test_a_batch_whose_record_is_lost_is_replayed_without_a_second_row(
    session, tmp_path, monkeypatch, source
):
    for number in range(3):
        source.put((number, "2026-01-01 10:00:00", "a"))
    run(source.frame(), tmp_path / "out", tmp_path / "cp")
    (tmp_path / "cp" / "commits" / "2").unlink()
    for crc in (tmp_path / "cp" / "commits").glob(".2.crc"):
        crc.unlink()
    fired, real = [], publish.is_published
    monkeypatch.setattr(
        files.publish, "is_published", lambda *a: fired.append((a[2], real(*a))) or fired[-1][1]
    )
    run(source.frame(), tmp_path / "out", tmp_path / "cp")
    assert (2, True) in fired and ids(session, tmp_path / "out") == [0, 1, 2]


@pytest.mark.parametrize("renamed", [0, 1, 2])
def test_a_driver_that_dies_amid_the_renames_of_a_batch_ends_with_every_row_once(
    session, tmp_path, monkeypatch, renamed
):
    source, done, real = FolderSource(session, tmp_path / "in"), [], publish._rename
    source.put((1, "2026-01-01 10:00:00", "a"), (2, "2026-01-01 10:00:00", "b"))

    def rename(staged, final):
        if len(done) == renamed:
            raise RuntimeError("killed")
        done.append(final)
        return real(staged, final)

    monkeypatch.setattr(publish, "_rename", rename)
    if renamed == 2:
        monkeypatch.setattr(
            publish, "write_state", lambda *_: (_ for _ in ()).throw(RuntimeError("killed"))
        )
    with pytest.raises(Exception, match="killed"):
        run(source.frame(), tmp_path / "out", tmp_path / "cp")
    assert len(done) == renamed
    monkeypatch.undo()
    source.put((3, "2026-01-01 10:00:00", "a"))
    run(source.frame(), tmp_path / "out", tmp_path / "cp")
    assert ids(session, tmp_path / "out") == [1, 2, 3]


def test_a_replayed_batch_still_moves_sparks_watermark(session, tmp_path):
    source, told = FolderSource(session, tmp_path / "in"), []
    frame = source.frame().withWatermark("at", "0 seconds")
    options = {"sink.partition-commit.trigger": "partition-time"}
    source.put((1, "2026-01-01 10:00:00", "2026-01-01"))
    run(frame, tmp_path / "out", tmp_path / "cp", [told.append], **options)
    (tmp_path / "cp" / "commits" / "0").unlink()
    (tmp_path / "cp" / "commits" / ".0.crc").unlink()
    source.put((2, "2026-01-01 10:00:00", "2026-01-01"))
    run(frame, tmp_path / "out", tmp_path / "cp", [told.append], **options)
    assert ids(session, tmp_path / "out") == [1, 2] and [c.watermark for c in told] == [
        1767261600000
    ]


def test_nulls_blanks_and_signs_in_partition_values_are_read_back_by_spark(session, tmp_path):
    source, told = FolderSource(session, tmp_path / "in"), []
    values = [None, "a b", "x/y:z=1%", "ü"]
    source.put(*((n, "2026-01-01 10:00:00", v) for n, v in enumerate(values)))
    run(
        source.frame(),
        tmp_path / "out",
        tmp_path / "cp",
        [lambda c: told.append((c.partition_values[0], c.path))],
    )
    read = {r.id: r.dt for r in session.read.parquet(str(tmp_path / "out")).collect()}
    assert read == dict(enumerate(values))
    assert sorted(v for v, _ in told) == sorted(v or "__DEFAULT_PARTITION__" for v in values)
    assert all(list(__import__("pathlib").Path(path).glob("*.parquet")) for _, path in told)


def test_the_end_of_input_commits_what_is_left_when_asked(source, tmp_path):
    source.put((1, "2026-01-01 10:00:00", "2026-01-01"))
    options = {
        KIND: "success-file",
        "sink.partition-commit.trigger": "partition-time",
        "watermark-column": "at",
        "sink.partition-commit.delay": "9 d",
    }
    run(source.frame(), tmp_path / "out", tmp_path / "cp", **options)
    assert not (tmp_path / "out/dt=2026-01-01/_SUCCESS").exists()
    run(
        source.frame(),
        tmp_path / "out",
        tmp_path / "cp",
        **options,
        sink_partition_commit_end_input=True,
    )
    assert (tmp_path / "out/dt=2026-01-01/_SUCCESS").exists()


def test_an_idle_query_commits_its_last_partitions_without_new_data(session, tmp_path, source):
    source.put((1, "2026-01-01 10:00:00", "a"))
    options = {
        KIND: "success-file",
        "sink.partition-commit.trigger": "idle",
        "sink.partition-commit.delay": "1 s",
    }
    writer = frazil.write_stream_files(
        source.frame(), tmp_path / "out", partition_by=["dt"], **options
    )
    session.conf.set("spark.sql.streaming.noDataProgressEventInterval", "500")
    query = writer.option("checkpointLocation", str(tmp_path / "cp")).start()
    try:
        end = time.monotonic() + 60
        while not (tmp_path / "out/dt=a/_SUCCESS").exists() and time.monotonic() < end:
            time.sleep(0.2)
        assert (tmp_path / "out/dt=a/_SUCCESS").exists() and query.exception() is None
    finally:
        query.stop()
        session.conf.unset("spark.sql.streaming.noDataProgressEventInterval")


def test_what_cannot_work_is_refused_before_the_query_starts(session, tmp_path, source):
    frame, out = source.frame(), tmp_path / "out"
    by_time = {KIND: "success-file", "sink.partition-commit.trigger": "partition-time"}
    for said, arguments in {
        "needs a watermark": dict(partition_by=["dt"], **by_time),
        "watermark-column: dt is a partition column": dict(
            partition_by=["dt"], **by_time, watermark_column="dt"
        ),
        "watermark-column: when is no column": dict(
            partition_by=["dt"], **by_time, watermark_column="when"
        ),
        "partition_by names the columns": {},
        "day, which is no column": {"partition_by": ["day"]},
        "names all columns": {"partition_by": ["id", "at", "dt"]},
        "Unknown option of write_stream_files: 'mode'": {"partition_by": ["dt"], "mode": "append"},
        "policy tag is for Iceberg": {"partition_by": ["dt"], KIND: "tag"},
    }.items():
        with pytest.raises(InvalidInput, match=said):
            frazil.write_stream_files(frame, out, **arguments)
    for form in ("csv", None, 5):
        with pytest.raises(Unsupported, match=f"not {form!r}"):
            frazil.write_stream_files(frame, out, format=form, partition_by=["dt"])
    with pytest.raises(InvalidInput, match="path must be"):
        frazil.write_stream_files(frame, 5, partition_by=["dt"])
    for columns in (None, 5, [5]):
        with pytest.raises(InvalidInput, match="partition_by must be"):
            frazil.write_stream_files(frame, out, partition_by=columns)
    with pytest.raises(InvalidInput, match="streaming frame"):
        frazil.write_stream_files(session.range(1), out, partition_by=["id"])
    with pytest.raises(InvalidInput, match="needs a checkpoint") as caught:
        frazil.write_stream_files(frame, out, partition_by=["dt"]).start()
    assert "checkpointLocation" in caught.value.hint and not has_watermark(frame)
    shutil.rmtree(tmp_path / "in")


@pytest.mark.parametrize("name", ["_dt", ".dt"])
def test_a_partition_column_may_begin_with_a_mark_of_hidden_files(source, tmp_path, name):
    source.put((1, "2026-01-01 10:00:00", "a"))
    writer = frazil.write_stream_files(
        source.frame().withColumnRenamed("dt", name), str(tmp_path / "out"), partition_by=[name]
    )
    writer.option("checkpointLocation", str(tmp_path / "cp")).trigger(
        availableNow=True
    ).start().awaitTermination()
    assert len(list((tmp_path / "out" / f"{name}=a").glob("*.parquet"))) == 1


def test_what_would_double_rows_or_be_left_unheard_is_refused(source, tmp_path):
    writer = frazil.write_stream_files(source.frame(), str(tmp_path / "out"), partition_by=["dt"])
    for mode in ("complete", "update"):
        with pytest.raises(InvalidInput, match=f"output mode append, not {mode}"):
            writer.outputMode(mode)
        with pytest.raises(InvalidInput, match=f"output mode append, not {mode}"):
            writer.start(outputMode=mode)
    for key in (KIND, "compression", "on-rewind"):
        with pytest.raises(InvalidInput, match=f"{key} is not an option of the query"):
            writer.option(key, "x")
    ending = frazil.write_stream_files(
        source.frame(),
        str(tmp_path / "o"),
        partition_by=["dt"],
        **{KIND: "success-file"},
        sink_partition_commit_end_input=True,
    )
    with pytest.raises(InvalidInput, match="needs a query that ends"):
        ending.option("checkpointLocation", str(tmp_path / "cp")).start()


def test_a_checkpoint_that_was_set_back_fails_or_is_passed_over_as_told(session, tmp_path, source):
    source.put((1, "2026-01-01 10:00:00", "a"))
    source.put((2, "2026-01-01 10:00:00", "a"))
    run(source.frame(), tmp_path / "out", tmp_path / "cp")
    for folder in ("offsets", "commits"):
        for file in (tmp_path / "cp" / folder).glob("*1*"):
            file.unlink()
        for file in (tmp_path / "cp" / folder).glob(".*1*"):
            file.unlink()
    (tmp_path / "cp" / "commits" / "0").unlink()
    (tmp_path / "cp" / "commits" / ".0.crc").unlink(missing_ok=True)
    with pytest.raises(Exception, match="its checkpoint was set back"):
        run(source.frame(), tmp_path / "out", tmp_path / "cp")
    run(source.frame(), tmp_path / "out", tmp_path / "cp", on_rewind="skip")
    assert ids(session, tmp_path / "out") == [1, 2]


def test_a_query_that_is_stopped_announces_nothing_as_the_end_of_its_input(
    source, tmp_path, monkeypatch
):
    for n in range(12):
        source.put((n, "2026-01-01 10:00:00", f"2026-01-{n + 1:02d}"))
    options = {
        KIND: "success-file",
        "sink.partition-commit.trigger": "partition-time",
        "watermark-column": "at",
        "sink.partition-commit.delay": "9 d",
    }
    writer = frazil.write_stream_files(
        source.frame(),
        str(tmp_path / "out"),
        partition_by=["dt"],
        **options,
        sink_partition_commit_end_input=True,
    )
    query = (
        writer.option("checkpointLocation", str(tmp_path / "cp")).trigger(availableNow=True).start()
    )
    while not list((tmp_path / "out").glob("dt=*")) and query.isActive:
        time.sleep(0.05)
    query.stop()
    query.awaitTermination()
    assert len(list((tmp_path / "out").glob("dt=*"))) < 12, (
        "the query was over before it could be stopped"
    )
    assert list((tmp_path / "out").glob("dt=*/_SUCCESS")) == []
