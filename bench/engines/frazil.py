"""Frazil: to_spark and append of DataFrames on Spark's own plan; format("iceberg") prepared and bare; Arrow without Spark."""
import gc
import subprocess
import sys
import time

import kit
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq
from pyspark.sql import functions as F

import frazil
from engines import session as s
from engines import start

NAME = "frazil"
HOUR = "ts >= TIMESTAMP '2024-01-04 12:00:00Z' and ts < TIMESTAMP '2024-01-04 13:00:00Z'"
UNPRUNABLE = "cat = 'c7' and qty < 10"


def open(b):
    """(a prepared session, a bare one beside it)"""
    bare = s.session()
    return frazil.install(bare.newSession()), bare


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


# --- reading through Spark ----------------------------------------------------------------------------------


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
        row = frazil.load_table(table.location()).to_spark(sessions[0]).agg(F.sum("price"), F.sum("qty")).collect()[0]
    return {"check": kit.shown(*row)}


# --- reading with Arrow -------------------------------------------------------------------------------------


def arrow_sums(b, where=None):
    count = price = qty = 0
    with b.timed():
        scan = opened(b, "events").scan(selected_fields=("price", "qty"), **({"row_filter": where} if where else {}))
        for batch in scan.to_arrow_batch_reader():
            count += len(batch)
            price += pc.sum(batch["price"]).as_py() or 0.0
            qty += pc.sum(batch["qty"]).as_py() or 0
    return {"check": kit.shown(*([count, price] if where else [price, qty]))}


def arrow_scan_2col(sessions, b):
    return arrow_sums(b)


def arrow_scan_filter(sessions, b):
    return arrow_sums(b, HOUR)


def arrow_scan_all(sessions, b):
    best = {}
    with b.timed():
        for batch in opened(b, "events").scan().to_arrow_batch_reader():
            for c in kit.COLUMNS:
                top = pc.max(batch[c]).as_py()
                best[c] = max(top, best.get(c, top))
    return {"check": kit.shown(*best.values())}


# --- planning -----------------------------------------------------------------------------------------------


def plan(b, lap, where=None):
    with b.timed(lap):
        return len(opened(b, "plan_100k").scan(**({"row_filter": where} if where else {})).plan_files())


def plan_all_100k(sessions, b):
    files = plan(b, "main")
    with b.timed("files_table"):
        opened(b, "plan_100k").inspect.files()
    return {"check": [str(files)]}


def plan_filter_100k(sessions, b):
    low = b.scale.plan[0] * b.scale.plan[1] // 2 * 1000
    one_day = plan(b, "one_day", "ts >= TIMESTAMP '2024-02-10 00:00:00Z' and ts < TIMESTAMP '2024-02-11 00:00:00Z'")
    return {"check": [str(plan(b, "main", f"id >= {low} and id <= {low + 9999}")), str(one_day)]}


def metadata_5000(sessions, b):
    file = kit.many_snapshots(b)
    with b.timed():
        table = frazil.load_table(str(file))
        count = len(table.snapshots())
    return {"check": [str(count)]}


# --- writing ------------------------------------------------------------------------------------------------


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
    catalog = frazil.load_catalog("bench_sqlite", type="sql", uri=f"sqlite:///{where}/catalog.db", warehouse=str(where))
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


# --- start --------------------------------------------------------------------------------------------------


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
    return frazil.load_table(str(b.fixture("snaps"))).to_spark(prepared).agg(F.sum("price")).collect()[0]
