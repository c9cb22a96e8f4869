"""What users of other products type is refused with the call of Frazil that does it."""

import copy
import pickle
import re
import subprocess
import sys

import polars as pl
import pyarrow as pa
import pytest

import frazil
from frazil.errors import InvalidInput, NoSuchMethod, NotInstalledError, SchemaMismatch, Unsupported
from frazil.storage import storage_for
from frazil.storage.objects import object_clients


@pytest.fixture
def table(home):
    made = home.create_table("db.t", "id bigint, s string")
    made.append([{"id": 1, "s": "a"}, {"id": 2, "s": "b"}])
    return made


def rows(table):
    return sorted((r["id"], r["s"]) for r in table.to_arrow().to_pylist())


NEW = pa.table({"id": [2, 3], "s": ["B", "C"]})


@pytest.mark.parametrize(
    ("call", "instead"),
    [
        (lambda t: t.upsert(NEW, on="id"), "join_cols=['id']"),
        (lambda t: t.upsert(NEW, primary_key=["id"]), "join_cols=['id']"),
        (lambda t: t.append(NEW, mode="overwrite"), "overwrite() replaces"),
        (lambda t: t.append(NEW, partitionBy=["id"]), "partition_by=[…]"),
        (lambda t: t.overwrite(NEW, where="id = 2"), "overwrite_filter="),
        (lambda t: t.overwrite(NEW, replaceWhere="id = 2"), "overwrite_filter="),
        (lambda t: t.delete(condition="id = 2"), "where="),
        (
            lambda t: t.merge(NEW, ["id"]).when_matched_delete().execute(),
            "on='target.id = source.id'",
        ),
        (
            lambda t: t.merge(NEW, ["id"]).when_matched_delete().execute(),
            "t.upsert(frame, join_cols=['id'])",
        ),
    ],
)
def test_an_argument_of_other_products_is_refused_with_ours(table, call, instead):
    with pytest.raises(InvalidInput) as refused:
        call(table)
    assert instead in refused.value.hint and "Known:" not in refused.value.hint
    assert rows(table) == [(1, "a"), (2, "b")]


def test_a_frame_without_the_key_is_refused_by_the_keys_name(table):
    for frame in (pa.table({"s": ["x"]}), pl.DataFrame({"s": ["x"], "ID": [1]})):
        for named in ({}, {"merge_schema": True}):
            with pytest.raises(
                SchemaMismatch,
                match=r"the frame has no column id, which is in the key \(id\); it has: s",
            ) as refused:
                table.upsert(frame, join_cols=["id"], **named)
            assert "join_cols=[" in refused.value.hint
    table.upsert(pl.DataFrame({"s": ["B"], "ID": [2]}), ["id"], case_sensitive=False)
    assert rows(table) == [(1, "a"), (2, "B")]


def test_load_table_with_a_catalog_beside_it_says_where_the_catalog_stands(home, table):
    for given, calls in (
        (
            "default",
            (
                "frazil.load_table('default.db.t')",
                "frazil.load_catalog('default').load_table('db.t')",
            ),
        ),
        ("a.b", ("frazil.load_table('`a.b`.db.t')",)),
        (home, ("catalog.load_table('db.t')",)),
    ):
        for name in ("db.t", ("db", "t")):
            with pytest.raises(InvalidInput, match="takes no catalog=") as refused:
                frazil.load_table(name, catalog=given)
            assert all(call in refused.value.hint for call in calls)
    assert rows(frazil.load_table("default.db.t")) == rows(table)


def test_a_merge_takes_aliases_as_delta_does(table):
    merge = table.merge(NEW, "t.id = s.id", source_alias="s", target_alias="t")
    merge.when_matched_update({"s": "concat(t.s, s.s)"}).when_not_matched_insert_all().execute()
    assert rows(table) == [(1, "a"), (2, "bB"), (3, "C")]


@pytest.mark.parametrize(
    ("name", "ours"),
    [
        ("whenMatchedUpdate", "when_matched_update()"),
        ("whenMatchedUpdateAll", "when_matched_update_all()"),
        ("whenMatchedDelete", "when_matched_delete()"),
        ("whenNotMatchedInsert", "when_not_matched_insert()"),
        ("whenNotMatchedInsertAll", "when_not_matched_insert_all()"),
        ("whenNotMatchedBySourceUpdate", "when_not_matched_by_source_update()"),
        ("whenNotMatchedBySourceDelete", "when_not_matched_by_source_delete()"),
        ("withSchemaEvolution", "with_schema_evolution()"),
        ("whenMatched", "when_matched_delete()"),
        ("whenNotMatched", "when_not_matched_insert_all()"),
    ],
)
def test_a_camel_case_name_of_a_merge_is_told_in_ours(table, name, ours):
    builder = table.merge(NEW, "target.id = source.id")
    with pytest.raises(NoSuchMethod, match=rf"MergeBuilder has no {name}\(\)") as refused:
        getattr(builder, name)
    assert ours in str(refused.value) and isinstance(refused.value, AttributeError)
    assert not hasattr(builder, name) and not hasattr(builder, "nothing_like_it")


