"""What users of other engines reported of Spark's doors: constants that Spark's push-down cannot
hold, structs in maps, zones.
"""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as F

from frazil.commit.actions import Append
from frazil.commit.table_commit import commit
from frazil.spark.host.settings import temporarily
from frazil.spark.scan import file_columns
from frazil.spark.scan.pushed_filters import misread_columns
from frazil.spec.manifest import DataFile
from frazil.spec.name_mapping import NameMapping, name_mapping_to_json
from frazil.spec.types import DecimalType, StringType
from frazil.table import Table
from tests.builders.catalogs import catalog_of
from tests.builders.data_files import by_another_writer, taken_as_it_is

pytestmark = pytest.mark.spark


def ids(frame: Any) -> list[int]:
    return sorted(frame.toArrow()["id"].to_pylist())


def agree(t: Table, session: Any, *filters: str) -> None:
    """Spark finds what Arrow finds, with the filter in the scan and above it."""
    for where in filters:
        wanted = ids(type("Read", (), {"toArrow": t.scan(where).to_arrow}))
        assert (
            ids(t.scan(where).to_spark(session))
            == ids(t.scan().to_spark(session).where(where))
            == wanted
        ), where


def misread(t: Table) -> set[str]:
    plan = t.scan()._reading().plan()
    return {t.schema().find_column_name(i) or "" for i in misread_columns(plan, t.schema())}


def test_days_and_instants_that_javas_calendar_lacks_are_found_and_deleted(
    plain_spark: Any, tmp_path: Path
) -> None:
    t = catalog_of("path", tmp_path).create_table(
        "db.t", "id int, d date, ts timestamp, n timestamp_ntz"
    )
    moments = [
        dt.datetime(1582, 10, 4),
        dt.datetime(1582, 10, 10, 1),
        dt.datetime(1582, 10, 15),
        dt.datetime(2026, 1, 1),
    ]
    for n, moment in enumerate(moments):
        t.append([{"id": n, "d": moment.date(), "ts": moment.replace(tzinfo=dt.UTC), "n": moment}])
    assert misread(t) == {"d", "ts"}
    agree(
        t,
        plain_spark,
        "d = date '1582-10-10'",
        "d > date '1582-10-09'",
        "d <> date '1582-10-10'",
        "ts > timestamp '1582-10-09 00:00:00Z'",
        "n >= timestamp_ntz '1582-10-10 01:00:00'",
    )
    t.delete(F.expr("d = date '1582-10-10'"), mode="merge-on-read")
    assert ids(type("Read", (), {"toArrow": t.refresh().scan().to_arrow})) == [0, 2, 3]


def test_filters_on_dates_and_instants_of_today_are_pushed(
    plain_spark: Any, tmp_path: Path
) -> None:
    t = catalog_of("path", tmp_path).create_table(
        "db.t", "id int, d date, ts timestamp, s struct<d: date>"
    )
    day = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    t.append([{"id": 1, "d": day.date(), "ts": day, "s": {"d": day.date()}}])
    t.append([{"id": 2}])
    assert misread(t) == set()
    shown = (
        t.scan()
        .to_spark(plain_spark)
        .where("d > date '2025-01-01'")
        ._jdf.queryExecution()
        .executedPlan()
        .toString()
    )
    assert "GreaterThan(d," in shown
    agree(t, plain_spark, "d > date '2025-01-01'", "s.d = date '2026-01-01'")


def test_constants_beyond_a_narrower_decimal_of_old_files_lose_no_row(
    plain_spark: Any, tmp_path: Path
) -> None:
    t = catalog_of("path", tmp_path).create_table("db.t", "id int, d decimal(9,2)")
    amounts = pa.array(
        [Decimal("1.00"), Decimal("-5.25"), Decimal("9999999.99")], pa.decimal128(9, 2)
    )
    t.append(pa.table({"id": pa.array([1, 2, 3], pa.int32()), "d": amounts}))
    with t.update_schema() as update:
        update.update_column("d", DecimalType(18, 2))
    assert misread(t.refresh()) == {"d"}
    agree(t, plain_spark, "d < 99999999999.99BD", "d > -30000000.00BD")


