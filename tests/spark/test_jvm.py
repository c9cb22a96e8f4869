"""Spark's inside as Frazil calls it: every name of the `spark.host.jvm` files is there in this
Spark, and where one is gone rows are the same.
"""

import ast
import contextlib
import functools
import logging
import os
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import ParseException
from pyspark.sql import functions as F
from pyspark.sql import types as s

from frazil.errors import Unsupported
from frazil.spark.deletes import one_bitmap as one_array
from frazil.spark.dml.small_source import collect
from frazil.spark.host import fall_back, jvm, jvm_plans, jvm_reads, jvm_views
from frazil.spark.host import session as host_session
from frazil.spark.host.interruptible import interruptible
from frazil.spark.read import view_refresh
from frazil.spark.scan import planned_files
from frazil.spark.streams.sink import key_shuffle
from frazil.spark.streams.sink.partition_commits import batch_watermark
from tests.builders.spark_frames import ids

pytestmark = pytest.mark.spark


@pytest.fixture
def warnings(monkeypatch, caplog):
    """Return the warnings about parts of Spark that differ from what Frazil expects."""
    monkeypatch.setattr(fall_back, "_WARNED", set())
    caplog.set_level(logging.WARNING, "frazil")
    return lambda: [
        r.getMessage()
        for r in caplog.records
        if "differs from what Frazil expects" in r.getMessage()
    ]


HOST = Path(jvm.__file__).parent
LEADS_TO = {  # by the name of a package or class, a class that must be there
    "jvm.SPARK": jvm.SPARK + "sql.SparkSession", "jvm.CATALYST": jvm.CATALYST + "InternalRow", "jvm.EXPRESSIONS": jvm.EXPRESSIONS + "Cast",
    "jvm_reads.ANSWERS": jvm_reads.ANSWERS,
}  # fmt: skip
# What serves SQL is called by Spark, on threads of its own: the statements of tests/sql run it, on
# each Spark.
OF_SQL = {
    "jvm_catalog", "jvm_changes", "jvm_classes", "jvm_errors", "jvm_functions", "jvm_parser", "jvm_relations", "jvm_statements",
    "jvm_stars", "jvm_subqueries", "jvm_trees", "jvm_view_statements",
    "jvm_servers", "jvm_sources",  # of a server, once in a JVM: tests/cli/test_serve.py runs it in a process of its own
}  # fmt: skip
BY_SQL = {
    "jvm.session_key", "jvm.settings_held", "jvm.some", "jvm.thread_key", "jvm_plans.holds_subquery", "jvm_plans.session_frame", "jvm_views.is_temporary_view",
    "jvm_plans.arrow_batches", "jvm_plans.hiding", "jvm_plans.subqueries_of", "jvm_plans.taking_nulls", "jvm_subqueries.with_constants",
    "jvm_plans.with_definitions", "jvm_views.Rule.apply", "jvm_views.Rule.applyOrElse", "jvm_views.Rule.isDefinedAt",
}  # fmt: skip
# Tests of partition commit and of rewound streams have these.
IN_A_RUNNING_QUERY = {
    "jvm_plans.batch_watermark_ms",
    "jvm_plans.checkpoint_of",
    "jvm_plans.running_query",
    "jvm_plans.query_of_client",
    "jvm_plans.sends_changes",
    "jvm_plans.has_read_all",
    "jvm_reads.read_text",
}
OF_HADOOP_AWS = {
    f"jvm_reads.{name}"
    for name in ("S3A_FILE_SYSTEM", "S3A_ANONYMOUS", "S3A_KEYS", "S3A_SESSION_KEYS")
}


def names_of_the_jvm_files():
    """List the public functions, methods and properties of the files that touch the JVM, and the
    names of packages and classes there.
    """
    functions, places = set(), set()
    for file in (f for f in HOST.glob("jvm*.py") if f.stem not in OF_SQL):
        for node in ast.parse(file.read_text()).body:
            inside = node.body if isinstance(node, ast.ClassDef) else []
            named = [(node, ""), *((n, f"{node.name}.") for n in inside)]
            functions |= {
                f"{file.stem}.{prefix}{n.name}"
                for n, prefix in named
                if isinstance(n, ast.FunctionDef)
            }
            if isinstance(node, ast.Assign) and not isinstance(node.value, ast.Tuple):
                places |= {f"{file.stem}.{t.id}" for t in node.targets if isinstance(t, ast.Name)}
    return [{name for name in names if "._" not in name} for names in (functions, places)]


