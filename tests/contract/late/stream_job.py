"""Run in a process of its own: streams into tables while Spark's speculation starts tasks again on
the other worker. Arguments: master, folder for the tables, settings. Prints what is there after
each stream."""

import json
import os
import sys
import time

import pyarrow as pa
import pyarrow.parquet as pq
from job import orphans, plain, session
from sitecustomize import FOLDER, late

import frazil

KEYED = {"mode": "upsert", "key_columns": "id"}
STREAMS = {
    "append": {},
    "lookup": KEYED,
    "equality-deletes": {**KEYED, "upsert_strategy": "equality-deletes"},
}


def main(master, folder, *settings):
    spark = session(master, dict(s.split("=", 1) for s in settings))
    catalog = frazil.load_catalog("c", type="path", warehouse=folder)
    catalog.create_namespace("db")
    inputs, found, tables = f"{folder}/in", {}, []
    os.makedirs(inputs)
    for n, ids in enumerate((range(100), range(90, 110))):
        values = pa.array([i * (1, 10)[n] for i in ids])
        pq.write_table(
            pa.table({"id": pa.array(ids, pa.int64()), "v": values}), f"{inputs}/{n}.parquet"
        )
        # Spark takes files in the order of their times
        os.utime(f"{inputs}/{n}.parquet", (1_700_000_000 + n,) * 2)
    for name, options in STREAMS.items():
        t = catalog.create_table(
            f"db.{name.replace('-', '_')}", "id bigint, v bigint", format_version=3
        )
        tables.append(t)
        frame = (
            spark.readStream.schema("id long, v long")
            .option("maxFilesPerTrigger", 1)
            .parquet(inputs)
            .repartition(2)
        )
        if not options:  # Spark's own writer: the rows come late
            frame = frame.mapInArrow(late(plain, "rows"), "id long, v long")
        marks, results = set(os.listdir(FOLDER)), []
        writer = t.write_stream(
            frame,
            on_commit=lambda n, r, results=results: results.append(
                [n, r.rows_inserted, r.rows_updated]
            ),
            **options,
        )
        query = (
            writer.option("checkpointLocation", f"{folder}/checkpoint-{name}")
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        rows = sorted([r["id"], r["v"]] for r in t.refresh().scan().to_arrow().to_pylist())
        copies = sum(mark.endswith("-copy") for mark in set(os.listdir(FOLDER)) - marks)
        found[name] = {
            "told": results,
            "rows": rows,
            "snapshots": len(t.history()),
            "orphans": orphans([t]),
            "copies": copies,
        }
    time.sleep(2.5)  # what is killed may still write for two seconds
    staged = sorted(
        os.path.join(d, n) for d, _, names in os.walk(folder) for n in names if n.endswith(".arrow")
    )
    print(
        "FOUND "
        + json.dumps(
            {
                "streams": found,
                "later": orphans(tables),
                "staged": staged,
                "marks": sorted(os.listdir(FOLDER)),
            }
        )
    )
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
