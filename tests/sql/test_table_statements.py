"""CREATE, ALTER, DROP, DESCRIBE and SHOW of tables and namespaces by Spark's own statements, each
change one commit.
"""

import re
from datetime import time
from decimal import Decimal
from uuid import UUID

import pytest

from frazil.errors import InvalidInput, Unsupported
from frazil.scan.inspect import METADATA_TABLES
from frazil.spec import types as i

pytestmark = pytest.mark.spark


@pytest.mark.versions
def test_a_table_is_created_with_all_that_a_statement_says(run, table_of, tmp_path):
    run(f"""CREATE TABLE lake.db.t (id bigint NOT NULL COMMENT 'the id', s char(3), d decimal(10, 2), ts timestamp, ntz timestamp_ntz,
            n struct<a: int NOT NULL COMMENT 'inner', b: array<map<string, double>>>, `odd. name` int)
            USING iceberg PARTITIONED BY (bucket(4, id), days(ts), truncate(3, s), months(ntz), `odd. name`) COMMENT 'mine'
            LOCATION '{tmp_path}/elsewhere' TBLPROPERTIES ('k' = 'v', 'format-version' = '3')""")
    t = table_of("db.t")
    schema = t.schema()
    assert schema.find_field("id").required and schema.find_field("id").doc == "the id"
    assert str(schema.find_field("s").field_type) == "string" and schema.find_field("n.a").required
    assert [str(f.transform) for f in t.spec().fields] == [
        "bucket[4]",
        "day",
        "truncate[3]",
        "month",
        "identity",
    ]
    assert t.location().endswith("/elsewhere") and t.metadata.format_version == 3
    assert (t.properties["k"], t.properties["comment"]) == ("v", "mine")
    run("CREATE TABLE IF NOT EXISTS lake.db.t (x int)")
    with pytest.raises(Exception, match="TABLE_OR_VIEW_ALREADY_EXISTS"):
        run("CREATE TABLE lake.db.t (x int)")


def test_using_names_the_format_of_files_and_others_are_refused(run, table_of):
    run("CREATE TABLE lake.db.plain (x int)")
    run("CREATE TABLE lake.db.orc (x int) USING orc")
    assert table_of("db.orc").properties["write.format.default"] == "orc"
    with pytest.raises(InvalidInput, match="Unsupported format in USING: csv"):
        run("CREATE TABLE lake.db.csv (x int) USING csv")
    for clause in (
        "CLUSTER BY (x)",
        "PARTITIONED BY (foo(x))",
        "TBLPROPERTIES ('format-version' = '9')",
    ):
        with pytest.raises(Exception):  # noqa: B017 - Spark's or ours
            run(f"CREATE TABLE lake.db.bad (x int) USING iceberg {clause}")
    assert [row[1] for row in run("SHOW TABLES IN lake.db")] == ["orc", "plain"]


@pytest.mark.versions
def test_defaults_of_columns_are_kept_and_given_to_rows(run, table_of):
    run("""CREATE TABLE lake.db.t (id bigint, n int DEFAULT 5, s string DEFAULT 'x''y', d decimal(5, 2) DEFAULT 1.5, day date DEFAULT
           date'2026-01-02') USING iceberg TBLPROPERTIES ('format-version' = '3')""")
    run("INSERT INTO lake.db.t (id) VALUES (1)")
    run("ALTER TABLE lake.db.t ADD COLUMN later timestamp DEFAULT timestamp'2026-01-01 00:00:00'")
    run("ALTER TABLE lake.db.t ALTER COLUMN n SET DEFAULT 6")
    run("INSERT INTO lake.db.t (id) VALUES (2)")
    rows = sorted(table_of("db.t").to_arrow().to_pylist(), key=lambda row: row["id"])
    assert [(r["n"], r["s"], r["d"], str(r["day"]), r["later"].year) for r in rows] == [
        (5, "x'y", Decimal("1.50"), "2026-01-02", 2026),
        (6, "x'y", Decimal("1.50"), "2026-01-02", 2026),
    ]
    run("ALTER TABLE lake.db.t ALTER COLUMN n DROP DEFAULT")
    run("ALTER TABLE lake.db.t ALTER COLUMN later DROP DEFAULT")
    run("INSERT INTO lake.db.t (id) VALUES (3)")
    assert run("SELECT id, n, year(later) FROM lake.db.t ORDER BY id") == [
        (1, 5, 2026),
        (2, 6, 2026),
        (3, None, None),
    ]
    with pytest.raises(Unsupported, match="constants"):
        run("ALTER TABLE lake.db.t ADD COLUMN now timestamp DEFAULT current_timestamp()")


