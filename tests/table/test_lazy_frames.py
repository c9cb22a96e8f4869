"""A table as polars' LazyFrame and in DataFusion: read when it is asked for, the columns that are
needed, the same rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import datafusion
import polars as pl
import pyarrow as pa
import pytest

import frazil
from frazil.table.scan import DataScan
from frazil.table.table import Table

NAN = float("nan")
ROWS = pa.table(
    {"x": [1, 2, 3, 4], "d": [1.0, NAN, None, -0.0], 'odd "na.me': pa.array([1.0, NAN, None, 4.0], pa.float32()),
     "s": [{"d": 1.0}, {"d": NAN}, None, {"d": None}], "t": ["a", None, "c", "d"]}
)  # fmt: skip


@pytest.fixture
def table() -> Iterator[Table]:
    with frazil.load_catalog("lazy", type="memory") as catalog:
        catalog.create_namespace("d")
        made = catalog.create_table("d.t", ROWS.schema)
        made.append(ROWS.slice(0, 2))
        made.append(ROWS.slice(2))
        yield made


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[tuple[tuple[str, ...], int | None]]:
    """(columns, limit) of each read that was begun."""
    seen: list[tuple[tuple[str, ...], int | None]] = []
    real = DataScan.to_arrow_batch_reader

    def noted(self: DataScan) -> pa.RecordBatchReader:
        seen.append((self.selected_fields, self.limit))
        return real(self)

    monkeypatch.setattr(DataScan, "to_arrow_batch_reader", noted)
    return seen


def xs(frame: pl.DataFrame) -> list[int]:
    return sorted(frame["x"].to_list())


def test_a_lazy_frame_reads_late_and_only_what_it_needs(table: Table, reads: list[Any]) -> None:
    frame = table.to_polars()
    assert (
        isinstance(frame, pl.LazyFrame) and frame.collect_schema()["x"] == pl.Int64 and reads == []
    )
    assert xs(frame.select("x").collect()) == [1, 2, 3, 4] and reads.pop() == (("x",), None)
    assert xs(frame.filter(pl.col("t") == "c").select("x").collect()) == [3] and reads.pop() == (
        ("x", "t"),
        None,
    )
    assert frame.select("x").head(1).collect().height == 1 and reads.pop() == (("x",), 1)
    assert frame.select(pl.len()).collect().item() == 4 and reads.pop()[0] == ("x",)


def test_a_lazy_frame_gives_the_rows_that_a_scan_gives(table: Table) -> None:
    wanted = table.scan().to_polars()
    assert isinstance(wanted, pl.DataFrame) and table.to_polars().sort("x").collect().equals(
        wanted.sort("x")
    )
    assert xs(table.to_polars().filter(pl.col("d") > 0.5).collect()) == [1, 2]
    assert table.to_polars().filter(pl.col("x") > 1).head(2).collect().height == 2


def test_a_lazy_frame_keeps_the_state_of_the_table_that_it_was_made_from(table: Table) -> None:
    before = table.to_polars()
    table.delete("x > 1")
    assert xs(before.collect()) == [1, 2, 3, 4] and xs(table.to_polars().collect()) == [1]
    table.delete("x = 1")
    assert (
        table.to_polars().collect().height == 0
        and table.to_polars().collect().columns == ROWS.column_names
    )


QUERIES = [
    "x > 2", "t is null", "t like 'c%' or x = 1", "d > 0.5", "d = 0", "not (d > 0.5)", "d = 'nan'::double", "d in (0.0, 1.0)", "d >= 0 and x < 3",
    "\"odd \"\"na.me\" > 0.5", "s['d'] > 0.5", "isnan(d)", "d is null",
]  # fmt: skip


@pytest.mark.parametrize("where", QUERIES)
def test_datafusion_finds_the_rows_that_it_finds_in_memory(table: Table, where: str) -> None:
    context = datafusion.SessionContext()
    context.register_table("ours", table)
    context.register_record_batches("memory", [ROWS.to_batches()])
    ours, memory = (
        sorted(
            r["x"]
            for r in context.sql(f"select x from {name} where {where}").to_arrow_table().to_pylist()
        )
        for name in ("ours", "memory")
    )
    assert ours == memory != []


def test_datafusion_reads_late_and_only_the_columns_of_the_query(
    table: Table, reads: list[Any]
) -> None:
    context = datafusion.SessionContext()
    context.register_table("ours", table)
    assert reads == []
    assert context.sql("select max(x) from ours").to_arrow_table().column(0).to_pylist() == [
        4
    ] and reads.pop()[0] == ("x",)
    assert context.sql("select count(*) from ours").to_arrow_table().column(0).to_pylist() == [4]
    found = context.sql("select * from ours order by x").to_arrow_table()
    assert (
        found.column_names == ROWS.column_names
        and found.schema.field('odd "na.me').type == pa.float32()
    )
    assert str(found.to_pylist()) == str(ROWS.to_pylist())


def test_a_table_in_datafusion_keeps_the_state_that_was_registered(table: Table) -> None:
    context = datafusion.SessionContext()
    context.register_table("ours", table)
    table.delete("x > 1")
    assert context.sql("select count(*) from ours").to_arrow_table().column(0).to_pylist() == [4]
