"""`format("iceberg")` in a session that was not prepared."""

import datetime as dt
import re
from decimal import Decimal

import pyarrow as pa
import pytest

import frazil
from frazil.errors import InvalidInput, Unsupported
from frazil.spark.engine.read_target import read_request
from frazil.spec import types as i
from frazil.spec.schema import Schema

pytestmark = pytest.mark.spark


@pytest.fixture
def table(catalog):
    t = catalog.create_table(
        "db.t",
        "id bigint, name string, s struct<a int, b array<int>>",
        partition_by=["bucket(2, id)"],
    )
    t.append(
        pa.Table.from_pylist(
            [
                {"id": n, "name": f"n{n}", "s": {"a": n, "b": [n, None]} if n % 2 else None}
                for n in range(6)
            ]
        )
    )
    return t


def test_rows_come_through_the_python_data_source(session, table, rows):
    assert rows(session.read.format("iceberg").load(table.location())) == sorted(
        table.to_arrow().to_pylist(), key=repr
    )


def test_a_variant_is_handed_over_as_a_variant(catalog, session):
    schema = Schema(i.NestedField(1, "v", i.VariantType()), i.NestedField(2, "n", i.UnknownType()))
    t = catalog.create_table(
        "db.v", Schema(i.NestedField(3, "id", i.LongType()), *schema.fields), format_version=3
    )
    t.append(pa.table({"id": [1, 2], "v": ['{"a":1}', None]}))
    found = (
        session.read.format("iceberg")
        .load(t.location())
        .selectExpr("id", "to_json(v) v", "n")
        .collect()
    )
    assert sorted(tuple(r) for r in found) == [(1, '{"a":1}', None), (2, None, None)]


def test_a_catalog_is_given_by_options_and_called_by_its_name(session, tmp_path):
    where = {"type": "sql", "uri": f"sqlite:///{tmp_path}/c.db", "warehouse": str(tmp_path / "wh")}
    made = frazil.load_catalog("named", **where)
    made.create_namespace("db")
    made.create_table("db.t", "id bigint").append(pa.table({"id": [1, 2]}))
    options = {f"catalog.{k}": v for k, v in where.items()}
    session.range(2, 5).write.format("iceberg").mode("append").options(**options).save("named.db.t")
    assert session.read.format("iceberg").options(**options).load("named.db.t").count() == 5
    assert (
        session.read.format("iceberg").options(**options).load("named.db.t.snapshots").count() == 2
    )
    assert frazil.load_table("named.db.t", **where).scan().count() == 5
    refused = r"NoSuchTableError.*frazil\.install\(spark\), or give .*catalog\.type"
    with pytest.raises(Exception, match=refused):
        session.range(1).write.format("iceberg").mode("append").save("named.db.t")
    try:
        count = session.read.format("iceberg").load("named.db.t").count()
    except Exception as error:
        assert re.search(refused, str(error), re.DOTALL)
    else:  # another test has prepared this JVM, whose sessions find the catalog since
        assert count == 5


def test_snapshots_are_chosen_by_options(session, table, rows):
    first = table.current_snapshot().snapshot_id
    table.append(pa.table({"id": [100]}))
    read = session.read.format("iceberg")
    assert read.load(table.location()).count() == 7
    assert (
        session.read.format("iceberg").option("snapshot-id", first).load(table.location()).count()
        == 6
    )
    assert (
        session.read.format("iceberg")
        .option("start-snapshot-id", first)
        .load(table.location())
        .select("id")
        .collect()[0]
        .id
        == 100
    )
    assert (
        session.read.format("iceberg").load(f"{table.location()}#snapshot_id_{first}").count() == 6
    )


def test_metadata_tables_are_read_by_suffix(session, table):
    snapshots = session.read.format("iceberg").load(f"{table.location()}#snapshots")
    assert [r.snapshot_id for r in snapshots.collect()] == [table.current_snapshot().snapshot_id]
    files = (
        session.read.format("iceberg")
        .load(f"{table.location()}#files")
        .select("record_count", "partition.id_bucket")
        .collect()
    )
    assert sum(r.record_count for r in files) == 6


def test_append_and_overwrite_are_one_commit_each(session, table, rows):
    frame = session.sql("select 50L id, 'new' name")
    frame.write.format("iceberg").mode("append").option("snapshot-property.job", "7").save(
        table.location()
    )
    assert table.refresh().current_snapshot().summary["job"] == "7"
    assert table.to_spark(session).count() == 7
    frame.write.format("iceberg").mode("overwrite").option("overwrite-mode", "dynamic").save(
        table.location()
    )
    assert table.refresh().to_spark(session).filter("id = 50").count() == 1
    frame.write.format("iceberg").mode("overwrite").save(table.location())
    assert rows(table.refresh().to_spark(session).select("id", "name")) == [
        {"id": 50, "name": "new"}
    ]


def test_a_write_makes_no_branch_of_a_misspelt_name(session, table):
    writer = session.range(1).write.format("iceberg").mode("append").option("branch", "typo")
    with pytest.raises(Exception, match=r"Cannot use branch \(does not exist\): typo"):
        writer.save(table.location())


