"""Tables that every engine reads, built once by Java Iceberg: python fixtures.py DIR [--scale
small|full]. Needs BENCH_JAR.
"""

import argparse
import shutil
import struct
import time

import numpy as np
from data import plan_paths
from engines import java
from kit import HIT, SCALES, Bench, Layout


def plain(spark, b):
    java.table_of(spark, b, b.events, "fix.events", **{"format-version": 2})
    java.table_of(spark, b, b.small, "fix.small", **{"format-version": 2})


def deletes(spark, b):
    """1 % of the rows deleted: position deletes in v2, deletion vectors in v3; and equality deletes
    on id.
    """
    for name, version in (("mor_pos", 2), ("mor_dv", 3)):
        table = java.table_of(
            spark, b, b.events, f"fix.{name}", **java.mode("merge-on-read", version)
        )
        java.sql(spark, f"delete from {table} where {HIT}")
    for name, rows in zip(("few", "many"), b.scale.eq, strict=True):
        java.table_of(spark, b, b.events, f"fix.mor_eq_{name}", **{"format-version": 2})
        table, path = java.core(spark, b, f"mor_eq_{name}"), b.deletes / f"eq_{name}.parquet"
        build = spark._jvm.org.apache.iceberg.FileMetadata.deleteFileBuilder(table.spec())
        file = build.ofEqualityDeletes(int_array(spark, 1)).withPath(f"file:{path}")
        table.newRowDelta().addDeletes(
            file.withFormat("parquet")
            .withFileSizeInBytes(path.stat().st_size)
            .withRecordCount(rows)
            .build()
        ).commit()


def snapshots(spark, b):
    """One small file appended per snapshot, kept at three ages."""
    java.empty(spark, b, b.small, "fix.snaps", **{"format-version": 2})
    table, files = java.core(spark, b, "snaps"), sorted(b.small.glob("*.parquet"))
    ages = dict(zip(b.scale.snapshots, ("few", "half", "all"), strict=True))
    for i in range(1, b.scale.snapshots[2] + 1):
        table.newFastAppend().appendFile(
            java.data_file(spark, table, files[i - 1], b.scale.small[1])
        ).commit()
        if i in ages:
            b.keep("snaps", f"snaps_{ages[i]}")


def expire(spark, b):
    """Every snapshot replaces the one small file of the snapshot before it."""
    java.empty(spark, b, b.small, "fix.expire", **{"format-version": 2})
    table, source, before = java.core(spark, b, "expire"), b.small / "small-00000.parquet", None
    folder = b.fixture("expire") / "data"
    folder.mkdir(exist_ok=True)
    for i in range(b.scale.snapshots[2]):
        shutil.copy(source, path := folder / f"file-{i:05d}.parquet")
        file = java.data_file(spark, table, path, b.scale.small[1])
        change = table.newOverwrite().addFile(file)
        (change.deleteFile(before) if before else change).commit()
        before = file


def plan_deletes(spark, b):
    """A tenth as many delete files as data files, in one commit: most for one data file each, one
    for each of the hundred days, and nine equality deletes a day whose bounds each meet a ninth of
    that day's ids."""
    b.restore("plan_deletes")
    table, paths = java.core(spark, b, "plan_deletes"), list(plan_paths(b))
    change, days = (
        table.newRowDelta(),
        [str(np.datetime64("2024-01-01") + day) for day in range(100)],
    )
    for g in range(0, len(paths), 11):
        file = delete_file(
            spark, b, table, f"p{g}", days[g * 100 // len(paths)]
        ).ofPositionDeletes()
        change.addDeletes(file.withReferencedDataFile(f"file://{paths[g]}").build())
    ids = len(paths) * 1000 // 100  # of one day
    for n, day in enumerate(days):
        change.addDeletes(delete_file(spark, b, table, f"d{n}", day).ofPositionDeletes().build())
        for part in range(9):
            low = n * ids + part * ids // 9
            file = delete_file(spark, b, table, f"e{n}-{part}", day).ofEqualityDeletes(
                int_array(spark, 1)
            )
            change.addDeletes(
                file.withMetrics(metrics_of_id(spark, low, low + ids // 9 - 1)).build()
            )
    change.commit()


def java_manifests(spark, b):
    """The manifests of plan_100k as Java Iceberg writes them: many entries in a block, 8 MB a
    manifest.
    """
    b.restore("plan_java")
    java.sql(spark, "call j.system.rewrite_manifests('fix.plan_java')")


def delete_file(spark, b, table, name, day):
    build = spark._jvm.org.apache.iceberg.FileMetadata.deleteFileBuilder(
        table.spec()
    ).withPartitionPath(f"ts_day={day}")
    path = f"file://{b.fixture('plan_deletes')}/data/ts_day={day}/{name}-deletes.parquet"
    return build.withPath(path).withFormat("parquet").withFileSizeInBytes(1234).withRecordCount(10)


def int_array(spark, *numbers):
    made = spark.sparkContext._gateway.new_array(spark._jvm.int, len(numbers))
    for i, number in enumerate(numbers):
        made[i] = number
    return made


def metrics_of_id(spark, low, high):
    """Bounds of a file of ten ids. No counts: py4j would put Integers into maps of Longs."""
    jvm = spark._jvm

    def bound(number):
        made = jvm.java.util.HashMap()
        made.put(1, jvm.java.nio.ByteBuffer.wrap(bytearray(struct.pack("<q", number))))
        return made

    return jvm.org.apache.iceberg.Metrics(10, None, None, None, None, bound(low), bound(high))


STEPS = (
    (plain, ["events", "small"]), (deletes, ["mor_pos", "mor_dv", "mor_eq_few", "mor_eq_many"]), (plan_deletes, ["plan_deletes"]),
    (java_manifests, ["plan_java"]), (snapshots, []), (expire, ["expire"]),
)  # fmt: skip


def main():
    args = argparse.ArgumentParser()
    args.add_argument("dir")
    args.add_argument("--scale", choices=SCALES, default="small")
    args = args.parse_args()
    b = Bench(Layout.of(args.dir, args.scale))
    spark = java.open(b)
    for step, tables in STEPS:
        done = b.root / f".fixture_{step.__name__}"
        if not done.exists():
            start = time.time()
            step(spark, b)
            for table in tables:
                b.keep(table)
            done.touch()
            print(f"{step.__name__} {time.time() - start:.1f} s", flush=True)


if __name__ == "__main__":
    main()
