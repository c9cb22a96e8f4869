"""`df.mergeInto` of a prepared session: PySpark's own API on Frazil's tables, by the grammar where
that is enough, by Spark's SQL elsewhere.
"""

import itertools
from decimal import Decimal
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import functions as F

import frazil
from frazil.dropin.merge_into import _plain
from frazil.errors import InvalidInput, Unsupported
from frazil.rows.clauses import matched_update
from frazil.spark.dml import merge_by_sql as row_changes_merge
from frazil.spec.schema import Schema
from frazil.spec.types import LongType, NestedField, StructType

pytestmark = pytest.mark.spark

_names = itertools.count()


@pytest.fixture
def catalog(spark, tmp_path):
    name = f"m{next(_names)}"
    spark.conf.set(f"spark.sql.catalog.{name}.type", "path")
    spark.conf.set(f"spark.sql.catalog.{name}.warehouse", str(tmp_path / "wh"))
    made = frazil.load_catalog(name, type="path", warehouse=str(tmp_path / "wh"))
    made.create_namespace("db")
    yield name, made
    spark.conf.unset(f"spark.sql.catalog.{name}.type")
    spark.conf.unset(f"spark.sql.catalog.{name}.warehouse")


@pytest.fixture
def table(catalog):
    t = catalog[1].create_table(
        "db.t", "id bigint, name string, v int", properties={"write.merge.mode": "merge-on-read"}
    )
    t.append(
        pa.table(
            {
                "id": pa.array(range(10), pa.int64()),
                "name": [f"n{i}" for i in range(10)],
                "v": pa.array(range(10), pa.int32()),
            }
        )
    )
    return t


@pytest.fixture
def name(catalog, table):
    return f"{catalog[0]}.db.t"


@pytest.fixture
def source(spark):
    return spark.range(8, 12).selectExpr(
        "id", "concat('s', id) as name", "cast(id * 10 as int) as v"
    )


@pytest.fixture
def by_spark(monkeypatch):
    """How often Spark's own SQL was needed."""
    calls = []
    own = row_changes_merge.merge

    def counted(*arguments, **named):
        calls.append(arguments[3])
        return own(*arguments, **named)

    monkeypatch.setattr(row_changes_merge, "merge", counted)
    return calls


def state(t):
    return {r["id"]: (r["name"], r["v"]) for r in t.refresh().scan().to_arrow().to_pylist()}


def start(n=10):
    return {i: (f"n{i}", i) for i in range(n)}


def test_an_upsert_by_columns_is_done_by_tasks(table, source, by_spark, name):
    source.mergeInto(
        name, source.id == F.col(f"{name}.id")
    ).whenMatched().updateAll().whenNotMatched().insertAll().merge()
    assert state(table) == {**start(8), **{i: (f"s{i}", i * 10) for i in range(8, 12)}}
    assert by_spark == [] and len(table.snapshots()) == 2


@pytest.mark.versions
def test_all_clauses_with_their_conditions(table, source, by_spark, name):
    (
        source.alias("src")
        .mergeInto(name, F.expr("t.id = src.id"))
        .whenMatched(F.col("src.id") == 8)
        .delete()
        .whenMatched()
        .update({"v": F.col("t.v") + F.col("src.v"), "t.name": F.lit("both")})
        .whenNotMatched(F.col("id") < 11)
        .insert({"id": F.col("id"), "name": F.upper("name")})
        .whenNotMatchedBySource(F.col("id") == 0)
        .delete()
        .whenNotMatchedBySource(F.col("t.id") == 1)
        .update({"name": F.lit("alone")})
        .merge()
    )
    expected = start()
    del expected[8], expected[0]
    assert state(table) == {**expected, 9: ("both", 99), 10: ("S10", None), 1: ("alone", 1)}
    assert by_spark == []


@pytest.mark.versions
def test_what_the_grammar_lacks_is_sparks(table, source, by_spark, name):
    twice = F.udf(lambda x: None if x is None else x * 2, "int")
    (
        source.mergeInto(name, (source["id"] == F.col("db.t.id")) & (F.soundex("t.name") == "N000"))
        .whenMatched()
        .update({"v": twice(source["v"])})
        .whenNotMatched(F.soundex("name") == "S000")
        .insert({"id": source.id, "v": F.levenshtein(F.lit("a"), F.lit("b"))})
        .whenNotMatchedBySource()
        .update({"name": F.soundex("name")})
        .merge()
    )
    assert state(table) == {
        **{i: ("N000", i) for i in range(8)},
        8: ("n8", 160),
        9: ("n9", 180),
        10: (None, 1),
        11: (None, 1),
    }
    assert len(by_spark) == 1


