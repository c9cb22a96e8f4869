"""A plain client of Spark Connect, in a process of its own, which knows nothing of Frazil: what it
must be able to do with the tables of a server. Arguments: the address, and a folder.
"""

import os
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

_ADDRESS, _FOLDER = sys.argv[1:]


def _new(more: str = "") -> Any:
    return SparkSession.builder.remote(_ADDRESS + more).create()


_SPARK = _new()


def _made(name: str, partitioned: str = "") -> str:
    _SPARK.sql("CREATE NAMESPACE IF NOT EXISTS lake.db").collect()
    table = f"lake.db.{name}"
    _SPARK.sql(f"CREATE TABLE {table} (id INT, s STRING) USING iceberg {partitioned}").collect()
    _SPARK.sql(f"INSERT INTO {table} VALUES (1, 'a'), (2, 'b')").collect()
    return table


def _rows(table: str) -> list[tuple[Any, ...]]:
    return [tuple(r) for r in _SPARK.sql(f"SELECT id, s FROM {table} ORDER BY id").collect()]


def _frame(*rows: tuple[int, str], spark: Any = _SPARK) -> Any:
    return spark.createDataFrame(list(rows), "id int, s string")


def _error(call: Callable[[], object]) -> Any:
    try:
        call()
    except Exception as error:
        return error
    raise AssertionError("no error")


def first_calls_that_are_no_sql() -> None:
    name = _made("first")
    current = _new().catalog
    current.setCurrentCatalog("lake")
    assert current.currentCatalog() == "lake"
    assert "lake" in [catalog.name for catalog in _new().catalog.listCatalogs()]
    assert "first" in [table.name for table in _new().catalog.listTables("lake.db")]
    assert _new().catalog.tableExists(name) and _new().table(name).count() == 2
    _frame((3, "c"), spark=_new()).writeTo(name).append()
    assert _new().read.format("iceberg").load(name).count() == 3


def methods_of_the_catalog() -> None:
    name, catalog = _made("methods"), _SPARK.catalog
    catalog.setCurrentCatalog("lake")
    catalog.setCurrentDatabase("db")
    assert catalog.currentDatabase() == "db" and "db" in [d.name for d in catalog.listDatabases()]
    assert catalog.tableExists("methods") and not catalog.tableExists("lake.db.none")
    assert [column.name for column in catalog.listColumns(name)] == ["id", "s"]
    assert catalog.getTable(name).namespace == ["db"]
    catalog.cacheTable(name)
    catalog.refreshTable(name)
    assert catalog.isCached(name)
    catalog.uncacheTable(name)
    assert _SPARK.read.format("iceberg").load("methods").count() == 2
    catalog.setCurrentCatalog("spark_catalog")


def row_changes_and_overwrites_of_frames() -> None:
    name = _made("changed", "PARTITIONED BY (id)")
    rows = _frame((2, "z"), (3, "c"))
    merge = rows.alias("n").mergeInto(name, F.expr("n.id = changed.id"))
    merge.whenMatched().updateAll().whenNotMatched().insertAll().merge()
    assert _rows(name) == [(1, "a"), (2, "z"), (3, "c")]
    _frame((3, "d")).writeTo(name).overwritePartitions()
    assert _rows(name) == [(1, "a"), (2, "z"), (3, "d")]


def the_format_by_names() -> None:
    name = _made("named")
    snapshot = _SPARK.sql(f"SELECT snapshot_id FROM {name}.snapshots").first()[0]
    _SPARK.sql(f"ALTER TABLE {name} CREATE BRANCH b").collect()
    write = _frame((3, "c")).write.format("iceberg")
    write.mode("append").save(name)
    read = _SPARK.read.format("iceberg")
    assert read.load(name).count() == 3
    assert read.option("snapshot-id", snapshot).load(name).count() == 2
    assert _SPARK.read.format("iceberg").load(f"{name}.snapshots").count() == 2
    _frame((4, "d")).write.format("iceberg").mode("append").option("branch", "b").save(name)
    assert len(_rows(f"{name}.branch_b")) == 3 and len(_rows(name)) == 3
    exists = _error(lambda: write.mode("error").save(name))
    assert exists.getCondition() == "TABLE_OR_VIEW_ALREADY_EXISTS", exists
    write.mode("ignore").save(name)
    write.mode("overwrite").save(name)
    assert _rows(name) == [(3, "c")]
    write.mode("error").save("lake.db.saved")
    assert _rows("lake.db.saved") == [(3, "c")]


