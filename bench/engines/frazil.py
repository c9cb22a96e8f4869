"""Frazil: to_spark and append of DataFrames on Spark's own plan; format("iceberg") prepared and
bare; Arrow without Spark.
"""

import datetime
import gc
import subprocess
import sys
import time

import kit
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from boxes import HILBERT, PRICE, ZORDER, read_by_boxes
from pyspark.sql import functions as F

import frazil
from engines import session as s
from engines import start
from frazil.tasks.runner import InProcess

NAME = "frazil"
HOUR = "ts >= TIMESTAMP '2024-01-04 12:00:00Z' and ts < TIMESTAMP '2024-01-04 13:00:00Z'"
UNPRUNABLE = "cat = 'c7' and qty < 10"


def open(b):
    """(a prepared session, a bare one beside it)"""
    bare = s.session()
    prepared = bare.newSession()
    for name, place in (("live", b.live), ("scratch", b.live / "scratch")):  # what SQL names
        prepared.conf.set(f"spark.sql.catalog.{name}", "org.apache.iceberg.spark.SparkCatalog")
        prepared.conf.set(f"spark.sql.catalog.{name}.type", "hadoop")
        prepared.conf.set(f"spark.sql.catalog.{name}.warehouse", str(place))
    return frazil.install(prepared), bare


def version(sessions):
    return frazil.__version__


def settle(sessions):
    """No manifest and no table is kept from one workload to the next."""
    s.settle(sessions[0])
    frazil.clear_caches()
    gc.collect()


def opened(b, name):
    """A table from its location, with nothing remembered from before."""
    frazil.clear_caches()
    return frazil.load_table(str(b.fixture(name)))


def created(b, name, schema, **arguments):
    where = b.fresh(f"made/{name}")
    catalog = frazil.load_catalog("bench", type="path", warehouse=str(where.parent.parent))
    return catalog.create_table(f"made.{name}", schema, **arguments), where


# --- reading through Spark
# ----------------------------------------------------------------------------------


def agg(b, frame, *outputs):
    """`frame()` is made inside the clock: planning counts."""
    with b.timed():
        row = frame().agg(*outputs).collect()[0]
    return {"check": kit.shown(*row)}


def spark_scan(sessions, b, name="events", where=None):
    return opened(b, name).scan(**({"row_filter": where} if where else {})).to_spark(sessions[0])


def scan_2col(sessions, b):
    return agg(b, lambda: spark_scan(sessions, b), F.sum("price"), F.sum("qty"))


def scan_all(sessions, b):
    return agg(b, lambda: spark_scan(sessions, b), *map(F.max, kit.COLUMNS))


def scan_filter(sessions, b):
    return agg(b, lambda: spark_scan(sessions, b, where=HOUR), F.count("*"), F.sum("price"))


def scan_filter_unprunable(sessions, b):
    return agg(b, lambda: spark_scan(sessions, b, where=UNPRUNABLE), F.count("*"), F.sum("price"))


def mor_read(sessions, b, name):
    return agg(b, lambda: spark_scan(sessions, b, name), F.sum("price"), F.sum("qty"))


def mor_read_pos(sessions, b):
    return mor_read(sessions, b, "mor_pos")


def mor_read_dv(sessions, b):
    return mor_read(sessions, b, "mor_dv")


def mor_read_eq_100k(sessions, b):
    return mor_read(sessions, b, "mor_eq_few")


def mor_read_eq_5m(sessions, b):
    return mor_read(sessions, b, "mor_eq_many")


def source(session, b, name="events"):
    frazil.clear_caches()
    return session.read.format("iceberg").load(str(b.fixture(name)))


def format_scan_2col(sessions, b):
    return agg(b, lambda: source(sessions[0], b), F.sum("price"), F.sum("qty"))


def format_scan_all(sessions, b):
    return agg(b, lambda: source(sessions[0], b), *map(F.max, kit.COLUMNS))


def format_scan_filter(sessions, b):
    return agg(b, lambda: source(sessions[0], b).where(HOUR), F.count("*"), F.sum("price"))


def bare_scan_all(sessions, b):
    return agg(b, lambda: source(sessions[1], b), *map(F.max, kit.COLUMNS))


def bare_scan_filter(sessions, b):
    return agg(b, lambda: source(sessions[1], b).where(HOUR), F.count("*"), F.sum("price"))


def small_files_5000(sessions, b):
    """5000 files, from the location to the sum."""
    table, _ = created(b, "tiny_table", pq.read_schema(next(b.tiny.glob("*.parquet"))))
    table.add_files(sorted(map(str, b.tiny.glob("*.parquet"))))
    with b.timed():
        frazil.clear_caches()
        row = (
            frazil.load_table(table.location())
            .to_spark(sessions[0])
            .agg(F.sum("price"), F.sum("qty"))
            .collect()[0]
        )
    return {"check": kit.shown(*row)}


