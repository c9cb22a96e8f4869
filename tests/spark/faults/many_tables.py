"""Run in a process of its own: a stream into many tables whose driver is killed. Arguments: folder,
source, when. Prints each batch's outcome.

`when`: "before 2 1" kills it before the second swap of batch 1, "after 2 1" right after it, "told
1" after batch 1 as a whole."""

import json
import os
import signal
import sys
from pathlib import Path

from pyspark.sql import SparkSession

import frazil
from frazil.catalog.path import PathCatalog

batch = -1


def die_at(kill):
    """Patch the catalog's swap, through which every commit of every table goes."""
    swap, turns = PathCatalog.swap, {}

    def counted(self, base, metadata, **named):
        number = next(
            int(v)
            for k, v in metadata.current_snapshot().summary.items()
            if k == "spark.sql.streaming.epochId"
        )
        turns[number] = turns.get(number, 0) + 1
        if kill == f"before {turns[number]} {number}":
            os.kill(os.getpid(), signal.SIGKILL)
        outcome = swap(self, base, metadata, **named)
        if kill == f"after {turns[number]} {number}":
            os.kill(os.getpid(), signal.SIGKILL)
        return outcome

    PathCatalog.swap = counted


def main(folder, source, kill):
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
    )
    spark = (
        spark.config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.memory", "1g")
        .getOrCreate()
    )
    catalog = frazil.load_catalog("c", type="path", warehouse=str(Path(folder) / "wh"))
    die_at(kill)

    def told(number, result):
        print(
            json.dumps([number, result.skipped, {n: r.skipped for n, r in result.tables.items()}]),
            flush=True,
        )
        if kill == f"told {number}":
            os.kill(os.getpid(), signal.SIGKILL)

    frame = (
        spark.readStream.schema("topic string, id bigint, v bigint")
        .option("maxFilesPerTrigger", 1)
        .parquet(source)
    )
    writer = catalog.write_stream(
        frame,
        "topic",
        "upsert",
        key_columns="id",
        on_bad_table="set-aside",
        set_aside_table="db.aside",
        on_commit=told,
    )
    writer.option("checkpointLocation", str(Path(folder) / "c")).trigger(
        availableNow=True
    ).start().awaitTermination()


main(*sys.argv[1:])
