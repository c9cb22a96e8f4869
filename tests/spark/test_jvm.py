"""Spark's inside as Frazil calls it: every name of `spark.host.jvm` is there in this Spark, and where one is gone rows are the same."""

from __future__ import annotations

import logging

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import functions as F
from pyspark.sql import types as s

from frazil.spark.deletes import one_array
from frazil.spark.host import fall_back, hadoop, jvm
from frazil.spark.scan import file_index, pushed
from tests.builders.spark_frames import ids

pytestmark = pytest.mark.spark


@pytest.fixture
def warnings(monkeypatch, caplog):
    """Return the warnings about parts of Spark that differ from what Frazil expects."""
    monkeypatch.setattr(fall_back, "_WARNED", set())
    caplog.set_level(logging.WARNING, "frazil")
    return lambda: [r.getMessage() for r in caplog.records if "differs from what Frazil expects" in r.getMessage()]


class Seven:
    class Java:
        implements = ["java.util.function.IntSupplier"]

    def getAsInt(self):
        return 7


@pytest.mark.versions
def test_every_call_of_the_jvm_is_there_in_this_spark(session, tmp_path):
    host = jvm.jvm_of(session)
    assert host is jvm.jvm_of(session) and jvm.is_classic(session.range(1)) and not jvm.is_stopped(session)
    assert jvm.default_parallelism(session) == 2 and jvm.running_tasks(session) == 0 and jvm.largest_heap(session) > 0
    assert jvm.class_is_loaded(session, "org.apache.spark.sql.SparkSession") and not jvm.class_is_loaded(session, "org.nowhere.Thing")
    assert hadoop.has_file_system(session, "file") and not hadoop.has_file_system(session, "spork")
    assert hadoop.hadoop_settings(session, ["fs.defaultFS", "fs.none"]) == {"fs.defaultFS": "file:///"}
    assert hadoop.hadoop_version(session).startswith("3.")
    assert jvm.can_up_cast(session, '"integer"', '"long"') and not jvm.can_up_cast(session, '"long"', '"integer"')
    (condition,) = jvm.each(jvm.analysed_plan(session.range(1).where("exists (select 1)")).expressions())
    assert jvm.is_subquery(session, condition)
    assert (
        list(host.texts(["a", "b"])) == ["a", "b"] and host.map({"k": "v"}).get("k") == "v" and host.map({"k": "v"}) is host.map({"k": "v"})
    )

    frame = session.range(3)
    assert jvm.frame_of(session, jvm.analysed_plan(frame)).count() == 3
    (id_,) = jvm.each(jvm.analysed_plan(frame).output())
    assert frame.select((jvm.column_of(session, id_) + 1).alias("n")).agg(F.sum("n")).first()[0] == 6
    catalyst, no_option = jvm.catalyst(session), jvm.no_option(session)
    alias = catalyst.expressions.Alias(id_, "n", id_.exprId(), id_.qualifier(), no_option, jvm.scala_seq(session, []))
    project = catalyst.plans.logical.Project(jvm.scala_seq(session, [alias]), jvm.analysed_plan(frame))
    name = catalyst.AliasIdentifier("t", jvm.scala_seq(session, ["db"]))
    assert jvm.frame_of(session, catalyst.plans.logical.SubqueryAlias(name, project)).select("db.t.n").columns == ["n"]
    assert [jvm.parsed_kind(session, x) for x in ("id + 1", "id n", "explode(m) as (k, v)")] == ["Add", "Alias", "MultiAlias"]
    named = frame.select(host.named_column("`id`", "i", False), host.named_column("`id`", "d", True))
    assert named.columns == ["i", "d"] and [tuple(r) for r in named.collect()] == [(0, 0.0), (1, 1.0), (2, 2.0)]

    set_here = session.conf.getAll() if callable(session.conf.getAll) else session.conf.getAll
    assert jvm.settings_of(session) == set_here
    copies = jvm.SessionCopies(session, host)
    copy = copies.with_settings({"spark.sql.shuffle.partitions": "7"})
    assert copy.sessionState().conf().numShufflePartitions() == 7 and copies.with_settings({"spark.sql.shuffle.partitions": "7"}) is copy
    assert copies.are_current(session)
    session.conf.set("spark.sql.frazil.test", "1")
    assert not copies.are_current(session)
    session.conf.unset("spark.sql.frazil.test")

    jvm.set_active(session, host)
    fewest = "spark.sql.adaptive.coalescePartitions.minPartitionNum"
    assert jvm.put_setting(session, fewest, "7") and session.conf.get(fewest, None) == "7"
    assert jvm.put_setting(session, fewest, None) and session.conf.get(fewest, None) is None
    assert jvm.has_jvm() and jvm.jvm_property("java.version") and jvm.jvm_property("frazil.none") is None
    assert jvm.running_context() is session.sparkContext and (jvm.spark_home() / "jars").is_dir()
    frame.createOrReplaceTempView("jvm_view")
    views = jvm.TemporaryViews(session, host)
    (view,) = [v for v in views if v.name == "jvm_view"]
    assert (view.quoted, views.cached(view)) == ("`jvm_view`", None)
    session.catalog.cacheTable("jvm_view")
    cached = views.cached(view)
    assert cached.by_name and not views.nothing_is_cached
    views.uncache(cached)
    views.replace(view, jvm.written_plan(session.range(5)))
    views.cache_again(cached)
    assert session.table("jvm_view").count() == 5 and session.catalog.isCached("jvm_view")
    session.catalog.dropTempView("jvm_view")
    tags, plan = jvm.PlanTags(host, "frazil.test"), jvm.analysed_plan(frame)
    assert tags.get(plan) is None
    tags.set(session, plan, Seven())
    assert tags.get(plan).getAsInt() == 7
    under = tags.under_columns_of(plan, jvm.analysed_plan(session.range(2)))
    assert [c.exprId().id() for c in jvm.each(under.output())] == [c.exprId().id() for c in jvm.each(plan.output())]
    with pytest.raises(ValueError, match="column id is gone"):
        tags.under_columns_of(plan, jvm.analysed_plan(session.range(2).toDF("other")))

    numbers = jvm.array_frame(
        session, host, s.StructType([s.StructField("n", s.ArrayType(s.LongType(), False), False)]), np.array([1, -2, 2**62])
    )
    assert numbers.first()["n"] == [1, -2, 2**62]
    relations = jvm.ParquetRelations(host, file_index.FileIndex, "number")
    assert relations.numbers.fieldNames()[0] == "number" and relations.no_columns.length() == 0
    assert relations.path(f"file:{tmp_path}").apply(0).toString() == f"file:{tmp_path}" and relations.listing("[]").size() == 0


