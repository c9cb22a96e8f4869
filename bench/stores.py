"""Stores and catalogs that people run, on this machine: python bench/stores.py [append plan scan]
--peers DIR --folder DIR

Starts the servers of tests/services: VersityGW for S3, PostgreSQL, MariaDB, Hive Metastores 2.3 and
4.0, Java's REST server and Nessie. `append`: one commit of a made-up file, by Frazil and by Java
Iceberg's own client, one after the other on the same table. `plan`: a table of 100,000 files, on
disk and in S3. `scan`: two columns read, and all rows written, in S3: Spark's own Parquet over s3a,
Frazil on Spark, Frazil and pyarrow without Spark, in turns.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.fs
import pyarrow.parquet as pq

import frazil
from frazil.codec.single_value import to_bytes
from frazil.commit.actions import Append
from frazil.commit.table_commit import commit
from frazil.scan.manifests import manifests_of
from frazil.spec.manifest import DataFile
from frazil.spec.types import LongType

ROOT = Path(__file__).resolve().parent.parent
SERVICES = ROOT / "tests" / "services"
KEYS = {
    "s3.access-key-id": "testuser",
    "s3.secret-access-key": "testtest",
    "s3.path-style-access": "true",
}
BUCKET, COLUMNS = "frazil-bench", 10
JAVA_CATALOGS = {
    "path": "hadoop", "path-s3": "hadoop", "sql": "jdbc", "postgres": "jdbc", "mariadb": "jdbc", "hive2": "hive", "hive4": "hive",
    "rest": "rest", "nessie": "rest",
}  # fmt: skip
SERVERS = {
    "postgres": "postgres",
    "mariadb": "mariadb",
    "hive2": "hms2",
    "hive4": "hms4",
    "rest": "iceberg_rest",
    "nessie": "nessie",
}


@contextlib.contextmanager
def service(name: str, folder: Path, **settings: str) -> Iterator[str]:
    """Run a server of tests/services; yield its address."""
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
        yield started.stdout.strip().splitlines()[-1]
    finally:
        subprocess.run(
            [script, "stop", str(folder / name)],
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )


def jars(name: str, folder: Path, python: str) -> str:
    command = [str(SERVICES / "spark_jars.sh"), name, str(folder)]
    found = subprocess.run(
        command, env=os.environ | {"PYTHON": python}, stdout=subprocess.PIPE, text=True, check=True
    ).stdout
    return found.strip().splitlines()[-1]


def report(work: str, who: str, seconds: list[float], **more: Any) -> None:
    """Print one line of JSON: the median, and all that were measured."""
    times = [round(s, 4) for s in sorted(seconds)]
    print(
        json.dumps(
            {
                "work": work,
                "who": who,
                "median": round(statistics.median(seconds), 4),
                "times": times,
                **more,
            }
        ),
        flush=True,
    )


def timed(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


# --- commits
# ------------------------------------------------------------------------------------------------


def made_up(number: int, columns: int = 1, location: str = "/nowhere") -> DataFile:
    low, high = to_bytes(LongType(), number * 1000), to_bytes(LongType(), number * 1000 + 999)
    ids = range(1, columns + 1)
    return DataFile(
        file_path=f"{location}/day={number // 1000}/part-{number:06d}.parquet",
        file_format="parquet",
        record_count=1000,
        file_size_in_bytes=100_000,
        partition=(),
        spec_id=0,
        column_sizes=dict.fromkeys(ids, 10_000),
        value_counts=dict.fromkeys(ids, 1000),
        null_value_counts=dict.fromkeys(ids, 0),
        lower_bounds=dict.fromkeys(ids, low),
        upper_bounds=dict.fromkeys(ids, high),
    )


@contextlib.contextmanager
def opened(kind: str, folder: Path, s3: str) -> Iterator[dict[str, str]]:
    """Run the servers of a catalog; yield the properties by which Frazil opens it."""
    in_s3 = f"s3://{BUCKET}/{uuid.uuid4().hex}"
    of_store = {
        "S3_ENDPOINT": s3,
        "WAREHOUSE": in_s3,
        "AWS_ACCESS_KEY_ID": KEYS["s3.access-key-id"],
        "AWS_SECRET_ACCESS_KEY": KEYS["s3.secret-access-key"],
    }
    with contextlib.ExitStack() as running:
        settings = of_store if kind == "nessie" else {}
        if kind == "hive4":  # over Derby, it cannot compare parameters
            settings = {
                "HMS_PG": running.enter_context(service("postgres", folder))
                .partition("@")[2]
                .replace("/app", "/hms4")
            }
        uri = (
            running.enter_context(service(SERVERS[kind], folder, **settings))
            if kind in SERVERS
            else f"sqlite:///{folder}/catalog.db"
        )
        match JAVA_CATALOGS[kind]:
            case "hadoop" if kind == "path-s3":
                yield {"type": "path", "warehouse": in_s3, "s3.endpoint": s3, **KEYS}
            case "hadoop":
                yield {"type": "path", "warehouse": f"{folder}/path"}
            case "rest":
                yield {"type": "rest", "uri": uri} | (
                    {"s3.endpoint": s3, **KEYS} if kind == "nessie" else {}
                )
            case "jdbc":
                yield {"type": "sql", "uri": uri, "warehouse": f"{folder}/{kind}"}
            case _:
                yield {"type": "hive", "uri": uri, "warehouse": f"{folder}/{kind}"}


def for_java(kind: str, settings: dict[str, str]) -> dict[str, str]:
    """The same catalog for Java: its properties, and Hadoop's settings under `hadoop.`."""
    found = {
        "type": JAVA_CATALOGS[kind],
        **{k: v for k, v in settings.items() if k in ("uri", "warehouse")},
    }
    if JAVA_CATALOGS[kind] == "jdbc":
        place = found["uri"].partition("://")[2]
        login, _, address = place.rpartition("@")
        uri = (
            f"jdbc:sqlite:{address[1:]}"
            if kind == "sql"
            else f"jdbc:{kind.replace('postgres', 'postgresql')}://{address}"
        )
        found = {
            "catalog-impl": "org.apache.iceberg.jdbc.JdbcCatalog",
            "uri": uri,
            "warehouse": found["warehouse"],
            "jdbc.schema-version": "V1",
        }
        if login:
            found["jdbc.user"], _, found["jdbc.password"] = login.partition(":")
    if kind == "nessie":  # the server tells Java to take its own client of S3
        found |= {
            "client.region": "us-east-1",
            "http-client.type": "urlconnection",
            **{k: v for k, v in settings.items() if k.startswith("s3.")},
        }
    if kind == "path-s3":
        found["warehouse"] = found["warehouse"].replace("s3://", "s3a://")
        own = {
            "endpoint": settings["s3.endpoint"],
            "access.key": KEYS["s3.access-key-id"],
            "secret.key": KEYS["s3.secret-access-key"],
        }
        own |= {"path.style.access": "true", "endpoint.region": "us-east-1"}
        found["hadoop.fs.s3.impl"] = "org.apache.hadoop.fs.s3a.S3AFileSystem"
        found |= {f"hadoop.fs.s3a.{k}": v for k, v in own.items()}
    return found