def test_files_compressed_by_brotli_are_read_beside_others(
    plain_spark: Any, tmp_path: Path
) -> None:
    catalog = catalog_of("sql", tmp_path)
    t = catalog.create_table("db.t", "id int, v string", format_version=2)
    t.append([{"id": n, "v": "a"} for n in range(3)])
    columns = [numbered("id", pa.int32(), 1), numbered("v", pa.string(), 2)]
    rows = pa.table([pa.array([3, 4], pa.int32()), ["b", "b"]], schema=pa.schema(columns))
    pq.write_table(rows, tmp_path / "x.parquet", compression="brotli")
    taken_as_it_is(t, tmp_path / "x.parquet", 2)
    agree(by_another_writer(catalog, t), plain_spark, "id >= 0", "v = 'b'")
    with t.transaction() as tx:
        tx.set_properties({"write.parquet.compression-codec": "brotli"})
    t.append([{"id": 5, "v": "c"}])
    deleted = pa.table([pa.array([4], pa.int32())], schema=pa.schema(columns[:1]))
    pq.write_table(deleted, tmp_path / "d.parquet", compression="brotli")
    counts: Any = {"content": 2, "equality_ids": (1,), "sort_order_id": 0, "value_counts": {1: 1}}
    taken_as_it_is(t, tmp_path / "d.parquet", 1, **counts)
    agree(t.refresh(), plain_spark, "id >= 0", "v = 'b'")
    assert ids(t.to_spark(plain_spark)) == [0, 1, 2, 3, 5]


def test_files_of_expired_snapshots_are_opened_where_their_names_or_others_say_so(
    plain_spark: Any, tmp_path: Path
) -> None:
    def added(name: str, n: int) -> None:
        columns = [numbered("id", pa.int32(), 1), numbered("a", pa.int32(), 2)]
        pq.write_table(pa.table([[n], [n]], schema=pa.schema(columns)), tmp_path / name)
        taken_as_it_is(t, tmp_path / name, 1)

    def opened(t: Table) -> list[str]:
        paths = file_columns._paths_of_others(t.scan()._reading().plan())
        return sorted(Path(path).name for path in paths)

    catalog = catalog_of("sql", tmp_path)
    t = catalog.create_table("db.t", "id int, a int")
    for n in range(3):
        t.append([{"id": n, "a": n}])
    added("part-0.parquet", 3)
    t.append([{"id": 4, "a": 4}])
    t.maintenance.expire_snapshots(retain_last=1, older_than=dt.datetime.now(dt.UTC))
    assert len(t.refresh().snapshots()) == 1
    assert opened(t) == ["part-0.parquet"]
    agree(t, plain_spark, "a = 3")
    added("part-1.parquet", 5)
    assert len(opened(by_another_writer(catalog, t))) == 6


def test_constants_finer_or_wider_than_files_without_ids_lose_no_row(
    plain_spark: Any, tmp_path: Path
) -> None:
    t = catalog_of("path", tmp_path).create_table("db.t", "id int, ts timestamp, d decimal(38,2)")
    moments = pa.array([1767225600000, 1767225600001], pa.timestamp("ms", "UTC"))
    amounts = pa.array([Decimal("1.00"), Decimal("-5.25")], pa.decimal128(9, 2))
    pq.write_table(
        pa.table({"id": pa.array([1, 2], pa.int32()), "ts": moments, "d": amounts}),
        tmp_path / "x.parquet",
    )
    t.add_files([str(tmp_path / "x.parquet")])
    agree(
        t,
        plain_spark,
        "ts < timestamp '2026-01-01 00:00:00.000500Z'",
        "d > -123456789012345678901234567.00BD",
    )


def test_structs_in_maps_and_lists_that_gain_members_are_read_from_old_and_new_files(
    plain_spark: Any, tmp_path: Path
) -> None:
    t = catalog_of("path", tmp_path).create_table(
        "db.t", "id bigint, m map<string, struct<a: bigint>>, l array<struct<a: int>>"
    )
    old = pa.struct([("a", pa.int64())])
    t.append(
        pa.table(
            {
                "id": [1, 2],
                "m": pa.array([[("k", {"a": 5})], None], pa.map_(pa.string(), old)),
                "l": [[{"a": 1}, None], []],
            }
        )
    )
    with t.update_schema() as update:
        update.add_column(("m", "value", "o"), StringType())
        update.add_column(("l", "element", "b"), StringType())
    t.append([{"id": 3, "m": {"k": {"a": 6, "o": "x"}}, "l": [{"a": 2, "b": "y"}]}])
    frame = t.refresh().scan().to_spark(plain_spark)
    rows = frame.selectExpr("id", "m['k'].o", "m['k'].a", "l.b").orderBy("id").collect()
    assert [tuple(r) for r in rows] == [
        (1, None, 5, [None, None]),
        (2, None, None, []),
        (3, "x", 6, ["y"]),
    ]
    assert ids(frame.where("m['k'].o is null")) == [1, 2]


