"""Row-level deletes on Spark's own scan: bitmaps, anti joins, and who pays for them."""

import math
import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import functions as F

from frazil.arrow.deletes.write_deletes import FileDeletes, write_vectors
from frazil.arrow.values.arrow_schema import to_arrow_schema
from frazil.arrow.write.write_context import WriteContext
from frazil.arrow.write.write_options import write_options
from frazil.commit.actions import RowDelta
from frazil.commit.table_commit import commit
from frazil.errors import CorruptData, ValidationException
from frazil.scan import deletes
from frazil.spark.deletes import bitmaps, equality, native_deletes, one_bitmap
from frazil.spark.read import native_read
from frazil.spark.scan import file_keys, parquet_scan
from frazil.spec import types as i
from frazil.spec.manifest import DataFile, DataFileContent
from tests.builders.examples import sampled
from tests.builders.spark_frames import ids
from tests.spark.deleting import take_keys, take_positions

pytestmark = pytest.mark.spark
NAN = float("nan")


def plan_of(frame):
    frame.collect()
    return frame._jdf.queryExecution().executedPlan().toString()


def numbers(first, count):
    return pa.table(
        {
            "id": pa.array(range(first, first + count), pa.int64()),
            "s": [f"s{n % 7}" for n in range(first, first + count)],
        }
    )


def table(catalog, version=2, **properties):
    return catalog.create_table(
        "db.t", "id bigint, s string", format_version=version, properties=properties
    )


@pytest.fixture
def t(catalog):
    return table(catalog)


@pytest.mark.versions
@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("way", ["one bitmap", "join"])
def test_positions_are_bitmaps_and_only_files_with_deletes_pay(
    catalog, session, monkeypatch, version, way
):
    monkeypatch.setattr(native_read, "FEW_ROWS", 9)
    if way == "join":
        monkeypatch.setattr(one_bitmap, "ROWS", 0)
    t = table(catalog, version)
    t.append(numbers(0, 3000))
    take_positions(t, lambda r: r["id"] % 3 == 0)
    t.append(numbers(3000, 10))
    frame = t.to_spark(session).filter("id >= 5")
    assert frame.columns == ["id", "s"]
    assert ids(frame) == [n for n in range(5, 3010) if n % 3 or n >= 3000]
    plan = plan_of(frame.select("id").filter("id < 100000"))
    assert "MapInArrow" not in plan
    plans = 2 * plan.count("AdaptiveSparkPlan isFinalPlan=true")  # final and initial plan
    assert (plan.count("BroadcastHashJoin"), "Subquery" in plan) == (
        (plans, False) if way == "join" else (0, True)
    )
    assert "Union" in plan
    assert "GreaterThanOrEqual(id,5)" in plan  # pushed beneath the deletes
    for line in (x for x in plan.splitlines() if "BatchScan" in x):
        assert "s:string" not in line
    without, with_deletes = sorted(
        {x.count("row_index") for x in plan.splitlines() if "BatchScan" in x}
    )
    assert without == 0 < with_deletes


@pytest.mark.parametrize("limit", sampled(["rows", "files", "none"], 2))
@pytest.mark.parametrize("way", ["one bitmap", "join", "by path"])
def test_few_rows_without_deletes_are_scanned_with_the_others(
    catalog, session, rows, monkeypatch, way, limit
):
    """They lie in two partition specs, of which no column speaks."""
    match way:
        case "join":
            monkeypatch.setattr(one_bitmap, "ROWS", 0)
        case "by path":  # as on Spark Connect
            monkeypatch.setattr(parquet_scan, "jvm_of", lambda _: None)
    t = table(catalog, 3)
    t.append(numbers(0, 300))
    take_positions(t, lambda r: r["id"] % 3 == 0)
    t.append(numbers(300, 300))
    with t.update_spec() as update:
        update.add_field("s")
    t.append(pa.table({"id": [600, 601], "s": ["s1", "s2"]}))
    kept = [n for n in range(602) if n % 3 or n >= 300]
    match limit:
        case "rows":
            monkeypatch.setattr(native_read, "FEW_ROWS", 301)
        case "files":
            monkeypatch.setattr(native_read, "FEW_FILES", 2)
    frame = t.to_spark(session)
    assert ids(frame) == kept
    assert ("Union" in plan_of(frame)) == (limit != "none")
    shown = t.scan(
        "id % 2 = 0",
        selected_fields=("id", "_file", "_pos", "_deleted", "_spec_id", "_row_id", "_partition"),
    )
    assert rows(shown.to_spark(session)) == sorted(shown.to_arrow().to_pylist(), key=repr)


