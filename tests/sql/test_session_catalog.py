"""`spark_catalog` as Java's SparkSessionCatalog: Iceberg tables beside Spark's own."""

import itertools
import logging

import pytest
from pyspark.errors import AnalysisException

import frazil
from frazil.errors import TableAlreadyExistsError, Unsupported

pytestmark = pytest.mark.spark

_CLASS = "org.apache.iceberg.spark.SparkSessionCatalog"
_names = itertools.count()


@pytest.fixture(params=["hadoop", "jdbc"])
def kind(request):
    return request.param


@pytest.fixture
def session(spark, tmp_path, kind):
    """A session of its own whose `spark_catalog` is Frazil's, in a database of this test."""
    own, database = spark.newSession(), f"beside{next(_names)}"
    own.conf.set("spark.sql.catalog.spark_catalog", _CLASS)
    own.conf.set("spark.sql.catalog.spark_catalog.type", kind)
    if kind == "jdbc":
        own.conf.set("spark.sql.catalog.spark_catalog.uri", f"sqlite:///{tmp_path}/lake.db")
    own.conf.set("spark.sql.catalog.spark_catalog.warehouse", f"{tmp_path}/lake")
    own.sql(f"CREATE DATABASE {database} LOCATION '{tmp_path}/own'")
    own.sql(f"USE {database}")
    own.database = database
    yield own
    own.sql(f"DROP DATABASE {database} CASCADE")
    # createDataFrame has made this session the thread's active one, whose settings Spark asks
    own.conf.unset("spark.sql.catalog.spark_catalog")


def test_procedures_that_make_a_table_make_its_namespace_as_create_table_does(session, tmp_path):
    """Spark's database need not be in the catalog whose table is made."""
    db = session.database
    session.sql(f"CREATE TABLE p USING parquet LOCATION '{tmp_path}/p' AS SELECT 1L AS id")
    session.sql("CALL spark_catalog.system.snapshot('p', 's')")
    assert rows(session, "SELECT id FROM s") == [(1,)]
    if session.conf.get("spark.sql.catalog.spark_catalog.type") == "hadoop":
        return  # its tables have no places of their own, and none is registered
    session.sql("DROP TABLE s")
    session.sql(f"CALL spark_catalog.system.migrate('{db}.p')")
    assert rows(session, f"SELECT id FROM {db}.p") == [(1,)] and provider(session, "p") == [
        "iceberg"
    ]


def rows(session, text):
    return [tuple(row) for row in session.sql(text).collect()]


def provider(session, name):
    described = session.sql(f"DESCRIBE TABLE EXTENDED {name}").collect()
    return [row.data_type for row in described if row.col_name == "Provider"]


def tables(session):
    return sorted(row.tableName for row in session.sql("SHOW TABLES").collect())


@pytest.mark.versions
def test_iceberg_tables_stand_beside_sparks_own(session):
    db = session.database
    session.sql("CREATE TABLE ice (id BIGINT, g STRING) USING iceberg PARTITIONED BY (g)")
    session.sql("CREATE TABLE plain (id BIGINT, g STRING) USING parquet")
    session.sql("INSERT INTO ice VALUES (1, 'a'), (2, 'b')")
    session.sql("INSERT INTO plain SELECT id + 10, g FROM ice")
    session.sql("CREATE TABLE unsaid (id INT)")
    session.sql("CREATE TABLE copied USING parquet AS SELECT * FROM ice")
    session.sql("CREATE TABLE taken USING iceberg AS SELECT * FROM plain")
    kinds = [provider(session, t) for t in ("ice", "plain", "unsaid", "copied", "taken")]
    assert kinds == [["iceberg"], ["parquet"], ["parquet"], ["parquet"], ["iceberg"]]
    assert tables(session) == ["copied", "ice", "plain", "taken", "unsaid"]
    joined = (
        f"SELECT i.id, t.id FROM spark_catalog.{db}.ice i JOIN {db}.taken t ON t.id = i.id + 10"
    )
    assert sorted(rows(session, joined)) == [(1, 11), (2, 12)]

    session.sql("DELETE FROM ice WHERE id = 1")
    session.sql("UPDATE ice SET g = 'z' WHERE id = 2")
    session.sql("MERGE INTO ice t USING plain s ON t.id = s.id WHEN NOT MATCHED THEN INSERT *")
    session.sql("INSERT INTO ice SELECT * FROM ice WHERE id = 2")
    assert sorted(rows(session, "SELECT * FROM ice")) == [
        (2, "z"),
        (2, "z"),
        (11, "a"),
        (12, "b"),
    ]
    session.sql("ALTER TABLE ice WRITE ORDERED BY id")
    session.sql("ALTER TABLE ice CREATE BRANCH audit")
    assert rows(session, f"SELECT count(*) FROM {db}.ice.refs") == [(2,)]
    assert rows(session, "SELECT count(*) FROM ice VERSION AS OF 'audit'") == [(4,)]
    session.sql(f"CALL spark_catalog.system.rewrite_data_files('{db}.ice')")
    if session.version >= "4.2":  # 4.1 looks for functions of `spark_catalog` in Spark's own
        assert rows(session, "SELECT spark_catalog.system.bucket(4, 10L)") == [(0,)]
    with pytest.raises(AnalysisException, match="does not support DELETE"):
        session.sql("DELETE FROM plain WHERE id = 1")
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_ALREADY_EXISTS"):
        session.sql("CREATE TABLE plain (id INT) USING iceberg")

    session.sql("ALTER TABLE copied RENAME TO moved")
    session.sql("DROP TABLE ice")
    session.sql("DROP TABLE plain")
    assert tables(session) == ["moved", "taken", "unsaid"]


