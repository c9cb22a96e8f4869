"""What users of other engines reported of Spark's doors: constants that Spark's push-down cannot hold, structs in maps, zones."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as F

from frazil.spark.scan.misread import misread_columns
from frazil.spec.types import DecimalType, StringType
from frazil.table import Table
from tests.builders.catalogs import catalog_of

pytestmark = pytest.mark.spark


def ids(frame: Any) -> list[int]:
    return sorted(frame.toArrow()["id"].to_pylist())


def agree(t: Table, session: Any, *filters: str) -> None:
    """Spark finds what Arrow finds, with the filter in the scan and above it."""
    for where in filters:
        wanted = ids(type("Read", (), {"toArrow": t.scan(where).to_arrow}))
        assert ids(t.scan(where).to_spark(session)) == ids(t.scan().to_spark(session).where(where)) == wanted, where


def misread(t: Table) -> set[str]:
    plan = t.scan()._reading().plan()
    return {t.schema().find_column_name(i) or "" for i in misread_columns(plan, t.schema())}


def test_days_and_instants_that_javas_calendar_lacks_are_found_and_deleted(plain_spark: Any, tmp_path: Path) -> None:
    t = catalog_of("path", tmp_path).create_table("db.t", "id int, d date, ts timestamp, n timestamp_ntz")
    moments = [dt.datetime(1582, 10, 4), dt.datetime(1582, 10, 10, 1), dt.datetime(1582, 10, 15), dt.datetime(2026, 1, 1)]
    for n, moment in enumerate(moments):
        t.append([{"id": n, "d": moment.date(), "ts": moment.replace(tzinfo=dt.UTC), "n": moment}])
    assert misread(t) == {"d", "ts"}
    agree(
        t, plain_spark, "d = date '1582-10-10'", "d > date '1582-10-09'", "d <> date '1582-10-10'",
        "ts > timestamp '1582-10-09 00:00:00Z'", "n >= timestamp_ntz '1582-10-10 01:00:00'",
    )  # fmt: skip
    t.delete(F.expr("d = date '1582-10-10'"), mode="merge-on-read")
    assert ids(type("Read", (), {"toArrow": t.refresh().scan().to_arrow})) == [0, 2, 3]


def test_filters_on_dates_and_instants_of_today_are_pushed(plain_spark: Any, tmp_path: Path) -> None:
    t = catalog_of("path", tmp_path).create_table("db.t", "id int, d date, ts timestamp, s struct<d: date>")
    day = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    t.append([{"id": 1, "d": day.date(), "ts": day, "s": {"d": day.date()}}])
    t.append([{"id": 2}])
    assert misread(t) == set()
    shown = t.scan().to_spark(plain_spark).where("d > date '2025-01-01'")._jdf.queryExecution().executedPlan().toString()
    assert "GreaterThan(d," in shown
    agree(t, plain_spark, "d > date '2025-01-01'", "s.d = date '2026-01-01'")


def test_constants_beyond_a_narrower_decimal_of_old_files_lose_no_row(plain_spark: Any, tmp_path: Path) -> None:
    t = catalog_of("path", tmp_path).create_table("db.t", "id int, d decimal(9,2)")
    amounts = pa.array([Decimal("1.00"), Decimal("-5.25"), Decimal("9999999.99")], pa.decimal128(9, 2))
    t.append(pa.table({"id": pa.array([1, 2, 3], pa.int32()), "d": amounts}))
    with t.update_schema() as update:
        update.update_column("d", DecimalType(18, 2))
    assert misread(t.refresh()) == {"d"}
    agree(t, plain_spark, "d < 99999999999.99BD", "d > -30000000.00BD")


def test_constants_finer_or_wider_than_files_without_ids_lose_no_row(plain_spark: Any, tmp_path: Path) -> None:
    t = catalog_of("path", tmp_path).create_table("db.t", "id int, ts timestamp, d decimal(38,2)")
    moments = pa.array([1767225600000, 1767225600001], pa.timestamp("ms", "UTC"))
    amounts = pa.array([Decimal("1.00"), Decimal("-5.25")], pa.decimal128(9, 2))
    pq.write_table(pa.table({"id": pa.array([1, 2], pa.int32()), "ts": moments, "d": amounts}), tmp_path / "x.parquet")
    t.add_files([str(tmp_path / "x.parquet")])
    agree(t, plain_spark, "ts < timestamp '2026-01-01 00:00:00.000500Z'", "d > -123456789012345678901234567.00BD")


def test_structs_in_maps_and_lists_that_gain_members_are_read_from_old_and_new_files(plain_spark: Any, tmp_path: Path) -> None:
    t = catalog_of("path", tmp_path).create_table("db.t", "id bigint, m map<string, struct<a: bigint>>, l array<struct<a: int>>")
    old = pa.struct([("a", pa.int64())])
    t.append(pa.table({"id": [1, 2], "m": pa.array([[("k", {"a": 5})], None], pa.map_(pa.string(), old)), "l": [[{"a": 1}, None], []]}))
    with t.update_schema() as update:
        update.add_column(("m", "value", "o"), StringType())
        update.add_column(("l", "element", "b"), StringType())
    t.append([{"id": 3, "m": {"k": {"a": 6, "o": "x"}}, "l": [{"a": 2, "b": "y"}]}])
    frame = t.refresh().scan().to_spark(plain_spark)
    rows = frame.selectExpr("id", "m['k'].o", "m['k'].a", "l.b").orderBy("id").collect()
    assert [tuple(r) for r in rows] == [(1, None, 5, [None, None]), (2, None, None, []), (3, "x", 6, ["y"])]
    assert ids(frame.where("m['k'].o is null")) == [1, 2]