def test_deletes_of_a_partition_that_name_no_row_of_the_files_read(t, session):
    for n in range(3):
        t.append(numbers(n * 10, 10))
    tasks = sorted(t.scan().plan_files(), key=lambda task: task.file.file_path)
    rows = t.scan(selected_fields=("id", "_file")).to_arrow().to_pylist()
    first, between, last = (
        [r["id"] for r in rows if r["_file"] == x.file.file_path] for x in tasks
    )
    # its bounds reach over the file between
    take_positions(t, lambda r: r["id"] in (first[3], last[5]), "partition")
    scan = t.scan(f"id >= {between[0]} and id <= {between[-1]}")
    assert [len(task.delete_files) for task in scan.plan_files()] == [1]
    assert ids(scan.to_spark(session)) == between


@pytest.mark.parametrize(
    "way", ["one", "one by path", "driver", "driver by path", "tasks", "streamed"]
)
@pytest.mark.parametrize("granularity", sampled(["partition", "file"], 2))
def test_however_bitmaps_are_made_they_are_the_same(
    catalog, session, monkeypatch, way, granularity
):
    match way.split():
        case ["driver", *_]:
            monkeypatch.setattr(one_bitmap, "ROWS", 0)
        case ["tasks" | "streamed"]:
            monkeypatch.setattr(bitmaps, "ON_DRIVER", (0, 0, 0))
    if way.endswith("by path"):  # as on Spark Connect
        monkeypatch.setattr(parquet_scan, "jvm_of", lambda _: None)
    if way == "streamed":
        monkeypatch.setattr(bitmaps, "LARGE", 0)
    t = table(catalog, 2)
    for n in range(3):
        t.append(numbers(n * 70_000, 70_000))  # two bitmaps a file; of three sizes
    take_positions(t, lambda r: r["id"] % 1000 == 5, granularity)
    take_positions(t, lambda r: r["id"] % 1000 == 6 or r["id"] in (65_535, 65_536), granularity)
    gone = {n for n in range(210_000) if n % 1000 in (5, 6)} | {65_535, 65_536}
    frame = t.to_spark(session)
    assert frame.count() == 210_000 - len(gone)
    assert frame.agg(F.sum("id")).first()[0] == sum(range(210_000)) - sum(gone)
    plan = plan_of(frame.limit(1))
    assert ("MapInArrow" in plan, "BroadcastHashJoin" in plan) == (
        way in ("tasks", "streamed"),
        not way.startswith("one"),
    )
    assert ("xxhash64" in plan) == way.endswith("by path")


def test_bitmaps_beyond_what_is_broadcast_are_left_to_arrow(catalog, session, monkeypatch):
    monkeypatch.setattr(native_deletes, "CHUNKS", 1)
    t = table(catalog, 3)
    for n in range(3):
        t.append(numbers(n * 10, 10))
    take_positions(t, lambda r: r["id"] % 2 == 0)
    frame = t.to_spark(session)
    assert ids(frame) == list(range(1, 30, 2))
    plan = plan_of(frame)
    assert "MapInArrow" in plan
    assert "Subquery" in plan