PARTITIONED_BY = [
    (
        "bigint",
        "truncate(10, x)",
        ["-9223372036854775808", "-1", "-10", "-11", "0", "9223372036854775807"],
    ),
    ("decimal(9,2)", "truncate(50, x)", ["-9999999.99BD", "-0.01BD", "0.49BD"]),
    ("string", "truncate(2, x)", ["'😀😀b'", "'😀a'", "'é\u0301x'", "''"]),
    ("binary", "truncate(2, x)", ["X'00FFFF'", "X''", "X'FF'"]),
    (
        "timestamp",
        "hours(x)",
        ["timestamp '0001-01-01 00:00:00Z'", "timestamp '1969-12-31 23:59:59.999999Z'"],
    ),
    ("date", "years(x)", ["date '0001-01-01'", "date '1969-12-31'"]),
    ("decimal(38,2)", "bucket(16, x)", ["-0.01BD", "1.27BD", "-1.28BD"]),
]


@pytest.mark.parametrize(("kind", "transform", "values"), PARTITIONED_BY)
def test_extreme_values_lie_in_the_partitions_that_arrow_gives_them(
    plain_spark: Any, tmp_path: Path, kind: str, transform: str, values: list[str]
) -> None:
    catalog = catalog_of("path", tmp_path)
    by_spark, by_arrow = (
        catalog.create_table(f"db.{n}", f"x {kind}", partition_by=[transform]) for n in ("s", "a")
    )
    literals = [v if v.lstrip("-")[0] not in "0123456789" or "BD" in v else f"{v}L" for v in values]
    frame = plain_spark.sql(
        "SELECT * FROM VALUES "
        + ", ".join(f"(cast({v} as {kind}))" for v in [*literals, "null"])
        + " AS v(x)"
    )
    by_spark.append(frame)
    by_arrow.append(frame.toArrow())
    partitions = [
        sorted((str(r["partition"]), r["record_count"]) for r in t.inspect.partitions().to_pylist())
        for t in (by_spark, by_arrow)
    ]
    assert partitions[0] == partitions[1]
    assert [by_spark.scan(f"x = {v.removesuffix('BD')}").count() for v in values] == [1] * len(
        values
    )
    assert by_spark.scan("x is null").count() == 1


def test_texts_that_are_too_long_for_the_statistics_of_a_footer_are_found(
    plain_spark: Any, tmp_path: Path
) -> None:
    properties = {
        "write.parquet.row-group-size-bytes": "2048",
        "write.metadata.metrics.column.s": "full",
    }
    t = catalog_of("path", tmp_path).create_table(
        "db.long", "id int, s string, b binary", properties=properties
    )
    t.append(
        plain_spark.range(0, 1000, 1, 1).selectExpr(
            "cast(id as int) id",
            "case id when 500 then repeat('z', 9000) when 501 then repeat('0', 9000) else concat('m', id) end s",
            "cast(case id when 500 then repeat('z', 9000) else 'm' end as binary) b",
        )
    )
    found = {
        where: t.scan(where).count()
        for where in ("s > 'y'", "s < '1'", "s LIKE 'zz%'", "b > X'79'")
    }
    assert set(found.values()) == {1}, found
    agree(t, plain_spark, "s > 'y'", "b > X'79'")


