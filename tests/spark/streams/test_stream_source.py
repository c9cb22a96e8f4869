"""Tables read as streams in Structured Streaming: prepared sessions, bare ones, and
`t.read_stream`.
"""

import json
import shutil
import time

import pyarrow as pa
import pyspark
import pytest

import frazil
from frazil.errors import InvalidInput, Unsupported
from frazil.spark.engine import stream_read
from frazil.spark.host.jvm import is_classic
from frazil.stream.source.offset import parse_offset
from frazil.stream.source.options import StartingStrategy, stream_options
from frazil.stream.source.source import StreamSource
from tests.peers.rowsum import rowsum

pytestmark = pytest.mark.spark

EARLIEST = {"starting-strategy": "INCREMENTAL_FROM_EARLIEST_SNAPSHOT"}
LIMITED = not pyspark.__version__.startswith("4.1")  # PySpark 4.1 asks a source for no limits


@pytest.fixture
def table(catalog):
    t = catalog.create_table(
        "db.t", "id bigint, v string, s struct<a int, b array<int>>, at timestamp"
    )
    for k in range(4):
        append(t, k)
    return t


def append(t, k):
    t.append(
        pa.Table.from_pylist(
            [{"id": 10 * k + n, "v": f"v{k}", "s": {"a": n, "b": [k, None]}} for n in range(3)]
        )
    )