@pytest.mark.versions
@pytest.mark.parametrize("version", [2, 3])
def test_deletes_apply_to_files_of_odd_paths(catalog, session, version, rows):
    t = catalog.create_table(
        "db.odd", "id bigint, p string", partition_by=["p"], format_version=version
    )
    values = [
        "a b",
        "50%",
        "ü/ä",
        "x*y?",
        "q=[1]{2}",
        "plus+",
        "new\u00a0space",
        "häß%20",
        "'\"`^|~<>",
    ]
    t.append(
        pa.table(
            {
                "id": pa.array(range(3 * len(values)), pa.int64()),
                "p": [v for v in values for _ in range(3)],
            }
        )
    )
    take_positions(t, lambda r: r["id"] % 3 == 1)
    frame = t.to_spark(session)
    assert ids(frame) == [n for n in range(3 * len(values)) if n % 3 != 1]
    assert "MapInArrow" not in plan_of(frame)
    shown = t.scan(selected_fields=("id", "_file", "_pos", "_deleted"))
    assert rows(shown.to_spark(session)) == sorted(shown.to_arrow().to_pylist(), key=repr)


@pytest.mark.versions
def test_equality_deletes_are_anti_joins_by_age(t, session):
    t.append(numbers(0, 100))
    take_keys(t, ["id"], [{"id": n} for n in range(10)])
    frame = t.to_spark(session)
    assert ids(frame) == list(range(10, 100))
    plan = plan_of(frame.select("s"))
    assert "MapInArrow" not in plan
    assert "BroadcastHashJoin [id" in plan  # no null among the keys: a plain comparison of longs
    assert "row_index" not in plan
    t.append(numbers(5, 3))  # younger than the deletes: stays
    take_keys(t, ["s"], [{"s": "s3"}])
    want = sorted([n for n in range(10, 100) if n % 7 != 3] + [n for n in (5, 6, 7) if n % 7 != 3])
    assert ids(t.to_spark(session)) == want
    t.append(numbers(3, 1))
    assert ids(t.to_spark(session)) == sorted([*want, 3])
    plan = plan_of(t.to_spark(session))
    assert "Union" in plan
    assert t.scan().to_spark(session).count() == t.scan().count()


@pytest.mark.versions
def test_large_sets_of_keys_are_joined_by_sorting(catalog, session, monkeypatch):
    monkeypatch.setattr(equality, "BROADCAST", 0)
    monkeypatch.setattr(equality, "SORTED", 0)
    t = table(catalog)
    t.append(numbers(0, 1000))
    take_keys(
        t,
        ["id", "s"],
        [{"id": n, "s": f"s{n % 7}"} for n in range(500)] + [{"id": None, "s": None}],
    )
    t.append(numbers(0, 10))
    frame = t.to_spark(session)
    assert ids(frame) == sorted([*range(10), *range(500, 1000)])
    assert "SortMergeJoin" in plan_of(frame)


def test_nulls_equal_nulls_and_floats_are_told_apart_by_their_bits(catalog, session):
    t = catalog.create_table("db.floats", "n int, d double, f float, s string", format_version=2)
    d = [None, NAN, 0.0, -0.0, 1.5, math.inf]
    made = {
        "n": pa.array(range(6), pa.int32()),
        "d": d,
        "f": pa.array(d, pa.float32()),
        "s": [None, "a", "b", None, "c", "d"],
    }
    t.append(pa.table(made))
    left = lambda: sorted(r["n"] for r in t.to_spark(session).select("n").collect())
    take_keys(t, ["d"], [{"d": NAN}])
    assert left() == [0, 2, 3, 4, 5]
    take_keys(t, ["d"], [{"d": -0.0}])
    assert left() == [0, 2, 4, 5]
    take_keys(t, ["f", "s"], [{"f": 0.0, "s": None}, {"f": math.inf, "s": "d"}])
    assert left() == [0, 2, 4]
    take_keys(t, ["d", "s"], [{"d": None, "s": None}])
    assert left() == [2, 4]
    with t.update_schema() as u:
        u.update_column("f", i.DoubleType())
    take_keys(t, ["f"], [{"f": 1.5}])
    assert left() == [2]
    assert "MapInArrow" not in plan_of(t.to_spark(session))


