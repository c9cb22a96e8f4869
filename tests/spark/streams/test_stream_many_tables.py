"""A stream into many tables on Spark: rows evaluated once, few jobs, bad tables set aside, and
drivers that are killed on the way.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import frazil
from frazil.errors import InvalidInput

pytestmark = pytest.mark.spark
SCHEMA = "topic string, id bigint, v bigint"


def folder(place: Path, *files: list[tuple]) -> str:
    """Write one Parquet file for each batch; Spark takes files in the order of their times."""
    where = place / "in"
    where.mkdir(exist_ok=True)
    for rows in files:
        n = len(list(where.iterdir()))
        columns = [
            pa.array(c, t)
            for c, t in zip(
                zip(*rows, strict=True), (pa.string(), pa.int64(), pa.int64()), strict=True
            )
        ]
        file = where / f"{n:03d}.parquet"
        pq.write_table(pa.table(dict(zip(("topic", "id", "v"), columns, strict=True))), file)
        os.utime(file, (1_700_000_000 + n,) * 2)
    return str(where)


def stream(spark, where):
    return spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(where)


def drained(writer, place):
    query = writer.option("checkpointLocation", str(place)).trigger(availableNow=True).start()
    query.awaitTermination()
    return query


def held(catalog, name):
    return sorted(
        (tuple(r.values()) for r in catalog.load_table(name).scan().to_arrow().to_pylist()),
        key=repr,
    )


def test_rows_go_to_the_tables_that_they_name_which_are_made_and_evolved(spark, catalog, tmp_path):
    told = []
    where = folder(
        tmp_path,
        [("db.a", 1, 1), ("db.b", 2, None), ("db.a", 3, 3)],
        [("db.b", 4, 4), ("db.a", 5, 5)],
    )
    writer = catalog.write_stream(
        stream(spark, where),
        "topic",
        create={"partition_by": ["bucket(2, id)"]},
        on_commit=lambda n, r: told.append((n, sorted(r.tables))),
    )
    drained(writer, tmp_path / "c")
    assert held(catalog, "db.a") == [(1, 1), (3, 3), (5, 5)] and held(catalog, "db.b") == [
        (2, None),
        (4, 4),
    ]
    tables = [catalog.load_table(n) for n in ("db.a", "db.b")]
    assert [[str(s.operation) for s in t.snapshots()] for t in tables] == [["append"] * 2] * 2
    assert [len(t.schemas()) for t in tables] == [1, 2] and [
        f.name for f in tables[0].spec().fields
    ] == ["id_bucket"]
    assert told == [(n, [f"{catalog.name}.db.a", f"{catalog.name}.db.b"]) for n in range(2)]


@pytest.mark.parametrize(
    "options", [{}, {"mode": "upsert", "key_columns": "id"}], ids=["append", "upsert"]
)
def test_a_batch_is_evaluated_once_and_each_further_table_costs_the_same_few_jobs(
    options, spark, catalog, tmp_path
):
    log = tmp_path / "log"

    def seen(batches):
        for b in batches:
            with open(log, "a") as f:
                f.write(f"{b.num_rows}\n")
            yield b

    jobs = []
    for count in (1, 2, 4):
        place = tmp_path / str(count)
        place.mkdir()
        where = folder(place, [(f"db{count}.t{n % count}", n, n) for n in range(8)])
        log.write_text("")
        frame = stream(spark, where).mapInArrow(seen, SCHEMA)
        query = drained(catalog.write_stream(frame, "topic", **options), place / "c")
        assert sum(map(int, log.read_text().split())) == 8
        assert sum(len(held(catalog, f"db{count}.t{n}")) for n in range(count)) == 8
        jobs.append(len(spark.sparkContext.statusTracker().getJobIdsForGroup(str(query.runId))))
    assert spark.sparkContext._jsc.getPersistentRDDs().isEmpty(), "the cache is given back"
    assert jobs[2] - jobs[1] == 2 * (jobs[1] - jobs[0]) and jobs[1] - jobs[0] <= 2 * jobs[0], jobs


def test_rows_that_no_table_takes_are_set_aside_as_json(spark, catalog, tmp_path):
    told = []
    catalog.create_namespace("db")
    catalog.create_table("db.strict", "id bigint, v bigint not null")
    where = folder(
        tmp_path,
        [
            ("db.a", 1, 1),
            (None, 2, 2),
            ("it's no name", 3, None),
            ("db.strict", 4, None),
            ("db.a", 5, 5),
        ],
    )
    writer = catalog.write_stream(
        stream(spark, where),
        "topic",
        on_bad_table="set-aside",
        set_aside_table="db.aside",
        on_commit=lambda n, r: told.append(r),
    )
    drained(writer, tmp_path / "c")
    kept = catalog.load_table("db.aside").scan().to_arrow().to_pylist()
    assert {r["table_name"]: json.loads(r["row"])["id"] for r in kept} == {
        None: 2,
        "it's no name": 3,
        "db.strict": 4,
    }
    assert all(r["reason"] and r["batch_id"] == 0 and r["query_id"] for r in kept)
    assert {s.table_name: s.rows for s in told[0].set_aside} == {
        None: 1,
        "it's no name": 1,
        "db.strict": 1,
    }
    assert held(catalog, "db.a") == [(1, 1), (5, 5)] and held(catalog, "db.strict") == []


def test_a_bad_table_stops_the_query_and_the_next_start_goes_on(spark, catalog, tmp_path):
    catalog.create_namespace("db")
    catalog.create_table("db.a", "id bigint, v bigint")
    where = folder(tmp_path, [("db.a", 1, 1), ("db.z", 2, 2)])
    with pytest.raises(Exception, match=r"db\.z"):
        drained(catalog.write_stream(stream(spark, where), "topic", create=False), tmp_path / "c")
    assert held(catalog, "db.a") == [(1, 1)]
    drained(catalog.write_stream(stream(spark, where), "topic", create=True), tmp_path / "c")
    assert held(catalog, "db.a") == [(1, 1)] and held(catalog, "db.z") == [(2, 2)]


def test_what_cannot_work_is_refused_before_the_query_starts(spark, catalog, tmp_path):
    frame = stream(spark, folder(tmp_path, [("db.a", 1, 1)]))
    for column, given, word in (
        ("nothing", {}, "no column"),
        ("id", {}, "of text|are text"),
        ("topic", {"mode": "complete"}, "many tables"),
        ("topic", {"on_commit": 1}, "on_commit"),
        ("topic", {"no-such": 1}, "no-such"),
        ("topic", {"create": 3}, "create"),
        (5, {}, "table_column"),
        ("topic", {"evolve": "false"}, "evolve"),
        ("topic", {"case_sensitive": "false"}, "case_sensitive"),
        ("topic", {"snapshot_properties": "a"}, "snapshot_properties"),
        # with on_bad_table="set-aside" each of these would set all rows aside
        ("topic", {"mode": "upsert", "key_columns": "key"}, "key-columns: the frame has no column"),
        ("topic", {"mode": "upsert", "key_columns": "id,id"}, "twice"),
        ("topic", {"mode": "upsert", "order_column": "seq"}, "order-column: the frame has no"),
        ("topic", {"mode": "cdc", "key_columns": "id"}, "needs the kind of each row"),
        ("topic", {"mode": "cdc", "op_column": "kind"}, "op-column: the frame has no column"),
    ):
        with pytest.raises(InvalidInput, match=word):
            catalog.write_stream(frame, column, **given).option(
                "checkpointLocation", str(tmp_path / "c")
            ).start()
    with pytest.raises(InvalidInput, match="streaming DataFrame"):
        catalog.write_stream(spark.range(1), "id")


@pytest.mark.disk
@pytest.mark.soak  # the short form of test_stream_kills_at_points.py dies there, too
@pytest.mark.parametrize(
    ("kills", "more"),
    [(("after 2 1",), []), (("before 2 0", "after 2 1", "told 2"), [[2, True, {}]])],
)
def test_drivers_killed_between_two_tables_commits_leave_every_row_once(tmp_path, kills, more):
    files = [[("db.a", n, n), ("db.b", n, n), ("no name", n, n)] for n in range(3)]
    where = folder(tmp_path, *files)
    child = Path(__file__).parents[1] / "faults" / "many_tables.py"
    codes, lines = [], []
    for kill in (*kills, "never"):
        command = [sys.executable, str(child), str(tmp_path), where, kill]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=300, env=dict(os.environ)
        )
        codes.append(done.returncode)
        lines += [json.loads(line) for line in done.stdout.splitlines() if line.startswith("[")]
    assert codes == [*(-9 for _ in kills), 0], "every fault fired"
    catalog = frazil.load_catalog("c", type="path", warehouse=str(tmp_path / "wh"))
    for name in ("db.a", "db.b"):
        assert (
            held(catalog, name) == [(n, n) for n in range(3)]
            and len(catalog.load_table(name).snapshots()) == 3
        )
    assert (
        len(held(catalog, "db.aside")) == 3 and len(catalog.load_table("db.aside").snapshots()) == 3
    )
    a, b = "c.db.a", "c.db.b"
    assert lines == [
        [0, False, {a: "before 2 0" in kills, b: False}],
        [1, False, {a: True, b: True}],
        [2, False, {a: False, b: False}],
        *more,
    ]