@pytest.fixture
def drain(tmp_path):
    """Reads a stream to its end with trigger availableNow; the rows of each batch, and the query's
    progress. The same checkpoint each time.
    """

    def drained(frame, checkpoint="checkpoint"):
        batches = []
        writer = frame.writeStream.foreachBatch(lambda rows, _: batches.append(rows.collect()))
        query = (
            writer.option("checkpointLocation", str(tmp_path / checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination(300)
        assert not query.isActive
        drained.progress = query.recentProgress
        return [sorted(r.id for r in b) for b in batches if b]

    drained.progress = []
    return drained


def ids(batches):
    return sorted(i for b in batches for i in b)


ALL = [10 * k + n for k in range(4) for n in range(3)]


@pytest.mark.versions
def test_a_prepared_session_reads_all_there_is_and_goes_on_from_its_checkpoint(spark, table, drain):
    read = lambda: spark.readStream.format("iceberg").options(**EARLIEST).load(table.location())
    assert read().isStreaming and ids(drain(read())) == ALL
    assert drain(read()) == []
    append(table, 7)
    assert ids(drain(read())) == [70, 71, 72]
    assert ids(
        drain(
            table.read_stream(spark, **{k.replace("-", "_"): v for k, v in EARLIEST.items()}),
            "other",
        )
    ) == [*ALL, 70, 71, 72]


@pytest.mark.versions
def test_a_script_for_the_jar_reads_from_the_first_snapshot_on(spark, table, drain, tmp_path):
    for key, value in (("type", "path"), ("warehouse", str(tmp_path / "wh"))):
        spark.conf.set(f"spark.sql.catalog.doors.{key}", value)
    assert ids(drain(spark.readStream.table("doors.db.t"))) == ALL
    assert ids(drain(table.read_stream(spark), "other")) == ALL[-3:]


def test_the_doors_of_the_jar_begin_with_the_first_snapshot_and_flinks_with_the_latest(
    spark, table, monkeypatch
):
    specs, place, flinks = [], table.location(), {"monitor-interval": "1s"}
    monkeypatch.setattr(stream_read, "stream_frame", lambda _, spec, own=None: specs.append(spec))
    read = lambda **options: spark.readStream.format("iceberg").options(**options)
    read().load(place)
    read(
        **{"on-non-append": "skip", "branch": "main", "streaming-max-files-per-micro-batch": "5"}
    ).load(place)
    read().load(f"{place}#changes")
    specs.append(stream_read.bare_spec({"path": place}))
    assert {spec.options.strategy for spec in specs} == {StartingStrategy.EARLIEST} and len(
        specs
    ) == 4
    specs.clear()
    read(**flinks).load(place)
    table.read_stream(spark)
    table.read_stream(spark, streaming_max_files_per_micro_batch=5)
    specs.append(stream_read.bare_spec({"path": place, **flinks}))
    monkeypatch.setattr(
        stream_read, "all_settings", lambda _: {"connector.iceberg.monitor-interval": "1s"}
    )
    read().load(place)
    assert {spec.options.strategy for spec in specs} == {StartingStrategy.LATEST} and len(
        specs
    ) == 5


def test_a_tag_is_no_branch_to_follow_at_any_door(spark, session, table, drain):
    with table.manage_snapshots() as manage:
        manage.create_tag(table.snapshots()[1].snapshot_id, "v1")
    tagged = {
        "prepared": lambda: (
            spark.readStream.format("iceberg").option("branch", "v1").load(table.location())
        ),
        "by the table": lambda: table.read_stream(spark, branch="v1"),
        "bare": lambda: (
            session.readStream.format("iceberg").option("branch", "v1").load(table.location())
        ),
        "batch": lambda: spark.read.format("iceberg").option("branch", "v1").load(table.location()),
        "changelog": lambda: (
            spark.read.format("iceberg").option("branch", "v1").load(f"{table.location()}#changes")
        ),
    }
    for door, read in tagged.items():
        with pytest.raises(Exception, match=r"tag of table"):
            drain(read(), door)


def test_a_bare_session_reads_by_options_alone(session, table, drain):
    read = lambda **more: (
        session.readStream.format("iceberg").options(**EARLIEST, **more).load(table.location())
    )
    assert ids(drain(read())) == ALL
    append(table, 7)
    assert ids(drain(read(**{"row-filter": "id > 71", "selected_fields": "id,s.a"}))) == [72]


def test_rows_are_those_of_a_batch_read(spark, table, tmp_path):
    frame = table.read_stream(spark, starting_strategy="TABLE_SCAN_THEN_INCREMENTAL")
    query = (
        frame.writeStream.format("memory")
        .queryName("rows_of_stream")
        .option("checkpointLocation", str(tmp_path / "c"))
    )
    query.trigger(availableNow=True).start().awaitTermination(300)
    expected = table.to_spark(spark)
    assert frame.schema.simpleString() == expected.schema.simpleString()
    found = spark.sql("select * from rows_of_stream").collect()
    assert sorted(map(str, found)) == sorted(map(str, expected.collect()))


@pytest.mark.parametrize(
    ("option", "value", "largest"),
    [
        ("streaming-max-files-per-micro-batch", 2, 6),
        ("streaming-max-rows-per-micro-batch", 7, 6),
        ("streaming-max-bytes-per-micro-batch", 1, 3),
        ("max-planning-snapshot-count", 3, 9),
    ],
)
def test_each_limit_bounds_a_batch(spark, table, drain, option, value, largest):
    batches = drain(
        spark.readStream.format("iceberg")
        .options(**EARLIEST, **{option: value})
        .load(table.location())
    )
    assert ids(batches) == ALL
    assert max(map(len, batches)) == (largest if LIMITED else 12)


def test_progress_tells_what_is_pending(spark, table, drain):
    batches = drain(
        table.read_stream(
            spark,
            starting_strategy="TABLE_SCAN_THEN_INCREMENTAL",
            streaming_max_files_per_micro_batch=1,
        )
    )
    assert ids(batches) == ALL
    offsets = [p["sources"][0]["endOffset"] for p in drain.progress]
    assert all(len(json.dumps(o)) < 1024 for o in offsets)
    if LIMITED:
        told = [p["sources"][0]["latestOffset"] for p in drain.progress if p["numInputRows"]]
        told = [json.loads(t) if isinstance(t, str) else t for t in told]
        assert [t["pending_files"] for t in told] == [3, 2, 1, 0]
        assert all({"pending_rows", "pending_snapshots", "lag_seconds"} <= set(t) for t in told)


def test_changes_carry_what_became_of_the_rows(spark, table, tmp_path):
    table.delete("id = 1")
    append(table, 8)

    def read(frame, name):
        writer = (
            frame.writeStream.format("memory")
            .queryName(name)
            .option("checkpointLocation", str(tmp_path / name))
        )
        writer.trigger(availableNow=True).start().awaitTermination(300)
        return sorted(
            (r.id, r._change_type, r._change_ordinal, r._commit_snapshot_id)
            for r in spark.table(name).collect()
        )

    expected = sorted(
        (r["id"], r["_change_type"], r["_change_ordinal"], r["_commit_snapshot_id"])
        for r in table.changes().to_arrow().to_pylist()
    )
    by_option = (
        spark.readStream.format("iceberg")
        .options(**EARLIEST)
        .option("on-non-append", "changes")
        .load(table.location())
    )
    assert read(by_option, "by_option") == expected
    by_name = (
        spark.readStream.format("iceberg").options(**EARLIEST).load(f"{table.location()}#changes")
    )
    assert read(by_name, "by_name") == expected


def test_a_snapshot_that_is_no_append_ends_the_query_with_what_to_do(spark, table, drain):
    table.delete("id = 1")
    with pytest.raises(
        Exception, match=r"Cannot process (overwrite|delete) snapshot.*on-non-append=changes"
    ):
        drain(table.read_stream(spark, starting_strategy="INCREMENTAL_FROM_EARLIEST_SNAPSHOT"))
    again = table.read_stream(
        spark, starting_strategy="INCREMENTAL_FROM_EARLIEST_SNAPSHOT", on_non_append="skip"
    )
    assert ids(drain(again, "again")) == ALL


def test_names_of_the_sessions_catalogs_reach_the_queries_processes(spark, tmp_path, drain):
    secret = "s3cr3t-of-the-catalog"
    spark.conf.set("spark.sql.catalog.sessions.type", "path")
    spark.conf.set("spark.sql.catalog.sessions.warehouse", str(tmp_path / "wh"))
    spark.conf.set("spark.sql.catalog.sessions.s3.secret-access-key", secret)
    t = frazil.load_catalog("sessions", type="path", warehouse=str(tmp_path / "wh")).create_table(
        "db.t", "id bigint"
    )
    t.append(pa.table({"id": [1, 2]}))
    frames = [
        spark.readStream.options(**EARLIEST).table("sessions.db.t"),
        spark.readStream.format("iceberg").options(**EARLIEST).load("sessions.db.t"),
        spark.readStream.format("iceberg").options(**EARLIEST).load("sessions.db.t.branch_main"),
    ]
    for n, frame in enumerate(frames):
        assert ids(drain(frame, f"c{n}")) == [1, 2]
        if is_classic(frame):
            assert secret not in frame._jdf.queryExecution().toString()
    for key in ("type", "warehouse", "s3.secret-access-key"):
        spark.conf.unset(f"spark.sql.catalog.sessions.{key}")


def test_columns_that_come_in_mid_stream_are_there_after_a_restart(spark, table, drain):
    read = lambda: table.read_stream(spark, starting_strategy="INCREMENTAL_FROM_EARLIEST_SNAPSHOT")
    frame = read()
    assert ids(drain(frame)) == ALL
    with table.update_schema() as update:
        update.add_column("late", frazil.StringType())
    table.append(pa.table({"id": [99], "late": ["x"]}))
    assert ids(drain(frame)) == [99] and "late" not in frame.columns
    assert "late" in read().columns and drain(read()) == []


def test_trigger_once_reads_all_there_is_in_one_batch(spark, table, tmp_path):
    frame, found = (
        table.read_stream(
            spark,
            starting_strategy="TABLE_SCAN_THEN_INCREMENTAL",
            streaming_max_files_per_micro_batch=1,
        ),
        [],
    )
    writer = frame.writeStream.foreachBatch(
        lambda rows, _: found.append(sorted(r.id for r in rows.collect()))
    )
    writer = writer.option("checkpointLocation", str(tmp_path / "c")).trigger(once=True)
    writer.start().awaitTermination(300)
    append(table, 5)
    writer.start().awaitTermination(300)
    assert found == [ALL, [50, 51, 52]]


def test_an_unbounded_query_sees_new_commits(spark, table, tmp_path):
    frame = table.read_stream(
        spark,
        starting_strategy="INCREMENTAL_FROM_LATEST_SNAPSHOT_EXCLUSIVE",
        monitor_interval="100ms",
    )
    found = []
    writer = frame.writeStream.foreachBatch(
        lambda rows, _: found.extend(r.id for r in rows.collect())
    )
    query = (
        writer.option("checkpointLocation", str(tmp_path / "c"))
        .trigger(processingTime="200 milliseconds")
        .start()
    )
    try:
        query.processAllAvailable()  # the start is resolved
        for k in (5, 6):
            append(table, k)
            deadline = time.monotonic() + 60
            while 10 * k not in found and time.monotonic() < deadline and query.isActive:
                time.sleep(0.1)
    finally:
        query.stop()
    assert sorted(found) == [50, 51, 52, 60, 61, 62]


def test_a_first_batch_that_failed_is_read_again_from_the_same_start(spark, table, tmp_path):
    read = lambda: table.read_stream(spark, starting_strategy="INCREMENTAL_FROM_LATEST_SNAPSHOT")
    failed, found = [], []

    def fail(rows, _):
        failed.append(sorted(r.id for r in rows.collect()))
        raise RuntimeError("the sink is away")

    writer = lambda sink: (
        read()
        .writeStream.foreachBatch(sink)
        .option("checkpointLocation", str(tmp_path / "c"))
        .trigger(availableNow=True)
    )
    with pytest.raises(Exception, match="the sink is away"):
        writer(fail).start().awaitTermination(300)
    append(table, 5)
    writer(
        lambda rows, _: found.append(sorted(r.id for r in rows.collect()))
    ).start().awaitTermination(300)
    assert failed == [[30, 31, 32]]
    assert next(b for b in found if b) == [30, 31, 32] and ids(found) == [30, 31, 32, 50, 51, 52]


def test_what_cannot_be_streamed_is_refused_by_name(spark, session, table):
    read = spark.readStream.format("iceberg")
    for options, place, error, told in (
        ({}, f"{table.location()}#files", Unsupported, "metadata table files"),
        ({}, f"{table.location()}#tag_x", InvalidInput, "a stream follows a branch"),
        (
            {"snapshot-id": 1},
            table.location(),
            Unsupported,
            "'snapshot-id' is not supported here: a stream starts",
        ),
        (
            {"starting-stategy": "x"},
            table.location(),
            InvalidInput,
            "Did you mean 'starting-strategy'",
        ),
        ({"row_filter": "nope = 1"}, table.location(), InvalidInput, "nope"),
        ({"selected_fields": "nope"}, table.location(), Exception, "nope"),
    ):
        with pytest.raises(error, match=told):
            spark.readStream.format("iceberg").options(**options).load(place)
    with pytest.raises(InvalidInput, match="own schema"):
        read.schema("id bigint").load(table.location())
    with pytest.raises(Unsupported, match="in memory"):
        memory = frazil.load_catalog("in_memory_stream", type="memory")
        memory.create_namespace("db")
        memory.create_table("db.t", "id bigint").read_stream(spark)
    with pytest.raises(Exception, match="end-tag"):
        session.readStream.format("iceberg").option("end-tag", "x").load(
            table.location()
        ).writeStream.format("noop").start().awaitTermination(60)
    with pytest.raises(Exception, match="streaming-max-files-per-micro-batch"):
        session.read.format("iceberg").option("streaming-max-files-per-micro-batch", 5).load(
            table.location()
        ).collect()


@pytest.mark.parametrize("name", ["append_v2", "upsert_v2", "dv_v3"])
def test_tables_of_other_engines_are_read_as_their_own_readers_do(spark, golden, tmp_path, name):
    frame = frazil.load_table(golden[name].metadata_file).read_stream(
        spark, starting_strategy="TABLE_SCAN_THEN_INCREMENTAL"
    )
    writer = (
        frame.writeStream.format("memory")
        .queryName(f"golden_{name}")
        .option("checkpointLocation", str(tmp_path / "g"))
    )
    writer.trigger(availableNow=True).start().awaitTermination(300)
    expected = golden[name].expected
    assert rowsum(spark.table(f"golden_{name}").toArrow(), expected["schema"]) == {
        "rows": expected["rows"],
        "sum": expected["checksum"],
    }


def logged(checkpoint):
    """The texts of a source's offsets in a checkpoint, batch by batch."""
    logs = sorted((checkpoint / "offsets").glob("[0-9]*"), key=lambda f: int(f.name))
    return [log.read_text().splitlines()[2] for log in logs]


def canonical(text):
    return json.dumps(parse_offset(json.loads(text)).to_dict())


def test_a_restarted_query_whose_position_expired_says_what_to_do_and_goes_on_as_told(
    spark, table, drain, tmp_path
):
    """The log of offsets never holds null, and holds each position as one text, whichever run wrote
    it.
    """
    read = lambda **options: table.read_stream(
        spark, starting_strategy="TABLE_SCAN_THEN_INCREMENTAL", **options
    )
    assert ids(drain(read())) == ALL
    for k in (5, 6, 7):
        append(table, k)
    table.maintenance.expire_snapshots(older_than=time.time_ns() // 1_000_000, retain_last=2)
    with pytest.raises(
        Exception,
        match=r"(?s)ValidationError.*was expired or removed.*on-expired=earliest.*on-expired=latest",
    ):
        drain(read(on_rollback="latest"))
    assert ids(drain(read(on_expired="earliest"))) == [
        *ALL,
        *(10 * k + n for k in (5, 6, 7) for n in range(3)),
    ]
    texts = logged(tmp_path / "checkpoint")
    assert len(texts) == 2 and [canonical(t) for t in texts] == texts, (
        "the run that failed has logged nothing"
    )
    source = StreamSource(lambda: table.refresh()._loaded, stream_options({}), table.schema())
    assert json.dumps(source.latest_offset(json.loads(texts[-1]))) == texts[-1], (
        "equal offsets are equal texts"
    )


@pytest.mark.soak
def test_a_restarted_query_whose_branch_was_rolled_back_says_what_to_do_and_goes_on_as_told(
    spark, table, drain, tmp_path
):
    read = lambda **options: table.read_stream(
        spark, starting_strategy="TABLE_SCAN_THEN_INCREMENTAL", **options
    )
    assert ids(drain(read())) == ALL
    assert drain(read()) == [] and len(logged(tmp_path / "checkpoint")) == 1, (
        "nothing new makes no batch"
    )
    with table.manage_snapshots() as update:
        update.rollback_to_snapshot(table.history()[-2].snapshot_id)
    for checkpoint in ("earliest", "latest"):
        shutil.copytree(tmp_path / "checkpoint", tmp_path / checkpoint)
    with pytest.raises(
        Exception,
        match=r"(?s)ValidationError.*rolled back or replaced.*on-rollback=earliest.*on-rollback=latest",
    ):
        drain(read(on_expired="latest"))
    assert drain(read(on_rollback="latest"), "latest") == []
    assert ids(drain(read(on_rollback="earliest"), "earliest")) == ALL[:-3]
    append(table, 8)
    for checkpoint in ("earliest", "latest"):
        assert ids(drain(read(), checkpoint)) == [80, 81, 82]
        texts = logged(tmp_path / checkpoint)
        assert [canonical(t) for t in texts] == texts
    assert len(texts) == 3, "the reset and the batch after it"