JAVA = """
import json, sys, time
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[1]").config("spark.jars", sys.argv[1]).config("spark.driver.extraClassPath", sys.argv[2]).config("spark.ui.enabled", "false").getOrCreate()
spark.sparkContext.setLogLevel("OFF")
jvm, loader = spark._jvm, spark._jvm.java.lang.Thread.currentThread().getContextClassLoader()
ib = jvm.org.apache.iceberg
for line in sys.stdin:
    asked = json.loads(line)
    conf, properties = spark.sparkContext._jsc.hadoopConfiguration(), jvm.java.util.HashMap()
    for key, value in asked["catalog"].items():
        conf.set(key[7:], value) if key.startswith("hadoop.") else properties.put(key, value)
    catalog = ib.CatalogUtil.buildIcebergCatalog(asked["name"], properties, conf)
    table = catalog.loadTable(ib.catalog.TableIdentifier.parse(asked["table"]))
    times = []
    for n in range(asked["rounds"]):
        file = ib.DataFiles.builder(table.spec()).withPath(f"/nowhere/java-{n}.parquet").withFileSizeInBytes(100000).withRecordCount(1000).build()
        start = time.perf_counter()
        table.newAppend().appendFile(file).commit()
        times.append(time.perf_counter() - start)
    print("TIMES" + json.dumps(times), flush=True)
"""


