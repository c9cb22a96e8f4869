"""A standalone cluster with two workers whose Python is not the driver's."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.peers.checks import JavaCheck

ROOT = Path(__file__).resolve().parents[2]
pytestmark = [pytest.mark.spark, pytest.mark.service]

JOB = """
import json
import sys
import frazil
import pyarrow as pa
from pyspark.sql import SparkSession, functions as F
master, folder = sys.argv[1:3]
builder = SparkSession.builder.master(master).config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1")
builder = builder.config("spark.executor.memory", "512m").config("spark.driver.memory", "512m").config("spark.ui.enabled", "false")
builder = builder.config("spark.ui.showConsoleProgress", "false").config("spark.sql.shuffle.partitions", "2")
spark = builder.getOrCreate()
spark.sparkContext.setLogLevel("ERROR")


def counts(name):
    catalog = frazil.load_catalog(name, type="path", warehouse=f"{folder}/{name}")
    catalog.create_namespace("db")
    frame = spark.range(1000).select("id", (F.col("id") % 3).cast("string").alias("p"), F.array(F.col("id")).alias("l"))
    found = []
    for fmt in ("parquet", "orc", "avro"):
        t = catalog.create_table(f"db.{fmt}", frame.schema, partition_by=["p", "bucket(2, id)"], properties={"write.format.default": fmt})
        t.append(frame)
        found.append([t.to_spark(spark).where("id >= 100").count(), t.scan().count()])
    return found


def streamed(name):
    # rows of a table, and rows that another source makes, so that the sink's own check is met too
    catalog = frazil.load_catalog(f"{name}-streams", type="path", warehouse=f"{folder}/{name}-streams")
    catalog.create_namespace("db")
    source, target = (catalog.create_table(f"db.{t}", "id bigint") for t in ("source", "target"))
    source.append(pa.table({"id": range(100)}))
    rate = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 10).load().selectExpr("value as id")
    reads = lambda: source.read_stream(spark, starting_strategy="TABLE_SCAN_THEN_INCREMENTAL")
    found = []
    for n, frame in enumerate((reads,) if name == "packed" else (reads, lambda: rate)):
        try:
            writer = target.write_stream(frame(), mode="upsert", key_columns="id").option("checkpointLocation", f"{folder}/{name}-{n}")
            writer.trigger(availableNow=True).start().awaitTermination(120)
            found.append(target.refresh().scan().count())
        except Exception as e:
            found.append(f"{type(e).__module__}.{type(e).__name__}: {e}")
    return found


told = {}
for name, python in json.loads(sys.argv[3]).items():
    spark.sparkContext.pythonExec = python  # as PYSPARK_PYTHON says it for a whole application
    frazil.install(spark)
    try:
        told[name] = counts(name)
    except Exception as e:
        told[name] = f"{type(e).__module__}.{type(e).__name__}: {e}"
    told[f"{name} streams"] = streamed(name)
print("RESULT", json.dumps(told))
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


@pytest.fixture(scope="module")
def told(
    cluster: object,
    worker_python: Path,
    java_check: JavaCheck,
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[str, Any]:
    """What one application saw with each Python of its workers: counts of rows, or the error. The
    tables lie in `lake/<name>`.
    """
    place = tmp_path_factory.mktemp("job")
    place.chmod(0o777)
    # The one that serves is the last: Frazil checks the workers of an application until they have
    # been found right.
    pythons = {
        "without": java_check.environment.python,
        "other": other_version(place, worker_python),
        "packed": worker_python,
    }
    env = {
        **os.environ,
        "PYSPARK_PYTHON": str(worker_python),
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "PYTHONPATH": str(ROOT / "src"),
    }
    names = json.dumps({name: str(python) for name, python in pythons.items()})
    command = [sys.executable, "-c", JOB, str(cluster), str(place / "lake"), names]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=env, cwd=place)
    line = next((x for x in done.stdout.splitlines() if x.startswith("RESULT ")), None)
    assert line is not None, done.stdout[-2000:] + done.stderr[-3000:]
    return {"lake": place / "lake", **json.loads(line.removeprefix("RESULT "))}


def other_version(place: Path, worker_python: Path) -> Path:
    """A Python of workers that finds another version of Frazil first."""
    other = place / "other"
    shutil.copytree(ROOT / "src" / "frazil", other / "frazil")
    folder = other / "frazil-9.9.9.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: frazil\nVersion: 9.9.9\n")
    python = place / "python-with-other"
    python.write_text(f'#!/bin/sh\nPYTHONPATH={other}:$PYTHONPATH exec {worker_python} "$@"\n')
    python.chmod(0o755)
    return python