@pytest.mark.versions
@pytest.mark.parametrize(
    ("type_", "old", "new"),
    [(i.BinaryType(), b"\x01\xff", b"'"), (i.FixedType(2), b"\x01\xff", b"ab"), (i.UUIDType(), str(UUID(int=5)), str(UUID(int=6))),
     (i.TimeType(), time(1, 2, 3, 4), time(2)), (i.LongType(), -(2**63), None)],
)  # fmt: skip
def test_defaults_of_each_type_are_given_to_old_files_and_new_rows(
    spark, run, table_of, type_, old, new
):
    run("CREATE TABLE lake.db.t (id int) USING iceberg TBLPROPERTIES ('format-version' = '3')")
    run("INSERT INTO lake.db.t VALUES (1)")
    with table_of("db.t").update_schema() as change:
        change.add_column("q", type_, default_value=old)
    with table_of("db.t").update_schema() as change:
        change.set_default_value("q", new)
    spark.conf.set("spark.sql.timeType.enabled", "true")
    try:
        run("INSERT INTO lake.db.t (id) VALUES (2)")
        table_of("db.t").append(spark.range(3, 4).selectExpr("int(id) AS id"))
        rows = run("SELECT id, q FROM lake.db.t ORDER BY id")
    finally:
        spark.conf.unset("spark.sql.timeType.enabled")
    assert [q if q is None or not isinstance(q, bytearray) else bytes(q) for _, q in rows] == [
        old,
        new,
        new,
    ]


@pytest.mark.versions
def test_columns_are_added_renamed_moved_changed_and_dropped_each_in_one_commit(run, table_of):
    run("CREATE TABLE lake.db.t (id bigint NOT NULL, s string, n struct<a: int, b: string>)")
    for text in (
        "ADD COLUMNS (c1 int COMMENT 'one' AFTER id, c2 map<string, int>)",
        "ADD COLUMN c0 int FIRST",
        "ADD COLUMN n.z double AFTER a",
        "RENAME COLUMN n.a TO aa",
        "ALTER COLUMN c1 TYPE bigint",
        "ALTER COLUMN c1 COMMENT 'uno'",
        "ALTER COLUMN id DROP NOT NULL",
        "ALTER COLUMN s FIRST",
        "ALTER COLUMN n.z AFTER b",
        "DROP COLUMNS (c0, c2)",
        "DROP COLUMN IF EXISTS nope",
        "SET TBLPROPERTIES ('k' = 'v', 'comment' = 'c', 'format-version' = '3')",
        "UNSET TBLPROPERTIES ('k')",
    ):
        before = table_of("db.t").metadata_location
        log = len(table_of("db.t").metadata.metadata_log)
        run(f"ALTER TABLE lake.db.t {text}")
        assert len(table_of("db.t").metadata.metadata_log) - log == (
            0 if "IF EXISTS" in text else 1
        ), (text, before)
    t = table_of("db.t")
    assert [f.name for f in t.schema().fields] == ["s", "id", "c1", "n"]
    assert [f.name for f in t.schema().find_field("n").field_type.fields] == ["aa", "b", "z"]
    c1 = t.schema().find_field("c1")
    assert (str(c1.field_type), c1.doc, t.schema().find_field("id").required) == (
        "long",
        "uno",
        False,
    )
    assert (
        t.metadata.format_version == 3
        and "k" not in t.properties
        and t.properties["comment"] == "c"
    )


