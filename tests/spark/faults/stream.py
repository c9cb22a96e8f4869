"""Run in a process of its own: streams whose driver is killed. Arguments: folder, source, when. Prints each batch's outcome.

FRAZIL_TEST_MASTER names a cluster to run on; its workers have this Python.
"""

import json
import os
import signal
import sys
from pathlib import Path

from pyspark.sql import SparkSession

import frazil

STRATEGIES = ("append", "lookup", "equality-deletes", "cdc", "foreach")
OPTIONS = {
    "append": {}, "cdc": {"mode": "cdc", "key_columns": "id"},
    **{name: {"mode": "upsert", "key_columns": "id", "upsert_strategy": name} for name in ("lookup", "equality-deletes")},
}  # fmt: skip


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

    def append(batch, number):  # foreachBatch of a user
        die("before", number)
        told(number, table.refresh().append(batch, txn=("job", number)))

    frame = spark.readStream.schema("id bigint, p string, v bigint").option("maxFilesPerTrigger", 1).parquet(source)
    if strategy == "foreach":
        writer = frame.writeStream.foreachBatch(append)
    else:
        rows = frame.selectExpr("*", "'+U' op") if strategy == "cdc" else frame
        writer = table.write_stream(rows, hooks=[Hook()], on_commit=told, **OPTIONS[strategy])
    writer.option("checkpointLocation", str(Path(folder) / "checkpoints" / strategy)).trigger(availableNow=True).start().awaitTermination()


def main(folder, source, kill):
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    spark = SparkSession.builder.master(os.environ.get("FRAZIL_TEST_MASTER", "local[2]")).config("spark.ui.enabled", "false").config("spark.sql.shuffle.partitions", "2")
    spark = spark.config("spark.executorEnv.PYTHONPATH", os.environ.get("PYTHONPATH", "")).config("spark.executor.memory", "512m")
    spark = spark.config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1").config("spark.driver.memory", "1g").getOrCreate()
    catalog = frazil.load_catalog("c", type="path", warehouse=str(Path(folder) / "wh"))
    catalog.create_namespace_if_not_exists("db")
    for strategy in STRATEGIES:
        run(spark, catalog, folder, source, strategy, kill)


main(*sys.argv[1:])