@contextlib.contextmanager
def recording_calls_of_the_jvm_files():
    """Collect the names of the functions of these files that this thread calls inside the block."""
    called, files = set(), {str(f) for f in HOST.glob("jvm*.py")}

    def record(frame, event, _):
        if event == "call" and frame.f_code.co_filename in files:
            called.add(f"{Path(frame.f_code.co_filename).stem}.{frame.f_code.co_qualname}")

    before = sys.getprofile()
    sys.setprofile(record)
    try:
        yield called
    finally:
        sys.setprofile(before)


@pytest.mark.versions
def test_every_name_of_the_jvm_files_is_called_and_is_there_in_this_spark(session, tmp_path):
    functions, places = names_of_the_jvm_files()
    jvm.classic_column.cache_clear()
    held = jvm.jvm_of(session)
    for name in [
        n for n, value in vars(type(held)).items() if isinstance(value, functools.cached_property)
    ]:
        vars(held).pop(name, None)  # an earlier test may have looked it up
    with recording_calls_of_the_jvm_files() as called:
        call_the_session(session)
        call_plans(session)
        call_filters_and_the_text_of_queries(session)
        call_temporary_views(session)
        call_reads(session, tmp_path)
    assert len(functions) > 70 and sorted(functions - called - BY_SQL) == sorted(IN_A_RUNNING_QUERY)
    assert {*LEADS_TO, *OF_HADOOP_AWS} == places and all(
        jvm.class_is_loaded(session, name) for name in LEADS_TO.values()
    )


def call_the_session(session):
    host = jvm.jvm_of(session)
    assert jvm.context_of(session) is session.sparkContext
    assert (
        host is jvm.jvm_of(session)
        and jvm.is_classic(session.range(1))
        and not jvm.is_stopped(session)
    )
    assert isinstance(host, jvm.Jvm) and host.view is session._jvm
    assert (
        jvm.default_parallelism(session) == 2
        and jvm.running_tasks(session) == 0
        and jvm.largest_heap(session) > 0
    )
    assert jvm.class_is_loaded(
        session, "org.apache.spark.sql.SparkSession"
    ) and not jvm.class_is_loaded(session, "org.nowhere.Thing")
    assert jvm_reads.has_file_system(session, "file") and not jvm_reads.has_file_system(
        session, "spork"
    )
    assert jvm_reads.hadoop_settings(session, ["fs.defaultFS", "fs.none"]) == {
        "fs.defaultFS": "file:///"
    }
    assert jvm_reads.hadoop_version(session).startswith("3.")
    # hadoop-aws does not come with PySpark: its names are tried where it is on the class path
    # (tests/spark/read/test_s3_scan.py)
    assert not jvm.class_is_loaded(session, jvm_reads.S3A_FILE_SYSTEM)
    assert (
        list(host.texts(["a", "b"])) == ["a", "b"]
        and host.map({"k": "v"}).get("k") == "v"
        and host.map({"k": "v"}) is host.map({"k": "v"})
    )
    assert list(host.from_json(["a\nb", "", "é"], "[Ljava.lang.String;")) == ["a\nb", "", "é"]
    other = jvm.session_of(session, session._jsparkSession.newSession())
    assert other.range(1).count() == 1 and other._jsparkSession is not session._jsparkSession
    assert (
        jvm.texts_of_seq(jvm.scala_seq(session, ["a", "b"])) == ("a", "b")
        and jvm.texts_of_seq(jvm.scala_seq(session, [])) == ()
    )
    assert (
        jvm.text_pairs(session._jvm, host.map({"k": "v", "l": ""})) == {"k": "v", "l": ""}
        and jvm.text_pairs(session._jvm, host.map({})) == {}
    )
    assert host.thread_id() > 0 and str(host.skip.toString()) == "SKIP"
    assert jvm.no_option(session).isEmpty() and list(
        jvm.each(jvm.scala_seq(session, ["a", "b"]))
    ) == ["a", "b"]
    set_here = session.conf.getAll() if callable(session.conf.getAll) else session.conf.getAll
    assert jvm.settings_of(session) == set_here
    copies = jvm.SessionCopies(session, host)
    copy = copies.with_settings({"spark.sql.shuffle.partitions": "7"})
    assert (
        copy.sessionState().conf().numShufflePartitions() == 7
        and copies.with_settings({"spark.sql.shuffle.partitions": "7"}) is copy
    )
    assert copies.are_current(session)
    session.conf.set("spark.sql.frazil.test", "1")
    assert not copies.are_current(session)
    session.conf.unset("spark.sql.frazil.test")
    jvm.set_active(session, host)
    fewest = "spark.sql.adaptive.coalescePartitions.minPartitionNum"
    for value in ("7", None):
        jvm.set_settings(session, {fewest: value})
        assert session.conf.get(fewest, None) == jvm.setting(session, fewest) == value
    assert jvm.setting(session, fewest, "8") == "8"
    assert jvm.setting_or_own(session, "spark.sql.session.timeZone")
    assert (
        jvm.has_jvm()
        and jvm.jvm_property("java.version")
        and jvm.jvm_property("frazil.none") is None
    )
    assert jvm.running_context() is session.sparkContext and (jvm.spark_home() / "jars").is_dir()


