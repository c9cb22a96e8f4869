"""What catalogs that keep views promise: SQLite, memory, and the databases, REST servers and Hive
Metastores that FRAZIL_TEST_… name.
"""

from __future__ import annotations

import os
import sqlite3
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import frazil
from frazil.catalog.base import Unclear
from frazil.codec.view_json import decode_view, encode_view
from frazil.errors import (
    CommitStateUnknownException,
    InvalidInput,
    NamespaceNotEmptyError,
    NoSuchNamespaceError,
    NoSuchTableError,
    NoSuchViewError,
    TableAlreadyExistsError,
    Unsupported,
    ValidationError,
    ViewAlreadyExistsError,
)
from frazil.spec.view import ViewVersion
from frazil.storage import storage_for
from tests.catalog.conftest import KINDS as ALL
from tests.catalog.conftest import STORES, open_backend

SERVERS = [os.environ["FRAZIL_TEST_REST"]] if os.environ.get("FRAZIL_TEST_REST") else []
# Nessie's server shows the newest version alone
KINDS = [kind for kind in ALL if kind not in ("path", "server", "nessie", *STORES)]
SQL = {"spark": "SELECT id FROM t", "trino": "SELECT id FROM t -- trino"}


@pytest.fixture(params=KINDS)
def catalog(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    with frazil.table.catalog.Catalog(open_backend(request.param, tmp_path)) as made:
        yield made


@pytest.fixture
def db(catalog: Any) -> str:
    name = f"v{uuid.uuid4().hex[:8]}"
    catalog.create_namespace(name)
    return name


def test_a_new_view_is_found_again(catalog: Any, db: str) -> None:
    made = catalog.create_view(
        f"{db}.v",
        "id bigint, s string",
        sql=SQL,
        properties={"comment": "mine", "n": 1},
        default_namespace="a.b",
    )
    found = catalog.load_view(f"{db}.v")
    assert found == made and found.metadata == made.metadata and found.name() == (db, "v")
    assert (
        found.sql_for("SPARK").sql == SQL["spark"]
        and found.sql_for("trino").sql == SQL["trino"]
        and found.sql_for("hive") is None
    )
    assert found.properties == {"comment": "mine", "n": "1"} and found.schema().column_names == [
        "id",
        "s",
    ]
    version = found.current_version()
    assert (
        version.default_namespace == ("a", "b")
        and version.default_catalog is None
        and version == found.version(1)
    )
    assert [(e.version_id, e.timestamp_ms) for e in found.history()] == [(1, version.timestamp_ms)]
    assert (
        catalog.view_exists(f"{db}.v")
        and catalog.list_views(db) == [(db, "v")]
        and found.schemas().keys() == {0}
    )
    assert str(found.uuid()) == found.metadata.view_uuid and found.location().endswith("/v")
    with pytest.raises(NamespaceNotEmptyError):
        catalog.drop_namespace(db)


def test_a_replaced_view_keeps_its_versions_and_comes_back_to_them(catalog: Any, db: str) -> None:
    first = catalog.create_view(f"{db}.v", "id bigint", sql="SELECT 1", properties={"a": "1"})
    second = catalog.replace_view(
        f"{db}.v", "id bigint, b int", sql="SELECT 1, 2", properties={"b": "2"}
    )
    assert second.current_version().version_id == 2 and [v.version_id for v in second.versions] == [
        1,
        2,
    ]
    assert (
        second.schema().column_names == ["id", "b"]
        and second.properties == {"a": "1", "b": "2"}
        and second.uuid() == first.uuid()
    )
    third = catalog.replace_view(f"{db}.v", "id bigint", sql="SELECT 1")
    back = third.current_version().version_id
    assert third.sql_for("spark").sql == "SELECT 1" and [e.version_id for e in third.history()] == [
        1,
        2,
        back,
    ]
    assert back == 1 or catalog.name == "rest", (
        "Java's server keeps no summary of a first version, by which versions differ"
    )
    assert len(third.schemas()) == 2 and catalog.load_view(f"{db}.v").metadata == third.metadata
    assert back != 1 or third.history()[2].timestamp_ms >= third.version(2).timestamp_ms > 0, (
        "the time of the return, not of the version"
    )
    assert (
        catalog.replace_view(f"{db}.v", sql="SELECT 1").metadata_location == third.metadata_location
    ), "nothing to change"
    assert first.versions == [second.version(1)], "a view that was loaded stays as it was"


def test_the_newest_versions_stay_and_a_dialect_is_not_lost_unasked(catalog: Any, db: str) -> None:
    catalog.create_view(
        f"{db}.v", "id bigint", sql=SQL, properties={"version.history.num-entries": "3"}
    )
    with pytest.raises(ValidationError, match="lose its SQL for trino"):
        catalog.replace_view(f"{db}.v", sql="SELECT 0")
    for n in range(5):
        view = catalog.replace_view(
            f"{db}.v", sql=f"SELECT {n}", properties={"replace.drop-dialect.allowed": "true"}
        )
    assert sorted(v.version_id for v in view.versions) == [4, 5, 6] and [
        e.version_id for e in view.history()
    ] == [4, 5, 6]
    assert catalog.load_view(f"{db}.v").metadata == view.metadata


def test_a_view_is_no_table_and_a_table_no_view(catalog: Any, db: str) -> None:
    catalog.create_table(f"{db}.t", "id bigint")
    catalog.create_view(f"{db}.v", "id bigint", sql="SELECT 1")
    assert catalog.list_tables(db) == [(db, "t")] and catalog.list_views(db) == [(db, "v")]
    assert not catalog.table_exists(f"{db}.v") and not catalog.view_exists(f"{db}.t")
    with pytest.raises(
        NoSuchTableError, match=rf"{db}\.v is a view, not a table.*load_view\('{db}\.v'\)"
    ):
        catalog.load_table(f"{db}.v")
    for ask in (
        catalog.load_view,
        catalog.drop_view,
        lambda name: catalog.rename_view(name, f"{db}.x"),
    ):
        with pytest.raises(NoSuchViewError):
            ask(f"{db}.t")
    with pytest.raises(NoSuchTableError):
        catalog.drop_table(f"{db}.v")
    for create in (
        catalog.create_table,
        lambda name, schema: (
            catalog.create_table_transaction(name, schema).__enter__().commit_transaction()
        ),
    ):
        with pytest.raises(TableAlreadyExistsError, match=f"{db}.v is a view: no table") as told:
            create(f"{db}.v", "id bigint")
        assert f"drop_view('{db}.v')" in str(told.value)
    with pytest.raises(TableAlreadyExistsError, match="already exists"):
        catalog.create_table(f"{db}.t", "id bigint")
    for taken in ("t", "v"):
        with pytest.raises(ViewAlreadyExistsError, match=f"{db}.{taken}"):
            catalog.create_view(f"{db}.{taken}", "id bigint", sql="SELECT 1")
    with pytest.raises(TableAlreadyExistsError):
        catalog.rename_table(f"{db}.t", f"{db}.v")
    with pytest.raises(ViewAlreadyExistsError):
        catalog.rename_view(f"{db}.v", f"{db}.t")


def test_views_are_renamed_dropped_and_registered(catalog: Any, db: str) -> None:
    catalog.create_namespace(f"{db}2")
    made = catalog.create_view(f"{db}.v", "id bigint", sql="SELECT 1")
    assert (
        catalog.rename_view(f"{db}.v", f"{db}2.w").metadata == made.metadata
        and catalog.list_views(db) == []
    )
    with pytest.raises(NoSuchNamespaceError):
        catalog.rename_view(f"{db}2.w", "nowhere.w")
    location = made.metadata_location.replace("00000-", "00000-copy-")
    # Java's server deletes that of a dropped view
    storage_for(location).write(location, storage_for(location).read(made.metadata_location))
    catalog.drop_view(f"{db}2.w")
    with pytest.raises(NoSuchViewError, match=f"{db}2.w"):
        catalog.load_view(f"{db}2.w")
    assert catalog.register_view(f"{db}.back", location).metadata == made.metadata
    with pytest.raises(ViewAlreadyExistsError):
        catalog.register_view(f"{db}.back", location)


def test_a_view_is_created_or_replaced_at_once(catalog: Any, db: str) -> None:
    with pytest.raises(NoSuchViewError):
        catalog.replace_view(f"{db}.v", sql="SELECT 1")
    with pytest.raises(InvalidInput, match="needs a schema"):
        catalog.replace_view(f"{db}.v", sql="SELECT 1", create=True)
    assert [
        catalog.replace_view(f"{db}.v", "id bigint", sql=f"SELECT {n}", create=True)
        .current_version()
        .version_id
        for n in (1, 2)
    ] == [1, 2]
    with pytest.raises(NoSuchNamespaceError):
        catalog.create_view("nowhere.v", "id bigint", sql="SELECT 1")


@pytest.mark.parametrize(
    "given, told",
    [
        ({}, "either sql or view_version"),
        ({"sql": {}}, "needs a query"),
        ({"sql": {"spark": " "}}, "must be text"),
        ({"sql": {"spark": "SELECT 1", "Spark": "SELECT 2"}}, "one query for each dialect"),
        ({"view_version": "v1"}, "must be a ViewVersion"),
        (
            {"sql": "SELECT 1", "properties": {"version.history.num-entries": "0"}},
            "positive number",
        ),
        (
            {"sql": "SELECT 1", "properties": {"replace.drop-dialect.allowed": "yes"}},
            "true or false",
        ),
        (
            {"sql": "SELECT 1", "properties": {"write.metadata.compression-codec": "zstd"}},
            "none or gzip",
        ),
    ],
)
def test_arguments_are_honoured_or_refused_by_name(given: dict[str, Any], told: str) -> None:
    with frazil.load_catalog("a", type="memory") as catalog:
        catalog.create_namespace("db")
        with pytest.raises(InvalidInput, match=told):
            catalog.create_view("db.v", "id bigint", **given)
        assert catalog.list_views("db") == []


def test_a_version_describes_everything_at_once_and_a_location_is_taken(tmp_path: Path) -> None:
    with frazil.load_catalog("a", type="memory") as catalog:
        catalog.create_namespace("db")
        version = catalog.create_view("db.v", "id bigint", sql=SQL).current_version()
        again = catalog.create_view(
            "db.w",
            "id bigint",
            version,
            str(tmp_path / "views"),
            {"write.metadata.compression-codec": "none"},
        )
        assert (
            isinstance(version, ViewVersion)
            and again.current_version() == version
            and again.location() == str(tmp_path / "views")
        )
        name = Path(again.metadata_location)
        assert (
            name.name.startswith("00000-")
            and ".gz" not in name.name
            and decode_view(name.read_bytes()) == again.metadata
        )


def test_catalogs_without_views_say_so(tmp_path: Path) -> None:
    catalog = frazil.load_catalog("p", type="path", warehouse=str(tmp_path))
    for ask in (catalog.load_view, catalog.view_exists, catalog.list_views, catalog.drop_view):
        with pytest.raises(Unsupported, match="'p' .* keeps no views"):
            ask("db.v")
    old = tmp_path / "c.db"
    with sqlite3.connect(old) as connection:
        text = "catalog_name VARCHAR(255), table_namespace VARCHAR(255), table_name VARCHAR(255), metadata_location VARCHAR(1000), previous_metadata_location VARCHAR(1000)"
        connection.execute(
            f"CREATE TABLE iceberg_tables ({text}, PRIMARY KEY (catalog_name, table_namespace, table_name))"
        )
        connection.execute(
            "CREATE TABLE iceberg_namespace_properties (catalog_name VARCHAR(255), namespace VARCHAR(255), property_key VARCHAR(255), property_value VARCHAR(1000))"
        )
    connection.close()
    with frazil.load_catalog(
        "s", type="sql", uri=f"sqlite:///{old}", warehouse=str(tmp_path / "w")
    ) as v0:
        v0.create_namespace("db")
        assert v0.list_views("db") == [] and not v0.view_exists("db.v")
        with pytest.raises(Unsupported, match="layout V0"):
            v0.create_view("db.v", "id bigint", sql="SELECT 1")


def test_writers_beside_each_other_lose_no_version(catalog: Any, db: str) -> None:
    catalog.create_view(f"{db}.v", "id bigint", sql="SELECT 0")
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(lambda n: catalog.replace_view(f"{db}.v", sql=f"SELECT {n}"), range(1, 4)))
    view = catalog.load_view(f"{db}.v")
    assert {v.queries["spark"].sql for v in view.versions} == {f"SELECT {n}" for n in range(4)}
    assert len({v.version_id for v in view.versions}) == 4 == len(view.history())