def test_a_failed_write_leaves_no_file(session, table):
    before = {f.file.file_path for f in table.scan().plan_files()}
    frame = session.range(0, 10, 1, 2).selectExpr("if(id < 9, id, raise_error('broken')) id")
    with pytest.raises(Exception, match="broken"):
        frame.write.format("iceberg").mode("append").save(table.location())
    assert {x.location for x in table.io.list(f"{table.location()}/data")} == before


def test_a_write_stages_under_its_wap_id_and_checks_what_it_read(session, table):
    before = table.refresh().scan().count()
    frame = session.range(3)
    with pytest.raises(Exception, match=r"write\.wap\.enabled"):
        frame.write.format("iceberg").mode("append").option("wap-id", "w1").save(table.location())
    table.set_properties({"write.wap.enabled": True})
    frame.write.format("iceberg").mode("append").option("wap-id", "w1").save(table.location())
    table.refresh()
    staged = next(s for s in table.snapshots() if s.summary.get("wap.id") == "w1")
    assert staged.summary["engine-name"] == "spark" and table.scan().count() == before
    frame.write.format("iceberg").mode("overwrite").option("isolation-level", "serializable").save(
        table.location()
    )
    assert table.refresh().scan().count() == 3


def test_a_write_is_refused_for_what_a_tables_own_verbs_refuse(session, table):
    """The data source's writes are the same operations: what a verb refuses is refused before a
    task starts.
    """
    frame = session.range(3)
    for how in ({}, {"overwrite-mode": "dynamic"}):
        with pytest.raises(Exception, match=r"'delete-format' means nothing"):
            frame.write.format("iceberg").mode("overwrite").options(**how).option(
                "delete-format", "avro"
            ).save(table.location())
    with pytest.raises(Exception, match="read-only"):
        frame.write.format("iceberg").mode("append").save(table.metadata_location)
    before = table.refresh().metadata_location
    frame.where("id < 0").write.format("iceberg").mode("overwrite").option(
        "overwrite-mode", "dynamic"
    ).save(table.location())
    assert table.refresh().metadata_location == before, (
        "no rows, no partitions: nothing is committed"
    )


@pytest.mark.parametrize(
    ("option", "value"), [("snapshot-idd", "1"), ("end-snapshot-id", "1"), ("snapshot-id", "x")]
)
def test_options_that_mean_nothing_are_refused(option, value):
    with pytest.raises(InvalidInput):
        read_request({"path": "/x", option: value})


@pytest.mark.parametrize(
    "option",
    [
        "streaming-max-files-per-micro-batch",
        "stream-from-timestamp",
        "start-timestamp",
        "scan-task-set-id",
    ],
)
def test_options_of_javas_that_are_not_served_are_refused_by_name(option):
    with pytest.raises(Unsupported, match=option):
        read_request({"path": "/x", option: "1"})


@pytest.mark.parametrize(
    ("option", "value", "selectors"),
    [
        ("Snapshot_Id", "10", {"snapshot_id": 10}),
        ("versionAsOf", "v1", {"version": "v1"}),
        ("timestampAsOf", "7", {"as_of": 7000}),
        ("timestampasof", "1970-01-01T01:00:00", {"as_of": 0}),
        ("as-of-timestamp", "7", {"as_of": 7}),
    ],
)
def test_options_that_select_a_snapshot_become_selectors(option, value, selectors):
    request = read_request({"path": "/x", option: value, "split-size": "5"}, "Europe/Berlin")
    assert request.selectors == selectors and request.split == {"split-size": "5"}


def test_selectors_and_ranges_do_not_mix():
    with pytest.raises(InvalidInput, match="together"):
        read_request({"path": "/x", "timestampAsOf": "1", "as-of-timestamp": "1"})
    with pytest.raises(InvalidInput, match="start-snapshot-id"):
        read_request({"path": "/x", "start-snapshot-id": "1", "branch": "b"})


def test_times_pass_where_spark_holds_them(catalog, session):
    t = catalog.create_table("db.times", "id bigint, t time, s struct<t time>")
    t.append(pa.table({"id": [1, 2], "t": pa.array([3_600_000_001, None], pa.time64("us"))}))
    before = session.conf.get("spark.sql.timeType.enabled", "false")
    session.conf.set("spark.sql.timeType.enabled", "true")
    try:
        found = session.read.format("iceberg").load(t.location()).orderBy("id").collect()
    finally:
        session.conf.set("spark.sql.timeType.enabled", before)
    assert [r.t for r in found] == [dt.time(1, 0, 0, 1), None]


def test_metadata_tables_show_nanoseconds_and_decimals_as_spark_can_hold_them(catalog, session):
    t = catalog.create_table(
        "db.odd",
        "n timestamp_ns, d decimal(5,5)",
        format_version=3,
        partition_by=["truncate(100, d)"],
    )
    row = {
        "n": pa.array([-1001], pa.timestamp("ns")),
        "d": pa.array([Decimal("-0.99999")], pa.decimal128(5, 5)),
    }
    t.append(pa.table(row))
    for read in (
        session.read.format("iceberg").load(f"{t.location()}#files"),
        frazil.load_table(f"{t.location()}#files").to_spark(session),
    ):
        found = read.selectExpr(
            "readable_metrics.n.lower_bound n",
            "partition.d_trunc p",
            "readable_metrics.d.lower_bound d",
        ).collect()
        assert [tuple(r) for r in found] == [
            (dt.datetime(1969, 12, 31, 23, 59, 59, 999998), None, Decimal("-0.99999"))
        ]
