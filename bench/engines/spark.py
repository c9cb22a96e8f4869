"""Native Parquet through Spark: the floor. Where Parquet has no such operation, the least work that
gives the same rows.
"""

import kit
from kit import Unsupported
from pyspark.sql import functions as F

from engines import session as s
from engines import start

NAME = "spark"


def open(b):
    return s.session()


def version(spark):
    return spark.version


settle = s.settle


def parquet(spark, path):
    return spark.read.parquet(str(path))


def scan(frame, b, *outputs):
    with b.timed():
        row = frame.agg(*outputs).collect()[0]
    return {"check": kit.shown(*row)}


def write(b, name, frame, by=()):
    where = b.fresh(name)
    with b.timed():
        frame.write.partitionBy(*by).parquet(str(where))
    return contents(frame.sparkSession, where)


def contents(spark, where):
    """What was written, read back after the clock has stopped."""
    frame = spark.read.option("recursiveFileLookup", True).parquet(str(where))
    rows, total = frame.agg(
        F.count("*"),
        F.sum("price" if "price" in frame.columns else "l_extendedprice").cast("double"),
    ).collect()[0]
    return {**kit.on_disk(where), "rows": rows, "check": kit.shown(rows, total)}


# --- reading
# ------------------------------------------------------------------------------------------------


def scan_2col(spark, b):
    return scan(parquet(spark, b.events), b, F.sum("price"), F.sum("qty"))


def scan_all(spark, b):
    return scan(parquet(spark, b.events), b, *map(F.max, kit.COLUMNS))


def scan_filter(spark, b):
    hour = "ts >= '2024-01-04 12:00:00Z' and ts < '2024-01-04 13:00:00Z'"
    return scan(parquet(spark, b.events).where(hour), b, F.count("*"), F.sum("price"))


def scan_filter_unprunable(spark, b):
    return scan(
        parquet(spark, b.events).where("cat = 'c7' and qty < 10"), b, F.count("*"), F.sum("price")
    )


def mor_read_pos(spark, b):
    """The floor: the rows without the deleted ones, by their predicate."""
    return scan(parquet(spark, b.events).where(f"not ({kit.HIT})"), b, F.sum("price"), F.sum("qty"))


mor_read_dv = mor_read_pos


def mor_read_eq(spark, b, ids):
    """The floor: a plain left-anti join."""
    return scan(
        parquet(spark, b.events).join(parquet(spark, b.deletes / ids), "id", "left_anti"),
        b,
        F.sum("price"),
        F.sum("qty"),
    )


def mor_read_eq_100k(spark, b):
    return mor_read_eq(spark, b, "eq_few.parquet")


def mor_read_eq_5m(spark, b):
    return mor_read_eq(spark, b, "eq_many.parquet")


# --- planning
# -----------------------------------------------------------------------------------------------


def plan(spark, b, where):
    """The floor: listing a Hive-style folder of one-byte files, with the schema given."""
    with b.timed("spark_partitions"), b.timed():
        frame = spark.read.schema("amount double, day date").parquet(str(b.plan_files)).where(where)
        partitions = frame._jdf.queryExecution().executedPlan().execute().getNumPartitions()
    return {"partitions": partitions}


def plan_all_100k(spark, b):
    return plan(spark, b, "true")


def plan_filter_100k(spark, b):
    return plan(spark, b, "day = '2024-02-10'")


def plan_deletes(spark, b):
    raise Unsupported("Parquet folders have no deletes")


# --- writing
# ------------------------------------------------------------------------------------------------


def write_plain(spark, b):
    return write(b, "write_plain", parquet(spark, b.events))


def write_part(spark, b):
    parts = [F.to_date("ts").alias("day"), F.expr("pmod(hash(id), 16)").alias("bucket")]
    frame = parquet(spark, b.events).select("*", *parts).repartition("day", "bucket")
    return write(b, "write_part", frame, ["day", "bucket"])


def ctas_lineitem(spark, b):
    return write(b, "lineitem", parquet(spark, b.lineitem))


def append_latency_10(spark, b):
    """One row appended to a folder: the floor of `write`, and of main as there is no commit of an
    existing file.
    """
    where, row = (
        b.fresh("append"),
        parquet(spark, b.small / "small-00000.parquet").limit(1).toPandas(),
    )
    schema = parquet(spark, b.small).schema
    for _ in range(20):
        frame = spark.createDataFrame(row, schema)
        with b.timed("write"), b.timed():
            frame.write.mode("append").parquet(str(where))
    return {}


append_latency_1000 = append_latency_10

# --- changing rows: rewriting the folder (copy-on-write), or noting positions and new rows
# (merge-on-read) ----


def positions(frame):
    return frame.select("_metadata.file_path", "_metadata.row_index")


def both(b, name, **frames):
    """Two jobs, one lap."""
    where = b.fresh(name)
    with b.timed():
        for part, frame in frames.items():
            frame.write.parquet(str(where / part))
    return kit.on_disk(where)


def delete_mor(spark, b):
    return both(b, "delete_mor", deletes=positions(parquet(spark, b.events).where(kit.HIT)))


def delete_cow(spark, b):
    return write(b, "delete_cow", parquet(spark, b.events).where(f"not ({kit.HIT})"))


