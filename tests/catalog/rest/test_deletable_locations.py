"""Whatever a server tells of a table: files are deleted only where the table's own metadata file
shows that they are the table's.
"""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import frazil
from frazil.catalog.base import ToldBy
from frazil.catalog.metadata_files import read
from frazil.catalog.own_files import own_places, told_by
from frazil.codec.metadata_json import encode_metadata
from frazil.errors import ValidationException
from frazil.spec.metadata import TableMetadata
from frazil.storage import storage_for
from tests.catalog.rest.conftest import Server

ROUTE = "GET /v1/namespaces/db/tables/t"


@pytest.fixture
def local(tmp_path: Path) -> Iterator[Any]:
    """A table of a SQL catalog on this machine with two snapshots, of which the first one's file is
    in no later one, and an orphan.
    """
    catalog = frazil.load_catalog(
        "local", type="sql", uri=f"sqlite:///{tmp_path}/c.db", warehouse=str(tmp_path / "wh")
    )
    catalog.create_namespace("db")
    table = catalog.create_table("db.t", "id bigint")
    table.append(pa.table({"id": [1]}))
    table.overwrite(pa.table({"id": [2]}))
    (tmp_path / "wh/db/t/data/orphan").write_text("x")
    yield catalog.load_table("db.t")
    catalog.close()


def grow_old(folder: Path) -> None:
    week_ago = time.time() - 7 * 86_400
    for path in folder.rglob("*"):
        os.utime(path, (week_ago, week_ago))


def files(folder: Path) -> set[Path]:
    return {p for p in folder.rglob("*") if p.is_file()}


def tells(server: Server, location: str, metadata: TableMetadata) -> None:
    server.on(
        ROUTE,
        (
            200,
            {
                "metadata-location": location,
                "metadata": json.loads(encode_metadata(metadata)),
                "config": {"deletable-locations": "/"},
            },
        ),
    )
    server.on(
        "POST /v1/namespaces/db/tables/t",
        (200, {"metadata-location": location, "metadata": json.loads(encode_metadata(metadata))}),
    )


def table_of(server: Server, **properties: str) -> Any:
    return frazil.load_catalog("told", type="rest", uri=server.uri, **properties).load_table("db.t")


