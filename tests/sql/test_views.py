"""Views by name: created, read, described, changed and dropped by SQL; their definition is
Iceberg's.
"""

import pytest
from pyspark.errors import AnalysisException, PySparkException

from frazil.errors import Unsupported

pytestmark = [pytest.mark.spark, pytest.mark.versions]


@pytest.fixture
def table(run):
    run("CREATE TABLE lake.db.t (id bigint, s string) USING iceberg")
    run("INSERT INTO lake.db.t VALUES (1, 'a'), (2, 'b')")


def test_a_view_is_read_joined_and_nested_and_follows_its_table(run, lake, catalog, table):
    run(
        "CREATE VIEW lake.db.v (new_id COMMENT 'the id', text) COMMENT 'all' TBLPROPERTIES ('k' = 'v') AS SELECT id, s FROM lake.db.t"
    )
    assert sorted(run("SELECT * FROM lake.db.v")) == [(1, "a"), (2, "b")]
    run("CREATE VIEW lake.db.w AS SELECT * FROM lake.db.v WHERE new_id > 1")
    assert run("SELECT w.text, t.s FROM lake.db.w JOIN lake.db.t ON w.new_id = t.id") == [
        ("b", "b")
    ]
    run("INSERT INTO lake.db.t VALUES (3, 'c')")
    run("ALTER TABLE lake.db.t ADD COLUMN more int")
    assert sorted(run("SELECT * FROM lake.db.w")) == [(2, "b"), (3, "c")]
    view = catalog.load_view("db.v")
    assert (
        view.sql_for("spark").sql == "SELECT id, s FROM " + lake + ".db.t"
        and view.schema().find_field("new_id").doc == "the id"
    )
    assert (view.properties["comment"], view.properties["k"]) == ("all", "v")


def test_names_in_a_view_are_those_of_the_catalog_and_namespace_where_it_was_made(
    spark, run, lake, catalog, table
):
    run(f"USE {lake}.db")
    run("CREATE VIEW here AS SELECT id FROM t")
    spark.sql("USE spark_catalog.default")
    assert sorted(run("SELECT * FROM lake.db.here")) == [(1,), (2,)]
    version = catalog.load_view("db.here").current_version()
    # None is the view's own catalog, by whatever name a session or an engine knows it.
    assert (version.default_catalog, version.default_namespace) == (None, ("db",))
    assert sorted(catalog.load_view("db.here").to_spark(spark).collect()) == [(1,), (2,)]
    run(f"ALTER VIEW {lake}.db.here SET TBLPROPERTIES ('k' = 'v')")
    assert len(catalog.load_view("db.here").versions) == 1


@pytest.mark.parametrize(
    ("setting", "values", "query"),
    [
        ("ansi.enabled", ("true", "false"), "SELECT cast(s AS int) + id AS e FROM lake.db.t"),
        ("session.timeZone", ("Asia/Tokyo", "UTC"), "SELECT string(timestamp_micros(id)) AS e, hour(TIMESTAMP '2026-01-01 00:00:00Z') AS h FROM lake.db.t"),
        ("caseSensitive", ("true", "false"), "SELECT ID AS e FROM lake.db.t"),
        ("mapKeyDedupPolicy", ("LAST_WIN", "EXCEPTION"), "SELECT to_json(map(0, id, id - id, 9)) AS e FROM lake.db.t"),
        ("decimalOperations.allowPrecisionLoss", ("false", "true"), "SELECT string(id / 3.00000000000000000000000000001) AS e FROM lake.db.t"),
    ],
)  # fmt: skip
def test_the_query_of_a_view_is_evaluated_as_the_session_evaluates_it(
    spark, run, table, setting, values, query
):
    def shown(text):
        try:
            return sorted(run(text))
        except PySparkException as error:
            return error.getCondition()

    run(f"CREATE VIEW lake.db.v AS {query}")
    run("CREATE VIEW lake.db.w AS SELECT * FROM lake.db.v")
    key, rows = f"spark.sql.{setting}", []
    before = spark.conf.get(key)
    try:
        for value in values:
            spark.conf.set(key, value)
            rows.append(shown(query))
            assert shown("SELECT * FROM lake.db.v") == rows[-1] == shown("SELECT * FROM lake.db.w")
    finally:
        spark.conf.set(key, before)
    assert rows[0] != rows[1]


