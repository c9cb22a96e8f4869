"""Run every maintenance procedure in one application on a cluster, and print what each one has
changed and whether the rows stayed.

python upkeep_job.py MASTER FOLDER
"""

from __future__ import annotations

import datetime as dt
import json
import os
import shutil
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import frazil

COMMITS, ROWS = 6, 500
KEYED = {"mode": "upsert", "key_columns": ["id", "p"], "upsert_strategy": "equality-deletes"}
Counted = tuple[Any, int]


def made(catalog: Any, name: str, spark: Any, version: int, folder: str) -> Any:
    """A table of small files, with position deletes by partition and equality deletes of a stream;
    version 3 is upgraded with them.
    """
    properties = {"write.delete.mode": "merge-on-read", "write.delete.granularity": "partition"}
    t = catalog.create_table(
        name,
        "id bigint, p string, v bigint",
        partition_by=["p"],
        format_version=2,
        properties=properties,
    )
    for commit in range(COMMITS):
        begin = commit * ROWS
        t.append(
            spark.range(begin, begin + ROWS).selectExpr(
                "id", "cast(id % 2 as string) as p", "id * 7 as v"
            )
        )
    for last in (3, 4):
        t.delete(f"id % 10 = {last}", spark=spark)
    source = f"{folder}/changes_{name}"
    os.makedirs(source)
    batch = {
        "id": pa.array([5, 6, COMMITS * ROWS], pa.int64()),
        "p": ["1", "0", "0"],
        "v": pa.array([0, 0, 0], pa.int64()),
    }
    pq.write_table(pa.table(batch), f"{source}/batch.parquet")
    changes = spark.readStream.schema("id bigint, p string, v bigint").parquet(source)
    written = t.write_stream(changes, **KEYED).option("checkpointLocation", f"{source}_checkpoint")
    written.trigger(availableNow=True).start().awaitTermination()
    t.refresh().upsert(pa.table({**batch, "v": pa.array([1, 2, 3], pa.int64())}), join_cols=["id"])
    assert 2 in t.refresh().inspect.delete_files()["content"].to_pylist(), (
        "there is no equality delete"
    )
    if version == 3:
        t.upgrade(3)
    return t.refresh()


def rows(t: Any) -> list[tuple[Any, ...]]:
    return sorted(tuple(r.values()) for r in t.refresh().to_arrow().to_pylist())


def rewrites(catalog: Any, t: Any, spark: Any, folder: str) -> dict[str, Callable[[], Counted]]:
    """The procedures that rewrite data and delete files, each with what it has changed: as a
    function, with a number above 0.
    """
    m, every = t.maintenance, {"rewrite-all": True}

    def data_files(*arguments: Any, **more: Any) -> Counted:
        result = m.rewrite_data_files(*arguments, **more)
        return result, result.rewritten_data_files_count

    def auto() -> Counted:
        other = made(catalog, f"db.auto_v{t.format_version}", spark, t.format_version, folder)
        before, result = rows(other), other.maintenance.auto()
        assert rows(other) == before and not result.failed and result.steps[0].outcome == "done"
        assert 2 not in other.inspect.delete_files()["content"].to_pylist(), (
            "there are equality deletes left"
        )
        return result, len(result.steps)

    return {
        "recommend": lambda: (found := m.recommend(), len(found)),
        "auto": auto,
        "rewrite_position_delete_files": lambda: (
            r := m.rewrite_position_delete_files(options=every),
            r.rewritten_delete_files_count,
        ),
        "convert_equality_deletes": lambda: (
            r := m.convert_equality_deletes(),
            r.converted_equality_delete_files_count,
        ),
        "rewrite_data_files": lambda: data_files(
            options={"min-input-files": 2, "delete-file-threshold": 1}
        ),
        "rewrite_data_files sort": lambda: data_files("sort", "v DESC, id", every),
        "rewrite_data_files zorder": lambda: data_files(sort_order="zorder(id, v)", options=every),
        "rewrite_data_files hilbert": lambda: data_files(
            sort_order="hilbert(id, v)", options={**every, "partial-progress.enabled": True}
        ),
        "rewrite_manifests": lambda: (r := m.rewrite_manifests(), r.rewritten_manifests_count),
    }


