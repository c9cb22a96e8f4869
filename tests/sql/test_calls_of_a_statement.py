"""What a statement costs: how often Spark and Frazil call each other, and that a plan is given
again only while the table is as it was.
"""

import contextlib

import pyarrow as pa
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


def test_a_query_sees_what_was_committed_since_the_last_one(run, table_of):
    run("CREATE TABLE lake.db.t (id BIGINT) USING iceberg")
    query = "SELECT id FROM lake.db.t ORDER BY id"
    run("INSERT INTO lake.db.t VALUES (1)")
    assert run(query) == run(query) == [(1,)]
    table_of("db.t").append(pa.table({"id": [2]}))  # by another handle of the catalog
    assert run(query) == [(1,), (2,)]
    run("ALTER TABLE lake.db.t ADD COLUMN s STRING")
    assert run("SELECT * FROM lake.db.t WHERE id = 1") == [(1, None)]
    run("DELETE FROM lake.db.t WHERE id = 1")
    assert run(query) == [(2,)]


def test_a_table_in_the_place_of_a_dropped_one_is_read_anew(lake, run):
    for value in (1, 2):
        run("CREATE TABLE lake.db.t (id BIGINT) USING iceberg")
        run(f"INSERT INTO lake.db.t VALUES ({value})")
        assert run("SELECT id FROM lake.db.t") == run("SELECT id FROM lake.db.t") == [(value,)]
        run("DROP TABLE lake.db.t PURGE")


def test_states_of_one_table_stand_beside_each_other_though_their_plans_are_given_again(
    lake, run, table_of
):
    run("CREATE TABLE lake.db.t (id BIGINT) USING iceberg")
    run("INSERT INTO lake.db.t VALUES (1)")
    first = table_of("db.t").current_snapshot().snapshot_id
    run("INSERT INTO lake.db.t VALUES (2)")
    join = f"SELECT a.id, b.id FROM lake.db.t a LEFT JOIN lake.db.t VERSION AS OF {first} b ON a.id = b.id ORDER BY 1"
    itself = "SELECT a.id, b.id FROM lake.db.t a JOIN lake.db.t b ON a.id < b.id"
    for _ in range(2):
        assert run(join) == [(1, 1), (2, None)]
        assert run(itself) == [(1, 2)]
        assert run("SELECT count(*) FROM lake.db.t WHERE id IN (SELECT id + 1 FROM lake.db.t)") == [
            (1,)
        ]


def test_frames_of_two_statements_on_one_table_can_be_joined(spark, lake, run):
    run("CREATE TABLE lake.db.t (id BIGINT, s STRING) USING iceberg")
    run("INSERT INTO lake.db.t VALUES (1, 'a'), (2, 'b')")
    one, other = (spark.sql(f"SELECT * FROM {lake}.db.t") for _ in range(2))
    joined = one.join(other.withColumnRenamed("s", "t"), "id").orderBy("id")
    assert [tuple(row) for row in joined.collect()] == [(1, "a", "a"), (2, "b", "b")]
    assert one.alias("x").join(other.alias("y"), "id").where("x.s = 'a'").count() == 1


def test_a_setting_that_changes_what_is_read_is_followed(spark, lake, run, table_of):
    run(
        "CREATE TABLE lake.db.t (id BIGINT) USING iceberg TBLPROPERTIES ('write.wap.enabled' = 'true')"
    )
    run("INSERT INTO lake.db.t VALUES (1)")
    table = table_of("db.t")
    table.append(pa.table({"id": [2]}), branch="audit")
    assert run("SELECT id FROM lake.db.t") == [(1,)]
    spark.conf.set("spark.wap.branch", "audit")
    try:
        assert run("SELECT max(id) FROM lake.db.t") == [(2,)]
    finally:
        spark.conf.unset("spark.wap.branch")
    assert run("SELECT max(id) FROM lake.db.t") == [(1,)]


def test_a_plan_is_given_again_after_spark_has_emptied_its_cache_of_relations(spark, lake, run):
    run("CREATE TABLE lake.db.t (id BIGINT) USING iceberg")
    run("INSERT INTO lake.db.t VALUES (1)")
    assert run("SELECT id FROM lake.db.t") == [(1,)]
    spark._jsparkSession.sessionState().catalog().invalidateAllCachedTables()
    assert run("SELECT id FROM lake.db.t") == [(1,)]


def test_columns_of_both_sides_keep_their_side_in_a_merge(lake, run):
    run("CREATE TABLE lake.db.t (id BIGINT, s STRUCT<id: BIGINT>, `a.b` STRING) USING iceberg")
    run("CREATE TABLE lake.db.s (id BIGINT, s STRUCT<id: BIGINT>, `a.b` STRING) USING iceberg")
    run(
        "INSERT INTO lake.db.t VALUES (1, named_struct('id', 10L), 's.id'), (2, named_struct('id', 20L), 't.id')"
    )
    run(
        "INSERT INTO lake.db.s VALUES (1, named_struct('id', 10L), 't.id = s.id'), (3, named_struct('id', 30L), 'x.db.t.id')"
    )
    run(
        "MERGE INTO lake.db.t USING lake.db.s ON t.s.id = s.s.id AND lake.db.t.id = s.id AND t.`a.b` = 's.id' "
        "WHEN MATCHED AND s.`a.b` = 't.id = s.id' THEN UPDATE SET t.`a.b` = concat(s.`a.b`, t.`a.b`), s = s.s "
        "WHEN NOT MATCHED AND s.`a.b` = 'x.db.t.id' THEN INSERT * WHEN NOT MATCHED BY SOURCE AND t.`a.b` = 't.id' THEN DELETE"
    )
    assert [(r[0], r[1].id, r[2]) for r in run("SELECT * FROM lake.db.t ORDER BY id")] == [
        (1, 10, "t.id = s.ids.id"),
        (3, 30, "x.db.t.id"),
    ]
