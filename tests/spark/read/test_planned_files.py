"""Spark's scan asks Frazil for its files when it runs: what is pruned by then, and that nothing
else is.
"""

import datetime as dt
import threading

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import functions as F

from frazil.commit.actions import Append
from frazil.commit.table_commit import commit
from frazil.spark.scan import planned_files, runtime_pruning
from frazil.spark.scan.file_keys import UNIT, by_rows
from frazil.spec.manifest import DataFile
from tests.spark.deleting import take_positions

pytestmark = pytest.mark.spark
FILES = 20


def days(catalog, **more):
    """Twenty files of ten rows: of day n, with ids from 10 n, in floats too."""
    t = catalog.create_table(
        "db.days", "id bigint, day date, at timestamp, x double, s string", **more
    )
    for n in range(FILES):
        ids = list(range(10 * n, 10 * n + 10))
        first = dt.date(2026, 1, 1) + dt.timedelta(days=n)
        at = dt.datetime(2026, 1, 1, tzinfo=dt.UTC) + dt.timedelta(days=n)
        columns = {
            "id": pa.array(ids, pa.int64()),
            "day": [first] * 10,
            "at": pa.array([at] * 10, pa.timestamp("us", tz="UTC")),
            "x": [-0.0 if i == 0 else float(i) for i in ids],
            "s": [f"s{i:04d}" for i in ids],
        }
        t.append(pa.table(columns))
    return t


def files_read(frame):
    """How many files the scans of a frame list, after it has run."""
    rows = frame.collect()
    plan = frame._jdf.queryExecution().executedPlan()
    scans, todo = [], [plan]
    while todo:
        node = todo.pop()
        if "AdaptiveSparkPlan" in node.nodeName():
            todo.append(node.executedPlan())
            continue
        if "QueryStage" in node.nodeName():
            todo.append(node.plan())
        if node.nodeName().startswith("BatchScan"):
            scans.append(node.scan().filesRead())
        children = node.children()
        todo += [children.apply(n) for n in range(children.length())]
    return rows, sum(scans)


@pytest.fixture
def t(catalog):
    return days(catalog)


@pytest.mark.versions
@pytest.mark.parametrize("partitioned", [False, True])
@pytest.mark.parametrize(
    ("condition", "files"),
    [
        ("id >= 35 and id < 47", 2),
        ("day = date'2026-01-05'", 1),
        ("at >= timestamp'2026-01-05 00:00:00' and at < timestamp'2026-01-07 00:00:00'", 2),
        ("cast(at as date) = '2026-01-09'", 1),
        ("id in (3, 55, 199)", 3),
        ("id = 3 or day > date'2026-01-19'", 2),
        ("x = 0.0", 1),
        ("s like 's001%'", 1),
        ("id is null", 0),
        ("id = 1000", 0),
        ("length(s) = 5 and id < 10", 1),
        ("length(s) = 7", FILES),
    ],
)
def test_a_filter_put_on_later_prunes_files(catalog, session, partitioned, condition, files):
    t = days(catalog, partition_by=["day"] if partitioned else [])
    frame = t.to_spark(session).filter(condition)
    found, read = files_read(frame.select("id"))
    assert read == files
    assert sorted(r["id"] for r in found) == sorted(t.scan(condition).to_arrow()["id"].to_pylist())


def test_a_filter_on_the_file_reads_that_file(t, session):
    paths = sorted(t.inspect.files()["file_path"].to_pylist())
    name, number = F.col("_file"), F.col("id")
    frame = t.scan(selected_fields=("id", "_file", "_pos")).to_spark(session)
    for condition, files, rows in (
        (name == paths[3], 1, 10),
        (name.isin(paths[2], paths[7], "none"), 2, 20),
        ((name == paths[3]) & (number < 0), 0, 0),
        (name > paths[16], 3, 30),
        (name.endswith(".parquet"), FILES, 200),
        ((name == paths[3]) | (number < 0), FILES, 10),
        (name.isNull(), 0, 0),
    ):
        found, read = files_read(frame.filter(condition))
        assert (read, len(found)) == (files, rows), condition
    at = t.scan("id < 5", selected_fields=("id", "_file")).to_arrow()["_file"][0].as_py()
    take_positions(t, lambda row: row["id"] == 0)
    found, read = files_read(
        t.refresh().scan(selected_fields=("id", "_file")).to_spark(session).filter(name == at)
    )
    assert (len(found), read) == (9, 1)