# --- SQL
# ------------------------------------------------------------------------------------------------


def query(sessions, b, text):
    """From a statement with a table's name to its one row, with nothing remembered from before."""
    frazil.clear_caches()
    with b.timed():
        row = sessions[0].sql(text).collect()[0]
    return {"check": kit.shown(*row)}


def sql_scan_2col(sessions, b):
    return query(sessions, b, "select sum(price), sum(qty) from live.fix.events")


def sql_scan_filter(sessions, b):
    return query(sessions, b, f"select count(*), sum(price) from live.fix.events where {HOUR}")


def sql_write_plain(sessions, b):
    table, where = created(b, "sql_write_plain", sessions[0].read.parquet(str(b.events)).schema)
    frazil.clear_caches()
    with b.timed():
        sessions[0].sql(
            f"insert into scratch.made.sql_write_plain select * from parquet.`{b.events}`"
        )
    return contents(table, where)


def sql_change(sessions, b, name, statement):
    properties = {f"write.{op}.mode": MOR for op in ("delete", "update", "merge")}
    where = table_over(b, b.events, name, format_version=3, properties=properties)
    frazil.clear_caches()
    with b.timed():
        sessions[0].sql(statement.format(table=f"scratch.made.{name}"))
    return contents(frazil.load_table(str(where)), where)


def sql_delete_mor(sessions, b):
    return sql_change(sessions, b, "sql_delete_mor", f"delete from {{table}} where {kit.HIT}")


def sql_update_mor(sessions, b):
    statement = f"update {{table}} set price = price + 1 where {kit.HIT}"
    return sql_change(sessions, b, "sql_update_mor", statement)


def sql_merge_mor(sessions, b):
    statement = (
        f"merge into {{table}} t using parquet.`{b.changes / 'upserts'}` s on t.id = s.id "
        "when matched then update set * when not matched then insert *"
    )
    return sql_change(sessions, b, "sql_merge_mor", statement)


# --- reading with Arrow
# -------------------------------------------------------------------------------------


def arrow_sums(b, where=None, name="events"):
    count = price = qty = 0
    with b.timed():
        scan = opened(b, name).scan(
            selected_fields=("price", "qty"), **({"row_filter": where} if where else {})
        )
        for batch in scan.to_arrow_batch_reader():
            count += len(batch)
            price += pc.sum(batch["price"]).as_py() or 0.0
            qty += pc.sum(batch["qty"]).as_py() or 0
    return {"check": kit.shown(*([count, price] if where else [price, qty]))}


def arrow_scan_2col(sessions, b):
    return arrow_sums(b)


def arrow_scan_filter(sessions, b):
    return arrow_sums(b, HOUR)


def arrow_mor_read_pos(sessions, b):
    return arrow_sums(b, name="mor_pos")


def arrow_mor_read_dv(sessions, b):
    return arrow_sums(b, name="mor_dv")


def arrow_mor_read_eq_100k(sessions, b):
    return arrow_sums(b, name="mor_eq_few")


def arrow_mor_read_eq_5m(sessions, b):
    return arrow_sums(b, name="mor_eq_many")


def arrow_scan_all(sessions, b):
    best = {}
    with b.timed():
        for batch in opened(b, "events").scan().to_arrow_batch_reader():
            for c in kit.COLUMNS:
                top = pc.max(batch[c]).as_py()
                best[c] = max(top, best.get(c, top))
    return {"check": kit.shown(*best.values())}


# --- planning
# -----------------------------------------------------------------------------------------------


def plan(b, lap, where=None, name="plan_100k"):
    with b.timed(lap):
        return len(opened(b, name).scan(**({"row_filter": where} if where else {})).plan_files())


def plan_all_100k(sessions, b):
    files = plan(b, "main")
    with b.timed("files_table"):
        opened(b, "plan_100k").inspect.files()
    return {"check": [str(files)]}


def plan_filter_100k(sessions, b, name="plan_100k"):
    low = b.scale.plan[0] * b.scale.plan[1] // 2 * 1000
    one_day = plan(
        b,
        "one_day",
        "ts >= TIMESTAMP '2024-02-10 00:00:00Z' and ts < TIMESTAMP '2024-02-11 00:00:00Z'",
        name,
    )
    return {
        "check": [str(plan(b, "main", f"id >= {low} and id <= {low + 9999}", name)), str(one_day)]
    }