class Java:
    """Java Iceberg's own client in a JVM that stays up, with the jars that it needs for one
    catalog.
    """

    def __init__(self, peers: Path, folder: Path, kind: str):
        python = str(peers / "java/bin/python")
        iceberg = next((peers / "jars").glob("iceberg-spark-runtime-4.1_2.13-*.jar"))
        more = {
            "path-s3": "s3a",
            "sql": "sqlite",
            "postgres": "postgres",
            "mariadb": "mariadb",
            "nessie": "aws",
        }
        path = ",".join(
            [str(iceberg), *([jars(more[kind], folder, python)] if kind in more else [])]
        )
        # Spark's own client, that of 2.3, cannot ask a metastore 4.0 for tables: Hive's comes
        # before it.
        first = jars("hive4", folder, python) if kind == "hive4" else ""
        self._log = folder / "java.log"
        pipes = {
            "stdin": subprocess.PIPE,
            "stdout": subprocess.PIPE,
            "stderr": self._log.open("w"),
            "text": True,
        }
        self._process: Any = subprocess.Popen([python, "-c", JAVA, path, first], **pipes)  # type: ignore[call-overload]

    def commits(self, kind: str, settings: dict[str, str], table: str, rounds: int) -> list[float]:
        asked = {
            "name": "bench",
            "catalog": for_java(kind, settings),
            "table": table,
            "rounds": rounds,
        }
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        for line in self._process.stdout:
            if line.startswith("TIMES"):
                return list(json.loads(line.removeprefix("TIMES")))
        raise SystemExit(f"Java ended at {kind}: see {self._log}.")

    def close(self) -> None:
        self._process.stdin.close()
        self._process.wait()


def append(folder: Path, peers: Path, s3: str, sizes: tuple[int, ...], kinds: list[str]) -> None:
    for kind in kinds:
        java = Java(peers, folder, kind)
        with (
            opened(kind, folder, s3) as settings,
            frazil.load_catalog("bench", **settings) as catalog,
        ):  # type: ignore[arg-type]
            catalog.create_namespace("db")
            # the first commit of a server costs more than any other
            append_one(catalog.create_table("db.first", "id bigint"), 0)
            for size in sizes:
                table = catalog.create_table(f"db.t{size}", "id bigint")
                for n in range(size):
                    append_one(table, n)
                times = [
                    timed(functools.partial(append_one, table, n)) for n in range(size, size + 30)
                ]
                report(f"append_{kind}_{size}", "frazil", times)
                report(
                    f"append_{kind}_{size}", "java", java.commits(kind, settings, f"db.t{size}", 30)
                )
        java.close()


def append_one(table: Any, number: int) -> None:
    """Commit one file, as Java's core API does: neither reads it."""
    table._loaded = commit(table._backend, table._loaded, [Append([made_up(number)])]).table


# --- planning
# -----------------------------------------------------------------------------------------------


