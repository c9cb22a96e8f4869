"""Java's own catalog clients and Frazil in turns: JdbcCatalog on the SQLite file of a SQL catalog,
HadoopCatalog and HadoopTables in S3 by s3a.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

import frazil
from tests.conftest import CACHE
from tests.storage.conftest import s3_place

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.java

JAVA = """
import json, sys
jars, settings, place = sys.argv[-3].split(","), json.loads(sys.argv[-2]), sys.argv[-1]
jvm = spark._jvm
loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
for jar in jars:
    loader.addURL(jvm.java.io.File(jar).toURI().toURL())
jvm.java.lang.Thread.currentThread().setContextClassLoader(loader)
if any("sqlite" in jar for jar in jars):
    jvm.java.lang.Class.forName("org.sqlite.JDBC", True, loader)
for key, value in settings.items():
    spark.conf.set("spark.sql.catalog.o" + key, value)
before = sorted(list(r) for r in spark.table("o.db.t").collect())
spark.sql("INSERT INTO o.db.t VALUES (2, 'java')")
spark.sql("ALTER TABLE o.db.t SET TBLPROPERTIES ('java' = 'was here')")
spark.sql("DELETE FROM o.db.t WHERE id = 1")
spark.sql("CREATE TABLE IF NOT EXISTS o.db.made_by_java (id bigint, v string) USING iceberg")
spark.sql("INSERT INTO o.db.made_by_java VALUES (7, 'java')")
opened = []
if place:
    conf = jvm.org.apache.hadoop.conf.Configuration(spark.sparkContext._jsc.hadoopConfiguration())
    conf.setClassLoader(loader)
    for key, value in settings.items():
        if key.startswith(".hadoop."):
            conf.set(key[8:], value)
    table = jvm.org.apache.iceberg.hadoop.HadoopTables(conf).load(place)
    table.updateProperties().set("hadoop", "tables").commit()
    opened = [str(s.snapshotId()) for s in table.snapshots()]
print("ANSWER" + json.dumps({"before": before, "tables": sorted(r[1] for r in spark.sql("SHOW TABLES IN o.db").collect()), "opened": opened}))
"""
AGAIN = """
import json, sys
for key, value in json.loads(sys.argv[-1]).items():
    spark.conf.set("spark.sql.catalog.o" + key, value)
print("ANSWER" + json.dumps({t: sorted(list(r) for r in spark.table("o.db." + t).collect()) for t in ("t", "made_by_java")}))
"""


def answer(stdout: str) -> Any:
    return json.loads(stdout.rpartition("ANSWER")[2].splitlines()[0])


def jars(name: str, folder: Path, python: Path) -> str:
    command = [ROOT / "tests/services/spark_jars.sh", name, folder]
    done = subprocess.run(
        command, capture_output=True, text=True, env=os.environ | {"PYTHON": str(python)}
    )
    if done.returncode == 77:
        pytest.skip(done.stderr.strip().splitlines()[-1])
    assert done.returncode == 0, done.stderr
    return done.stdout.strip().splitlines()[-1]


def in_turns(
    catalog: frazil.Catalog,
    java_check: Any,
    warehouse: str,
    settings: dict[str, str],
    jars: str,
    hadoop_tables: str = "",
) -> None:
    """Write by Frazil, by Java, by Frazil again; each sees what the other wrote."""
    catalog.create_namespace("db")
    table = catalog.create_table("db.t", "id bigint, v string", properties={"ours": "1"})
    table.append([{"id": 1, "v": "ours"}, {"id": 3, "v": "ours"}])
    found = answer(java_check.run(JAVA, warehouse, jars, json.dumps(settings), hadoop_tables))
    assert found["before"] == [[1, "ours"], [3, "ours"]] and found["tables"] == [
        "made_by_java",
        "t",
    ]
    assert sorted(catalog.list_tables("db")) == [("db", "made_by_java"), ("db", "t")]
    table = catalog.load_table("db.t")
    assert table.properties["java"] == "was here" and len(table.snapshots()) == 3
    if hadoop_tables:
        assert table.properties["hadoop"] == "tables" and found["opened"] == [
            str(s.snapshot_id) for s in table.snapshots()
        ]
    table.append([{"id": 4, "v": "ours"}])
    table.delete("id = 3")
    catalog.load_table("db.made_by_java").append([{"id": 8, "v": "ours"}])
    again = answer(java_check.run(AGAIN, warehouse, json.dumps(settings)))
    assert again == {"t": [[2, "java"], [4, "ours"]], "made_by_java": [[7, "java"], [8, "ours"]]}


def test_javas_jdbc_catalog_and_we_take_turns_on_one_sqlite_file(
    java_check: Any, tmp_path: Path
) -> None:
    warehouse = f"{tmp_path}/w"
    settings = {
        "": "org.apache.iceberg.spark.SparkCatalog",
        ".catalog-impl": "org.apache.iceberg.jdbc.JdbcCatalog",
        ".cache-enabled": "false",
        ".uri": f"jdbc:sqlite:{tmp_path}/c.db",
        ".warehouse": warehouse,
        ".jdbc.schema-version": "V1",
    }
    with frazil.load_catalog(
        "o", type="sql", uri=f"sqlite:///{tmp_path}/c.db", warehouse=warehouse
    ) as catalog:
        # Java's REST server has it, too
        fetched = next(CACHE.glob("m2/org/xerial/sqlite-jdbc/*/*.jar"), None)
        found = str(fetched or jars("sqlite", tmp_path, java_check.environment.python))
        in_turns(catalog, java_check, warehouse, settings, found)


@pytest.mark.soak
@pytest.mark.skipif(
    not os.environ.get("FRAZIL_TEST_S3"), reason="no S3 server runs: FRAZIL_TEST_S3 is not set"
)
def test_javas_hadoop_catalog_and_hadoop_tables_and_we_take_turns_in_s3(
    java_check: Any, tmp_path: Path
) -> None:
    place, properties = s3_place()
    warehouse = place.replace("s3://", "s3a://")
    own = {
        "endpoint": properties["s3.endpoint"],
        "access.key": properties["s3.access-key-id"],
        "secret.key": properties["s3.secret-access-key"],
        "path.style.access": "true",
        "endpoint.region": "us-east-1",
        "impl": "org.apache.hadoop.fs.s3a.S3AFileSystem",
    }
    settings = {
        "": "org.apache.iceberg.spark.SparkCatalog",
        ".type": "hadoop",
        ".warehouse": warehouse,
        ".cache-enabled": "false",
    }
    settings |= {f".hadoop.fs.s3a.{k}": v for k, v in own.items()}
    with frazil.load_catalog("o", type="path", warehouse=warehouse, **properties) as catalog:
        found = jars("s3a", tmp_path, java_check.environment.python)
        in_turns(catalog, java_check, warehouse, settings, found, f"{warehouse}/db/t")
