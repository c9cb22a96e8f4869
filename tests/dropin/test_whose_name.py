"""One answer for a name at every door of a prepared session, whichever way its catalog became
known."""

import itertools

import pytest

import frazil
from frazil.table.load import _LOADED

pytestmark = pytest.mark.spark
ROW = ("id bigint, v int", [(1, 1)])
_names = itertools.count()


@pytest.fixture(params=["configured", "loaded", "loaded as default", "default"])
def place(request, spark, tmp_path, monkeypatch):
    """A catalog, and the beginnings of the names of its namespace `db`."""
    settings = {"type": "sql", "uri": f"sqlite:///{tmp_path}/c.db", "warehouse": f"{tmp_path}/wh"}
    monkeypatch.setenv("FRAZIL_HOME", str(tmp_path / "home"))
    name = f"whose{next(_names)}"
    if request.param == "configured":
        for key, value in settings.items():
            spark.conf.set(f"spark.sql.catalog.{name}.{key}", value)
        catalog = frazil.load_catalog(name, **settings)
        _LOADED.pop(name)
    elif request.param == "default":
        catalog = frazil.load_catalog()
    else:
        name = "default" if "default" in request.param else name
        catalog = frazil.load_catalog(name, **settings)
    catalog.create_namespace("db")
    yield catalog, ["db", "default.db"] if "default" in request.param else [f"{name}.db"]
    _LOADED.pop(name, None)
    for key in settings:
        spark.conf.unset(f"spark.sql.catalog.{name}.{key}")


def into(write):
    """A door that adds the row to the table, which is read by its catalog."""

    def door(spark, frame, name, table, folder):
        before = table.refresh().scan().count()
        write(frame, name, folder)
        return table.refresh().scan().count() - before

    return door


def by(read):
    """A door that returns rows."""
    return lambda spark, frame, name, table, folder: read(spark, name).where("id = 1").count()


def streamed(frame, name, folder, read=None):
    frame.write.parquet(f"{folder}/rows")
    rows = frame.sparkSession.readStream.schema(frame.schema).parquet(f"{folder}/rows")
    rows.writeStream.trigger(availableNow=True).option(
        "checkpointLocation", f"{folder}/checkpoint"
    ).toTable(name).awaitTermination()


def read_as_stream(reads):
    def door(spark, frame, name, table, folder):
        query = reads(spark, name).writeStream.trigger(availableNow=True).format("memory")
        query.queryName("streamed").start().awaitTermination()
        return spark.table("streamed").where("id = 1").count()

    return door


def cached(spark, name):
    spark.sql(f"CACHE TABLE {name}")
    rows = spark.table(name)
    spark.sql(f"UNCACHE TABLE {name}")
    return rows


DOORS = {
    "sql": by(lambda s, n: s.sql(f"SELECT * FROM {n}")),
    "table": by(lambda s, n: s.table(n)),
    "read.table": by(lambda s, n: s.read.table(n)),
    "read.option.table": by(lambda s, n: s.read.option("split-size", "1000000").table(n)),
    "load": by(lambda s, n: s.read.format("iceberg").load(n)),
    "branch_main": by(lambda s, n: s.table(f"{n}.branch_main")),
    "CACHE TABLE": by(cached),
    "saveAsTable": into(lambda f, n, _: f.write.mode("append").saveAsTable(n)),
    "insertInto": into(lambda f, n, _: f.write.insertInto(n)),
    "save": into(lambda f, n, _: f.write.format("iceberg").mode("append").save(n)),
    "writeTo": into(lambda f, n, _: f.writeTo(n).append()),
    "INSERT": into(lambda f, n, _: f.sparkSession.sql(f"INSERT INTO {n} VALUES (1, 1)")),
    "mergeInto": into(
        lambda f, n, _: f.mergeInto(n, f.id > 5).whenNotMatched().insertAll().merge()
    ),
    "toTable": into(streamed),
    "readStream.table": read_as_stream(lambda s, n: s.readStream.table(n)),
    "readStream.load": read_as_stream(lambda s, n: s.readStream.format("iceberg").load(n)),
    "tableExists": lambda s, f, n, t, _: int(s.catalog.tableExists(n)),
    "tableExists of none": lambda s, f, n, t, _: 1 - s.catalog.tableExists(f"{n}_none"),
    "getTable": lambda s, f, n, t, _: int(s.catalog.getTable(n).name == "t"),
    "listColumns": lambda s, f, n, t, _: len(s.catalog.listColumns(n)) - 1,
}


def test_every_door_finds_the_same_table(spark, place, tmp_path):
    catalog, namespaces = place
    frame = spark.createDataFrame(*reversed(ROW))
    for number, namespace in enumerate(namespaces):
        answers = {}
        for door, act in DOORS.items():
            spark.range(3).createOrReplaceTempView("t")
            table = catalog.create_table("db.t", ROW[0])
            table.append(frame)
            try:
                answers[door] = act(
                    spark, frame, f"{namespace}.t", table, str(tmp_path / f"{number}{len(answers)}")
                )
            except Exception as error:
                answers[door] = f"{type(error).__name__}: {str(error)[:200]}"
            catalog.drop_table("db.t")
        assert answers == dict.fromkeys(DOORS, 1)
