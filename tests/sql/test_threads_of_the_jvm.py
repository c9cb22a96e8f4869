"""Statements from inside the JVM: threads that Python did not start, errors of scripts by their class.
What scripts do is said by cases (`tests/cases/scripts.test`).
"""

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


def test_errors_of_a_script_are_of_frazils_classes(lake):
    with pytest.raises(EvaluationError):
        lake.sql("BEGIN UPDATE lake.db.t SET v = CAST(s AS INT) WHERE id = 1; END")
    with pytest.raises(FrazilError):
        lake.sql("BEGIN INSERT INTO lake.db.t.branch_nope (id) VALUES (7); END").collect()


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