def plan_all_java(sessions, b):
    return {"check": [str(plan(b, "main", name="plan_java"))]}


def plan_filter_java(sessions, b):
    return plan_filter_100k(sessions, b, "plan_java")


def plan_deletes(sessions, b):
    """Planned with deletes matched; `delete_files`: until every task has its own as objects, as
    Java's tasks do.
    """
    with b.timed("delete_files"):
        with b.timed():
            tasks = opened(b, "plan_deletes").scan().plan_files()
            files = len(tasks)
        deletes = sum(len(t.delete_files) for t in tasks)
    return {"check": kit.shown(files, deletes)}


def metadata_5000(sessions, b):
    file = kit.many_snapshots(b)
    with b.timed():
        table = frazil.load_table(str(file))
        count = len(table.snapshots())
    return {"check": [str(count)]}


# --- writing
# ------------------------------------------------------------------------------------------------


def contents(table, where, price="price"):
    """What the table holds, read back after the clock has stopped."""
    rows, total = 0, 0.0
    for batch in table.refresh().scan(selected_fields=(price,)).to_arrow_batch_reader():
        rows += len(batch)
        total += float(pc.sum(batch[price]).as_py() or 0)
    return {"rows": rows, "check": kit.shown(rows, total), **kit.on_disk(where / "data")}


PARTITIONED = {"partition_by": ["days(ts)", "bucket(16, id)"]}


def spark_append(sessions, b, name, **arguments):
    frame = sessions[0].read.parquet(str(b.events))
    table, where = created(b, name, frame.schema, **arguments)
    with b.timed():
        table.append(frame)
    return contents(table, where)


def write_plain(sessions, b):
    return spark_append(sessions, b, "write_plain")


def write_part(sessions, b):
    return spark_append(sessions, b, "write_part", **PARTITIONED)


def format_append(session, b, name, **arguments):
    frame = session.read.parquet(str(b.events))
    table, where = created(b, name, frame.schema, **arguments)
    with b.timed():
        frame.write.format("iceberg").mode("append").save(str(where))
    return contents(table, where)


def format_write_plain(sessions, b):
    return format_append(sessions[0], b, "format_write_plain")


def format_write_part(sessions, b):
    return format_append(sessions[0], b, "format_write_part", **PARTITIONED)


def bare_write_plain(sessions, b):
    return format_append(sessions[1], b, "bare_write_plain")


def ctas_lineitem(sessions, b):
    frame = sessions[0].read.parquet(str(b.lineitem))
    with b.timed():
        table, where = created(b, "lineitem", frame.schema)
        table.append(frame)
    return contents(table, where, "l_extendedprice")


def arrow_append(b, name, **arguments):
    """A stream of batches, as a user's pipeline hands it in: never the whole table in memory."""
    reader = ds.dataset(sorted(map(str, b.events.glob("*.parquet")))).scanner().to_reader()
    plain = pa.schema([f.remove_metadata() for f in reader.schema])
    table, where = created(b, name, plain, **arguments)
    with b.timed():
        table.append(reader)
    return contents(table, where)


def arrow_write_plain(sessions, b):
    return arrow_append(b, "arrow_write_plain")


def arrow_write_part(sessions, b):
    return arrow_append(b, "arrow_write_part", **PARTITIONED)


def append_latency(b, kept, register):
    """Laps: main = commit of one existing file; write = append of one row."""
    b.restore("snaps", kept)
    table = register(b)
    path = b.small / "small-00000.parquet"
    row = pq.read_table(path).slice(0, 1)
    for _ in range(20):
        with b.timed():
            table.add_files([str(path)], check_duplicate_files=False)
    for _ in range(20):
        with b.timed("write"):
            table.append(row)
    return {"check": [str(table.inspect.files().num_rows)]}


def at_its_path(b):
    return opened(b, "snaps")


def in_sqlite(b):
    where = b.fresh("frazil_sqlite")
    where.mkdir()
    catalog = frazil.load_catalog(
        "bench_sqlite", type="sql", uri=f"sqlite:///{where}/catalog.db", warehouse=str(where)
    )
    catalog.create_namespace("scratch")
    return catalog.register_table("scratch.snaps", str(b.metadata("snaps")))


def append_latency_10(sessions, b):
    return append_latency(b, "snaps_few", at_its_path)


def append_latency_1000(sessions, b):
    return append_latency(b, "snaps_all", at_its_path)


def append_latency_sqlite_10(sessions, b):
    return append_latency(b, "snaps_few", in_sqlite)


def append_latency_sqlite_1000(sessions, b):
    return append_latency(b, "snaps_all", in_sqlite)


# --- changing rows
# ------------------------------------------------------------------------------------------