def test_lists_of_any_length_and_sums_of_any_depth_give_their_rows(t, session):
    many = ", ".join(str(n) for n in range(35, 120, 2))
    rows, files = files_read(t.to_spark(session).where(f"id in ({many})"))
    assert sorted(r.id for r in rows) == list(range(35, 120, 2)) and files == 9
    deep = " + ".join(["id", *["1"] * 400])
    rows, _ = files_read(t.to_spark(session).where(f"{deep} = 407"))
    assert [r.id for r in rows] == [7]


def test_the_zone_of_the_session_counts(t, session):
    session.conf.set("spark.sql.session.timeZone", "America/New_York")
    found, read = files_read(
        t.to_spark(session).filter("cast(at as date) = '2026-01-04'").select("id")
    )
    assert (sorted(r["id"] for r in found), read) == (list(range(40, 50)), 1)


HALF_HOURS = dt.datetime(2026, 11, 1, 4, 30, tzinfo=dt.UTC)  # the clocks of New York go back at six


@pytest.fixture
def odd(catalog):
    """Twenty files of a row, half an hour apart over a change of clocks; columns named as
    constants, and a text that is no date.
    """
    t = catalog.create_table(
        "db.odd",
        "id bigint, at timestamp, d string, `null` int, `false` boolean, x float, `a.b` int",
    )
    for n in range(FILES):
        columns = {
            "id": pa.array([n], pa.int64()),
            "at": pa.array(
                [HALF_HOURS + n * dt.timedelta(minutes=30)], pa.timestamp("us", tz="UTC")
            ),
            "d": ["rubbish" if n == 5 else f"2026-01-{n + 1:02d}"],
            "null": pa.array([n], pa.int32()),
            "false": [n % 2 == 0],
            "x": pa.array([n / 10], pa.float32()),
            "a.b": pa.array([n], pa.int32()),
        }
        t.append(pa.table(columns))
    return t


@pytest.mark.parametrize(
    ("condition", "want"),
    [
        ("at = timestamp'2026-11-01 06:30:00Z'", [4]),
        ("at <= timestamp'2026-11-01 06:30:00Z'", [0, 1, 2, 3, 4]),
        ("at in (timestamp'2026-11-01 06:30:00Z', timestamp'2026-11-01 09:00:00Z')", [4, 9]),
        ("cast(d as date) is null or id = 3", [3, 5]),
        ("`null` = 5 or id = 3", [3, 5]),
        ("`false` and id < 5", [0, 2, 4]),
        ("not `false` and id > 16", [17, 19]),
        ("x = float('0.7')", [7]),
        ("`a.b` <=> 7", [7]),
        (
            "id in (1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 100, null)",
            [1, 3, 5, 7, 9, 11, 13, 15, 17, 19],
        ),
        ("id not in (0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12)", [13, 14, 15, 16, 17, 18, 19]),
    ],
)
def test_filters_mean_what_they_mean_to_spark(odd, session, condition, want):
    session.conf.set("spark.sql.session.timeZone", "America/New_York")
    session.conf.set("spark.sql.ansi.enabled", "false")
    assert [
        r["id"]
        for r in odd.to_spark(session).filter(condition).select("id").orderBy("id").collect()
    ] == want


def test_a_cast_has_the_zone_in_which_it_was_written(odd, session):
    session.conf.set("spark.sql.session.timeZone", "Pacific/Pago_Pago")
    frame = (
        odd.to_spark(session)
        .filter("cast(at as date) in (date'2026-10-31', date'2020-01-01')")
        .select("id")
    )
    session.conf.set("spark.sql.session.timeZone", "UTC")
    assert len(frame.collect()) == 13


def test_a_query_of_another_session_has_its_own_zone(odd, session):
    odd.to_spark(session).createOrReplaceGlobalTempView("odd")
    other = session.newSession()
    other.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        assert files_read(
            other.sql("select id from global_temp.odd where at = timestamp'2026-11-01 09:00:00Z'")
        ) == ([(9,)], 1)
    finally:
        session.catalog.dropGlobalTempView("odd")