@pytest.mark.parametrize("kind", ["parquet", "orc"])
def test_keys_that_were_renamed_widened_or_dropped_since_still_delete(catalog, session, rows, kind):
    t = catalog.create_table("db.evolved", "id int, k string, v int", format_version=2)
    made = {
        "id": pa.array(range(6), pa.int32()),
        "k": ["a", "b", "c", "d", "e", "f"],
        "v": pa.array(range(6), pa.int32()),
    }
    t.append(pa.table(made))
    before = t.current_snapshot().snapshot_id
    take_keys(t, ["id"], [{"id": 1}], kind=kind)
    narrow = t.current_snapshot().snapshot_id
    take_keys(t, ["k"], [{"k": "c"}], kind=kind)
    with t.update_schema() as u:
        u.update_column("id", i.LongType())
        u.rename_column("v", "k2")
    take_keys(t, ["id", "k2"], [{"id": 3, "k2": 3}, {"id": 4, "k2": 5}], kind=kind)
    with t.update_schema() as u:
        u.delete_column("k")
    with t.update_schema() as u:
        u.rename_column("k2", "k")
    frame = t.to_spark(session)
    assert rows(frame) == sorted(({"id": n, "k": n} for n in (0, 4, 5)), key=repr)
    assert rows(frame.filter("k > 4")) == [{"id": 5, "k": 5}]
    assert t.scan(snapshot_id=before).to_spark(session).count() == 6
    assert t.scan(snapshot_id=narrow).to_spark(session).count() == 5
    if kind == "parquet":
        assert "MapInArrow" not in plan_of(frame)


def test_deletes_of_a_partition_reach_only_it_and_those_without_one_reach_all(catalog, session):
    t = catalog.create_table(
        "db.parts", "id bigint, p string", partition_by=["p"], format_version=2
    )
    rows = pa.table(
        {"id": pa.array([1, 2, 3, 1, 2, 3], pa.int64()), "p": ["a", "a", "a", "b", "b", None]}
    )
    t.append(rows)
    take_keys(t, ["id"], [{"id": 1}, {"id": 3}], partition=("a",))
    got = lambda: sorted(((r["id"], r["p"]) for r in t.to_spark(session).collect()), key=repr)
    assert got() == sorted([(2, "a"), (1, "b"), (2, "b"), (3, None)], key=repr)
    take_keys(t, ["id"], [{"id": 3}], partition=(None,))
    assert got() == [(1, "b"), (2, "a"), (2, "b")]
    with t.update_spec() as u:
        u.remove_field("p")
    take_keys(t, ["id"], [{"id": 2}])
    assert got() == [(1, "b")]
    assert "MapInArrow" not in plan_of(t.to_spark(session))


@pytest.mark.versions
@pytest.mark.parametrize("version", [2, 3])
def test_deleted_rows_are_shown_with_all_kinds_mixed(catalog, session, version):
    t = table(catalog, version)
    t.append(numbers(0, 20))
    take_keys(t, ["id"], [{"id": 1}, {"id": 2}, {"id": None}])
    t.append(numbers(0, 5))
    take_positions(t, lambda r: r["id"] in (3, 7))
    take_keys(t, ["s"], [{"s": "s4"}])
    t.append(numbers(100, 3))
    scan = t.scan(selected_fields=("id", "_file", "_pos", "_deleted"))
    key = lambda r: (r["_file"], r["_pos"])
    got = sorted((r.asDict() for r in scan.to_spark(session).collect()), key=key)
    assert got == sorted(scan.to_arrow().to_pylist(), key=key)
    assert sum(r["_deleted"] for r in got) == len(got) - t.to_spark(session).count()
    assert t.scan("_deleted", selected_fields=("id",)).to_spark(session).count() == sum(
        r["_deleted"] for r in got
    )
    assert "MapInArrow" not in plan_of(scan.to_spark(session))