def test_a_view_is_shown_described_and_listed_apart_from_tables(run, lake, catalog, table):
    run(
        "CREATE VIEW lake.db.v (new_id COMMENT 'the id') TBLPROPERTIES ('k' = 'v') AS SELECT id FROM lake.db.t"
    )
    assert (
        run(f"SHOW VIEWS IN {lake}.db")
        == [("db", "v", False)]
        == run(f"SHOW VIEWS IN {lake}.db LIKE 'v*|x'")
    )
    assert run(f"SHOW VIEWS IN {lake}.db LIKE 'x*'") == [] and [
        row[1] for row in run(f"SHOW TABLES IN {lake}.db")
    ] == ["t"]
    assert run("DESCRIBE lake.db.v") == [("new_id", "bigint", "the id")]
    described = {row[0]: row[1] for row in run("DESCRIBE EXTENDED lake.db.v")}
    assert (
        described["View Query Output Columns"] == "[id]"
        and "# Detailed View Information" in described
    )
    text = run("SHOW CREATE TABLE lake.db.v")[0][0]
    assert (
        text.startswith(f"CREATE VIEW {lake}.db.v (\n  new_id COMMENT 'the id')\n")
        and f"SELECT id FROM {lake}.db.t" in text
    )
    assert dict(run("SHOW TBLPROPERTIES lake.db.v"))["k"] == "v" and run(
        "SHOW COLUMNS IN lake.db.v"
    ) == [("new_id",)]


@pytest.mark.versions
def test_show_create_quotes_names_so_that_its_text_can_be_run(run, lake, table):
    run("CREATE VIEW lake.db.`a-view` (`new id`) AS SELECT id FROM lake.db.t")
    (text,) = run("SHOW CREATE TABLE lake.db.`a-view`")[0]
    run("DROP VIEW lake.db.`a-view`")
    run(text)
    assert sorted(run("SELECT `new id` FROM lake.db.`a-view`")) == sorted(
        run("SELECT id FROM lake.db.t")
    )


def test_a_view_is_replaced_altered_renamed_and_dropped(run, lake, catalog, table):
    run("CREATE VIEW lake.db.v AS SELECT id FROM lake.db.t")
    run("CREATE VIEW IF NOT EXISTS lake.db.v AS SELECT 5 five")
    assert len(run("SELECT id FROM lake.db.v")) == 2
    run("CREATE OR REPLACE VIEW lake.db.v AS SELECT s FROM lake.db.t")
    run("ALTER VIEW lake.db.v SET TBLPROPERTIES ('a' = 'b', 'c' = 'd')")
    run("ALTER VIEW lake.db.v UNSET TBLPROPERTIES ('c')")
    run("ALTER VIEW lake.db.v AS SELECT id, s FROM lake.db.t WHERE id = 1")
    assert run("SELECT * FROM lake.db.v") == [(1, "a")]
    view = catalog.load_view("db.v")
    assert view.properties["a"] == "b" and "c" not in view.properties and len(view.versions) == 3
    run(f"ALTER VIEW lake.db.v RENAME TO {lake}.db.w")
    assert run("SELECT * FROM lake.db.w") == [(1, "a")] and not catalog.view_exists("db.v")
    run("DROP VIEW lake.db.w")
    run("DROP VIEW IF EXISTS lake.db.w")
    with pytest.raises(Exception, match=r"VIEW_NOT_FOUND|View does not exist"):
        run("DROP VIEW lake.db.w")


def test_what_is_wrong_with_a_view_is_told(request, spark, run, lake, catalog, table):
    spark.sql("CREATE OR REPLACE TEMPORARY VIEW passing AS SELECT 1 x")
    request.addfinalizer(lambda: spark.catalog.dropTempView("passing"))
    for text, words in {
        "CREATE VIEW lake.db.v AS SELECT * FROM lake.db.nope": "TABLE_OR_VIEW_NOT_FOUND",
        "CREATE VIEW lake.db.v (a, a) AS SELECT 1, 2": "already exists",
        "CREATE VIEW lake.db.v (a) AS SELECT 1, 2": "too many data columns",
        "CREATE VIEW lake.db.t AS SELECT 1 a": "already exists",
        "CREATE VIEW lake.nope.v AS SELECT 1 a": "(SCHEMA_NOT_FOUND|does not exist)",
        "CREATE VIEW lake.db.v AS SELECT * FROM passing": "passing",
        "DROP VIEW lake.db.t": "(is a TABLE|is a table)",
    }.items():
        with pytest.raises(Exception, match=words):
            run(text)
    run("CREATE VIEW lake.db.v AS SELECT id FROM lake.db.t")
    for change in (
        "SET TBLPROPERTIES ('format-version' = '99')",
        "UNSET TBLPROPERTIES ('format-version')",
        "SET TBLPROPERTIES ('spark.query-column-names' = 'a')",
        "SET TBLPROPERTIES ('provider' = 'x')",
    ):
        with pytest.raises(Exception, match=r"reserved|RESERVED"):
            run(f"ALTER VIEW lake.db.v {change}")
    run("DROP VIEW lake.db.v")
    assert run(f"SHOW VIEWS IN {lake}.db") in ([], [("", "passing", True)])