def test_filters_over_renamed_columns_and_deletes(catalog, session):
    t = days(catalog, format_version=2)
    with t.update_schema() as u:
        u.rename_column("id", "was")
    with t.update_schema() as u:
        u.rename_column("s", "id")
    take_positions(t, lambda r: r["was"] in (44, 45))
    frame = t.to_spark(session)
    assert files_read(frame.filter("was between 43 and 46").select("was")) == ([(43,), (46,)], 1)
    assert files_read(frame.filter("id = 's0046'").select("was")) == ([(46,)], 1)


@pytest.mark.parametrize(
    ("condition", "holds"),
    [("exists(array(1), x -> x > 0)", True), ("exists(array(1), x -> x > 1)", False)],
)
def test_a_filter_without_columns_counts_beside_deletes_as_well(catalog, session, condition, holds):
    t = days(catalog, format_version=3)
    take_positions(t, lambda r: r["id"] % 10 < 2)
    frame = t.to_spark(session).where(condition)
    assert frame.where("id < 20").count() == (16 if holds else 0)


def test_joins_views_and_caches_meet_the_same_files_again(t, session):
    t.to_spark(session).createOrReplaceTempView("days")
    assert (
        session.sql(
            "select count(*) from days a join days b on a.id = b.id where a.id < 20 and b.id >= 10"
        ).first()[0]
        == 10
    )
    rows, read = files_read(session.sql("select v.id from days v where v.id = 77"))
    assert (rows, read) == ([(77,)], 1)
    cached = t.to_spark(session).cache()
    try:
        assert cached.count() == 10 * FILES
        # known by its files
        assert (
            "InMemoryTableScan"
            in t.to_spark(session)._jdf.queryExecution().executedPlan().toString()
        )
        t.append(pa.table({"id": pa.array([1000], pa.int64())}))
        again = t.to_spark(session)
        assert "InMemoryTableScan" not in again._jdf.queryExecution().executedPlan().toString()
        assert (cached.count(), again.count()) == (10 * FILES, 10 * FILES + 1)
    finally:
        cached.unpersist()
        session.catalog.dropTempView("days")


