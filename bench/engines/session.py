"""The Spark session of every engine that runs on Spark: the same settings for all."""

import os
import sys
from pathlib import Path

os.environ["PYSPARK_PYTHON"] = sys.executable

from pyspark.sql import SparkSession


def session(**conf):
    builder = SparkSession.builder.master(os.environ.get("BENCH_MASTER", "local[2]"))
    settings = {
        "spark.driver.memory": os.environ.get("BENCH_MEMORY", "4g"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.parquet.compression.codec": "zstd",
        "spark.sql.sources.parallelPartitionDiscovery.threshold": "1000000",
        **conf,
    }
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def settle(spark):
    """Before each workload: nothing left running, no heap left over."""
    spark.sparkContext.cancelAllJobs()
    spark.catalog.clearCache()
    spark._jvm.System.gc()


def run_stream(b, name, frame, sink):
    """Drains an availableNow stream; returns its batches. `sink(writer)` starts the query."""
    writer = frame.writeStream.trigger(availableNow=True).option(
        "checkpointLocation", str(b.fresh(name + "_checkpoint"))
    )
    query = sink(writer)
    query.awaitTermination()
    return [p for p in query.recentProgress if p["numInputRows"]]


def batch_facts(batches):
    seconds = sorted(p["durationMs"]["triggerExecution"] / 1000 for p in batches)
    return {
        "check": [str(sum(p["numInputRows"] for p in batches))],
        "batches": len(batches),
        "rows": sum(p["numInputRows"] for p in batches),
        "batch_p50_s": seconds[len(seconds) // 2],
        "batch_max_s": seconds[-1],
    }


def java_jar():
    return str(Path(os.environ["BENCH_JAR"]).resolve())
