"""Run every maintenance procedure in one application on a cluster, and print what each one did and whether the rows stayed.

    python upkeep_job.py MASTER FOLDER
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import frazil

COMMITS, ROWS = 6, 500


def made(catalog: Any, name: str, spark: Any, version: int) -> Any:
    """A table of small files with deletes of every kind that its format version has."""
    t = catalog.create_table(
        name, "id bigint, p string, v bigint", partition_by=["p"], format_version=version, properties={"write.delete.mode": "merge-on-read"}
    )  # fmt: skip
    for commit in range(COMMITS):
        begin = commit * ROWS
        t.append(spark.range(begin, begin + ROWS).selectExpr("id", "cast(id % 2 as string) as p", "id * 7 as v"))
    t.delete("id % 10 = 3", spark=spark)
    batch = pa.table({"id": pa.array([5, 6, COMMITS * ROWS], pa.int64()), "p": ["1", "0", "0"], "v": pa.array([0, 0, 0], pa.int64())})
    t.upsert(batch, join_cols=["id"])
    return t


def rows(t: Any) -> list[tuple[Any, ...]]:
    return sorted(tuple(r.values()) for r in t.refresh().to_arrow().to_pylist())


def procedures(catalog: Any, t: Any, spark: Any, folder: str) -> dict[str, Any]:
    """Every procedure as a function; those that only move branches come last, so that the table has a history to move in."""
    m, first = t.maintenance, t.snapshots()[0].snapshot_id
    source = f"{folder}/source_{t.format_version}"
    os.makedirs(source)
    pq.write_table(pa.table({"id": [1, 2], "p": ["0", "1"]}), f"{source}/a.parquet")
    suffix = f"v{t.format_version}"
    return {
        "rewrite_position_delete_files": lambda: m.rewrite_position_delete_files(options={"rewrite-all": True}),
        "convert_equality_deletes": m.convert_equality_deletes,
        "rewrite_data_files": lambda: m.rewrite_data_files(options={"min-input-files": 2, "delete-file-threshold": 1}),
        "rewrite_data_files sort": lambda: m.rewrite_data_files("sort", "v DESC, id", {"rewrite-all": True}),
        "rewrite_data_files zorder": lambda: m.rewrite_data_files(sort_order="zorder(id, v)", options={"rewrite-all": True}),
        "rewrite_data_files hilbert": lambda: m.rewrite_data_files(
            sort_order="hilbert(id, v)", options={"rewrite-all": True, "partial-progress.enabled": True}
        ),
        "rewrite_manifests": m.rewrite_manifests,
        "compute_table_stats": m.compute_table_stats,
        "compute_partition_stats": m.compute_partition_stats,
        "rewrite_table_path": lambda: m.rewrite_table_path(t.location(), f"{folder}/elsewhere_{suffix}"),
        "ancestors_of": m.ancestors_of,
        "recommend": lambda: list(m.recommend()) or None,
        "auto": m.auto,
        "snapshot": lambda: catalog.snapshot(source, f"db.snapshot_{suffix}"),
        "add_files": lambda: catalog.create_table(f"db.added_{suffix}", "id bigint, p string").maintenance.add_files(source),
        "register_table": lambda: catalog.register_table(f"db.again_{suffix}", metadata_file=t.refresh().metadata_location),
        "remove_orphan_files": lambda: m.remove_orphan_files(dry_run=True, older_than="2000-01-01"),
        "set_current_snapshot": lambda: (m.set_current_snapshot(first), m.set_current_snapshot(t.metadata.snapshots.ids[-1]))[1],
        "expire_snapshots": lambda: m.expire_snapshots(older_than="2099-01-01", retain_last=1),
    }


def main() -> None:
    master, folder = sys.argv[1:3]
    spark = frazil.spark_session(master=master, config={
        "spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1", "spark.executor.memory": "512m",
        "spark.driver.memory": "512m", "spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "2",
    })  # fmt: skip
    catalog = frazil.load_catalog("lake", type="sql", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"{folder}/lake")
    catalog.create_namespace("db")
    told: dict[str, Any] = {}
    for version in (2, 3):
        t = made(catalog, f"db.v{version}", spark, version)
        wanted = rows(t)
        for name, run in procedures(catalog, t, spark, folder).items():
            try:
                result = run()
                t.refresh()
                told[f"{name} v{version}"] = [rows(t) == wanted and t.to_spark(spark).count() == len(wanted), repr(result)[:300]]
            except Exception:
                told[f"{name} v{version}"] = [False, traceback.format_exc()[-1500:]]
    executors = spark._jsc.sc().statusTracker().getExecutorInfos()
    print("TOLD", json.dumps({"executors": len(executors) - 1, "told": told}))
    spark.stop()


if __name__ == "__main__":
    main()
