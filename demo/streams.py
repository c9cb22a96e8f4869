"""Changes of real flights stream through Spark into Iceberg tables while the driver is killed again and again: every row is there once.

    make demo-stream               (or: python demo/streams.py --days 3 --kills 2 --keep ./my-demo)

Files of changes (scheduled, departed, arrived) -> upsert into nyc.flights, by flight_id -> its changes -> nyc.by_hour, partitioned by hour,
whose partitions are announced by a file _SUCCESS when they are complete.
"""

from __future__ import annotations

import argparse
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

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from flights import flights, say, step, warnings_in

import frazil

SCHEMA = """flight_id bigint not null, time_hour timestamp not null, carrier string, origin string, dest string, state string, delay double,
    seq int"""
FILES = 24


def changes_of(days: int) -> pa.Table:
    """Up to three changes of each flight of the first days of 2013, in the order in which they happened."""
    table = flights(None)
    table = table.filter(pc.and_(pc.equal(table["month"], 1), pc.less_equal(table["day"], days)))
    ids, zero = pa.array(range(len(table)), pa.int64()), pa.nulls(len(table), pa.float64())
    parts = []
    for seq, (state, delay, known) in enumerate(
        (("scheduled", zero, None), ("departed", table["dep_delay"], "dep_time"), ("arrived", table["arr_delay"], "arr_time"))
    ):
        columns = [ids, table["time_hour"], table["carrier"], table["origin"], table["dest"], pa.array([state] * len(table)), delay]
        names = ["flight_id", "time_hour", "carrier", "origin", "dest", "state", "delay", "seq"]
        part = pa.table([*columns[:6], columns[6].cast(pa.float64()), pa.array([seq] * len(table), pa.int32())], names=names)
        at = pc.add(table["time_hour"], pa.scalar(seq * 3 * 3_600_000_000, pa.duration("us")))  # three hours from one to the next
        part = part.append_column("at", at)
        parts.append(part if known is None else part.filter(pc.is_valid(table[known])))
    return pa.concat_tables(parts).sort_by([("at", "ascending"), ("seq", "ascending")]).drop_columns(["at"])


