"""Queries that go on from an old checkpoint, that are stopped within a batch, and that write into
one table at the same time.
"""

import shutil
import threading

import pyarrow as pa
import pytest

from frazil.spark.host.settings import temporarily
from frazil.spark.streams.sink.batch_rows import FrameRows
from tests.spark.streams.test_stream_sink import (
    KEYS,
    SCHEMA,
    drained,
    folder,
    held,
    stream,
    unknown_files,
)

pytestmark = pytest.mark.spark


def writer(spark, table, where, checkpoint, **options):
    return (
        table.write_stream(stream(spark, where), **options)
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
    )


def test_a_checkpoint_restored_from_a_backup_fails_passes_over_or_writes_again_what_is_committed(
    spark, catalog, tmp_path
):
    table, checkpoint, backup = (
        catalog.create_table("db.t", SCHEMA),
        tmp_path / "c",
        tmp_path / "backup",
    )
    where = folder(tmp_path, [(0, "a", 0)])
    drained(writer(spark, table, where, checkpoint))
    shutil.copytree(checkpoint, backup)
    folder(tmp_path, [(1, "a", 1)], [(2, "a", 2)])
    drained(writer(spark, table, where, checkpoint))
    folder(tmp_path, [(3, "a", 3)])

    def restored(policy):
        told = []
        shutil.rmtree(checkpoint)
        shutil.copytree(backup, checkpoint)
        again = writer(
            spark,
            table,
            where,
            checkpoint,
            on_rewind=policy,
            on_commit=lambda n, r: told.append((n, r.skipped)),
        )
        try:
            drained(again)
        finally:
            assert unknown_files(table) == set()
        return told

    rows = [(n, "a", n) for n in range(4)]
    with pytest.raises(Exception, match="Batch 1 of the streaming query .* comes after batch 2"):
        restored("fail")
    assert held(table) == rows[:3]
    assert restored("skip") == [(1, True), (2, True), (3, False)] and held(table) == rows
    assert restored("rewrite") == [(1, False), (2, False), (3, False)] and held(table) == sorted(
        [*rows, *rows[1:]]
    )


def test_queries_that_write_into_one_table_at_once_lose_and_double_nothing(
    spark, catalog, tmp_path
):
    """All stage their second batch before any of them commits it."""
    table = catalog.create_table("db.t", SCHEMA, format_version=3)
    table.append([{"id": n, "p": "z", "v": -1} for n in range(8)])
    together, queries = threading.Barrier(3), {}

    class Hook:
        def __init__(self):
            self.met = False

        def actions(self, batch, at):
            if batch.batch_id == 1 and not self.met:
                together.wait(120)
                self.met = True
            return ()

        def committed(self, batch, at):
            pass

    hooks = [Hook() for _ in range(3)]
    for n, (hook, options) in enumerate(zip(hooks, ({}, KEYS, KEYS), strict=True)):
        (tmp_path / str(n)).mkdir()
        # the queries that upsert change rows of the same file, each its own
        first = 100 if not options else 2 * n
        where = folder(
            tmp_path / str(n),
            [(first, f"q{n}", 0)],
            [(first + 1, f"q{n}", 1)],
            [(first, f"q{n}", 2)] if options else [],
        )
        queries[n] = writer(
            spark, table, where, tmp_path / f"c{n}", hooks=[hook], **options
        ).start()
    for query in queries.values():
        query.awaitTermination(240)
    assert all(h.met for h in hooks)
    changed = {2: ("q1", 2), 3: ("q1", 1), 4: ("q2", 2), 5: ("q2", 1)}
    expected = [(n, *changed.get(n, ("z", -1))) for n in range(8)]
    assert held(table) == sorted([*expected, (100, "q0", 0), (101, "q0", 1)], key=repr)
    assert unknown_files(table) == set()


