"""Java's SparkSessionCatalog over a Hive Metastore that Spark's own catalog shares."""

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.spark

_SCRIPT = """
import sys, frazil
address, db, folder = sys.argv[1:]
spark = frazil.spark_session(master="local[2]", config={
    "spark.ui.enabled": "false", "spark.driver.memory": "1g", "spark.sql.catalogImplementation": "hive",
    "spark.hadoop.hive.metastore.uris": address, "spark.sql.catalog.spark_catalog.type": "hive",
    "spark.sql.catalog.spark_catalog": "org.apache.iceberg.spark.SparkSessionCatalog",
})
spark.sql(f"CREATE DATABASE {db} LOCATION '{folder}'")
spark.sql(f"USE {db}")
spark.sql("CREATE TABLE plain (id INT) USING parquet")
spark.sql("CREATE TABLE ice (id INT) USING iceberg")
spark.sql("INSERT INTO plain VALUES (1)")
spark.sql("INSERT INTO ice SELECT id + 1 FROM plain")
spark.sql("MERGE INTO ice USING plain ON ice.id = plain.id WHEN NOT MATCHED THEN INSERT *")
assert sorted(spark.table("ice").collect()) == [(1,), (2,)], spark.table("ice").collect()
assert sorted(row.tableName for row in spark.sql("SHOW TABLES").collect()) == ["ice", "plain"]
spark.sql(f"CALL spark_catalog.system.migrate('{db}.plain')")
assert spark.table("plain").collect() == [(1,)]
assert spark.sql(f"SELECT count(*) FROM {db}.plain.snapshots").collect() == [(1,)]
try:
    spark.sql("CREATE TABLE ice (id INT) USING parquet")
    raise AssertionError("The name is taken.")
except Exception as error:
    assert "ALREADY_EXISTS" in str(error), error
spark.sql("DROP TABLE ice")
left = sorted(row.tableName for row in spark.sql("SHOW TABLES").collect())
assert left == ["plain", "plain_backup_"], left
spark.sql("USE default")
spark.sql(f"DROP DATABASE {db} CASCADE")
print("as expected")
"""


@pytest.mark.parametrize("metastore", ["hive2"])
def test_iceberg_tables_of_a_metastore_stand_beside_those_of_hive(metastore, tmp_path, db):
    address = os.environ.get("FRAZIL_TEST_HMS2")
    if address is None:
        pytest.skip("no Hive Metastore 2")
    done = subprocess.run(
        [sys.executable, "-c", _SCRIPT, address, db, f"{tmp_path}/wh"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=300,
    )
    assert "as expected" in done.stdout, done.stderr[-4000:]