SCRIPTS = 5


@pytest.mark.parametrize("seed", range(SCRIPTS))
def test_random_deletes_leave_the_rows_of_a_model(catalog, session, seed):
    """Appends, positions and keys of random columns, with renames and a widening; every third
    snapshot is read again at the end.
    """
    r = random.Random(seed)
    version = r.choice([2, 3])
    t = catalog.create_table(
        "db.random",
        "a int, b string, c double",
        partition_by=["b"] if seed % 2 else [],
        format_version=version,
    )
    names, model, states = {"a": "a", "b": "b", "c": "c"}, [], []
    pool = {"a": [None, 0, 1, 2, 3], "b": [None, "x", "y"], "c": [None, 0.0, -0.0, NAN, 2.5]}
    same = lambda x, y: repr(x) == repr(y)
    for step in range(10):
        do = (
            r.choice(["append", "append", "keys", "keys", "positions", "schema"])
            if step
            else "append"
        )
        row = lambda: {k: r.choice(v) for k, v in pool.items()}
        match do:
            case "append":
                new = [row() for _ in range(r.randint(1, 6))]
                model += new
                t.append(
                    pa.Table.from_pylist(
                        [{names[k]: v for k, v in x.items()} for x in new],
                        schema=to_arrow_schema(t.schema()),
                    )
                )
            case "keys":
                columns = sorted(r.sample("abc", r.randint(1, 3)))
                keys = [row() for _ in range(r.randint(1, 3))]
                scope = {} if not t.spec().fields else {"partition": (r.choice(pool["b"]),)}
                reached = lambda x, scope=scope: not scope or same(x["b"], scope["partition"][0])
                model = [
                    x
                    for x in model
                    if not (
                        reached(x) and any(all(same(x[c], k[c]) for c in columns) for k in keys)
                    )
                ]
                take_keys(
                    t,
                    [names[c] for c in columns],
                    [{names[c]: k[c] for c in columns} for k in keys],
                    **scope,
                )
            case "positions":
                chosen = r.choice(pool["a"])
                model = [x for x in model if x["a"] != chosen]
                take_positions(
                    t,
                    lambda x, n=names["a"], chosen=chosen: x[n] == chosen,
                    r.choice(["file", "partition"]),
                )
            case "schema":
                with t.update_schema() as u:
                    column = r.choice("abc")
                    u.rename_column(names[column], new := f"{column}{step}")
                names[column] = new
                if (
                    t.schema().find_field(names["a"]).field_type == i.IntegerType()
                    and r.random() < 0.5
                ):
                    with t.update_schema() as u:
                        u.update_column(names["a"], i.LongType())
        if t.current_snapshot() is not None and (
            not states or states[-1][0] != t.current_snapshot().snapshot_id
        ):
            states.append((t.current_snapshot().snapshot_id, list(model)))
    for snapshot_id, rows in states[::-3]:
        got = t.scan(snapshot_id=snapshot_id).to_spark(session).collect()
        assert sorted(map(repr, (tuple(x) for x in got))) == sorted(
            repr((x["a"], x["b"], x["c"])) for x in rows
        )


# Keys of files
# -------------------------------------------------------------------------------------------------------------------------
@pytest.mark.versions
def test_numbers_of_files_are_those_of_spark(session):
    texts = ["", *("ab/ä€%"[n % 6] * n + str(n) for n in range(1, 100))]
    frame = session.createDataFrame([(n, t) for n, t in enumerate(texts)], "n int, t string")
    want = [r[0] for r in frame.sort("n").select(F.xxhash64("t")).collect()]
    assert file_keys.xxhash64(texts).tolist() == want


@given(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=6))
def test_spans_are_apart_when_no_two_meet_and_none_overflows(made):
    spans = sorted(made)
    want = all(b - a >= file_keys.SPAN for a, b in zip(spans, spans[1:], strict=False)) and (
        not spans or spans[-1] + file_keys.SPAN < 2**63
    )
    assert file_keys.apart(np.array(made, np.int64)) is want