def test_a_session_in_another_zone_reads_overwrites_and_deletes_by_its_own_days(
    plain_spark: Any, tmp_path: Path
) -> None:
    t = catalog_of("path", tmp_path).create_table(
        "db.t", "id int, ts timestamp, dt date", partition_by=["days(ts)"]
    )
    with temporarily(plain_spark, {"spark.sql.session.timeZone": "Asia/Shanghai"}):
        rows = plain_spark.sql(
            "SELECT * FROM VALUES (1, timestamp '2020-01-01 04:00:00', date '2020-01-01'), "
            "(2, timestamp '2020-01-01 11:00:00', date '2020-01-01'), (3, timestamp '2020-01-02 07:59:59.999999', date '2020-01-02'), "
            "(4, timestamp '0001-01-02 00:00:00', date '0001-01-01'), (6, timestamp '1900-12-31 23:59:59', date '1900-12-31'), "
            "(7, null, null) AS x(id, ts, dt)"
        )
        t.append(rows)
        filters = {
            "ts >= '2020-01-01 00:00:00' AND ts < '2020-01-02 00:00:00'": [1, 2],
            "date(ts) = date '2020-01-01'": [1, 2],
            "ts < timestamp '1582-10-15 00:00:00'": [4],
            "ts is null": [7],
            "year(ts) = 1900": [6],
            "hour(ts) = 4": [1],
        }
        for where, wanted in filters.items():
            by_scan, above = (
                t.scan(where).to_spark(plain_spark),
                t.scan().to_spark(plain_spark).where(where),
            )
            assert ids(by_scan) == ids(above) == ids(rows.where(where)) == wanted, where
        t.dynamic_partition_overwrite(
            plain_spark.sql(
                "SELECT 20 id, timestamp '2020-01-01 12:00:00' ts, date '2020-01-01' dt"
            )
        )
        assert ids(t.scan().to_spark(plain_spark)) == [1, 4, 6, 7, 20], (
            "the day of UTC held 2 and 3"
        )
        assert t.delete("ts = timestamp '2020-01-01 04:00:00'", spark=plain_spark).rows_deleted == 1
        instants = {
            r.id: r.u
            for r in t.scan().to_spark(plain_spark).selectExpr("id", "unix_micros(ts) u").collect()
        }
    by_arrow = t.scan().to_arrow()
    assert (
        dict(
            zip(
                by_arrow["id"].to_pylist(), by_arrow["ts"].cast(pa.int64()).to_pylist(), strict=True
            )
        )
        == instants
    )


def test_a_stream_goes_on_where_snapshots_that_it_has_read_have_expired(
    plain_spark: Any, tmp_path: Path
) -> None:
    catalog = catalog_of("path", tmp_path)

    def source(name: str, **options: Any) -> tuple[Table, Any]:
        t = catalog.create_table(f"db.{name}", "id bigint")
        places = {
            "path": str(tmp_path / f"out_{name}"),
            "checkpointLocation": str(tmp_path / f"ck_{name}"),
        }

        def read() -> list[int]:
            frame = t.read_stream(
                spark=plain_spark, starting_strategy="TABLE_SCAN_THEN_INCREMENTAL", **options
            )
            frame.writeStream.format("parquet").options(**places).trigger(
                availableNow=True
            ).start().awaitTermination()
            return ids(plain_spark.read.schema("id bigint").parquet(places["path"]))

        return t, read

    def expire(t: Table) -> None:
        t.maintenance.expire_snapshots(older_than="2099-01-01", retain_last=1)

    t, read = source("compacted")
    t.append([{"id": 1}])
    t.append([{"id": 2}])
    assert read() == [1, 2]
    t.maintenance.rewrite_data_files(options={"rewrite-all": True})
    expire(t)
    assert read() == [1, 2], "the position has expired, and what follows changes no row"
    t.append([{"id": 3}])
    assert read() == [1, 2, 3]
    t.append([{"id": 4}])
    t.append([{"id": 5}])
    expire(t)
    with pytest.raises(Exception, match=r"(?s)expire.*earliest"):
        read()
    t, read = source("deleted", on_non_append="skip")
    t.append([{"id": 1}])
    t.append([{"id": 2}])
    assert read() == [1, 2]
    t.delete("id = 1")
    expire(t)
    t.append([{"id": 4}])
    assert read() == [1, 2, 4]


@pytest.mark.parametrize("sort_by", ["ts", "id", ()])
def test_a_load_of_many_days_makes_a_file_for_each_day(
    plain_spark: Any, tmp_path: Path, sort_by: str
) -> None:
    t = catalog_of("path", tmp_path).create_table(
        "db.t", "id bigint, ts timestamp", partition_by=["days(ts)"], sort_by=sort_by
    )
    moment = "timestamp_seconds(1767225600 + ((id * 104729) % 300000) * 31 * 86400.0 / 300000) ts"
    with temporarily(plain_spark, {"spark.sql.shuffle.partitions": "200"}):
        t.append(plain_spark.range(300_000).selectExpr("(id * 7919) % 300000 id", moment))
    assert t.inspect.files().num_rows == t.inspect.partitions().num_rows == 31


def numbered(name: str, type_: pa.DataType, field_id: int) -> pa.Field:
    return pa.field(name, type_, metadata={"PARQUET:field_id": str(field_id)})


