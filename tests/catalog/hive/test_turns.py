"""Java Iceberg and we take turns on the tables and views of one Hive Metastore, and store them
alike: 2.3, 4.0 (with the client of Hive 4, since that of 2.3, which Spark has, asks by calls that
are gone), and 3.1 in the long form."""

from __future__ import annotations

import json
from typing import Any

import pytest

import frazil
from frazil.catalog.hive.structs import HiveTable

JAVA = """
import json, sys
uri, db, warehouse = sys.argv[-3:]
for key, value in (("", "org.apache.iceberg.spark.SparkCatalog"), (".type", "hive"), (".uri", uri), (".warehouse", warehouse), (".cache-enabled", "false")):
    spark.conf.set("spark.sql.catalog.h" + key, value)
spark.sql(f"INSERT INTO h.{db}.t VALUES (2, 'java', array(1), timestamp'2026-01-01 00:00:00')")
spark.sql(f"ALTER TABLE h.{db}.t ADD COLUMN more int")
spark.sql(f"DELETE FROM h.{db}.t WHERE id = 1")
spark.sql(
    f"CREATE TABLE h.{db}.made_by_java (id bigint, s string, a array<int>, at timestamp) USING iceberg PARTITIONED BY (bucket(4, id)) "
    "TBLPROPERTIES ('format-version'='2', 'team'='ours')"
)
spark.sql(f"INSERT INTO h.{db}.made_by_java VALUES (1, 'java', array(1), timestamp'2026-01-01 00:00:00')")
print("ANSWER" + json.dumps({
    "rows": sorted([r.id, r.s] for r in spark.table(f"h.{db}.t").collect()),
    "tables": sorted(r.tableName for r in spark.sql(f"SHOW TABLES IN h.{db}").collect()),
}))
"""

JAVA_VIEWS = """
import json, sys
uri, db, warehouse = sys.argv[-3:]
for key, value in (("", "org.apache.iceberg.spark.SparkCatalog"), (".type", "hive"), (".uri", uri), (".warehouse", warehouse), (".cache-enabled", "false")):
    spark.conf.set("spark.sql.catalog.h" + key, value)
seen = sorted(list(r) for r in spark.table(f"h.{db}.v").collect())
refused = []
for statement in (f"CREATE TABLE h.{db}.v (id int) USING iceberg", f"CREATE VIEW h.{db}.t AS SELECT 1 AS id", f"ALTER VIEW h.{db}.v RENAME TO h.{db}.t"):
    try:
        spark.sql(statement)
    except Exception as error:
        refused.append(type(error).__name__)
spark.sql(f"CREATE VIEW h.{db}.made_by_java (word COMMENT 'a word', n) TBLPROPERTIES ('team'='ours') AS SELECT s, count(*) FROM h.{db}.t GROUP BY s")
spark.sql(f"USE h.{db}")
spark.sql("CREATE OR REPLACE VIEW v AS SELECT id, s FROM t WHERE id > 1")
spark.sql("ALTER VIEW x RENAME TO y")
spark.sql("DROP VIEW gone")
print("ANSWER" + json.dumps({
    "seen": seen, "refused": len(refused), "views": sorted(r[1] for r in spark.sql(f"SHOW VIEWS IN h.{db}").collect()),
}))
"""

OF_ONE_COMMIT = {
    "metadata_location", "previous_metadata_location", "uuid", "transient_lastDdlTime", "current-schema", "current-snapshot-id",
    "current-snapshot-timestamp-ms", "current-snapshot-summary", "totalSize", "default-partition-spec",
}  # fmt: skip


def answer(stdout: str) -> Any:
    return json.loads(stdout.rpartition("ANSWER")[2].splitlines()[0])


def stored(catalog: Any, db: str, name: str) -> HiveTable:
    table: HiveTable = catalog._backend.store.stored((db, name))
    return table


