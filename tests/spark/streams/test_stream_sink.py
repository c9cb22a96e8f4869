"""Streaming writes on Spark: every door, each batch once, rows evaluated once, and the writer of
the Python data source.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import frazil
from frazil.errors import InvalidInput, Unsupported

pytestmark = pytest.mark.spark
SCHEMA = "id bigint, p string, v bigint"
KEYS = {"mode": "upsert", "key_columns": "id"}


def folder(place: Path, *files: list[tuple]) -> str:
    """One Parquet file for each batch."""
    where = place / "in"
    where.mkdir(exist_ok=True)
    for n, rows in enumerate(files, len(list(where.iterdir()))):
        columns = list(zip(*rows, strict=True)) or [(), (), ()]
        names = ("id", "p", "v", "op", "seq")[: len(columns)]
        types = {"id": pa.int64(), "v": pa.int64(), "seq": pa.int64()}
        pq.write_table(
            pa.table(
                {
                    k: pa.array(c, types.get(k, pa.string()))
                    for k, c in zip(names, columns, strict=True)
                }
            ),
            where / f"{n:03d}.parquet",
        )
    for at, file in enumerate(sorted(where.iterdir())):
        os.utime(file, (1_700_000_000 + at,) * 2)  # Spark takes files in the order of their times
    return str(where)


def stream(spark, where, schema=SCHEMA):
    return spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(where)


def drained(writer):
    query = writer.start() if hasattr(writer, "start") else writer
    query.awaitTermination()
    return query


def held(table):
    return sorted(
        (tuple(r.values()) for r in table.refresh().scan().to_arrow().to_pylist()), key=repr
    )


def unknown_files(table):
    known = {
        r["file_path"].removeprefix("file://")
        for r in table.refresh().inspect.all_files().to_pylist()
    }
    return {str(f) for f in (Path(table.location()) / "data").rglob("*") if f.is_file()} - known


def forget_last_commit(checkpoint):
    """As if the driver had died between the table's commit and Spark's."""
    last = max((checkpoint / "commits").glob("[0-9]*"), key=lambda f: int(f.name))
    for f in (last, last.with_name(f".{last.name}.crc")):
        f.unlink(missing_ok=True)


@pytest.fixture
def table(catalog):
    return catalog.create_table("db.t", SCHEMA)


@pytest.mark.versions
def test_a_stream_appends_each_batch_as_one_snapshot_and_goes_on_after_a_restart(
    spark, table, tmp_path
):
    where, told = folder(tmp_path, [(1, "a", 1)], [(2, "b", 1), (3, "b", 1)]), []

    def run():
        writer = table.write_stream(
            stream(spark, where),
            on_commit=lambda n, r: told.append((n, r.rows_inserted, r.skipped)),
        )
        drained(
            writer.option("checkpointLocation", str(tmp_path / "c"))
            .trigger(availableNow=True)
            .queryName("q")
        )

    run()
    folder(tmp_path, [(4, "c", 1)])
    run()
    assert held(table) == [(1, "a", 1), (2, "b", 1), (3, "b", 1), (4, "c", 1)]
    assert [str(s.operation) for s in table.snapshots()] == ["append"] * 3 and unknown_files(
        table
    ) == set()
    assert told == [(0, 1, False), (1, 2, False), (2, 1, False)]
    queries = {s.summary["spark.sql.streaming.queryId"] for s in table.snapshots()}
    assert len(queries) == 1 and all(
        next(iter(queries)) in f
        for f in (r["file_path"] for r in table.inspect.files().to_pylist())
    )


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize(
    ("strategy", "partition_by", "keys"),
    [("lookup", ["p"], "id"), ("equality-deletes", ["p"], "id,p"), ("equality-deletes", [], "id")],
)
def test_cdc_keeps_the_last_row_of_each_key(
    version, strategy, partition_by, keys, spark, catalog, tmp_path
):
    table = catalog.create_table("db.t", SCHEMA, partition_by=partition_by, format_version=version)
    where = folder(
        tmp_path,
        [
            (1, "a", 1, "c", 1),
            (2, "a", 1, "c", 1),
            (None, "a", 1, "c", 1),
            (2, "a", 9, "u", 5),
            (2, "a", 8, "u", 4),
        ],
        [(1, "a", 2, "d", 1), (3, "a", 2, "d", 2), (None, "a", 2, "u", 1), (3, "a", 3, "c", 3)],
    )
    writer = table.write_stream(
        stream(spark, where, f"{SCHEMA}, op string, seq bigint"),
        "cdc",
        key_columns=keys,
        order_column="seq",
        upsert_strategy=strategy,
    )
    drained(writer.option("checkpointLocation", str(tmp_path / "c")).trigger(availableNow=True))
    assert held(table) == [(2, "a", 9), (3, "a", 3), (None, "a", 2)] and len(table.snapshots()) == 2
    assert unknown_files(table) == set()


def test_an_upsert_moves_rows_between_partitions(spark, catalog, tmp_path):
    table = catalog.create_table("db.t", SCHEMA, partition_by=["p"])
    where = folder(
        tmp_path, [(n, "a", n) for n in range(20)], [(n, "b", n + 100) for n in range(10)]
    )
    drained(
        table.write_stream(stream(spark, where), **KEYS)
        .option("checkpointLocation", str(tmp_path / "c"))
        .trigger(availableNow=True)
    )
    assert held(table) == sorted(
        [*((n, "b", n + 100) for n in range(10)), *((n, "a", n) for n in range(10, 20))], key=repr
    )


def test_names_of_columns_are_matched_as_the_session_or_the_caller_says_before_the_query_starts(
    spark, catalog, tmp_path
):
    table = catalog.create_table("db.t", SCHEMA)
    frame = stream(spark, folder(tmp_path, [(1, "a", 1), (1, "a", 2)]))

    def writer(**more):
        given = table.write_stream(
            frame, "upsert", **{"key_columns": "ID", "order_column": "V", **more}
        )
        return given.option("checkpointLocation", str(tmp_path / "c")).trigger(availableNow=True)

    for more, told in (
        ({"case_sensitive": True}, "Missing required equality field column 'ID'"),
        ({"order_column": "z"}, "order-column.* no column z"),
        (
            {"key_columns": "id", "order_column": "V", "case_sensitive": True},
            "order-column.* no column V",
        ),
    ):
        with pytest.raises(InvalidInput, match=told):
            writer(**more).start()
    drained(writer())
    assert held(table) == [(1, "a", 2)]


@pytest.mark.parametrize("strategy", ["lookup", "equality-deletes"])
def test_a_session_that_sets_no_number_of_shuffle_partitions_upserts(
    strategy, spark, table, tmp_path
):
    session = frazil.install(spark.newSession())
    session.conf.unset("spark.sql.shuffle.partitions")
    where = folder(tmp_path, [(1, "a", 1), (2, "a", 1)], [(1, "a", 2)])
    writer = table.write_stream(stream(session, where), **KEYS, upsert_strategy=strategy)
    drained(writer.option("checkpointLocation", str(tmp_path / "c")).trigger(availableNow=True))
    assert held(table) == [(1, "a", 2), (2, "a", 1)]


def test_the_rows_of_a_batch_are_evaluated_once(spark, catalog, tmp_path):
    where, log = folder(tmp_path, [(n, "a", n) for n in range(8)]), tmp_path / "log"

    def seen(batches):
        for b in batches:
            with open(log, "a") as f:
                f.write(f"{b.num_rows}\n")
            yield b

    for n, options in enumerate(({}, KEYS, {**KEYS, "upsert_strategy": "equality-deletes"})):
        table, checkpoint = catalog.create_table(f"db.once{n}", SCHEMA), tmp_path / f"c{n}"
        for replayed in (False, True):
            log.write_text("")
            frame = stream(spark, where).mapInArrow(seen, SCHEMA)
            drained(
                table.write_stream(frame, **options)
                .option("checkpointLocation", str(checkpoint))
                .trigger(availableNow=True)
            )
            # a batch that comes again is evaluated too, since Spark learns its watermark from the
            # rows
            assert sum(map(int, log.read_text().split())) == 8 and len(held(table)) == 8, (
                options,
                replayed,
            )
            forget_last_commit(checkpoint)
        assert len(table.snapshots()) == 1


def test_toTable_of_a_prepared_session_makes_a_partitioned_table(spark, catalog, tmp_path):
    where, made = folder(tmp_path, [(1, "a", 1), (2, "b", 1)]), str(tmp_path / "made")
    writer = (
        stream(spark, where)
        .writeStream.format("iceberg")
        .partitionBy("p")
        .option("checkpointLocation", str(tmp_path / "c"))
    )
    drained(writer.trigger(availableNow=True).toTable(made))
    table = frazil.load_table(made)
    assert [f.name for f in table.spec().fields] == ["p"] and held(table) == [
        (1, "a", 1),
        (2, "b", 1),
    ]
    plain = (
        stream(spark, where)
        .writeStream.format("parquet")
        .partitionBy("p")
        .option("checkpointLocation", str(tmp_path / "c2"))
    )
    drained(plain.trigger(availableNow=True).start(str(tmp_path / "plain")))
    assert sorted(f.name for f in (tmp_path / "plain").glob("p=*")) == ["p=a", "p=b"]


def test_a_table_that_says_so_is_upserted_into_by_a_stream_that_names_no_mode(
    spark, catalog, tmp_path
):
    says = {"properties": {"write.upsert.enabled": "true"}}
    table = catalog.create_table(
        "db.t", "id bigint not null, p string, v bigint", identifier_fields=["id"], **says
    )
    where = folder(tmp_path, [(1, "a", 1)], [(1, "b", 2)])
    frame = stream(spark, where).selectExpr("coalesce(id, 0L) as id", "p", "v")
    drained(
        table.write_stream(frame)
        .option("checkpointLocation", str(tmp_path / "c"))
        .trigger(availableNow=True)
    )
    assert held(table) == [(1, "b", 2)]


def test_writeStream_of_a_prepared_session_takes_the_same_path(spark, catalog, table, tmp_path):
    where = folder(tmp_path, [(1, "a", 1), (1, "a", 2)], [(1, "b", 5), (2, "b", 1)])
    writer = (
        stream(spark, where)
        .writeStream.format("iceberg")
        .outputMode("append")
        .option("write-mode", "upsert")
        .option("key-columns", "id")
    )
    drained(
        writer.option("checkpointLocation", str(tmp_path / "c"))
        .trigger(availableNow=True)
        .start(table.location())
    )
    assert held(table) == [(1, "b", 5), (2, "b", 1)]
    counts = (
        stream(spark, where)
        .groupBy("p")
        .count()
        .writeStream.format("iceberg")
        .outputMode("complete")
    )
    made = str(tmp_path / "made")
    drained(
        counts.option("checkpointLocation", str(tmp_path / "c2"))
        .trigger(availableNow=True)
        .toTable(made)
    )
    assert held(frazil.load_table(made)) == [("a", 2), ("b", 2)]
    assert len(frazil.load_table(made).snapshots()) == 2
    updates = (
        stream(spark, where).groupBy("p").count().writeStream.format("iceberg").outputMode("update")
    )
    with pytest.raises(InvalidInput, match="write-mode=upsert"):
        updates.option("checkpointLocation", str(tmp_path / "c3")).start(made)
    keyed = (
        updates.option("write-mode", "upsert").option("key-columns", "p").trigger(availableNow=True)
    )
    drained(keyed.option("checkpointLocation", str(tmp_path / "c3")).start(made))
    assert held(frazil.load_table(made)) == [("a", 2), ("b", 2)]
    plain = (
        stream(spark, where)
        .writeStream.format("noop")
        .option("checkpointLocation", str(tmp_path / "c4"))
        .trigger(availableNow=True)
    )
    drained(plain.start())


def test_what_cannot_work_is_refused_before_the_query_starts(spark, table, tmp_path):
    frame = stream(spark, folder(tmp_path, [(1, "a", 1)]))
    for given, word in (
        ({"mode": "upsert"}, "needs keys"),
        ({"no-such": 1}, "no-such"),
        ({"mode": "complete"}, "contradict"),
        ({"on_commit": 1}, "on_commit"),
    ):
        with pytest.raises(InvalidInput, match=word):
            table.write_stream(frame, **given).outputMode("append").option(
                "checkpointLocation", str(tmp_path / "c")
            ).start()
    with pytest.raises(InvalidInput, match="streaming DataFrame"):
        table.write_stream(spark.range(1)).start()
    with pytest.raises(InvalidInput, match="streaming DataFrame"):
        table.write_stream(pa.table({"id": [1]})).start()
    # Spark knows no such option
    by_sparks_writer = frame.writeStream.format("iceberg").option(
        "checkpoint-location", str(tmp_path / "c")
    )
    for start in (
        table.write_stream(frame).start,
        lambda: by_sparks_writer.start(table.location()),
    ):
        with pytest.raises(InvalidInput, match="needs a checkpoint location"):
            start()
    with pytest.raises(Unsupported, match="foreachBatch"):
        table.write_stream(frame).foreachBatch(lambda f, n: None)


def test_many_partitions_make_no_file_for_each_task_and_partition(spark, catalog, tmp_path):
    table = catalog.create_table("db.t", SCHEMA, partition_by=["p"])
    where = folder(tmp_path, [(n, f"p{n % 20}", n) for n in range(2000)])
    frame = stream(spark, where).repartition(8)
    drained(
        table.write_stream(frame)
        .option("checkpointLocation", str(tmp_path / "c"))
        .trigger(availableNow=True)
    )
    assert len(held(table)) == 2000 and len(table.inspect.files()) == 20


def test_hooks_get_the_watermark_of_the_batch(spark, catalog, tmp_path):
    table, seen = catalog.create_table("db.w", "id bigint, ts timestamp"), []

    class Hook:
        def actions(self, batch, at):
            seen.append((batch.batch_id, batch.watermark_ms))
            return ()

        def committed(self, batch, at):
            pass

    frame = (
        stream(spark, folder(tmp_path, [(3_600, "a", 1)], [(7_200, "a", 1)]))
        .selectExpr("id", "timestamp_seconds(id) ts")
        .withWatermark("ts", "0 seconds")
    )
    drained(
        table.write_stream(frame, hooks=[Hook()])
        .option("checkpointLocation", str(tmp_path / "c"))
        .trigger(availableNow=True)
    )
    assert (0, None) in seen and (1, 3_600_000) in seen


def test_hooks_that_cannot_be_called_are_refused_before_the_query_starts(spark, catalog, tmp_path):
    class Misspelt:
        def actions(self, batch, table):
            return ()

        def commited(self, batch, table): ...

    class Hook(Misspelt):
        def committed(self, batch, table): ...

    class Short(Hook):
        def actions(self, batch): ...

    table, frame = catalog.create_table("db.w", "id bigint"), spark.readStream.format("rate").load()
    for hooks, text in (
        ([Misspelt()], "Misspelt object.* has no method committed. Is it 'commited'?"),
        ([print], "print.* has no method actions"),
        ([Short()], r"actions of the hook .*Short object.* cannot be called with \(batch, table\)"),
        ([Hook], r"actions of the hook .*Hook'> cannot be called with \(batch, table\)"),
        (Hook(), "hooks is a list of hooks, not"),
    ):
        with pytest.raises(InvalidInput, match=text):
            table.write_stream(frame.selectExpr("value id"), hooks=hooks).start()


# Without frazil.install
# ------------------------------------------------------------------------------------------------------------------


def test_the_python_data_source_appends_and_replaces_exactly_once(
    session, table, catalog, tmp_path
):
    where = folder(tmp_path, [(1, "a", 1)], [(2, "b", 1)])
    writer = (
        stream(session, where)
        .writeStream.format("iceberg")
        .option("checkpointLocation", str(tmp_path / "c"))
    )
    drained(writer.trigger(availableNow=True).start(table.location()))
    assert held(table) == [(1, "a", 1), (2, "b", 1)] and unknown_files(table) == set()
    forget_last_commit(tmp_path / "c")
    drained(writer.trigger(availableNow=True).start(table.location()))
    assert (
        held(table) == [(1, "a", 1), (2, "b", 1)]
        and len(table.snapshots()) == 2
        and unknown_files(table) == set()
    )
    counts = catalog.create_table("db.counts", "p string, count bigint")
    frame = (
        stream(session, where)
        .groupBy("p")
        .count()
        .writeStream.format("iceberg")
        .outputMode("complete")
    )
    drained(
        frame.option("checkpointLocation", str(tmp_path / "c2"))
        .trigger(availableNow=True)
        .start(counts.location())
    )
    assert held(counts) == [("a", 1), ("b", 1)]


def test_the_python_data_source_upserts_exactly_once_also_by_the_tables_property(
    session, catalog, tmp_path
):
    table = catalog.create_table(
        "db.t",
        "id bigint not null, p string, v bigint",
        identifier_fields=["id"],
        properties={"write.upsert.enabled": "true"},
    )
    frame = stream(session, folder(tmp_path, [(1, "a", 1), (2, "a", 1)], [(1, "b", 2)])).selectExpr(
        "coalesce(id, 0L) as id", "p", "v"
    )
    writer = (
        frame.writeStream.format("iceberg")
        .option("checkpointLocation", str(tmp_path / "c"))
        .trigger(availableNow=True)
    )
    for _ in range(2):
        drained(writer.start(table.location()))
        assert (
            held(table) == [(1, "b", 2), (2, "a", 1)]
            and len(table.snapshots()) == 2
            and unknown_files(table) == set()
        )
        forget_last_commit(tmp_path / "c")
    writer = (
        frame.writeStream.format("iceberg")
        .option("write-mode", "append")
        .option("checkpointLocation", str(tmp_path / "c2"))
    )
    drained(writer.trigger(availableNow=True).start(table.location()))
    assert len(held(table)) == 5, "what the option says goes before what the table says"


def test_a_batch_of_the_python_data_source_that_fails_in_a_task_leaves_no_file(
    session, table, tmp_path
):
    def failing(batches):  # after the other task has reported its files
        for b in batches:
            if 7 in b.column(0).to_pylist():
                time.sleep(3)
                raise ValueError("injected")
            yield b

    frame = (
        stream(session, folder(tmp_path, [(n, "a", n) for n in range(10)]))
        .repartition(2, "id")
        .mapInArrow(failing, SCHEMA)
    )
    writer = (
        frame.writeStream.format("iceberg")
        .option("checkpointLocation", str(tmp_path / "c"))
        .trigger(availableNow=True)
    )
    with pytest.raises(Exception, match="injected"):
        drained(writer.start(table.location()))
    assert held(table) == [] and unknown_files(table) == set() and table.current_snapshot() is None


# The writer of the Python data source by itself
# --------------------------------------------------------------------------------------------


QUERY = "5f0cd4d0-1f1a-4f0d-8f16-7c5f6c0b7a10"


def source_writer(table, overwrite=False, **options):
    """A new one for each call, as PySpark makes them."""
    from pyspark.sql.types import LongType, StringType, StructField, StructType

    from frazil.spark.engine.datasource import IcebergSource

    schema = StructType(
        [
            StructField("id", LongType()),
            StructField("p", StringType()),
            StructField("v", LongType()),
        ]
    )
    return IcebergSource({"path": table.location(), **options}).streamWriter(schema, overwrite)


def written(table, monkeypatch, *rows, batch=0):
    """The message of a task that has written rows."""

    class Task:
        def getLocalProperty(self, name):
            return {"sql.streaming.queryId": QUERY, "streaming.sql.batchId": str(batch)}.get(name)

        def attemptNumber(self):
            return 0

        partitionId = taskAttemptId = attemptNumber

    monkeypatch.setattr(
        "frazil.spark.tasks.this_task.TaskContext", type("Now", (), {"get": staticmethod(Task)})
    )
    found = pa.record_batch(
        {"id": [r[0] for r in rows], "p": [r[1] for r in rows], "v": [r[2] for r in rows]}
    )
    return source_writer(table).write(iter([found]))


def test_a_commit_that_raised_after_it_was_applied_loses_no_file_to_the_abort_that_follows(
    table, monkeypatch
):
    message = written(table, monkeypatch, (1, "a", 1))
    # and the answer is lost: Spark calls abort with the same messages, in a new process
    source_writer(table).commit([message], 0)
    source_writer(table).abort([message], 0)
    source_writer(table).abort([message, None], 0)  # also when it holds that a task has failed
    assert held(table) == [(1, "a", 1)] and unknown_files(table) == set()


def test_an_abort_that_cannot_look_at_the_table_removes_nothing(table, monkeypatch):
    message = written(table, monkeypatch, (1, "a", 1))
    files = unknown_files(table)
    blind = source_writer(table)
    monkeypatch.setattr(
        type(blind._source),
        "table",
        property(lambda _: (_ for _ in ()).throw(OSError("unreachable"))),
    )
    blind.abort([message, None], 0)
    assert len(files) == 1 and unknown_files(table) == files


def test_an_abort_of_a_failed_batch_removes_its_files_and_a_replay_has_others(table, monkeypatch):
    monkeypatch.setattr("frazil.spark.streams.sink.source_writer.LINGER", 0.0)
    first = written(table, monkeypatch, (1, "a", 1))
    source_writer(table).abort([first, None], 0)
    assert unknown_files(table) == set()
    again, twin = written(table, monkeypatch, (1, "a", 1)), written(table, monkeypatch, (1, "a", 1))
    names = {m.files[0].file_path for m in (first, again, twin)}
    assert len(names) == 3 and all(f"{QUERY}-0-" in n for n in names)
    source_writer(table).commit([again], 0)
    source_writer(table).commit([twin], 0)
    assert (
        held(table) == [(1, "a", 1)]
        and unknown_files(table) == set()
        and len(table.snapshots()) == 1
    )


def test_a_commit_of_the_data_source_with_an_unknown_outcome_keeps_its_files(table, monkeypatch):
    from frazil.errors import CommitStateUnknownException
    from frazil.testing import FlakyBackend

    message = written(table, monkeypatch, (1, "a", 1))
    flaky, writer = (
        FlakyBackend(table._backend, ["lost"], unreachable_loads=9),
        source_writer(table),
    )
    table.set_properties({"commit.status-check.num-retries": "0"})
    loaded = table.refresh()._loaded
    with monkeypatch.context() as patched:
        patched.setattr(
            type(writer._source), "table", property(lambda _: (flaky, loaded, table.location()))
        )
        with pytest.raises(CommitStateUnknownException):
            writer.commit([message], 0)
    source_writer(table).abort([message], 0)
    assert flaky.fired == ["lost"] and len(unknown_files(table)) == 1 and held(table) == []