@pytest.mark.versions
def test_show_table_extended_lists_views_as_dbt_looks_for_them(run, lake):
    run("CREATE TABLE lake.db.t (id bigint) USING iceberg")
    run("CREATE VIEW lake.db.v AS SELECT id AS n FROM lake.db.t")
    shown = {row[1]: row[3] for row in run("SHOW TABLE EXTENDED IN lake.db LIKE '*'")}
    assert sorted(shown) == ["t", "v"] and "Type: VIEW" not in shown["t"]
    assert "\nType: VIEW\n" in shown["v"] and "Provider" not in shown["v"]
    assert "|-- n: long" in shown["v"] and "Provider: iceberg" in shown["t"]
    assert [row[1] for row in run("SHOW TABLES IN lake.db")] == ["t"]
    assert run("SHOW TABLE EXTENDED IN lake.db LIKE 'n*'") == []


def test_special_properties_move_snapshots_and_the_location(run, table_of, tmp_path):
    run("CREATE TABLE lake.db.t (id bigint)")
    run("INSERT INTO lake.db.t VALUES (1)")
    first = table_of("db.t").current_snapshot().snapshot_id
    run("INSERT INTO lake.db.t VALUES (2)")
    run(f"ALTER TABLE lake.db.t SET TBLPROPERTIES ('current-snapshot-id' = '{first}')")
    assert (
        run("SELECT * FROM lake.db.t") == [(1,)]
        and "current-snapshot-id" not in table_of("db.t").properties
    )
    run(f"ALTER TABLE lake.db.t SET LOCATION '{tmp_path}/moved'")
    run("INSERT INTO lake.db.t VALUES (3)")
    assert table_of("db.t").location().endswith("/moved") and sorted(
        run("SELECT * FROM lake.db.t")
    ) == [(1,), (3,)]
    run("ALTER TABLE lake.db.t REPLACE COLUMNS (x string COMMENT 'c')")
    assert run("DESCRIBE lake.db.t") == [("x", "string", "c")]


@pytest.mark.versions
def test_tables_are_renamed_truncated_dropped_and_purged(run, lake, table_of, tmp_path):
    run("CREATE TABLE lake.db.t (id bigint)")
    run("INSERT INTO lake.db.t VALUES (1), (2)")
    run(f"ALTER TABLE lake.db.t RENAME TO {lake}.db.u")
    run("TRUNCATE TABLE lake.db.u")
    assert (
        run("SELECT count(*) FROM lake.db.u") == [(0,)] and len(table_of("db.u").snapshots()) == 2
    )
    run("DROP TABLE lake.db.u PURGE")
    assert list((tmp_path / "wh").rglob("*.parquet")) == []
    run("DROP TABLE IF EXISTS lake.db.u")
    with pytest.raises(Exception, match="TABLE_OR_VIEW_NOT_FOUND"):
        run("DROP TABLE lake.db.u")


@pytest.mark.versions
def test_a_table_is_described_and_shown(run, lake):
    run(
        "CREATE TABLE lake.db.t (id bigint COMMENT 'the id', s string) PARTITIONED BY (bucket(4, id)) COMMENT 'c' TBLPROPERTIES ('a' = 'b')"
    )
    assert run("DESCRIBE lake.db.t") == [
        ("id", "bigint", "the id"),
        ("s", "string", None),
        ("", "", ""),
        ("# Partitioning", "", ""),
        ("Part 0", "bucket(4, id)", ""),
    ]
    described = {row[0]: row[1] for row in run("DESCRIBE EXTENDED lake.db.t")}
    assert (
        described["Provider"] == "iceberg"
        and described["Comment"] == "c"
        and "_spec_id" in described
        and "Location" in described
    )
    assert dict(run("DESCRIBE lake.db.t id")) == {
        "col_name": "id",
        "data_type": "bigint",
        "comment": "the id",
    }
    text = run("SHOW CREATE TABLE lake.db.t")[0][0]
    assert (
        text.startswith(f"CREATE TABLE {lake}.db.t (\n  id BIGINT COMMENT 'the id'")
        and ("INTO 4 BUCKETS" in text or "bucket(4, id)" in text)
        and "USING iceberg" in text
    )
    shown = dict(run("SHOW TBLPROPERTIES lake.db.t"))
    assert (
        shown["a"] == "b"
        and shown["current-snapshot-id"] == "none"
        and shown["format"] == "iceberg/parquet"
    )
    assert (
        run("SHOW COLUMNS IN lake.db.t") == [("id",), ("s",)]
        and "Provider: iceberg" in run(f"SHOW TABLE EXTENDED IN {lake}.db LIKE 't'")[0][3]
    )
    run("CREATE TABLE lake.db.by_s (s string) PARTITIONED BY (s)")
    assert ("# Partition Information", "", "") in run("DESCRIBE lake.db.by_s")
    with pytest.raises(Exception, match="PARTITION_MANAGEMENT_IS_UNSUPPORTED"):
        run("SHOW PARTITIONS lake.db.by_s")


