"""The doors of PySpark and of the JVM to the catalogs that Frazil serves: sessions, settings,
spark.table, spark.catalog, threads, errors.
"""

import gc
import pickle
import threading
import time

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException, SparkRuntimeException
from pyspark.sql import functions as F

import frazil
from frazil.errors import (
    FrazilError,
    InvalidInput,
    NoSuchRefError,
    NoSuchTableError,
    NoSuchViewError,
    ParseError,
    SchemaMismatch,
    TableAlreadyExistsError,
    Unsupported,
)
from frazil.spark.catalog.catalog import ServedCatalog
from frazil.spark.catalog.proxy import SparkProxy
from frazil.spark.host.jvm import class_is_loaded
from frazil.spark.host.jvm_relations import HAS_VIEWS

pytestmark = pytest.mark.spark


@pytest.fixture
def t(run, table_of):
    run("CREATE TABLE lake.db.t (id BIGINT, s STRING) USING iceberg")
    run("INSERT INTO lake.db.t VALUES (1, 'a'), (2, 'b')")
    return table_of("db.t")


@pytest.mark.versions
def test_pyspark_methods_answer_for_a_catalog_of_frazils(spark, lake, t):
    name, catalog = f"{lake}.db.t", spark.catalog
    assert spark.table(name).count() == spark.read.table(name).count() == 2
    if spark.version >= "4.3":
        # earlier ones cannot hide columns, and a DataFrame does not tell which it will name
        assert spark.table(name).select("_pos", "id").filter("_pos = 0").count() == 2
    assert [row.name for row in catalog.listTables(f"{lake}.db")] == ["t"]
    assert [column.name for column in catalog.listColumns(name)] == ["id", "s"]
    assert catalog.getTable(name).name == "t" and catalog.getDatabase(f"{lake}.db").name == "db"
    assert catalog.tableExists(name) and not catalog.tableExists(f"{lake}.db.no")
    assert catalog.databaseExists(f"{lake}.db") and not catalog.databaseExists(f"{lake}.no")
    catalog.cacheTable(name)
    assert catalog.isCached(name)
    catalog.uncacheTable(name)
    assert not catalog.isCached(name)
    assert lake in [row.name for row in catalog.listCatalogs()]
    catalog.setCurrentCatalog(lake)
    catalog.setCurrentDatabase("db")
    assert (catalog.currentCatalog(), catalog.currentDatabase()) == (lake, "db")
    assert spark.table("t").count() == 2 and catalog.tableExists("t")


@pytest.mark.versions
def test_what_is_cached_by_a_name_serves_sql_and_dataframes(spark, lake, t):
    name = f"{lake}.db.t"

    def from_cache(frame):
        return "InMemoryRelation" in frame._jdf.queryExecution().withCachedData().toString()

    caching = (
        lambda: spark.sql(f"CACHE TABLE {name}"),
        lambda: spark.catalog.cacheTable(name),
    )
    for number, cache in enumerate(caching, 3):
        cache()
        assert spark.catalog.isCached(name)
        assert from_cache(spark.table(name)) and from_cache(spark.sql(f"TABLE {name}"))
        spark.sql(f"INSERT INTO {name} VALUES ({number}, 'c')")
        assert spark.catalog.isCached(name) and spark.table(name).count() == number
        spark.catalog.uncacheTable(name)
        assert not spark.catalog.isCached(name) and not from_cache(spark.table(name))
    if spark.version >= "4.3":
        frame = spark.table(name).cache()
        assert frame.select("_pos").count() == 4 and from_cache(spark.table(name))
        frame.unpersist()


@pytest.mark.versions
def test_pyspark_writers_write_to_a_catalog_of_frazils(spark, lake, t):
    frame, name = spark.createDataFrame([(3, "c")], "id bigint, s string"), f"{lake}.db.t"
    frame.writeTo(name).append()
    frame.write.insertInto(name)
    frame.write.mode("append").saveAsTable(name)
    spark.catalog.setCurrentCatalog(lake)
    spark.catalog.setCurrentDatabase("db")
    frame.writeTo("t").append()
    frame.writeTo("w").partitionedBy(F.partitioning.bucket(4, "id")).create()
    assert spark.table("t").filter("id = 3").count() == 4 and spark.table("w").count() == 1


