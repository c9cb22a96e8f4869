"""Run in a process of its own: a stream that may be killed at any moment. Arguments: folder, kind (of tests/stream/sink/test_soak.py).

Writes the number of each batch that the tables have into the file `done`."""

import os
import sys
from pathlib import Path

from pyspark.sql import SparkSession

from tests.stream.sink.test_many_tables import catalog_at
from tests.stream.sink.test_soak import KINDS

MORE = {
    "cdc": ("if(p = '-', 'd', 'u') as op",),
    "many": ("concat('db.', p) as topic",),
}


def main(folder, kind):
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").config("spark.sql.shuffle.partitions", "2")
    spark = spark.config("spark.driver.bindAddress", "127.0.0.1").config("spark.driver.memory", "1g").getOrCreate()
    catalog, place = catalog_at(Path(folder)), Path(folder)

    def told(number, result):
        (place / "done.new").write_text(str(number))
        (place / "done.new").rename(place / "done")

    frame = spark.readStream.schema("id bigint, p string, v bigint").option("maxFilesPerTrigger", 1).parquet(str(place / "in"))
    frame = frame.selectExpr(*MORE.get(kind, ()), "id", "v")
    if kind == "many":
        writer = catalog.write_stream(frame, "topic", on_commit=told)
    else:
        writer = catalog.load_table("db.t").write_stream(frame, on_commit=told, **KINDS[kind])
    writer.option("checkpointLocation", str(place / "checkpoint")).trigger(availableNow=True).start().awaitTermination()


main(*sys.argv[1:])
