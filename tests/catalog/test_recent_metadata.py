"""Metadata that this process has written or read is not decoded again, and what others write under
the same name is.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

import frazil
from frazil.catalog import metadata_files
from frazil.catalog.metadata_files import RecentMetadata
from frazil.codec.metadata_json import decode_metadata
from frazil.errors import NoSuchTableError
from tests.builders.catalogs import catalog_of
from tests.catalog.conftest import new_metadata


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files that are decoded from here on."""
    files: list[str] = []
    monkeypatch.setattr(
        metadata_files,
        "decode_metadata",
        lambda data, file: (files.append(file), decode_metadata(data, file=file))[1],
    )
    return files


@pytest.mark.parametrize("kind", ["path", "sql"])
@pytest.mark.parametrize("codec", ["none", "gzip"])
def test_a_table_that_is_loaded_after_an_own_commit_is_not_decoded_again(
    kind: str, codec: str, tmp_path: Path, decoded: list[str]
) -> None:
    more = {"uri": f"sqlite:///{tmp_path}/c.db"} if kind == "sql" else {}
    catalog = frazil.load_catalog("c", type=kind, warehouse=f"{tmp_path}/w", **more)
    catalog.create_namespace("db")
    table = catalog.create_table(
        "db.t", "id bigint", properties={"write.metadata.compression-codec": codec}
    )
    for number in range(3):
        table.append([{"id": number}])
        table = catalog.load_table("db.t")
    assert decoded == [] and table.count() == 3
    location = table.metadata_location
    assert table.metadata == decode_metadata(
        Path(location.removeprefix("file:")).read_bytes(), file=location
    )
    table.metadata.properties["mine"] = "alone"
    assert "mine" not in catalog.load_table("db.t").metadata.properties


@pytest.mark.parametrize("kind", ["path", "sql"])
def test_a_table_that_others_wrote_is_decoded_once(
    kind: str, tmp_path: Path, decoded: list[str]
) -> None:
    catalog = catalog_of(kind, tmp_path)
    catalog.create_table("db.t", "id bigint").append([{"id": 1}])
    metadata_files.recent.clear()
    table = catalog.load_table("db.t")
    table.metadata.properties["mine"] = "alone"
    for _ in range(3):
        table.refresh()
        assert "mine" not in catalog.load_table("db.t").properties
    table.maintenance.expire_snapshots(older_than="2001-01-01")
    assert len(decoded) == 1


def test_what_another_writes_under_the_same_name_is_decoded(
    tmp_path: Path, decoded: list[str]
) -> None:
    catalog = frazil.load_catalog("c", type="path", warehouse=str(tmp_path))
    table = catalog.create_table("db.t", "id bigint")
    file = Path(table.metadata_location.removeprefix("file:"))
    file.write_text(
        file.read_text().replace(
            str(table.metadata.table_uuid), "11111111-1111-1111-1111-111111111111"
        )
    )
    assert (
        str(catalog.load_table("db.t").metadata.table_uuid)
        == "11111111-1111-1111-1111-111111111111"
        and len(decoded) == 1
    )


def test_a_few_tables_are_kept_each_with_its_newest_metadata_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kept = RecentMetadata()
    tables = [new_metadata(f"memory://w/t{n}") for n in range(10)]
    for number, metadata in enumerate(tables):
        kept.keep(metadata, b"%d" % number)
    assert [kept.of(b"%d" % n) is not None for n in range(10)] == [False] * 2 + [True] * 8
    newer = replace(tables[9], last_updated_ms=5)
    kept.keep(newer, b"newer")
    assert kept.of(b"9") is None and kept.of(b"newer") == newer and kept.of(b"2") == tables[2]
    monkeypatch.setattr(metadata_files, "_MOST_BYTES", 10)
    kept.keep(tables[0], b"ten bytes.")
    assert kept.of(b"newer") is None and kept.of(b"ten bytes.") == tables[0]
    kept.keep(tables[1], b"more than ten bytes")
    assert kept.of(b"more than ten bytes") is None


def test_a_forked_child_has_none_of_it() -> None:
    kept = RecentMetadata()
    kept.keep(new_metadata("memory://w/t"), b"data")
    child = os.fork()
    if child == 0:
        os._exit(0 if kept.of(b"data") is None else 1)
    assert os.waitpid(child, 0)[1] == 0 and kept.of(b"data") is not None


def test_a_refresh_reads_no_metadata_file_while_the_pointer_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    catalog = catalog_of("sql", tmp_path)
    table = catalog.create_table("db.t", "id bigint")
    read: list[str] = []
    read_bytes = metadata_files.read_bytes
    monkeypatch.setattr(
        metadata_files, "read_bytes", lambda storage, at: read.append(at) or read_bytes(storage, at)
    )
    table.refresh().refresh()
    assert read == []
    other = frazil.load_catalog(catalog.name, **catalog.properties)
    other.load_table("db.t").append([{"id": 1}])
    assert table.refresh().count() == 1 and read[-1] == table.metadata_location
    catalog.drop_table("db.t")
    with pytest.raises(NoSuchTableError):
        table.refresh()
