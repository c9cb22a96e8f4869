"""Tables whose Parquet files DuckDB and polars read themselves, tables whose files they would
misread, and what a filter of theirs skips.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from pathlib import Path

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import frazil
from frazil.catalog import Catalog
from frazil.table.frames.plain_files import condition_of
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


def same_rows(t: Table) -> None:
    def in_order(rows: list[dict[str, object]]) -> list[dict[str, object]]:
        return sorted(rows, key=repr)

    expected = in_order(t.to_arrow().to_pylist())
    rows = t.to_duckdb("rows").execute("SELECT * FROM rows").to_arrow_table()
    assert in_order(rows.to_pylist()) == expected
    assert in_order(t.to_polars().collect().to_dicts()) == expected


def test_files_that_hold_the_rows_as_they_are_are_read_by_the_library_itself(t: Table) -> None:
    assert "READ_PARQUET" in plan_of(t) and "READ_PARQUET" in plan_of(t.scan().select("s"))
    assert "Parquet SCAN" in t.to_polars().explain()
    same_rows(t)
    t.append(ROWS)
    assert len(t.scan()._plain_files() or ()) == 2
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
    assert len(t.refresh().scan()._plain_files() or ()) == 2
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
    path = Path((t.scan()._plain_files() or [""])[0])
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
    assert len(t.scan()._plain_files() or ()) == 3
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
        assert scan._plain_files() is None and rows == [(1,)]
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


def test_nan_is_above_all_numbers_as_duckdb_has_it(catalog: Catalog) -> None:
    rows = pa.table({"id": [1, 2, 3], "f": [1.0, float("nan"), 9.0]})
    t = catalog.create_table("db.f", rows.schema)
    t.append(rows.slice(2))
    assert t.refresh().scan()._plain_files() is not None
    t.append(rows.slice(0, 2))
    con = t.refresh().to_duckdb("rows")
    assert con.execute("SELECT id FROM rows WHERE f > 5 ORDER BY id").fetchall() == [(2,), (3,)]


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