def test_methods_of_other_products_lead_to_ours(home, table):
    for owner, name, ours in (
        (table, "to_ray", "ray.data.from_arrow"),
        (table.scan(), "to_ray", "ray.data.from_arrow"),
        (table, "to_daft", "daft.from_arrow"),
        (table.scan(), "to_daft", "daft.from_arrow"),
        (table.scan(), "toPandas", "to_pandas()"),
        (table, "toDF", "to_spark()"),
        (table, "updateSchema", "update_schema()"),
        (table, "vacuum", "maintenance.remove_orphan_files()"),
        (table, "restoreToVersion", "rollback_to_snapshot"),
        (home, "loadTable", "load_table()"),
        (home, "createTable", "create_table()"),
        (table.changes(), "to_ray", "ray.data"),
    ):
        with pytest.raises(NoSuchMethod) as refused:
            getattr(owner, name)
        assert ours in str(refused.value), (name, str(refused.value))
    for owner in (home, table, table.scan(), table.merge(NEW, "target.id = source.id")):
        with pytest.raises(AttributeError, match="has no attribute 'nothing_like_it'"):
            owner.nothing_like_it  # noqa: B018
    assert (
        copy.deepcopy(table.scan("id = 1"))
        == table.scan("id = 1")
        == pickle.loads(pickle.dumps(table.scan("id = 1")))
    )


@pytest.mark.parametrize(
    ("location", "extra"),
    [("gs://b/t", "gcs"), ("s3://b/t", "s3"), ("abfss://c@a.dfs.core.windows.net/t", "azure")],
)
def test_a_store_whose_library_is_missing_names_its_own_extra(location, extra, monkeypatch):
    monkeypatch.setitem(sys.modules, "obstore", None)
    object_clients.client.cache_clear()
    with pytest.raises(NotInstalledError, match=location.split("/")[0]) as refused:
        storage_for(location).read(f"{location}/x")
    assert f'pip install "frazil[{extra}]"' in refused.value.hint


def test_polars_lazy_frames_are_taken_by_every_verb(home, table):
    lazy = pl.LazyFrame({"id": [2, 3], "s": ["B", "C"]}).filter(pl.col("id") > 0)
    table.upsert(lazy, join_cols=["id"])
    table.append(lazy.with_columns(id=pl.col("id") + 10))
    assert rows(table) == [(1, "a"), (2, "B"), (3, "C"), (12, "B"), (13, "C")]
    table.merge(lazy, "target.id = source.id").when_matched_delete().execute()
    table.overwrite(lazy, "id > 11")
    assert rows(table) == [(1, "a"), (2, "B"), (3, "C")]
    made = home.create_table("db.lazy", lazy)
    made.append(lazy)
    assert made.schema().column_names == ["id", "s"] and made.count() == 2


def test_everything_can_be_imported_by_star_where_pyspark_is_missing(tmp_path):
    script = """
import sys
sys.modules |= dict.fromkeys(("pyspark", "pandas", "polars", "duckdb", "obstore", "sqlalchemy", "psycopg", "pymysql", "hypothesis", "pytest", "fastavro"))
from frazil import *
import frazil
assert {"load_catalog", "Schema", "errors", "expressions", "install", "spark_session"} <= set(globals())
for call in (install, spark_session, configure, frazil.install):
    try:
        call(None)
    except errors.NotInstalledError as e:
        print(e)
"""
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert (
        done.stdout.count("pip install 'frazil[spark]'") == 4
        and "frazil.spark_session needs PySpark" in done.stdout
    )


def test_blank_names_are_refused_where_something_is_made(home, table):
    for make in (
        lambda: home.create_namespace(" "),
        lambda: home.create_namespace(("db", " \u00a0")),
        lambda: home.create_namespace_if_not_exists("\t"),
        lambda: home.create_table("db. ", "id int"),
        lambda: home.create_table((" ", "t"), "id int"),
        lambda: home.create_table("` `.t", "id int"),
        lambda: home.rename_table("db.t", "db. "),
        lambda: home.register_table("db. ", table.metadata_location),
        lambda: home.create_table_transaction("db. ", "id int"),
        lambda: frazil.load_catalog("p", type="memory").create_namespace(" "),
    ):
        with pytest.raises(InvalidInput, match="blank"):
            make()
    assert home.list_namespaces() == [("db",)] and home.list_tables("db") == [("db", "t")]


@pytest.mark.parametrize(
    "name",
    [
        "optimize",
        "compact",
        "vacuum",
        "expire_snapshots",
        "rewrite_data_files",
        "remove_orphan_files",
    ],
)
def test_maintenance_that_is_called_on_the_table_leads_to_its_procedure(table, name):
    with pytest.raises(NoSuchMethod) as refused:
        getattr(table, name)
    methods = re.findall(r"maintenance\.(\w+)\(", refused.value.hint)
    assert methods and all(callable(getattr(table.maintenance, method)) for method in methods)


def test_a_name_that_selects_a_time_leads_to_a_scan_that_runs(home, table):
    time_ms = table.current_snapshot().timestamp_ms
    with pytest.raises(Unsupported, match="selects a snapshot") as refused:
        frazil.load_table(f"db.t.at_timestamp_{time_ms}")
    assert f"scan(as_of={time_ms})" in refused.value.hint
    assert table.scan(as_of=time_ms).count() == 2
