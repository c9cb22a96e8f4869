"""Run in a process of its own: row changes under failing tasks. Arguments: folder for the tables,
tries of a task. Prints what is there.
"""

import json
import os
import sys

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import frazil


def files_of(t):
    known = {
        p.removeprefix("file://") for p in t.inspect.all_files().column("file_path").to_pylist()
    }
    below = {
        os.path.join(d, n)
        for d, _, names in os.walk(os.path.join(t.location(), "data"))
        for n in names
        if not n.endswith(".crc")
    }
    return sorted(below - known), sorted(known - below)


def outcome(t, call):
    try:
        result = call()
        told = [result.rows_updated, result.rows_deleted, result.rows_inserted]
    except Exception as e:
        told = f"{type(e).__name__}: {'injected' in str(e)}"
    t.refresh()
    rows = t.scan().to_arrow().to_pylist()
    orphans, missing = files_of(t)
    return {
        "told": told,
        "rows": sorted([r["id"], r["v"]] for r in rows),
        "orphans": orphans,
        "missing": missing,
        "snapshots": len(t.snapshots()),
    }


def main(folder, tries):
    spark = (
        SparkSession.builder.master(f"local[2,{tries}]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2")
    )
    spark = (
        spark.config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.memory", "1g")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    catalog = frazil.load_catalog("faults", type="path", warehouse=folder)
    catalog.create_namespace_if_not_exists("db")
    found = {}
    for mode in ("copy-on-write", "merge-on-read"):
        t = catalog.create_table(
            f"db.{mode.replace('-', '_')}", "id bigint, v bigint", format_version=3
        )
        for first in (0, 50):
            ids = pa.array(range(first, first + 50), pa.int64())
            t.append(pa.table({"id": ids, "v": ids}))
        source = spark.range(90, 110, 1, 2).select("id", (F.col("id") * 10).alias("v"))
        steps = {
            "delete": lambda t=t, mode=mode: t.delete(
                "soundex('a') = 'A000' and id % 10 = 3", mode=mode, spark=spark
            ),
            "update": lambda t=t, mode=mode: t.update(
                {"v": "v + levenshtein('a', 'b')"}, "id % 10 = 4", mode=mode, spark=spark
            ),
            "merge": lambda t=t, source=source, mode=mode: (
                t.merge(source, "target.id = source.id and soundex('a') = 'A000'")
                .when_matched_update_all()
                .when_not_matched_insert_all()
                .execute(mode=mode)
            ),
        }
        for name, call in steps.items():
            found[f"{name} {mode}"] = outcome(t, call)
    print("FOUND " + json.dumps(found))
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
