"""Locations are stored absolute: a table does not move with the process's current directory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import frazil
from frazil.errors import InvalidInput, ValidationError

ROWS = pa.table({"id": [1, 2]})


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "here").mkdir(), (tmp_path / "there").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "here"


def sql(**more: Any) -> Any:
    catalog = frazil.load_catalog(
        "s", **{"type": "sql", "uri": "sqlite:///catalog.db", "warehouse": "wh", **more}
    )
    catalog.create_namespace_if_not_exists("db")
    return catalog


def read_from_elsewhere(table: Any, here: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The table's location, after a write and a read in another directory."""
    monkeypatch.chdir(here.parent / "there")
    table.append(ROWS)
    assert table.refresh().to_arrow()["id"].to_pylist() == [1, 2]
    assert list(Path().iterdir()) == []
    return str(table.location())


@pytest.mark.parametrize("given", ["./t", "x/t", "file:x/t", "x//./t/"])
@pytest.mark.parametrize("way", ["create", "transaction", "replace"])
def test_a_relative_location_is_stored_absolute(
    here: Path, monkeypatch: pytest.MonkeyPatch, given: str, way: str
) -> None:
    catalog = sql()
    if way == "create":
        table = catalog.create_table("db.t", "id bigint", given)
    else:
        make = (
            catalog.create_table_transaction
            if way == "transaction"
            else catalog.replace_table_transaction
        )
        with make(
            "db.t", "id bigint", given, **({} if way == "transaction" else {"create": True})
        ) as tx:
            tx.set_properties(a="b")
        table = tx.table
    found = read_from_elsewhere(table, here, monkeypatch)
    assert found.removeprefix("file:") == str(here / ("t" if given == "./t" else "x/t"))
    monkeypatch.chdir(here)
    assert catalog.load_table("db.t").metadata_location.startswith(found)


def test_a_location_in_the_home_directory_is_found_there(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(here))
    assert sql().create_table("db.t", "id bigint", Path("~/t")).location() == f"{here}/t"


@pytest.mark.parametrize("wrong", ["id", "days(ts)", "id bigint", ["id"], 7])
def test_a_location_that_is_no_path_is_refused_with_what_was_meant(here: Path, wrong: Any) -> None:
    catalog = sql()
    for make in (catalog.create_table, catalog.create_table_transaction):
        with pytest.raises(InvalidInput, match=r"location.* third argument.*partition_by="):
            make("db.q", "id bigint", wrong)
    with pytest.raises(InvalidInput, match="is not a path"):
        catalog.create_table("db.t", "id bigint").transaction().update_location("id")
    assert not catalog.table_exists("db.q") and not (here / "id").exists()


@pytest.mark.parametrize("kind", ["sql", "path"])
@pytest.mark.parametrize("warehouse", ["wh", "./wh", "file:wh"])
def test_a_relative_warehouse_stays_where_it_was_when_the_catalog_was_loaded(
    here: Path, monkeypatch: pytest.MonkeyPatch, kind: str, warehouse: str
) -> None:
    if kind == "sql":
        catalog = sql(warehouse=warehouse)
    else:
        catalog = frazil.load_catalog("p", type="path", warehouse=warehouse)
    table = catalog.create_table("db.t", "id bigint")
    assert read_from_elsewhere(table, here, monkeypatch).removeprefix("file:") == f"{here}/wh/db/t"
    assert catalog.load_table("db.t").to_arrow().num_rows == 2
    assert (
        catalog.create_table("db.u", "id bigint").location().removeprefix("file:")
        == f"{here}/wh/db/u"
    )


def test_all_other_places_are_stored_absolute_or_refused(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog = sql()
    catalog.create_namespace("ns", {"location": "./spaces/ns"})
    assert catalog.load_namespace_properties("ns")["location"] == f"{here}/spaces/ns"
    catalog.update_namespace_properties("ns", updates={"location": "spaces/other"})
    assert catalog.create_table("ns.t", "id bigint").location() == f"{here}/spaces/other/t"
    with pytest.raises(InvalidInput, match="property location of a namespace"):
        catalog.create_namespace("word", {"location": "word"})
    table = catalog.create_table("db.t", "id bigint")
    for key in ("write.data.path", "write.metadata.path"):
        for relative in ("data", "./data", "file:data"):
            with pytest.raises(ValidationError, match=f"{key} must be an absolute location"):
                table.transaction().set_properties({key: relative})
    with table.transaction() as tx:
        tx.update_location("moved/t")
    assert table.refresh().location() == f"{here}/moved/t"
    table.append(ROWS)
    kept = str(table.metadata_location)
    monkeypatch.chdir(Path(kept).parent)
    catalog.register_table("db.again", Path(kept).name)
    monkeypatch.chdir(here)
    assert catalog.load_table("db.again").metadata_location == kept
    opened = frazil.load_table(str(Path(kept).relative_to(here)))
    monkeypatch.chdir(here.parent / "there")
    assert opened.to_arrow().num_rows == catalog.load_table("db.again").to_arrow().num_rows == 2


def test_paths_of_statistics_are_stored_absolute(here: Path) -> None:
    table = sql().create_table("db.t", "id bigint")
    table.append(ROWS)
    number = table.current_snapshot().snapshot_id
    given = {
        "snapshot-id": number,
        "statistics-path": "stats/s.puffin",
        "file-size-in-bytes": 9,
        "file-footer-size-in-bytes": 4,
        "blob-metadata": [],
    }
    with table.transaction() as tx, tx.update_statistics() as update:
        update.set_statistics(given)
    assert [s["statistics-path"] for s in table.refresh().metadata.statistics] == [
        f"{here}/stats/s.puffin"
    ]