def table(catalog, name="db.t", **options):
    catalog.create_namespace_if_not_exists("db")
    t = catalog.create_table(name, "id long, v string", **options)
    for n in range(3):
        t.append(pa.table({"id": range(n * 10, n * 10 + 10), "v": [f"v{i}" for i in range(10)]}))
    t.delete("id % 5 = 2", mode="merge-on-read", runner="in-process")
    return t


def rows(t, session, where="id >= 5"):
    return ids(t.to_spark(session).where(where))


EXPECTED = [i for i in range(5, 30) if i % 5 != 2]


@pytest.mark.versions
@pytest.mark.parametrize("version", [2, 3])
def test_rows_are_the_same_when_the_file_index_has_a_method_more(session, catalog, warnings, monkeypatch, version):
    t = table(catalog, format_version=version)
    assert rows(t, session) == EXPECTED and not warnings()
    monkeypatch.setattr(file_index, "_KNOWN", {})
    monkeypatch.delattr(file_index.FileIndex, "sizeInBytes")
    assert rows(t, session) == rows(t, session) == EXPECTED
    (said,) = warnings()
    assert "The file index" in said and "sizeInBytes" in said


@pytest.mark.versions
def test_rows_are_the_same_when_local_relations_are_made_otherwise(session, catalog, warnings, monkeypatch):
    t = table(catalog)
    assert rows(t, session) == EXPECTED and not warnings()
    monkeypatch.setattr(jvm, "_CATALYST", "org.nowhere.")
    calls = []
    monkeypatch.setattr(one_array, "array_frame", lambda *a, real=one_array.array_frame: (calls.append(a), real(*a))[1])
    assert rows(t, session) == rows(t, session) == EXPECTED and len(calls) == 2  # it was asked for, and went another way
    (said,) = warnings()
    assert "A local relation" in said


@pytest.mark.versions
def test_rows_are_the_same_when_filters_are_told_otherwise(session, catalog, warnings, monkeypatch):
    t = table(catalog)

    class Otherwise(pushed._CatalystReader):
        def node(self, path):
            raise KeyError("class")

    monkeypatch.setattr(pushed, "_CatalystReader", Otherwise)
    assert rows(t, session) == rows(t, session) == EXPECTED
    (said,) = warnings()
    assert "filters" in said