def test_frames_are_read_from_many_threads_and_inside_callbacks(catalog, session):
    frame = days(catalog).to_spark(session)
    found, seen = [], []
    threads = [
        threading.Thread(target=lambda n=n: found.append(frame.filter(f"id = {n}").count()))
        for n in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [1] * 8
    stream = session.readStream.format("rate").option("rowsPerSecond", 100).load()
    query = (
        stream.writeStream.foreachBatch(lambda *_: seen.append(frame.filter("id < 25").count()))
        .trigger(once=True)
        .start()
    )
    query.awaitTermination(60)
    assert query.exception() is None
    assert set(seen) == {25}


def test_what_cannot_be_asked_any_more_prunes_nothing(t, session, monkeypatch):
    frame = t.to_spark(session)

    def gone(*_):
        raise OSError("gone")

    monkeypatch.setattr(runtime_pruning, "may_hold", gone)
    rows, read = files_read(frame.filter("id = 7").select("id"))
    assert (rows, read) == ([(7,)], FILES)


def test_what_planning_knew_is_not_asked_again(t, session, monkeypatch):
    asked = []
    real = runtime_pruning.may_hold
    monkeypatch.setattr(runtime_pruning, "may_hold", lambda *a: asked.append(real(*a)) or asked[-1])
    assert t.scan("id >= 20").to_spark(session).count() == 180
    assert asked == [None]
    frame = t.scan("id >= 20").to_spark(session).filter("id < 40")
    assert [frame.count(), frame.count()] == [20, 20]
    assert [a if a is None else len(a) for a in asked] == [None, 2]


@pytest.mark.versions
def test_split_size_is_that_of_the_read(catalog, session):
    t = catalog.create_table(
        "db.large",
        "id bigint, s string",
        properties={"write.parquet.row-group-size-bytes": "20000"},
    )
    t.append(
        pa.table(
            {
                "id": pa.array(range(20_000), pa.int64()),
                "s": [f"{n * 7919 % 1_000_003}" * 3 for n in range(20_000)],
            }
        )
    )
    size = next(iter(t.scan().plan_files())).file.file_size_in_bytes
    assert t.to_spark(session).rdd.getNumPartitions() == 1
    small = t.scan(options={"split-size": str(size // 5), "file-open-cost": "0"}).to_spark(session)
    assert small.rdd.getNumPartitions() >= 5
    assert small.count() == 20_000
    assert (
        t.scan(options={"split-size": "1"}).to_spark(session).rdd.getNumPartitions()
        <= size // (4 << 10) + 2
    )


def test_a_size_that_a_manifest_gets_wrong_does_no_harm_where_files_are_local(
    catalog, session, tmp_path
):
    t = catalog.create_table("db.sizes", "id bigint")
    t.append(pa.table({"id": pa.array([1, 2], pa.int64())}))
    path = tmp_path / "other.parquet"
    schema = pa.schema([pa.field("id", pa.int64(), metadata={"PARQUET:field_id": "1"})])
    pq.write_table(pa.table({"id": [3]}, schema=schema), path)
    file = DataFile(
        file_path=str(path),
        file_format="parquet",
        partition=(),
        record_count=1,
        file_size_in_bytes=5,
    )
    commit(t._writable(), t._loaded, [Append(files=(file,))])
    assert sorted(r["id"] for r in t.refresh().to_spark(session).collect()) == [1, 2, 3]


@given(st.lists(st.tuples(st.integers(0, 3 * UNIT), st.booleans()), min_size=1, max_size=20))
def test_numbers_of_files_leave_room_for_their_rows(files):
    rows, numbered = (
        np.array([r for r, _ in files], np.int64),
        np.array([n for _, n in files], bool),
    )
    keys = by_rows(rows, numbered)
    assert len(set(keys.tolist())) == len(files)
    spans = sorted(
        (int(key), int(key + count))
        for key, count in zip(keys[numbered], rows[numbered], strict=True)
    )
    assert all(
        begin % 64 == 0 and end <= next_
        for (begin, end), (next_, _) in zip(spans, spans[1:], strict=False)
    )
    assert all(key >= end for key in keys[~numbered] for _, end in spans)


@pytest.mark.versions
def test_filters_and_joins_on_what_files_say_of_their_rows_ask_nothing_of_the_index(
    catalog, session, rows
):
    """Facts of files are joined by the column of their numbers, from which Spark may infer filters
    of its own.
    """
    t = catalog.create_table(
        "db.facts", "id bigint, p string", partition_by=["p"], format_version=3
    )
    for n in range(4):
        t.append(
            pa.table(
                {"id": pa.array(range(n * 10, n * 10 + 10), pa.int64()), "p": [f"p{n % 2}"] * 10}
            )
        )
    take_positions(t, lambda r: r["id"] % 5 == 1)
    fields = (
        "id",
        "p",
        "_partition",
        "_last_updated_sequence_number",
        "_row_id",
        "_deleted",
        "_pos",
    )
    scan = t.scan(selected_fields=fields)
    every, frame = scan.to_arrow().to_pylist(), scan.to_spark(session)
    for where, wanted in (
        ("_partition.p = 'p1'", lambda r: r["_partition"]["p"] == "p1"),
        ("_last_updated_sequence_number = 2", lambda r: r["_last_updated_sequence_number"] == 2),
        (
            "_row_id between 12 and 25 and not _deleted",
            lambda r: 12 <= r["_row_id"] <= 25 and not r["_deleted"],
        ),
        ("_last_updated_sequence_number is null", lambda r: False),
    ):
        assert rows(frame.where(where)) == sorted((r for r in every if wanted(r)), key=repr), where
    few = session.createDataFrame([(2, "two"), (9, "none")], "n bigint, name string").where(
        "name <> 'none'"
    )
    joined = frame.join(few, frame["_last_updated_sequence_number"] == few["n"]).select(frame["id"])
    assert sorted(r["id"] for r in joined.collect()) == sorted(
        r["id"] for r in every if r["_last_updated_sequence_number"] == 2
    )
    pairs = (
        frame.alias("a")
        .join(scan.to_spark(session).alias("b"), "_row_id")
        .where("a._partition = b._partition")
    )
    assert pairs.count() == len(every)
    assert frame.groupBy("_partition").count().count() == 2


@pytest.mark.versions
@pytest.mark.parametrize("parts", [[], ["day"], ["days(at)"], ["bucket(7, s)"]])
@pytest.mark.parametrize(
    "column, given",
    [
        ("id", "12, 13, 194"),
        ("day", "date'2026-01-02', date'2026-01-20'"),
        ("at", "timestamp'2026-01-03 00:00:00', timestamp'2026-01-09 00:00:00'"),
        ("x", "0.0D, 55.0D, double('NaN')"),
        ("s", "'s0001', 's0199'"),
    ],
)
def test_a_join_prunes_files_while_it_runs(catalog, session, parts, column, given):
    t = days(catalog, partition_by=parts)
    keys = F.broadcast(session.sql(f"select explode(array({given})) k").where("hash(k) <> 0"))
    frame = t.to_spark(session)
    found, read = files_read(frame.join(keys, frame[column] == keys["k"]).select("id"))
    every = t.scan(f"{column} in ({given})").to_arrow()["id"].to_pylist()
    assert sorted(r["id"] for r in found) == sorted(every)
    # Spark makes one value of NaNs and of zeros before it joins floats, and prunes nothing by them
    chosen = t.scan() if column == "x" else t.scan(f"{column} in ({given})")
    assert len(chosen.plan_files()) == read


def test_texts_of_a_join_arrive_as_they_are(catalog, session):
    odd = ["a", "a\fb", "a\nb", "a\\", "a\\n", "", "ü\t\0"]
    t = catalog.create_table("db.texts", "s string")
    for text in [*odd, *map(str, range(FILES))]:
        t.append(pa.table({"s": [text]}))
    keys = session.createDataFrame([(text,) for text in odd[1:]], "k string")
    keys = F.broadcast(keys.where("hash(k) <> 0"))
    frame = t.to_spark(session)
    found, read = files_read(frame.join(keys, frame["s"] == keys["k"]).select("s"))
    assert (sorted(r["s"] for r in found), read) == (sorted(odd[1:]), len(odd) - 1)


@pytest.mark.versions
def test_statistics_of_files_tell_counts_and_extremes_where_they_are_exact(t, session):
    """A count, least and greatest value of all rows opens no file; where a delete applies, where the
    bounds are cut, or a file lacks the column, the rows are read.
    """
    t.append(pa.table({"id": pa.array([None, None], pa.int64())}))

    def told(*aggregates, **options):
        frame = t.scan(options=options).to_spark(session).selectExpr(*aggregates)
        (row,) = frame.collect()
        return tuple(row), "LocalTableScan" in frame._jdf.queryExecution().executedPlan().toString()

    first, last = dt.date(2026, 1, 1), dt.date(2026, 1, 20)
    assert told(
        "count(*)", "count(id)", "count(day)", "min(id)", "max(id)", "max(day) - min(day)"
    ) == (
        (202, 200, 200, 0, 199, last - first),
        True,
    )
    assert told("min(at)", "max(at)") == (
        (dt.datetime(2026, 1, 1), dt.datetime(2026, 1, 20)),
        True,
    )
    assert told("count(*)", "min(s)") == ((202, "s0000"), False)
    option, setting = "aggregate-push-down-enabled", f"{ICEBERG}.aggregate-push-down.enabled"
    assert told("count(*)", **{option: False}) == ((202,), False)
    session.conf.set(setting, "false")
    try:
        assert told("count(*)") == ((202,), False)
        assert told("count(*)", **{option: True}) == ((202,), True)
    finally:
        session.conf.unset(setting)
    assert told("max(x)", "count(distinct id)") == ((199.0, 200), False)
    assert t.to_spark(session).where("id >= 195").count() == 5
    t.update_schema().rename_column("id", "key").add_column("later", "long").commit()
    assert told("count(key)", "min(key)") == ((200, 0), True)
    assert told("count(later)") == ((0,), False)
    t.delete("key = 0")
    assert told("count(*)", "min(key)", "max(key)")[0] == (201, 1, 199)
    t.delete("true")
    assert told("count(*)", "min(key)")[0] == (0, None)


ICEBERG = "spark.sql.iceberg"
FROM_5 = "day >= DATE'2026-01-06'"
AT_5 = "at >= TIMESTAMP'2026-01-06 00:00:00Z'"


@pytest.mark.versions
@pytest.mark.parametrize(
    "parts, where, told",
    [
        (["day"], FROM_5, True),
        (["day"], f"{FROM_5} and day <> DATE'2026-01-07'", True),
        (["day"], "year(day) = 2026", True),
        (["day"], "day is not null", True),
        (["day"], "day = DATE'2020-01-01'", False),  # no row is left to tell of
        (["day"], f"{FROM_5} and id > 3", False),
        (["days(at)"], AT_5, True),
        (["days(at)"], "at > TIMESTAMP'2026-01-06 00:00:00Z'", False),
        (["s"], "s like 's01%'", True),
        (["x"], "x = 0", True),
        (["bucket(4, id)"], "id = 5", False),
        (["truncate(10, id)"], "id >= 50", True),
        (["truncate(10, id)"], "id > 50", False),
        ([], FROM_5, False),
    ],
)
def test_filters_that_partitions_decide_leave_aggregates_to_statistics(
    catalog, session, parts, where, told
):
    """Where every row of the files that a filter leaves is wanted, Spark applies no filter to rows,
    and counts, least and greatest values open no file."""
    t = days(catalog, partition_by=parts)
    t.append(pa.table({"id": pa.array([None, 7], pa.int64()), "s": [None, "s0"]}))
    session.conf.set("spark.sql.session.timeZone", "UTC")
    frame = t.to_spark(session).where(where).selectExpr("count(*) n", "min(id) a", "max(id) b")
    (row,) = frame.collect()
    ids = t.scan(where).to_arrow()["id"].drop_null().to_pylist()
    count = t.scan(where).to_arrow().num_rows
    assert tuple(row) == (count, min(ids, default=None), max(ids, default=None))
    plan = frame._jdf.queryExecution().executedPlan().toString()
    assert ("LocalTableScan" in plan) is told
    rows, read = files_read(t.to_spark(session).where(where).select("id"))
    assert sorted(r["id"] for r in rows if r["id"] is not None) == sorted(ids)
    assert read == (len(t.scan(where).plan_files()) if parts else FILES + 1) or not told


def test_a_filter_that_partitions_decided_once_holds_for_files_of_later_specs(catalog, session):
    t = days(catalog, partition_by=["day"])
    t.update_spec().remove_field("day").commit()
    t.append(pa.table({"id": [1000], "day": [dt.date(2026, 1, 20)]}))
    frame = t.to_spark(session).where(FROM_5)
    assert frame.count() == 151 and frame.where("id < 60").count() == 10
    t.delete("id = 59")
    assert t.to_spark(session).where(FROM_5).count() == 150


def test_a_decided_filter_holds_however_many_queries_are_planned_before_it_runs(
    catalog, session, monkeypatch
):
    monkeypatch.setattr(planned_files, "_MOST_QUERIES", 2)
    t = days(catalog, partition_by=["day"])
    frame = t.to_spark(session)
    early, few = frame.where(FROM_5), frame.limit(3)
    for planned in (early, few):
        planned._jdf.queryExecution().executedPlan()
    for n in range(6):
        assert frame.where(f"id = {n}").count() == 1
    assert len(early.collect()) == 150 and files_read(few)[1] == 1


@pytest.mark.versions
@pytest.mark.parametrize("name", ["parquet.enableVectorizedReader", "codegen.wholeStage"])
def test_a_frame_is_read_as_when_it_was_made_after_settings_of_readers_change(
    catalog, session, name
):
    t = days(catalog, partition_by=["day"])
    frame = t.to_spark(session).where("id >= 20")
    session.conf.set(f"spark.sql.{name}", "false")
    try:
        assert frame.where("id < 30").count() == 10 and len(frame.collect()) == 180
    finally:
        session.conf.unset(f"spark.sql.{name}")


def test_a_scan_fails_where_files_would_hold_other_rows_than_spark_was_told():
    answers = planned_files.FileAnswers("/t", ["a"], [1], [1], None, planned_files.NoPruning())
    assert answers.apply("plan", " \n[null]\n") == " 1 1 1 1"
    with pytest.raises(RuntimeError, match="hold no other rows"):
        answers.apply("files", "holds \n[null]\n[]")


@pytest.mark.versions
def test_a_limit_reads_as_many_files_as_have_its_rows(catalog, session):
    t = days(catalog, partition_by=["day"])
    frame = t.to_spark(session)
    for limit, files in ((1, 1), (10, 1), (11, 2), (10_000, FILES)):
        rows, read = files_read(frame.limit(limit))
        assert (len(rows), read) == (min(limit, 10 * FILES), files)
    rows, read = files_read(frame.where(FROM_5).limit(11))
    assert {r["day"] > dt.date(2026, 1, 5) for r in rows} == {True} and read == 2
    rows, _ = files_read(frame.where("id >= 195").limit(3))
    assert len(rows) == 3 and min(r["id"] for r in rows) >= 195
    few = frame.limit(3)
    assert few.union(frame.limit(12)).count() == 15 and few.join(frame, "id").count() == 3
    assert len(frame.offset(195).limit(3).collect()) == 3
    assert len(frame.limit(3).offset(1).collect()) == 2
    assert frame.where(FROM_5).offset(145).limit(30).count() == 5
    t.delete("id % 10 <> 9")
    assert t.to_spark(session).limit(15).count() == 15
    assert t.to_spark(session).where(FROM_5).limit(15).count() == 15


@pytest.mark.parametrize("version", ["2", "3"])
def test_a_limit_counts_no_rows_that_deletes_remove(catalog, session, version):
    properties = {"format-version": version, "write.delete.mode": "merge-on-read"}
    t = days(catalog, partition_by=["day"], properties=properties)
    t.delete("id % 10 <> 9")
    assert t.inspect.delete_files().num_rows > 0
    frame = t.to_spark(session)
    for limit in (1, 15, 30):
        assert frame.limit(limit).count() == len(frame.limit(limit).collect()) == min(limit, FILES)
        assert frame.where(FROM_5).limit(limit).count() == min(limit, FILES - 5)
    row = frame.where(FROM_5).selectExpr("count(*)", "min(id)", "max(id)").first()
    assert tuple(row) == (FILES - 5, 59, 199)


@pytest.mark.versions
def test_the_cost_based_optimizer_learns_what_metadata_tells_of_columns(catalog, session):
    """Distinct values come from the sketches of `compute_table_stats`, nulls, least and greatest
    values of whole numbers, dates and times from the bounds of the files that filters leave."""
    t = days(catalog, partition_by=["day"])
    t.append(pa.table({"id": [None, 7], "day": [dt.date(2026, 1, 20)] * 2}))

    def stats(frame):
        found = frame._jdf.queryExecution().optimizedPlan().stats()
        each = found.attributeStats().toSeq()
        attributes = [each.apply(n) for n in range(each.size())]
        get = lambda option: option.get() if option.isDefined() else None
        columns = {
            a._1().name(): tuple(
                map(get, (c.distinctCount(), c.min(), c.max(), c.nullCount())),
            )
            for a in attributes
            for c in [a._2()]
        }
        return {n: tuple(v if v is None else int(str(v)) for v in c) for n, c in columns.items()}

    assert stats(t.to_spark(session).select("id", "day")) == {}
    session.conf.set("spark.sql.cbo.enabled", "true")
    try:
        first, day_of_5 = 20_454, 20_459
        assert stats(t.to_spark(session).select("id", "day", "x")) == {
            "id": (None, 0, 199, 1),
            "day": (None, first, first + 19, 0),
            "x": (None, None, None, 2),
        }
        t.maintenance.compute_table_stats()
        found = stats(t.to_spark(session).select("id", "day", "s"))
        assert found["id"] == (200, 0, 199, 1) and found["day"] == (20, first, first + 19, 0)
        assert found["s"] == (200, None, None, 2)
        found = stats(t.to_spark(session).where(FROM_5).select("id", "day"))
        assert found["day"] == (20, day_of_5, first + 19, 0) and found["id"][1] == 7
    finally:
        session.conf.unset("spark.sql.cbo.enabled")
