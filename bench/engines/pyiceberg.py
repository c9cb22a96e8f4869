"""PyIceberg without Spark: pyarrow in one process, SQLite catalog."""

import datetime
import gc
import warnings
from contextlib import suppress
from importlib import metadata

import kit
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from kit import Unsupported
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.table import StaticTable
from pyiceberg.transforms import BucketTransform, DayTransform
from pyiceberg.typedef import Record

from engines import start

NAME = "pyiceberg"
HIT = kit.HIT
HOUR = "ts >= '2024-01-04T12:00:00+00:00' and ts < '2024-01-04T13:00:00+00:00'"


def open(b, at="pyiceberg_catalog"):
    where = b.fresh(at)
    where.mkdir()
    catalog = SqlCatalog(
        "p", uri=f"sqlite:///{where}/catalog.db", warehouse=f"file://{b.live}/scratch"
    )
    catalog.create_namespace("scratch")
    return catalog


def version(catalog):
    return metadata.version("pyiceberg")


def settle(catalog):
    gc.collect()


def static(b, name):
    return StaticTable.from_metadata(f"file://{b.metadata(name)}")


def registered(catalog, b, name, kept=None):
    """A fixture as it was built, now owned by this catalog."""
    b.restore(name, kept)
    return adopt(catalog, f"scratch.{name}", f"file://{b.metadata(name)}")


def adopt(catalog, name, location):
    forget(catalog, name)
    return catalog.register_table(name, location)


def forget(catalog, name):
    with suppress(NoSuchTableError):
        catalog.drop_table(name)


def create(catalog, b, name, schema, spec=None):
    where = b.fresh(name)
    forget(catalog, f"scratch.{name}")
    table = catalog.create_table(f"scratch.{name}", schema=schema, location=f"file://{where}")
    if spec:
        with table.update_spec() as change:
            for column, transform in spec:
                change.add_field(column, transform)
    return table, where


# --- reading
# ------------------------------------------------------------------------------------------------


def sums(b, name, row_filter=None):
    count = price = qty = 0
    with b.timed():
        scan = static(b, name).scan(
            selected_fields=("price", "qty"), **({"row_filter": row_filter} if row_filter else {})
        )
        for batch in scan.to_arrow_batch_reader():
            count += len(batch)
            price += pc.sum(batch["price"]).as_py() or 0.0
            qty += pc.sum(batch["qty"]).as_py() or 0
    return {"check": kit.shown(*([count, price] if row_filter else [price, qty]))}


def scan_2col(catalog, b):
    return sums(b, "events")


def scan_all(catalog, b):
    best = {}
    with b.timed():
        for batch in static(b, "events").scan().to_arrow_batch_reader():
            for c in kit.COLUMNS:
                best[c] = max(pc.max(batch[c]).as_py(), best.get(c, pc.max(batch[c]).as_py()))
    return {"check": kit.shown(*best.values())}


def scan_filter(catalog, b):
    return sums(b, "events", HOUR)


def scan_filter_unprunable(catalog, b):
    return sums(b, "events", "cat = 'c7' and qty < 10")


def mor_read_pos(catalog, b):
    b.restore("mor_pos")
    return sums(b, "mor_pos")


def mor_read_dv(catalog, b):
    b.restore("mor_dv")
    return sums(b, "mor_dv")


def mor_read_eq_100k(catalog, b):
    try:
        return sums(b, "mor_eq_few")
    except ValueError as e:
        raise Unsupported(f"{type(e).__name__}: {e}") from e


mor_read_eq_5m = mor_read_eq_100k

arrow_mor_read_pos, arrow_mor_read_dv, arrow_mor_read_eq_100k, arrow_mor_read_eq_5m = (
    mor_read_pos,
    mor_read_dv,
    mor_read_eq_100k,
    mor_read_eq_5m,
)
arrow_scan_2col, arrow_scan_all, arrow_scan_filter = scan_2col, scan_all, scan_filter

