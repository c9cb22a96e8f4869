"""What users of the Java jar type, in a prepared session: it goes to Frazil; the rest, and other
sessions, stay Spark's.
"""

import os
import subprocess
import sys

import pytest
from pyspark.sql import functions as F

import frazil
from frazil.dropin.tables import condition_of
from frazil.errors import (
    InvalidInput,
    NoSuchRefError,
    NoSuchTableError,
    TableAlreadyExistsError,
    Unsupported,
)
from tests.builders.spark_frames import ids

pytestmark = pytest.mark.spark


@pytest.fixture
def frame(spark):
    return spark.range(10).selectExpr("id", "concat('s', id) as s", "id % 2 as p")


def test_install_returns_the_session_and_can_be_called_again(spark):
    assert frazil.install(spark) is spark and frazil.install(frazil.install(spark)) is spark


def test_a_configured_builder_makes_a_prepared_session(tmp_path):
    script = """
import frazil
from pyspark.sql import SparkSession
spark = frazil.configure(SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").config("spark.sql.shuffle.partitions", "2")).getOrCreate()
frazil.load_catalog().create_namespace("db")
spark.range(3).writeTo("db.t").using("iceberg").create()
spark.range(3, 5).write.format("iceberg").mode("append").save("db.t")
spark.range(4, 6).mergeInto("db.t", frazil.load_table("db.t").to_spark().id == 9).whenNotMatched().insertAll()
print("rows", spark.table("db.t").count(), frazil.load_table("db.t").scan().count())
"""
    told = subprocess.run(
        [sys.executable, "-c", script],
        cwd=tmp_path,
        env=os.environ | {"FRAZIL_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert "rows 5 5" in told.stdout, told.stderr[-3000:]
    with pytest.raises(InvalidInput, match="configure takes a builder"):
        frazil.configure(3)
    with pytest.raises(InvalidInput, match="install takes a running SparkSession"):
        frazil.install("local")


def test_create_append_and_read_in_every_spelling(spark, home, frame):
    from pyspark.sql import functions as F

    frame.writeTo("db.t").using("iceberg").partitionedBy(
        F.partitioning.bucket(2, "id"), "p"
    ).tableProperty("k", "v").create()
    t = frazil.load_table("db.t")
    assert [str(f.transform) for f in t.spec().fields] == [
        "bucket[2]",
        "identity",
    ] and t.properties["k"] == "v"
    frame.writeTo("db.t").append()
    frame.write.format("iceberg").mode("append").save("default.db.t")
    reads = (
        spark.table("db.t"),
        spark.read.table("default.db.t"),
        spark.read.format("iceberg").load("db.t"),
        spark.read.load(frazil.load_table("db.t").metadata_location, "iceberg"),
        spark.read.format("iceberg").option("path", "db.t").load(),
    )
    assert [df.count() for df in reads] == [30] * 5
    with pytest.raises(TableAlreadyExistsError):
        frame.writeTo("db.t").using("iceberg").create()
    with pytest.raises(NoSuchTableError, match="create"):
        frame.writeTo("default.db.missing").append()


def test_a_reader_with_a_schema_of_its_own_is_refused(spark, home, frame):
    home.create_table("db.h", frame)
    with pytest.raises(InvalidInput, match="own schema"):
        spark.read.format("iceberg").schema("id bigint").load("db.h")


@pytest.mark.parametrize(
    ("name", "options"), [("db.b.branch_typo", {}), ("db.b", {"branch": "typo"})]
)
def test_writers_make_no_branch_of_a_misspelt_name(spark, home, frame, name, options):
    t = home.create_table("db.b", frame)
    writer = lambda: frame.write.mode("append").options(**options)
    for write in (
        lambda: frame.writeTo(name).options(**options).append(),
        lambda: frame.writeTo(name).options(**options).overwritePartitions(),
        lambda: frame.writeTo(name).options(**options).overwrite("id = 1"),
        lambda: writer().insertInto(name),
        lambda: writer().saveAsTable(name),
        lambda: writer().format("iceberg").save(name),
        lambda: frame.mergeInto(name, frame.id == 1).whenNotMatched().insertAll().merge(),
    )[: None if "branch_" in name else -1]:
        with pytest.raises(NoSuchRefError, match="does not exist"):
            write()
    assert not t.refresh().refs()


def test_what_is_not_there_yet_is_refused_by_name(spark, home, frame):
    home.create_table("db.r", frame)
    for what, call in {
        "bucketBy": lambda: (
            frame.write.format("iceberg").bucketBy(2, "id").mode("append").saveAsTable("db.r")
        ),
    }.items():
        with pytest.raises(Unsupported, match=what.replace(".", r"\.")):
            call()


def test_sparks_own_reads_and_writes_are_untouched(spark, home, frame, tmp_path):
    frame.createOrReplaceTempView("plain_view")
    assert (
        spark.table("plain_view").count() == 10
        and spark.sql("select sum(id) from plain_view").first()[0] == 45
    )
    frame.write.mode("overwrite").partitionBy("p").parquet(str(tmp_path / "plain"))
    assert spark.read.schema("id bigint").parquet(str(tmp_path / "plain")).count() == 10
    frame.write.option("header", True).csv(str(tmp_path / "csv"))
    assert spark.read.option("header", True).format("csv").load(str(tmp_path / "csv")).columns == [
        "id",
        "s",
        "p",
    ]
    assert spark.catalog.tableExists("plain_view") and not spark.catalog.tableExists("db.nope")
    with pytest.raises(Exception, match="TABLE_OR_VIEW_NOT_FOUND"):
        spark.table("nothing.here")
    assert spark.readStream.format("rate").load().isStreaming


def test_catalog_questions_about_our_tables_are_answered(spark, home, frame):
    home.create_table("db.c", frame)
    assert spark.catalog.tableExists("default.db.c") and not spark.catalog.tableExists(
        "default.db.d"
    )
    assert spark.table("default.db.c").count() == 0
    frazil.load_table("db.c").append(frame)
    spark.catalog.refreshTable("default.db.c")
    assert ids(spark.table("default.db.c")) == list(range(10))


def test_views_over_the_drop_in_doors_follow_and_refresh_table_asks_for_what_others_wrote(
    spark, home, frame, monkeypatch
):
    frame.limit(2).writeTo("db.follow").using("iceberg").create()
    spark.table("db.follow").createOrReplaceTempView("by_name")
    spark.read.format("iceberg").load("db.follow").where("id >= 0").createOrReplaceTempView(
        "by_load"
    )
    spark.table("db.follow.files").createOrReplaceTempView("its_files")
    first = frazil.load_table("db.follow").current_snapshot().snapshot_id
    spark.read.option("snapshot-id", first).table("db.follow").createOrReplaceTempView("fixed")
    spark.sql("CACHE TABLE by_name")
    try:
        frame.where("id = 5").writeTo("db.follow").append()
        assert ids(spark.table("by_name")) == ids(spark.sql("SELECT * FROM by_load")) == [0, 1, 5]
        assert spark.table("its_files").count() == 2 and ids(spark.table("fixed")) == [0, 1]
        # as if another process wrote
        monkeypatch.setattr("frazil.table.verbs.refresh_views", lambda loaded: None)
        frame.where("id = 7").writeTo("db.follow").append()
        assert ids(spark.table("by_name")) == [0, 1, 5]
        spark.catalog.refreshTable("db.follow")
        assert (
            ids(spark.table("by_name")) == ids(spark.sql("SELECT * FROM by_load")) == [0, 1, 5, 7]
        )
        with pytest.raises(NoSuchTableError):
            spark.catalog.refreshTable("default.db.nowhere")
    finally:
        spark.sql("UNCACHE TABLE by_name")
        for view in ("by_name", "by_load", "its_files", "fixed"):
            spark.catalog.dropTempView(view)


def test_a_catalog_of_the_session_is_used_by_its_name(spark, tmp_path, frame):
    spark.conf.set("spark.sql.catalog.prod.type", "path")
    spark.conf.set("spark.sql.catalog.prod.warehouse", str(tmp_path / "prod"))
    try:
        frame.writeTo("prod.db.t").create()
        assert ids(spark.table("prod.db.t")) == list(range(10))
        assert frazil.load_catalog(
            "prod", type="path", warehouse=str(tmp_path / "prod")
        ).list_tables("db") == [("db", "t")]
        assert [row.tableName for row in spark.sql("SHOW TABLES IN prod.db").collect()] == ["t"]
        spark.sql("CREATE NAMESPACE prod.other")
        assert sorted(
            row.namespace for row in spark.sql("SHOW NAMESPACES IN `prod`").collect()
        ) == ["db", "other"]
        spark.sql("USE prod.db")
        assert spark.sql("SELECT count(*) FROM t").first()[0] == 10
        spark.sql("USE spark_catalog.default")
        with pytest.raises(Exception, match="SCHEMA_NOT_FOUND"):
            spark.sql("USE nowhere")
    finally:
        spark.conf.unset("spark.sql.catalog.prod.type")
        spark.conf.unset("spark.sql.catalog.prod.warehouse")


def test_a_condition_that_no_analyser_can_say_as_text_is_refused_by_name(spark, home, frame):
    """On Spark Connect there is no plan to look at."""

    class Connect:
        conf = spark.conf

        def createDataFrame(self, rows, schema):
            return object()

    table = home.create_table("db.sc", frame)
    assert condition_of(Connect(), table, "id > 3") == "id > 3"
    with pytest.raises(Unsupported, match="Spark Connect"):
        condition_of(Connect(), table, F.col("id") > 3)


def test_a_new_session_of_a_prepared_one_is_prepared_too(spark, home, frame):
    home.create_table("db.shared", frame)
    assert spark.newSession().table("db.shared").count() == 0


def test_every_door_reads_back_quotes_alike(spark, home, frame):
    home.create_table("db.`a.b`", "id bigint, s string, p bigint")
    for name in ("db.`a.b`", "default.db.`a.b`"):
        frame.writeTo(name).append()
        frame.write.format("iceberg").mode("append").save(name)
        frame.write.insertInto(name)
        assert spark.catalog.tableExists("default.db.`a.b`")
        assert (
            spark.table(name).count()
            == frazil.load_table(name).scan().count()
            == spark.read.format("iceberg").load(name).count()
        )
        assert spark.table(f"{name}.files").count() == len(frazil.load_table(f"{name}.files"))
    assert home.load_table(("db", "a.b")).scan().count() == 60
    assert home.list_tables("db") == [("db", "a.b")], "no door made a table of another name"
    spark.sql("ALTER TABLE db.`a.b` CREATE BRANCH x")
    frame.limit(3).writeTo("default.db.`a.b`.branch_x").append()
    assert spark.table("default.db.`a.b`.branch_x").count() == 63


def test_a_name_with_a_stray_back_quote_is_left_to_spark_to_refuse(spark, home):
    with pytest.raises(Exception, match="PARSE_SYNTAX_ERROR"):
        spark.table("db.`t").count()