def streams_of_tables() -> None:
    source, plain, named, counted = _made("source"), _made("plain"), _made("by_name"), _made("n")

    def run(
        frame: Any, to: str, method: str = "toTable", output: str = "append", **options: str
    ) -> None:
        folder = f"{_FOLDER}/{to.rpartition('.')[2]}"
        writer = frame.writeStream.option("checkpointLocation", folder).outputMode(output)
        writer = writer.options(**options)
        if method != "plain":
            writer = writer.format("iceberg")
        writer = writer.trigger(availableNow=True)
        query = writer.start(to) if method == "start" else writer.toTable(to)
        assert query.awaitTermination(120) and query.exception() is None, query.exception()

    run(_SPARK.readStream.table(source), plain, "plain")
    assert len(_rows(plain)) == 4
    _SPARK.sql(f"INSERT INTO {source} VALUES (9, 'n')").collect()
    run(_SPARK.readStream.table(source), plain)
    assert len(_rows(plain)) == 5
    run(_SPARK.readStream.format("iceberg").load(source), named, "start")
    assert len(_rows(named)) == 5
    rows = _SPARK.readStream.table(source).groupBy().agg(F.expr("int(count(*))").alias("id"))
    run(rows.selectExpr("id", "'x' AS s"), counted, output="complete")
    assert _rows(counted) == [(3, "x")]
    run(_SPARK.readStream.table(source), "lake.db.made")
    assert len(_rows("lake.db.made")) == 3
    keys = _SPARK.readStream.table(source).groupBy("s").agg(F.expr("int(count(*))").alias("id"))
    upserted = _made("upserted")
    run(keys, upserted, output="update", **{"write-mode": "upsert", "key-columns": "s"})
    _SPARK.sql(f"INSERT INTO {source} VALUES (10, 'n')").collect()
    run(keys, upserted, output="update", **{"write-mode": "upsert", "key-columns": "s"})
    counts = {
        r["s"]: r["n"]
        for r in _SPARK.sql(f"SELECT s, count(*) n FROM {source} GROUP BY s").collect()
    }
    assert {s: i for i, s in _rows(upserted)} == counts and len(_rows(upserted)) == len(counts)
    doubled = _error(lambda: run(keys, _made("doubled"), output="update"))
    assert "an append would double" in str(doubled), doubled
    text = _error(lambda: _SPARK.readStream.table("lake.db.none").schema)
    assert text.getCondition() == "TABLE_OR_VIEW_NOT_FOUND", text


def partitions_of_streams_are_announced() -> None:
    name, to = _made("pieces"), _made("announced", "PARTITIONED BY (s)")
    kind, trigger = "sink.partition-commit.policy.kind", "sink.partition-commit.trigger"
    folder = f"{_FOLDER}/announced"

    def run(**options: str) -> None:
        writer = _SPARK.readStream.table(name).writeStream.format("iceberg").options(**options)
        writer = writer.option("checkpointLocation", folder).trigger(availableNow=True)
        assert writer.toTable(to).awaitTermination(120)

    needs = _error(lambda: run(**{kind: "property", trigger: "partition-time"}))
    assert "needs a watermark" in str(needs), needs
    code = "sink.partition-commit.policy.class"
    refused = _error(lambda: run(**{kind: "custom", code: "os:getcwd"}))
    assert "names code of the serving process" in str(refused), refused
    ended = {kind: "tag", "sink.partition-commit.end-input": "true"}
    run(**ended, **{"sink.partition-commit.delay": "1 h"})
    marks = lambda: [r[0] for r in _SPARK.sql(f"SELECT name FROM {to}.refs").collect()]
    until = time.monotonic() + 30
    while len(marks()) < 3 and time.monotonic() < until:
        time.sleep(0.3)
    assert sorted(marks()) == ["done/s=a", "done/s=b", "main"], marks()


