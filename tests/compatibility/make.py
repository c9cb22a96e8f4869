"""Write tables and checkpoints with this release and keep them for the tests of all later ones:
`python -m tests.compatibility.make` makes tests/compatibility/VERSION.tar.xz, once for each release.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import sqlite3
import tarfile
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa

import frazil
from tests.compatibility.kept import HERE, properties_at, rows, the_place_for

COLUMNS = "id bigint not null, day date, region string, amount decimal(10, 2), tags array<string>"
MERGE_ON_READ = {f"write.{verb}.mode": "merge-on-read" for verb in ("delete", "update", "merge")}


def frame(first: int, count: int) -> pa.Table:
    """Return so many rows, with ids from `first` on."""
    found = [
        {
            "id": n,
            "day": dt.date(2026, 1, 1 + n % 3),
            "region": ("eu", "us", None)[n % 3],
            "amount": Decimal(f"{n}.25"),
            "tags": ["a", str(n)][: n % 3],
        }
        for n in range(first, first + count)
    ]
    types = [pa.int64(), pa.date32(), pa.string(), pa.decimal128(10, 2), pa.list_(pa.string())]
    names = ("id", "day", "region", "amount", "tags")
    fields = [
        pa.field(name, kind, nullable=name != "id") for name, kind in zip(names, types, strict=True)
    ]
    return pa.Table.from_pylist(found, schema=pa.schema(fields))


def tables(catalog: frazil.Catalog) -> None:
    """Write tables of each format version, with each kind of delete, and a view."""
    catalog.create_namespace("db")

    v1 = catalog.create_table("db.v1", COLUMNS, partition_by=["region"], format_version=1)
    for n in range(3):
        v1.append(frame(10 * n, 10))
    v1.delete("id = 3")

    v2 = catalog.create_table(
        "db.v2_positions", COLUMNS, partition_by=["months(day)", "bucket(2, id)"],
        properties=MERGE_ON_READ, format_version=2,
    )  # fmt: skip
    v2.append(frame(0, 20))
    v2.delete("id % 5 = 0")
    v2.update(set={"region": "'moved'"}, where="id < 4")
    v2.upsert(frame(18, 4), join_cols=["id"])
    v2.maintenance.compute_partition_stats()

    v3 = catalog.create_table(
        "db.v3_vectors", COLUMNS, sort_by=["day desc"], properties=MERGE_ON_READ, format_version=3
    )
    v3.append(frame(0, 20))
    v3.append(frame(20, 20))
    v3.delete("id % 5 = 0")
    v3.update(set={"amount": "amount + 1"}, where="id > 30")
    v3.maintenance.compute_table_stats()

    evolved = catalog.create_table("db.evolved", COLUMNS, partition_by=["days(day)"])
    evolved.append(frame(0, 6))
    with evolved.manage_snapshots() as manage:
        manage.create_tag(evolved.current_snapshot().snapshot_id, "first")
        manage.create_branch(evolved.current_snapshot().snapshot_id, "audit")
    evolved.append(frame(100, 2), branch="audit")
    with evolved.update_schema() as update:
        update.rename_column("region", "place")
        update.add_column("note", "string")
        update.delete_column("tags")
    with evolved.update_spec() as update:
        update.remove_field("day_day")
        update.add_field("id", frazil.BucketTransform(4), "id_bucket")
    evolved.append(
        frame(6, 6).drop_columns(["tags"]).rename_columns(["id", "day", "place", "amount"])
    )
    evolved.upgrade(3)
    evolved.append([{"id": 50, "note": "in version 3"}], txn=("job", 7))

    catalog.create_view(
        "db.eu", "id bigint, amount decimal(10,2)",
        sql={"spark": "SELECT id, amount FROM kept.db.v1 WHERE region = 'eu'", "trino": "SELECT id, amount FROM v1"},
        properties={"comment": "those in the EU"},
    )  # fmt: skip


def streams(catalog: frazil.Catalog, root: Path) -> None:
    """Run a stream from a table into a table, and one by key that writes equality deletes."""
    frazil.spark_session(
        app_name="kept", master="local[1]", config={"spark.ui.enabled": "false"}
    ).sparkContext.setLogLevel("ERROR")
    source = catalog.create_table("db.stream_in", "id bigint, state string")
    catalog.create_table("db.stream_out", "id bigint, state string")
    catalog.create_table(
        "db.v2_equality",
        "id bigint not null, state string",
        identifier_fields=["id"],
        format_version=2,
    )
    for first in (0, 5):
        source.append([{"id": n % 7, "state": f"s{n}"} for n in range(first, first + 5)])
        run_streams(catalog, root)


def run_streams(catalog: frazil.Catalog, root: Path) -> None:
    """Let the streams take what is new in their source, from their checkpoints."""
    source = catalog.load_table("db.stream_in")
    for name, options in (
        ("stream_out", {}),
        ("v2_equality", {"mode": "upsert", "upsert_strategy": "equality-deletes"}),
    ):
        read = source.read_stream(starting_strategy="TABLE_SCAN_THEN_INCREMENTAL")
        write = catalog.load_table(f"db.{name}").write_stream(read, **options)
        write = write.option("checkpointLocation", str(root / "checkpoints" / name))
        write.trigger(availableNow=True).queryName(name).start().awaitTermination()


def told(catalog: frazil.Catalog) -> dict[str, Any]:
    """Return what is in each table, for `expected.json`."""
    expected = {}
    for _, name in catalog.list_tables("db"):
        t = catalog.load_table(f"db.{name}")
        expected[name] = {
            "format_version": t.format_version,
            "rows": rows(t.scan()),
            "snapshots": {
                str(s.snapshot_id): len(rows(t.scan(snapshot_id=s.snapshot_id)))
                for s in t.snapshots()
            },
            "refs": {ref: kept.snapshot_id for ref, kept in t.refs().items()},
            "deletes": sorted(
                f"{row['content']} {row['file_format']}"
                for row in t.inspect.delete_files().to_pylist()
            ),
        }
    return expected


def main() -> None:
    target = HERE / f"{frazil.__version__}.tar.xz"
    with the_place_for(frazil.__version__) as root:
        catalog = frazil.load_catalog("kept", **properties_at(root))
        tables(catalog)
        streams(catalog, root)
        (root / "expected.json").write_text(json.dumps(told(catalog), indent=1))
        with contextlib.closing(sqlite3.connect(root / "catalog.db")) as database:
            database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        with tarfile.open(target, "w:xz", preset=9) as archive:
            for path in sorted(p for p in root.rglob("*") if not p.name.startswith("catalog.db-")):
                archive.add(path, path.relative_to(root), recursive=False)
        files = sum(1 for p in root.rglob("*") if p.is_file())
    print(f"{target}: {files} files, {target.stat().st_size} bytes")


if __name__ == "__main__":
    main()