def test_files_whose_numbers_meet_are_numbered_again(t, session, monkeypatch):
    for n in range(3):
        t.append(numbers(n * 10, 10))
    take_positions(t, lambda r: r["id"] % 10 == 3)
    real = file_keys.xxhash64
    monkeypatch.setattr(parquet_scan, "jvm_of", lambda _: None)
    monkeypatch.setattr(
        file_keys,
        "xxhash64",
        lambda texts: real(texts) if texts[0].startswith("1") else np.zeros(len(texts), np.int64),
    )
    assert ids(t.to_spark(session)) == [n for n in range(30) if n % 10 != 3]


@given(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=40, unique=True))
def test_every_file_has_a_place_of_its_own(made):
    length = one_bitmap.places(made)
    assert len({n % length for n in made}) == len(made) <= length


def test_a_file_that_spark_names_in_other_words_is_read_by_arrow(t, session, monkeypatch):
    t.append(numbers(0, 10))
    take_positions(t, lambda r: r["id"] == 3)
    monkeypatch.setattr(parquet_scan, "jvm_of", lambda _: None)
    monkeypatch.setattr(file_keys, "spark_text", lambda p: "other:" + p)
    frame = t.to_spark(session)
    assert ids(frame) == [0, 1, 2, 4, 5, 6, 7, 8, 9]
    assert "MapInArrow" in plan_of(frame)


def test_a_column_named_as_spark_names_row_numbers(catalog, session, rows):
    t = catalog.create_table(
        "db.named", "id bigint, _tmp_metadata_row_index bigint, _metadata string", format_version=2
    )
    names = ["id", "_tmp_metadata_row_index", "_metadata"]
    t.append(
        pa.table(
            [pa.array([1, 2, 3], pa.int64()), pa.array([7, 8, 9], pa.int64()), ["a", "b", "c"]],
            names=names,
        )
    )
    assert rows(t.to_spark(session)) == t.scan().to_arrow().to_pylist()
    take_positions(t, lambda r: r["id"] == 2)
    for chosen in (
        ("id",),
        tuple(names),
        ("id", "_pos"),
        ("_tmp_metadata_row_index", "_pos", "_partition"),
    ):
        scan = t.scan(selected_fields=chosen)
        assert rows(scan.to_spark(session)) == sorted(scan.to_arrow().to_pylist(), key=repr)
        assert scan.to_spark(session).count() == 2


@pytest.mark.versions
def test_deletes_that_are_left_out_only_when_looked_at_leave_the_bitmap_right(
    catalog, session, monkeypatch
):
    """Of many pairs of files and deletes only an upper bound is known before, so some files seem to
    have deleted positions.
    """
    monkeypatch.setattr(deletes, "PAIRS", 0)
    cases = [
        ((1, 1, 1, 1, 1, 1), (1, 2)),
        ((200, 65, 64, 1, 130, 300), (2, 3)),
        ((64,) * 8, (0, 1)),
        ((1000, 10, 10, 10), (2, 3)),
    ]
    for n, (sizes, gone) in enumerate(cases):
        t = catalog.create_table(f"db.t{n}", "id bigint, s string", format_version=2)
        for at, size in enumerate(sizes):
            t.append(numbers(at * 1000, size))
        chosen = sorted(task.file.file_path for task in t.scan().plan_files())[
            gone[0] : gone[1] + 1
        ]
        take_positions(
            t, lambda r, chosen=chosen: r["_file"] in chosen and r["_pos"] % 3 == 0, "partition"
        )
        assert ids(t.to_spark(session)) == sorted(t.scan().to_arrow().column("id").to_pylist())


