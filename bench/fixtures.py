"""Tables that every engine reads, built once by Java Iceberg: python fixtures.py DIR [--scale small|full]. Needs BENCH_JAR."""
import argparse
import shutil
import time

from engines import java
from kit import HIT, SCALES, Bench, Layout


def plain(spark, b):
    java.table_of(spark, b, b.events, "fix.events", **{"format-version": 2})
    java.table_of(spark, b, b.small, "fix.small", **{"format-version": 2})


def deletes(spark, b):
    """1 % of the rows deleted: position deletes in v2, deletion vectors in v3; and equality deletes on id."""
    for name, version in (("mor_pos", 2), ("mor_dv", 3)):
        table = java.table_of(spark, b, b.events, f"fix.{name}", **java.mode("merge-on-read", version))
        java.sql(spark, f"delete from {table} where {HIT}")
    for name, rows in zip(("few", "many"), b.scale.eq, strict=True):
        java.table_of(spark, b, b.events, f"fix.mor_eq_{name}", **{"format-version": 2})
        table, path = java.core(spark, b, f"mor_eq_{name}"), b.deletes / f"eq_{name}.parquet"
        ids = spark.sparkContext._gateway.new_array(spark._jvm.int, 1)
        ids[0] = 1
        file = spark._jvm.org.apache.iceberg.FileMetadata.deleteFileBuilder(table.spec()).ofEqualityDeletes(ids).withPath(f"file:{path}")
        table.newRowDelta().addDeletes(file.withFormat("parquet").withFileSizeInBytes(path.stat().st_size).withRecordCount(rows).build()).commit()


def snapshots(spark, b):
    """One small file appended per snapshot, kept at three ages."""
    java.empty(spark, b, b.small, "fix.snaps", **{"format-version": 2})
    table, files = java.core(spark, b, "snaps"), sorted(b.small.glob("*.parquet"))
    ages = dict(zip(b.scale.snapshots, ("few", "half", "all"), strict=True))
    for i in range(1, b.scale.snapshots[2] + 1):
        table.newFastAppend().appendFile(java.data_file(spark, table, files[i - 1], b.scale.small[1])).commit()
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


def main():
    args = argparse.ArgumentParser()
    args.add_argument("dir")
    args.add_argument("--scale", choices=SCALES, default="small")
    args = args.parse_args()
    b = Bench(Layout.of(args.dir, args.scale))
    spark = java.open(b)
    for step, tables in ((plain, ["events", "small"]), (deletes, ["mor_pos", "mor_dv", "mor_eq_few", "mor_eq_many"]), (snapshots, []), (expire, ["expire"])):
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