# --- planning
# -----------------------------------------------------------------------------------------------


def plan(b, lap, row_filter, name="plan_100k"):
    with b.timed(lap):
        return sum(1 for _ in static(b, name).scan(row_filter).plan_files())


def plan_all_100k(catalog, b):
    from pyiceberg.expressions import AlwaysTrue

    files = plan(b, "main", AlwaysTrue())
    with b.timed("files_table"):
        static(b, "plan_100k").inspect.files()
    return {"check": [str(files)]}


def plan_filter_100k(catalog, b, name="plan_100k"):
    low = b.scale.plan[0] * b.scale.plan[1] // 2 * 1000
    one_day = plan(
        b, "one_day", "ts >= '2024-02-10T00:00:00+00:00' and ts < '2024-02-11T00:00:00+00:00'", name
    )
    return {
        "check": [str(plan(b, "main", f"id >= {low} and id <= {low + 9999}", name)), str(one_day)]
    }


def plan_all_java(catalog, b):
    from pyiceberg.expressions import AlwaysTrue

    return {"check": [str(plan(b, "main", AlwaysTrue(), "plan_java"))]}


def plan_filter_java(catalog, b):
    return plan_filter_100k(catalog, b, "plan_java")


def plan_deletes(catalog, b):
    with b.timed():
        try:
            tasks = list(static(b, "plan_deletes").scan().plan_files())
        except ValueError as e:
            raise Unsupported(f"{type(e).__name__}: {e}") from e
    return {"check": kit.shown(len(tasks), sum(len(t.delete_files) for t in tasks))}


# --- writing
# ------------------------------------------------------------------------------------------------


def plain(table):
    """Without Parquet field ids, which create_table would take for its own."""
    return table.cast(pa.schema([f.remove_metadata() for f in table.schema]))


def append(catalog, b, name, source, spec=None):
    files = sorted(source.glob("*.parquet"))
    table, where = create(
        catalog, b, name, plain(pq.read_schema(files[0]).empty_table()).schema, spec
    )
    with b.timed():
        table.append(plain(pa.concat_tables(map(pq.read_table, files))))
    return {
        **contents(table, "l_extendedprice" if source == b.lineitem else "price"),
        **kit.on_disk(where / "data"),
    }


def write_plain(catalog, b):
    return append(catalog, b, "write_plain", b.events)


def write_part(catalog, b):
    return append(
        catalog, b, "write_part", b.events, [("ts", DayTransform()), ("id", BucketTransform(16))]
    )


arrow_write_plain, arrow_write_part = write_plain, write_part


def metadata_5000(catalog, b):
    file = kit.many_snapshots(b)
    with b.timed():
        count = len(StaticTable.from_metadata(f"file://{file}").metadata.snapshots)
    return {"check": [str(count)]}


def ctas_lineitem(catalog, b):
    return append(catalog, b, "lineitem", b.lineitem)


def append_latency(catalog, b, kept):
    """Laps: main = commit of an existing file; write = append of one row."""
    table, path = registered(catalog, b, "snaps", kept), b.small / "small-00000.parquet"
    row = plain(pq.read_table(path).slice(0, 1))
    file = DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=f"file://{path}",
        file_format=FileFormat.PARQUET,
        partition=Record(),
        spec_id=0,
        record_count=b.scale.small[1],
        file_size_in_bytes=path.stat().st_size,
        column_sizes=None,
        value_counts=None,
        null_value_counts=None,
        nan_value_counts=None,
        lower_bounds=None,
        upper_bounds=None,
        split_offsets=None,
        equality_ids=None,
        sort_order_id=None,
        key_metadata=None,
    )
    file.spec_id = 0
    for _ in range(20):
        with (
            b.timed(),
            table.transaction() as change,
            change.update_snapshot().fast_append() as commit,
        ):
            commit.append_data_file(file)
    for _ in range(20):
        with b.timed("write"):
            table.append(row)
    return {"check": [str(len(table.inspect.files()))]}


