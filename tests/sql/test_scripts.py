"""Statements from inside the JVM: SQL scripts with variables, loops and handlers, EXECUTE
IMMEDIATE, and threads that Python did not start.
"""

from __future__ import annotations

import threading

import pytest

import frazil
from frazil.errors import EvaluationError, FrazilError
from frazil.spark.host.jvm import implementing
from tests.sql.statements_on_spark import lake_of

pytestmark = pytest.mark.spark


@pytest.fixture
def lake(spark, tmp_path):
    spark.conf.set("spark.sql.scripting.enabled", "true")
    with lake_of(spark, tmp_path) as lake:
        lake.table()
        yield lake
    spark.conf.unset("spark.sql.scripting.enabled")


@pytest.mark.versions
def test_a_script_changes_rows_by_its_variables_in_branches_and_loops(lake):
    frame = lake.sql(
        """BEGIN
          DECLARE n BIGINT = 2;
          DECLARE w INT;
          SET w = (SELECT 77);
          UPDATE lake.db.t SET v = w WHERE id = n;
          IF n > 1 THEN DELETE FROM lake.db.t WHERE id > n + 1; ELSE DELETE FROM lake.db.t; END IF;
          WHILE n > 0 DO
            UPDATE lake.db.t SET v = v + 1 WHERE id = n;
            SET n = n - 1;
          END WHILE;
          SELECT n, w;
        END"""
    )
    assert frame.first() == (0, 77)
    assert lake.rows() == [(1, 11), (2, 78), (3, 30)]


@pytest.mark.versions
def test_statements_in_every_part_of_a_script_are_taken(lake):
    lake.sql(
        """BEGIN
          CASE WHEN true THEN UPDATE lake.db.t SET v = 9 WHERE id = 1; ELSE DELETE FROM lake.db.t; END CASE;
          one: LOOP DELETE FROM lake.db.t WHERE id = 2; LEAVE one; END LOOP;
          REPEAT EXECUTE IMMEDIATE 'DELETE FROM lake.db.t WHERE id = 3'; UNTIL true END REPEAT;
          FOR r AS SELECT 4L AS id DO UPDATE lake.db.t SET s = 'for' WHERE id = r.id; END FOR;
          BEGIN MERGE INTO lake.db.t USING (SELECT 1L AS id) q ON t.id = q.id WHEN MATCHED THEN UPDATE SET s = 'merged'; END;
        END""".replace("lake.", lake.name + ".")
    )
    assert lake.rows("id", "v", "s") == [(1, 9, "merged"), (4, 40, "for")]


@pytest.mark.versions
def test_a_script_replaces_partitions_and_inserts_what_it_reads(lake):
    t = lake.table("db.p", partition_by=["s"])
    lake.spark.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    try:
        lake.sql(
            """BEGIN
              INSERT OVERWRITE lake.db.p SELECT 9L, 90, 'a', NULL;
              INSERT INTO lake.db.p SELECT id + 10, v, s, st FROM lake.db.p WHERE id = 9;
            END"""
        )
    finally:
        lake.spark.conf.unset("spark.sql.sources.partitionOverwriteMode")
    rows = t.refresh().scan().to_arrow().to_pydict()
    assert sorted(zip(rows["id"], rows["s"], strict=True)) == [
        (2, "b"), (3, "c"), (4, "d"), (9, "a"), (19, "a"),
    ]  # fmt: skip


def test_a_handler_catches_the_errors_of_statements(lake):
    lake.sql(
        """BEGIN
          DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN UPDATE lake.db.t SET s = 'handled' WHERE id = 2; END;
          UPDATE lake.db.t SET v = nope WHERE id = 1;
          DELETE FROM lake.db.t;
        END"""
    )
    assert [s for _, s in lake.rows("id", "s")] == ["a", "handled", "c", "d"]


def test_an_error_of_a_script_is_the_error_that_was_raised(lake):
    with pytest.raises(EvaluationError, match="cannot be cast|overflow|out of range"):
        lake.sql("BEGIN UPDATE lake.db.t SET v = CAST(s AS INT) WHERE id = 1; END")
    assert len(lake.rows()) == 4


@pytest.mark.versions
def test_an_error_that_spark_has_no_condition_for_is_raised_and_handled(lake):
    insert = "INSERT INTO lake.db.t.branch_nope (id) VALUES (7)"
    with pytest.raises(FrazilError, match="nope"):
        lake.sql(f"BEGIN {insert}; END").collect()
    caught = "DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN SELECT 'caught'; END"
    assert lake.sql(f"BEGIN {caught}; {insert}; END").collect() == [("caught",)]


