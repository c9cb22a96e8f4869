"""Run in a process of its own: streams whose driver is killed. Arguments: folder, source, when. Prints each batch's outcome."""

import json
import os
import signal
import sys
from pathlib import Path

from pyspark.sql import SparkSession

import frazil

STRATEGIES = ("append", "lookup", "equality-deletes")


def run(spark, catalog, folder, source, strategy, kill):
    table = catalog.create_table_if_not_exists(("db", strategy), "id bigint, p string, v bigint")

    def die(at, batch):
        if f"{strategy} {at} {batch}" == kill:
            os.kill(os.getpid(), signal.SIGKILL)

    class Hook:
        def actions(self, batch, at):  # the files are written, nothing is committed
            die("before", batch.batch_id)
            return ()

        def committed(self, batch, at):
            pass

    def told(batch, result):  # the table has the batch, Spark does not know yet
        die("after", batch)
        print(json.dumps([strategy, batch, result.skipped]), flush=True)

    options = {} if strategy == "append" else {"mode": "upsert", "key_columns": "id", "upsert_strategy": strategy}
    frame = spark.readStream.schema("id bigint, p string, v bigint").option("maxFilesPerTrigger", 1).parquet(source)
    writer = table.write_stream(frame, hooks=[Hook()], on_commit=told, **options)
    writer.option("checkpointLocation", str(Path(folder) / "checkpoints" / strategy)).trigger(availableNow=True).start().awaitTermination()


def main(folder, source, kill):
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").config("spark.sql.shuffle.partitions", "2")
    spark = spark.config("spark.driver.bindAddress", "127.0.0.1").config("spark.driver.memory", "1g").getOrCreate()
    catalog = frazil.load_catalog("c", type="path", warehouse=str(Path(folder) / "wh"))
    catalog.create_namespace_if_not_exists("db")
    for strategy in STRATEGIES:
        run(spark, catalog, folder, source, strategy, kill)


main(*sys.argv[1:])