@pytest.mark.java
def test_java_and_we_take_turns_and_store_tables_alike(
    address: str, db: str, tmp_path: Any, java: Any
) -> None:
    catalog = frazil.load_catalog(
        "h", type="hive", uri=address, warehouse=str(tmp_path / "warehouse")
    )
    catalog.create_namespace(db)
    columns = "id bigint, s string, a array<int>, at timestamptz"
    properties = {"format-version": "2", "team": "ours"}
    table = catalog.create_table(
        f"{db}.t", columns, partition_by=["bucket(4, id)"], properties=properties
    )
    table.append([{"id": 1, "s": "us"}, {"id": 3, "s": "us"}])
    told = answer(java.run(JAVA, address, db, tmp_path / "warehouse"))
    assert told == {"rows": [[2, "java"], [3, "us"]], "tables": ["made_by_java", "t"]}
    assert sorted(catalog.list_tables(db)) == [(db, "made_by_java"), (db, "t")]
    table = catalog.load_table(f"{db}.t")
    table.append([{"id": 4, "s": "us", "more": 1}])
    theirs, ours = (
        catalog.load_table(f"{db}.made_by_java"),
        catalog.create_table(
            f"{db}.made_by_us", columns, partition_by=["bucket(4, id)"], properties=properties
        ),
    )
    assert theirs.scan().to_arrow()["s"].to_pylist() == ["java"]
    ours.append([{"id": 1, "s": "us", "a": [1]}])
    by_java, by_us = stored(catalog, db, "made_by_java"), stored(catalog, db, "made_by_us")
    assert by_java.sd is not None and by_us.sd is not None and by_java.tableType == by_us.tableType
    assert by_java.sd.cols == by_us.sd.cols and by_java.sd.inputFormat == by_us.sd.inputFormat
    assert (
        by_java.sd.outputFormat == by_us.sd.outputFormat
        and by_java.sd.serdeInfo == by_us.sd.serdeInfo
    )
    mine, other = by_us.parameters or {}, by_java.parameters or {}
    assert OF_ONE_COMMIT - mine.keys() == OF_ONE_COMMIT - other.keys() == set()
    unlike = {
        k: (mine.get(k), other.get(k))
        for k in (mine.keys() | other.keys()) - OF_ONE_COMMIT
        if mine.get(k) != other.get(k)
    }
    # Spark's user; what only the creating call was told
    assert unlike.keys() <= {"owner", "DO_NOT_UPDATE_STATS"}, unlike
    assert (
        json.loads(mine["default-partition-spec"])["fields"]
        == json.loads(other["default-partition-spec"])["fields"]
    )
    catalog.close()


@pytest.mark.java
def test_java_and_we_take_turns_on_views_and_store_them_alike(
    address: str, db: str, tmp_path: Any, java: Any
) -> None:
    with frazil.load_catalog(
        "h", type="hive", uri=address, warehouse=str(tmp_path / "warehouse")
    ) as catalog:
        catalog.create_namespace(db)
        catalog.create_table(f"{db}.t", "id bigint, s string").append(
            [{"id": 1, "s": "us"}, {"id": 2, "s": "us"}]
        )
        for name in ("v", "x", "gone"):
            catalog.create_view(f"{db}.{name}", "id bigint, s string", sql="SELECT id, s FROM t")
        told = answer(java.run(JAVA_VIEWS, address, db, tmp_path / "warehouse"))
        assert told == {
            "seen": [[1, "us"], [2, "us"]],
            "refused": 3,
            "views": ["made_by_java", "v", "y"],
        }
        assert catalog.list_views(db) == [
            (db, "made_by_java"),
            (db, "v"),
            (db, "y"),
        ] and catalog.list_tables(db) == [(db, "t")]
        view = catalog.load_view(f"{db}.v")
        assert [v.version_id for v in view.versions] == [1, 2] and "WHERE id > 1" in view.sql_for(
            "spark"
        ).sql
        assert catalog.replace_view(
            f"{db}.v", sql="SELECT id, s FROM t"
        ).current_version().version_id in (1, 3)
        theirs = catalog.load_view(f"{db}.made_by_java")
        assert theirs.schema().column_names == ["word", "n"] and theirs.properties["team"] == "ours"
        query = theirs.sql_for("spark").sql
        catalog.create_view(
            f"{db}.made_by_us",
            theirs.schema(),
            theirs.current_version(),
            properties=theirs.properties,
        )
        by_java, by_us = stored(catalog, db, "made_by_java"), stored(catalog, db, "made_by_us")
        assert (
            by_java.sd is not None
            and by_us.sd is not None
            and by_java.tableType == by_us.tableType == "VIRTUAL_VIEW"
        )
        assert (
            by_java.viewOriginalText
            == by_us.viewOriginalText
            == query
            == by_us.viewExpandedText
            == by_java.viewExpandedText
        )
        assert (
            by_java.sd.cols == by_us.sd.cols
            and by_java.sd.inputFormat == by_us.sd.inputFormat
            and by_java.sd.serdeInfo == by_us.sd.serdeInfo
        )
        mine, other = by_us.parameters or {}, by_java.parameters or {}
        own = {"metadata_location", "uuid", "transient_lastDdlTime"}
        assert own <= mine.keys() & other.keys()
        assert {k: v for k, v in mine.items() if k not in own} == {
            k: v for k, v in other.items() if k not in own
        }
        catalog.drop_view(f"{db}.made_by_java")
        assert catalog.list_views(db) == [(db, "made_by_us"), (db, "v"), (db, "y")]
