"""Names within the session's current catalog and namespace, at every door of a prepared session."""

import itertools

import pytest

import frazil

pytestmark = pytest.mark.spark

_names = itertools.count()
ROW = ("id bigint, v int", [(1, 1)])


@pytest.fixture
def catalog(spark, tmp_path):
    """The catalog that is the session's current one; `db` is the current namespace."""
    name, settings = f"now{next(_names)}", {"type": "path", "warehouse": str(tmp_path / "wh")}
    for key, value in settings.items():
        spark.conf.set(f"spark.sql.catalog.{name}.{key}", value)
    made = frazil.load_catalog(name, **settings)
    made.create_namespace("db")
    spark.sql(f"USE {name}.db")
    yield made
    spark.sql("USE spark_catalog.default")
    for key in settings:
        spark.conf.unset(f"spark.sql.catalog.{name}.{key}")


@pytest.fixture
def table(catalog):
    return catalog.create_table("db.t", ROW[0])


@pytest.fixture
def frame(spark):
    return spark.createDataFrame(ROW[1], ROW[0])


WRITES = {
    "writeTo.append": lambda f, name: f.writeTo(name).append(),
    "writeTo.overwritePartitions": lambda f, name: f.writeTo(name).overwritePartitions(),
    "writeTo.overwrite": lambda f, name: f.writeTo(name).overwrite("id = 1"),
    "insertInto": lambda f, name: f.write.insertInto(name),
    "saveAsTable": lambda f, name: f.write.mode("append").saveAsTable(name),
    "saveAsTable with a format": lambda f, name: (
        f.write.format("iceberg").mode("append").saveAsTable(name)
    ),
    "save": lambda f, name: f.write.format("iceberg").mode("append").save(name),
    "save by option": lambda f, name: (
        f.write.format("iceberg").mode("append").option("path", name).save()
    ),
    "mergeInto": lambda f, name: (
        f.mergeInto(name, f.id == f.id + 1).whenNotMatched().insertAll().merge()
    ),
}
CREATES = {
    "writeTo.create": lambda f, name: f.writeTo(name).create(),
    "writeTo.createOrReplace": lambda f, name: f.writeTo(name).using("iceberg").createOrReplace(),
    "saveAsTable": lambda f, name: f.write.saveAsTable(name),
    "saveAsTable with a format": lambda f, name: f.write.format("iceberg").saveAsTable(name),
    "save": lambda f, name: f.write.format("iceberg").save(name),
}
READS = {
    "table": lambda spark, name: spark.table(name),
    "read.table": lambda spark, name: spark.read.option("split-size", "1000000").table(name),
    "load": lambda spark, name: spark.read.format("iceberg").load(name),
    "load by option": lambda spark, name: spark.read.format("iceberg").option("path", name).load(),
}
NAMED = pytest.mark.parametrize("name", ["t", "db.t"])


def rows(catalog):
    return [tuple(r.values()) for r in catalog.load_table("db.t").to_arrow().to_pylist()]


@NAMED
def test_tables_are_written_and_read(spark, table, frame, catalog, name):
    for door, write in WRITES.items():
        table.delete("true")
        write(frame, name)
        assert rows(catalog) == ROW[1], door
    for door, read in READS.items():
        assert [tuple(r) for r in read(spark, name).collect()] == ROW[1], door


@NAMED
def test_tables_are_created(frame, catalog, name):
    for door, create in CREATES.items():
        create(frame, name)
        assert rows(catalog) == ROW[1], door
        catalog.drop_table("db.t")


@NAMED
def test_streams_read_and_write(spark, table, frame, catalog, name, tmp_path):
    table.append(frame)
    for number, read in enumerate(
        (spark.readStream.table(name), spark.readStream.format("iceberg").load(name))
    ):
        writer = read.writeStream.trigger(availableNow=True).option(
            "checkpointLocation", str(tmp_path / f"check{number}")
        )
        into = f"{name}_copy"
        (writer.format("iceberg") if number else writer).toTable(into).awaitTermination()
        assert catalog.load_table("db.t_copy").scan().count() == number + 1


@NAMED
def test_a_temporary_view_of_the_name_is_read(spark, table, frame, name):
    spark.range(3).createOrReplaceTempView("t")
    assert spark.table(name).count() == (3 if name == "t" else 0)


