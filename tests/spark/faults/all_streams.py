"""Run in a process of its own: many streams side by side, each of which may wait at a named point
for the death of the run (points/sitecustomize.py). Arguments: folder, names of streams."""

import os
import sys
import time
from pathlib import Path

from pyspark.sql import SparkSession
from sitecustomize import reach

import frazil
from tests.stream.sink.test_many_tables import catalog_at
from tests.stream.sink.test_soak import KINDS

SCHEMA = "id bigint, p string, v bigint"
COLUMNS = {
    "cdc": ("if(p = '-', 'd', 'u') as op", "id", "v"),
    "many": ("concat('db.', p) as topic", "id", "v"),
}
UPSERT = {"mode": "upsert", "key_columns": "id"}
PARTITIONS = {"sink_partition_commit_policy_kind": "success-file,custom,tag"}
UPKEEP = {
    "maintenance.rewrite.every-commits": 2, "maintenance.rewrite.min-input-files": 2, "maintenance.rewrite.delete-file-threshold": 1,
}  # fmt: skip
FROM_START = {"starting_strategy": "INCREMENTAL_FROM_EARLIEST_SNAPSHOT"}
FROM_SCAN = {"starting_strategy": "TABLE_SCAN_THEN_INCREMENTAL"}
FROM_LATEST = {"starting_strategy": "INCREMENTAL_FROM_LATEST_SNAPSHOT"}
SOURCES = {
    "scan": {**FROM_SCAN, "streaming_max_files_per_micro_batch": 2},
    "changes": {**FROM_START, "on_non_append": "changes", "max_planning_snapshot_count": 1},
    "first_told": FROM_SCAN,
    "first_planned": FROM_LATEST,
    "first_before": FROM_LATEST,
    "first_after": FROM_LATEST,
}


class Points:
    """The points of a batch in the driver: before its commit, after it and before all that follows,
    and after that.
    """

    def __init__(self, stream):
        self.stream = stream

    def actions(self, batch, at):
        reach(self.stream, f"before {batch.batch_id}")
        return ()

    def committed(self, batch, at):
        reach(self.stream, f"committed {batch.batch_id}")

    def told(self, number, result):
        reach(self.stream, f"after {number}")


def announced(context):
    reach("partitions", f"policy {context.partition_values[0]}")


def each_batch(catalog):
    """Return a function for foreachBatch that writes two tables, as users have it who do more with
    a batch than a sink does.
    """
    tables = [catalog.load_table("db.each"), catalog.load_table("db.each_too")]

    def write(rows, batch):
        reach("each", f"before {batch}")
        rows.persist()
        tables[0].append(rows, txn=("pipeline", batch))
        reach("each", f"between {batch}")
        tables[1].append(rows, txn=("pipeline", batch))
        rows.unpersist()
        reach("each", f"after {batch}")

    return write


def files_of(spark, folder):
    return spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(folder))


def writer_of(name, spark, bare, catalog, place):
    """Return the writer of a stream: rows come from Parquet files, or from a table by Frazil's own
    source.
    """
    points = Points(name)
    if name in KINDS:
        rows = files_of(spark, place / f"in-{name}").selectExpr(*COLUMNS.get(name, ("id", "v")))
        if name == "many":
            return catalog.write_stream(rows, "topic", on_commit=points.told)
        # Where Spark died between its record of the next file and that of the batch, two files come
        # in one batch, in no order of theirs.
        order = {"order_column": "v"} if "mode" in KINDS[name] else {}
        return catalog.load_table(f"db.{name}").write_stream(
            rows, hooks=[points], on_commit=points.told, **KINDS[name], **order
        )
    files = files_of(bare if name.startswith("bare") else spark, place / "in")
    if name == "each":
        return files.writeStream.foreachBatch(each_batch(catalog))
    if name == "files":
        return frazil.write_stream_files(
            files,
            str(place / "files"),
            partition_by=["p"],
            sink_partition_commit_policy_kind="success-file",
        )
    table = catalog.load_table(f"db.{name}")
    if name.startswith("bare"):
        options = {"write-mode": "upsert", "key-columns": "id"} if name == "bare_upsert" else {}
        return (
            files.writeStream.format("iceberg").options(**options).option("path", table.location())
        )
    if name in SOURCES:
        source = catalog.load_table(f"source.{name}").read_stream(spark, **SOURCES[name])
        mode = {"mode": "cdc", "key_columns": "id"} if name == "changes" else {}
        return table.write_stream(source, hooks=[points], on_commit=points.told, **mode)
    more = {**UPSERT, **UPKEEP} if name == "upkeep" else {"policies": [announced], **PARTITIONS}
    return table.write_stream(files, hooks=[points], on_commit=points.told, **more)


def main(folder, *names):
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
    )
    spark = spark.config("spark.driver.bindAddress", "127.0.0.1").config(
        "spark.driver.memory", "1g"
    )
    # a run is over before more would pay
    spark = spark.config(
        "spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    )
    spark = spark.config("spark.ui.showConsoleProgress", "false").getOrCreate()
    place, bare = Path(folder), spark.newSession()
    catalog, queries = catalog_at(place), {}
    for name in sorted(names, key=lambda name: name not in SOURCES):
        writer = writer_of(name, spark, bare, catalog, place).option(
            "checkpointLocation", str(place / "checkpoints" / name)
        )
        queries[name] = query = writer.trigger(availableNow=True).start()
        if name in SOURCES:
            # Spark gives the process that plans a source ten seconds to begin, in which it is best
            # alone
            while (
                query.isActive
                and query.lastProgress is None
                and not (place / "reached" / name).exists()
            ):
                time.sleep(0.05)
    while queries:
        for name, query in list(queries.items()):
            if query.awaitTermination(0.1):  # raises the error of a query that has failed
                del queries[name]
                (place / "ended" / name).touch()


main(*sys.argv[1:])