def call_plans(session):
    frame = session.range(3)
    packages = (
        jvm.EXPRESSIONS,
        jvm.CATALYST + "plans.logical.",
        jvm.CATALYST + "analysis.",
        jvm.SPARK + "sql.execution.datasources.v2.",
    )
    assert jvm.CATALYST.startswith(jvm.SPARK)
    for kind in jvm_plans.NodeKind:
        assert any(jvm.class_is_loaded(session, package + kind) for package in packages), kind
    assert jvm_plans.frame_of(session, jvm_plans.analysed_plan(frame)).count() == 3
    assert (
        jvm_plans.frame_of(session, jvm_plans.written_plan(frame)).count() == 3
        and jvm_plans.estimated_bytes(frame) == 24
    )
    assert not jvm_plans.has_watermark(frame)
    parser = session._jsparkSession.sessionState().sqlParser()
    insert = parser.parsePlan("INSERT OVERWRITE t SELECT 1")
    assert insert.overwrite() and not jvm_plans.with_fields(insert, overwrite=False).overwrite()
    (id_,) = jvm_plans.selected_expressions(frame.select("id"))
    assert jvm_plans.kind_of(id_) == "AttributeReference"
    assert (
        frame.select((jvm_plans.column_of(session, id_) + 1).alias("n")).agg(F.sum("n")).first()[0]
        == 6
    )
    assert isinstance(F.col("id"), jvm.classic_column()) and frame.select(
        jvm_plans.output_column(frame, 0)
    ).columns == ["id"]
    assert jvm_plans.aliased(frame, ["db", "t"]).select("db.t.id").columns == ["id"]
    like, wider = frame.toDF("n"), session.range(4).selectExpr("id", "id + 1 as m")
    renamed = jvm_plans.with_columns_of(wider, like)
    assert renamed.columns == ["n", "m"] and jvm_plans.output_ids(renamed)[
        :1
    ] == jvm_plans.output_ids(like)
    assert renamed.select(like.n).count() == 4
    held = jvm.jvm_of(session)
    named = frame.select(
        held.renamed(held.column("`id`"), "i"),
        held.renamed(held.column("`id`", barrier=True), "d", "the doc"),
    )
    assert frame.select(held.renamed(F.col("id") + 1, "x")).columns == ["x"]
    assert jvm_plans.with_names(frame, ["x"]).columns == ["x"]
    none = jvm_plans.empty_plan(session, frame.schema)
    assert (
        jvm_plans.empty_plan(session, frame.schema) is none
        and jvm_plans.frame_of(session, none).count() == 0
    )
    empty = jvm_plans.empty_frame(session, frame.schema)
    assert empty.schema == frame.schema and jvm_plans.analysed_plan(empty).sameResult(none)
    assert (
        jvm_plans.frame_of(session, jvm_plans.aliased_plan(session, none, ["db", "t"]))
        .select("db.t.id")
        .schema
        == frame.schema
    )
    columns = jvm_plans.plan_columns(session, jvm_plans.analysed_plan(wider))
    assert [name for _, name in columns] == wider.columns
    assert named.columns == ["i", "d"] and [tuple(r) for r in named.collect()] == [
        (0, 0.0),
        (1, 1.0),
        (2, 2.0),
    ]

    selected = frame.selectExpr("id + 1 as a", "rand() as b", "hash(id)")
    assert jvm_plans.are_deterministic(selected) == [True, False, True] and jvm_plans.is_row_by_row(
        selected, frame
    )
    assert not jvm_plans.is_row_by_row(frame.selectExpr("sum(id)"), frame)
    plus, random, _ = jvm_plans.selected_expressions(selected)
    assert jvm_plans.has_references(plus) and not jvm_plans.has_references(random)
    (number,) = jvm_plans.output_ids(frame)
    both = jvm_plans.filter_condition(frame.where("id > 1 and id < 3"))
    assert [jvm_plans.kind_of(e) for e in jvm_plans.conjuncts(both)] == ["GreaterThan", "LessThan"]
    narrower = session.range(3).selectExpr("id", "id + 1 as m")
    assert jvm_plans.filter_condition(narrower.select("id").where(narrower.m > 1)) is None
    other = session.range(3).selectExpr("cast(id as int) as n", "cast(id as string) as t")
    joined = frame.join(
        other, (frame.id == other.n) & F.col("id").eqNullSafe(F.col("id")) & (F.col("t") == "1")
    )
    n, _ = jvm_plans.output_ids(other)
    assert list(jvm_plans.equalities(jvm_plans.join_condition(joined))) == [
        (number, n, False),
        (number, number, True),
    ]
    (condition,) = jvm.each(
        jvm_plans.analysed_plan(session.range(1).where("exists (select 1)")).expressions()
    )
    assert jvm_plans.is_subquery(session, condition) and not jvm_plans.is_subquery(session, plus)
    assert jvm_plans.can_up_cast(session, '"integer"', '"long"') and not jvm_plans.can_up_cast(
        session, '"long"', '"integer"'
    )
    assert [
        jvm_plans.parsed_kind(session, x) for x in ("id + 1", "id n", "explode(m) as (k, v)")
    ] == ["Add", "Alias", "MultiAlias"]


