"""Java Iceberg and we take turns on the tables of one Hive Metastore 2.3, the version that its client speaks, and store them alike."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest

import frazil
from frazil.catalog.hive.structs import HiveTable
from tests.catalog.conftest import HIVE

SERVERS = [os.environ[HIVE["hive2"]]] if os.environ.get(HIVE["hive2"]) else []

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

OF_ONE_COMMIT = {
    "metadata_location", "previous_metadata_location", "uuid", "transient_lastDdlTime", "current-schema", "current-snapshot-id",
    "current-snapshot-timestamp-ms", "current-snapshot-summary", "totalSize", "default-partition-spec",
}  # fmt: skip


def answer(stdout: str) -> Any:
    return json.loads(stdout.rpartition("ANSWER")[2].splitlines()[0])


def stored(catalog: Any, db: str, name: str) -> HiveTable:
    table: HiveTable = catalog._backend._stored((db, name))
    return table


@pytest.mark.java
@pytest.mark.parametrize("uri", SERVERS)
def test_java_and_we_take_turns_and_store_tables_alike(uri: str, db: str, tmp_path: Any, java_check: Any) -> None:
    catalog = frazil.load_catalog("h", type="hive", uri=uri, warehouse=str(tmp_path / "warehouse"))
    catalog.create_namespace(db)
    columns = "id bigint, s string, a array<int>, at timestamptz"
    properties = {"format-version": "2", "team": "ours"}
    table = catalog.create_table(f"{db}.t", columns, partition_by=["bucket(4, id)"], properties=properties)
    table.append([{"id": 1, "s": "us"}, {"id": 3, "s": "us"}])
    java = answer(java_check.run(JAVA, uri, db, tmp_path / "warehouse"))
    assert java == {"rows": [[2, "java"], [3, "us"]], "tables": ["made_by_java", "t"]}
    assert sorted(catalog.list_tables(db)) == [(db, "made_by_java"), (db, "t")]
    table = catalog.load_table(f"{db}.t")
    table.append([{"id": 4, "s": "us", "more": 1}])
    theirs, ours = catalog.load_table(f"{db}.made_by_java"), catalog.create_table(
        f"{db}.made_by_us", columns, partition_by=["bucket(4, id)"], properties=properties
    )  # fmt: skip
    assert theirs.scan().to_arrow()["s"].to_pylist() == ["java"]
    ours.append([{"id": 1, "s": "us", "a": [1]}])
    by_java, by_us = stored(catalog, db, "made_by_java"), stored(catalog, db, "made_by_us")
    assert by_java.sd is not None and by_us.sd is not None and by_java.tableType == by_us.tableType
    assert by_java.sd.cols == by_us.sd.cols and by_java.sd.inputFormat == by_us.sd.inputFormat
    assert by_java.sd.outputFormat == by_us.sd.outputFormat and by_java.sd.serdeInfo == by_us.sd.serdeInfo
    mine, other = by_us.parameters or {}, by_java.parameters or {}
    assert OF_ONE_COMMIT - mine.keys() == OF_ONE_COMMIT - other.keys() == set()
    unlike = {k: (mine.get(k), other.get(k)) for k in (mine.keys() | other.keys()) - OF_ONE_COMMIT if mine.get(k) != other.get(k)}
    assert unlike.keys() <= {"owner", "DO_NOT_UPDATE_STATS"}, unlike  # Spark's user; what only the creating call was told
    assert json.loads(mine["default-partition-spec"])["fields"] == json.loads(other["default-partition-spec"])["fields"]
    catalog.close()
