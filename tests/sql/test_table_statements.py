"""CREATE, ALTER, DROP, DESCRIBE and SHOW of tables and namespaces by Spark's own statements, each
change one commit.
"""

import re
from datetime import time
from uuid import UUID

import pytest

from frazil.scan.inspect import METADATA_TABLES
from frazil.spec import types as i

pytestmark = pytest.mark.spark


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
