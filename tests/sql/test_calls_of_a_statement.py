"""What a statement costs: how often Spark and Frazil call each other, and that a plan is given
again only while the table is as it was.
"""

import contextlib

import pytest
from py4j.clientserver import ClientServerConnection

pytestmark = pytest.mark.spark


@contextlib.contextmanager
def counted(monkeypatch):
    """Count the calls to the JVM, releases of its objects left out, and those from it."""
    calls = {"to": 0, "back": 0}
    send, answer = ClientServerConnection.send_command, ClientServerConnection._call_proxy

    def sent(self, command):
        calls["to"] += not command.startswith("m\nd\n")
        return send(self, command)

    def answered(self, *arguments):
        calls["back"] += 1
        return answer(self, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(ClientServerConnection, "send_command", sent)
        patch.setattr(ClientServerConnection, "_call_proxy", answered)
        yield calls


@pytest.mark.parametrize(
    ("statement", "most", "most_back"),
    [
        ("SELECT s FROM lake.db.t WHERE id = 1", 20, 5),
        ("INSERT INTO lake.db.t VALUES (1, 'a')", 60, 25),
        ("DELETE FROM lake.db.t WHERE id = 1", 30, 5),
        ("UPDATE lake.db.t SET s = 'b' WHERE id = 1", 30, 5),
        (
            "MERGE INTO lake.db.t t USING src s ON t.id = s.id WHEN MATCHED THEN UPDATE SET s = s.s WHEN NOT MATCHED THEN INSERT *",
            60,
            5,
        ),
        ("DESCRIBE EXTENDED lake.db.t", 40, 30),
        ("ALTER TABLE lake.db.t SET TBLPROPERTIES ('a' = 'b')", 40, 10),
        ("CALL lake.system.rewrite_manifests('db.t')", 60, 15),
    ],
)
def test_a_small_statement_takes_few_calls(
    spark, lake, run, monkeypatch, statement, most, most_back
):
    run(
        "CREATE TABLE lake.db.t (id BIGINT, s STRING) USING iceberg TBLPROPERTIES ('write.delete.mode' = 'merge-on-read')"
    )
    run("INSERT INTO lake.db.t VALUES (1, 'a'), (2, 'b')")
    spark.sql("SELECT 3L AS id, 'c' AS s").createOrReplaceTempView("src")
    text = statement.replace("lake.", f"{lake}.")
    for _ in range(2):
        spark.sql(text)
    with counted(monkeypatch) as calls:
        spark.sql(text)
    assert 0 < calls["to"] <= most
    assert 0 < calls["back"] <= most_back


def test_frames_of_two_statements_on_one_table_can_be_joined(spark, lake, run):
    run("CREATE TABLE lake.db.t (id BIGINT, s STRING) USING iceberg")
    run("INSERT INTO lake.db.t VALUES (1, 'a'), (2, 'b')")
    one, other = (spark.sql(f"SELECT * FROM {lake}.db.t") for _ in range(2))
    joined = one.join(other.withColumnRenamed("s", "t"), "id").orderBy("id")
    assert [tuple(row) for row in joined.collect()] == [(1, "a", "a"), (2, "b", "b")]
    assert one.alias("x").join(other.alias("y"), "id").where("x.s = 'a'").count() == 1


def test_a_plan_is_given_again_after_spark_has_emptied_its_cache_of_relations(spark, lake, run):
    run("CREATE TABLE lake.db.t (id BIGINT) USING iceberg")
    run("INSERT INTO lake.db.t VALUES (1)")
    assert run("SELECT id FROM lake.db.t") == [(1,)]
    spark._jsparkSession.sessionState().catalog().invalidateAllCachedTables()
    assert run("SELECT id FROM lake.db.t") == [(1,)]
