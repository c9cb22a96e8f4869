"""A Ctrl-C in a write by Spark: its jobs have ended, its files are gone, the next write starts at
once.
"""

import json
import os
import subprocess
import sys
import threading

import pytest

from frazil.spark.host.interruptible import interruptible

pytestmark = pytest.mark.spark

SCRIPT = """
import glob, json, os, signal, sys, threading, time
import frazil
from pyspark.sql import functions as F

spark = frazil.spark_session(master="local[2]", config={"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "2"})
spark.sparkContext.setLogLevel("OFF")
tracker = spark._jsc.sc().statusTracker()
catalog = frazil.load_catalog()
catalog.create_namespace("db")

def running():
    return sum(e.numRunningTasks() for e in tracker.getExecutorInfos())

@F.udf("boolean")
def slow(n):
    time.sleep(0.02)
    return n % 2 == 0

def change(t, kind):
    if kind == "delete":
        t.delete(slow("id"))
    else:
        t.append(spark.range(0, 20000, 1, 8).where(slow("id")))

def interrupt():
    while not running():
        time.sleep(0.05)
    time.sleep(0.5)
    os.kill(os.getpid(), signal.SIGINT)

told = {}
for kind, more in {
    "folder": {}, "shuffled": {"partition_by": ["bucket(2, id)"]}, "arrow": {"properties": {"write.format.default": "orc"}}, "delete": {},
}.items():
    t = catalog.create_table(f"db.{kind}", "id bigint", **more)
    t.append(spark.range(2000))
    before = sorted(glob.glob(f"{t.location()}/**", recursive=True))
    thread = threading.Thread(target=interrupt)
    thread.start()
    try:
        change(t, kind)
        told[kind] = "was not interrupted"
    except KeyboardInterrupt:
        jobs, tasks = len(spark.sparkContext.statusTracker().getActiveJobsIds()), running()
        left = sorted(set(glob.glob(f"{t.location()}/**", recursive=True)) - set(before))
        t.append(spark.range(2))
        told[kind] = [jobs, tasks, [p for p in left if os.path.isfile(p)], t.scan().count()]
    thread.join()
print("told", json.dumps(told))
"""


def test_a_ctrl_c_in_a_write_leaves_no_job_no_task_and_no_file(tmp_path):
    environment = os.environ | {"FRAZIL_HOME": str(tmp_path / "home")}
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
    )
    told = [line for line in run.stdout.splitlines() if line.startswith("told ")]
    assert told, run.stderr[-3000:]
    found = json.loads(told[0][5:])
    assert found == {kind: [0, 0, [], 2002] for kind in ("folder", "shuffled", "arrow", "delete")}
    assert "Py4JNetworkError" not in run.stderr


def test_a_job_gives_its_result_or_its_own_error_and_keeps_what_the_thread_had_set(session):
    context = session.sparkContext
    context.setLocalProperty("frazil.test", "mine")
    seen = []
    try:
        assert (
            interruptible(
                session,
                lambda: (
                    seen.append(context.getLocalProperty("frazil.test")) or session.range(3).count()
                ),
            )
            == 3
        )
        with pytest.raises(ZeroDivisionError):
            interruptible(session, lambda: 1 / 0)
    finally:
        context.setLocalProperty("frazil.test", None)
    assert seen == ["mine"]
    others = threading.Thread(
        target=lambda: seen.append(interruptible(session, threading.current_thread))
    )
    others.start()
    others.join()
    assert seen[1] is others
