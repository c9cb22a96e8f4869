"""Tables and scans as Arrow streams: pyarrow, polars and DuckDB take them as they are, and read
what they need, when they need it.
"""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import polars as pl
import pyarrow as pa
import pytest

import frazil
from frazil.table import Table
from frazil.table.scan import DataScan
from tests import golden as golden_tables

ROWS = pa.table({"x": [1, 2, 3], "d": [1.0, float("nan"), None], "s": ["a", None, "b"]})


@pytest.fixture
def table() -> Iterator[Table]:
    with frazil.load_catalog("stream", type="memory") as catalog:
        catalog.create_namespace("d")
        made = catalog.create_table("d.t", ROWS.schema)
        made.append(ROWS)
        yield made


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """The columns of each read that was begun."""
    seen: list[tuple[str, ...]] = []
    real = DataScan.to_arrow_batch_reader

    def noted(self: DataScan) -> pa.RecordBatchReader:
        seen.append(self.selected_fields)
        return real(self)

    monkeypatch.setattr(DataScan, "to_arrow_batch_reader", noted)
    return seen


def test_pyarrow_and_polars_take_tables_scans_and_changelogs(table: Table) -> None:
    assert (
        str(pa.table(table)) == str(table.to_arrow())
        and pa.schema(table) == table.to_arrow().schema
    )
    assert pl.DataFrame(table).shape == (3, 3) and pl.DataFrame(table.scan("x > 1"))[
        "x"
    ].to_list() == [2, 3]
    assert pa.table(table.changes()).column("_change_type").to_pylist() == ["INSERT"] * 3
    wanted = pa.schema({"x": pa.int64(), "d": pa.float64(), "s": pa.large_string()})
    assert pa.table(table, schema=wanted).schema == wanted


def test_the_schema_is_told_without_a_read_and_rows_are_read_when_they_are_asked_for(
    table: Table, reads: list[tuple[str, ...]]
) -> None:
    assert pa.schema(table.scan(selected_fields=("s", "_file"))).names == ["s", "_file"]
    reader = pa.RecordBatchReader.from_stream(table)
    assert reads == []
    assert reader.read_next_batch().num_rows == 3 and reads == [("*",)]


def test_a_table_is_a_frame_that_another_table_takes(table: Table) -> None:
    table.append(table.scan("x = 2"))
    assert sorted(table.to_arrow()["x"].to_pylist()) == [1, 2, 2, 3]


def test_duckdb_finds_tables_and_scans_by_the_name_of_a_variable(table: Table) -> None:
    everything, few = table, table.scan("x > 1", selected_fields=("x",))
    joined = "SELECT x, s FROM everything JOIN few USING (x) ORDER BY 1"
    assert duckdb.sql(joined).fetchall() == [(2, None), (3, "b")] == duckdb.sql(joined).fetchall()
    assert everything is table and few.count() == 2


def test_duckdb_reads_the_columns_of_a_query_and_orders_nan_as_it_does(
    table: Table, reads: list[tuple[str, ...]]
) -> None:
    connection = table.to_duckdb("t")
    assert reads == []
    assert connection.sql("SELECT x FROM t WHERE d > 5").fetchall() == [(2,)] and reads == [
        ("x", "d")
    ]
    assert connection.sql("SELECT count(*) FROM t").fetchall() == [(3,)] and reads[-1] == ("x",)
    table.changes().to_duckdb("c", connection)
    assert connection.sql("SELECT x, _change_type FROM c WHERE x = 3").fetchall() == [(3, "INSERT")]


@pytest.mark.parametrize("name", golden_tables.names())
def test_streams_of_golden_tables_give_the_rows_of_their_reads(
    golden: golden_tables.Golden, name: str
) -> None:
    table = frazil.load_table(golden[name].metadata_file)
    assert pa.table(table).schema == pa.schema(table) == table.to_arrow().schema
    assert pa.table(table).num_rows == table.count()
