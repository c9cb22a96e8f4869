"""Tables whose Parquet files DuckDB and polars read themselves, tables whose files they would
misread, and what a filter of theirs skips.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from polars.testing import assert_frame_equal

import frazil
from frazil.catalog import Catalog
from frazil.ops.reading import RowsReading
from frazil.scan.plan import Plan
from frazil.table.frames.plain_files import condition_of
from frazil.table.scan import DataScan
from frazil.table.table import Table

ROWS = pa.table(
    {"id": [1, 2, 3], "day": [dt.date(2024, 1, d) for d in (1, 2, 3)], "s": ["a", None, "it's"]}
)


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    return frazil.load_catalog("plain", type="path", warehouse=str(tmp_path / "wh"))


@pytest.fixture
def t(catalog: Catalog) -> Table:
    t = catalog.create_table("db.t", ROWS.schema)
    t.append(ROWS)
    return t


def plan_of(t: Table) -> str:
    return str(t.to_duckdb("rows").execute("EXPLAIN SELECT * FROM rows").fetchall())


NAN = float("nan")


def paths_of(scan: DataScan) -> list[str]:
    files = scan._plain_files()
    return [] if files is None else files.paths


def same_rows(t: Table) -> None:
    same_rows_of_scan(t.scan())
    frame = t.to_polars().collect()
    assert sorted(frame.to_dicts(), key=repr) == sorted(t.to_arrow().to_pylist(), key=repr)
    assert_frame_equal(pl.DataFrame(t), t.scan().to_polars())


def same_rows_of_scan(scan: DataScan) -> None:
    rows = scan.to_duckdb("rows").execute("SELECT * FROM rows").to_arrow_table()
    expected = scan.to_arrow()
    assert sorted(rows.to_pylist(), key=repr) == sorted(expected.to_pylist(), key=repr)
    for frame in (pl.DataFrame(scan), scan.to_polars()):
        assert_frame_equal(frame, pl.DataFrame(expected))  # types, NaN, order of the rows


def test_files_that_hold_the_rows_as_they_are_are_read_by_the_library_itself(t: Table) -> None:
    assert "READ_PARQUET" in plan_of(t) and "READ_PARQUET" in plan_of(t.scan().select("s"))
    assert "Parquet SCAN" in t.to_polars().explain()
    same_rows(t)
    t.append(ROWS)
    assert len(paths_of(t.scan())) == 2
    same_rows(t)


def test_a_table_is_called_in_duckdb_as_in_its_catalog(t: Table) -> None:
    count = "SELECT count(*) FROM t"
    at_location = frazil.load_table(t.location())
    for con in (t.to_duckdb(), t.scan("id = 1").to_duckdb(), at_location.to_duckdb()):
        assert con.execute(count).fetchall() in ([(3,)], [(1,)])


def promoted(t: Table) -> None:
    t.update_schema().add_column("n", "int").commit()
    t.append(ROWS.append_column("n", pa.array([1, 2, 3], pa.int32())))
    t.update_schema().update_column("n", "long").commit()


def dropped_and_added_again(t: Table) -> None:
    t.update_schema().delete_column("s").commit()
    t.update_schema().add_column("s", "string").commit()


def two_that_differ_in_case(t: Table) -> None:
    t.update_schema().add_column("S", "string").commit()
    t.overwrite(ROWS.append_column("S", pa.array(["x", "y", "z"])))


@pytest.mark.parametrize(
    "change",
    [
        lambda t: t.delete("id = 2", mode="merge-on-read"),
        lambda t: t.update_schema().rename_column("s", "text").commit(),
        lambda t: t.update_schema().add_column("new", "string").commit(),
        lambda t: t.update_schema().add_column("list", "array<int>").commit(),
        promoted,
        dropped_and_added_again,
        two_that_differ_in_case,
    ],
    ids=["deletes", "renamed", "added", "nested", "promoted", "again", "case"],
)
def test_files_that_would_be_misread_are_not(t: Table, change: Callable[[Table], object]) -> None:
    change(t)
    t.refresh()
    assert t.scan()._plain_files() is None and "READ_PARQUET" not in plan_of(t)
    if change is not two_that_differ_in_case:  # DuckDB itself takes such names for one
        same_rows(t)


def test_files_with_columns_that_were_dropped_since_are_read(t: Table) -> None:
    t.update_schema().delete_column("s").commit()
    t.append(ROWS.select(["id", "day"]))
    assert len(paths_of(t.refresh().scan())) == 2
    same_rows(t)


def test_row_ids_that_a_file_leaves_open_are_those_that_its_rows_inherit(catalog: Catalog) -> None:
    t = catalog.create_table("db.v3", ROWS.schema, format_version=3)
    t.append(ROWS)
    t.update({"s": "'new'"}, "id = 2", mode="copy-on-write")
    scan = t.refresh().scan().select("id", "_row_id", "_last_updated_sequence_number")
    found = scan.to_duckdb("rows").execute("SELECT * FROM rows ORDER BY id").fetchall()
    assert found == [(1, 0, 1), (2, 1, 2), (3, 2, 1)]


@pytest.mark.parametrize("content", [None, b"junk"], ids=["missing", "damaged"])
def test_a_file_that_cannot_be_read_is_told_by_the_scan(t: Table, content: bytes | None) -> None:
    path = Path(paths_of(t.scan())[0])
    path.unlink() if content is None else path.write_bytes(content)
    con, frame = t.to_duckdb("rows"), t.to_polars()  # nothing is read before
    with pytest.raises(Exception, match=r"no file|not a valid parquet file"):
        con.execute("SELECT * FROM rows").fetchall()
    with pytest.raises(Exception, match=r"no file|not a valid parquet file"):
        frame.collect()


def test_a_comparison_takes_metadata_columns_and_the_rows_that_a_limit_leaves(t: Table) -> None:
    places = t.scan().select("id", "_pos", "_file").to_duckdb("rows")
    assert places.execute("SELECT id FROM rows WHERE _pos >= 2 AND _file > ''").fetchall() == [(3,)]
    two = t.scan(limit=2).to_duckdb("rows")
    assert two.execute("SELECT id FROM rows WHERE id >= 3").fetchall() == []


def test_what_a_folder_is_called_is_no_value(catalog: Catalog) -> None:
    t = catalog.create_table("db.p", ROWS.schema, partition_by=["day"])
    t.append(ROWS)
    assert len(paths_of(t.scan())) == 3
    same_rows(t)


def test_files_of_other_writers_are_read_by_their_types(catalog: Catalog, tmp_path: Path) -> None:
    at = pa.table({"id": [1], "at": pa.array([dt.datetime(2024, 1, 1, tzinfo=dt.UTC)])})
    for int96 in (False, True):
        folder = tmp_path / f"files{int96}"
        folder.mkdir()
        pq.write_table(at, folder / "f.parquet", use_deprecated_int96_timestamps=int96)
        t = catalog.create_table(f"db.at{int96}", at.schema)
        t.maintenance.add_files(f"parquet.`{folder}`")
        assert (t.refresh().scan()._plain_files() is None) == int96
        same_rows(t)


def test_a_scan_with_a_filter_or_a_limit_and_a_connection_without_files_are_served(
    t: Table,
) -> None:
    for scan in (t.scan("id = 2"), t.scan(limit=1)):
        rows = scan.to_duckdb("rows").execute("SELECT count(*) FROM rows").fetchall()
        assert scan._plain_files() is None and rows == [(1,)] and pl.DataFrame(scan).height == 1
    shut = duckdb.connect(config={"enable_external_access": "false"})
    assert t.to_duckdb("rows", shut).execute("SELECT sum(id) FROM rows").fetchall() == [(6,)]


def test_a_connection_that_may_read_no_files_keeps_its_transaction(t: Table) -> None:
    shut = duckdb.connect(config={"enable_external_access": "false"})
    shut.execute("BEGIN")
    assert t.to_duckdb("rows", shut).execute("SELECT sum(id) FROM rows").fetchall() == [(6,)]


def test_files_that_the_library_reads_are_unregistered_as_other_rows_are(t: Table) -> None:
    con = t.to_duckdb("rows")
    con.unregister("rows")
    with pytest.raises(duckdb.Error, match="rows"):
        con.execute("SELECT * FROM rows")


@pytest.fixture
def no_arrow_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> NoReturn:
        raise AssertionError("the rows are read by way of Arrow")

    monkeypatch.setattr(RowsReading, "batches", refused)


@pytest.mark.usefixtures("no_arrow_reads")
def test_polars_reads_the_files_for_a_dataframe_itself(t: Table) -> None:
    for frame in (
        pl.DataFrame(t),
        pl.DataFrame(t, schema_overrides={"id": pl.Int64}),
        t.scan().to_polars(),
    ):
        assert isinstance(frame, pl.DataFrame) and frame.to_dicts() == ROWS.to_pylist()
    assert pl.DataFrame(t.scan("id >= 2", selected_fields=("s",)))["s"].to_list() == [None, "it's"]
    for other in (pa.table, pl.Series, lambda t: pl.scan_arrow_c_stream(t).collect()):
        with pytest.raises(Exception, match="by way of Arrow"):
            other(t)


def test_a_polars_that_makes_frames_in_another_way_gets_the_same_rows(
    t: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame = pl.DataFrame(t)
    monkeypatch.setattr("frazil.table.scan.polars_makes_a_frame", lambda: False)
    assert_frame_equal(pl.DataFrame(t), frame)


ORDERED = pa.table(
    {
        "i": pa.array([1, None, 3, 2**31 - 1, -1], pa.int32()),
        "l": [2**62, -(2**62), None, 0, 5],
        "d": pa.array([0, 19000, None, -1, 30000], pa.date32()),
        "ts": pa.array([0, -1, 1_700_000_000_000_001, None, 2**60], pa.timestamp("us")),
        "tz": pa.array([0, -1, 1_700_000_000_000_001, None, 2**60], pa.timestamp("us", "UTC")),
        "s": ["a", "", None, "é\U0001f600", "z"],
        "f": [1.0, NAN, None, -0.0, 9.0],
        "b": [True, None, False, True, False],
    }
)


@pytest.mark.parametrize(
    ("where", "by_polars"),
    [
        ("i >= 3", True), ("i = -1 OR i = 1", False), ("i <> 1", False), ("l < 0", True), ("l BETWEEN 0 AND 5", True), ("i < 3000000000", False),
        ("d = DATE '2022-01-08'", True), ("d > '1970-01-01'", True), ("ts <= TIMESTAMP_NTZ '2023-11-14 22:13:20.000001'", True),
        ("tz > TIMESTAMP '2023-11-14T22:13:20Z'", True), ("tz < '1970-01-01T00:00:00+01:00'", True), ("s > 'z'", True), ("s = ''", True),
        ("s IS NULL", True), ("f IS NOT NULL AND i > 0", True), ("f > 5", False), ("f = -0.0", False), ("b", False), ("i <=> NULL", True),
        ("i IN (1, 3)", False), ("s LIKE 'a%'", False), ("i = l", False), ("i > 100 AND s IS NOT NULL", True),
        ("NOT i > 1", False), ("l > 2 AND tz IS NULL", True), ("i > 3 AND i < 3", True), ("upper(s) = 'A'", False),
    ],
)  # fmt: skip
def test_filters_that_mean_the_same_in_polars_are_its_own(
    catalog: Catalog, where: str, by_polars: bool
) -> None:
    t = catalog.create_table("db.o", ORDERED.schema)
    t.append(ORDERED.slice(0, 3))
    t.append(ORDERED.slice(3))
    for columns in (("*",), ("b",), ("l", "i")):
        scan = t.refresh().scan(where, selected_fields=columns)
        expected = pl.DataFrame(scan.to_arrow())
        rows = scan._read_for_polars()
        assert isinstance(rows, pl.DataFrame) == (by_polars and len(scan.plan()) > 0)
        assert_frame_equal(pl.DataFrame(scan), expected)
        assert_frame_equal(scan.to_polars(), expected)


def test_old_snapshots_branches_and_files_of_several_specs_are_read_as_they_are(
    catalog: Catalog,
) -> None:
    t = catalog.create_table("db.e", ROWS.schema)
    t.append(ROWS)
    first = t.refresh().current_snapshot()
    t.update_spec().add_field("day").commit()
    t.append(ROWS)
    t.update_schema().add_column("n", "int").commit()
    t.append(ROWS.append_column("n", pa.array([1, 2, 3], pa.int32())))
    assert first is not None
    t.manage_snapshots().create_branch(first.snapshot_id, "old").commit()
    t.refresh()
    assert pl.DataFrame(t).height == 9
    for scan in (
        t.scan(snapshot_id=first.snapshot_id), t.scan(branch="old"), t.scan("id > 1"), t.scan("n > 1"), t.scan("n IS NULL", selected_fields=("id",)),
        t.scan(selected_fields=("s", "id")), t.scan("day = '2024-01-02' AND id = 2", selected_fields=("s",)),
        t.scan(selected_fields=("id", "_file")), t.scan("id > 5"),
    ):  # fmt: skip
        same_rows_of_scan(scan)
    no_columns = t.scan(selected_fields=())
    assert_frame_equal(pl.DataFrame(no_columns), pl.DataFrame(no_columns.to_arrow()))


def test_a_name_that_polars_takes_for_a_pattern_is_a_name(catalog: Catalog) -> None:
    for names in (["^.*$", "b"], ["*", "b"], ["*"]):
        rows = pa.table({n: [i, 7] for i, n in enumerate(names)})
        t = catalog.create_table(f"db.t{len(names)}{len(names[0])}", rows.schema)
        t.append(rows)
        assert pl.DataFrame(t.refresh()).to_dicts() == t.to_polars().collect().to_dicts()
        assert pl.DataFrame(t.scan(f"`{names[0]}` = 7")).to_dicts() == [dict.fromkeys(names, 7)]


def test_rows_that_cannot_be_decoded_are_told_by_the_scan(t: Table) -> None:
    path = Path(paths_of(t.scan())[0])
    content = bytearray(path.read_bytes())
    content[4:40] = bytes(36)
    path.write_bytes(content)
    for read in (lambda: pl.DataFrame(t), t.scan().to_polars):
        with pytest.raises(Exception, match=path.name):
            read()


@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
def test_a_read_by_polars_is_planned_once(
    t: Table, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    t.delete("id = 2", mode=mode)
    plans: list[Plan] = []
    monkeypatch.setattr("frazil.ops.reading.note_plan", lambda plan, *_: plans.append(plan))
    assert pl.DataFrame(t.refresh()).height == t.scan().to_polars().height == len(plans) == 2


@pytest.mark.parametrize(
    ("query", "ids"),
    [
        ("SELECT id FROM rows WHERE {0} > 5 ORDER BY id", [2, 3, 5]),
        ("SELECT id FROM rows WHERE {0} = 'nan' ORDER BY id", [2, 5]),
        ("SELECT id FROM rows WHERE NOT {0} < 3 ORDER BY id", [2, 3, 5]),
        ("SELECT id FROM rows WHERE isnan({0}) ORDER BY id", [2, 5]),
        ("SELECT id FROM rows WHERE {0} IN ('nan', 9) ORDER BY id", [2, 3, 5]),
        ("SELECT id FROM rows ORDER BY {0} DESC NULLS LAST, id LIMIT 2", [2, 5]),
        ("SELECT id FROM rows JOIN (VALUES ('nan'::DOUBLE)) AS v(n) ON {0} = n ORDER BY id", [2, 5]),
        ("SELECT count(*) FROM rows WHERE {0} = (SELECT max({0}) FROM rows)", [2]),
        ("SELECT id FROM rows WHERE {0} <= 0 ORDER BY id", [4]),
    ],
)  # fmt: skip
@pytest.mark.parametrize("column", ["f", "g"])
def test_nan_is_above_all_numbers_as_duckdb_has_it(
    catalog: Catalog, column: str, query: str, ids: list[int]
) -> None:
    values = [1.0, NAN, 9.0, -0.0, NAN, None]
    rows = pa.table({"id": range(1, 7), "f": values, "g": pa.array(values, pa.float32())})
    t = catalog.create_table("db.f", rows.schema)
    for first, count in ((0, 2), (2, 1), (3, 3)):
        t.append(rows.slice(first, count))
    con = t.refresh().to_duckdb("rows")
    assert "READ_PARQUET" in plan_of(t)
    assert [row[0] for row in con.execute(query.format(column)).fetchall()] == ids
    assert str(con.execute(f"SELECT min({column}) FROM rows WHERE id = 4").fetchone()) == "(-0.0,)"


def test_a_column_that_is_called_as_a_number_is_none(catalog: Catalog) -> None:
    schema = pa.schema({"n": pa.int64(), "2024": pa.int64()})
    assert condition_of("(n > 2024)", schema) is None and condition_of("(n > 2025)", schema)


SCHEMA = pa.schema(
    {
        "i": pa.int32(),
        "s": pa.string(),
        "d": pa.date32(),
        "ts": pa.timestamp("us"),
        "tz": pa.timestamp("us", "UTC"),
        "f": pa.float64(),
    }
)


@pytest.mark.parametrize(
    ("shown", "sql"),
    [
        ("(i == -1)", "`i` = -1"),
        ("((i > 1) and (s <= \"a b\"))", "`i` > 1 AND `s` <= 'a b'"),
        ("(is_valid(i) and (d >= 2024-01-01))", "`d` >= DATE '2024-01-01'"),
        ("(tz < 2024-01-01 00:00:00.500000Z)", "`tz` < TIMESTAMP '2024-01-01 00:00:00.500000Z'"),
        ("(ts < 2024-01-01 00:00:00.500000)", "`ts` < TIMESTAMP_NTZ '2024-01-01 00:00:00.500000'"),
    ],
)  # fmt: skip
def test_comparisons_that_pyarrow_shows_are_read(shown: str, sql: str) -> None:
    assert condition_of(shown, SCHEMA) == sql


@pytest.mark.parametrize(
    "shown",
    [
        "", "((i == 1) or (i == 2))", "invert((i == 1))", "(f > 1)", "(i > 1.5)", '(s == "it\'s")', '(s == "a\\"b")', '(s == "(i == 1) and ")',
        "is_in(i, {value_set=int32:[\n  1\n]})", "(cast(i, {to_type=int64}) == 1)", "(i == 1970-01-01)", "(other == 1)", "(i < s)", "is_valid(i)",
        "if_else((i == 1), true, false)", "(tz < 2024-01-01 00:00:00.000000)",
    ],
)  # fmt: skip
def test_other_filters_skip_no_file(shown: str) -> None:
    assert condition_of(shown, SCHEMA) is None


def test_a_filter_of_duckdb_skips_files_of_a_table_with_deletes(catalog: Catalog) -> None:
    t = catalog.create_table("db.f", ROWS.schema, properties={"format-version": "2"})
    for i in range(3):
        t.append(ROWS.slice(i, 1))
    t.append(pa.table({"id": [9, 10], "day": [dt.date(2024, 2, 1)] * 2, "s": ["x", "y"]}))
    t.delete("id = 9", mode="merge-on-read")
    gone = t.scan("id = 3").plan_files()[0].file.file_path.removeprefix("file://")
    Path(gone).unlink()
    con = t.refresh().to_duckdb("rows")
    for where, count in (
        ("id <= 2", 2),
        ("day = '2024-02-01'", 1),
        ("s = 'x'", 0),
        ("id = 1 AND s IS NOT NULL", 1),
    ):
        assert con.execute(f"SELECT count(*) FROM rows WHERE {where}").fetchall() == [(count,)]
    assert pl.from_arrow(con.execute("SELECT id FROM rows WHERE id > 9").to_arrow_table())[
        "id"
    ].to_list() == [10]