@pytest.mark.parametrize(
    ("options", "at"),
    [({}, "before"), (KEYS, "before"), (KEYS, "after")],
    ids=["append", "upsert", "upsert, done"],
)
def test_a_query_stopped_within_a_batch_leaves_nothing_or_all_of_it_and_goes_on(
    spark, catalog, tmp_path, options, at
):
    table, reached, go_on = (
        catalog.create_table("db.t", SCHEMA),
        threading.Event(),
        threading.Event(),
    )
    where = folder(
        tmp_path,
        [(1, "a", 1), (2, "a", 1)],
        [(2, "b", 2), (3, "b", 2)] if options else [(3, "b", 2)],
    )

    class Hook:
        def wait(self, batch, here):
            if batch.batch_id == 1 and here == at and not reached.is_set():
                reached.set()
                assert go_on.wait(120)

        def actions(self, batch, loaded):
            self.wait(batch, "before")
            return ()

        def committed(self, batch, loaded):
            self.wait(batch, "after")

    query = writer(spark, table, where, tmp_path / "c", hooks=[Hook()], **options).start()
    assert reached.wait(120)
    stopping = threading.Thread(target=query.stop)
    stopping.start()
    stopping.join(0.3)
    go_on.set()
    stopping.join(120)
    assert not stopping.is_alive() and not query.isActive
    first = [(1, "a", 1), (2, "a", 1)]
    whole = [(1, "a", 1), (2, "b", 2), (3, "b", 2)] if options else [*first, (3, "b", 2)]
    assert held(table) in ([whole] if at == "after" else [first, whole])
    drained(writer(spark, table, where, tmp_path / "c", **options))
    assert held(table) == whole and unknown_files(table) == set()


@pytest.mark.parametrize(
    "options",
    [{}, KEYS, {**KEYS, "upsert_strategy": "equality-deletes"}],
    ids=["append", "look-up", "equality-deletes"],
)
def test_so_many_tasks_write_a_batch_as_write_parallelism_says(
    spark, catalog, tmp_path, options, monkeypatch
):
    table, parts = catalog.create_table("db.t", SCHEMA), []
    if options:
        run = FrameRows._run
        monkeypatch.setattr(
            FrameRows, "_run", lambda self, *more: parts.append(run(self, *more)) or parts[-1]
        )
    where = folder(tmp_path, [(n, "a", n) for n in range(50)])
    drained(writer(spark, table, where, tmp_path / "c", write_parallelism=5, **options))
    assert held(table) == sorted(((n, "a", n) for n in range(50)), key=repr)
    if options:
        assert [len(p) for p in parts] == [5]
    else:
        assert len(table.inspect.files()) == 5


def test_the_tasks_of_a_large_batch_hold_a_bounded_part_of_its_keys(
    spark, catalog, tmp_path, monkeypatch
):
    table, parts, slots = (
        catalog.create_table("db.t", SCHEMA),
        [],
        spark.sparkContext.defaultParallelism,
    )
    run = FrameRows._run

    def counted(self, *more):
        found = run(self, *more)
        parts.append(
            [
                sum(
                    pa.ipc.open_file(path.removeprefix("file://")).read_all().num_rows
                    for path in files
                )
                for files in found
            ]
        )
        return found

    monkeypatch.setattr(FrameRows, "_run", counted)
    small = {
        f"spark.sql.adaptive.{name}": "4KB"
        for name in ("advisoryPartitionSizeInBytes", "coalescePartitions.minPartitionSize")
    }
    where = folder(tmp_path, [(n % 3000, "a", n) for n in range(6000)])
    with temporarily(spark, small):
        drained(writer(spark, table, where, tmp_path / "small", **KEYS))
        # so that this batch is a large one
        monkeypatch.setattr("frazil.spark.streams.sink.key_shuffle._SMALL", 1000)
        drained(writer(spark, table, where, tmp_path / "large", **KEYS))
    assert len(parts[0]) == slots and len(parts[1]) > 5 * slots and max(parts[1]) < 3000 / slots / 2
    assert [sum(p) for p in parts] == [3000, 3000]
    assert held(table) == sorted(((n, "a", n + 3000) for n in range(3000)), key=repr)
