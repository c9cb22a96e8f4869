"""What users of other engines reported of rows that were lost, doubled or refused, each as a small
table. All of it is right here.
"""

from __future__ import annotations

import datetime as dt
import random
import time
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import frazil
from frazil.catalog import Catalog
from frazil.errors import FrazilError, Unsupported, ValidationError
from frazil.spec.types import StringType
from frazil.table import Table
from tests.builders.catalogs import catalog_of
from tests.builders.foreign_manifests import avro_files, lengths_corrected, records_changed

AS_A_WHOLE = {"rewrite-all": True}


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    return catalog_of("memory", tmp_path)


def ids(t: Table, where: str = "true", **scan: Any) -> list[Any]:
    return sorted(t.scan(where, **scan).to_arrow()["id"].to_pylist())


LEAST = [
    ("bigint", pa.int64(), 10, -(2**63)), ("int", pa.int32(), 10000, -(2**31)), ("decimal(9,2)", pa.decimal128(9, 2), 50, Decimal("-9999999.99")),
]  # fmt: skip


@pytest.mark.parametrize(("type_", "arrow", "width", "least"), LEAST)
def test_the_least_values_of_a_type_are_found_in_truncated_partitions(
    catalog: Catalog, type_: str, arrow: pa.DataType, width: int, least: Any
) -> None:
    t = catalog.create_table("db.t", f"id {type_}", partition_by=[f"truncate({width}, id)"])
    one = Decimal(1) if isinstance(least, Decimal) else 1
    t.append(pa.table({"id": pa.array([least, least + one, -one, one], arrow)}))
    counts = {
        "id < 0": 3,
        f"id = {least}": 1,
        f"id <= {least + one}": 2,
        "id > 0": 1,
        f"id IN ({least}, 1)": 2,
    }
    assert {where: t.scan(where).count() for where in counts} == counts
    assert t.delete("id < 0").rows_deleted == 3 and t.count() == 1


def test_upserts_see_values_that_become_null_or_were(catalog: Catalog) -> None:
    t = catalog.create_table("db.t", "k string, n int, f boolean")
    t.append([{"k": "apple", "n": None, "f": False}, {"k": "pear", "n": 3, "f": None}])
    new = [{"k": "apple", "n": 7, "f": False}, {"k": "pear", "n": None, "f": None}]
    assert t.upsert(new, join_cols=["k"]).rows_updated == 2
    assert sorted(t.refresh().scan().to_arrow().to_pylist(), key=str) == sorted(new, key=str)
    assert t.upsert(new[:1], join_cols=["k"]).rows_updated == 0


