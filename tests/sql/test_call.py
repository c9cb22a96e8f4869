"""CALL: every procedure, names and positions, types of results, errors in Spark's words; the
changelog view.
"""

import pytest

from frazil.errors import InvalidInput, NoSuchSnapshotError
from frazil.maintain.advice.finding import ProcedureCall
from frazil.maintain.procedures import PROCEDURES

pytestmark = pytest.mark.spark


@pytest.fixture
def table(run):
    """A table with two snapshots and one row each."""
    run("CREATE TABLE lake.db.t (id bigint, s string) USING iceberg")
    run("INSERT INTO lake.db.t VALUES (1, 'a')")
    run("INSERT INTO lake.db.t VALUES (2, 'b')")


def fails(run, text, *words):
    with pytest.raises(Exception) as caught:
        run(text)
    message = f"{type(caught.value).__name__}: {caught.value}"
    assert all(word in message for word in words), message
    assert "Traceback" not in message and "py4j" not in message, message


@pytest.mark.versions
def test_arguments_are_taken_by_name_by_position_mixed_and_left_out(run, table, table_of):
    first, last = (s.snapshot_id for s in table_of("db.t").snapshots())
    calls = [
        f"CALL lake.system.ancestors_of('db.t', {first})",
        f"CALL lake.system.ancestors_of(snapshot_id => {first}, table => 'db.t')",
        f"CALL lake.system.ancestors_of('db.t', snapshot_id => {first})",
        f"CALL lake.SYSTEM.Ancestors_Of(TABLE => 'db.t', snapshot_id => {first})",
    ]
    assert [[row[0] for row in run(text)] for text in calls] == [[first]] * 4
    assert [row[0] for row in run("CALL lake.system.ancestors_of('db.t')")] == [last, first]


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


@pytest.mark.versions
def test_the_table_is_named_with_its_catalog_without_it_or_alone_in_the_current_namespace(
    run, lake, table
):
    snapshots = [row[0] for row in run("CALL lake.system.ancestors_of('db.t')")]
    assert [row[0] for row in run(f"CALL lake.system.ancestors_of('{lake}.db.t')")] == snapshots
    assert [
        row[0] for row in run(f"CALL lake.system.ancestors_of('`{lake}`.`db`.`t`')")
    ] == snapshots
    fails(run, "CALL lake.system.ancestors_of('t')", "Couldn't load table 't'")
    run(f"USE {lake}.db")
    assert [row[0] for row in run("CALL system.ancestors_of('t')")] == snapshots
    assert [row[0] for row in run(f"CALL {lake}.system.ancestors_of(table => 't')")] == snapshots


@pytest.mark.versions
def test_what_is_wrong_is_told_in_sparks_words_and_ours_unwrapped(run, table):
    fails(run, "CALL lake.system.ancestors_of()", "REQUIRED_PARAMETER_NOT_FOUND", "`table`")
    fails(
        run,
        "CALL lake.system.ancestors_of('db.t', nope => 1)",
        "UNRECOGNIZED_PARAMETER_NAME",
        "`nope`",
    )
    fails(run, "CALL lake.system.ancestors_of('db.t', 'abc')", "CAST_INVALID_INPUT")
    fails(run, "CALL lake.system.nope('db.t')", "nope")
    fails(run, "CALL lake.system.ancestors_of('db.nope')", "NoSuchTableError", "db.nope")
    fails(
        run,
        "CALL lake.system.ancestors_of('')",
        "InvalidInput",
        "Cannot handle an empty identifier",
    )
    fails(run, "CALL lake.system.set_current_snapshot('db.t')", "snapshot_id or ref")
    fails(run, "CALL lake.system.rewrite_data_files('db.t', strategy => 'foo')", "foo")
    fails(run, "CALL lake.system.remove_orphan_files('db.t', older_than => now())", "24 hours")


def test_snapshots_are_moved_and_branches_forwarded(run, table, table_of):
    first, last = (s.snapshot_id for s in table_of("db.t").snapshots())
    assert run(f"CALL lake.system.rollback_to_snapshot('db.t', {first})") == [(last, first)]
    assert run("SELECT id FROM lake.db.t") == [(1,)]
    assert run(f"CALL lake.system.set_current_snapshot('db.t', {last})") == [(first, last)]
    assert run("CALL lake.system.fast_forward('db.t', 'audit', 'main')") == [("audit", None, last)]
    dry = run(
        "CALL lake.system.rollback_to_snapshot(table => 'db.t', snapshot_id => "
        + str(first)
        + ", dry_run => true)"
    )
    assert dry == [(last, first)] and run("SELECT count(*) FROM lake.db.t") == [(2,)]