def test_settings_made_later_and_loaded_names_are_catalogs(spark, tmp_path):
    warehouse = str(tmp_path / "wh")
    loaded = frazil.load_catalog("named_here", type="path", warehouse=warehouse)
    loaded.create_namespace("db")
    loaded.create_table("db.t", "id bigint").append(pa.table({"id": [1]}))
    assert spark.sql("SELECT id FROM named_here.db.t").collect() == [(1,)]
    spark.sql("SET spark.sql.catalog.later.type = hadoop")
    spark.sql(f"SET spark.sql.catalog.later.warehouse = {warehouse}")
    assert spark.sql("SELECT id FROM later.db.t").collect() == [(1,)]
    for key in ("type", "warehouse"):
        spark.conf.unset(f"spark.sql.catalog.later.{key}")


@pytest.mark.versions
def test_use_of_a_catalog_makes_its_default_namespace_the_current_one(spark, tmp_path):
    settings = {
        "": "org.apache.iceberg.spark.SparkCatalog",
        ".type": "hadoop",
        ".warehouse": str(tmp_path),
        ".default-namespace": "a.b",
    }
    for key, value in settings.items():
        spark.conf.set(f"spark.sql.catalog.homely{key}", value)
    try:
        spark.sql("CREATE NAMESPACE homely.a")
        spark.sql("CREATE NAMESPACE homely.a.b")
        spark.sql("USE homely")
        assert spark.sql("SELECT current_schema()").first()[0] == "a.b"
        spark.sql("CREATE TABLE t (id BIGINT)")
        assert spark.catalog.tableExists("homely.a.b.t")
    finally:
        spark.sql("USE spark_catalog.default")
        for key in settings:
            spark.conf.unset(f"spark.sql.catalog.homely{key}")


def test_the_default_catalog_is_served_by_its_name_and_by_those_of_its_namespaces(spark, home):
    spark.sql("CREATE TABLE db.t (id INT) USING iceberg")
    spark.sql("INSERT INTO db.t VALUES (1)")
    spark.sql("INSERT INTO default.db.t VALUES (2)")
    assert sorted(frazil.load_table("db.t").scan().to_arrow()["id"].to_pylist()) == [1, 2]
    assert spark.sql(
        "SELECT count(*) FROM db.t a JOIN default.db.t b ON a.id = b.id"
    ).collect() == [(2,)]
    assert [row.tableName for row in spark.sql("SHOW TABLES IN db").collect()] == ["t"]
    spark.sql("CREATE TABLE default.own (id INT) USING parquet")
    try:
        assert spark.sql("SELECT count(*) FROM default.own").collect() == [(0,)]
        named = [row.catalog for row in spark.sql("SHOW CATALOGS").collect()]
        assert "default" in named and "db" not in named
        assert spark.sql("SELECT count(*) FROM default.own").collect() == [(0,)]
    finally:
        spark.sql("DROP TABLE default.own")


def test_a_new_session_of_a_prepared_one_knows_its_own_catalogs(spark, lake, t, tmp_path):
    other = spark.newSession()
    for key in ("type", "uri", "warehouse"):
        other.conf.set(
            f"spark.sql.catalog.{lake}.{key}", spark.conf.get(f"spark.sql.catalog.{lake}.{key}")
        )
    assert other.sql(f"SELECT count(*) FROM {lake}.db.t").collect() == [(2,)]
    other.conf.set(f"spark.sql.catalog.{lake}.uri", f"sqlite:///{tmp_path}/other.db")
    other.sql(f"CREATE NAMESPACE {lake}.db")
    other.sql(f"CREATE TABLE {lake}.db.t (id INT) USING iceberg")
    assert other.sql(f"SELECT count(*) FROM {lake}.db.t").collect() == [(0,)]
    assert spark.sql(f"SELECT count(*) FROM {lake}.db.t").collect() == [(2,)]


