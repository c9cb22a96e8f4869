"""Sessions that the JVM makes by itself, such as those of a Thrift server, know Frazil's catalogs."""

import subprocess
import sys
import threading

import pytest
from pyspark.errors import AnalysisException

pytestmark = pytest.mark.spark

_SCRIPT = """
import socket, sys, threading, time
import frazil
folder = sys.argv[1]
with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    port = free.getsockname()[1]
spark = frazil.spark_session(master="local[2]", config={
    "spark.ui.enabled": "false", "spark.driver.memory": "1g", "spark.sql.catalogImplementation": "hive",
    "spark.hadoop.javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={folder}/metastore;create=true",
    "spark.sql.warehouse.dir": f"{folder}/own", "spark.sql.catalog.lake.type": "path",
    "spark.sql.catalog.lake.warehouse": f"{folder}/lake",
})
java, gateway = spark._jvm, spark.sparkContext._gateway
java.System.setProperty("hive.server2.thrift.port", str(port))
java.System.setProperty("hive.server2.thrift.bind.host", "127.0.0.1")
thrift = java.org.apache.spark.sql.hive.thriftserver.HiveThriftServer2
server = thrift.startWithContext(spark._jsparkSession.sqlContext())
loader = java.java.lang.Thread.currentThread().getContextClassLoader()
driver = java.java.lang.Class.forName("org.apache.hive.jdbc.HiveDriver", True, loader)
driver = driver.getConstructors()[0].newInstance(gateway.new_array(java.java.lang.Object, 0))
url = f"jdbc:hive2://127.0.0.1:{port}/default"

def connection():
    for _ in range(100):
        try:
            return driver.connect(url, java.java.util.Properties())
        except Exception as error:
            last = error
            time.sleep(0.1)
    raise last

def rows(connected, text):
    statement = connected.createStatement()
    assert statement.execute(text)
    result = statement.getResultSet()
    found = []
    while result.next():
        found.append(result.getString(1))
    return found

def insert(start):
    own = connection()
    for n in range(3):
        rows(own, f"INSERT INTO lake.db.t VALUES ({start + n}, 'x')")
    own.close()

first = connection()
rows(first, "CREATE NAMESPACE lake.db")
rows(first, "CREATE TABLE lake.db.t (id INT, s STRING) USING iceberg")
rows(first, "INSERT INTO lake.db.t VALUES (1, 'a'), (2, 'b')")
rows(first, "MERGE INTO lake.db.t t USING (SELECT 2 AS id) s ON t.id = s.id WHEN MATCHED THEN DELETE")
rows(first, "ALTER TABLE lake.db.t CREATE TAG v1")
assert rows(first, "CALL lake.system.rewrite_data_files('db.t')") == ["0"]
threads = [threading.Thread(target=insert, args=(start,)) for start in (10, 20)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert rows(first, "SELECT count(*) FROM lake.db.t") == ["7"]
assert rows(first, "SELECT id FROM lake.db.t VERSION AS OF 'v1'") == ["1"]
assert spark.table("lake.db.t").count() == 7
try:
    rows(first, "DELETE FROM lake.db.t WHERE none = 1")
    raise AssertionError("There is no such column.")
except Exception as error:
    assert "UNRESOLVED_COLUMN" in str(error), error
first.close()
server.stop()
print("as expected")
"""


def test_a_thrift_server_in_the_same_jvm_reaches_the_tables(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", _SCRIPT, str(tmp_path)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=300,
    )
    assert "as expected" in done.stdout, done.stderr[-4000:]


@pytest.mark.versions
def test_a_session_that_the_jvm_makes_knows_the_catalogs_of_its_settings(spark, lake, run):
    run("CREATE TABLE lake.db.t (id INT) USING iceberg")
    own = spark._jsparkSession.newSession()

    def sql(text):
        return own.sql(text.replace("lake.", f"{lake}.")).collectAsList().toString()

    with pytest.raises(AnalysisException):  # which settings of another session say
        own.sql("SELECT * FROM lake.db.t")
    for key in ("", ".type", ".uri", ".warehouse"):
        value = spark.conf.get(f"spark.sql.catalog.{lake}{key}")
        own.sql(f"SET spark.sql.catalog.{lake}{key}={value}")
    sql("INSERT INTO lake.db.t VALUES (1), (2)")
    sql("DELETE FROM lake.db.t WHERE id = 1")
    sql("BEGIN INSERT INTO lake.db.t VALUES (3); UPDATE lake.db.t SET id = 4 WHERE id = 3; END")
    sql("ALTER TABLE lake.db.t CREATE BRANCH b")
    assert sql("SELECT id FROM lake.db.t ORDER BY id") == "[[2], [4]]"

    in_thread = []
    thread = threading.Thread(
        target=lambda: in_thread.append(sql("SELECT count(*) FROM lake.db.t"))
    )
    thread.start()
    thread.join()
    assert in_thread == ["[[2]]"]
    assert run("SELECT count(*) FROM lake.db.t") == [(2,)]