def update_mor(spark, b):
    hit = parquet(spark, b.events).where(kit.HIT)
    return both(
        b, "update_mor", deletes=positions(hit), rows=hit.withColumn("price", F.col("price") + 1)
    )


def merge_mor(spark, b):
    upserts = parquet(spark, b.changes / "upserts")
    rows = parquet(spark, b.events).select("id", "_metadata.file_path", "_metadata.row_index")
    return both(
        b,
        "merge_mor",
        deletes=rows.join(upserts.select("id"), "id", "left_semi").drop("id"),
        rows=upserts,
    )


def merge_cow(spark, b):
    upserts = parquet(spark, b.changes / "upserts")
    kept = (
        parquet(spark, b.events).join(upserts.select("id"), "id", "left_anti").select(kit.COLUMNS)
    )
    both(b, "merge_cow", kept=kept, rows=upserts)
    return contents(spark, b.live / "scratch" / "merge_cow")


def upsert_keys(spark, b):
    """The floor: the whole folder again, as merge_cow."""
    upserts = parquet(spark, b.changes / "keyed")
    kept = parquet(spark, b.keyed).join(
        upserts.select("tenant", "code"), ["tenant", "code"], "left_anti"
    )
    both(b, "upsert_keys", kept=kept, rows=upserts.select(kept.columns))
    return contents(spark, b.live / "scratch" / "upsert_keys")


# --- maintenance
# --------------------------------------------------------------------------------------------


def target_files(folder, size):
    return max(1, round(kit.on_disk(folder)["bytes"] / size))


def compact_binpack(spark, b):
    return write(b, "compact", parquet(spark, b.small).coalesce(target_files(b.small, 32 << 20)))


def compact_sort(spark, b):
    return write(
        b,
        "compact",
        parquet(spark, b.small)
        .repartitionByRange(target_files(b.small, 32 << 20), "product_id")
        .sortWithinPartitions("product_id"),
    )


def compact_zorder(spark, b):
    """The floor: a plain sort by both columns."""
    keys = ["product_id", "order_id"]
    return write(
        b,
        "compact",
        parquet(spark, b.small)
        .repartitionByRange(target_files(b.small, 32 << 20), *keys)
        .sortWithinPartitions(*keys),
    )


def compact_deletes(spark, b):
    facts = write(b, "compact", parquet(spark, b.events).where(f"not ({kit.HIT})"))
    return {**facts, "check": [*facts["check"], "0"]}  # no deletes left


def convert_equality_deletes(spark, b):
    """The floor: the places of the rows with these ids, found and written."""
    rows = parquet(spark, b.events).select("id", "_metadata.file_path", "_metadata.row_index")
    return both(
        b,
        "convert",
        deletes=rows.join(parquet(spark, b.deletes / "eq_few.parquet"), "id", "left_semi").drop(
            "id"
        ),
    )


def rewrite_manifests(spark, b):
    raise Unsupported("Parquet folders have no manifests")


def expire_1000(spark, b):
    raise Unsupported("Parquet folders have no snapshots")


def orphan_20k(spark, b):
    """The floor: listing the folder."""
    b.restore("orphan")
    with b.timed():
        files = (
            spark.read.format("binaryFile")
            .option("recursiveFileLookup", True)
            .load(f"{b.fixture('orphan')}/data")
            .inputFiles()
        )
    return {"files": len(files)}  # all of them: the others count orphans


# --- streams
# ------------------------------------------------------------------------------------------------


def stream_sink(spark, b):
    where = b.fresh("stream_sink")
    frame = (
        spark.readStream.schema(parquet(spark, b.stream_in).schema)
        .option("maxFilesPerTrigger", 1)
        .parquet(str(b.stream_in))
    )
    with b.timed():
        batches = s.run_stream(
            b,
            "stream_sink",
            frame,
            lambda w: w.format("parquet").option("path", str(where)).start(),
        )
    return {**s.batch_facts(batches), **kit.on_disk(where)}


def stream_source(spark, b, **options):
    """The same number of files as the table has snapshots."""
    schema, few = (
        parquet(spark, b.small).schema,
        f"{{{','.join(f'small-{i:05d}.parquet' for i in range(b.scale.snapshots[1]))}}}",
    )
    frame = spark.readStream.schema(schema).options(**options).parquet(f"{b.small}/{few}")
    with b.timed():
        batches = s.run_stream(b, "stream_source", frame, lambda w: w.format("noop").start())
    return s.batch_facts(batches)


def stream_source_limited(spark, b):
    return stream_source(spark, b, maxFilesPerTrigger=50)


# --- many small files
# -----------------------------------------------------------------------------------------


def small_files_5000(spark, b):
    """The floor: the same rows in eight files."""
    return scan(parquet(spark, b.tiny_8), b, F.sum("price"), F.sum("qty"))


# --- start
# --------------------------------------------------------------------------------------------------


def cold_start(spark, b):
    return start.cold(b, "spark", "pyspark")


def hello(b):
    files = [str(b.small / f"small-{i:05d}.parquet") for i in range(b.scale.snapshots[0])]
    return open(b).read.parquet(*files).agg(F.sum("price")).collect()[0]
