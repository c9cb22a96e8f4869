"""Compaction by Spark's tasks: the same rows and row ids as in process, in files that tasks wrote,
beside writers.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from frazil.catalog import load_catalog
from frazil.spark.tasks.spark_runner import SparkRunner
from frazil.table import engines
from frazil.tasks.runner import InProcess
from tests.maintain.compacting import (
    ALL,
    LINEAGE,
    STRATEGIES,
    Meanwhile,
    rows,
    rows_of_file,
    table_of,
)

pytestmark = pytest.mark.spark
BY_NAME = pytest.mark.parametrize(
    "how",
    [
        pytest.param(
            h,
            id=str(h.get("sort_order", h["strategy"])),
            marks=pytest.mark.versions if n == 1 else (),
        )
        for n, h in enumerate(STRATEGIES)
    ],
)


@BY_NAME
def test_tasks_of_spark_rewrite_files(
    plain_spark: Any, tmp_path: Path, how: dict[str, Any]
) -> None:
    catalog = load_catalog("test", type="path", warehouse=str(tmp_path / "wh"))
    catalog.create_namespace("db")
    for version in (1, 2, 3):
        table = table_of(catalog, f"t{version}", version, partition_by=["p"])
        table.delete("id % 10 = 3", runner="in-process")
        before, lineage = rows(table), rows(table, LINEAGE) if version == 3 else []
        done = table.maintenance.rewrite_data_files(**how, options=ALL, spark=plain_spark)
        assert (
            rows(table) == before
            and done.added_data_files_count == 3
            and table.inspect.delete_files().num_rows == 0
        )
        assert table.current_snapshot().summary["engine-name"] == "spark"
        if version == 3:
            assert rows(table, LINEAGE) == lineage
        assert len(table.to_spark(plain_spark).collect()) == len(before)


@BY_NAME
def test_rows_deleted_meanwhile_stay_deleted_on_spark(
    plain_spark: Any, tmp_path: Path, how: dict[str, Any]
) -> None:
    catalog = load_catalog("test", type="path", warehouse=str(tmp_path / "wh"))
    catalog.create_namespace("db")
    table = table_of(catalog, "t", 3)
    other = catalog.load_table("db.t")
    _, runner = engines.of_rows(table.metadata, table._loaded.storage, None, plain_spark)

    def meanwhile() -> None:
        other.delete("id % 9 = 4", runner="in-process")
        other.append(rows_of_file(900, 4))

    held = Meanwhile(meanwhile, runner)
    table.maintenance.rewrite_data_files(**how, options=ALL, runner=held)
    assert (
        held.runs == 1
        and rows(table) == rows(other)
        and rows(table, LINEAGE) == rows(other, LINEAGE)
    )
    assert table.inspect.data_files().num_rows == 2


@pytest.mark.parametrize("how", STRATEGIES[1:], ids=lambda how: how["sort_order"])
def test_a_group_is_sorted_by_many_tasks_as_by_one(
    plain_spark: Any, tmp_path: Path, how: dict[str, Any]
) -> None:
    """Rows pass from tasks that read to tasks that write; their order is that of one task's, equal
    rows in the order of the files among them, and deletes of others find their rows."""
    catalog = load_catalog("test", type="path", warehouse=str(tmp_path / "wh"))
    catalog.create_namespace("db")
    options = {
        **ALL,
        "target-file-size-bytes": 3_000,
        "max-file-size-bytes": 6_000,
        "compression-factor": 0.99,
    }
    orders = []
    for name, kind, inner in (
        ("one", Meanwhile, InProcess(1)),
        ("many", _Exchanging, SparkRunner(plain_spark)),
    ):
        table = table_of(catalog, name, 3, files=5, rows=300)
        table.delete("id % 10 = 3", runner="in-process")
        other = catalog.load_table(f"db.{name}")
        others = partial(other.delete, "id % 9 = 4 OR id % 7 = 1", runner="in-process")
        runner = kind(others, inner)
        done = table.maintenance.rewrite_data_files(**how, options=options, runner=runner)
        assert runner.runs and done.added_data_files_count > 2
        assert rows(table) == rows(other) and rows(table, LINEAGE) == rows(other, LINEAGE)
        numbers = {f: n for n, f in enumerate(table.inspect.data_files()["file_path"].to_pylist())}
        left = table.scan(selected_fields=("_file", "_pos", "id")).to_arrow().to_pylist()
        in_order = sorted((numbers[r["_file"]], r["_pos"], r["id"]) for r in left)
        orders.append([row[-1] for row in in_order])
    assert orders[0] == orders[1]


@dataclass
class _Exchanging(Meanwhile):
    """A runner of Spark's tasks that lets others commit once rows have passed between them."""

    inner: SparkRunner

    @property
    def parallelism(self) -> int:
        return 8  # of which one would have all the work

    def exchange(self, *work: Any) -> list[Any]:
        results = self.inner.exchange(*work)
        self.runs += 1
        self.then()
        return results

    def run(self, work: Any, groups: Any) -> Any:
        return self.inner.run(work, groups)