def plan(folder: Path, s3: str, files: int) -> None:
    places: dict[str, dict[str, str]] = {"local": {"warehouse": f"{folder}/plan"}}
    places["s3"] = {"warehouse": f"s3://{BUCKET}/{uuid.uuid4().hex}", "s3.endpoint": s3, **KEYS}
    columns = ", ".join(f"c{i} bigint" for i in range(COLUMNS))
    for properties in places.values():
        with frazil.load_catalog("plan", type="path", **properties) as catalog:
            catalog.create_namespace("db")
            table: Any = catalog.create_table(
                "db.t", columns, properties={"commit.manifest-merge.enabled": "false"}
            )
            for first in range(0, files, 2000):
                many = [made_up(n, COLUMNS) for n in range(first, min(first + 2000, files))]
                table._loaded = commit(table._backend, table._loaded, [Append(many)]).table
    times: dict[str, list[float]] = {name: [] for name in places}
    for turn in range(6):
        for name, properties in places.items():
            frazil.clear_caches()
            with frazil.load_catalog("plan", type="path", **properties) as catalog:
                start = time.perf_counter()
                planned = sum(1 for _ in catalog.load_table("db.t").scan().plan_files())
                seconds = time.perf_counter() - start
                assert planned == files, planned
                if turn:
                    times[name].append(seconds)
    for name, properties in places.items():
        report("plan_all", name, times[name])
        if name == "s3":
            with frazil.load_catalog("plan", type="path", **properties) as catalog:
                transfer(catalog.load_table("db.t"))


def transfer(table: Any) -> None:
    """Report how long the bytes of all manifests take, eight at a time."""
    storage, snapshot = table._loaded.storage, table.metadata.current_snapshot()
    names = [m.manifest_path for m in manifests_of(table.metadata, snapshot, storage)]
    with ThreadPoolExecutor(8) as pool:
        sizes: list[int] = []
        times = [
            timed(lambda: sizes.append(sum(len(d) for d in pool.map(storage.read, names))))
            for _ in range(5)
        ]
    report("plan_bytes", "s3", times, bytes=sizes[0], manifests=len(names))


# --- reading and writing rows
# -------------------------------------------------------------------------------


def events(rows: int, seed: int) -> pa.Table:
    chance, ids = np.random.default_rng(seed), np.arange(rows) + seed * rows
    text = lambda prefix, numbers: pa.array(np.char.add(prefix, numbers.astype(str)))
    columns = {
        "id": ids,
        "order_id": chance.integers(0, 10**9, rows),
        "product_id": chance.integers(0, 100_000, rows).astype("int32"),
        "price": np.round(chance.random(rows) * 1000, 2),
        "qty": chance.integers(0, 100, rows).astype("int32"),
        "name": text("user-", chance.integers(0, 10**6, rows)),
        "ts": pa.array(ids * 1000).cast(pa.timestamp("us", "UTC")),
        "cat": text("c", chance.integers(0, 50, rows)),
    }
    return pa.table(columns)


def in_turns(work: str, candidates: dict[str, Callable[[], object]], rounds: int) -> None:
    """Measure candidates one after the other, in every round in another order, after one round that
    does not count.
    """
    times: dict[str, list[float]] = {name: [] for name in candidates}
    names = list(candidates)
    for turn in range(rounds + 1):
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            seconds = timed(candidates[name])
            if turn:
                times[name].append(seconds)
    for name, found in times.items():
        report(work, name, found)