def clients_beside_each_other() -> None:
    name, one, other = _made("beside"), _new(), _new()
    one.catalog.setCurrentCatalog("lake")
    other.conf.set("spark.sql.catalog.pond.type", "path")
    other.conf.set("spark.sql.catalog.pond.warehouse", f"{_FOLDER}/pond")
    other.sql("CREATE NAMESPACE pond.db").collect()
    other.sql("CREATE TABLE pond.db.t (id INT) USING iceberg").collect()
    other.catalog.setCurrentCatalog("pond")
    assert (one.catalog.currentCatalog(), other.catalog.currentCatalog()) == ("lake", "pond")
    one.table(name).createOrReplaceTempView("seen")
    assert one.table("seen").count() == 2 and not other.catalog.tableExists("seen")
    _error(lambda: one.table("pond.db.t").collect())


def errors_have_conditions_and_no_trace() -> None:
    name = _made("wrong")
    twice = "MERGE INTO lake.db.wrong t USING (SELECT 1 AS id FROM range(2)) n ON t.id = n.id"
    cases: list[tuple[Callable[[], object], str | None, str]] = [
        (lambda: _SPARK.table("lake.db.none").collect(), "TABLE_OR_VIEW_NOT_FOUND", "none"),
        (lambda: _SPARK.read.format("iceberg").load("lake.db.none").schema, "TABLE_OR_VIEW_NOT_FOUND", "none"),
        (lambda: _SPARK.sql(f"SELECT * FROM {name} VERSION AS OF 'nope'").collect(), "USER_RAISED_EXCEPTION", "nope"),
        (lambda: _SPARK.sql(f"INSERT INTO {name}.files VALUES (1)"), None, "only tables and branches"),
        (lambda: _SPARK.sql(f"ALTER TABLE {name} CREATE BRANCH 1"), "PARSE_SYNTAX_ERROR", "expected a name"),
        (lambda: _SPARK.sql(f"{twice} WHEN MATCHED THEN UPDATE SET s = 'b'"), "MERGE_CARDINALITY_VIOLATION", "id = 1"),
        (lambda: _SPARK.sql(f"UPDATE {name} SET id = 'x'"), "INCOMPATIBLE_DATA_FOR_TABLE.CANNOT_SAFELY_CAST", "Write the CAST"),
        (lambda: _SPARK.sql(f"UPDATE {name} SET id = 1/0"), "DIVIDE_BY_ZERO", name),
        (lambda: _SPARK.sql("CALL lake.system.rollback_to_snapshot('db.none', 1)"), "TABLE_OR_VIEW_NOT_FOUND", "none"),
    ]  # fmt: skip
    for number, (call, condition, words) in enumerate(cases):
        error = _error(call)
        assert error.getCondition() == condition, (number, error)
        assert words in str(error) and "JVM stacktrace" not in str(error), (number, error)
        assert type(error).__name__ != "UnknownException", (number, error)


def a_write_that_is_repeated_and_who_wrote() -> None:
    name, anna = _made("once"), _new("/;user_id=anna") if ";" not in _ADDRESS else _SPARK
    anna.addTag("nightly")
    for _ in range(2):
        _frame((3, "c"), spark=anna).writeTo(name).option("txn", "load:8").append()
        anna.sql(f"INSERT INTO {name} WITH (`txn` = 'sql:1') VALUES (4, 'd')").collect()
    assert [row[0] for row in _rows(name)] == [1, 2, 3, 4]
    marks = {row[0]: row[1] for row in anna.sql(f"SHOW TBLPROPERTIES {name}").collect()}
    assert not any(key.startswith("frazil.txn") for key in marks)
    asked = f"SELECT summary FROM {name}.snapshots ORDER BY committed_at DESC"
    summary = dict(anna.sql(asked).first()[0])
    assert summary["client-tags"] == "nightly" and summary["client-user"] == "anna"
    assert summary["client-statement"].startswith(f"INSERT INTO {name} WITH")


