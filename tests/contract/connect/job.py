"""What a Connect client does with Frazil, in a process of its own: a process has sessions of one
kind. Prints each step's rows.

job.py FOLDER
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import frazil
from frazil.errors import InvalidInput, Unsupported
from frazil.table.table import Table
from tests.spark.deleting import take_keys, take_positions

spark = frazil.install(
    SparkSession.builder.remote("local[2]")
    .config("spark.sql.shuffle.partitions", "2")
    .getOrCreate()
)
catalog = frazil.load_catalog("lake", type="path", warehouse=sys.argv[1])
catalog.create_namespace("db")
steps: dict[str, Any] = {}


def seen(name: str, t: Table, *fields: str) -> None:
    """The rows by Spark's scan and by Arrow."""
    fields = fields or ("*",)
    by_spark = [
        list(r.asDict(recursive=True).values())
        for r in t.scan(selected_fields=fields).to_spark(spark).collect()
    ]
    by_arrow = [list(r.values()) for r in t.scan(selected_fields=fields).to_arrow().to_pylist()]
    steps[name] = [sorted(by_spark, key=repr), sorted(by_arrow, key=repr)]


def shape(name: str, version: int) -> Table:
    return catalog.create_table(
        name, "id bigint, x double, s string, p string", format_version=version, partition_by=["p"]
    )


for version in (2, 3):
    t = shape(f"db.v{version}", version)
    for n in range(3):
        ids = pa.array(range(n * 10, n * 10 + 10), pa.int64())
        t.append(
            pa.table(
                {
                    "id": ids,
                    "x": [float(i) for i in range(10)],
                    "s": [f"s{i}" for i in range(10)],
                    "p": [f"p{i % 2}" for i in range(10)],
                }
            )
        )
    t.append(
        spark.range(30, 34).select(
            "id", F.lit(-0.0).alias("x"), F.lit("new").alias("s"), F.lit("p0").alias("p")
        )
    )
    seen(f"{version} appended", t)
    take_positions(t, lambda r: r["id"] % 7 == 3)
    seen(f"{version} positions", t)
    if version == 2:
        take_keys(t, ["s"], [{"s": "s5"}], partition=("p1",))
        seen("2 keys", t)
    with t.update_schema() as u:
        u.rename_column("x", "was")
    with t.update_schema() as u:
        u.rename_column("s", "x")
    seen(f"{version} renamed", t)
    seen(f"{version} where", t, "id", "_file", "_pos", "_partition")
    steps[f"{version} filters"] = [
        t.to_spark(spark).where(c).count()
        for c in ("was = 0.0", "x = 's1'", "id > 12 and id < 15", "p = 'p1'")
    ]
    for mode in ("merge-on-read", "copy-on-write"):
        t.update({"was": "was + 100"}, where="id < 5", spark=spark, mode=mode)
        t.delete(F.col("id") == (8 if mode == "merge-on-read" else 9), spark=spark, mode=mode)
        seen(f"{version} {mode}", t)
    source = spark.createDataFrame([(0, "zero"), (100, "hundred")], "id bigint, x string")
    merge = t.merge(source, on="target.id = source.id").when_matched_update(set={"x": "source.x"})
    merge.when_not_matched_insert({"id": "source.id", "x": "source.x", "p": "'p0'"}).execute()
    seen(f"{version} merged", t)
    steps[f"{version} changes"] = sorted(
        [
            list(r)
            for r in t.changes(start_snapshot_id=t.history()[-2].snapshot_id)
            .to_spark(spark)
            .select("_change_type", "id", "x")
            .collect()
        ],
        key=repr,
    )

t = catalog.load_table("db.v3")
both = t.merge(
    spark.createDataFrame([(0, "zero")], "id bigint, x string"), on="target.id = source.id"
)
steps["refused"] = {}
for name, change in {
    "alias": lambda: t.update({"x": "x oops"}, spark=spark),
    "aggregate": lambda: t.update({"x": "max(x)"}, spark=spark),
    "random": both.when_matched_delete("rand() < 2").execute,
    "random on": t.merge(spark.range(1), on="target.id = source.id and rand() < 2")
    .when_matched_delete()
    .execute,
    "unknown": lambda: t.update({"x": "x rlike hello"}, spark=spark),
}.items():
    try:
        change()
    except InvalidInput as e:
        steps["refused"][name] = f"{type(e).__name__}: {e}"

steps["load"] = spark.read.format("iceberg").load(t.location()).where("id >= 100").count()
spark.range(3).withColumn("b", F.lit("b")).writeTo("lake.db.made").using("iceberg").create()
spark.range(3, 5).withColumn("b", F.lit("c")).write.format("iceberg").mode("append").saveAsTable(
    "lake.db.made"
)
steps["table"] = sorted(list(r) for r in spark.table("lake.db.made").collect())


def streamed(name: str, frames: Callable[[], Any]) -> None:
    """The ids that a stream brings, and those that it brings from the same checkpoint after another
    append.
    """
    place, t = sys.argv[1] + f"-{name}", catalog.load_table("db.streamed")
    steps[f"stream {name}"] = []
    for _ in range(2):
        writer = (
            frames()
            .writeStream.format("parquet")
            .option("checkpointLocation", f"{place}/c")
            .trigger(availableNow=True)
        )
        writer.start(f"{place}/out").awaitTermination(120)
        steps[f"stream {name}"].append(
            sorted(r.id for r in spark.read.parquet(f"{place}/out").select("id").collect())
        )
        t.refresh().append(pa.table({"id": [t.scan().count()]}))


streamed_table = catalog.create_table("db.streamed", "id bigint")
for n in range(3):
    streamed_table.append(pa.table({"id": [n]}))
earliest = {"starting-strategy": "INCREMENTAL_FROM_EARLIEST_SNAPSHOT"}
streamed(
    "format",
    lambda: spark.readStream.format("iceberg").options(**earliest).load(streamed_table.location()),
)
streamed(
    "method",
    lambda: streamed_table.read_stream(
        spark, starting_strategy="TABLE_SCAN_THEN_INCREMENTAL", row_filter="id > 0"
    ),
)
streamed_table.refresh().delete("id = 1")
streamed(
    "changes",
    lambda: (
        spark.readStream.format("iceberg")
        .options(**earliest)
        .load(f"{streamed_table.location()}#changes")
    ),
)
rows = spark.readStream.format("rate").load().selectExpr("value as id")
try:
    streamed_table.write_stream(rows).option("checkpointLocation", f"{sys.argv[1]}-sink").start()
except Unsupported as e:
    steps["refused"]["sink"] = f"{type(e).__name__}: {e}"
print("STEPS", json.dumps(steps))
spark.stop()