@pytest.mark.versions
def test_errors_that_spark_has_a_condition_for_are_spark_s_as_well(spark, lake, t):
    name, view = f"{lake}.db.t", f"{lake}.db.v"
    rows = spark.sql("SELECT 1L AS id, 'a' AS s")
    spark.sql(f"CREATE VIEW {view} AS SELECT * FROM {name}")
    update = f"UPDATE {name} SET"
    merge = f"MERGE INTO {name} t USING (SELECT 1 AS id FROM range(2)) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET s = 'b'"
    two = spark.sql("SELECT id AS n, 1 AS id FROM range(2)").alias("s")
    into = two.mergeInto(name, F.col("t.id") == F.col("s.id"))
    cardinality = "MERGE_CARDINALITY_VIOLATION"
    exists = "TABLE_OR_VIEW_ALREADY_EXISTS" if HAS_VIEWS else "VIEW_ALREADY_EXISTS"
    twice = "DATATYPE_MISMATCH.INVALID_ROW_LEVEL_OPERATION_ASSIGNMENTS"
    cases = [
        (rows.writeTo(f"{lake}.db.none").append, "TABLE_OR_VIEW_NOT_FOUND", NoSuchTableError),
        (rows.writeTo(name).create, "TABLE_OR_VIEW_ALREADY_EXISTS", TableAlreadyExistsError),
        (lambda: rows.write.saveAsTable(name), "TABLE_OR_VIEW_ALREADY_EXISTS", None),
        (lambda: rows.drop("s").write.insertInto(name), "INSERT_COLUMN_ARITY_MISMATCH.NOT_ENOUGH_DATA_COLUMNS", None),
        (rows.withColumn("x", rows.id).writeTo(name).append, "INSERT_COLUMN_ARITY_MISMATCH.TOO_MANY_DATA_COLUMNS", SchemaMismatch),
        (f"ALTER TABLE {lake}.db.none CREATE BRANCH b", "TABLE_OR_VIEW_NOT_FOUND", NoSuchTableError),
        (f"ALTER TABLE {name} CREATE BRANCH 1", "PARSE_SYNTAX_ERROR", ParseError),
        (f"DROP VIEW {lake}.db.none", "VIEW_NOT_FOUND", NoSuchViewError),
        (f"CREATE VIEW {view} AS SELECT 1 AS a", exists, None),
        (f"{update} s = 'a', s = 'b'", twice, InvalidInput),
        (f"{update} id = 'x'", "INCOMPATIBLE_DATA_FOR_TABLE.CANNOT_SAFELY_CAST", SchemaMismatch),
        (merge, cardinality, InvalidInput),
        (merge.replace("MATCHED", "MATCHED AND s.id = 2"), cardinality, InvalidInput),
        (into.whenMatched(F.col("s.n") == 1).delete().merge, cardinality, InvalidInput),
        (f"CALL {lake}.system.none('db.t')", "FAILED_TO_LOAD_ROUTINE", Unsupported),
    ]  # fmt: skip
    for call, condition, kind in cases:
        runs = condition == cardinality
        with pytest.raises(SparkRuntimeException if runs else AnalysisException) as raised:
            spark.sql(call) if isinstance(call, str) else call()
        error = raised.value
        assert error.getCondition() == condition, (call, error)
        assert str(error).count(f"[{condition}]") == 1, str(error)
        if kind is not None and isinstance(error, FrazilError):
            assert isinstance(error, kind) and type(pickle.loads(pickle.dumps(error))) is kind


@pytest.mark.versions
def test_frames_that_do_not_fit_are_refused_as_spark_refuses_an_insert_by_name(spark, run, lake):
    run("CREATE TABLE lake.db.f (id bigint NOT NULL, n int, st struct<a: int, b: string>)")
    row = "named_struct('a', 1, 'b', 'x')"
    frames = [
        f"SELECT 1L AS id, 2 AS n, {row} AS st, 3 AS x",
        f"SELECT 1L AS id, 2 AS x, {row} AS st",
        f"SELECT 1L AS id, 'no' AS n, {row} AS st",
        "SELECT 1L AS id, 'no' AS x, 'no' AS st",
        f"SELECT 2 AS n, {row} AS st",
        "SELECT 1L AS id, 2 AS n, named_struct('a', 1, 'b', 'x', 'c', 1) AS st",
        "SELECT 1L AS id, 2 AS n, named_struct('a', 'no', 'b', 'x') AS st",
        "SELECT 1L AS id, 2 AS n, 3 AS n",
    ]

    def condition(call):
        with pytest.raises(AnalysisException) as raised:
            call()
        return raised.value.getCondition()

    for text in frames:
        frame = spark.sql(text)
        by_sql = condition(lambda: run(f"INSERT INTO lake.db.f BY NAME {text}"))  # noqa: B023
        for verb in ("append", "overwritePartitions"):
            assert condition(getattr(frame.writeTo(f"{lake}.db.f"), verb)) == by_sql, text
        saved = frame.write.format("iceberg").mode("append")
        assert condition(lambda: saved.save(f"{lake}.db.f")) == by_sql, text  # noqa: B023