def append_latency_10(catalog, b):
    return append_latency(catalog, b, "snaps_few")


def append_latency_1000(catalog, b):
    return append_latency(catalog, b, "snaps_all")


# --- changing rows
# ------------------------------------------------------------------------------------------


def contents(table, price="price"):
    """What the table holds, read back after the clock has stopped."""
    scanned = table.scan(selected_fields=(price,)).to_arrow()
    check = kit.shown(len(scanned), float(pc.sum(scanned[price]).as_py()))
    return {"rows": len(scanned), "check": check, "snapshots": len(table.metadata.snapshots)}


def delete_cow(catalog, b):
    table = registered(catalog, b, "events")
    with b.timed():
        table.delete(HIT)
    return contents(table)


def delete_mor(catalog, b):
    table = registered(catalog, b, "events")
    with table.transaction() as change:
        change.set_properties({"write.delete.mode": "merge-on-read"})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            table.delete(HIT)
        except UserWarning as e:
            raise Unsupported(f"{type(e).__name__}: {e}") from e
    raise AssertionError("merge-on-read deletes are now there: measure them")


def update_mor(catalog, b):
    raise Unsupported("no UPDATE")


def merge_mor(catalog, b):
    raise Unsupported("upsert is copy-on-write only")


def merge_cow(catalog, b):
    table = registered(catalog, b, "events")
    rows = plain(pq.read_table(b.changes / "upserts"))
    with b.timed():
        table.upsert(rows, join_cols=["id"])
    return contents(table)


def upsert_keys(catalog, b):
    rows, schema = (
        plain(pq.read_table(b.changes / "keyed")),
        plain(pq.read_schema(next(b.keyed.glob("*.parquet"))).empty_table()).schema,
    )
    table, _ = create(catalog, b, "upsert_keys", schema)
    table.add_files([f"file://{f}" for f in sorted(b.keyed.glob("*.parquet"))])
    with b.timed():
        table.upsert(rows, join_cols=["tenant", "code"])
    return contents(table)


arrow_delete_cow, arrow_merge_cow = delete_cow, merge_cow

# --- maintenance, streams
# -----------------------------------------------------------------------------------


def missing(what):
    def workload(catalog, b):
        raise Unsupported(what)

    return workload


compact_binpack = compact_sort = compact_zorder = compact_deletes = missing("no compaction")
convert_equality_deletes = missing("no equality deletes")
rewrite_manifests = missing("no rewrite of manifests")
orphan_20k = missing("no removal of orphan files")
stream_sink = stream_source = stream_source_limited = missing("no streams")


def expire_1000(catalog, b):
    """Measured to say how long, yet not comparable: the files stay."""
    table = registered(catalog, b, "expire")
    before, files = (
        len(table.metadata.snapshots),
        kit.on_disk(b.fixture("expire") / "data")["files"],
    )
    cut = sorted(s.timestamp_ms for s in table.metadata.snapshots)[-10]
    with b.timed():
        table.maintenance.expire_snapshots().older_than(
            datetime.datetime.fromtimestamp(cut / 1000, datetime.UTC)
        ).commit()
    left = kit.on_disk(b.fixture("expire") / "data")["files"]
    if left < files:
        return {"check": kit.shown(len(table.metadata.snapshots), left)}
    seconds = b.laps["main"][-1]
    raise Unsupported(
        f"expires in metadata only: {before} to {len(table.metadata.snapshots)} snapshots in {seconds:.2f} s, no file is deleted"
    )


def cold_start(catalog, b):
    b.restore("snaps", "snaps_few")
    return start.cold(b, "pyiceberg", "pyiceberg.table")


def hello(b):
    open(b, "pyiceberg_hello")
    return [pc.sum(static(b, "snaps").scan(selected_fields=("price",)).to_arrow()["price"]).as_py()]