@pytest.mark.versions
def test_a_branch_or_tag_is_described_as_its_table_with_its_own_columns(run):
    run(
        "CREATE TABLE lake.db.t (id bigint) PARTITIONED BY (id) COMMENT 'c' TBLPROPERTIES ('a' = 'b')"
    )
    run("INSERT INTO lake.db.t VALUES (1)")
    run("ALTER TABLE lake.db.t CREATE BRANCH b")
    run("ALTER TABLE lake.db.t CREATE TAG y")
    run("ALTER TABLE lake.db.t ADD COLUMN w int")
    names = {row[0]: row[1] for row in run("DESCRIBE EXTENDED lake.db.t")}
    for state, columns in (("t.branch_b", ["id", "w"]), ("t.tag_y", ["id"])):
        described = {row[0]: row[1] for row in run(f"DESCRIBE EXTENDED lake.db.{state}")}
        assert run(f"SHOW COLUMNS IN lake.db.{state}") == [(c,) for c in columns]
        for name in (
            "# Partition Information",
            "_partition",
            "Location",
            "Comment",
            "Table Properties",
        ):
            assert described[name] == names[name], name
        assert run(f"SHOW TBLPROPERTIES lake.db.{state}") == run("SHOW TBLPROPERTIES lake.db.t")
        assert "PARTITIONED BY (id)" in run(f"SHOW CREATE TABLE lake.db.{state}")[0][0]
    assert "_partition" not in [row[0] for row in run("DESCRIBE EXTENDED lake.db.t.files")]


@pytest.mark.versions
def test_a_statement_that_makes_a_table_says_nothing_of_what_was_done_to_it(run, table_of):
    run(
        "CREATE TABLE lake.db.t (id bigint, s string) PARTITIONED BY (bucket(4, id)) TBLPROPERTIES ('a' = 'b')"
    )
    t = table_of("db.t")
    t.append([{"id": 1, "s": "x"}], txn=("job", 1))
    t.maintenance.auto()
    ((text,),) = run("SHOW CREATE TABLE lake.db.t")
    history = [k for k in t.refresh().properties if k.startswith("frazil.")]
    assert history and "'a' = 'b'" in text and "frazil." not in text
    assert not [k for k, _ in run("SHOW TBLPROPERTIES lake.db.t") if k.startswith("frazil.")]
    run(re.sub(r"LOCATION '.*'", "", text.replace("db.t", "db.u")))
    assert table_of("db.u").properties["a"] == "b" and table_of("db.u").spec() == t.spec()


@pytest.mark.versions
@pytest.mark.parametrize("version", [1, 2, 3])
def test_metadata_columns_are_listed_as_by_java(run, version):
    run(f"CREATE TABLE lake.db.t (id bigint) TBLPROPERTIES ('format-version' = '{version}')")
    names = [row[0] for row in run("DESCRIBE EXTENDED lake.db.t") if row[0].startswith("_")]
    lineage = ["_row_id", "_last_updated_sequence_number"] if version == 3 else []
    assert names == ["_spec_id", "_partition", "_file", "_pos", "_deleted", *lineage]


