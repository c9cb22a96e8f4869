"""Run in a process of its own: a stream from one table into another on a cluster, until nothing is
left. Arguments: master, folder.

Prints each batch's number, and whether it was there already."""

import json
import sys
from pathlib import Path

from pyspark.sql import SparkSession

import frazil


def main(master, folder):
    builder = (
        SparkSession.builder.master(master)
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
    )
    plain = {
        "spark.executor.memory": "512m",
        "spark.driver.memory": "512m",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "2",
    }
    for key, value in plain.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    catalog = frazil.load_catalog("lake", type="path", warehouse=f"{folder}/wh")
    source, target = catalog.load_table("db.source"), catalog.load_table("db.target")

    def told(number, result):
        print(json.dumps([number, result.skipped]), flush=True)

    frame = source.read_stream(
        spark,
        starting_strategy="INCREMENTAL_FROM_EARLIEST_SNAPSHOT",
        streaming_max_files_per_micro_batch=1,
        max_planning_snapshot_count=1,
    )
    writer = target.write_stream(frame, mode="upsert", key_columns="id", on_commit=told)
    writer.option("checkpointLocation", str(Path(folder) / "checkpoint")).trigger(
        availableNow=True
    ).start().awaitTermination()


main(*sys.argv[1:])