def test_a_frame_made_of_the_target_itself_may_be_the_source(spark, table, name):
    source = spark.table(name).alias("changes").filter("id > 7").withColumn("v", F.col("v") + 100)
    source.mergeInto(name, source.id == F.col("t.id")).whenMatched().updateAll().merge()
    assert state(table) == {**start(8), 8: ("n8", 108), 9: ("n9", 109)}


def test_schema_evolution_adds_columns_of_the_source(table, source, name):
    wide = source.withColumn("extra", F.lit(Decimal("1.50")))
    with pytest.raises(Exception, match="extra|column"):
        wide.mergeInto(name, F.expr("t.id = wide.id")).whenMatched().update(
            {"extra": F.lit(1)}
        ).merge()
    (
        wide.mergeInto(name, wide.id == F.col("t.id"))
        .whenMatched()
        .updateAll()
        .whenNotMatched()
        .insertAll()
        .withSchemaEvolution()
        .merge()
    )
    rows = {r["id"]: r["extra"] for r in table.refresh().scan().to_arrow().to_pylist()}
    assert rows[9] == Decimal("1.50") and rows[11] == Decimal("1.50") and rows[1] is None
    assert len(table.snapshots()) == 2


def test_a_branch_takes_a_merge(table, source, name):
    with table.manage_snapshots() as manage:
        manage.create_branch(table.current_snapshot().snapshot_id, "audit")
    source.mergeInto(
        f"{name}.branch_audit", source.id == F.col("t.id")
    ).whenMatched().delete().merge()
    assert state(table) == start()
    assert sorted(table.scan(branch="audit").to_arrow().column("id").to_pylist()) == list(range(8))


def test_ambiguous_matches_and_idle_merges_are_refused(table, source, spark, name):
    twice = source.union(source)
    with pytest.raises(InvalidInput, match="ambiguous.*id = 8"):
        twice.mergeInto(name, twice.id == F.col("t.id")).whenMatched().updateAll().merge()
    with pytest.raises(InvalidInput, match="ambiguous.*id = 8"):
        (
            twice.mergeInto(name, (twice.id == F.col("t.id")) & (F.soundex("t.name") == "N000"))
            .whenMatched()
            .updateAll()
            .merge()
        )
    with pytest.raises(InvalidInput, match="clause"):
        source.mergeInto(name, source.id == F.col("t.id")).merge()
    with pytest.raises(Unsupported, match="updateAll"):
        source.mergeInto(name, source.id == F.col("t.id")).whenNotMatchedBySource().updateAll()
    with pytest.raises(InvalidInput, match="nosuch"):
        source.mergeInto(name, F.col("nosuch") == F.col("t.id")).whenMatched().delete().merge()
    assert state(table) == start()


@pytest.mark.parametrize("named", ["t", "db.t"])
def test_a_name_within_the_current_catalog_and_namespace(spark, table, source, catalog, named):
    spark.sql(f"USE {catalog[0]}.db")
    try:
        merging = source.mergeInto(named, F.col("t.id") == source.id)
        merging.whenMatched().updateAll().whenNotMatched().insertAll().merge()
    finally:
        spark.sql("USE spark_catalog.default")
    expected = {i: i for i in range(8)} | {i: i * 10 for i in range(8, 12)}
    assert {r["id"]: r["v"] for r in table.refresh().to_arrow().to_pylist()} == expected


def test_merges_into_other_tables_stay_sparks(spark, source, tmp_path):
    spark.range(3).write.mode("overwrite").saveAsTable("plain_target")
    try:
        with pytest.raises(Exception, match="(?i)merge|unsupported"):
            source.mergeInto(
                "plain_target", source.id == F.col("plain_target.id")
            ).whenMatched().delete().merge()
    finally:
        spark.sql("drop table plain_target")


def test_names_of_assigned_columns_may_be_quoted_and_led_by_the_target():
    schema = Schema(
        NestedField(1, "a.b", LongType(), False),
        NestedField(2, "s", StructType(NestedField(3, "x y", LongType(), False)), False),
    )
    table: Any = SimpleNamespace(schema=lambda: schema)
    names = {
        "`a.b`": "`a.b`",
        "db.t.`a.b`": "`a.b`",
        "t.`s`.`x y`": "s.`x y`",
        "s.`x y`": "s.`x y`",
    }
    for given, meant in names.items():
        clause = _plain(matched_update({given: 1}), ["cat", "db", "t"], table)
        assert clause.assignments == ((meant, 1),)