def call_filters_and_the_text_of_queries(session):
    rows = session.sql(
        "select 1 as n, named_struct('m', 2) as s, timestamp'2026-01-02 03:04:05' as t"
    )
    where = jvm_plans.filter_condition(
        rows.where("s.m = 2 and cast(t as date) > date'1970-01-03' and n is not null")
    )
    assert len(list(jvm_plans.conjuncts(where))) == 3

    sql = (
        "with x as (select * from db.a) select * from x join b as c on exists (select 1 from `d.e`)"
    )
    tables = set(jvm_plans.named_tables(session, jvm_plans.parsed_query(session, sql)))
    assert tables == {
        jvm_plans.NamedTable(sql.index("db.a"), ("db", "a"), False),
        jvm_plans.NamedTable(sql.index("b as c"), ("b",), True),
        jvm_plans.NamedTable(sql.index("`d.e`"), ("d.e",), False),
    }
    with pytest.raises(ParseException):
        jvm_plans.parsed_query(session, "drop table t")


class Seven(jvm_views.NumberedTag):
    """Stand for an object of this process that the JVM calls."""


def call_temporary_views(session):
    host, frame = jvm.jvm_of(session), session.range(3)
    frame.createOrReplaceTempView("jvm_view")
    views = jvm_views.TemporaryViews(session, host)
    (view,) = [v for v in views if v.name == "jvm_view"]
    assert (
        isinstance(view, jvm_views.TemporaryView)
        and view.plan.getClass() == jvm_plans.written_plan(frame).getClass()
    )
    assert view.quoted == "`jvm_view`"
    views.replace(view, jvm_plans.written_plan(session.range(5)))
    cache = jvm_views.SparkCache(session, host)
    assert cache.is_empty and cache.named() == [] and cache.of_frame(view.quoted) is None
    level = cache.frame(view.quoted).storageLevel()
    session.table("jvm_view").cache()
    found = cache.of_frame(view.quoted)
    assert isinstance(found, jvm_views.CachedRows) and found.name == view.quoted
    cache.remove(found)
    cache.add(view.quoted, cache.frame(view.quoted), found.level)
    (named,) = cache.named()
    assert named.name == view.quoted and named.level == found.level != level
    assert cache.holds(named.plan) and not cache.holds(jvm_plans.written_plan(session.range(6)))
    assert session.table("jvm_view").count() == 5 and session.catalog.isCached("jvm_view")
    session.catalog.uncacheTable("jvm_view")
    jvm_views.drop_temporary_view(session, "jvm_view")
    assert not session.catalog.tableExists("jvm_view")

    tags, plan = jvm_views.PlanTags(host, "frazil.test"), jvm_plans.analysed_plan(frame)
    assert tags.number(plan) is None
    jvm.listen(session)
    tags.set(session, plan, Seven(7))
    assert tags.number(plan) == Seven(7).getAsInt() == 7
    assert tags.parts(session, plan) == ([7], False)
    assert (
        jvm_views.NumberedTag.Java.implements
        == jvm.implementing("java.util.function.IntSupplier").implements
    )
    under = tags.under_columns_of(plan, jvm_plans.analysed_plan(session.range(2)))
    assert jvm_plans.output_ids(jvm_plans.frame_of(session, under)) == jvm_plans.output_ids(frame)
    with pytest.raises(ValueError, match="column id is gone"):
        tags.under_columns_of(plan, jvm_plans.analysed_plan(session.range(2).toDF("other")))
    filtered = jvm_plans.analysed_plan(frame.where("id > 0"))
    exchanged = jvm_views.rewritten(
        filtered, lambda node: under if tags.number(node) == 7 else node
    )
    assert jvm_plans.frame_of(session, exchanged).count() == 1


