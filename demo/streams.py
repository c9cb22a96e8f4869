"""Changes of real flights stream through Spark into Iceberg tables while the driver is killed again
and again: every row is there once.

    make demo-stream               (or: python demo/streams.py --days 3 --kills 2 --keep ./my-demo)
    make demo-stream KAFKA=1       (the changes come through a real Kafka broker, which is fetched through Maven)

Changes (scheduled, departed, arrived) -> upsert into nyc.flights, by flight_id -> its changes ->
nyc.by_hour, partitioned by hour, whose partitions are announced by a file _SUCCESS when they are
complete.
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import broker
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from flights import flights, say, step, warnings_in

import frazil

SCHEMA = """flight_id bigint not null, time_hour timestamp not null, carrier string, origin string, dest string, state string, delay double,
    seq int"""
FILES = 24


def changes_of(days: int) -> pa.Table:
    """Up to three changes of each flight of the first days of 2013, in the order in which they
    happened.
    """
    table = flights(None)
    table = table.filter(pc.and_(pc.equal(table["month"], 1), pc.less_equal(table["day"], days)))
    ids, zero = pa.array(range(len(table)), pa.int64()), pa.nulls(len(table), pa.float64())
    parts = []
    for seq, (state, delay, known) in enumerate(
        (
            ("scheduled", zero, None),
            ("departed", table["dep_delay"], "dep_time"),
            ("arrived", table["arr_delay"], "arr_time"),
        )
    ):
        columns = [
            ids,
            table["time_hour"],
            table["carrier"],
            table["origin"],
            table["dest"],
            pa.array([state] * len(table)),
            delay,
        ]
        names = ["flight_id", "time_hour", "carrier", "origin", "dest", "state", "delay", "seq"]
        part = pa.table(
            [*columns[:6], columns[6].cast(pa.float64()), pa.array([seq] * len(table), pa.int32())],
            names=names,
        )
        # three hours from one to the next
        at = pc.add(table["time_hour"], pa.scalar(seq * 3 * 3_600_000_000, pa.duration("us")))
        part = part.append_column("at", at)
        parts.append(part if known is None else part.filter(pc.is_valid(table[known])))
    return (
        pa.concat_tables(parts)
        .sort_by([("at", "ascending"), ("seq", "ascending")])
        .drop_columns(["at"])
    )


def put_files(changes: pa.Table, folder: Path) -> None:
    folder.mkdir()
    ends = [n * len(changes) // FILES for n in range(FILES + 1)]
    for n, (start, end) in enumerate(zip(ends, ends[1:], strict=False)):
        file = folder / f"{n:03d}.parquet"
        pq.write_table(changes.slice(start, end - start), file)
        os.utime(file, (1_700_000_000 + n,) * 2)  # Spark takes files in the order of their times


def session(folder: Path, jars: str = "") -> Any:
    settings = {
        "spark.driver.memory": "1g",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.catalog.demo.type": "sql",
        "spark.sql.catalog.demo.uri": f"sqlite:///{folder}/catalog.db",
        "spark.sql.catalog.demo.warehouse": str(folder / "warehouse"),
    }
    if jars:
        settings["spark.jars"] = jars
    spark = frazil.spark_session(app_name="streams", master="local[2]", config=settings)
    spark.sparkContext.setLogLevel("OFF")
    return spark


def tables(folder: Path) -> tuple[Any, Any]:
    """Make the two tables, or open them."""
    catalog = frazil.load_catalog(
        "demo",
        type="sql",
        uri=f"sqlite:///{folder}/catalog.db",
        warehouse=str(folder / "warehouse"),
    )
    catalog.create_namespace_if_not_exists("nyc")
    keyed = catalog.create_table_if_not_exists(
        "nyc.flights", SCHEMA, properties={"format-version": "3"}
    )
    hourly = catalog.create_table_if_not_exists(
        "nyc.by_hour", SCHEMA, partition_by=["hours(time_hour)"], properties={"format-version": "3"}
    )
    return keyed, hourly


def drive(folder: Path, address: str, jars: str) -> None:
    """Run both streams until everything is there. This process may be killed at any moment and
    started again.

    `address`, `jars`: of the Kafka broker that the changes come from, and of Spark's connector;
    empty where they come as files.
    """
    spark = session(folder, jars)
    keyed, hourly = tables(folder)
    written = spark.read.parquet(str(folder / "changes"))
    if address:
        arriving = broker.stream(spark, address, written.schema, -(-written.count() // FILES))
    else:
        arriving = (
            spark.readStream.schema(written.schema)
            .option("maxFilesPerTrigger", 1)
            .parquet(str(folder / "changes"))
        )

    def told(number: int, result: frazil.CommitResult) -> None:
        what = (
            "there already"
            if result.skipped
            else f"{result.rows_inserted} new, {result.rows_updated} changed"
        )
        say(f"   nyc.flights, batch {number:2d}: {what}")

    first = keyed.write_stream(
        arriving, mode="upsert", key_columns="flight_id", order_column="seq", on_commit=told
    )
    upsert = (
        first.option("checkpointLocation", str(folder / "checkpoint-1"))
        .queryName("flights")
        .start()
    )
    changed = keyed.read_stream(
        spark,
        starting_strategy="INCREMENTAL_FROM_EARLIEST_SNAPSHOT",
        on_non_append="changes",
        monitor_interval="0s",
        max_planning_snapshot_count=6,
    )
    options = {
        "sink.partition-commit.trigger": "partition-time",
        "sink.partition-commit.delay": "12 h",
        "watermark-column": "time_hour",
        "sink.partition-commit.policy.kind": "success-file",
    }
    second = hourly.write_stream(
        changed, mode="cdc", key_columns="flight_id", order_column="_change_ordinal", **options
    )
    by_hour = (
        second.option("checkpointLocation", str(folder / "checkpoint-2"))
        .queryName("by_hour")
        .start()
    )
    say("   both streams run")
    for query in (upsert, by_hour):
        query.processAllAvailable()
    for query in (by_hour, upsert):
        query.stop()


def run_and_kill(folder: Path, kills: int, address: str, jars: str) -> int:
    """Start the driver, kill it amid its work, start it again; let it end at last. Returns how
    often it was killed.
    """
    killed, log = 0, (folder / "driver.log").open("ab")
    while True:
        command = [
            sys.executable,
            __file__,
            "--driver",
            str(folder),
            "--broker",
            address,
            "--jars",
            jars,
        ]
        driver = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=log, text=True, start_new_session=True
        )
        assert driver.stdout is not None
        batches, wanted = (
            0,
            random.randint(1, max(1, FILES // (kills + 1))) if killed < kills else None,
        )
        for line in driver.stdout:
            say(line.rstrip())
            batches += " batch " in line
            if batches == wanted:
                time.sleep(1.5 * random.random())
                os.killpg(driver.pid, signal.SIGKILL)
                break
        if driver.wait() == -signal.SIGKILL and wanted is not None:
            killed += 1
            say(f"   the driver is killed ({killed} of {kills}) and started again")
        elif driver.returncode:
            raise SystemExit(f"The driver failed: see {folder}/driver.log")
        else:
            return killed


def check(folder: Path, changes: pa.Table, through_kafka: bool) -> bool:
    keyed, hourly = tables(folder)
    last = changes.group_by("flight_id").aggregate([("seq", "max")]).sort_by("flight_id")
    names = ["flight_id", "seq"]
    found = [
        t.scan(selected_fields=tuple(names)).to_arrow().select(names).sort_by("flight_id")
        for t in (keyed, hourly)
    ]
    wanted = pa.table(
        [last["flight_id"].cast(pa.int64()), last["seq_max"].cast(pa.int32())], names=names
    )
    same = [f.cast(wanted.schema).equals(wanted) for f in found]
    for name, table, ok in zip(("nyc.flights", "nyc.by_hour"), found, same, strict=True):
        say(
            f"   {name:12} {table.num_rows:,} flights, each in its last state: {'yes' if ok else 'NO'} ({wanted.num_rows:,} expected)"
        )
    done = [
        r for r in hourly.inspect.partition_commits().to_pylist() if r["committed_at"] is not None
    ]
    marks = len(list((folder / "warehouse").rglob("_SUCCESS")))
    say(
        f"   {len(done)} of {len(hourly.inspect.partitions())} hours are complete, {marks} files _SUCCESS; the others wait"
    )
    compactions = sum(s.operation == "replace" for s in keyed.snapshots())
    snapshots = len(keyed.snapshots()) - compactions
    per = "micro-batch" if through_kafka else f"file of changes ({FILES})"
    say(
        f"   nyc.flights has {snapshots} snapshots, one per {per}, and {compactions} in which the stream has merged its small files"
    )
    # Spark shares a limit among the topic's partitions
    as_many = FILES <= snapshots <= FILES + 2 if through_kafka else snapshots == FILES
    return all(same) and as_many and marks == len(done) > 0


def main() -> int:
    args = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    args.add_argument("--days", type=int, default=7, help="days of January 2013 (7)")
    args.add_argument("--kills", type=int, default=3, help="how often the driver is killed (3)")
    args.add_argument(
        "--keep", type=Path, help="folder for tables and checkpoints, kept afterwards"
    )
    args.add_argument(
        "--kafka",
        action="store_true",
        help="the changes come through a Kafka broker, started for the demo",
    )
    for name, kind in (("--driver", Path), ("--broker", str), ("--jars", str)):
        args.add_argument(name, type=kind, help=argparse.SUPPRESS)
    given = args.parse_args()
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    if given.driver:
        with warnings_in(given.driver / "spark.log"):
            drive(given.driver, given.broker, given.jars)
        return 0
    folder = (given.keep or Path(tempfile.mkdtemp(prefix="frazil-streams-"))).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    step(1, f"Changes arrive {'in a Kafka topic' if given.kafka else 'as files'}")
    changes = changes_of(given.days)
    put_files(changes, folder / "changes")
    told = f"   {len(changes):,} changes of {pc.count_distinct(changes['flight_id']).as_py():,} flights in "
    with contextlib.ExitStack() as running:
        address = jars = ""
        if given.kafka:
            jars, address = (
                broker.connector(folder),
                running.enter_context(broker.broker(folder / "kafka")),
            )
            with warnings_in(folder / "spark.log"):
                spark = session(folder, jars)
                broker.fill(spark, changes, address)
                spark.stop()
        say(told + (f"the topic {broker.TOPIC} of {address}" if given.kafka else f"{FILES} files"))
        source = "Kafka" if given.kafka else "files"
        step(
            2,
            f"Two streams: {source} -> nyc.flights (upsert) -> its changes -> nyc.by_hour; the driver is killed on the way",
        )
        start = time.perf_counter()
        killed = run_and_kill(folder, given.kills, address, jars)
    say(
        f"   all done after {time.perf_counter() - start:.0f} s; the driver was killed {killed} times"
    )
    step(3, "Every flight is there once, in its last state")
    ok = check(folder, changes, given.kafka)
    say(
        f"\n{'Done' if ok else 'SOMETHING IS WRONG'}. {folder}"
        if given.keep or not ok
        else "\nDone."
    )
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