def table_over(b, source, name, **arguments):
    """A new table over existing files: only metadata is written."""
    files = sorted(map(str, source.glob("*.parquet")))
    table, where = created(b, name, pq.read_schema(files[0]), **arguments)
    table.add_files(files)
    return where


def change(b, source, name, mode, verb, version=3, **arguments):
    """`verb` gets the table, loaded inside the clock; facts are the metrics of what it returns."""
    properties = {f"write.{op}.mode": mode for op in ("delete", "update", "merge")}
    where = table_over(b, source, name, format_version=version, properties=properties, **arguments)
    frazil.clear_caches()
    with b.timed():
        table = frazil.load_table(str(where))
        result = verb(table)
    facts = {k: v for k, v in result.metrics.items() if v}
    return {**facts, **contents(table, where)}


MOR, COW = "merge-on-read", "copy-on-write"


def in_process():
    """A session is active here; these are the doors without one."""
    return InProcess()


def delete_mor(sessions, b):
    return change(b, b.events, "delete_mor", MOR, lambda t: t.delete(kit.HIT, spark=sessions[0]))


def delete_cow(sessions, b):
    return change(b, b.events, "delete_cow", COW, lambda t: t.delete(kit.HIT, spark=sessions[0]))


def update_mor(sessions, b):
    return change(
        b,
        b.events,
        "update_mor",
        MOR,
        lambda t: t.update(set={"price": "price + 1"}, where=kit.HIT, spark=sessions[0]),
    )


def merged(table, frame, **where):
    return (
        table.merge(frame, on="target.id = source.id", **where)
        .when_matched_update_all()
        .when_not_matched_insert_all()
        .execute()
    )


def merge_mor(sessions, b):
    return change(
        b,
        b.events,
        "merge_mor",
        MOR,
        lambda t: merged(t, sessions[0].read.parquet(str(b.changes / "upserts"))),
    )


def merge_cow(sessions, b):
    return change(
        b,
        b.events,
        "merge_cow",
        COW,
        lambda t: merged(t, sessions[0].read.parquet(str(b.changes / "upserts"))),
    )


def upsert_keys(sessions, b):
    frame = lambda: sessions[0].read.parquet(str(b.changes / "keyed"))
    return change(
        b,
        b.keyed,
        "upsert_keys",
        COW,
        lambda t: t.upsert(frame(), join_cols=["tenant", "code"]),
        version=2,
    )


def rows(b, name):
    return ds.dataset(str(b.changes / name)).scanner().to_reader()


def convert_equality_deletes(sessions, b):
    """The 100k equality deletes of mor_eq_few, as position deletes."""
    where = b.restore("mor_eq_few")
    with b.timed():
        table = opened(b, "mor_eq_few")
        result = table.maintenance.convert_equality_deletes(spark=sessions[0])
    left = [f for f in table.refresh().inspect.delete_files().to_pylist() if f["content"] == 2]
    facts = contents(table, where)
    return {
        "deleted": result.deleted_rows_count,
        **facts,
        "check": [*facts["check"], str(len(left))],
    }


def arrow_delete_mor(sessions, b):
    return change(
        b, b.events, "arrow_delete_mor", MOR, lambda t: t.delete(kit.HIT, runner=in_process())
    )


def arrow_delete_cow(sessions, b):
    return change(
        b, b.events, "arrow_delete_cow", COW, lambda t: t.delete(kit.HIT, runner=in_process())
    )


def arrow_merge_cow(sessions, b):
    return change(
        b,
        b.events,
        "arrow_merge_cow",
        COW,
        lambda t: merged(t, rows(b, "upserts"), runner=in_process()),
    )


def arrow_upsert_keys(sessions, b):
    upsert = lambda t: t.upsert(rows(b, "keyed"), join_cols=["tenant", "code"], runner=in_process())
    return change(b, b.keyed, "arrow_upsert_keys", COW, upsert, version=2)


# --- upkeep
# -------------------------------------------------------------------------------------------------


def compact(sessions, b, name, **arguments):
    """Laps: main, the table's location to the commit."""
    b.restore(name)
    with b.timed():
        table = opened(b, name)
        result = table.maintenance.rewrite_data_files(spark=sessions[0], **arguments)
    files = {"files": result.added_data_files_count, "rewritten": result.rewritten_data_files_count}
    return table, {**contents(table, b.fixture(name)), **files}


TO_32MB = {"target-file-size-bytes": 32 << 20}


def compact_binpack(sessions, b):
    return compact(sessions, b, "small", options={**TO_32MB, "min-input-files": 2})[1]


