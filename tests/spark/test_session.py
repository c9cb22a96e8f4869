"""Starting Spark: nothing does so unasked, settings count or are refused by name, and what is
missing on a machine is told before PySpark finds out."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from frazil.errors import NotInstalledError
from frazil.spark.host.session import check_java, java_version
from frazil.spec.version import check_pyspark

pytestmark = pytest.mark.spark
CLEAN = {
    k: v
    for k, v in os.environ.items()
    if not k.startswith(("FRAZIL_", "PYICEBERG_", "PYSPARK_", "SPARK_"))
}


def run(script, folder, **environment):
    done = subprocess.run(
        [sys.executable, "-c", script],
        cwd=folder,
        env=CLEAN | {"FRAZIL_HOME": str(folder)} | environment,
        capture_output=True,
        text=True,
    )
    told = [line for line in done.stdout.splitlines() if line.startswith("told ")]
    assert told, done.stderr[-3000:]
    return json.loads(told[0][5:])


SETTINGS = """
import json, frazil
from frazil.errors import InvalidInput
told = {}

def error(call):
    try:
        return str(call() or "none")
    except InvalidInput as e:
        return str(e)

catalog = frazil.load_catalog()
catalog.create_namespace("db")
t = catalog.create_table("db.t", "id bigint")
told["before"] = error(lambda: t.to_spark())
first = {"spark.ui.enabled": False, "spark.sql.shuffle.partitions": 3, "spark.driver.memory": "600m"}
spark = frazil.spark_session(app_name="one", master="local[1]", config=first)
told["same again"] = error(lambda: frazil.spark_session("one", "local[1]", first) and None)
told["other"] = error(lambda: frazil.spark_session("two", "local[2]", {
    "spark.sql.warehouse.dir": "/elsewhere", "spark.executor.memory": "2g", "spark.hadoop.fs.a": 1, "spark.sql.ansi.enabled": False}))
told["kept"] = spark.conf.get("spark.sql.ansi.enabled") + spark.conf.get("spark.app.name")
more = {"spark.sql.shuffle.partitions": 4, "spark.sql.catalog.lake.type": "memory", "spark.sql.iceberg.merge-schema": True}
frazil.spark_session(config=more)
told["running"] = [spark.conf.get(k) for k in more]
told["lake"] = frazil.load_catalog("lake").list_namespaces()
spark.stop()
told["after"] = [error(lambda: t.to_spark()), error(lambda: t.inspect and t.changes().to_spark())]
t.append(__import__("pyarrow").table({"id": [1]}))
told["jvm"] = error(lambda: frazil.spark_session(config={"spark.driver.memory": "900m"}))
spark = frazil.spark_session(master="local[2]", config={"spark.sql.shuffle.partitions": 7, "spark.sql.warehouse.dir": "/tmp/other-place"})
told["next"] = [spark.conf.get("spark.sql.shuffle.partitions"), spark.conf.get("spark.sql.warehouse.dir"), spark.sparkContext.master]
told["rows"] = t.to_spark().count()
print("told", json.dumps(told))
"""


def test_no_read_starts_a_session_and_what_its_user_sets_counts_or_is_refused_by_name(tmp_path):
    told = run(SETTINGS, tmp_path)
    assert (
        "No Spark session is running" in told["before"] and "frazil.spark_session" in told["before"]
    )
    assert all("No Spark session is running" in text for text in told["after"])
    assert told["same again"] == "none"
    for refused in (
        "spark.app.name=two (it is one)",
        "spark.master=local[2] (it is local[1])",
        "spark.sql.warehouse.dir=/elsewhere",
        "spark.executor.memory=2g (it is not set)",
        "spark.hadoop.fs.a=1",
        "stop()",
    ):
        assert refused in told["other"]
    assert "ansi" not in told["other"] and told["kept"] == "trueone"
    assert told["running"] == ["4", "memory", "true"] and told["lake"] == []
    assert (
        "spark.driver.memory=900m (it is 600m)" in told["jvm"] and "restart Python" in told["jvm"]
    )
    assert (
        told["next"][0] == "7"
        and told["next"][1].endswith("/tmp/other-place")
        and told["next"][2] == "local[2]"
        and told["rows"] == 1
    )


WORKERS = """
import json, sys, frazil
from pyspark.sql import SparkSession
from frazil.errors import NotInstalledError

spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
catalog = frazil.load_catalog()
catalog.create_namespace("db")
t = catalog.create_table("db.t", "id bigint", properties={"write.format.default": "orc"})
told = {"before": spark.sparkContext.pythonExec}
try:
    t.append(spark.range(3))
except NotInstalledError as e:
    told["unprepared"] = str(e)