@pytest.mark.versions
@pytest.mark.parametrize("kind", ["jdbc"])
def test_pyspark_methods_reach_both(session, tmp_path):
    db, frame = session.database, session.createDataFrame([(7, "x")], "id bigint, g string")
    frame.write.format("iceberg").saveAsTable("ice")
    frame.write.saveAsTable("plain")
    frame.writeTo(f"spark_catalog.{db}.late").using("iceberg").partitionedBy("g").create()
    kinds = [provider(session, t) for t in ("ice", "plain", "late")]
    assert kinds == [["iceberg"], ["parquet"], ["iceberg"]]
    for name in ("ice", f"{db}.ice", f"spark_catalog.{db}.ice"):
        frame.writeTo(name).append()
        frame.write.insertInto(name)
        frame.write.mode("append").saveAsTable(name)
        frame.write.format("iceberg").mode("append").save(name)
    frame.write.mode("append").saveAsTable("plain")
    frame.write.insertInto("plain")
    assert (session.table("ice").count(), session.table("plain").count()) == (13, 3)
    read = session.read.format("iceberg")
    assert read.load("ice").count() == read.load(f"{db}.ice").count() == 13
    assert read.load(f"{db}.ice.snapshots").count() == 13
    assert session.read.option("branch", "main").table("ice").count() == 13
    names = [table.name for table in session.catalog.listTables()]
    assert sorted(names) == ["ice", "late", "plain"]
    assert all(map(session.catalog.tableExists, names)) and not session.catalog.tableExists("no")
    assert frazil.load_catalog("spark_catalog", type="jdbc", uri=f"sqlite:///{tmp_path}/lake.db", warehouse=f"{tmp_path}/lake").table_exists(f"{db}.ice")  # fmt: skip
    with pytest.raises(TableAlreadyExistsError, match="Spark's own"):
        frame.write.format("iceberg").mode("append").saveAsTable("plain")
    stream = session.readStream.table("ice").writeStream.format("iceberg")
    stream.option("checkpointLocation", f"{tmp_path}/ck").trigger(availableNow=True).toTable(
        "streamed"
    ).awaitTermination()
    assert session.table("streamed").count() == 13


@pytest.mark.parametrize("kind", ["jdbc"])
def test_the_default_catalog_stays_where_names_mean_it(session, home):
    session.sql("CREATE TABLE ice USING iceberg AS SELECT 1 AS id")
    session.sql("CREATE TABLE default.db.t USING iceberg AS SELECT 2 AS id")
    assert rows(session, "SELECT * FROM default.db.t") == [(2,)]
    assert rows(session, "SELECT * FROM db.t JOIN ice ON ice.id < t.id") == [(2, 1)]
    assert session.table("db.t").count() == session.table("ice").count() == 1


@pytest.mark.parametrize("kind", ["jdbc"])
def test_other_classes_and_formats_are_refused(session, caplog):
    session.conf.set("spark.sql.catalog.spark_catalog.parquet-enabled", "true")
    with pytest.raises(Unsupported, match="parquet-enabled"):
        session.sql("SELECT * FROM plain")
    session.conf.unset("spark.sql.catalog.spark_catalog.parquet-enabled")
    other = session.newSession()
    other.conf.set("spark.sql.catalog.spark_catalog", "org.apache.iceberg.spark.SparkCatalog")
    with caplog.at_level(logging.WARNING):
        frazil.install(other)
    assert "SparkSessionCatalog" in caplog.text


def test_a_database_is_dropped_however_it_is_spelled(session):
    """Spark compares names of its databases without case; a catalog of Iceberg's need not."""
    name = session.database
    for created, dropped in ((f"{name}x", f"{name}X"), (f"{name}Y", f"{name}y")):
        session.sql(f"CREATE DATABASE {created}")
        session.sql(f"CREATE TABLE {created}.t (id INT) USING iceberg")
        with pytest.raises(AnalysisException, match="not empty|SCHEMA_NOT_EMPTY"):
            session.sql(f"DROP DATABASE {dropped}")
        session.sql(f"DROP DATABASE {dropped} CASCADE")
        session.sql(f"CREATE DATABASE {created}")
        assert rows(session, f"SHOW TABLES IN {created}") == []
        session.sql(f"DROP DATABASE {created}")


@pytest.mark.parametrize("kind", ["jdbc"])
def test_a_view_of_sparks_is_created_from_another_catalog(session, tmp_path):
    other = "spark.sql.catalog.beside"
    session.conf.set(other, "org.apache.iceberg.spark.SparkCatalog")
    session.conf.set(f"{other}.type", "jdbc")
    session.conf.set(f"{other}.uri", f"sqlite:///{tmp_path}/beside.db")
    session.conf.set(f"{other}.warehouse", f"{tmp_path}/beside")
    frazil.install(session)
    session.sql("CREATE NAMESPACE beside.n")
    session.sql("USE beside.n")
    session.sql(f"CREATE VIEW spark_catalog.{session.database}.seen AS SELECT 1 AS id")
    assert rows(session, f"SELECT * FROM spark_catalog.{session.database}.seen") == [(1,)]
    session.sql(f"DROP VIEW spark_catalog.{session.database}.seen")
    session.sql(f"USE spark_catalog.{session.database}")


def test_a_database_with_tables_of_sparks_own_is_refused_as_spark_does(session):
    name = f"{session.database}own"
    session.sql(f"CREATE DATABASE {name}")
    session.sql(f"CREATE TABLE {name}.p (id INT) USING parquet")
    with pytest.raises(AnalysisException, match="SCHEMA_NOT_EMPTY"):
        session.sql(f"DROP DATABASE {name}")
    with pytest.raises(AnalysisException, match="DROP_DATABASE|default"):
        session.sql("DROP DATABASE default CASCADE")
    session.sql(f"DROP DATABASE {name} CASCADE")