def test_upserts_by_a_key_of_three_columns_find_each_row_once(catalog: Catalog) -> None:
    def rows(first: int, end: int, v: int) -> pa.Table:
        n = range(first, end)
        key = {
            "a": [i // 100 for i in n],
            "b": [i % 100 // 10 for i in n],
            "c": [i % 10 for i in n],
        }
        return pa.table({**key, "v": [v] * len(n), "s": [{"x": i} for i in n]})

    t = catalog.create_table("db.t", "a bigint, b bigint, c bigint, v bigint, s struct<x: bigint>")
    t.append(rows(0, 5000, 1))
    result = t.upsert(rows(3000, 5500, 2), join_cols=["a", "b", "c"])
    assert (
        result.rows_updated,
        result.rows_inserted,
        t.refresh().count(),
        t.scan("v = 2").count(),
    ) == (2000, 500, 5500, 2500)


def test_bounds_of_texts_that_were_cut_within_a_character_hide_no_row(catalog: Catalog) -> None:
    first, last = "A" * 15 + "• a bullet", "B" * 15 + "í tail"
    t = catalog.create_table("db.t", "id int, s string, p string", partition_by=["p"])
    t.append([{"id": 1, "s": first, "p": "x"}, {"id": 2, "s": last, "p": "x"}])
    t.append([{"id": 3, "s": "zz", "p": "y"}])

    def cut(entry: dict[str, Any]) -> None:
        if entry["data_file"]["partition"]["p"] == "x":
            for name, bound in (
                ("lower_bounds", first.encode()[:16]),
                ("upper_bounds", last.encode()[:15] + b"\xc3\xff"),
            ):
                next(pair for pair in entry["data_file"][name] if pair["key"] == 2)["value"] = bound

    for path, is_list in avro_files(t):
        lengths_corrected(path) if is_list else records_changed(path, cut)
    t = catalog.load_table("db.t")
    counts = {
        f"s = '{first}'": 1,
        f"s = '{last}'": 1,
        "s LIKE 'BBB%'": 1,
        "s > 'A'": 3,
        "s >= 'B'": 2,
        "s <> 'q'": 3,
        "s NOT LIKE 'A%'": 2,
    }
    assert {where: t.scan(where).count() for where in counts} == counts
    assert t.delete(f"s = '{first}'").rows_deleted == 1
    t.maintenance.rewrite_data_files(options=AS_A_WHOLE)
    assert ids(t.refresh()) == [2, 3]


NAMES = ["😎", "1st day", "a.b", "my#col%", "x-y", "sl/ash", "eq=ual", "q?&"]
VALUES = ["v", "sp ace", "a/b", "50%", "x=y", "#frag", "?q", "ü", "", "..", None]


@pytest.mark.parametrize("version", [1, 2, 3])
def test_names_and_partition_values_that_no_avro_name_or_path_can_hold_are_read_back(
    catalog: Catalog, version: int
) -> None:
    columns = ", ".join(f"`{n}` string" for n in NAMES)
    t = catalog.create_table(
        "db.t", columns, partition_by=[f"`{n}`" for n in NAMES[:4]], format_version=version
    )
    t.append(pa.table({n: pa.array(VALUES, pa.string()) for n in NAMES}))
    assert all(
        t.scan(f"`{n}` = 'a/b'").count() == t.scan(f"`{n}` is null").count() == 1 for n in NAMES
    )
    for path, _ in avro_files(t):
        with open(path, "rb") as file:
            fastavro.reader(file)  # refuses names that are none
    t.maintenance.rewrite_data_files(options=AS_A_WHOLE)
    assert t.delete("`😎` = '50%'").rows_deleted == 1
    t.maintenance.remove_orphan_files(older_than="2099-01-01", allow_short_interval=True)
    assert t.refresh().scan().to_arrow().num_rows == 10


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("term", ["bucket(8, trip)", "trip"])
def test_a_column_that_only_an_old_partition_spec_needs_can_be_dropped(
    catalog: Catalog, term: str, version: int
) -> None:
    t = catalog.create_table(
        "db.t", "id int, trip int, dist int", partition_by=[term], format_version=version
    )
    t.append(
        [
            {"id": 1, "trip": 1, "dist": 10},
            {"id": 2, "trip": 6, "dist": 20},
            {"id": 3, "trip": None, "dist": None},
        ]
    )
    with t.update_spec() as update:
        update.remove_field(t.spec().fields[0].name)
        update.add_field("dist", "bucket[4]", "db")
    try:
        with t.update_schema() as change:
            change.delete_column("trip")
    except ValidationError:
        assert version == 1, "v1 keeps a void field of the column"
        return
    t.append([{"id": 4, "dist": 40}])
    assert (
        ids(t.refresh(), "dist = 20") == [2]
        and t.inspect.files().num_rows
        and t.inspect.partitions().num_rows
    )
    t.delete("id = 1")
    t.maintenance.rewrite_data_files(options=AS_A_WHOLE)
    t.maintenance.rewrite_manifests()
    assert ids(t.refresh()) == [2, 3, 4]


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_dropped_column_may_have_made_several_fields_of_an_older_spec(
    catalog: Catalog, version: int
) -> None:
    t = catalog.create_table(
        "db.t",
        "id int, k int",
        partition_by=["bucket(4, k)", "truncate(10, k)"],
        format_version=version,
    )
    t.append([{"id": 1, "k": 1}, {"id": 2, "k": 1}, {"id": 3, "k": 20}])
    with t.update_spec() as update:
        update.remove_field("k_bucket").remove_field("k_trunc")
    with t.update_schema() as change:
        change.delete_column("k")
    t.append([{"id": 4}])
    t.delete("id = 1")
    t.maintenance.rewrite_data_files(options=AS_A_WHOLE)
    t.maintenance.rewrite_manifests()
    assert ids(t.refresh()) == [2, 3, 4]


@pytest.mark.parametrize("version", [1, 2, 3])
def test_two_partition_fields_of_one_name_are_shown_under_two(
    catalog: Catalog, version: int
) -> None:
    t = catalog.create_table("db.t", "id int", format_version=version)
    for transform in ("bucket[4]", "truncate[10]"):
        with t.update_spec() as update:
            if t.spec().fields:
                update.remove_field("p")
            update.add_field("id", transform, "p")
        t.append([{"id": 15}])
    want = [{"p_1000": None, "p": 10}, {"p_1000": 0, "p": None}]
    for shown in (
        t.inspect.partitions()["partition"],
        t.inspect.files()["partition"],
        pc.struct_field(t.inspect.entries()["data_file"], "partition"),
        t.scan(selected_fields=("_partition",)).to_arrow()["_partition"],
    ):
        assert sorted(shown.to_pylist(), key=str) == sorted(want, key=str)


@pytest.mark.parametrize(
    ("arrow", "value", "type_"),
    [(pa.decimal128(10, -2), Decimal(1500), "decimal(12, 0)"), (pa.decimal128(37, -1), Decimal(10), "decimal(38, 0)"),
     (pa.decimal128(38, -1), Decimal(10), None)],
)  # fmt: skip
def test_arrow_decimals_of_other_scales_are_taken_with_the_digits_of_their_values(
    catalog: Catalog, arrow: pa.DataType, value: Decimal, type_: str | None
) -> None:
    x = pa.array([value, None], arrow)
    frame = pa.table({"id": [1, 2], "x": x, "s": pa.StructArray.from_arrays([x], ["y"])})
    if type_ is None:
        with pytest.raises(Unsupported, match="Column x"):
            catalog.create_table("db.t", frame.schema)
        return
    for t in (catalog.create_table("db.t", frame.schema), catalog.create_table("db.u", "id long")):
        t.append(frame, merge_schema=True)
        assert str(t.refresh().schema().find_field("s.y").field_type) == type_
        rows = t.scan().to_arrow().sort_by("id").to_pylist()
        assert [(row["x"], row["s"]["y"]) for row in rows] == [(value, value), (None, None)]


@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
def test_row_ids_that_an_upgrade_gave_stay_through_compaction_updates_and_upserts(
    catalog: Catalog, mode: str
) -> None:
    def row_ids() -> dict[int, int]:
        rows = t.refresh().scan(selected_fields=("id", "_row_id")).to_arrow().to_pylist()
        return {row["id"]: row["_row_id"] for row in rows}

    t = catalog.create_table("db.t", "id bigint, v string", format_version=2)
    for n in range(3):
        t.append([{"id": 2 * n, "v": "a"}, {"id": 2 * n + 1, "v": "a"}])
    t.delete("id = 2")
    t.delete("id = 5", mode="merge-on-read")
    t.upgrade(format_version=3)
    assert set(row_ids().values()) == {None}
    t.append([{"id": 10, "v": "b"}, {"id": 11, "v": "b"}])
    before = row_ids()
    assert len(set(before.values())) == len(before) == 6 and None not in before.values()
    t.maintenance.rewrite_data_files(options=AS_A_WHOLE)
    t.update(set={"v": "'c'"}, where="id IN (0, 10)", mode=mode)
    assert row_ids() == before
    t.upsert([{"id": 1, "v": "u"}, {"id": 99, "v": "n"}], join_cols=["id"], mode=mode)
    after = row_ids()
    assert {k: v for k, v in after.items() if k != 99} == before and len(set(after.values())) == 7


@pytest.mark.parametrize("version", [1, 3])
def test_sorted_compactions_of_a_table_whose_partitions_changed_keep_every_row(
    catalog: Catalog, version: int
) -> None:
    chosen = random.Random(3)
    t = catalog.create_table(
        "db.t",
        "a int, b string, s struct<x: double>, id bigint",
        sort_by=["a desc", "s.x"],
        partition_by=["truncate(10, a)"],
        format_version=version,
    )
    structs: list[Any] = [None, {"x": None}, {"x": float("nan")}, {"x": 0.5}]
    rows = [
        {
            "a": chosen.choice([None, *range(-9, 9)]),
            "b": chosen.choice([None, "", "é"]),
            "s": chosen.choice(structs),
            "id": n,
        }
        for n in range(80)
    ]
    t.append(rows[:40])
    with t.update_spec() as update:
        update.add_field("a", "bucket[3]", "ab")
    t.append(rows[40:])
    ways: list[dict[str, Any]] = [
        {"strategy": "sort"},
        {"sort_order": "zorder(a, b)"},
        {"strategy": "sort", "sort_order": "s.x DESC NULLS FIRST, bucket(4, b)"},
    ]
    for how in ways:
        assert (
            t.maintenance.rewrite_data_files(options=AS_A_WHOLE, **how).failed_data_files_count == 0
        )
        assert ids(t.refresh()) == list(range(80))
    t.maintenance.rewrite_data_files(strategy="sort", options={**AS_A_WHOLE, "output-spec-id": 0})
    assert ids(t.refresh()) == list(range(80)) and set(
        t.inspect.files()["spec_id"].to_pylist()
    ) == {0}
    assert t.scan("a = 7").count() == sum(row["a"] == 7 for row in rows)


@pytest.mark.parametrize("kind", ["sql", "path"])
def test_orphan_removal_keeps_statistics_and_partitions_with_odd_names(
    tmp_path: Path, kind: str
) -> None:
    t = catalog_of(kind, tmp_path).create_table(
        "db.t", "id bigint, p string", partition_by=["p"], format_version=3
    )
    for value in ("a b", "ü", "u\u0308", "50%", "x%20y", "_hidden", ".dot", "q?#&", None):
        t.append([{"id": 1, "p": value}, {"id": 2, "p": value}])
    t.delete("id = 1", mode="merge-on-read")
    t.maintenance.compute_table_stats()
    t.maintenance.compute_partition_stats()
    root = Path(t.location().removeprefix("file://"))
    stray = root / "data" / "p=a+b" / "stray.parquet"
    stray.parent.mkdir(parents=True, exist_ok=True)
    stray.write_bytes(b"x")
    before = {str(p) for p in root.rglob("*") if p.is_file()}
    t.maintenance.remove_orphan_files(older_than="2099-01-01", allow_short_interval=True)
    assert before - {str(p) for p in root.rglob("*") if p.is_file()} == {str(stray)}
    assert t.refresh().count() == 9 and [
        t.scan(snapshot_id=s.snapshot_id).to_arrow().num_rows for s in t.snapshots()
    ]


MEANWHILE: dict[str, tuple[Callable[[Table], Any], set[int]]] = {
    "merge-on-read delete": (
        lambda w: w.delete("id = 5 or id >= 20", mode="merge-on-read"),
        set(range(20)) - {5},
    ),
    "copy-on-write delete": (lambda w: w.delete("id = 5"), set(range(30)) - {5}),
    "append": (lambda w: w.append([{"id": 1000}]), {*range(30), 1000}),
    "overwrite": (
        lambda w: w.overwrite([{"id": 77}], overwrite_filter="id < 10"),
        {*range(10, 30), 77},
    ),
    "expiry": (lambda w: w.maintenance.expire_snapshots(older_than="2099-01-01"), set(range(30))),
}


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("what", MEANWHILE)
def test_changes_that_commit_while_a_compaction_runs_are_kept(
    catalog: Catalog, what: str, version: int
) -> None:
    t = catalog.create_table("db.t", "id bigint, v string", format_version=version)
    for n in range(3):
        t.append([{"id": 10 * n + i, "v": "a"} for i in range(10)])
    change, wanted = MEANWHILE[what]
    begun: list[int] = []

    def meanwhile(*_: Any) -> None:
        if not begun:
            begun.append(1)
            change(catalog.load_table("db.t"))

    try:
        t.maintenance.rewrite_data_files(options=AS_A_WHOLE, progress=meanwhile)
    except FrazilError:
        assert what.endswith(("delete", "overwrite"))
    assert begun and set(ids(t.refresh())) == wanted and t.count() == len(wanted)


@pytest.mark.parametrize("version", [1, 2])
def test_a_new_column_may_not_take_the_name_of_a_partition_field_of_a_renamed_one(
    catalog: Catalog, version: int
) -> None:
    t = catalog.create_table(
        "db.t", "id int, day string", partition_by=["day"], format_version=version
    )
    t.append([{"id": 1, "day": "mon"}])
    with t.update_schema() as update:
        update.rename_column("day", "old_day")
    with pytest.raises(ValidationError, match="partition field"), t.update_schema() as update:
        update.add_column("day", StringType())
    assert ids(t.refresh(), "old_day = 'mon'") == [1]


def test_changes_are_read_by_start_by_end_and_in_empty_ranges_of_time(catalog: Catalog) -> None:
    t = catalog.create_table("db.t", "id int")
    assert t.changes().to_arrow().num_rows == 0
    t.append([{"id": 1}])
    time.sleep(0.005)
    middle = int(time.time() * 1000)
    time.sleep(0.005)
    t.append([{"id": 2}])
    t.delete("id = 1")

    def changes(**times: Any) -> list[tuple[str, int]]:
        return [
            (row["_change_type"], row["id"])
            for row in t.refresh().changes(**times).to_arrow().to_pylist()
        ]

    for start in (middle, dt.datetime.fromtimestamp(middle / 1000, dt.UTC)):
        assert changes(start_timestamp=start) == [("INSERT", 2), ("DELETE", 1)]
    assert changes(end_timestamp=middle) == [("INSERT", 1)]
    assert changes(start_timestamp=middle + 3_600_000) == []


@pytest.mark.parametrize("terms", [[], ["p"], ["bucket(3, id)"]])
def test_empty_tables_and_empty_frames_take_every_verb(catalog: Catalog, terms: list[str]) -> None:
    schema = pa.schema([("id", pa.int64()), ("p", pa.string())])
    t, empty = catalog.create_table("db.t", schema, partition_by=terms), schema.empty_table()
    assert t.delete("id = 1").snapshot_id is None and t.update(set={"id": "1"}).snapshot_id is None
    t.upsert(empty, join_cols=["id"])
    t.overwrite(empty)
    t.maintenance.rewrite_data_files()
    t.maintenance.rewrite_manifests()
    t.maintenance.recommend()
    t.merge(
        empty, on="target.id = source.id"
    ).when_not_matched_insert_all().when_not_matched_by_source_delete().execute()
    if terms:
        t.dynamic_partition_overwrite(pa.table({"id": [1, 2], "p": ["a", None]}, schema=schema))
        t.dynamic_partition_overwrite(empty)
        assert t.refresh().count() == 2
    t.overwrite(empty, overwrite_filter="id = 1")
    assert t.refresh().scan("id = 1").count() == 0
    t.overwrite(empty)
    t.append(pa.table({"id": [5], "p": pa.array([None], pa.string())}, schema=schema))
    assert (t.refresh().count(), t.scan("p is null").count()) == (1, 1)


def test_many_columns_are_appended_filtered_and_merged(catalog: Catalog) -> None:
    columns = 200
    t = catalog.create_table("db.t", ", ".join(f"c{n} bigint" for n in range(columns)))
    t.append(pa.table({f"c{n}": [0, n] for n in range(columns)}))
    assert t.scan(f"c{columns - 1} = {columns - 1}").to_arrow().num_columns == columns
    t.merge(
        pa.table({f"c{n}": [n + 1] for n in range(columns)}), on="target.c5 = source.c4"
    ).when_matched_update_all().execute()
    assert sorted(t.refresh().scan().to_arrow()["c7"].to_pylist()) == [0, 8]


def test_travel_by_time_follows_rollbacks_and_branches(catalog: Catalog) -> None:
    t = catalog.create_table("db.t", "id int")

    def now() -> dt.datetime:
        time.sleep(0.003)
        moment = dt.datetime.now(dt.UTC)
        time.sleep(0.003)
        return moment

    before = now()
    t.append([{"id": 1}])
    first, one = now(), t.refresh().current_snapshot()
    assert one is not None
    t.append([{"id": 2}])
    second = now()
    with t.manage_snapshots() as manage:
        manage.create_branch(one.snapshot_id, "side")
    t.append([{"id": 3}], branch="side")
    with t.manage_snapshots() as manage:
        manage.rollback_to_snapshot(one.snapshot_id)
    back = now()
    t.append([{"id": 5}])
    t.refresh()
    assert [ids(t, as_of=moment) for moment in (first, second, back, now())] == [
        [1],
        [1, 2],
        [1],
        [1, 5],
    ]
    assert ids(t, branch="side") == [1, 3]
    with pytest.raises(FrazilError):
        ids(t, as_of=before)


@pytest.mark.parametrize("version", [1, 3])
def test_partitions_on_members_of_structs_take_null_structs_and_renamed_members(
    catalog: Catalog, version: int
) -> None:
    t = catalog.create_table(
        "db.t",
        "id int, s struct<region: string, deep: struct<ts: timestamp_ntz, n: int>>, `s.flat` string",
        partition_by=["s.region", "days(s.deep.ts)", "bucket(4, s.deep.n)"],
        sort_by=["s.deep.n desc", "id"],
        format_version=version,
    )
    rows = [
        {
            "id": n,
            "s": None
            if n == 3
            else {
                "region": (None, "eu", "us")[n % 3],
                "deep": None if n == 4 else {"ts": dt.datetime(1969 + n, 1, 1), "n": n},
            },
        }
        for n in range(8)
    ]
    t.append(rows)
    wanted = {
        "s.region = 'eu'": [1, 4, 7],
        "s.region is null": [0, 3, 6],
        "s.deep.n = 5": [5],
        "s is null": [3],
        "s.deep is null": [3, 4],
    }
    assert {where: ids(t, where) for where in wanted} == wanted
    with t.update_schema() as update:
        update.rename_column("s.deep.n", "m")
    t.append([{"id": 8, "s": {"region": "eu", "deep": {"ts": None, "m": 8}}}])
    t.dynamic_partition_overwrite([{"id": 50, "s": {"region": "eu", "deep": {"ts": None, "m": 8}}}])
    t.delete("s.region = 'us'")
    t.maintenance.rewrite_data_files("sort", None, AS_A_WHOLE)
    assert ids(t.refresh()) == [0, 1, 3, 4, 6, 7, 50] and ids(t, "s.deep.m >= 7") == [7, 50]


PYICEBERG = """
import json, sys
import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog
catalog = SqlCatalog("r", uri=sys.argv[1], warehouse=sys.argv[2])
catalog.create_namespace("db")
schema = pa.schema([("id", pa.int64()), ("v", pa.string())])
t = catalog.create_table("db.t", schema)
t.append(pa.table({"id": [1, 2], "v": ["a", "b"]}, schema=schema))
t.append(pa.table({"id": [3], "v": ["c"]}, schema=schema))
t.delete("id = 2")
t.delete("id = 3")
"""


def test_deletes_of_pyiceberg_are_changes_of_the_snapshots_that_made_them(
    tmp_path: Path, pyiceberg_check: Any
) -> None:
    uri, warehouse = f"sqlite:///{tmp_path}/c.db", f"file://{tmp_path}/w"
    pyiceberg_check.run(PYICEBERG, uri, warehouse)
    t = frazil.load_catalog("r", type="sql", uri=uri, warehouse=warehouse).load_table("db.t")
    places = {s.snapshot_id: n for n, s in enumerate(t.snapshots())}
    changes = {
        (row["_change_type"], row["id"]): places[row["_commit_snapshot_id"]]
        for row in t.changes().to_arrow().to_pylist()
    }
    assert changes == {
        ("INSERT", 1): 0,
        ("INSERT", 2): 0,
        ("INSERT", 3): 1,
        ("DELETE", 2): 2,
        ("DELETE", 3): 3,
    }
    assert [(r["_change_type"], r["id"]) for r in t.changes(net=True).to_arrow().to_pylist()] == [
        ("INSERT", 1)
    ]