def call_reads(session, tmp_path):
    host = jvm.jvm_of(session)
    numbers = jvm_reads.array_frame(
        session,
        host,
        s.StructType([s.StructField("n", s.ArrayType(s.LongType(), False), False)]),
        np.array([1, -2, 2**62]),
    )
    assert numbers.first()["n"] == [1, -2, 2**62]
    pq.write_table(pa.table({"id": [1, 2]}), tmp_path / "a.parquet")
    path, size = f"{tmp_path}/a.parquet", (tmp_path / "a.parquet").stat().st_size
    answers = planned_files.FileAnswers(
        str(tmp_path), [path], [size], [2], [9], planned_files.NoPruning()
    )
    columns = s.StructType([s.StructField("id", s.LongType())]), planned_files.CONSTANTS
    names = answers.identity, answers.title, str(tmp_path), answers.telling
    scanned = jvm_reads.scan_of(session, session._jsparkSession, columns, names, {}, answers)
    assert sorted(map(tuple, scanned.collect())) == [(1, 9, path), (2, 9, path)]


@pytest.mark.versions
def test_partitions_are_committed_a_batch_later_when_the_watermark_of_a_batch_is_told_otherwise(
    session, tmp_path, warnings
):
    for n in range(3):
        (tmp_path / f"{n}.json").write_text(f'{{"t": "2026-01-0{n + 1}T00:00:00Z"}}')
        os.utime(tmp_path / f"{n}.json", (n + 1, n + 1))  # by which Spark orders them
    stream = (
        session.readStream.schema("t timestamp").option("maxFilesPerTrigger", 1).json(str(tmp_path))
    )
    assert not jvm_plans.has_watermark(stream) and jvm_plans.has_watermark(
        stream.withWatermark("t", "0 seconds")
    )
    known, told = [], []

    def at_batch(batch, _):
        query = next(q for q in session.streams.active)
        known.append(jvm_plans.batch_watermark_ms(query))
        assert batch_watermark(session, query.id) == (known[-1] or None)
        changed = SimpleNamespace(
            _jsq=session._jvm.java.util.HashMap(), lastProgress=query.lastProgress
        )
        with pytest.raises(jvm.NOT_AS_KNOWN):
            jvm_plans.batch_watermark_ms(changed)
        batch.collect()  # by which Spark sees the times of its rows
        told.append(
            batch_watermark(
                SimpleNamespace(streams=SimpleNamespace(get=lambda _: changed)), query.id
            )
        )

    write = (
        stream.withWatermark("t", "0 seconds")
        .writeStream.foreachBatch(at_batch)
        .trigger(availableNow=True)
    )
    write.option("checkpointLocation", str(tmp_path / "checkpoint")).start().awaitTermination()
    day = 86_400_000
    assert [b - known[1] for b in known[1:]] == [0, day] and known[0] == 0
    # asked of another class, it is the one of the batch before
    assert told == [
        None,
        None,
        known[1],
    ]
    (said,) = warnings()
    assert (
        said.startswith("The watermark of a batch")
        and "committed a batch later" in said
        and "slower" not in said
    )


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
def test_rows_are_the_same_when_planned_files_do_not_compile(
    session, catalog, warnings, monkeypatch, version
):
    t = table(catalog, format_version=version)
    assert rows(t, session) == EXPECTED and not warnings()

    def closed(*_):
        raise Unsupported("ParquetFiles does not compile on this Spark")

    monkeypatch.setattr(jvm_reads.jvm_classes, "make", closed)
    assert rows(t, session) == rows(t, session) == EXPECTED
    (said,) = warnings()
    assert "The scan of planned files" in said and "does not compile" in said


