"""How many files a task of Spark has open while it writes into many partitions: as many as its
memory has room for.
"""

import contextlib
import os
import subprocess
import sys

import pytest

from frazil.spark.host.workers import heap_of_a_task
from frazil.spark.write import spark_writer

pytestmark = pytest.mark.spark
MOST = "spark.sql.maxConcurrentOutputFileWriters"
MB = 1 << 20

SCRIPT = """
import frazil
from pyspark.sql import functions as F
spark = frazil.spark_session(master="local[2]", config={"spark.driver.memory": "1g", "spark.ui.enabled": "false"})
frame = spark.range(16_000_000).select(
    "id", F.timestamp_micros(F.lit(1767225600000000) + F.col("id") * 7919 % 16_000_000 * 59400).alias("ts"), (F.col("id") * 0.37).alias("price"),
    F.concat(F.lit("customer-"), F.col("id") % 100000).alias("who"), F.xxhash64("id").alias("h"), F.concat(F.lit("note "), F.xxhash64("id")).alias("note"),
)
table = frazil.load_catalog("c", type="path", warehouse="w").create_table(
    "db.t", "id bigint, ts timestamp, price double, who string, h bigint, note string", partition_by=["day(ts)", "bucket(16, id)"]
)
table.append(frame)
files = table.inspect.files()
print("rows", sum(files["record_count"].to_pylist()), "files", files.num_rows)
"""


@pytest.fixture
def settings_of(catalog, session, monkeypatch):
    """What the session is set to while a frame is written to a new table."""

    def write(partition_by=("bucket(16, id)",), **properties):
        seen = []

        @contextlib.contextmanager
        def temporarily(spark, settings):
            seen.append(dict(settings))
            yield

        catalog.drop_table("db.t") if catalog.table_exists("db.t") else None
        named = {k.replace("__", ".").replace("_", "-"): v for k, v in properties.items()}
        t = catalog.create_table(
            "db.t", "id bigint", partition_by=list(partition_by), properties=named
        )
        with monkeypatch.context() as patched:
            patched.setattr(spark_writer, "temporarily", temporarily)
            t.append(session.range(100))
        assert t.count() == 100
        (settings,) = seen
        return settings

    return write


@pytest.mark.parametrize(
    ("memory", "row_group", "writers"),
    [(2048, 128, 7), (512, 128, 1), (256, 128, 0), (64, 128, 0), (512, 8, 31), (99999, 1, 128)],
)
def test_row_groups_of_all_open_writers_fit_into_half_of_what_a_task_has(
    settings_of, monkeypatch, memory, row_group, writers
):
    """One writer more is open while the rows that are left are sorted."""
    monkeypatch.setattr(spark_writer, "heap_of_a_task", lambda _: memory * MB)
    assert settings_of(write__parquet__row_group_size_bytes=str(row_group * MB))[MOST] == str(
        writers
    )


def test_a_session_knows_what_its_tasks_have(session, settings_of):
    heap = session._jvm.java.lang.Runtime.getRuntime().maxMemory()
    assert heap_of_a_task(session) == heap // 2, "local[2]"
    assert (int(settings_of()[MOST]) + 1) * 128 * MB * 2 <= max(heap // 2, 256 * MB)


def test_who_asks_for_a_writer_a_partition_gets_it_and_sorted_rows_need_one(
    catalog, session, settings_of
):
    assert settings_of(write__spark__fanout__enabled="true")[MOST] == "100000"
    assert settings_of(partition_by=())[MOST] == "0"


def test_few_partitions_go_to_a_task_so_that_few_writers_are_open(catalog, session):
    """16 MB of 64 partitions, which Spark would put together to two tasks."""
    session.conf.set("spark.sql.shuffle.partitions", "200")
    t = catalog.create_table("db.t", "id bigint, text string", partition_by=["bucket(64, id)"])
    t.append(
        session.range(300_000).selectExpr("id", "concat(sha1(cast(id as string)), id) as text")
    )
    paths = [f.file.file_path for f in t.scan().plan_files()]
    tasks = {os.path.basename(p).split("-")[0] for p in paths}
    assert len(paths) == 64 and len(tasks) >= 8


@pytest.mark.soak
def test_a_write_into_176_partitions_gets_through_with_a_heap_of_1_gb_and_nothing_warns(tmp_path):
    run = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=3000,
        check=False,
    )
    assert "rows 16000000 files 176" in run.stdout, run.stderr[-3000:]
    assert "MemoryManager" not in run.stderr and "OutOfMemory" not in run.stderr