@pytest.mark.parametrize("mapped", [False, True])
def test_columns_that_files_call_otherwise_are_read_by_their_ids(
    plain_spark: Any, tmp_path: Path, mapped: bool
) -> None:
    """Tables of Delta that are shown as Iceberg's keep the names that columns had first: another
    column may bear such a name by now, and newer columns have invented ones."""
    catalog = catalog_of("sql", tmp_path)
    inner = "struct<x: int, y: int>"
    t = catalog.create_table("db.t", f"id int, a int, s {inner}, l array<{inner}>, b int")
    ids_of = {t.schema().find_column_name(i): i for i in t.schema().by_id}
    point = pa.struct(
        [numbered("y", pa.int32(), ids_of["s.x"]), numbered("c7", pa.int32(), ids_of["s.y"])]
    )
    item = pa.struct(
        [
            numbered("y", pa.int32(), ids_of["l.element.x"]),
            numbered("x", pa.int32(), ids_of["l.element.y"]),
        ]
    )
    columns = [
        numbered("id", pa.int32(), ids_of["id"]),
        numbered("c1", pa.int32(), ids_of["a"]),
        numbered("c2", point, ids_of["s"]),
        numbered("l", pa.list_(numbered("item", item, ids_of["l.element"])), ids_of["l"]),
        numbered("a", pa.int32(), ids_of["b"]),
    ]
    rows = [(n, 100 + n, {"y": n, "c7": 100 + n}, [{"y": n, "x": 100 + n}], n) for n in range(9)]
    pq.write_table(
        pa.Table.from_arrays(
            [pa.array(c, f.type) for c, f in zip(zip(*rows, strict=True), columns, strict=True)],
            schema=pa.schema(columns),
        ),
        tmp_path / "x.parquet",
        row_group_size=3,
    )
    if mapped:
        t.set_properties({"schema.name-mapping.default": name_mapping_to_json(NameMapping())})
    taken_as_it_is(t.refresh(), tmp_path / "x.parquet", 9)
    t = by_another_writer(catalog, t)
    agree(t, plain_spark, "a > 105", "b = 3", "s.x < 4", "s.y = 103", "a is null or s is null")
    t.scan().to_spark(plain_spark).createOrReplaceTempView("called_otherwise")
    found = plain_spark.sql(
        "SELECT s.x, s.y, l.x, l[0].y FROM called_otherwise WHERE a = 103 AND s.x = 3"
    )
    assert [tuple(r) for r in found.collect()] == [(3, 103, [3], 103)]


def mixed(catalog: Any, folder: Path, odd: int, snapshots: bool) -> Table:
    """A table of ten files of another writer, each in a snapshot of its own or all in one, of which
    the one numbered `odd` calls column a b, and b a."""
    t = catalog.create_table("db.t", "id int, a int, b int")
    entries = []
    for n in range(10):
        names = ("id", "b", "a") if n == odd else ("id", "a", "b")
        columns = [numbered(name, pa.int32(), i) for i, name in enumerate(names, 1)]
        ids = [3 * n, 3 * n + 1]
        rows = pa.table([ids, ids, [1000, 2000]], schema=pa.schema(columns))
        path = folder / f"{n}.parquet"
        pq.write_table(rows, path, row_group_size=1)
        size = path.stat().st_size
        entries.append(
            DataFile(
                file_path=str(path),
                file_format="parquet",
                record_count=2,
                file_size_in_bytes=size,
            )
        )
    for files in [(e,) for e in entries] if snapshots else [tuple(entries)]:
        commit(t._writable(), t.refresh()._loaded, [Append(files=files)])
    return by_another_writer(catalog, t.refresh())


@pytest.mark.parametrize("snapshots", [False, True])
def test_writers_that_mix_names_of_columns_lose_no_row(
    plain_spark: Any, tmp_path: Path, snapshots: bool
) -> None:
    t = mixed(catalog_of("sql", tmp_path), tmp_path, 2, snapshots)
    agree(t, plain_spark, "a = 7", "b = 2000 and a < 8", "a > 900", "b < 900")