def scan(folder: Path, s3: str, rows: int, rounds: int) -> None:
    settings = {
        "spark.jars": jars("s3a", folder, sys.executable),
        "spark.driver.memory": "3g",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.parquet.compression.codec": "zstd",
        "spark.hadoop.fs.s3a.endpoint": s3,
        "spark.hadoop.fs.s3a.access.key": KEYS["s3.access-key-id"],
        "spark.hadoop.fs.s3a.secret.key": KEYS["s3.secret-access-key"],
        "spark.hadoop.fs.s3a.path.style.access": "true",
        "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
    }
    spark = frazil.spark_session(app_name="stores", master="local[2]", config=settings)
    spark.sparkContext.setLogLevel("ERROR")
    run, local = uuid.uuid4().hex, folder / "events"
    local.mkdir()
    for n in range(8):
        pq.write_table(events(rows // 8, n), local / f"events-{n}.parquet", compression="zstd")
    store = pa.fs.S3FileSystem(
        endpoint_override=s3, access_key="testuser", secret_key="testtest", region="us-east-1"
    )
    pa.fs.copy_files(str(local), f"{BUCKET}/{run}/events", destination_filesystem=store)
    catalog: Any = frazil.load_catalog(
        "stores", type="path", warehouse=f"s3://{BUCKET}/{run}", **{"s3.endpoint": s3, **KEYS}
    )  # type: ignore[call-overload]
    catalog.create_namespace("db")
    read = ds.dataset(f"{BUCKET}/{run}/events", filesystem=store)
    t = catalog.create_table("db.read", read.schema)
    t.add_files([f"s3://{BUCKET}/{run}/events/events-{n}.parquet" for n in range(8)])
    two, fresh = ("price", "qty"), lambda: uuid.uuid4().hex
    sums = lambda table: [pc.sum(table[c]).as_py() for c in two]
    in_turns(
        "scan_2col_s3",
        {
            "spark": lambda: (
                spark.read.parquet(f"s3a://{BUCKET}/{run}/events")
                .agg({"price": "sum", "qty": "sum"})
                .collect()
            ),
            "frazil on spark": lambda: (
                catalog.load_table("db.read")
                .to_spark(spark)
                .agg({"price": "sum", "qty": "sum"})
                .collect()
            ),
            "pyarrow": lambda: sums(
                ds.dataset(f"{BUCKET}/{run}/events", filesystem=store).to_table(columns=list(two))
            ),
            "frazil": lambda: sums(
                catalog.load_table("db.read").scan(selected_fields=two).to_arrow()
            ),
        },
        rounds,
    )
    frame, rows_read = (
        lambda: spark.read.parquet(str(local)),
        lambda: ds.dataset(str(local)).scanner().to_reader(),
    )
    made = lambda: catalog.create_table(f"db.w{fresh()}", read.schema)
    in_turns(
        "write_plain_s3",
        {
            "spark": lambda: frame().write.parquet(f"s3a://{BUCKET}/{run}/out/{fresh()}"),
            "frazil on spark": lambda: made().append(frame()),
            "pyarrow": lambda: ds.write_dataset(
                rows_read(),
                f"{BUCKET}/{run}/out/{fresh()}",
                filesystem=store,
                format="parquet",
                file_options=ds.ParquetFileFormat().make_write_options(compression="zstd"),
            ),
            "frazil": lambda: made().append(rows_read()),
        },
        rounds,
    )
    spark.stop()


def main() -> None:
    arguments = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    arguments.add_argument("parts", nargs="*", default=["append", "plan", "scan"])
    arguments.add_argument("--peers", type=Path, default=ROOT / ".cache" / "peers")
    arguments.add_argument("--folder", type=Path, help="on ext4, xfs or btrfs (a temporary one)")
    arguments.add_argument("--rows", type=int, default=16_000_000)
    arguments.add_argument("--files", type=int, default=100_000)
    arguments.add_argument("--snapshots", type=int, nargs="*", default=[10, 1000])
    arguments.add_argument("--catalogs", nargs="*", default=list(JAVA_CATALOGS), help="of `append`")
    arguments.add_argument("--rounds", type=int, default=3)
    given = arguments.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="stores-", dir=given.folder))
    folder.chmod(0o755)  # root starts PostgreSQL as a user who owns nothing
    with service("versitygw", folder) as s3:
        pa.fs.S3FileSystem(
            endpoint_override=s3,
            access_key="testuser",
            secret_key="testtest",
            region="us-east-1",
            allow_bucket_creation=True,
        ).create_dir(BUCKET)
        if "plan" in given.parts:
            plan(folder, s3, given.files)
        if "scan" in given.parts:
            scan(folder, s3, given.rows, given.rounds)
        if "append" in given.parts:
            append(folder, given.peers, s3, tuple(given.snapshots), given.catalogs)


if __name__ == "__main__":
    main()
