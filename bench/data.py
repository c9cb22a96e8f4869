"""Inputs, the same on every run: python data.py DIR [--scale small|full]. Needs pyarrow, pyiceberg,
tpchgen-cli.
"""

import argparse
import os
import shutil
import struct
import subprocess
import sys
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from kit import COLUMNS, SCALES, Layout

START = 1_704_067_200_000_000  # 2024-01-01 UTC in microseconds
DAY = 86_400_000_000
SPAN = 10 * DAY
TYPES = [
    pa.int64(),
    pa.int64(),
    pa.int32(),
    pa.float64(),
    pa.int32(),
    pa.string(),
    pa.timestamp("us", "UTC"),
    pa.string(),
]
SCHEMA = pa.schema(
    [
        pa.field(n, t, metadata={"PARQUET:field_id": str(i + 1)})
        for i, (n, t) in enumerate(zip(COLUMNS, TYPES, strict=True))
    ]
)


def events(ids, total, seed):
    """Rows for the given ids; ts rises with id (one hour of jitter), the rest is uniform."""
    rng, n = np.random.default_rng(seed), len(ids)
    text = lambda prefix, numbers: pa.array(np.char.add(prefix, numbers.astype(str)))
    columns = [
        ids,
        rng.integers(0, 10**9, n),
        rng.integers(0, 100_000, n).astype("int32"),
        np.round(rng.random(n) * 1000, 2),
        rng.integers(0, 100, n).astype("int32"),
        text("user-", rng.integers(0, 10**6, n)),
        pa.array(START + ids * (SPAN // total) + rng.integers(0, 3_600_000_000, n)).cast(TYPES[6]),
        text("c", rng.integers(0, 50, n)),
    ]
    return pa.table(
        [pa.array(c).cast(t) for c, t in zip(columns, TYPES, strict=True)], schema=SCHEMA
    )


def write(table, path):
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path, compression="zstd")


def make_events(d):
    rows = d.scale.rows // 8
    for i in range(8):
        write(
            events(np.arange(i * rows, (i + 1) * rows), d.scale.rows, i),
            d.events / f"events-{i}.parquet",
        )


def make_small(d):
    files, rows = d.scale.small
    for i in range(files):
        write(
            events(np.arange(i * rows, (i + 1) * rows), files * rows, 1000 + i),
            d.small / f"small-{i:05d}.parquet",
        )


def make_tiny(d):
    """Thousands of files, and the same rows in eight: the floor."""
    files, rows = d.scale.tiny
    whole = [
        events(np.arange(i * rows, (i + 1) * rows), files * rows, 5000 + i) for i in range(files)
    ]
    for i, part in enumerate(whole):
        write(part, d.tiny / f"tiny-{i:05d}.parquet")
    for i in range(8):
        write(pa.concat_tables(whole[i::8]), d.tiny_8 / f"part-{i}.parquet")


def make_stream(d):
    files, rows = d.scale.stream
    for i in range(files):
        write(
            events(np.arange(i * rows, (i + 1) * rows), files * rows, 9000 + i),
            d.stream_in / f"in-{i:05d}.parquet",
        )


def make_changes(d):
    """1 % updates, 1 % inserts (together: upserts), 1 % deletes; and ids as Iceberg equality-delete
    files.
    """
    total, part = d.scale.rows, d.scale.rows // 100
    rng = np.random.default_rng(7)
    hit = rng.choice(total, 2 * part, replace=False)
    updates, deletes = np.sort(hit[:part]), np.sort(hit[part:])
    inserts = np.arange(total, total + part)
    write(events(updates, total, 71), d.changes / "updates" / "part.parquet")
    write(events(inserts, total, 72), d.changes / "inserts" / "part.parquet")
    write(
        events(np.concatenate([updates, inserts]), total, 73),
        d.changes / "upserts" / "part.parquet",
    )
    write(
        pa.table([pa.array(deletes)], schema=pa.schema([SCHEMA.field(0)])),
        d.changes / "deletes" / "part.parquet",
    )
    for name, n in zip(("few", "many"), d.scale.eq, strict=True):
        ids = np.sort(rng.choice(total, n, replace=False))
        write(
            pa.table([pa.array(ids)], schema=pa.schema([SCHEMA.field(0)])),
            d.deletes / f"eq_{name}.parquet",
        )


def make_keyed(d):
    """Rows under a key of two columns in eight files, and upserts: the first half of their keys is
    there, the rest is new.
    """
    rows, upserts = d.scale.keyed
    rng = np.random.default_rng(11)
    ids = np.concatenate(
        [
            np.sort(rng.choice(rows, upserts // 2, replace=False)),
            np.arange(rows, rows + upserts - upserts // 2),
        ]
    )
    for i, part in enumerate(np.array_split(np.arange(rows), 8)):
        write(keyed(part, 1.0), d.keyed / f"keyed-{i}.parquet")
    write(keyed(ids, 2.0), d.changes / "keyed" / "part.parquet")


def keyed(numbers, price):
    """(tenant, code) is the key; rows of one tenant lie in all files."""
    columns = [
        pa.array(numbers % 997),
        pa.array(np.char.add("code-", (numbers // 997).astype(str))),
        pa.array(numbers * price),
        pa.array(numbers),
    ]
    types = [pa.int64(), pa.string(), pa.float64(), pa.int64()]
    names = ("tenant", "code", "price", "qty")
    fields = [
        pa.field(n, t, metadata={"PARQUET:field_id": str(i + 1)})
        for i, (n, t) in enumerate(zip(names, types, strict=True))
    ]
    return pa.table(
        [c.cast(t) for c, t in zip(columns, types, strict=True)], schema=pa.schema(fields)
    )


def make_lineitem(d):
    shutil.rmtree(d.lineitem, ignore_errors=True)
    exe = os.path.join(os.path.dirname(sys.executable), "tpchgen-cli")
    subprocess.run(
        [
            exe,
            "parquet",
            "--compression=ZSTD(3)",
            "-s",
            d.scale.tpch,
            "--tables=lineitem",
            "--parts=4",
            "-q",
            "-o",
            d.root,
        ],
        check=True,
    )


# --- tables that exist as metadata only
# -------------------------------------------------------------------


def make_plan_files(d):
    """One-byte files, so that an engine without metadata can list them: the paths of plan_table."""
    for path in plan_paths(d):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as f:
            f.write(b"x")


def plan_paths(d):
    manifests, files = d.scale.plan
    for g in range(manifests * files):
        yield str(
            d.plan_files
            / f"day={np.datetime64('2024-01-01') + g * 100 // (manifests * files)}"
            / f"part-{g:06d}.parquet"
        )


def make_orphan_files(d):
    """Ten days old, so that remove_orphan_files takes them for orphans."""
    used, orphans = d.scale.orphans
    folder, old = d.fixture("orphan") / "data", time.time() - 864_000
    for g in range(used + orphans):
        path = folder / f"{g % 100:02d}" / f"file-{g:06d}.parquet"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x")
        os.utime(path, (old, old))


def wide():
    """Ten columns, so that there is something to decode."""
    from pyiceberg.schema import Schema
    from pyiceberg.types import DoubleType, LongType, NestedField, StringType, TimestamptzType

    types = [
        LongType(),
        TimestamptzType(),
        DoubleType(),
        StringType(),
        LongType(),
        LongType(),
        StringType(),
        LongType(),
        LongType(),
        StringType(),
    ]
    names = ["id", "ts", "amount", "name", *(f"c{i}" for i in range(5, 11))]
    return Schema(
        *[NestedField(i + 1, n, t) for i, (n, t) in enumerate(zip(names, types, strict=True))]
    )


def make_metadata_tables(d):
    schema = wide()
    paths = [f"file://{p}" for p in plan_paths(d)]
    synthetic(d, "plan_100k", schema, d.scale.plan, paths)
    synthetic(d, "manifests_100", schema, d.scale.manifests, paths)
    used = d.scale.orphans[0]
    folder = d.fixture("orphan") / "data"
    synthetic(
        d,
        "orphan",
        schema,
        (1, used),
        [f"file://{folder}/{g % 100:02d}/file-{g:06d}.parquet" for g in range(used)],
    )


def synthetic(d, name, schema, shape, paths):
    """A table of (manifests, files in each), partitioned by day(ts); file g holds ids g*1000 …
    g*1000+999.
    """
    from pyiceberg.catalog.memory import InMemoryCatalog
    from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
    from pyiceberg.partitioning import PartitionField, PartitionSpec
    from pyiceberg.transforms import DayTransform
    from pyiceberg.typedef import Record

    manifests, files = shape
    spec = PartitionSpec(PartitionField(2, 1000, DayTransform(), "ts_day"))
    catalog = InMemoryCatalog("made", warehouse=f"file://{d.live}")
    catalog.create_namespace("fix")
    table = catalog.create_table(
        f"fix.{name}", schema, location=f"file://{d.fixture(name)}", partition_spec=spec
    )
    ids = range(1, len(schema.fields) + 1)

    def data_file(g):
        day = START // DAY + g * 100 // (manifests * files)
        bound = lambda at: {
            i: b"k%014d" % (g * 1000 + at)
            if i in (4, 7, 10)
            else struct.pack("<d", at)
            if i == 3
            else struct.pack("<q", day * DAY + at if i == 2 else g * 1000 + at)
            for i in ids
        }
        file = DataFile.from_args(
            content=DataFileContent.DATA,
            file_path=paths[g],
            file_format=FileFormat.PARQUET,
            partition=Record(day),
            record_count=1000,
            file_size_in_bytes=123_456,
            column_sizes=dict.fromkeys(ids, 12_000),
            value_counts=dict.fromkeys(ids, 1000),
            null_value_counts=dict.fromkeys(ids, 0),
            nan_value_counts={3: 0},
            lower_bounds=bound(0),
            upper_bounds=bound(999),
            split_offsets=[4],
            equality_ids=None,
            sort_order_id=None,
            key_metadata=None,
        )
        file.spec_id = 0
        return file

    for m in range(manifests):
        with table.transaction() as change, change.update_snapshot().fast_append() as append:
            for g in range(m * files, (m + 1) * files):
                append.append_data_file(data_file(g))
    folder = d.fixture(name) / "metadata"
    shutil.copy(table.metadata_location.removeprefix("file://"), folder / "v1.metadata.json")
    (folder / "version-hint.text").write_text("1")
    d.keep(name)


def make_table_for_java_manifests(d):
    """plan_100k once more: fixtures.py has Java Iceberg write its manifests anew."""
    synthetic(d, "plan_java", wide(), d.scale.plan, [f"file://{p}" for p in plan_paths(d)])


def make_table_to_delete_from(d):
    """plan_100k once more: fixtures.py adds the deletes."""
    synthetic(d, "plan_deletes", wide(), d.scale.plan, [f"file://{p}" for p in plan_paths(d)])


STEPS = [
    make_events, make_small, make_tiny, make_stream, make_changes, make_keyed, make_lineitem, make_plan_files, make_orphan_files,
    make_metadata_tables, make_table_to_delete_from, make_table_for_java_manifests,
]  # fmt: skip


def main():
    args = argparse.ArgumentParser()
    args.add_argument("dir")
    args.add_argument("--scale", choices=SCALES, default="small")
    args = args.parse_args()
    d = Layout.of(args.dir, args.scale)
    d.root.mkdir(parents=True, exist_ok=True)
    for step in STEPS:
        done = d.root / f".{step.__name__}"
        if not done.exists():
            start = time.time()
            step(d)
            done.touch()
            print(f"{step.__name__} {time.time() - start:.1f} s", flush=True)


if __name__ == "__main__":
    main()