def moves(t: Any) -> dict[str, Callable[[], Counted]]:
    """The procedures that move branches. Each begins with a row more, somewhere, and ends with the
    rows that there were.
    """
    m, new = t.maintenance, pa.table({"id": [-1], "p": ["0"], "v": [0]})

    def moved_back(move: Callable[[int, str], Any]) -> Counted:
        head = t.refresh().current_snapshot()
        time.sleep(0.01)
        then = dt.datetime.now(dt.UTC)
        time.sleep(0.01)
        t.append(new)
        result = move(head.snapshot_id, then.isoformat())
        return result, int(t.refresh().current_snapshot().snapshot_id == head.snapshot_id)

    def picked(pick: Callable[[int], Any]) -> Counted:
        before = len(rows(t))
        staged = t.append(
            new, branch=None, snapshot_properties={"wap.id": f"w{before}{len(t.snapshots())}"}
        ).snapshot_id
        t.append(new.set_column(0, "id", pa.array([-2])))
        result = pick(staged)
        more = len(rows(t)) - before
        t.delete("id < 0")
        return result, int(more == 2)

    def published(staged: int) -> Any:
        return m.publish_changes(
            next(s.summary["wap.id"] for s in t.refresh().snapshots() if s.snapshot_id == staged)
        )

    def forward() -> Counted:
        head = t.refresh().current_snapshot().snapshot_id
        with t.manage_snapshots() as ms:
            ms.create_branch(head, "audit")
        t.refresh().append(new, branch="audit")
        result = m.fast_forward("main", "audit")
        more = t.refresh().current_snapshot().snapshot_id != head
        m.rollback_to_snapshot(head)
        return result, int(more)

    first = t.snapshots()[0].snapshot_id
    return {
        "ancestors_of": lambda: (r := m.ancestors_of(), len(r.ancestors)),
        "rollback_to_snapshot": lambda: moved_back(lambda head, _: m.rollback_to_snapshot(head)),
        "rollback_to_timestamp": lambda: moved_back(lambda _, then: m.rollback_to_timestamp(then)),
        "set_current_snapshot": lambda: moved_back(
            lambda head, _: (m.set_current_snapshot(first), m.set_current_snapshot(head))
        ),
        "cherrypick_snapshot": lambda: picked(m.cherrypick_snapshot),
        "publish_changes": lambda: picked(published),
        "fast_forward": forward,
    }


def others(catalog: Any, t: Any, folder: str) -> dict[str, Callable[[], Counted]]:
    """Statistics, copies, imports, and what deletes files; expiry comes last, since the others need
    a history.
    """
    m, suffix = t.maintenance, f"v{t.format_version}"
    source = f"{folder}/source_{suffix}"
    os.makedirs(source)
    pq.write_table(pa.table({"id": [1, 2], "p": ["0", "1"]}), f"{source}/a.parquet")
    orphan = f"{t.location().removeprefix('file://')}/data/orphan.parquet"

    def orphans() -> Counted:
        shutil.copy(f"{source}/a.parquet", orphan)
        os.utime(orphan, (time.time() - 5 * 86_400,) * 2)
        result = m.remove_orphan_files()
        return result, int(
            [Path(p).name for p in result.orphan_file_location.to_pylist()] == ["orphan.parquet"]
            and not os.path.exists(orphan)
        )

    def imported(result: Any, name: str, count: int) -> Counted:
        assert catalog.load_table(name).count() == 2
        return result, count

    def snapshot() -> Counted:
        result = catalog.snapshot(source, f"db.snapshot_{suffix}")
        return imported(result, f"db.snapshot_{suffix}", result.imported_files_count)

    def add_files() -> Counted:
        result = catalog.create_table(
            f"db.added_{suffix}", "id bigint, p string"
        ).maintenance.add_files(source)
        return imported(result, f"db.added_{suffix}", result.added_files_count)

    def migrate() -> Counted:
        result = catalog.migrate(source, f"db.migrated_{suffix}")
        return imported(result, f"db.migrated_{suffix}", result.migrated_files_count)

    def register() -> Counted:
        result = catalog.register_table(
            f"db.again_{suffix}", metadata_file=t.refresh().metadata_location
        )
        return result, result.total_data_files_count

    def relocated() -> Counted:
        result = m.rewrite_table_path(t.location(), f"{folder}/elsewhere_{suffix}")
        return result, result.rewritten_manifest_file_paths_count

    return {
        "compute_table_stats": lambda: (r := m.compute_table_stats(), sum(r.ndv.values())),
        "compute_partition_stats": lambda: (r := m.compute_partition_stats(), r.manifests_read),
        "rewrite_table_path": relocated,
        "snapshot": snapshot,
        "add_files": add_files,
        "register_table": register,
        "migrate": migrate,
        "remove_orphan_files": orphans,
        "expire_snapshots": lambda: (
            r := m.expire_snapshots(older_than="2099-01-01", retain_last=1),
            r.deleted_data_files_count,
        ),
    }


def main() -> None:
    master, folder = sys.argv[1:3]
    spark = frazil.spark_session(
        master=master,
        config={
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.executor.memory": "512m",
            "spark.driver.memory": "512m",
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.sql.shuffle.partitions": "2",
        },
    )
    catalog = frazil.load_catalog(
        "lake", type="sql", uri=f"sqlite:///{folder}/catalog.db", warehouse=f"{folder}/lake"
    )
    catalog.create_namespace("db")
    told: dict[str, Any] = {}
    for version in (2, 3):
        t = made(catalog, f"db.v{version}", spark, version, folder)
        wanted = rows(t)
        for name, run in {
            **rewrites(catalog, t, spark, folder),
            **moves(t),
            **others(catalog, t, folder),
        }.items():
            try:
                result, changed = run()
                kept = rows(t) == wanted and t.to_spark(spark).count() == len(wanted)
                told[f"{name} v{version}"] = [
                    kept and changed > 0,
                    f"{changed} changed, rows kept: {kept}, {result!r}"[:300],
                ]
            except Exception:
                told[f"{name} v{version}"] = [False, traceback.format_exc()[-1500:]]
    executors = spark._jsc.sc().statusTracker().getExecutorInfos()
    print("TOLD", json.dumps({"executors": len(executors) - 1, "told": told}))
    spark.stop()


if __name__ == "__main__":
    main()