def test_a_commit_that_lost_leaves_no_file_and_one_of_unknown_outcome_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend: Any = open_backend("sqlite", tmp_path)
    backend.create_namespace(("db",))
    with frazil.table.catalog.Catalog(backend) as catalog:
        catalog.create_view("db.v", "id bigint", sql="SELECT 0")
        base = backend.load_view(("db", "v"))
        catalog.replace_view("db.v", sql="SELECT 1")
        before = sorted((tmp_path / "warehouse/db/v/metadata").iterdir())
        outcome = backend.swap_view(base, base.metadata)
        assert (
            "no longer" in outcome.reason
            and sorted((tmp_path / "warehouse/db/v/metadata").iterdir()) == before
        )
        execute = backend.store.database.execute

        def lost(*arguments: Any, **named: Any) -> Any:
            raise Unclear("the connection was lost")

        def applied(*arguments: Any, **named: Any) -> Any:
            execute(*arguments, **named)
            raise Unclear("the answer was lost")

        monkeypatch.setattr(backend.store.database, "execute", applied)
        assert catalog.replace_view("db.v", sql="SELECT 2").sql_for("spark").sql == "SELECT 2"
        monkeypatch.setattr(backend.store.database, "execute", lost)
        with pytest.raises(CommitStateUnknownException, match=r"db\.v"):
            catalog.replace_view("db.v", sql="SELECT 3")
        assert len(list((tmp_path / "warehouse/db/v/metadata").iterdir())) == len(before) + 2