def test_errors_of_frazils_reach_the_caller_as_they_were_raised(spark, lake, t, caplog):
    with pytest.raises(NoSuchRefError, match="nope") as raised:
        spark.sql(f"SELECT * FROM {lake}.db.t VERSION AS OF 'nope'").collect()
    with pytest.raises(InvalidInput, match="only tables and branches take writes"):
        spark.sql(f"INSERT INTO {lake}.db.t.files VALUES (1)")
    assert "py4j" not in str(raised.value).lower() and not caplog.records


def test_threads_read_and_write_through_sql(spark, lake, t):
    failures = []

    def work(number):
        try:
            spark.sql(f"INSERT INTO {lake}.db.t VALUES ({number}, 'x')")
            assert spark.sql(f"SELECT count(*) FROM {lake}.db.t WHERE id = {number}").collect() == [
                (1,)
            ]
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(10, 14)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_a_thread_of_the_jvm_without_a_python_caller_reads_a_table(spark, lake, t):
    jvm, name = spark._jvm, f"{lake}.db.t"
    # java.util.concurrent runs what a Python object cannot start: a Java method by name
    dataset = spark._jsparkSession.sql("SELECT 1")
    del dataset
    pool = jvm.java.util.concurrent.Executors.newFixedThreadPool(1)

    class Counting:
        def __init__(self):
            self.rows = None

        def run(self):
            self.rows = spark._jsparkSession.sql(f"SELECT count(*) FROM {name}").first().getLong(0)

        class Java:
            implements = ["java.lang.Runnable"]

    counting = Counting()
    try:
        pool.submit(counting).get()
    finally:
        pool.shutdown()
    assert counting.rows == 2


@pytest.mark.versions
def test_proxies_answer_every_method_of_the_interfaces_that_they_implement(spark):
    def classes(of):
        return [of, *(c for sub in of.__subclasses__() for c in classes(sub))]

    find, is_static = (
        spark._jvm.java.lang.Class.forName,
        spark._jvm.java.lang.reflect.Modifier.isStatic,
    )
    lacking, later = [], set()
    for proxy in classes(SparkProxy):
        for interface in getattr(getattr(proxy, "Java", None), "implements", ()):
            if not class_is_loaded(spark, interface):
                later.add(interface.rpartition(".")[2])
                continue
            methods = {
                str(m.getName())
                for m in find(interface).getMethods()
                if not is_static(m.getModifiers())
            }
            lacking += [f"{proxy.__name__}.{m}" for m in sorted(methods) if not hasattr(proxy, m)]
    assert lacking == [] and any(c is ServedCatalog for c in classes(SparkProxy))
    assert later <= {"Changelog"}  # which Spark 4.1 has not


def test_objects_of_a_statement_are_collected_after_it(spark, lake, t):
    pool = spark.sparkContext._gateway.gateway_property.pool.dict

    def after_statements(count):
        for n in range(count):
            spark.sql(f"SELECT count(*) FROM {lake}.db.t WHERE id = {n}")
        deadline = time.monotonic() + 10
        while len(pool) > first + 5 and time.monotonic() < deadline:
            gc.collect()
            spark._jvm.System.gc()
            time.sleep(0.2)
        return len(pool)

    first = 0
    first = after_statements(2)
    assert after_statements(20) <= first + 5


def test_metadata_columns_that_a_query_does_not_name_add_no_join_and_no_rows_of_structs(
    spark, run, lake, t, tmp_path
):
    run("DELETE FROM lake.db.t WHERE id = 2")
    name = f"{lake}.db.t"

    def plan(frame):
        return frame._jdf.queryExecution().executedPlan().toString()

    for frame in (
        spark.sql(f"SELECT id FROM {name} WHERE id = 1"),
        spark.table(name).select("id").where("id = 1"),
    ):
        text = plan(frame)
        assert "Join" not in text and text.count("BatchScan") == 1 and "row_index AS" not in text
        assert "ColumnarToRow" in text and "PushedFilters: [IsNotNull(id), EqualTo(id,1)]" in text
        assert (
            "file_size" not in text
            and "_metadata.row_index" not in text
            and "_tmp_metadata_row_index" not in text
        )


def test_locations_of_local_files_are_those_of_the_manifests_without_a_join(spark, run, lake, t):
    run("INSERT INTO lake.db.t VALUES (3, 'a+b %20')")
    files = set(run("SELECT file_path FROM lake.db.t.files"))
    frame = spark.sql(f"SELECT _file FROM {lake}.db.t")
    assert {tuple(row) for row in frame.collect()} == files
    assert "Join" not in frame._jdf.queryExecution().executedPlan().toString()