@pytest.mark.versions
def test_names_of_a_script_are_looked_up_as_it_runs(lake):
    lake.sql(
        f"BEGIN USE {lake.name}; DELETE FROM db.t WHERE id = 1; USE {lake.name}.db; UPDATE t SET v = 0 WHERE id = 2; END"
    )
    assert lake.rows() == [(2, 0), (3, 30), (4, 40)]


@pytest.mark.versions
def test_extension_statements_are_run_by_execute_immediate(lake):
    lake.sql(
        f"EXECUTE IMMEDIATE 'ALTER TABLE {lake.name}.db.t ADD PARTITION FIELD bucket(4, id) AS shard'"
    )
    lake.sql(f"BEGIN EXECUTE IMMEDIATE 'ALTER TABLE {lake.name}.db.t CREATE TAG v1'; END")
    t = lake.catalog.load_table("db.t")
    assert [f.name for f in t.spec().fields] == ["shard"] and "v1" in t.refs()


@pytest.mark.versions
def test_extension_statements_stand_among_the_statements_of_a_script(lake):
    text = """BEGIN -- ALTER TABLE t CREATE TAG commented;
          DECLARE n INT = 1;
          IF n > 0 THEN ALTER TABLE lake.db.t CREATE TAG `it's`; END IF;
          ALTER TABLE lake.db.t ADD PARTITION FIELD bucket(4, id) AS shard;
          ALTER TABLE lake.db.t ADD COLUMN more int;
          ALTER TABLE lake.db.t WRITE ORDERED BY id;
        END"""
    lake.sql(text.replace("lake.", lake.name + "."))
    t = lake.catalog.load_table("db.t")
    assert [f.name for f in t.spec().fields] == ["shard"] and set(t.refs()) == {"main", "it's"}
    assert len(t.sort_order().fields) == 1 and t.schema().column_names[-1] == "more"


def test_threads_run_statements_and_see_their_own_results(lake):
    for n in range(3):
        lake.table(f"db.t{n}")
    counts, errors = {}, []

    def work(n):
        try:
            for i in range(n + 1):
                lake.sql(f"DELETE FROM lake.db.t{n} WHERE id = {i + 1}")
            lake.sql(f"UPDATE lake.db.t{n} SET v = 0 WHERE id > {n + 1}")
            counts[n] = frazil.last_result(lake.spark).rows_updated
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(3)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert errors == [] and counts == {0: 3, 1: 2, 2: 1}


def test_a_thread_of_the_jvm_runs_statements_by_the_session(lake):
    """As a Thrift server does: the statement comes on a thread that Python has not started."""
    view = lake.spark._jvm
    pool = view.java.util.concurrent.Executors.newSingleThreadExecutor()
    try:
        view.java.util.concurrent.CompletableFuture.runAsync(
            Job(
                lambda: lake.spark._jsparkSession.sql(f"DELETE FROM {lake.name}.db.t WHERE id = 1")
            ),
            pool,
        ).get()
    finally:
        pool.shutdown()
    assert [i for (i,) in lake.rows("id")] == [2, 3, 4]


@pytest.mark.versions
def test_a_setting_made_since_counts_for_the_next_statement_from_inside_the_jvm(lake, tmp_path):
    elsewhere = frazil.load_catalog(f"{lake.name}_moved", type="path", warehouse=str(tmp_path))
    elsewhere.create_namespace("db")
    elsewhere.create_table("db.t", "id bigint").append([{"id": 1}, {"id": 5}])
    session, name = lake.spark._jsparkSession, f"{lake.name}.db.t"
    assert session.sql(f"SELECT * FROM {name}").count() == 4
    lake.spark.conf.set(f"spark.sql.catalog.{lake.name}.warehouse", str(tmp_path))
    session.sql(f"DELETE FROM {name} WHERE id = 1")
    assert session.sql(f"SELECT * FROM {name}").count() == 1
    assert elsewhere.load_table("db.t").scan().to_arrow()["id"].to_pylist() == [5]
    assert len(lake.rows("id")) == 4


class Job:
    """Implement Runnable."""

    Java = implementing("java.lang.Runnable")

    def __init__(self, run):
        self._run = run

    def run(self):
        self._run()
