"""Compaction by Spark's tasks: the same rows and row ids as in process, in files that tasks wrote,
beside writers.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from frazil.catalog import load_catalog
from frazil.table import engines
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