def test_names_in_more_files_than_a_read_looks_at_push_no_filter_until_all_are_known(
    plain_spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_columns, "_MOST_UNREAD", 6)
    t = mixed(catalog_of("sql", tmp_path), tmp_path, 99, snapshots=False)

    def pushed() -> bool:
        plan = t.scan().to_spark(plain_spark).where("a = 16").select("id")
        return "EqualTo(a,16)" in plan._jdf.queryExecution().toString()

    assert [pushed(), pushed()] == [False, True]
    agree(t, plain_spark, "a = 16")
    (tmp_path / "mixed").mkdir()
    t = mixed(catalog_of("sql", tmp_path / "mixed"), tmp_path / "mixed", 9, snapshots=False)
    agree(t, plain_spark, "a = 28", "b = 2000 and a > 27")
    assert not pushed()


def test_files_that_icebergs_writers_wrote_are_not_opened_to_learn_their_names(
    plain_spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_at: list[str] = []

    def footers(paths: Any, storage: Any) -> dict[str, Any]:
        looked_at.extend(paths)
        return {}

    monkeypatch.setattr(file_columns, "file_schemas", footers)
    catalog = catalog_of("sql", tmp_path)
    t = catalog.create_table("db.t", "id int")
    for n, mark in enumerate(("spark.app.id", "flink.job-id", "trino_query_id")):
        t.append([{"id": n}], snapshot_properties={mark: "1"})
    t.append([{"id": 3}])  # PyIceberg leaves no mark; it gives its files Iceberg's names
    by_another_writer(catalog, t).scan().to_spark(plain_spark)
    assert not looked_at
    pq.write_table(pa.table({"id": [4]}), tmp_path / "part-0.parquet")
    taken_as_it_is(t, tmp_path / "part-0.parquet", 1)
    by_another_writer(catalog, t.refresh(), "db.mixed").scan().to_spark(plain_spark)
    assert len(looked_at) == 2


def test_constants_finer_or_wider_than_files_of_other_writers_lose_no_row(
    plain_spark: Any, tmp_path: Path
) -> None:
    catalog = catalog_of("sql", tmp_path)
    t = catalog.create_table("db.t", "id int, ts timestamp, d decimal(38,2)")
    columns = [
        numbered("id", pa.int32(), 1),
        numbered("ts", pa.timestamp("ms", "UTC"), 2),
        numbered("d", pa.decimal128(9, 2), 3),
    ]
    moment, amount = 1767225600000, Decimal("-5.25")
    rows = pa.table([[1], [moment], [amount]], schema=pa.schema(columns))
    pq.write_table(rows, tmp_path / "x.parquet")
    modern = {2: (moment * 1000).to_bytes(8, "little")}  # so no column is taken for an old one
    taken_as_it_is(t, tmp_path / "x.parquet", 1, lower_bounds=modern, upper_bounds=modern)
    agree(
        by_another_writer(catalog, t),
        plain_spark,
        "ts < timestamp '2026-01-01 00:00:00.000500Z'",
        "d > -123456789012345678901234567.00BD",
    )


@pytest.mark.versions
def test_a_member_takes_the_name_of_another_of_another_type(
    plain_spark: Any, tmp_path: Path
) -> None:
    """Spark chooses members by id, but looks up their types by name."""
    inner = "struct<x: string, y: int, w: bigint>"
    t = catalog_of("path", tmp_path).create_table(
        "db.t", f"id int, s {inner}, l array<{inner}>, m map<string, {inner}>"
    )
    one = {"x": "a", "y": 5, "w": 9}
    t.append([{"id": 1, "s": one, "l": [one, None], "m": {"k": one}}, {"id": 2}])
    for old, new in (("x", "was"), ("y", "x"), ("w", "y"), ("was", "w")):
        for parent in ("s", "l.element", "m.value"):
            with t.update_schema() as update:
                update.rename_column(f"{parent}.{old}", new)
    with t.update_schema() as update:
        update.delete_column("s.w")
    with t.update_schema() as update:
        update.add_column(("s", "w"), DecimalType(9, 2))
    now = {"w": "a", "x": 5, "y": 9}
    t.append([{"id": 3, "s": {"x": 1, "y": 2, "w": Decimal("1.50")}, "l": [now], "m": {}}])
    rows = t.refresh().scan().to_spark(plain_spark).toArrow().sort_by("id")
    assert rows.to_pylist() == t.scan().to_arrow().sort_by("id").to_pylist()
    assert rows["s"].to_pylist()[0] == {"x": 5, "y": 9, "w": None}
    assert rows["m"].to_pylist()[0] == [("k", now)]
    agree(t, plain_spark, "s.x = 5", "s.w > 1", "s.w is null and s is not null")