def test_a_materialized_view_is_read_but_not_replaced() -> None:
    with frazil.load_catalog("a", type="memory") as catalog:
        catalog.create_namespace("db")
        view = catalog.create_view(
            "db.plain",
            "id bigint",
            sql="SELECT 0",
            properties={"write.metadata.compression-codec": "none"},
        )
        data = encode_view(view.metadata).replace(
            b'"default-namespace"',
            b'"storage-table": {"namespace": ["db"], "name": "s"}, "default-namespace"',
        )
        storage_for(view.location()).write(f"{view.location()}/metadata/x.metadata.json", data)
        stored = catalog.register_view("db.stored", f"{view.location()}/metadata/x.metadata.json")
        assert stored.sql_for("spark").sql == "SELECT 0"
        with pytest.raises(Unsupported, match="materialized"):
            catalog.replace_view("db.stored", sql="SELECT 1")


@pytest.mark.parametrize("uri", SERVERS)
def test_java_goes_on_with_a_view_file_of_ours_and_we_with_one_of_java(
    uri: str, tmp_path: Path
) -> None:
    server = frazil.load_catalog("r", type="rest", uri=uri)
    ours = frazil.load_catalog(
        "s", type="sql", uri=f"sqlite:///{tmp_path}/c.db", warehouse=str(tmp_path / "w")
    )
    db = f"v{uuid.uuid4().hex[:8]}"
    for catalog in (server, ours):
        catalog.create_namespace(db)
    made = ours.create_view(
        f"{db}.v", "id bigint, l array<struct<a:int>>", sql=SQL, properties={"comment": "ours"}
    )
    assert server.register_view(f"{db}.v", made.metadata_location).metadata == made.metadata
    java = server.replace_view(
        f"{db}.v", "id bigint", sql={**SQL, "spark": "SELECT 7"}, properties={"b": "2"}
    )
    assert java.current_version().version_id == 2 and "00001-" in java.metadata_location
    back = ours.register_view(f"{db}.w", java.metadata_location)
    assert (
        back.metadata == java.metadata
        and back.sql_for("spark").sql == "SELECT 7"
        and back.properties == {"comment": "ours", "b": "2"}
    )
    for catalog in (server, ours):
        catalog.close()


def test_a_view_shows_its_names_queries_and_columns(catalog: Any, db: str) -> None:
    long = "SELECT id\nFROM t\n" + "\n".join(f"-- line {n}" for n in range(500))
    made = catalog.create_view(
        f"{db}.v",
        "id bigint not null comment 'the key', s string",
        sql={"spark": "SELECT id, s\n  FROM t", "trino": "SELECT 1"},
    )
    assert repr(made).splitlines() == [
        f"          view  {catalog.name}.{db}.v  (version 1)",
        f"  names are in  {db}",
        "      in spark  SELECT id, s",
        "                  FROM t",
        "      in trino  SELECT 1",
        "       columns  id  long  required the key",
        "                s   string",
    ]
    other = catalog.create_view(
        f"{db}.w", "id bigint", sql=long, default_namespace="a.b", default_catalog="c"
    )
    assert (
        "c.a.b" in repr(other)
        and "more lines" in repr(other)
        and len(repr(other).splitlines()) < 120
    )
