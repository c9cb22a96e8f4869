"""Run in a process of its own: streams whose driver is killed. Arguments: folder, source, when, names of streams. Prints each batch's outcome.

`when`: "cdc before 1" kills it before the commit of batch 1 of that stream, "cdc after 1" after it and before Spark's own; "each between 1"
between the commits of two tables by one foreachBatch."""

import json
import os
import signal
import sys
from pathlib import Path

from pyspark.sql import SparkSession

import frazil

WRITES = {
    "append": {},
    "lookup": {"mode": "upsert", "key_columns": "id"},
    "equality-deletes": {"mode": "upsert", "key_columns": "id", "upsert_strategy": "equality-deletes"},
    "cdc": {"mode": "cdc", "key_columns": "id"},
}
SCHEMA = "id bigint, p string, v bigint"
# Each row arrives as a new one, and takes that of the batch before away.
CHANGES = "inline(array(struct(id, p, v, 'c' as op), struct(id - 1 as id, p, v, 'd' as op)))"


def die_at(kill, stream, at, batch):
    if f"{stream} {at} {batch}" == kill:
        os.kill(os.getpid(), signal.SIGKILL)


def tell(*line):
    print(json.dumps(line), flush=True)


def writer_of(catalog, frame, name, kill):
    table = catalog.create_table_if_not_exists(("db", name), SCHEMA)

    class Hook:
        def actions(self, batch, at):  # the files are written, nothing is committed
            die_at(kill, name, "before", batch.batch_id)
            return ()

        def committed(self, batch, at):
            pass

    def told(batch, result):  # the table has the batch, Spark does not know yet
        die_at(kill, name, "after", batch)
        tell(name, batch, result.skipped)

    frame = frame.selectExpr(CHANGES) if name == "cdc" else frame
    return table.write_stream(frame, hooks=[Hook()], on_commit=told, **WRITES[name])


def each_batch_of(catalog, frame, kill):
    """Write two tables by foreachBatch, as users do who have more to say about a batch than a sink takes."""
    tables = {name: catalog.create_table_if_not_exists(("db", name), SCHEMA) for name in ("each", "each-too")}

    def write(rows, batch):
        die_at(kill, "each", "before", batch)
        rows.persist()
        found = {}
        for name, table in tables.items():
            found[name] = table.append(rows, txn=("pipeline", batch)).skipped
            die_at(kill, "each", "between" if len(found) < len(tables) else "after", batch)
        rows.unpersist()
        for name, skipped in found.items():
            tell(name, batch, skipped)

    return frame.writeStream.foreachBatch(write)


def run(spark, catalog, folder, source, name, kill):
    frame = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(source)
    writer = each_batch_of(catalog, frame, kill) if name == "each" else writer_of(catalog, frame, name, kill)
    writer.option("checkpointLocation", str(Path(folder) / "checkpoints" / name)).trigger(availableNow=True).start().awaitTermination()


def main(folder, source, kill, *names):
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").config("spark.sql.shuffle.partitions", "2")
    spark = spark.config("spark.driver.bindAddress", "127.0.0.1").config("spark.driver.memory", "1g").getOrCreate()
    catalog = frazil.load_catalog("c", type="path", warehouse=str(Path(folder) / "wh"))
    catalog.create_namespace_if_not_exists("db")
    for name in names:
        run(spark, catalog, folder, source, name, kill)


main(*sys.argv[1:])