@pytest.mark.parametrize(
    "claim",
    [
        "another folder",
        "the folder above",
        "another file",
        "a version that is high",
        "another uuid",
        "a data path",
    ],
)
def test_a_folder_that_only_a_server_names_is_not_cleaned_up(
    claim: str, server: Server, local: Any, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    (home / "metadata").mkdir(parents=True)
    (home / "thesis.txt").write_text("years of work")
    (home / "metadata/00000-x.metadata.json").write_text("{}")
    grow_old(tmp_path)
    metadata, location, where = local.metadata, local.metadata_location, None
    match claim:
        case "another folder":
            metadata = replace(metadata, location=str(home))
        case "the folder above":
            metadata = replace(metadata, location=str(tmp_path))
        case "another file":
            metadata, location = (
                replace(metadata, location=str(home)),
                f"{home}/metadata/00000-x.metadata.json",
            )
        case "a version that is high":
            metadata, location = (
                replace(metadata, location=str(home)),
                f"{home}/metadata/09999-x.metadata.json",
            )
        case "another uuid":
            metadata = replace(metadata, table_uuid="11111111-1111-1111-1111-111111111111")
        case "a data path":
            metadata = replace(
                metadata, properties={**metadata.properties, "write.data.path": str(home)}
            )
            where = str(home)
    tells(server, location, metadata)
    table, before = table_of(server), files(tmp_path)
    with pytest.raises(ValidationException, match="not certain that it is a directory of table"):
        table.maintenance.remove_orphan_files(location=where)
    if claim == "a version that is high":
        assert [
            (s.kind, s.outcome) for s in table.maintenance.auto().steps if s.kind == "orphans"
        ] in ([], [("orphans", "failed")])
    assert files(tmp_path) == before


@pytest.mark.parametrize("shown", [True, False])
def test_expiry_deletes_what_lies_in_the_tables_own_folders_alone(
    shown: bool, server: Server, local: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (first, second) = local.metadata.snapshots
    (old,) = {p for p in files(tmp_path / "wh/db/t/data") if p.suffix == ".parquet"} - {
        Path(f.file.file_path) for f in local.scan().plan_files()
    }
    after = replace(
        local.metadata,
        snapshots=local.metadata.snapshots.without([first.snapshot_id]),
        snapshot_log=local.metadata.snapshot_log[-1:],
    )
    tells(
        server,
        local.metadata_location if shown else f"{tmp_path}/wh/db/t/metadata/00077-x.metadata.json",
        local.metadata,
    )
    server.on(
        "POST /v1/namespaces/db/tables/t",
        lambda _: (tells(server, local.metadata_location, after), server.answers[ROUTE][0])[1],
    )
    table = table_of(server)
    expected = table.maintenance.expire_snapshots(older_than=2**60, dry_run=True)
    with caplog.at_level(logging.WARNING, "frazil.maintain"):
        result = table.maintenance.expire_snapshots(older_than=2**60)
    assert replace(result, dry_run=True, seconds=0.0) == replace(
        expected, seconds=0.0
    ) and result.snapshot_ids == (first.snapshot_id,)
    assert (
        old.exists() is not shown
        and result.deleted_data_files_count == int(shown)
        and (result.files_elsewhere == 0) is shown
    )
    assert (
        "cannot be read" in caplog.text
    ) is not shown and second.snapshot_id == after.current_snapshot_id


def test_a_servers_word_about_a_local_folder_counts_once_it_is_allowed(
    server: Server, local: Any, tmp_path: Path
) -> None:
    metadata = replace(local.metadata, properties={"write.data.path": str(tmp_path / "elsewhere")})
    loaded = replace(local._loaded, metadata=metadata)
    own = str(tmp_path / "wh/db/t")
    assert own_places(loaded).directories == (own, str(tmp_path / "elsewhere")), "the file was read"
    assert own_places(replace(loaded, told_by=ToldBy(is_here=True))).directories == (own,)
    away = own_places(replace(loaded, told_by=ToldBy(is_here=False)))
    assert away.directories == () and "deletable-locations" in away.why_not(own)
    assert own_places(replace(loaded, told_by=ToldBy(False, (str(tmp_path),)))).directories == (
        own,
        str(tmp_path / "elsewhere"),
    )
    tells(server, local.metadata_location, local.metadata)
    grow_old(tmp_path)
    assert (
        len(
            table_of(
                server, **{"deletable-locations": f"{tmp_path}/wh, /srv"}
            ).maintenance.remove_orphan_files()
        )
        == 1
    )


@pytest.mark.parametrize(
    ("uri", "is_here"),
    [
        ("http://localhost:1", True),
        ("http://127.0.0.9", True),
        ("http://[::1]:8181/x", True),
        ("https://10.0.0.1", False),
        ("https://rest", False),
        ("https://localhost.evil.example", False),
    ],
)
def test_a_server_is_on_this_machine_by_its_address(uri: str, is_here: bool) -> None:
    assert told_by({"uri": uri}) == ToldBy(is_here, ())


def test_buckets_of_the_metadata_file_count_and_others_do_not() -> None:
    storage = storage_for("memory://own/t")
    table = frazil.load_catalog("m", type="memory")
    table.create_namespace("db")
    made = table.create_table(
        "db.t",
        "id bigint",
        properties={"write.data.path": "memory://own/d", "write.metadata.path": "memory://own/m"},
    )
    told = replace(made._loaded, told_by=ToldBy(is_here=False))
    assert [d.partition("//")[2] for d in own_places(told).directories][-2:] == ["own/d", "own/m"]
    assert read(storage, made.metadata_location).table_uuid == made.metadata.table_uuid


def test_files_of_add_files_stay_at_expiry_as_they_do_at_a_purge(tmp_path: Path) -> None:
    catalog: Any = frazil.load_catalog(
        "local", type="sql", uri=f"sqlite:///{tmp_path}/c.db", warehouse=str(tmp_path / "wh")
    )
    catalog.create_namespace("db")
    table = catalog.create_table("db.t", "id bigint")
    pq.write_table(pa.table({"id": [1]}), tmp_path / "raw.parquet")
    table.add_files([str(tmp_path / "raw.parquet")])
    table.overwrite(pa.table({"id": [2]}))
    expected, result = (
        table.maintenance.expire_snapshots(older_than=2**60, dry_run=dry) for dry in (True, False)
    )
    assert (tmp_path / "raw.parquet").exists() and (
        result.files_elsewhere,
        result.deleted_data_files_count,
    ) == (1, 0)
    assert (expected.files_elsewhere, expected.deleted_data_files_count) == (1, 0)
    catalog.close()


def test_files_in_the_folder_in_which_a_table_lay_before_are_its_own(tmp_path: Path) -> None:
    catalog: Any = frazil.load_catalog(
        "local", type="sql", uri=f"sqlite:///{tmp_path}/c.db", warehouse=str(tmp_path / "wh")
    )
    catalog.create_namespace("db")
    table = catalog.create_table("db.t", "id bigint")
    table.append(pa.table({"id": [1]}))
    (old,) = (tmp_path / "wh/db/t/data").rglob("*.parquet")
    with table.transaction() as tx:
        tx.update_location(str(tmp_path / "moved"))
    table.overwrite(pa.table({"id": [2]}))
    result = table.maintenance.expire_snapshots(older_than=2**60)
    assert (
        not old.exists()
        and result.files_elsewhere == 0
        and table.to_arrow()["id"].to_pylist() == [2]
    )
    catalog.close()
