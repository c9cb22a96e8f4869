"""Where a catalog's properties come from, and what is said when they are missing or contradict each
other.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from frazil.catalog import configuration as sources
from frazil.catalog import load, load_backend
from frazil.catalog.configuration import configuration, configured_names
from frazil.catalog.hive.store import HiveStore
from frazil.catalog.path import PathCatalog
from frazil.catalog.sql.store import SqlStore
from frazil.errors import FrazilError, InvalidInput, Unsupported
from frazil.spec.options import TEXT, Option, OptionTable

NOTHING = {"HOME": "/nowhere"}


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_sources_are_asked_in_their_order_key_by_key(tmp_path: Path) -> None:
    (tmp_path / ".frazil.yaml").write_text(
        "catalog: {prod: {a: yaml, b: yaml, c: yaml, d: yaml, e: yaml}}"
    )
    (tmp_path / ".pyiceberg.yaml").write_text(
        "catalog: {prod: {a: old, b: old, c: old, d: old, e: old, f: old}}"
    )
    env = {
        **NOTHING,
        "PYICEBERG_CATALOG__PROD__A": "pyenv",
        "PYICEBERG_CATALOG__PROD__B": "pyenv",
        "PYICEBERG_CATALOG__PROD__C": "pyenv",
        "PYICEBERG_CATALOG__PROD__D": "pyenv",
        "FRAZIL_CATALOG__PROD__A": "env",
        "FRAZIL_CATALOG__PROD__B": "env",
        "FRAZIL_CATALOG__PROD__C": "env",
    }
    conf = {
        "spark.sql.catalog.prod": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.prod.a": "spark",
        "spark.sql.catalog.prod.b": "spark",
    }
    found = configuration("prod", {"a": "given"}, spark_conf=conf, environ=env)
    assert found.properties == {
        "a": "given",
        "b": "spark",
        "c": "env",
        "d": "pyenv",
        "e": "yaml",
        "f": "old",
    }
    assert (
        "keyword" in found.sources["a"]
        and "spark.sql.catalog.prod" in found.sources["b"]
        and "FRAZIL_CATALOG__PROD" in found.sources["c"]
    )
    assert found.sources["f"].endswith(".pyiceberg.yaml")


def test_a_hive_catalog_of_spark_takes_the_metastore_of_the_session() -> None:
    conf = {
        "spark.sql.catalog.h.type": "hive",
        "spark.hadoop.hive.metastore.uris": "thrift://a:9083",
        "spark.sql.catalog.s.type": "sql",
    }
    assert (
        configuration("h", {}, spark_conf=conf, environ={}).properties["uri"] == "thrift://a:9083"
    )
    named = {**conf, "spark.sql.catalog.h.uri": "thrift://b:9083"}
    assert (
        configuration("h", {}, spark_conf=named, environ={}).properties["uri"] == "thrift://b:9083"
    )
    assert "uri" not in configuration("s", {}, spark_conf=conf, environ={}).properties


def test_environment_keys_become_dots_and_dashes() -> None:
    env = {
        **NOTHING,
        "FRAZIL_CATALOG__MY_CAT__S3__ACCESS_KEY_ID": "k",
        "FRAZIL_CATALOG__MY_CAT__POOL_PRE_PING": "true",
    }
    found = configuration("my-cat", environ=env).properties
    assert found == {"s3.access-key-id": "k", "pool-pre-ping": "true"}


def test_nested_yaml_becomes_dotted_and_values_become_text(tmp_path: Path) -> None:
    (tmp_path / ".frazil.yaml").write_text(
        "catalog:\n  prod:\n    s3:\n      region: eu\n      path-style-access: true\n    n: 5\n    nothing:\n"
    )
    assert configuration("PROD", environ=NOTHING).properties == {
        "s3.region": "eu",
        "s3.path-style-access": "true",
        "n": "5",
    }


@pytest.mark.parametrize(
    "text", ["catalog: [1]", "catalog: {prod: 3}", "- x", "a: b: c: {", "\x00"]
)
def test_a_file_that_is_wrong_is_named_and_not_quoted(tmp_path: Path, text: str) -> None:
    (tmp_path / ".frazil.yaml").write_text(text + " # hunter2")
    with pytest.raises(InvalidInput, match=r"\.frazil\.yaml") as told:
        configuration("prod", environ=NOTHING)
    assert "hunter2" not in str(told.value)


def test_nothing_configured_gives_a_file_and_a_folder(tmp_path: Path) -> None:
    backend = load_backend(environ=NOTHING)
    assert (
        isinstance(backend.store, SqlStore)
        and backend.name == "default"
        and backend.warehouse == f"{tmp_path}/warehouse"
    )
    backend.create_namespace(("db",))
    assert (tmp_path / "warehouse/catalog.db").exists()
    backend.close()
    moved = load_backend(None, environ={**NOTHING, "FRAZIL_HOME": f"{tmp_path}/else where"})
    assert moved.list_namespaces() == [] and not (tmp_path / "else where").exists()
    moved.create_namespace(("db",))
    assert moved.list_namespaces() == [("db",)] and (tmp_path / "else where/catalog.db").exists()
    moved.close()


def test_another_default_can_be_named(tmp_path: Path) -> None:
    env = {
        **NOTHING,
        "FRAZIL_DEFAULT_CATALOG": "prod",
        "FRAZIL_CATALOG__PROD__TYPE": "path",
        "FRAZIL_CATALOG__PROD__WAREHOUSE": f"{tmp_path}/w",
    }
    backend = load_backend(environ=env)
    assert isinstance(backend, PathCatalog) and backend.name == "prod"


def test_types_have_aliases_and_may_follow_from_the_uri(tmp_path: Path) -> None:
    w, uri = f"{tmp_path}/w", f"sqlite:///{tmp_path}/c.db"
    assert isinstance(load_backend("a", type="hadoop", warehouse=w), PathCatalog)
    assert isinstance(load_backend("a", type="PATH", warehouse=w), PathCatalog)
    assert isinstance(load_backend("a", type="jdbc", uri=uri).store, SqlStore)
    assert isinstance(load_backend("a", uri=uri).store, SqlStore)
    assert isinstance(load_backend("a", type="in-memory").store, SqlStore)
    assert isinstance(
        load_backend(
            "a", **{"catalog-impl": "org.apache.iceberg.hadoop.HadoopCatalog"}, warehouse=w
        ),
        PathCatalog,
    )


@pytest.mark.parametrize("kind", ["glue", "dynamodb", "bigquery", "nessie"])
def test_types_that_are_not_served_are_refused_by_name(kind: str) -> None:
    with pytest.raises(Unsupported, match=kind):
        load_backend("a", type=kind)


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        ("glue", "rest.sigv4-enabled=true, rest.signing-name=glue"),
        ("s3tables", "rest.signing-name=s3tables"),
        ("polaris", "api/catalog"),
        ("unity", "iceberg-rest"),
        ("nessie", "type=rest with uri=http"),
    ],
)
def test_products_with_a_rest_endpoint_are_told_how_to_be_reached(kind: str, told: str) -> None:
    with pytest.raises(Unsupported) as refused:
        load_backend("a", type=kind)
    assert told in str(refused.value.hint)


@pytest.mark.parametrize(
    "given", [{"type": "hive"}, {"catalog-impl": "org.apache.iceberg.hive.HiveCatalog"}, {}]
)
def test_a_hive_catalog_is_chosen_by_its_type_its_java_class_or_its_uri(
    given: dict[str, str],
) -> None:
    backend = load_backend("a", uri="thrift://one:1,thrift://two", **given)
    assert isinstance(backend.store, HiveStore) and backend.store.settings.addresses == (
        ("one", 1),
        ("two", 9083),
    )
    backend.close()


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({}, "key type is missing"),
        ({"type": "sqll", "uri": "sqlite:///x"}, "type .*'sqll'"),
        ({"type": "path"}, "lacks the key warehouse"),
        ({"type": "sql", "warehouse": "/w"}, "lacks the key uri"),
        ({"type": "path", "warehouse": "/w", "uri": "sqlite:///x"}, "uri .*is one of type sql"),
        ({"type": "sql", "uri": "thrift://h"}, "uri .*is one of type hive"),
        ({"type": "path", "warehouse": "sqlite:///x"}, "warehouse .*not a location for files"),
        ({"type": "path", "warehouse": "/a/../b"}, "contains '..'"),
        ({"type": "path", "catalog-impl": "org.apache.iceberg.hadoop.HadoopCatalog"}, "both type"),
        ({"uri": "gopher://x"}, "uri .*gopher"),
        ({"type": "memory", "uri": "sqlite:///x"}, "uri"),
        ({"type": None, "uri": "sqlite:///x"}, "must be text"),
    ],
)
def test_what_is_missing_or_contradictory_names_the_key_and_the_source(
    given: dict[str, str], told: str
) -> None:
    with pytest.raises(InvalidInput, match=told) as error:
        load_backend("cat", environ=NOTHING, **given)
    if "key" in told:
        assert (
            "keyword arguments" in str(error.value)
            and "FRAZIL_CATALOG__CAT__" in str(error.value)
            and ".pyiceberg.yaml" in str(error.value)
        )


def test_a_warehouse_alone_moves_the_default_catalog(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for given in (str(tmp_path / "a"), "b/", f"file://{tmp_path}/c"):
        catalog = load_backend(environ=NOTHING, warehouse=given)
        catalog.create_namespace(("db",), {})
        catalog.close()
    assert all((tmp_path / name / "catalog.db").exists() for name in "abc")
    with pytest.raises(InvalidInput, match="key type is missing"):
        load_backend(environ=NOTHING, warehouse="s3://bucket/x")


@pytest.mark.parametrize(
    "home", ["/proc/self", "/proc/self/none"]
)  # where nobody can write, not even root
def test_a_folder_that_cannot_be_written_leads_to_frazil_home_and_warehouse(home: str) -> None:
    with pytest.raises(FrazilError, match=rf"{home}.*FRAZIL_HOME.*warehouse=") as error:
        load_backend(environ={"FRAZIL_HOME": home}).create_namespace(("db",))
    assert error.value.hint is not None


def test_a_bad_value_says_which_source_it_came_from() -> None:
    with pytest.raises(InvalidInput, match=r"FRAZIL_CATALOG__CAT__"):
        load_backend("cat", environ={**NOTHING, "FRAZIL_CATALOG__CAT__TYPE": "typo"})


def test_classes_of_other_products_are_refused(tmp_path: Path) -> None:
    with pytest.raises(Unsupported, match="py-catalog-impl"):
        load_backend("a", **{"py-catalog-impl": "x.Y"})
    with pytest.raises(Unsupported, match="catalog-impl"):
        load_backend("a", **{"catalog-impl": "com.x.Y"})
    with pytest.raises(Unsupported, match="io-impl"):
        load_backend("a", type="path", warehouse=str(tmp_path), **{"io-impl": "com.x.IO"})
    known = load_backend(
        "a",
        type="path",
        warehouse=str(tmp_path),
        **{"io-impl": "org.apache.iceberg.aws.s3.S3FileIO"},
    )
    assert known.list_namespaces() == []


def test_configured_names_are_those_of_iceberg_catalogs(tmp_path: Path) -> None:
    (tmp_path / ".frazil.yaml").write_text("catalog: {y: {type: path}}")
    conf = {
        "spark.sql.catalog.ice": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.ice.type": "hadoop",
        "spark.sql.catalog.delta": "io.delta.Catalog",
        "spark.sql.catalog.delta.type": "x",
        "spark.sql.catalog.bare.warehouse": "/w",
        "spark.sql.catalogImplementation": "in-memory",
    }
    env = {**NOTHING, "PYICEBERG_CATALOG__E__URI": "x"}
    assert configured_names(conf, env) == {"ice", "bare", "y", "e"}


@pytest.mark.parametrize("name", ["a.b", " ", "a\0"])
def test_names_of_catalogs_have_no_dot(name: str) -> None:
    with pytest.raises(InvalidInput, match="name"):
        load_backend(name, environ=NOTHING)


def test_a_relative_warehouse_stays_where_it_was_when_the_process_moves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = load_backend("a", type="path", warehouse="w")
    backend.create_namespace(("db",))
    os.mkdir("sub")
    monkeypatch.chdir("sub")
    assert (
        backend.list_namespaces() == [("db",)]
        and backend.table_location(("db", "t")) == f"{tmp_path}/w/db/t"
    )


def test_no_secret_shows_in_the_configuration() -> None:
    found = configuration(
        "a", {"token": "hunter2", "uri": "postgresql://u:hunter2@h/d"}, environ=NOTHING
    )
    assert "hunter2" not in repr(found) + str(found) + found.searched() + found.where("token")


def test_a_type_of_catalog_is_added_in_one_place(monkeypatch: pytest.MonkeyPatch) -> None:
    shelf = load._CatalogType(
        ("catalog.memory", "memory_catalog"),
        OptionTable(
            "catalog property",
            (Option("planks", TEXT, None),),
            families=(Option("shelf.<name>", TEXT, None),),
        ),
        required=("planks",),
    )
    monkeypatch.setitem(load._TYPES, "shelf", shelf)
    catalog = load_backend(
        "s", environ=NOTHING, type="shelf", planks="oak", **{"shelf.height": "2"}
    )
    assert isinstance(catalog.store, SqlStore) and catalog.properties["planks"] == "oak"
    with pytest.raises(InvalidInput, match="lacks the key planks"):
        load_backend("s", environ=NOTHING, type="shelf")
    with pytest.raises(
        InvalidInput, match=r"Unknown catalog property plank .*Did you mean planks\?"
    ):
        load_backend("s", environ=NOTHING, type="shelf", plank="oak")
    with pytest.raises(InvalidInput, match="path, sql, memory, hive, rest and shelf"):
        load_backend("s", environ=NOTHING, type="rack")


def test_secrets_that_spark_shows_are_told_with_the_setting_that_masks_them(
    caplog: pytest.LogCaptureFixture,
) -> None:
    prefix = "spark.sql.catalog.masked."
    conf = {
        f"{prefix}{key}": value
        for key, value in {
            "type": "sql",
            "uri": "postgresql://app:hunter2@h/db",
            "jdbc.password": "hunter2",
            "credential": "id:hunter2",
            "adls.connection-string": "x",
            "s3.secret-access-key": "hunter2",
            "s3.access-key-id": "id",
            "header.X-Key": "hunter2",
            "s3.sse.key": "hunter2",
            "warehouse": "s3://b/w",
            "token-refresh-enabled": "true",
            "oauth2-server-uri": "https://h/t",
        }.items()
    }
    for _ in range(2):
        configuration("masked", spark_conf=conf, environ={})
    told = [r.getMessage() for r in caplog.records if "spark.redaction.regex" in r.getMessage()]
    shown = ["adls.connection-string", "credential", "header.X-Key", "s3.sse.key", "uri"]
    assert (
        len(told) == 1 and ", ".join(prefix + key for key in shown) + " in its event log" in told[0]
    )
    assert "jdbc.password" in told[0] and "hunter2" not in told[0]
    assert (
        sources.shown_by_spark(prefix, {**conf, "spark.redaction.regex": sources.REDACTION_REGEX})
        == []
    )
    assert (
        sources.shown_by_spark(
            prefix, {f"{prefix}uri": "postgresql://app@h/db", f"{prefix}jdbc.password": "hunter2"}
        )
        == []
    )