def an_operation_that_is_interrupted() -> None:
    name, spark, errors = _made("slow"), _new(), []
    sleep = "reflect('java.lang.Thread', 'sleep', bigint(1))"
    merge = (
        f"MERGE INTO {name} t USING (SELECT int(r.id) AS id, {sleep} AS s FROM range(60000) r) n"
    )

    def work() -> None:
        text = f"{merge} ON t.id = n.id WHEN NOT MATCHED THEN INSERT *"
        errors.append(_error(lambda: spark.sql(text).collect()))

    thread, began = threading.Thread(target=work), time.monotonic()
    thread.start()
    while not spark.interruptAll() and time.monotonic() - began < 60:
        time.sleep(0.5)
    time.sleep(3)
    spark.interruptAll()
    thread.join(25)
    assert errors and "OPERATION_CANCELED" in str(errors[0]), errors
    assert len(_rows(name)) == 2


_PIPELINE = """
from pyspark import pipelines
from pyspark.sql import SparkSession

spark = SparkSession.active()

@pipelines.materialized_view
def counted():
    return spark.table("lake.lines.feed").groupBy("op").count()

@pipelines.table
def copied():
    return spark.readStream.table("lake.lines.feed")

@pipelines.temporary_view
def changes():
    return spark.readStream.table("lake.lines.feed")

def follow(target, **more):
    pipelines.create_streaming_table(target)
    pipelines.create_auto_cdc_flow(
        target, "changes", ["id"], "seq", "op = 'D'", except_column_list=["op"], **more)

follow("newest")
follow("history", stored_as_scd_type=2)
"""


def a_pipeline_with_automatic_cdc() -> None:
    folder = Path(_FOLDER) / "pipeline"
    folder.mkdir()
    (folder / "tables.py").write_text(_PIPELINE)
    (folder / "spark-pipeline.yml").write_text(
        f"name: p\nstorage: file://{folder}/storage\ncatalog: lake\ndatabase: lines\n"
        "libraries: [{glob: {include: tables.py}}]\n"
    )
    _SPARK.sql("CREATE NAMESPACE lake.lines").collect()
    _SPARK.sql(
        "CREATE TABLE lake.lines.feed (id INT, v STRING, seq BIGINT, op STRING) USING iceberg"
    ).collect()
    for changes in (
        "(1, 'a', 1, 'U'), (2, 'b', 1, 'U'), (3, 'c', 1, 'U')",
        "(1, 'z', 5, 'U'), (2, 'b', 4, 'D'), (3, 'old', 0, 'U')",
    ):
        _SPARK.sql(f"INSERT INTO lake.lines.feed VALUES {changes}").collect()
        run = subprocess.run(
            [sys.executable, "-m", "pyspark.pipelines.cli", "run"],
            cwd=folder,
            env=os.environ | {"SPARK_REMOTE": _ADDRESS},
            capture_output=True,
            text=True,
            timeout=200,
        )
        assert run.returncode == 0, (run.stdout + run.stderr)[-4000:]

    def shown(table: str, columns: str) -> list[tuple[Any, ...]]:
        query = f"SELECT {columns} FROM lake.lines.{table} ORDER BY ALL"
        return [tuple(row) for row in _SPARK.sql(query).collect()]

    assert shown("counted", "op, count") == [("D", 1), ("U", 5)]
    assert shown("copied", "count(*)") == [(6,)]
    assert shown("newest", "id, v") == [(1, "z"), (3, "c")]
    assert shown("history", "id, v, __START_AT, __END_AT") == [
        *((1, "a", 1, 5), (1, "z", 5, None), (2, "b", 1, 4)),
        *((3, "c", 1, None), (3, "old", 0, 1)),
    ]


for _check in (
    first_calls_that_are_no_sql,
    methods_of_the_catalog,
    row_changes_and_overwrites_of_frames,
    the_format_by_names,
    streams_of_tables,
    partitions_of_streams_are_announced,
    clients_beside_each_other,
    errors_have_conditions_and_no_trace,
    a_write_that_is_repeated_and_who_wrote,
    an_operation_that_is_interrupted,
    a_pipeline_with_automatic_cdc,
):
    try:
        _check()
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    print(_check.__name__, flush=True)
assert "frazil" not in sys.modules
sys.stdout.flush()
os._exit(0)  # without waiting for threads of the client