def test_a_view_of_another_dialect_is_refused_by_naming_its_dialects(run, lake, catalog, table):
    catalog.create_view("db.foreign", "id bigint", sql={"trino": "SELECT id FROM t"})
    with pytest.raises(Unsupported, match=r"in trino, not for Spark"):
        run("SELECT * FROM lake.db.foreign")
    assert run("DESCRIBE lake.db.foreign")[0][:2] == ("id", "bigint")
    run("DROP VIEW lake.db.foreign")


@pytest.mark.versions
def test_temporary_views_come_before_views_of_their_name(spark, run):
    run("USE lake.db")
    run("CREATE VIEW v AS SELECT 1 AS a")
    run("CREATE TEMPORARY VIEW v AS SELECT 2 AS a")
    try:
        assert run("SELECT a FROM v") == [(2,)] and run("SELECT a FROM lake.db.v") == [(1,)]
        run("ALTER VIEW v RENAME TO renamed")
        assert run("SELECT a FROM renamed") == [(2,)] and run("SELECT a FROM v") == [(1,)]
        run("CREATE TEMPORARY VIEW v AS SELECT 3 AS a")
        run("DROP VIEW v")
        assert run("SELECT a FROM v") == [(1,)]
    finally:
        for name in ("v", "renamed"):
            spark.catalog.dropTempView(name)


@pytest.mark.versions
def test_views_of_what_ends_with_the_session_and_of_themselves_are_refused(spark, run):
    run("USE lake.db")
    run("CREATE VIEW v AS SELECT 1 AS a")
    run("CREATE VIEW w AS SELECT a FROM v")
    run("CREATE GLOBAL TEMPORARY VIEW everywhere AS SELECT 1 AS a")
    run("CREATE TEMPORARY FUNCTION more(x INT) RETURNS INT RETURN x + 1")
    try:
        for text, words in {
            "CREATE VIEW x AS SELECT a FROM global_temp.everywhere": "everywhere",
            "CREATE VIEW x AS SELECT more(a) AS a FROM v": "(?i)temporary.*more",
            "CREATE OR REPLACE VIEW v AS SELECT a FROM w": "(?i)recursive",
            "CREATE OR REPLACE VIEW v AS WITH c AS (SELECT a FROM w) SELECT a FROM c": "(?i)recursive",
            "CREATE VIEW x (a, b) AS SELECT 1": "not enough data columns",
        }.items():
            with pytest.raises(Exception, match=words):
                run(text)
        assert run("SELECT a FROM w") == [(1,)]
        run("CREATE TEMPORARY FUNCTION months(x DATE) RETURNS INT RETURN 0")
        run("CREATE VIEW x AS SELECT lake.system.months(DATE '1970-02-01') AS m")  # not that one
        assert run("SELECT m FROM x") == [(1,)]
    finally:
        run("DROP VIEW global_temp.everywhere")
        run("DROP TEMPORARY FUNCTION more")
        run("DROP TEMPORARY FUNCTION IF EXISTS months")


def test_a_temporary_view_using_the_format_reads_a_table_of_the_session(spark, run, lake, table):
    run(f"CREATE TEMPORARY VIEW named USING iceberg OPTIONS (path '{lake}.db.t')")
    first = run("SELECT snapshot_id FROM lake.db.t.snapshots")[0][0]
    run(
        f"CREATE OR REPLACE GLOBAL TEMP VIEW `as it was` USING `Iceberg` OPTIONS ('path' = '{lake}.`db`.t', 'Snapshot-Id' = {first})"
    )
    run(f"create temp view history using iceberg options (path '{lake}.db.t.snapshots')")
    run("INSERT INTO lake.db.t VALUES (3, 'c')")
    assert sorted(run("SELECT id FROM named")) == [(1,), (2,), (3,)]
    assert sorted(run("SELECT id FROM global_temp.`as it was`")) == [(1,), (2,)]
    assert run("SELECT count(*) FROM history") == [(2,)]
    with pytest.raises(AnalysisException, match="already exists"):
        run(f"CREATE TEMPORARY VIEW named USING iceberg OPTIONS (path '{lake}.db.t')")
    with pytest.raises(AnalysisException, match="none"):
        run(f"CREATE TEMPORARY VIEW other USING iceberg OPTIONS (path '{lake}.db.none')")
    for view in ("named", "history"):
        spark.catalog.dropTempView(view)
    spark.catalog.dropGlobalTempView("as it was")