def test_a_few_files_with_positions_among_many_without_make_a_small_bitmap(tmp_path):
    rng = np.random.default_rng(1)
    rows, numbered = rng.integers(1, 5000, 3000), np.zeros(3000, bool)
    numbered[rng.choice(3000, 100, replace=False)] = True
    keys = file_keys.FileKeys.given(file_keys.by_rows(rows, numbered))
    files = [
        bitmaps.Deleted(
            DataFile(
                file_path=f"{n}",
                file_format="parquet",
                record_count=int(rows[n]),
                file_size_in_bytes=1,
            ),
            int(keys.numbers[n]),
            (),
        )
        for n in np.flatnonzero(numbered)
    ]
    made = one_bitmap.OneBitmap.of(files, keys, None)
    assert len(made.numbers) <= -(-rows[numbered].sum() // 64) + 100 + 3 * 100**2


def test_columns_are_found_by_id_also_where_vectors_are_turned_off(catalog, session, rows):
    """Spark's reader of rows asks the running session whether ids count."""
    t = catalog.create_table("db.plain", "id bigint, x double, s string", format_version=2)
    t.append(
        pa.table(
            {
                "id": pa.array(range(20), pa.int64()),
                "x": [n / 2 for n in range(20)],
                "s": [f"s{n}" for n in range(20)],
            }
        )
    )
    take_keys(t, ["id"], [{"id": 5}])
    with t.update_schema() as u:
        u.rename_column("s", "y")
    session.conf.set("spark.sql.parquet.enableVectorizedReader", "false")
    session.conf.set("spark.sql.parquet.enableNestedColumnVectorizedReader", "false")
    assert rows(t.to_spark(session)) == sorted(t.scan().to_arrow().to_pylist(), key=repr)
    assert session.conf.get("spark.sql.parquet.enableVectorizedReader") == "false"


def test_columns_named_as_ours_are_the_tables_own(session, catalog, rows):
    for name in (
        "__frazil_file_key",
        "__frazil_bits",
        "__frazil_row",
        "__frazil_pos",
        "__FRAZIL_deleted",
    ):
        table = catalog.create_table(
            f"db.{name}", pa.schema([(name, pa.int64()), ("id", pa.int64())])
        )
        table.append(pa.table({name: [100, 101, 102], "id": [0, 1, 2]}))
        table.delete("id = 0", mode="merge-on-read", runner="in-process")
        want = [{name: 101, "id": 1}, {name: 102, "id": 2}]
        assert rows(table.to_spark(session)) == want
        assert (
            rows(
                table.scan(selected_fields=(name, "id", "_pos", "_file"))
                .to_spark(session)
                .drop("_pos", "_file")
            )
            == want
        )


@pytest.mark.parametrize("way", ["one bitmap", "join", "tasks"])
def test_vectors_whose_places_are_exchanged_in_the_manifest_are_noticed(
    catalog, session, monkeypatch, way
):
    if way != "one bitmap":
        monkeypatch.setattr(one_bitmap, "ROWS", 0)
    if way == "tasks":
        monkeypatch.setattr(bitmaps, "ON_DRIVER", (0, 0, 0))
    t = table(catalog, 3)
    t.append(numbers(0, 10)), t.append(numbers(10, 10))
    files = [task.file for task in t.scan().plan_files()]
    context = WriteContext.of(t._loaded.metadata, t._loaded.storage, write_options({}))
    one, two = write_vectors([FileDeletes(f, np.array([n])) for n, f in enumerate(files)], context)
    places = [
        {"content_offset": v.content_offset, "content_size_in_bytes": v.content_size_in_bytes}
        for v in (two, one)
    ]
    commit(
        t._writable(),
        t._loaded,
        [
            RowDelta(
                added_deletes=[replace(v, **p) for v, p in zip((one, two), places, strict=True)]
            )
        ],
    )
    with pytest.raises(
        Exception, match=r"the deletion vector of .*; the footer of that file says that of"
    ):
        t.refresh().to_spark(session).collect()
    with pytest.raises(CorruptData, match="the footer of that file says that of"):
        t.to_arrow()
    with pytest.raises(CorruptData, match="the footer of that file says that of"):
        t.inspect.position_deletes()


def test_rows_of_a_file_that_a_snapshot_lists_twice_are_read_twice(session, catalog, tmp_path):
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"id": list(range(10))}), path)
    columns = ("id", "_file", "_row_id", "_last_updated_sequence_number")
    for version in (1, 2, 3):
        table = catalog.create_table(f"db.v{version}", "id bigint", format_version=version)
        table.add_files([path])
        if version == 2:
            table.delete("id = 3", mode="merge-on-read", runner="in-process")
        table.add_files([f"file:{path}"], check_duplicate_files=False)
        # the delete is older than the second entry
        expected = sorted([*range(10), *(n for n in range(10) if version != 2 or n != 3)])
        for read in (table.to_arrow(), table.to_spark(session).toArrow()):
            assert sorted(read.column("id").to_pylist()) == expected
        assert session.read.format("iceberg").load(table.location()).count() == len(expected)
        assert table.scan().count() == len(expected)
        if version == 3:
            scan = table.scan(selected_fields=columns)
            rows = [sorted(map(tuple, scan.to_spark(session).collect()))]
            rows += [sorted(zip(*scan.to_arrow().to_pydict().values(), strict=True))]
            assert rows[0] == rows[1] and len({row[2] for row in rows[0]}) == 20
        with pytest.raises(CorruptData, match=r"lists data file .*x\.parquet 2 times"):
            table.update({"id": "1"}, where="id = 4", spark=session)
    table = catalog.create_table("db.vectors", "id bigint", format_version=3)
    table.add_files([path])
    table.delete("id = 3", mode="merge-on-read", runner="in-process")
    with pytest.raises(ValidationException, match="deleted by deletion vectors"):
        table.add_files([path], check_duplicate_files=False)
    assert ids(table.to_spark(session)) == [n for n in range(10) if n != 3]