def test_namespaces_are_created_described_altered_and_dropped(run, lake, catalog, tmp_path):
    run(
        f"CREATE NAMESPACE {lake}.ns COMMENT 'hello' LOCATION '{tmp_path}/ns' WITH DBPROPERTIES ('a' = 'b')"
    )
    run(f"CREATE NAMESPACE IF NOT EXISTS {lake}.ns")
    assert [row[0] for row in run(f"SHOW NAMESPACES IN {lake}")] == ["db", "ns"] and run(
        f"SHOW NAMESPACES IN {lake} LIKE 'n*'"
    ) == [("ns",)]
    run(f"ALTER NAMESPACE {lake}.ns SET DBPROPERTIES ('a' = 'c', 'd' = 'e')")
    run(f"ALTER NAMESPACE {lake}.ns SET LOCATION '{tmp_path}/ns2'")
    run(f"COMMENT ON NAMESPACE {lake}.ns IS 'new'")
    described = dict(run(f"DESCRIBE NAMESPACE EXTENDED {lake}.ns"))
    assert (described["Comment"], described["Properties"]) == (
        "new",
        "((a,c), (d,e))",
    ) and described["Location"].endswith("/ns2")
    run(f"CREATE NAMESPACE {lake}.ns.inner")
    assert [row[0] for row in run(f"SHOW NAMESPACES IN {lake}.ns")] == ["ns.inner"]
    run(f"CREATE TABLE {lake}.ns.inner.t (id bigint)")
    with pytest.raises(Exception, match="SCHEMA_NOT_EMPTY"):
        run(f"DROP NAMESPACE {lake}.ns.inner RESTRICT")
    run(f"DROP NAMESPACE {lake}.ns CASCADE")
    assert not catalog.namespace_exists("ns")
    run(f"DROP NAMESPACE IF EXISTS {lake}.ns")
    with pytest.raises(Exception, match="SCHEMA_NOT_FOUND"):
        run(f"DESCRIBE NAMESPACE {lake}.nope")


def test_columns_of_metadata_tables_are_described_where_java_iceberg_describes_them(run):
    run("CREATE TABLE lake.db.t (id bigint, p int) PARTITIONED BY (p)")
    of_files = {"files", "data_files", "delete_files", "all_files", "all_data_files"}
    bare = {"partitions": {"partition", "spec_id"}}
    for name in METADATA_TABLES:
        without = {c for c, _, comment in run(f"DESCRIBE lake.db.t.{name}") if not comment}
        if name in {*of_files, "all_delete_files", "position_deletes", "partitions"}:
            assert without == bare.get(name, set()), name
    assert {row[2] for row in run("DESCRIBE lake.db.t.snapshots")} == {None}


@pytest.mark.versions
@pytest.mark.parametrize("takes_nulls", [True, False])
def test_a_catalog_says_whether_columns_of_queries_take_nulls(
    spark, run, lake, table_of, takes_nulls
):
    key = f"spark.sql.catalog.{lake}.use-nullable-query-schema"
    spark.conf.set(key, str(takes_nulls).lower())
    try:
        run("CREATE TABLE lake.db.sql AS SELECT 1 AS id, CAST(null AS int) AS n")
        frame = spark.sql("SELECT 1 AS id, CAST(null AS int) AS n")
        frame.writeTo(f"{lake}.db.frame").create()
        frame.write.format("iceberg").saveAsTable(f"{lake}.db.saved")
        run("CREATE OR REPLACE TABLE lake.db.saved AS SELECT 1 AS id, CAST(null AS int) AS n")
    finally:
        spark.conf.unset(key)
    for name in ("sql", "frame", "saved"):
        fields = table_of(f"db.{name}").schema().fields
        assert [f.required for f in fields] == [not takes_nulls, False], name
        assert run(f"SELECT * FROM lake.db.{name}") == [(1, None)]