frazil.install(spark)
t.append(spark.range(3))
told |= {"after": spark.sparkContext.pythonExec == sys.executable, "rows": t.to_spark().count()}
spark.sparkContext.pythonExec = "/chosen/python"
frazil.install(spark)
told["chosen"] = spark.sparkContext.pythonExec
print("told", json.dumps(told))
"""


@pytest.mark.versions
def test_workers_of_an_installed_local_session_are_this_python_though_its_environment_is_not_activated(
    tmp_path,
):
    bare = tmp_path / "bin" / "python3"
    bare.parent.mkdir()
    # outside the environment: a Python without its packages
    bare.symlink_to(os.path.realpath(sys.executable))
    told = run(
        WORKERS,
        tmp_path,
        PATH=f"{bare.parent}:/usr/bin:/bin",
        JAVA_HOME=str(Path(java()).parent.parent),
    )
    assert told["before"] == "python3" and "frazil.install(spark)" in told["unprepared"]
    assert told["after"] is True and told["rows"] == 3 and told["chosen"] == "/chosen/python"


def java():
    home = os.environ.get("JAVA_HOME")
    return os.path.realpath(
        f"{home}/bin/java"
        if home
        else subprocess.check_output(["which", "java"], text=True).strip()
    )


def fake_java(home, script, release=None):
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "java").write_text(f"#!/bin/sh\n{script}\n")
    (home / "bin" / "java").chmod(0o755)
    if release is not None:
        (home / "release").write_text(release)
    return home


def test_a_java_that_is_missing_or_too_old_is_told_with_what_is_needed(tmp_path):
    eleven = fake_java(tmp_path / "11", "exit 1", 'IMPLEMENTOR="x"\nJAVA_VERSION="11.0.2"\n')
    eight = fake_java(tmp_path / "8", "echo 'openjdk version \"1.8.0_392\"' >&2")
    newer = fake_java(tmp_path / "21", "echo 'openjdk version \"21\" 2023-09-19' >&2")
    silent = fake_java(tmp_path / "silent", "exit 1")
    assert [java_version(str(h / "bin" / "java")) for h in (eleven, eight, newer, silent)] == [
        "11.0.2",
        "1.8.0_392",
        "21",
        None,
    ]
    for environ, what in (
        ({"PATH": str(tmp_path)}, "JAVA_HOME is not set and no java is on the PATH"),
        (
            {"JAVA_HOME": str(tmp_path / "gone")},
            f"JAVA_HOME is {tmp_path}/gone, where there is no bin/java",
        ),
        ({"JAVA_HOME": str(eleven)}, f"JAVA_HOME is {eleven}, which is Java 11.0.2"),
        (
            {"PATH": str(eight / "bin")},
            f"java on the PATH is {eight}/bin/java, which is Java 1.8.0_392",
        ),
    ):
        with pytest.raises(NotInstalledError, match="Spark needs Java 17 or newer") as error:
            check_java(environ, tmp_path)
        assert what in str(error.value) and "set JAVA_HOME" in str(error.value)
    for home in (newer, silent, Path(java()).parent.parent):
        check_java({"JAVA_HOME": str(home)}, tmp_path)
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "spark-env.sh").touch()
    check_java({"JAVA_HOME": str(eleven)}, tmp_path)  # the script may set another


@pytest.mark.parametrize(
    "start", ["frazil.spark_session()", "frazil.configure(SparkSession.builder).getOrCreate()"]
)
def test_a_wrong_java_home_is_told_by_every_door_that_starts_spark(tmp_path, start):
    script = f"""
import json, frazil
from pyspark.sql import SparkSession
try:
    {start}
except frazil.errors.NotInstalledError as e:
    print("told", json.dumps(str(e)))
"""
    assert "JAVA_HOME is /no/such/java" in run(script, tmp_path, JAVA_HOME="/no/such/java")


@pytest.mark.versions
def test_a_pyspark_that_is_too_old_is_told_with_those_that_are_not(tmp_path):
    for version in ("4.1.0", "4.1.1", "4.3.0.dev1", "4.2", "5.0.0", "unknown"):
        check_pyspark(version)
    for version in ("3.5.3", "4.0.1"):
        with pytest.raises(NotInstalledError, match="Frazil works with PySpark 4.1, 4.2 and 4.3"):
            check_pyspark(version)
    package = tmp_path / "old" / "pyspark"
    (package / "sql").mkdir(parents=True)
    (package / "__init__.py").write_text('__version__ = "3.5.3"\n')
    (package / "sql" / "__init__.py").write_text(
        "class SparkSession:\n    getActiveSession = staticmethod(lambda: object())\n"
    )
    script = """
import json, frazil
told = []
def note(call):
    try:
        call()
    except frazil.errors.NotInstalledError as e:
        told.append(str(e))
catalog = frazil.load_catalog()
catalog.create_namespace("db")
t = catalog.create_table("db.t", "id bigint")
note(lambda: t.to_spark())
note(lambda: frazil.spark_session())
note(lambda: frazil.install(object()))
import pyspark.sql
note(lambda: frazil.load_catalog())
note(lambda: t.delete("id = 1"))
print("told", json.dumps(told))
"""
    told = run(script, tmp_path, PYTHONPATH=f"{package.parent}:{os.environ.get('PYTHONPATH', '')}")
    assert len(told) == 5 and all(
        "PySpark 3.5.3 is installed; Frazil works with PySpark 4.1, 4.2 and 4.3." in text
        for text in told
    )
