"""What an insert replaces, by the ways in which Spark's writers and statements ask for it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

import frazil
from frazil.catalog import Catalog
from frazil.errors import InvalidInput, NoSuchRefError
from frazil.ops.insert import insertion, overwrite_mode
from frazil.sql import results
from frazil.sql.catalog_calls import CatalogCalls, create_as
from frazil.table.table import Table

ROWS = pa.table({"id": [1, 2, 3], "s": ["a", "b", "c"]})
NONE = ROWS.slice(0, 0)
DYNAMIC = {"overwrite-mode": "dynamic"}


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    catalog = frazil.load_catalog("lake", type="path", warehouse=str(tmp_path / "wh"))
    catalog.create_table("db.t", ROWS.schema).append(ROWS)
    return catalog


@pytest.fixture
def t(catalog: Catalog) -> Table:
    table: Table = catalog.load_table("db.t")
    return table


@pytest.fixture
def served(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> CatalogCalls:
    monkeypatch.setattr(results, "note", lambda spark, result: None)
    spark: Any = SimpleNamespace()
    return CatalogCalls("lake", lambda: catalog, spark)


def test_an_overwrite_of_partitions_by_no_rows_changes_nothing(t: Table) -> None:
    t._run_write(insertion(NONE, dynamic=True))
    t._run_write(insertion(NONE, "true", options=DYNAMIC))
    assert t.refresh().count() == 3
    t._run_write(insertion(ROWS.slice(0, 1), dynamic=True))
    assert t.refresh().count() == 1


def test_an_overwrite_of_some_rows_is_not_one_of_partitions(t: Table, served: CatalogCalls) -> None:
    with pytest.raises(InvalidInput, match="takes no filter"):
        t._run_write(insertion(ROWS, "id = 1", options=DYNAMIC))
    with pytest.raises(InvalidInput, match="takes no filter"):
        served.insert(("db", "t"), insertion(ROWS, "id = 1", options=DYNAMIC), None)
    assert t.refresh().count() == 3


def test_a_statement_replaces_a_table_without_partitions_by_no_rows(
    t: Table, served: CatalogCalls
) -> None:
    served.insert(("db", "t"), insertion(NONE, dynamic=True), None)
    assert t.refresh().count() == 0


def test_an_insert_with_the_option_of_overwrites_replaces_nothing(
    t: Table, served: CatalogCalls
) -> None:
    """An INSERT INTO … WITH ('overwrite-mode' = 'dynamic'), and such an append of a writer."""
    for mode in ("static", "dynamic"):
        with pytest.raises(InvalidInput, match="'overwrite-mode' means nothing to append"):
            served.insert(("db", "t"), insertion(ROWS, options={"overwrite-mode": mode}), None)
    assert t.refresh().count() == 3
    served.insert(("db", "t"), insertion(ROWS.slice(0, 1), "true", options=DYNAMIC), None)
    assert t.refresh().count() == 1


def test_a_statement_writes_to_the_branch_of_its_options(t: Table, served: CatalogCalls) -> None:
    for options, branch in (({"branch": "audit"}, None), ({}, "audit")):
        with pytest.raises(NoSuchRefError, match="does not exist"):
            served.insert(("db", "t"), insertion(ROWS, options=options), branch)
    t.manage_snapshots().create_branch(t.current_snapshot().snapshot_id, "audit").commit()
    served.insert(("db", "t"), insertion(ROWS, options={"branch": "audit"}), None)
    assert t.refresh().count() == 3 and t.scan(branch="audit").count() == 6
    served.insert(("db", "t"), insertion(ROWS), "audit")
    assert t.refresh().count() == 3 and t.scan(branch="audit").count() == 9
    with pytest.raises(InvalidInput, match="says branch 'audit', the option branch 'v2'"):
        served.insert(("db", "t"), insertion(ROWS, options={"branch": "v2"}), "audit")


def test_the_mode_of_an_overwrite_is_checked_as_the_write_option_that_it_is(t: Table) -> None:
    def refusal(options: dict[str, Any], take: Any) -> str:
        with pytest.raises(InvalidInput) as refused:
            take(options)
        return str(refused.value)

    twice = {"overwrite-mode": "dynamic", "overwrite_mode": "static"}
    for options in ({"overwrite-mode": "some"}, twice):
        of_write = refusal(options, lambda given: t.overwrite(ROWS, **given))
        assert refusal(options, overwrite_mode) in of_write
    assert overwrite_mode({"Overwrite_Mode": "DYNAMIC", "branch": "b"}) == "dynamic"


def test_a_table_that_is_replaced_is_overwritten(catalog: Catalog, served: CatalogCalls) -> None:
    """As Spark writes REPLACE TABLE AS SELECT, so that Java Iceberg records it."""
    operations = []
    for rows in (ROWS, NONE):
        for replace, create in ((False, True), (True, False), (True, True)):
            with create_as(
                catalog,
                ("db", "t" if replace else f"new{rows.num_rows}"),
                ROWS.schema,
                replace=replace,
                create=create,
            ) as tx:
                tx._run_write(insertion(rows, "true" if replace else None))
            snapshot = tx.table.current_snapshot()
            operations.append(snapshot.summary.operation.value)
            assert snapshot.parent_snapshot_id is None and tx.table.count() == rows.num_rows
    assert operations == ["append", *["overwrite"] * 2, "append", *["delete"] * 2]
