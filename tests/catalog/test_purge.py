"""Purging deletes the files in the table's own directories, and lists the others."""

from __future__ import annotations

import logging
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from frazil.catalog.own_files import named_places
from frazil.errors import ValidationException
from tests.builders.catalogs import catalog_of
from tests.catalog.conftest import new_metadata

pytestmark = pytest.mark.disk


@pytest.mark.parametrize("kind", ["sql", "path"])
def test_files_outside_the_tables_places_stay_and_are_listed(
    kind: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    catalog = catalog_of(kind, tmp_path)
    declared, outside = tmp_path / "declared", tmp_path / "raw/x.parquet"
    outside.parent.mkdir()
    pq.write_table(pa.table({"id": [1, 2]}), outside)
    other = catalog.create_table("db.other", "id bigint")
    other.append(pa.table({"id": [9]}))
    (theirs,) = [task.file.file_path for task in other.scan().plan_files()]
    table = catalog.create_table(
        "db.t", "id bigint", properties={"write.data.path": f"file:{declared}"}
    )
    table.append(pa.table({"id": [5]}))
    table.add_files([str(outside), theirs])
    assert len(list(declared.rglob("*.parquet"))) == 1
    with caplog.at_level(logging.WARNING, "frazil.catalog"):
        left = catalog.purge_table("db.t")
    assert sorted(left) == sorted([str(outside), theirs])
    assert "leaves 2 files" in caplog.text and str(outside) in caplog.text
    assert not catalog.table_exists("db.t") and outside.exists()
    assert other.to_arrow()["id"].to_pylist() == [9], "a file of another table is the other table's"
    assert list(declared.rglob("*.parquet")) == [] == list((tmp_path / "wh/db/t").rglob("*.*"))


@pytest.mark.parametrize("through", [True, False])
def test_files_outside_that_a_link_of_the_table_leads_to_stay(
    through: bool, tmp_path: Path
) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    catalog = catalog_of("sql", tmp_path / ("link" if through else "real"))
    table = catalog.create_table("db.t", "id bigint")
    table.append(pa.table({"id": [5]}))
    (tmp_path / "shared").mkdir()
    linked = Path(table.location().removeprefix("file://")) / "linked"
    linked.symlink_to(tmp_path / "shared")
    pq.write_table(pa.table({"id": [1]}), tmp_path / "shared/x.parquet")
    table.add_files([str(linked / "x.parquet")])
    assert catalog.purge_table("db.t") == (str(linked / "x.parquet"),)
    assert (tmp_path / "shared/x.parquet").exists() and [
        p.name for p in linked.parent.rglob("*") if p.is_file()
    ] == []


@pytest.mark.parametrize("kind", ["sql", "path"])
def test_a_purge_that_leaves_nothing_says_so(
    kind: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    catalog = catalog_of(kind, tmp_path)
    catalog.create_table("db.t", "id bigint").append(pa.table({"id": [5]}))
    assert catalog.purge_table("db.t") == () and not caplog.records


def test_a_path_tables_place_is_its_directory_whatever_its_metadata_says(tmp_path: Path) -> None:
    catalog = catalog_of("path", tmp_path)
    catalog.create_table("db.t", "id bigint").append(pa.table({"id": [5]}))
    shutil.copytree(tmp_path / "wh/db/t", tmp_path / "wh/db/copy")
    left = catalog.purge_table("db.copy")
    assert left and all(f"{tmp_path}/wh/db/t/" in f for f in left)
    assert catalog.load_table("db.t").to_arrow()["id"].to_pylist() == [5]


def test_the_root_of_a_file_system_is_no_tables_place() -> None:
    metadata = new_metadata(
        "file:///", **{"write.data.path": "/", "write.metadata.path": "s3a://b/m/"}
    )
    assert named_places(metadata) == ("s3a://b/m/",)
    assert named_places(metadata, "/w/t") == ("/w/t", "s3a://b/m/")


@pytest.mark.parametrize("kind", ["sql", "path", "memory"])
def test_a_table_whose_files_others_may_share_is_not_purged(kind: str, tmp_path: Path) -> None:
    catalog = catalog_of(kind, tmp_path)
    table = catalog.create_table("db.t", "id bigint", properties={"gc.enabled": "false"})
    table.append(pa.table({"id": [5]}))
    if kind == "sql":
        catalog.register_table("db.same", table.metadata_location)
    with pytest.raises(ValidationException, match=r"Cannot purge table .*db\.t: GC is disabled"):
        catalog.purge_table("db.t")
    assert catalog.load_table("db.t").count() == 1, "it is not even dropped"
    if kind == "sql":
        catalog.drop_table("db.t")
        assert catalog.load_table("db.same").count() == 1