def compact_sort(sessions, b):
    return compact(
        sessions, b, "small", sort_order="product_id", options={**TO_32MB, "rewrite-all": True}
    )[1]


def compact_zorder(sessions, b):
    return compact(
        sessions,
        b,
        "small",
        sort_order="zorder(product_id, order_id)",
        options={**TO_32MB, "rewrite-all": True},
    )[1]


def cluster_boxes(sessions, b, curve, *columns):
    """Files of 1 MB, so that the table has over a hundred of them; how much of them box queries
    read.
    """
    options = {"target-file-size-bytes": 1 << 20, "rewrite-all": True}
    table, facts = compact(
        sessions, b, "small", sort_order=f"{curve}({', '.join(columns)})", options=options
    )
    paths = [
        p.removeprefix("file:")
        for p in table.refresh().inspect.files().column("file_path").to_pylist()
    ]
    return {**facts, **read_by_boxes(paths, columns)}


def cluster_boxes_zorder(sessions, b):
    return cluster_boxes(sessions, b, *ZORDER)


def cluster_boxes_price(sessions, b):
    return cluster_boxes(sessions, b, *PRICE)


def cluster_boxes_hilbert(sessions, b):
    return cluster_boxes(sessions, b, *HILBERT)


def compact_deletes(sessions, b):
    table, facts = compact(
        sessions, b, "mor_dv", options={"delete-file-threshold": 1, "rewrite-all": True}
    )
    return {**facts, "check": facts["check"] + kit.shown(table.inspect.delete_files().num_rows)}


def rewrite_manifests(sessions, b):
    b.restore("manifests_100")
    with b.timed():
        table = opened(b, "manifests_100")
        result = table.maintenance.rewrite_manifests()
    rows = table.refresh().inspect.data_files().num_rows
    return {
        "rewritten": result.rewritten_manifests_count,
        "added": result.added_manifests_count,
        "check": kit.shown(rows),
    }


def expire_1000(sessions, b):
    b.restore("expire")
    later = datetime.datetime.now(datetime.UTC) + datetime.timedelta(hours=1)
    with b.timed():
        table = opened(b, "expire")
        result = table.maintenance.expire_snapshots(older_than=later, retain_last=10)
    left = len(table.refresh().metadata.snapshots)
    facts = {
        "deleted": result.deleted_data_files_count,
        "manifests": result.deleted_manifest_files_count,
    }
    return {**facts, "check": kit.shown(left, kit.on_disk(b.fixture("expire") / "data")["files"])}


def orphan_20k(sessions, b):
    b.restore("orphan")
    then = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=5)
    with b.timed():
        result = opened(b, "orphan").maintenance.remove_orphan_files(older_than=then, dry_run=True)
    return {"check": kit.shown(len(result))}


# --- streams
# ------------------------------------------------------------------------------------------------


def stream_sink(sessions, b):
    schema = sessions[0].read.parquet(str(b.stream_in)).schema
    frame = (
        sessions[0]
        .readStream.schema(schema)
        .option("maxFilesPerTrigger", 1)
        .parquet(str(b.stream_in))
    )
    _, where = created(b, "stream_sink", schema)
    with b.timed():
        batches = s.run_stream(
            b, "stream_sink", frame, lambda w: w.format("iceberg").start(str(where))
        )
    return {**s.batch_facts(batches), **kit.on_disk(where / "data")}


def stream_source(sessions, b, **options):
    b.restore("snaps", "snaps_half")
    frame = opened(b, "snaps").read_stream(
        sessions[0], starting_strategy="INCREMENTAL_FROM_EARLIEST_SNAPSHOT", **options
    )
    with b.timed():
        batches = s.run_stream(b, "stream_source", frame, lambda w: w.format("noop").start())
    return s.batch_facts(batches)


def stream_source_limited(sessions, b):
    return stream_source(sessions, b, streaming_max_files_per_micro_batch=50)


# --- start
# --------------------------------------------------------------------------------------------------


def import_only(sessions, b):
    """`import frazil`, less what Python itself takes."""
    best = lambda code: min(seconds(code) for _ in range(5))
    took = best("import frazil") - best("pass")
    b.laps.setdefault("main", []).append(round(took, 4))
    b.cpu.setdefault("main", []).append(round(took, 2))
    return {}


def seconds(code):
    begin = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True)
    return time.perf_counter() - begin


def cold_start(sessions, b):
    b.restore("snaps", "snaps_few")
    return start.cold(b, "frazil", "frazil")


def hello(b):
    prepared, _ = open(b)
    return (
        frazil.load_table(str(b.fixture("snaps")))
        .to_spark(prepared)
        .agg(F.sum("price"))
        .collect()[0]
    )
