"""Changelogs at Spark's doors: the same rows as without Spark."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import frazil
from frazil.errors import InvalidInput, NoSuchSnapshotError
from tests.builders.examples import sampled
from tests.contract import doors
from tests.golden import Golden

pytestmark = pytest.mark.spark

# copy-on-write with duplicates, vectors and lineage, equality deletes with evolved keys, vectors
# beside equality deletes, all types
CHOSEN = [
    "changelog_cow",
    "lineage_mor",
    "eq_evolved",
    "upsert_v3",
    "py_overwrite_delete",
    "nested",
    "variant_v3",
]
START, END = 7670488552468248917, 8559623965999811480  # of changelog_cow


def told(rows: pa.Table) -> list[str]:
    return sorted(map(repr, rows.to_pylist()))


def same(frame: Any, rows: pa.Table) -> None:
    got = doors.collect(frame)
    assert got.column_names == rows.column_names
    assert told(got) == told(rows)


@pytest.mark.parametrize("name", sampled(CHOSEN, 2))
def test_rows_are_those_without_spark(spark: Any, golden: Golden, name: str) -> None:
    table = frazil.load_table(golden[name].metadata_file)
    want = table.changes().to_arrow()
    same(table.changes().to_spark(spark), want)
    same(spark.read.format("iceberg").load(f"{golden[name].metadata_file}#changes"), want)
    net = table.changes(net=True)
    same(net.to_spark(spark), net.to_arrow())
    keyed = table.changes(net=True, identifier_columns=[table.schema().fields[0].name])
    same(keyed.to_spark(spark), keyed.to_arrow())


@pytest.mark.parametrize("name", ["changelog_cow", "upsert_v3"])
def test_the_python_data_source_gives_them_too(session: Any, golden: Golden, name: str) -> None:
    place = f"{golden[name].metadata_file}#changes"
    want = frazil.load_table(golden[name].metadata_file).changes()
    same(session.read.format("iceberg").load(place), want.to_arrow())
    ids = [s.snapshot_id for s in frazil.load_table(golden[name].metadata_file).snapshots()]
    part = (
        session.read.format("iceberg")
        .option("start-snapshot-id", ids[0])
        .option("end-snapshot-id", ids[2])
        .load(place)
    )
    assert {r["_commit_snapshot_id"] for r in part.collect()} == set(ids[1:3])


@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"row_filter": "id >= 3"},
        {"row_filter": "_change_type = 'DELETE' AND id > 0", "selected_fields": ("s",)},
        {"limit": 3},
    ],
)
def test_updates_and_filters_are_the_same_at_both_doors(
    spark: Any, golden: Golden, asked: dict[str, Any]
) -> None:
    table = frazil.load_table(golden["changelog_cow"].metadata_file)
    for more in ({}, {"identifier_columns": ["id"]}, {"identifier_columns": ["n"]}):
        scan = table.changes(**asked, **more)
        if "limit" in asked:
            assert scan.to_spark(spark).count() == scan.count() == 3
        else:
            same(scan.to_spark(spark), scan.to_arrow())


def test_a_filter_may_be_a_column_or_sql_beyond_frazils_grammar(spark: Any, golden: Golden) -> None:
    from pyspark.sql import functions as F

    table = frazil.load_table(golden["changelog_cow"].metadata_file)
    want = told(table.changes(row_filter="id = 3").to_arrow())
    assert told(doors.collect(table.changes(row_filter=F.col("id") == 3).to_spark(spark))) == want
    assert (
        told(
            doors.collect(
                table.changes(row_filter="sqrt(id * id) = 3 and _change_ordinal >= 0").to_spark(
                    spark
                )
            )
        )
        == want
    )


def test_the_table_named_changes_takes_ids_times_and_a_branch(spark: Any, golden: Golden) -> None:
    table, place = (
        frazil.load_table(golden["changelog_cow"].metadata_file),
        f"{golden['changelog_cow'].metadata_file}#changes",
    )
    read = spark.read.format("iceberg")
    want = told(table.changes(start_snapshot_id=START, end_snapshot_id=END).to_arrow())
    ids = read.option("start-snapshot-id", START).option("end-snapshot-id", END).load(place)
    assert told(doors.collect(ids)) == want
    times = {table.snapshot_by_id(i).timestamp_ms for i in (START, END)}
    timed = (
        spark.read.format("iceberg")
        .option("start-timestamp", min(times))
        .option("end-timestamp", max(times))
        .load(place)
    )
    assert told(doors.collect(timed)) == want
    assert (
        spark.read.format("iceberg")
        .option("end-snapshot-id", START)
        .option("branch", "main")
        .load(place)
        .count()
        == 6
    )
    for key, value in (("snapshot-id", START), ("tag", "x"), ("as-of-timestamp", 1)):
        with pytest.raises(InvalidInput, match="Cannot select snapshot in table: CHANGES"):
            spark.read.format("iceberg").option(key, value).load(place)
    with pytest.raises(InvalidInput, match="Cannot set both start-snapshot-id and start-timestamp"):
        spark.read.format("iceberg").option("start-snapshot-id", START).option(
            "start-timestamp", 1
        ).load(place)
    with pytest.raises(NoSuchSnapshotError):
        spark.read.format("iceberg").option("end-snapshot-id", 1).load(place)


def test_spark_table_finds_the_changelog_by_name(spark: Any, tmp_path: Any) -> None:
    catalog = frazil.load_catalog("logged", type="path", warehouse=str(tmp_path))
    for key, value in {"type": "path", "warehouse": str(tmp_path)}.items():
        spark.conf.set(f"spark.sql.catalog.logged.{key}", value)
    catalog.create_namespace("db")
    made = catalog.create_table("db.t", "id bigint, s string")
    made.append(pa.table({"id": [1, 2], "s": ["a", "b"]}))
    made.delete("id = 1")
    rows = spark.table("logged.db.t.changes").collect()
    assert sorted((r["_change_ordinal"], r["_change_type"], r["id"]) for r in rows) == [
        (0, "INSERT", 1),
        (0, "INSERT", 2),
        (1, "DELETE", 1),
    ]
    assert [f.name for f in spark.table("logged.db.t.changes").schema][2:] == [
        "_change_type",
        "_change_ordinal",
        "_commit_snapshot_id",
    ]
