"""One pipeline on a Spark cluster of two workers, tables in S3, a REST catalog, while workers are
killed: nothing is lost or doubled.

    make demo-cluster              (or: python demo/cluster.py --days 2 --keep ./my-demo)

Everything is real and local: Spark's standalone master and workers in processes of their own, an S3
server, Iceberg's REST catalog server. The workers' Python is an environment that is packed and
shipped with the job. create -> append -> merge (one worker is killed) -> upsert stream (the
executor of the other is killed) -> compaction -> read by Spark, without Spark, and by PyIceberg.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import logging
import os
import signal
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs
import pyarrow.parquet as pq
from flights import flights, say, step, warnings_in

import frazil

ROOT = Path(__file__).resolve().parent.parent
SERVICES = ROOT / "tests" / "services"
KEYS = {"s3.access-key-id": "demo", "s3.secret-access-key": "demo-secret", "s3.region": "us-east-1"}
PYICEBERG = """
import json, sys
import pyarrow.compute as pc
from pyiceberg.catalog import load_catalog
table = load_catalog("lake", type="rest", **json.loads(sys.argv[1])).load_table("nyc.flights")
rows = table.scan().to_arrow()
print(json.dumps([len(rows), pc.sum(rows["seq"]).as_py()]))
"""


@contextlib.contextmanager
def service(name: str, folder: Path, **settings: str) -> Iterator[str]:
    """Run a server of tests/services; yield its address. The first time it is fetched."""
    script, environment = (
        str(SERVICES / f"{name}.sh"),
        os.environ | {"PYTHON": sys.executable} | settings,
    )
    started = subprocess.run(
        [script, "start", str(folder / name)], env=environment, stdout=subprocess.PIPE, text=True
    )
    if started.returncode:
        raise SystemExit(f"The server {name} did not start: see above.")
    try:
        yield (folder / name / "endpoint").read_text().strip()
    finally:
        subprocess.run(
            [script, "stop", str(folder / name)],
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )


def packed(folder: Path, peers: Path) -> Path:
    """Pack the Python environment of workers: Frazil and what it needs, without PySpark, which the
    cluster has.
    """
    subprocess.run(
        [str(ROOT / "tests/peers/setup.sh"), "worker", str(peers)],
        check=True,
        env=os.environ | {"PYTHON": sys.executable},
    )
    archive = folder / "environment.tar.gz"
    with tarfile.open(archive, "w:gz", compresslevel=1) as tar:
        tar.add(peers / "worker", arcname=".")
    return archive


def session(master: str, archive: Path, jars: str) -> Any:
    settings = {
        "spark.jars": jars,
        "spark.archives": f"{archive}#environment",
        "spark.pyspark.python": "./environment/bin/python",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.executor.memory": "768m",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "4",
    }
    os.environ["PYSPARK_PYTHON"] = (
        "./environment/bin/python"  # of the workers; the driver's is this one
    )
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    spark = frazil.spark_session(app_name="cluster", master=master, config=settings)
    spark.sparkContext.setLogLevel("OFF")
    return spark


def executors(host: str) -> list[int]:
    """Find the executors' processes that serve as a host of the cluster."""
    found = []
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            with contextlib.suppress(OSError):
                words = (process / "cmdline").read_bytes().split(b"\0")
                if (
                    any(b"CoarseGrainedExecutorBackend" in w for w in words)
                    and host.encode() in words
                ):
                    found.append(int(process.name))
    return found


class Killer(threading.Thread):
    """Kill an executor, and with `worker` the worker that would start another, while tasks run;
    `killed` then holds their number.
    """

    def __init__(self, spark: Any, host: str, worker: int | None = None) -> None:
        super().__init__(daemon=True)
        self._spark, self._host, self._worker, self._ended = spark, host, worker, threading.Event()
        self.killed = 0

    def run(self) -> None:
        tracker = self._spark.sparkContext.statusTracker()
        while not self._ended.wait(0.05):
            active = sum(
                info.numActiveTasks
                for s in tracker.getActiveStageIds()
                if (info := tracker.getStageInfo(s)) is not None
            )
            if active and (running := executors(self._host)):
                for process in [*running, *([self._worker] if self._worker else [])]:
                    os.kill(process, signal.SIGKILL)
                self.killed = active
                return

    def __enter__(self) -> Killer:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self.join()