@pytest.mark.versions
def test_rows_are_the_same_when_local_relations_are_made_otherwise(
    session, catalog, warnings, monkeypatch
):
    t = table(catalog)
    assert rows(t, session) == EXPECTED and not warnings()
    monkeypatch.setattr(jvm_reads, "CATALYST", "org.nowhere.")
    calls = []
    monkeypatch.setattr(
        one_array,
        "array_frame",
        lambda *a, real=one_array.array_frame: (calls.append(a), real(*a))[1],
    )
    # it was asked for, and went another way
    assert rows(t, session) == rows(t, session) == EXPECTED and len(calls) == 2
    (said,) = warnings()
    assert "A local relation" in said


@pytest.mark.versions
def test_rows_are_the_same_and_views_stay_when_plans_are_tagged_otherwise(
    session, catalog, warnings, monkeypatch
):
    t = table(catalog)
    assert rows(t, session) == EXPECTED and not warnings()
    monkeypatch.setattr(view_refresh, "_KNOWN", {})
    monkeypatch.setattr(jvm_views, "CATALYST", "org.nowhere.")
    t.to_spark(session).createOrReplaceTempView("not_followed")
    assert rows(t, session) == EXPECTED
    t.append(pa.table({"id": [100], "v": ["new"]}))
    assert (
        rows(t, session) == [*EXPECTED, 100]
        and ids(session.table("not_followed").where("id >= 5")) == EXPECTED
    )
    (said,) = warnings()
    assert (
        said.startswith("The tag of a plan")
        and "Temporary views keep the rows" in said
        and "slower" not in said
    )
    session.catalog.dropTempView("not_followed")


@pytest.mark.versions
def test_jobs_run_in_the_calling_thread_when_a_thread_gets_its_session_otherwise(
    session, catalog, warnings, monkeypatch
):
    t = table(catalog)
    t.append(session.range(30, 32).selectExpr("id", "'v' as v"))
    assert not warnings()
    monkeypatch.setattr(jvm, "SPARK", "org.nowhere.")  # where the class of sessions is looked for
    ran_in = []
    assert interruptible(
        session, lambda: ran_in.append(threading.current_thread()) or 7
    ) == 7 and ran_in == [threading.main_thread()]
    t.append(session.range(32, 34).selectExpr("id", "'v' as v"))
    assert rows(t, session) == [*EXPECTED, 30, 31, 32, 33]
    (said,) = warnings()
    assert said.startswith("The active session of a thread") and "Ctrl-C" in said


@pytest.mark.versions
def test_small_frames_are_treated_as_large_ones_when_sizes_are_told_otherwise(
    session, tmp_path, warnings, monkeypatch
):
    frame = session.range(4)
    assert (
        collect(frame, str(tmp_path)).table.num_rows == 4
        and key_shuffle._few_tasks(frame) == 2
        and not warnings()
    )
    asked = []

    def otherwise(frame):
        asked.append(frame)
        return frame._jdf.queryExecution().noSuchMethod()

    monkeypatch.setattr(host_session, "estimated_bytes", otherwise)
    assert (
        collect(frame, str(tmp_path)) is None
        and key_shuffle._few_tasks(frame) is None
        and len(asked) == 2
    )
    (said,) = warnings()
    assert said.startswith("The estimated size of a frame") and "as if they were large" in said