def put_files(changes: pa.Table, folder: Path) -> None:
    folder.mkdir()
    size = -(-len(changes) // FILES)
    for n in range(FILES):
        file = folder / f"{n:03d}.parquet"
        pq.write_table(changes.slice(n * size, size), file)
        os.utime(file, (1_700_000_000 + n,) * 2)  # Spark takes files in the order of their times


def session(folder: Path) -> Any:
    settings = {
        "spark.driver.memory": "1g", "spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC", "spark.sql.shuffle.partitions": "2",
        "spark.sql.catalog.demo.type": "sql", "spark.sql.catalog.demo.uri": f"sqlite:///{folder}/catalog.db",
        "spark.sql.catalog.demo.warehouse": str(folder / "warehouse"),
    }  # fmt: skip
    spark = frazil.spark_session(app_name="streams", master="local[2]", config=settings)
    spark.sparkContext.setLogLevel("OFF")
    return spark


def tables(folder: Path) -> tuple[Any, Any]:
    """Make the two tables, or open them."""
    catalog = frazil.load_catalog("demo", type="sql", uri=f"sqlite:///{folder}/catalog.db", warehouse=str(folder / "warehouse"))
    catalog.create_namespace_if_not_exists("nyc")
    keyed = catalog.create_table_if_not_exists("nyc.flights", SCHEMA, properties={"format-version": "3"})
    hourly = catalog.create_table_if_not_exists(
        "nyc.by_hour", SCHEMA, partition_by=["hours(time_hour)"], properties={"format-version": "3"}
    )
    return keyed, hourly


def drive(folder: Path) -> None:
    """Run both streams until everything is there. This process may be killed at any moment and started again."""
    spark = session(folder)
    keyed, hourly = tables(folder)
    arriving = spark.readStream.schema(spark.read.parquet(str(folder / "changes")).schema).option("maxFilesPerTrigger", 1)

    def told(number: int, result: frazil.CommitResult) -> None:
        what = "there already" if result.skipped else f"{result.rows_inserted} new, {result.rows_updated} changed"
        say(f"   nyc.flights, batch {number:2d}: {what}")

    files = arriving.parquet(str(folder / "changes"))
    first = keyed.write_stream(files, mode="upsert", key_columns="flight_id", order_column="seq", on_commit=told)
    upsert = first.option("checkpointLocation", str(folder / "checkpoint-1")).queryName("flights").start()
    changed = keyed.read_stream(
        spark, starting_strategy="INCREMENTAL_FROM_EARLIEST_SNAPSHOT", on_non_append="changes", monitor_interval="0s",
        max_planning_snapshot_count=6,
    )  # fmt: skip
    options = {
        "sink.partition-commit.trigger": "partition-time", "sink.partition-commit.delay": "12 h", "watermark-column": "time_hour",
        "sink.partition-commit.policy.kind": "success-file",
    }  # fmt: skip
    second = hourly.write_stream(changed, mode="cdc", key_columns="flight_id", order_column="_change_ordinal", **options)
    by_hour = second.option("checkpointLocation", str(folder / "checkpoint-2")).queryName("by_hour").start()
    say("   both streams run")
    for query in (upsert, by_hour):
        query.processAllAvailable()
    for query in (by_hour, upsert):
        query.stop()


def run_and_kill(folder: Path, kills: int) -> int:
    """Start the driver, kill it amid its work, start it again; let it end at last. Returns how often it was killed."""
    killed, log = 0, (folder / "driver.log").open("ab")
    while True:
        command = [sys.executable, __file__, "--driver", str(folder)]
        driver = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, start_new_session=True)
        assert driver.stdout is not None
        batches, wanted = 0, random.randint(1, max(1, FILES // (kills + 1))) if killed < kills else None
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


def check(folder: Path, changes: pa.Table) -> bool:
    keyed, hourly = tables(folder)
    last = changes.group_by("flight_id").aggregate([("seq", "max")]).sort_by("flight_id")
    names = ["flight_id", "seq"]
    found = [t.scan(selected_fields=tuple(names)).to_arrow().select(names).sort_by("flight_id") for t in (keyed, hourly)]
    wanted = pa.table([last["flight_id"].cast(pa.int64()), last["seq_max"].cast(pa.int32())], names=names)
    same = [f.cast(wanted.schema).equals(wanted) for f in found]
    for name, table, ok in zip(("nyc.flights", "nyc.by_hour"), found, same, strict=True):
        say(f"   {name:12} {table.num_rows:,} flights, each in its last state: {'yes' if ok else 'NO'} ({wanted.num_rows:,} expected)")
    done = [r for r in hourly.inspect.partition_commits().to_pylist() if r["committed_at"] is not None]
    marks = len(list((folder / "warehouse").rglob("_SUCCESS")))
    say(
        f"   {len(done)} of {len(hourly.inspect.partitions())} hours are complete, {marks} files _SUCCESS; the others wait"
    )
    say(f"   nyc.flights has {len(keyed.snapshots())} snapshots, one per file of changes ({FILES})")
    return all(same) and len(keyed.snapshots()) == FILES and marks == len(done) > 0


def main() -> int:
    args = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    args.add_argument("--days", type=int, default=7, help="days of January 2013 (7)")
    args.add_argument("--kills", type=int, default=3, help="how often the driver is killed (3)")
    args.add_argument("--keep", type=Path, help="folder for tables and checkpoints, kept afterwards")
    args.add_argument("--driver", type=Path, help=argparse.SUPPRESS)
    given = args.parse_args()
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    if given.driver:
        with warnings_in(given.driver / "spark.log"):
            drive(given.driver)
        return 0
    folder = (given.keep or Path(tempfile.mkdtemp(prefix="frazil-streams-"))).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    step(1, "Changes arrive as files")
    changes = changes_of(given.days)
    put_files(changes, folder / "changes")
    say(f"   {len(changes):,} changes of {pc.count_distinct(changes['flight_id']).as_py():,} flights in {FILES} files")
    step(2, "Two streams: files -> nyc.flights (upsert) -> its changes -> nyc.by_hour; the driver is killed on the way")
    start = time.perf_counter()
    killed = run_and_kill(folder, given.kills)
    say(f"   all done after {time.perf_counter() - start:.0f} s; the driver was killed {killed} times")
    step(3, "Every flight is there once, in its last state")
    ok = check(folder, changes)
    say(f"\n{'Done' if ok else 'SOMETHING IS WRONG'}. {folder}" if given.keep or not ok else "\nDone.")
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
