"""What a Connect client does with Frazil, in a process of its own: a process has sessions of one kind. Prints each step's rows.

job.py FOLDER
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import frazil
from frazil.errors import InvalidInput
from frazil.table.table import Table
from tests.spark.deleting import take_keys, take_positions

spark = frazil.install(SparkSession.builder.remote("local[2]").config("spark.sql.shuffle.partitions", "2").getOrCreate())
catalog = frazil.load_catalog("lake", type="path", warehouse=sys.argv[1])
catalog.create_namespace("db")
steps: dict[str, Any] = {}


def seen(name: str, t: Table, *fields: str) -> None:
    """The rows by Spark's scan and by Arrow."""
    fields = fields or ("*",)
    by_spark = [list(r.asDict(recursive=True).values()) for r in t.scan(selected_fields=fields).to_spark(spark).collect()]
    by_arrow = [list(r.values()) for r in t.scan(selected_fields=fields).to_arrow().to_pylist()]
    steps[name] = [sorted(by_spark, key=repr), sorted(by_arrow, key=repr)]


def shape(name: str, version: int) -> Table:
    return catalog.create_table(name, "id bigint, x double, s string, p string", format_version=version, partition_by=["p"])


for version in (2, 3):
    t = shape(f"db.v{version}", version)
    for n in range(3):
        ids = pa.array(range(n * 10, n * 10 + 10), pa.int64())
        t.append(
            pa.table(
                {"id": ids, "x": [float(i) for i in range(10)], "s": [f"s{i}" for i in range(10)], "p": [f"p{i % 2}" for i in range(10)]}
            )
        )
    t.append(spark.range(30, 34).select("id", F.lit(-0.0).alias("x"), F.lit("new").alias("s"), F.lit("p0").alias("p")))
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
    steps[f"{version} filters"] = [t.to_spark(spark).where(c).count() for c in ("was = 0.0", "x = 's1'", "id > 12 and id < 15", "p = 'p1'")]
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
            for r in t.changes(start_snapshot_id=t.history()[-2].snapshot_id).to_spark(spark).select("_change_type", "id", "x").collect()
        ],
        key=repr,
    )

t = catalog.load_table("db.v3")
both = t.merge(spark.createDataFrame([(0, "zero")], "id bigint, x string"), on="target.id = source.id")
steps["refused"] = {}
for name, change in {
    "alias": lambda: t.update({"x": "x oops"}, spark=spark),
    "aggregate": lambda: t.update({"x": "max(x)"}, spark=spark),
    "random": both.when_matched_delete("rand() < 2").execute,
    "random on": t.merge(spark.range(1), on="target.id = source.id and rand() < 2").when_matched_delete().execute,
    "unknown": lambda: t.update({"x": "x rlike hello"}, spark=spark),
}.items():
    try:
        change()
    except InvalidInput as e:
        steps["refused"][name] = f"{type(e).__name__}: {e}"

steps["load"] = spark.read.format("iceberg").load(t.location()).where("id >= 100").count()
spark.range(3).withColumn("b", F.lit("b")).writeTo("lake.db.made").using("iceberg").create()
spark.range(3, 5).withColumn("b", F.lit("c")).write.format("iceberg").mode("append").saveAsTable("lake.db.made")
steps["table"] = sorted(list(r) for r in spark.table("lake.db.made").collect())


def streamed(name: str, frame: Any) -> None:
    """The rows that a streaming read writes, over two runs of one query between which rows are appended."""
    folder = Path(sys.argv[1]) / name
    for _ in range(2):
        query = frame.writeStream.format("parquet").option("path", str(folder / "out")).option("checkpointLocation", str(folder / "c"))
        query.trigger(availableNow=True).start().awaitTermination()
        steps.setdefault(name, []).append(sorted(list(r) for r in spark.read.parquet(str(folder / "out")).collect()))
        frazil.load_table("lake.db.made").append(pa.table({"id": [9], "b": ["d"]}))


made = frazil.load_table("lake.db.made")
streamed("t.read_stream", made.read_stream(spark, starting_strategy="TABLE_SCAN_THEN_INCREMENTAL", row_filter="b <> 'b'"))
by_option = spark.readStream.format("iceberg").option("starting-strategy", "TABLE_SCAN_THEN_INCREMENTAL")
streamed("readStream.load", by_option.load("lake.db.made"))
streamed("readStream.table", spark.readStream.option("starting-strategy", "INCREMENTAL_FROM_LATEST_SNAPSHOT").table("lake.db.made"))
print("STEPS", json.dumps(steps))
spark.stop()
