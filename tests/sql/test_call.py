"""CALL: every procedure, names and positions, types of results, errors in Spark's words; the
changelog view.
"""

import pytest

from frazil.errors import NoSuchSnapshotError
from frazil.maintain.advice.finding import ProcedureCall
from frazil.maintain.procedures import PROCEDURES

pytestmark = pytest.mark.spark


@pytest.fixture
def table(run):
    """A table with two snapshots and one row each."""
    run("CREATE TABLE lake.db.t (id bigint, s string) USING iceberg")
    run("INSERT INTO lake.db.t VALUES (1, 'a')")
    run("INSERT INTO lake.db.t VALUES (2, 'b')")


@pytest.mark.versions
def test_results_have_the_types_that_are_listed_also_for_numbers_that_fit_an_int(
    spark, run, lake, table
):
    text = f"CALL {lake}.system.rewrite_data_files(table => 'db.t', options => map('rewrite-all', 'true'))"
    answer = spark.sql(text)
    assert [f.simpleString() for f in answer.schema.fields] == [
        "rewritten_data_files_count:int",
        "added_data_files_count:int",
        "rewritten_bytes_count:bigint",
        "failed_data_files_count:int",
        "removed_delete_files_count:int",
    ]
    rewritten = answer.first()
    assert rewritten[:2] == (2, 1) and rewritten[2] > 0
    text = f"CALL {lake}.system.expire_snapshots(table => 'db.t', older_than => TIMESTAMP '2100-01-01 00:00:00', retain_last => 1)"
    expired = spark.sql(text)
    assert {f.dataType.simpleString() for f in expired.schema.fields} == {
        "bigint"
    } and expired.first()[0] == 2
    assert run("SELECT * FROM lake.db.t ORDER BY id") == [(1, "a"), (2, "b")]


def test_every_procedure_can_be_found_and_tells_what_it_does(spark, run, lake):
    shown = {row[3] for row in run(f"SHOW PROCEDURES IN {lake}.system")}
    assert shown == {p.name for p in PROCEDURES}
    assert run(f"DESCRIBE PROCEDURE {lake}.system.expire_snapshots")[0][0].split() == [
        "Procedure:",
        "expire_snapshots",
    ]


def test_recommended_calls_are_statements_that_run(run, table):
    for n in range(6):
        run(f"INSERT INTO lake.db.t VALUES ({n}, 'a')")
    calls = [row[6] for row in run("CALL lake.system.recommend('db.t')")]
    assert calls[0].endswith(".system.rewrite_data_files(table => 'db.t')")
    made = ProcedureCall(
        "rewrite_data_files",
        {"strategy": "sort", "sort_order": "id DESC", "where": "s <> 'it\\'s'"}
        | {"options": {"rewrite-all": "true"}},
    )
    listed = ProcedureCall("compute_table_stats", {"columns": ["id", "s"]})
    for call in (*calls, made.as_sql("lake", "db.t"), listed.as_sql("lake", "db.t")):
        assert run(call), call
    assert made.as_sql("my-lake", "db.t").startswith("CALL `my-lake`.system.rewrite_data_files(")


def test_ids_of_snapshots_that_are_not_there_are_passed_over_with_a_warning(
    run, table, table_of, caplog
):
    """As in Java Iceberg, so that a CALL can be sent twice; the method of Python refuses them."""
    first, last = (s.snapshot_id for s in table_of("db.t").snapshots())
    text = "CALL lake.system.expire_snapshots(table => 'db.t', snapshot_ids => array({}))"
    assert run(text.format(17)) == [(0,) * 6] and "these ids: 17" in caplog.text
    run(text.format(f"{first}, 18"))
    assert [s.snapshot_id for s in table_of("db.t").snapshots()] == [last]
    assert run(text.format(first)) == [(0,) * 6] and f"these ids: {first}" in caplog.text
    with pytest.raises(NoSuchSnapshotError):
        table_of("db.t").maintenance.expire_snapshots(snapshot_ids=[first])


@pytest.mark.versions
def test_functions_of_iceberg_say_which_files_a_procedure_rewrites(run, lake, table_of):
    run("CREATE TABLE lake.db.b (id bigint, ts timestamp) PARTITIONED BY (bucket(2, id), days(ts))")
    for _ in range(2):
        run(
            "INSERT INTO lake.db.b SELECT id, timestamp '2026-01-01' + make_dt_interval(id % 2)"
            " FROM range(8)"
        )
    text = "CALL lake.system.rewrite_data_files(table => 'db.b', where => '{}', options => map('rewrite-all', 'true'))"
    for where, rewritten in (
        (f"{lake}.system.bucket(2, id) = 0", 4),
        (f'{lake}.system.days(ts) >= date("2026-01-02")', 3),
        (f"{lake}.system.bucket(2, id) = 1 AND {lake}.system.months(ts) < 0", 0),
    ):
        before = table_of("db.b").scan(row_filter=where).plan_files()
        assert run(text.format(where))[0][0] == len(list(before)) == rewritten, where
    run(f"DELETE FROM lake.db.b WHERE {lake}.system.bucket(2, id) = 0")
    assert run(f"SELECT DISTINCT {lake}.system.bucket(2, id) FROM lake.db.b") == [(1,)]
    rows = table_of("db.b").scan(row_filter=f"{lake}.system.days(ts) = date '2026-01-02'")
    counts = rows.to_spark().count(), rows.to_arrow().num_rows
    days = f"SELECT count(*) FROM lake.db.b WHERE {lake}.system.days(ts) = date '2026-01-02'"
    assert counts == (run(days)[0][0],) * 2


def test_snapshots_name_the_engine_and_the_application_as_java_icebergs_do(
    spark, run, table, table_of
):
    run(
        "CALL lake.system.rewrite_data_files(table => 'db.t', options => map('rewrite-all', 'true'))"
    )
    context = spark.sparkContext
    expected = {
        "engine-name": "spark",
        "engine-version": spark.version,
        "app-id": context.applicationId,
        "app-name": context.appName,
    }
    for snapshot in table_of("db.t").snapshots():
        assert snapshot.summary.items() >= expected.items()