def test_workers_with_a_packed_environment_read_and_write(told: dict[str, Any]) -> None:
    assert told["packed"] == [[900, 1000], [900, 1000], [900, 1000]]


def test_a_worker_without_frazil_is_one_clear_error(told: dict[str, Any]) -> None:
    assert (
        told["without"].startswith("frazil.errors.NotInstalledError")
        and "frazil" in told["without"].partition(": ")[2].lower()
    )
    assert not list((told["lake"] / "without").rglob("*.parquet"))


def test_a_worker_with_another_version_is_one_clear_error(told: dict[str, Any]) -> None:
    assert told["other"].startswith("frazil.errors.") and "9.9.9" in told["other"]


def test_a_stream_on_workers_without_frazil_or_with_another_version_ends_with_the_same_error(
    told: dict[str, Any],
) -> None:
    for name, word in (("without", "cannot import Frazil"), ("other", "9.9.9")):
        read, written = told[f"{name} streams"]
        assert read.startswith("frazil.errors.NotInstalledError") and word in read, (
            "the source is refused before the query starts"
        )
        assert "NotInstalledError" in written and word in written, (
            "the first batch of a sink fails with the reason"
        )
        assert not list((told["lake"] / f"{name}-streams/db/target").rglob("*.parquet"))
    assert told["packed streams"] == [100]


def speculated(job: str, cluster: object, place: Path) -> dict[str, Any]:
    """What a job of tests/contract/late has found."""
    late, marks = ROOT / "tests/contract/late", place / "marks"
    marks.mkdir()
    path = os.pathsep.join([str(late), str(ROOT / "src")])
    env = {
        **os.environ,
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "PYTHONPATH": path,
    }
    command = [
        sys.executable,
        str(late / job),
        str(cluster),
        str(place / "lake"),
        f"spark.executorEnv.PYTHONPATH={path}",
    ]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=300,
        env={**env, "FRAZIL_TEST_LATE": str(marks)},
        cwd=place,
    )
    line = next((x for x in done.stdout.splitlines() if x.startswith("FOUND ")), None)
    assert line is not None, done.stderr[-3000:]
    found: dict[str, Any] = json.loads(line.removeprefix("FOUND "))
    return found


@pytest.mark.soak
def test_copies_of_slow_tasks_that_speculation_starts_leave_no_row_twice_and_no_file(
    cluster: object, tmp_path: Path
) -> None:
    """The slow attempts write as well, after Spark has killed them."""
    found = speculated("job.py", cluster, tmp_path)
    states = [{n: n for n in range(100)}]
    states.append({n: n for n in range(100) if n % 10 != 3})
    states.append({**states[1], **{n: n * 10 for n in range(90, 110)}})
    told = [[100, 0, 0], [0, 0, 10], [11, 9, 0]]
    assert len(found["steps"]) == 6
    for n, (name, seen) in enumerate(found["steps"].items()):
        assert seen["copies"] > 0, (name, "speculation did not happen", found["marks"])
        assert (
            seen["rows"] == sorted([k, v] for k, v in states[n % 3].items())
            and seen["told"] == told[n % 3]
        ), name
        assert seen["orphans"] == [], name
    assert any(m.endswith("-late") for m in found["marks"])
    assert found["later"] == []


@pytest.mark.soak
def test_copies_of_slow_tasks_of_a_stream_leave_each_batch_once_and_no_file(
    cluster: object, tmp_path: Path
) -> None:
    """Of appends by Spark's own writer, of upserts that look up their keys, and of upserts by
    equality deletes.
    """
    found = speculated("stream_job.py", cluster, tmp_path)
    first, second = [[n, n] for n in range(100)], [[n, n * 10] for n in range(90, 110)]
    assert set(found["streams"]) == {"append", "lookup", "equality-deletes"}
    for name, seen in found["streams"].items():
        assert seen["copies"] > 0, (name, "speculation did not happen", found["marks"])
        assert seen["rows"] == (
            sorted([*first, *second]) if name == "append" else [*first[:90], *second]
        ), name
        assert [n for n, *_ in seen["told"]] == [0, 1] and seen["snapshots"] == 2, name
        assert seen["orphans"] == [], name
    told = [found["streams"][name]["told"] for name in ("append", "lookup")]
    assert told == [[[0, 100, 0], [1, 20, 0]], [[0, 100, 0], [1, 10, 10]]]
    assert any(m.startswith("stream-") and m.endswith("-late") for m in found["marks"]), (
        "a slow attempt has written after its copy"
    )
    assert found["later"] == [] and found["staged"] == []