def changes_of(days: int) -> list[pa.Table]:
    """The flights of the first days of 2013 in three states, one table each: scheduled, departed,
    arrived.
    """
    table = flights(None)
    table = table.filter(pc.and_(pc.equal(table["month"], 1), pc.less_equal(table["day"], days)))
    ids = pa.array(range(len(table)), pa.int64())
    states = []
    for seq, (state, known) in enumerate(
        (("scheduled", None), ("departed", "dep_time"), ("arrived", "arr_time"))
    ):
        part = pa.table(
            {
                "flight_id": ids,
                "time_hour": table["time_hour"],
                "carrier": table["carrier"],
                "state": pa.array([state] * len(table)),
                "seq": pa.array([seq] * len(table), pa.int32()),
            }
        )
        states.append(part if known is None else part.filter(pc.is_valid(table[known])))
    return states


def run(spark: Any, catalog: Any, states: list[pa.Table], folder: Path, worker: int) -> Any:
    scheduled, departed, arrived = states
    step(2, "create, append: the rows are written by both workers")
    catalog.create_namespace("nyc")
    t = catalog.create_table(
        "nyc.flights",
        spark.createDataFrame(scheduled).schema,
        partition_by=["days(time_hour)"],
        format_version=3,
        properties={"write.merge.mode": "merge-on-read"},
    )
    result = t.append(spark.createDataFrame(scheduled).repartition(8))
    say(f"   {result.rows_inserted:,} rows in {result.files_added} files at {t.location()}")

    step(3, "merge: one of the workers is killed while its tasks run")
    source = spark.createDataFrame(departed).repartition(8)
    with Killer(spark, "127.0.0.2", worker) as killer:
        merged = t.merge(
            source, "t.flight_id = s.flight_id", source_alias="s", target_alias="t"
        ).when_matched_update_all()
        result = merged.when_not_matched_insert_all().execute()
    say(
        f"   {result.rows_updated:,} rows changed; a worker was killed with {killer.killed} tasks running"
    )
    first = killer.killed

    step(
        4,
        "stream: upserts in micro-batches; the executor of the other worker is killed while its tasks run",
    )
    (folder / "arriving").mkdir()
    for n in range(4):
        size = -(-len(arrived) // 4)
        pq.write_table(arrived.slice(n * size, size), folder / "arriving" / f"{n}.parquet")
    schema = spark.createDataFrame(arrived).schema
    stream = (
        spark.readStream.schema(schema)
        .option("maxFilesPerTrigger", 1)
        .parquet(str(folder / "arriving"))
    )

    def told(number: int, done: frazil.CommitResult) -> None:
        say(f"   batch {number}: {done.rows_updated:,} changed")

    writer = t.write_stream(
        stream, mode="upsert", key_columns="flight_id", order_column="seq", on_commit=told
    )
    with Killer(spark, "127.0.0.1") as killer:
        writer.option("checkpointLocation", str(folder / "checkpoint")).trigger(
            availableNow=True
        ).start().awaitTermination()
    say(f"   an executor was killed with {killer.killed} tasks running")

    step(5, "compaction")
    compacted = t.maintenance.rewrite_data_files(options={"rewrite-all": True})
    say(
        f"   {compacted.rewritten_data_files_count} files became {compacted.added_data_files_count}"
    )
    if not (first and killer.killed):
        raise SystemExit("No worker was killed in time: the demo shows nothing.")
    return t


def check(
    spark: Any, catalog: Any, states: list[pa.Table], uri: str, endpoint: str, peers: Path
) -> bool:
    step(
        6,
        "every flight is there once, in its last state: for Spark, without Spark, and for PyIceberg",
    )
    changes = pa.concat_tables(states).group_by("flight_id").aggregate([("seq", "max")])
    wanted = (len(changes), pc.sum(changes["seq_max"]).as_py())
    t = catalog.load_table("nyc.flights")
    row = (
        t.scan()
        .to_spark(spark)
        .selectExpr("count(*)", "sum(seq)", "count(distinct flight_id)")
        .collect()[0]
    )
    arrow = t.scan(selected_fields=("flight_id", "seq")).to_arrow()
    found = {"Spark": tuple(row)[:2], "Arrow": (len(arrow), pc.sum(arrow["seq"]).as_py())}
    python = peers / "pyiceberg" / "bin" / "python"
    if python.exists():
        properties = json.dumps({"uri": uri, "s3.endpoint": endpoint, **KEYS})
        done = subprocess.run(
            [str(python), "-c", PYICEBERG, properties], capture_output=True, text=True
        )
        found["PyIceberg"] = (
            tuple(json.loads(done.stdout)) if done.returncode == 0 else (done.stderr[-300:], None)
        )
    for engine, rows in found.items():
        say(
            f"   {engine:9} {rows[0]:,} flights: {'yes' if rows == wanted else f'NO, {wanted[0]:,} expected'}"
        )
    return row[2] == wanted[0] and all(rows == wanted for rows in found.values())


def main() -> int:
    args = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    args.add_argument("--days", type=int, default=7, help="days of January 2013 (7)")
    args.add_argument("--keep", type=Path, help="folder for logs and checkpoints, kept afterwards")
    args.add_argument(
        "--peers",
        type=Path,
        default=ROOT / ".cache" / "peers",
        help="where the workers' environment is made",
    )
    given = args.parse_args()
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    folder = (given.keep or Path(tempfile.mkdtemp(prefix="frazil-cluster-"))).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    step(1, "A cluster of two workers, an S3 server and a REST catalog start")
    with contextlib.ExitStack() as running:
        endpoint = running.enter_context(service("s3", folder))
        pyarrow.fs.S3FileSystem(
            endpoint_override=endpoint,
            access_key="demo",
            secret_key="demo-secret",
            region="us-east-1",
            allow_bucket_creation=True,
        ).create_dir("lake")
        keys = {"AWS_ACCESS_KEY_ID": "demo", "AWS_SECRET_ACCESS_KEY": "demo-secret"}
        uri = running.enter_context(
            service(
                "iceberg_rest",
                folder,
                WAREHOUSE="s3://lake/warehouse",
                S3_ENDPOINT=endpoint,
                **keys,
            )
        )
        master = running.enter_context(service("spark_cluster", folder))
        command = [str(SERVICES / "spark_jars.sh"), "s3a", str(folder)]
        jars = subprocess.run(
            command,
            env=os.environ | {"PYTHON": sys.executable},
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        ).stdout
        archive = packed(folder, given.peers)
        with warnings_in(folder / "spark.log"):
            spark = session(master, archive, jars.strip().splitlines()[-1])
            running.callback(spark.stop)
            say(
                f"   {master}, {endpoint}, {uri}; the workers' Python is {archive.stat().st_size >> 20} MB"
            )
            catalog = frazil.load_catalog(
                "lake", type="rest", uri=uri, **{"s3.endpoint": endpoint, **KEYS}
            )
            states = changes_of(given.days)
            start = time.perf_counter()
            worker = int((folder / "spark_cluster" / "worker2.pid").read_text().split()[0])
            run(spark, catalog, states, folder, worker)
            say(f"   all done after {time.perf_counter() - start:.0f} s")
            ok = check(spark, catalog, states, uri, endpoint, given.peers)
    say(
        f"\n{'Done' if ok else 'SOMETHING IS WRONG'}. {folder}"
        if given.keep or not ok
        else "\nDone."
    )
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