def test_flipped_bits_in_pages_are_told(session, catalog):
    table = catalog.create_table("db.t", "id bigint")
    for write in (
        lambda: table.append(session.range(5000)),
        lambda: table.overwrite(pa.table({"id": list(range(5000))})),
    ):
        write()
        file = Path(next(iter(table.scan().plan_files())).file.file_path.removeprefix("file:"))
        held = file.read_bytes()
        place = len(held) - 8 - int.from_bytes(held[-8:-4], "little") - 3000
        file.write_bytes(held[:place] + bytes([held[place] ^ 4]) + held[place + 1 :])
        with pytest.raises(Exception, match=file.name):
            table.to_spark(session).agg(F.sum("id")).collect()


@pytest.mark.soak
def test_fifty_million_equality_deletes(session, catalog, tmp_path):
    """More keys than the memory of a worker or of this process holds: joins spill, keys go to disk."""
    keys, rows_there = 50_000_000, 1_000_000
    table = catalog.create_table("db.t", "id bigint")
    table.append(pa.table({"id": pa.array(range(0, 100 * rows_there, 100))}))
    path, step = f"{table.location()}/data/keys.parquet", 5_000_000
    schema = pa.schema([pa.field("id", pa.int64(), metadata={"PARQUET:field_id": "1"})])
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for begin in range(0, keys, step):
            writer.write_table(pa.table([np.arange(begin, begin + step)], schema=schema))
    delete = DataFile(
        content=DataFileContent.EQUALITY_DELETES,
        file_path=path,
        file_format="parquet",
        record_count=keys,
        partition=(),
        spec_id=0,
        file_size_in_bytes=Path(path).stat().st_size,
        equality_ids=(1,),
    )
    commit(table._backend, table._loaded, [RowDelta(added_deletes=[delete])])
    left = rows_there - keys // 100
    assert table.refresh().to_spark(session).count() == left
    assert sum(batch.num_rows for batch in table.scan().to_arrow_batch_reader()) == left