def test_lists_and_maps_reach_the_procedure(run, table, table_of):
    first = table_of("db.t").snapshots()[0].snapshot_id
    row = run(
        f"CALL lake.system.expire_snapshots(table => 'db.t', older_than => timestamp '2000-01-01', snapshot_ids => array({first}))"
    )[0]
    assert row[4] == 1 and len(table_of("db.t").snapshots()) == 1
    path = run(
        "CALL lake.system.compute_table_stats(table => 'db.t', columns => array('id', 's'))"
    )[0][0]
    assert path.endswith(".stats")
    assert run("CALL lake.system.rewrite_manifests('db.t', false, 0)")[0] in [
        (1, 1),
        (0, 0),
        (2, 1),
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


def test_our_own_procedures_answer_in_rows(run, table):
    assert run("CALL lake.system.recommend('db.t')") == [] or all(
        row[0] for row in run("CALL lake.system.recommend('db.t')")
    )
    run("CALL lake.system.auto(table => 'db.t', budget_bytes => 1000000, dry_run => true)")
    assert run("CALL lake.system.convert_equality_deletes('db.t')") == [(0, 0, 0, 0, 0)]
    run("CREATE TABLE lake.db.p (id bigint, dt string) USING iceberg PARTITIONED BY (dt)")
    run("INSERT INTO lake.db.p VALUES (1, '2026-01-01')")
    assert run("CALL lake.system.mark_partition_done('db.p', map('dt', '2026-01-01'))") == [
        ("dt=2026-01-01",)
    ]


@pytest.mark.versions
def test_a_changelog_view_shows_what_snapshots_changed_with_updates_and_net(
    spark, run, table, table_of
):
    first = table_of("db.t").snapshots()[0].snapshot_id
    assert run("CALL lake.system.create_changelog_view(table => 'db.t')") == [("`t_changes`",)]
    shown = spark.table("t_changes")
    assert shown.columns == ["id", "s", "_change_type", "_change_ordinal", "_commit_snapshot_id"]
    assert sorted((r.id, r._change_type, r._change_ordinal) for r in shown.collect()) == [
        (1, "INSERT", 0),
        (2, "INSERT", 1),
    ]
    table_of("db.t").overwrite(spark.sql("SELECT 2L id, 'c' s"), overwrite_filter="id = 2")
    made = run(f"""CALL lake.system.create_changelog_view(table => 'db.t', changelog_view => 'cv', identifier_columns => array('id'),
                   options => map('start-snapshot-id', '{first}'))""")
    assert made == [("cv",)]
    found = sorted((r.s, r._change_type) for r in spark.table("cv").collect())
    assert found == [("b", "INSERT"), ("b", "UPDATE_BEFORE"), ("c", "UPDATE_AFTER")]
    run(
        "CALL lake.system.create_changelog_view(table => 'db.t', changelog_view => 'net', net_changes => true)"
    )
    assert sorted((r.s, r._change_type) for r in spark.table("net").collect()) == [
        ("a", "INSERT"),
        ("c", "INSERT"),
    ]
    fails(
        run,
        "CALL lake.system.create_changelog_view('db.t', compute_updates => true)",
        "identifier columns are not set",
    )
    both = "CALL lake.system.create_changelog_view('db.t', net_changes => true, identifier_columns => array('id'))"
    with pytest.raises(InvalidInput, match="net changes with update images"):
        run(both)
    for view in ("t_changes", "cv", "net"):
        spark.catalog.dropTempView(view)


@pytest.mark.versions
def test_empty_sources_and_files_with_variants_are_imported(spark, run, tmp_path):
    (tmp_path / "empty").mkdir()
    run("CREATE TABLE lake.db.e (id bigint) USING iceberg")
    assert run(f"CALL lake.system.add_files('db.e', '`parquet`.`{tmp_path}/empty`')") == [(0, 0)]
    name = "spark_catalog.default.variants_to_import"
    spark.sql(f"CREATE TABLE {name} (id bigint, v variant) USING parquet LOCATION '{tmp_path}/v'")
    try:
        assert run(f"CALL lake.system.add_files('db.e', '{name}')") == [(0, 0)]
        spark.sql(f"""INSERT INTO {name} VALUES (1, parse_json('{{"key": 123}}'))""")
        arguments = f"'{name}', 'db.v', properties => map('format-version', '3')"
        assert run(f"CALL lake.system.snapshot({arguments})") == [(1,)]
    finally:
        spark.sql(f"DROP TABLE {name}")
    assert run("SELECT id, variant_get(v, '$.key', 'int') FROM lake.db.v") == [(1, 123)]


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


def test_nulls_among_the_values_of_a_parameter_are_refused(run, table):
    for call in (
        "expire_snapshots(table => 'db.t', snapshot_ids => array(1, CAST(NULL AS bigint)))",
        "create_changelog_view(table => 'db.t', identifier_columns => array('id', NULL))",
    ):
        name = call.split(", ")[1].split()[0]
        fails(run, f"CALL lake.system.{call}", "InvalidInput", f"{name} of", "has a null")
    for call, name in (
        ("expire_snapshots(NULL)", "table"),
        ("rollback_to_snapshot('db.t', NULL)", "snapshot_id"),
    ):
        fails(run, f"CALL lake.system.{call}", "InvalidInput", f"Parameter '{name}' is not set")


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


def test_procedures_find_columns_as_the_session_spells_them(spark, run, table):
    """As Spark's own statements do, in conditions and in orders."""
    run("ALTER TABLE lake.db.t SET TBLPROPERTIES ('write.delete.mode' = 'merge-on-read')")
    calls = [
        "CALL lake.system.rewrite_position_delete_files(table => 'db.t', where => 'ID > 0')",
        "CALL lake.system.convert_equality_deletes(table => 'db.t', where => 'ID > 0')",
        "CALL lake.system.rewrite_data_files(table => 'db.t', where => 'ID > 0', strategy => 'sort',"
        " sort_order => 'S DESC', options => map('rewrite-all', 'true'))",
    ]
    spark.conf.set("spark.sql.caseSensitive", "true")
    try:
        for text in calls:
            fails(run, text, "Cannot find column")
    finally:
        spark.conf.unset("spark.sql.caseSensitive")
    assert run(calls[0])[0][:2] == (0, 0)
    run(calls[1])
    assert run(calls[2])[0][:2] == (2, 1)
    assert run("SELECT s FROM lake.db.t") == [("b",), ("a",)]
