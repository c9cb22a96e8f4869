"""Run in a process of its own: writes and row changes while Spark's speculation starts tasks again
on the other worker. Arguments: master, folder for the tables, settings. Prints what is there after
each step."""

import json
import os
import sys
import time

import pyarrow as pa
from pyspark.sql import SparkSession
from sitecustomize import FOLDER, late

import frazil

SPECULATION = {
    "spark.speculation": "true", "spark.speculation.interval": "50ms", "spark.speculation.multiplier": "1.1",
    "spark.speculation.quantile": "0.4", "spark.speculation.task.duration.threshold": "500ms",
}  # fmt: skip


def session(master, settings):
    builder = (
        SparkSession.builder.master(master)
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
    )
    plain = {
        "spark.executor.memory": "512m",
        "spark.driver.memory": "512m",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
    }
    for key, value in {
        **plain,
        **SPECULATION,
        "spark.executorEnv.FRAZIL_TEST_LATE": FOLDER,
        **settings,
    }.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def orphans(tables):
    """Data files on disk that no table knows, and those of tables that are not on disk."""
    found = []
    for t in tables:
        known = {
            p.removeprefix("file://")
            for p in t.refresh().inspect.all_files().column("file_path").to_pylist()
        }
        below = {
            os.path.join(d, n)
            for d, _, names in os.walk(f"{t.location()}/data")
            for n in names
            if not n.endswith(".crc")
        }
        found += sorted(known ^ below)
    return found


def plain(batches):
    yield from batches


def main(master, folder, *settings):
    spark = session(master, dict(s.split("=", 1) for s in settings))
    catalog = frazil.load_catalog("c", type="path", warehouse=folder)
    catalog.create_namespace("db")
    found, tables = {}, []

    def step(name, t, call):
        before, result = set(os.listdir(FOLDER)), call()
        new = set(os.listdir(FOLDER)) - before
        rows = sorted([r["id"], r["v"]] for r in t.refresh().scan().to_arrow().to_pylist())
        told = [result.rows_inserted, result.rows_updated, result.rows_deleted]
        found[name] = {
            "told": told,
            "rows": rows,
            "orphans": orphans([t]),
            "copies": sum(n.endswith("-copy") for n in new),
        }

    for fmt, mode in (("parquet", "merge-on-read"), ("orc", "copy-on-write")):
        t = catalog.create_table(
            f"db.{fmt}",
            "id bigint, v bigint",
            properties={"write.format.default": fmt},
            format_version=3,
        )
        tables.append(t)
        frame = spark.range(0, 100, 1, 2).selectExpr("id", "id AS v")
        if fmt == "parquet":  # Spark's own writer: the rows come late
            frame = frame.mapInArrow(late(plain, "rows"), "id long, v long")
        step(f"append {fmt}", t, lambda t=t, frame=frame: t.append(frame))
        step(
            f"delete {mode}",
            t,
            lambda t=t, mode=mode: t.delete("id % 10 = 3", mode=mode, spark=spark),
        )
        ids = pa.array(range(90, 110), pa.int64())
        source = spark.createDataFrame(
            pa.table({"id": ids, "v": pa.array([i * 10 for i in range(90, 110)])})
        )
        on = "target.id = source.id" + (" and soundex('a') = 'A000'" if fmt == "orc" else "")
        merge = (
            t.merge(source, on, spark=spark).when_matched_update_all().when_not_matched_insert_all()
        )
        step(f"merge {mode}", t, lambda merge=merge, mode=mode: merge.execute(mode=mode))
    time.sleep(2.5)  # what is killed may still write for two seconds
    print(
        "FOUND "
        + json.dumps(
            {"steps": found, "later": orphans(tables), "marks": sorted(os.listdir(FOLDER))}
        )
    )
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
