"""A standalone cluster with two workers whose Python is not the driver's."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.peers.checks import JavaCheck

ROOT = Path(__file__).resolve().parents[2]
pytestmark = [pytest.mark.spark, pytest.mark.service]

JOB = """
import sys
import frazil
from pyspark.sql import SparkSession, functions as F
master, folder = sys.argv[1:3]
builder = SparkSession.builder.master(master).config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1")
builder = builder.config("spark.executor.memory", "512m").config("spark.driver.memory", "512m").config("spark.ui.enabled", "false")
builder = builder.config("spark.ui.showConsoleProgress", "false").config("spark.sql.shuffle.partitions", "2")
for pair in sys.argv[3:]:
    builder = builder.config(*pair.split("=", 1))
spark = frazil.install(builder.getOrCreate())
spark.sparkContext.setLogLevel("ERROR")
catalog = frazil.load_catalog("c", type="path", warehouse=folder)
catalog.create_namespace("db")
frame = spark.range(1000).select("id", (F.col("id") % 3).cast("string").alias("p"), F.array(F.col("id")).alias("l"))
counts = []
for fmt in ("parquet", "orc", "avro"):
    t = catalog.create_table(f"db.{fmt}", frame.schema, partition_by=["p", "bucket(2, id)"], properties={"write.format.default": fmt})
    t.append(frame)
    counts.append([t.to_spark(spark).where("id >= 100").count(), t.scan().count()])
print("RESULT", counts)
spark.stop()
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> object:
    folder = tmp_path_factory.mktemp("cluster")
    script = ROOT / "tests/services/spark_cluster.sh"
    env = {**os.environ, "PYTHON": sys.executable}
    run = subprocess.run([script, "start", folder], capture_output=True, text=True, env=env)
    if run.returncode == 77:
        pytest.skip(run.stderr.strip().splitlines()[-1])
    assert run.returncode == 0, run.stderr
    yield run.stdout.strip()
    subprocess.run([script, "stop", folder], check=True, env=env)


def job(cluster: object, folder: Path, python: str | Path, *conf: str, path: str | None = None) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "PYSPARK_PYTHON": str(python), "PYSPARK_DRIVER_PYTHON": sys.executable, "PYTHONPATH": str(ROOT / "src")}
    folder.chmod(0o777)
    arguments = [sys.executable, "-c", JOB, str(cluster), str(folder / "lake"), f"spark.executorEnv.PYTHONPATH={path or ''}", *conf]
    return subprocess.run(arguments, capture_output=True, text=True, timeout=300, env=env, cwd=folder)


def error_of(done: subprocess.CompletedProcess[str]) -> str:
    """The error that ended the job, as Python prints it; Spark may have something to say after it."""
    return next((line for line in reversed(done.stderr.splitlines()) if line.startswith("frazil.errors.")), "")


def test_workers_with_a_packed_environment_read_and_write(cluster: object, worker_python: Path, tmp_path: Path) -> None:
    done = job(cluster, tmp_path, worker_python)
    assert "RESULT [[900, 1000], [900, 1000], [900, 1000]]" in done.stdout, done.stdout[-2000:] + done.stderr[-3000:]


def test_a_worker_without_frazil_is_one_clear_error(cluster: object, java_check: JavaCheck, tmp_path: Path) -> None:
    done = job(cluster, tmp_path, java_check.environment.python)
    assert done.returncode != 0
    assert "NotInstalledError" in error_of(done)
    assert "frazil" in error_of(done).lower()
    assert not list((tmp_path / "lake").rglob("*.parquet"))


def test_a_worker_with_another_version_is_one_clear_error(cluster: object, worker_python: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    shutil.copytree(ROOT / "src" / "frazil", other / "frazil")
    folder = other / "frazil-9.9.9.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: frazil\nVersion: 9.9.9\n")
    done = job(cluster, tmp_path, worker_python, path=str(other))
    assert done.returncode != 0
    assert "9.9.9" in error_of(done)


def test_copies_of_slow_tasks_that_speculation_starts_leave_no_row_twice_and_no_file(cluster: object, tmp_path: Path) -> None:
    """The slow attempts write as well, after Spark has killed them."""
    late, marks = ROOT / "tests/contract/late", tmp_path / "marks"
    marks.mkdir()
    path = os.pathsep.join([str(late), str(ROOT / "src")])
    env = {**os.environ, "PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable, "PYTHONPATH": path}
    command = [sys.executable, str(late / "job.py"), str(cluster), str(tmp_path / "lake"), f"spark.executorEnv.PYTHONPATH={path}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env={**env, "FRAZIL_TEST_LATE": str(marks)}, cwd=tmp_path)
    line = next((x for x in done.stdout.splitlines() if x.startswith("FOUND ")), None)
    assert line is not None, done.stderr[-3000:]
    found = json.loads(line.removeprefix("FOUND "))
    states = [{n: n for n in range(100)}]
    states.append({n: n for n in range(100) if n % 10 != 3})
    states.append({**states[1], **{n: n * 10 for n in range(90, 110)}})
    told = [[100, 0, 0], [0, 0, 10], [11, 9, 0]]
    assert len(found["steps"]) == 6
    for n, (name, seen) in enumerate(found["steps"].items()):
        assert seen["copies"] > 0, (name, "speculation did not happen", found["marks"])
        assert seen["rows"] == sorted([k, v] for k, v in states[n % 3].items()) and seen["told"] == told[n % 3], name
        assert seen["orphans"] == [], name
    assert any(m.endswith("-late") for m in found["marks"])
    assert found["later"] == []
