"""Pickled tables and catalogs: opened anew by name, without the secrets of the process that pickled
them.
"""

from __future__ import annotations

import pickle
from pathlib import Path

import pyarrow as pa
import pytest

import frazil
from frazil.catalog.hive import HiveCatalog
from frazil.catalog.memory import InMemoryCatalog
from frazil.catalog.rest import RestCatalog
from frazil.catalog.sql import SqlCatalog
from frazil.errors import InvalidInput, Unsupported
from frazil.table import Table

ROWS = pa.table({"x": [1, 2]})


def copied(table: Table) -> Table:
    return pickle.loads(pickle.dumps(table))


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Table:
    monkeypatch.chdir(tmp_path)
    catalog = SqlCatalog("p", uri="sqlite:///c.db", warehouse="w")
    catalog.create_namespace("d")
    made = catalog.create_table("d.t", ROWS.schema)
    made.append(ROWS)
    return made


def test_a_copy_is_the_table_in_its_newest_state_and_can_write(
    table: Table, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    text = pickle.dumps(table)
    table.append(ROWS)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    copy = pickle.loads(text)
    assert copy.count() == 4 and copy == table
    copy.append(table)
    assert table.refresh().count() == 8


def test_tables_of_each_place_are_found_again(table: Table, tmp_path: Path) -> None:
    path = frazil.load_catalog("q", type="path", warehouse=str(tmp_path / "q"))
    path.create_namespace("d")
    by_path = path.create_table("d.t", ROWS.schema)
    by_path.append(ROWS)
    for other in (
        by_path,
        frazil.load_table(str(tmp_path / "q/d/t")),
        frazil.load_table(table.metadata_location),
    ):
        assert copied(other).count() == 2 and copied(other).name() == other.name()
    read_only = frazil.StaticTable.from_metadata(table.metadata_location)
    assert isinstance(copied(read_only), frazil.StaticTable) and copied(read_only).count() == 2


def test_a_table_in_memory_is_refused_since_its_copy_would_be_empty() -> None:
    catalog = InMemoryCatalog()
    catalog.create_namespace("d")
    with pytest.raises(Unsupported, match=r"memory of this process.*to_arrow"):
        pickle.dumps(catalog.create_table("d.t", ROWS.schema))


def test_secrets_stay_in_the_process_that_has_them(table: Table, tmp_path: Path) -> None:
    secrets = {
        "s3.secret-access-key": "sesame-1",
        "s3.session-token": "sesame-2",
        "adls.sas-token.a": "sesame-3",
    }
    catalog = SqlCatalog(
        "p", uri=f"sqlite:///{tmp_path}/c.db", warehouse=str(tmp_path / "w"), **secrets
    )
    text = pickle.dumps(
        (catalog, catalog.load_table("d.t"), frazil.load_table(table.metadata_location, **secrets))
    )
    assert b"sesame" not in text and b"c.db" in text
    remote = RestCatalog("r", uri="http://127.0.0.1:1", token="sesame")
    assert b"sesame" not in pickle.dumps(remote)


def test_a_class_makes_a_catalog_of_its_type_and_refuses_another(tmp_path: Path) -> None:
    catalog = SqlCatalog("s", uri=f"sqlite:///{tmp_path}/s.db", warehouse=str(tmp_path))
    assert isinstance(catalog, frazil.Catalog) and repr(catalog) == "SqlCatalog(s, sql)" == repr(
        pickle.loads(pickle.dumps(catalog))
    )
    assert repr(HiveCatalog("h", uri="thrift://127.0.0.1:1")) == "HiveCatalog(h, hive)"
    with pytest.raises(
        InvalidInput, match=r"SqlCatalog is a catalog of type sql, not rest.*load_catalog"
    ):
        SqlCatalog("s", type="rest", uri="http://127.0.0.1:1")
    with pytest.raises(InvalidInput, match="uri"):
        SqlCatalog("s")