STATEMENTS = {  # on a row (1, 1): what there is afterwards
    "INSERT INTO {} VALUES (2, 2)": [(1, 1), (2, 2)],
    "UPDATE {0} SET v = {0}.v + 1 WHERE {0}.id = 1": [(1, 2)],
    "DELETE FROM {0} WHERE id = 1": [],
    "MERGE INTO {} AS t USING (SELECT 1 AS id) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET v = 3": [
        (1, 3)
    ],
    "TRUNCATE TABLE {}": [],
    "ANALYZE TABLE {} COMPUTE STATISTICS": [(1, 1)],
    "ALTER TABLE {} ADD COLUMN w int": [(1, 1, None)],
    "ALTER TABLE {} WRITE ORDERED BY id": [(1, 1)],
    "ALTER TABLE {} CREATE BRANCH b": [(1, 1)],
    "BEGIN UPDATE {} SET v = 4; END": [(1, 4)],
}


@pytest.mark.versions
@pytest.mark.parametrize(
    ("current", "name"),
    [("lake", "default.db.t"), ("spark_catalog", "default.db.t"), ("spark_catalog", "db.t"), ("db", "t")],
)  # fmt: skip
def test_all_statements_find_a_table_of_the_default_catalog_where_queries_find_it(
    spark, catalog, home, current, name
):
    """Spark takes the first part of a name for a catalog where there is one of that name, whichever
    is the current one."""
    table = frazil.load_catalog().create_table("db.t", ROW[0])
    spark.sql("USE spark_catalog")
    spark.sql(f"USE {catalog.name if current == 'lake' else current}")
    for text, expected in STATEMENTS.items():
        table.refresh().overwrite(spark.createDataFrame(*reversed(ROW)))
        spark.sql(text.format(name))
        assert list(map(tuple, spark.table(name).orderBy("id").collect())) == expected, text
        rows_there = table.refresh().to_arrow().to_pylist()
        assert sorted(tuple(r.values()) for r in rows_there) == expected
        if "ADD COLUMN" in text:
            spark.sql(f"ALTER TABLE {name} DROP COLUMN w")


def test_what_a_statement_named_is_not_taken_for_a_table_of_sparks_afterwards(
    spark, home, tmp_path, monkeypatch
):
    frazil.load_catalog().create_table("db.t", ROW[0])
    spark.sql("SELECT * FROM db.t").collect()
    monkeypatch.setenv("FRAZIL_HOME", str(tmp_path / "another"))
    frame = spark.range(2)
    frame.writeTo("db.t").using("iceberg").create()
    frame.writeTo("db.t").append()
    assert spark.table("db.t").count() == 4 and spark.sql("TABLE db.t").columns == ["id"]
    spark.sql("SELECT 1")
    assert not spark.catalog.databaseExists("db.db")


@pytest.mark.versions
def test_a_view_of_the_default_catalog_is_read_by_every_door(spark, home):
    default = frazil.load_catalog()
    default.create_table("db.t", ROW[0]).append(spark.createDataFrame(*reversed(ROW)))
    default.create_view("db.w", "n bigint", sql="SELECT id + 1 AS n FROM db.t")
    spark.sql("USE spark_catalog.default")
    for name in ("db.w", "default.db.w"):
        for read in (spark.table, spark.read.table, lambda n: spark.sql(f"SELECT * FROM {n}")):
            assert [row.n for row in read(name).collect()] == [2], name
        assert spark.catalog.tableExists(name)
    assert not spark.catalog.tableExists("db.no")
    spark.sql("USE db")
    assert [row.n for row in spark.table("w").collect()] == [2]


@pytest.mark.versions
def test_a_namespace_of_the_default_catalog_stays_current_when_settings_change(spark, home):
    frazil.load_catalog().create_table("db.t", ROW[0])
    spark.sql("USE spark_catalog.default")
    spark.sql("USE db")
    try:
        for number in range(2):
            spark.conf.set("spark.sql.catalog.other.type", ("hadoop", "sql")[number])
            assert spark.table("t").count() == number
            spark.createDataFrame(*reversed(ROW)).writeTo("t").append()
            assert spark.sql("SELECT * FROM t").count() == number + 1
    finally:
        spark.conf.unset("spark.sql.catalog.other.type")
        spark.sql("USE spark_catalog.default")
