"""Java Iceberg on Spark (iceberg-spark-runtime, BENCH_JAR), Hadoop catalog over the folder live/."""

import datetime
import shutil

import kit
from boxes import HILBERT, PRICE, ZORDER, read_by_boxes
from pyspark.sql import functions as F

from engines import session as s
from engines import start

NAME = "java"
TABLE_32MB = "'target-file-size-bytes','33554432'"


def open(b):
    return s.session(
        **{
            "spark.jars": s.java_jar(),
            "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
            "spark.sql.catalog.j": "org.apache.iceberg.spark.SparkCatalog",
            "spark.sql.catalog.j.type": "hadoop",
            "spark.sql.catalog.j.warehouse": f"file://{b.live}",
            "spark.sql.catalog.j.cache-enabled": "false",
        }
    )


def version(spark):
    return f"{s.java_jar().rpartition('-')[2].removesuffix('.jar')}/spark-{spark.version}"


settle = s.settle


def sql(spark, text):
    return spark.sql(text).collect()


def core(spark, b, table):
    """The table as the Java core API sees it."""
    return spark._jvm.org.apache.iceberg.hadoop.HadoopTables(spark._jsc.hadoopConfiguration()).load(
        f"file://{b.fixture(table)}"
    )


def empty(spark, b, source, name, **props):
    """A new table with the columns of the Parquet files in `source`."""
    ddl = ", ".join(
        f"{c.name} {c.dataType.simpleString()}" for c in spark.read.parquet(str(source)).schema
    )
    shutil.rmtree(b.live / name.replace(".", "/"), ignore_errors=True)
    given = ", ".join(f"'{k}'='{v}'" for k, v in props.items())
    sql(spark, f"create table j.{name} ({ddl}) using iceberg tblproperties ({given})")
    return f"j.{name}"


def table_of(spark, b, source, name, **props):
    """A new table over existing Parquet files: only metadata is written."""
    empty(spark, b, source, name, **props)
    sql(
        spark,
        f"call j.system.add_files(table => '{name}', source_table => 'parquet.`{source}`', check_duplicate_files => false)",
    )
    return f"j.{name}"


def mode(value, version=3):
    return {
        "format-version": version,
        **{f"write.{op}.mode": value for op in ("delete", "update", "merge")},
    }


def last_summary(spark, table):
    summary = sql(
        spark, f"select summary from {table}.snapshots order by committed_at desc limit 1"
    )[0][0]
    keep = (
        "added-data-files deleted-data-files added-delete-files added-dvs added-files-size".split()
    )
    facts = {k.replace("-", "_"): int(summary[k]) for k in keep if k in summary}
    return {
        "files": facts.pop("added_data_files", 0),
        "bytes": facts.pop("added_files_size", 0),
        **facts,
    }


def contents(spark, table, price="price"):
    """What the table holds, read back after the clock has stopped."""
    rows, total = sql(spark, f"select count(*), cast(sum({price}) as double) from {table}")[0]
    return {"rows": rows, "check": kit.shown(rows, total)}


# --- reading
# ------------------------------------------------------------------------------------------------


def scan(spark, b, query):
    with b.timed():
        rows = sql(spark, query)
    return {"check": kit.shown(*rows[0])}


def scan_2col(spark, b, table="j.fix.events"):
    return scan(spark, b, f"select sum(price), sum(qty) from {table}")


def scan_all(spark, b):
    return scan(spark, b, f"select {', '.join(f'max({c})' for c in kit.COLUMNS)} from j.fix.events")


def scan_filter(spark, b):
    return scan(
        spark,
        b,
        "select count(*), sum(price) from j.fix.events where ts >= '2024-01-04 12:00:00Z' and ts < '2024-01-04 13:00:00Z'",
    )


def scan_filter_unprunable(spark, b):
    return scan(
        spark, b, "select count(*), sum(price) from j.fix.events where cat = 'c7' and qty < 10"
    )


def mor_read_pos(spark, b):
    return scan_2col(spark, b, "j.fix.mor_pos")


def mor_read_dv(spark, b):
    return scan_2col(spark, b, "j.fix.mor_dv")


def mor_read_eq_100k(spark, b):
    return scan_2col(spark, b, "j.fix.mor_eq_few")


def mor_read_eq_5m(spark, b):
    return scan_2col(spark, b, "j.fix.mor_eq_many")


# --- planning
# -----------------------------------------------------------------------------------------------


def plan(spark, b, lap, condition=None, name="plan_100k"):
    """From the location of the table to its file tasks, counted inside the JVM."""
    size = spark._jvm.org.apache.iceberg.relocated.com.google.common.collect.Iterables.size
    with b.timed(lap):
        scan = core(spark, b, name).newScan()
        return size((scan.filter(condition) if condition else scan).planFiles())


def plan_in_spark(spark, b, where):
    """The same query up to its partitions, as a user of Spark waits for it."""
    with b.timed("spark_partitions"):
        frame = spark.table("j.fix.plan_100k").where(where).select("amount")
        frame._jdf.queryExecution().executedPlan().execute().getNumPartitions()


def plan_all_100k(spark, b):
    files = plan(spark, b, "main")
    plan_in_spark(spark, b, "true")
    with b.timed("files_table"):
        sql(spark, "select count(*) from j.fix.plan_100k.files")
    return {"check": [str(files)]}


def filtered(spark, b, name):
    """Files planned by a range of id, and by a day."""
    ex = spark._jvm.org.apache.iceberg.expressions.Expressions
    both = getattr(ex, "and")
    low = b.scale.plan[0] * b.scale.plan[1] // 2 * 1000
    files = plan(
        spark,
        b,
        "main",
        both(ex.greaterThanOrEqual("id", low), ex.lessThanOrEqual("id", low + 9999)),
        name,
    )
    day = both(
        ex.greaterThanOrEqual("ts", "2024-02-10T00:00:00+00:00"),
        ex.lessThan("ts", "2024-02-11T00:00:00+00:00"),
    )
    return {"check": [str(files), str(plan(spark, b, "one_day", day, name))]}


def plan_filter_100k(spark, b):
    facts = filtered(spark, b, "plan_100k")
    low = b.scale.plan[0] * b.scale.plan[1] // 2 * 1000
    plan_in_spark(spark, b, f"id between {low} and {low + 9999}")
    return facts


def plan_all_java(spark, b):
    return {"check": [str(plan(spark, b, "main", name="plan_java"))]}


def plan_filter_java(spark, b):
    return filtered(spark, b, "plan_java")


def plan_deletes(spark, b):
    """Every task has its deletes with it here; how many is in the report of the scan."""
    jvm = spark._jvm.org.apache.iceberg
    size, kept = (
        jvm.relocated.com.google.common.collect.Iterables.size,
        jvm.metrics.InMemoryMetricsReporter(),
    )
    with b.timed():
        tasks = core(spark, b, "plan_deletes").newScan().metricsReporter(kept).planFiles()
        files = size(tasks)
        tasks.close()
    return {"check": kit.shown(files, kept.scanReport().scanMetrics().resultDeleteFiles().value())}


def metadata_5000(spark, b):
    file = kit.many_snapshots(b)
    io = spark._jvm.org.apache.iceberg.hadoop.HadoopFileIO(spark._jsc.hadoopConfiguration())
    with b.timed():
        count = (
            spark._jvm.org.apache.iceberg.TableMetadataParser.read(io, str(file)).snapshots().size()
        )
    return {"check": [str(count)]}


# --- writing
# ------------------------------------------------------------------------------------------------


def write_plain(spark, b):
    table, data = "j.scratch.write_plain", spark.read.parquet(str(b.events))
    where = b.fresh("write_plain")
    data.limit(0).writeTo(table).using("iceberg").create()
    with b.timed():
        data.writeTo(table).append()
    return {**contents(spark, table), **kit.on_disk(where / "data")}


def write_part(spark, b):
    table, data = "j.scratch.write_part", spark.read.parquet(str(b.events))
    where = b.fresh("write_part")
    data.limit(0).writeTo(table).using("iceberg").partitionedBy(
        F.partitioning.days("ts"), F.partitioning.bucket(16, "id")
    ).create()
    with b.timed():
        data.writeTo(table).append()
    return {**contents(spark, table), **kit.on_disk(where / "data")}


def ctas_lineitem(spark, b):
    where = b.fresh("lineitem")
    with b.timed():
        sql(
            spark,
            f"create table j.scratch.lineitem using iceberg as select * from parquet.`{b.lineitem}`",
        )
    return {
        **contents(spark, "j.scratch.lineitem", "l_extendedprice"),
        **kit.on_disk(where / "data"),
    }


def append_latency(spark, b, kept):
    """Laps: main = core API, one commit of an existing file; write = writeTo of one row."""
    b.restore("snaps", kept)
    path = b.small / "small-00000.parquet"
    table, row = core(spark, b, "snaps"), spark.read.parquet(str(path)).limit(1).toPandas()
    file = data_file(spark, table, path, b.scale.small[1])
    for _ in range(20):
        with b.timed():
            table.newAppend().appendFile(file).commit()
    for _ in range(20):
        frame = spark.createDataFrame(row, spark.table("j.fix.snaps").schema)
        with b.timed("write"):
            frame.writeTo("j.fix.snaps").append()
    return {"check": kit.shown(sql(spark, "select count(*) from j.fix.snaps.files")[0][0])}


def append_latency_10(spark, b):
    return append_latency(spark, b, "snaps_few")


def append_latency_1000(spark, b):
    return append_latency(spark, b, "snaps_all")


def data_file(spark, table, path, rows):
    build = spark._jvm.org.apache.iceberg.DataFiles.builder(table.spec())
    return (
        build.withPath(f"file:{path}")
        .withFormat("parquet")
        .withFileSizeInBytes(path.stat().st_size)
        .withRecordCount(rows)
        .build()
    )


# --- changing rows
# ------------------------------------------------------------------------------------------


def change(spark, b, name, how, statement):
    table = table_of(spark, b, b.events, f"scratch.{name}", **mode(how))
    with b.timed():
        sql(spark, statement.format(t=table))
    return {**last_summary(spark, table), **contents(spark, table)}


def delete_mor(spark, b):
    return change(spark, b, "delete_mor", "merge-on-read", f"delete from {{t}} where {kit.HIT}")


def delete_cow(spark, b):
    return change(spark, b, "delete_cow", "copy-on-write", f"delete from {{t}} where {kit.HIT}")


def update_mor(spark, b):
    return change(
        spark,
        b,
        "update_mor",
        "merge-on-read",
        f"update {{t}} set price = price + 1 where {kit.HIT}",
    )


def merge(spark, b, name, how):
    source = f"parquet.`{b.changes}/upserts`"
    return change(
        spark,
        b,
        name,
        how,
        f"merge into {{t}} t using {source} s on t.id = s.id when matched then update set * when not matched then insert *",
    )


def merge_mor(spark, b):
    return merge(spark, b, "merge_mor", "merge-on-read")


def merge_cow(spark, b):
    return merge(spark, b, "merge_cow", "copy-on-write")


def upsert_keys(spark, b):
    source, columns = f"parquet.`{b.changes}/keyed`", "t.tenant = s.tenant and t.code = s.code"
    table = table_of(spark, b, b.keyed, "scratch.upsert_keys", **mode("copy-on-write", 2))
    with b.timed():
        sql(
            spark,
            f"merge into {table} t using {source} s on {columns} when matched then update set * when not matched then insert *",
        )
    return {**last_summary(spark, table), **contents(spark, table)}


# --- maintenance
# --------------------------------------------------------------------------------------------


def maintain(spark, b, table, call):
    b.restore(table)
    with b.timed():
        rows = sql(spark, f"call j.system.{call}")
    return {"removed": len(rows)} if call.startswith("remove") else rows[0].asDict()


def compact(spark, b, arguments, options):
    facts = maintain(
        spark,
        b,
        "small",
        f"rewrite_data_files(table => 'fix.small', {arguments} options => map({TABLE_32MB}, {options}))",
    )
    return {**facts, **last_summary(spark, "j.fix.small"), **contents(spark, "j.fix.small")}


def compact_binpack(spark, b):
    return compact(spark, b, "", "'min-input-files', '2'")


def compact_sort(spark, b):
    return compact(
        spark, b, "strategy => 'sort', sort_order => 'product_id',", "'rewrite-all', 'true'"
    )


def compact_zorder(spark, b):
    return compact(
        spark,
        b,
        "strategy => 'sort', sort_order => 'zorder(product_id, order_id)',",
        "'rewrite-all', 'true'",
    )


def cluster_boxes(spark, b, curve, *columns):
    """Files of 1 MB, so that the table has over a hundred of them; how much of them box queries
    read.
    """
    options = "map('target-file-size-bytes', '1048576', 'rewrite-all', 'true')"
    order = f"strategy => 'sort', sort_order => '{curve}({', '.join(columns)})'"
    maintain(
        spark,
        b,
        "small",
        f"rewrite_data_files(table => 'fix.small', {order}, options => {options})",
    )
    paths = [
        r[0].removeprefix("file:") for r in sql(spark, "select file_path from j.fix.small.files")
    ]
    return {
        **last_summary(spark, "j.fix.small"),
        **contents(spark, "j.fix.small"),
        **read_by_boxes(paths, columns),
    }


def cluster_boxes_zorder(spark, b):
    return cluster_boxes(spark, b, *ZORDER)


def cluster_boxes_price(spark, b):
    return cluster_boxes(spark, b, *PRICE)


def cluster_boxes_hilbert(spark, b):
    return cluster_boxes(spark, b, *HILBERT)


def compact_deletes(spark, b):
    facts = maintain(
        spark,
        b,
        "mor_dv",
        "rewrite_data_files(table => 'fix.mor_dv', options => map('delete-file-threshold', '1', 'rewrite-all', 'true'))",
    )
    facts = {**facts, **last_summary(spark, "j.fix.mor_dv"), **contents(spark, "j.fix.mor_dv")}
    left = sql(spark, "select count(*) from j.fix.mor_dv.delete_files")[0][0]
    return {**facts, "check": facts["check"] + kit.shown(left)}


def convert_equality_deletes(spark, b):
    raise kit.Unsupported("no such procedure on Spark")


def rewrite_manifests(spark, b):
    facts = maintain(spark, b, "manifests_100", "rewrite_manifests('fix.manifests_100')")
    return {
        **facts,
        "check": kit.shown(sql(spark, "select count(*) from j.fix.manifests_100.files")[0][0]),
    }


def expire_1000(spark, b):
    later = datetime.datetime.now(datetime.UTC) + datetime.timedelta(hours=1)
    facts = maintain(
        spark,
        b,
        "expire",
        f"expire_snapshots(table => 'fix.expire', older_than => timestamp '{later:%F %T}', retain_last => 10)",
    )
    left = sql(spark, "select count(*) from j.fix.expire.snapshots")[0][0]
    return {**facts, "check": kit.shown(left, kit.on_disk(b.fixture("expire") / "data")["files"])}


def orphan_20k(spark, b):
    then = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=5)
    facts = maintain(
        spark,
        b,
        "orphan",
        f"remove_orphan_files(table => 'fix.orphan', older_than => timestamp '{then:%F %T}', dry_run => true)",
    )
    return {"check": kit.shown(facts["removed"])}


# --- streams
# ------------------------------------------------------------------------------------------------


def stream_sink(spark, b):
    where = b.fresh("stream_sink")
    files = spark.read.parquet(str(b.stream_in))
    files.limit(0).writeTo("j.scratch.stream_sink").using("iceberg").create()
    frame = (
        spark.readStream.schema(files.schema)
        .option("maxFilesPerTrigger", 1)
        .parquet(str(b.stream_in))
    )
    with b.timed():
        batches = s.run_stream(
            b, "stream_sink", frame, lambda w: w.format("iceberg").toTable("j.scratch.stream_sink")
        )
    return {**s.batch_facts(batches), **kit.on_disk(where / "data")}


def stream_source(spark, b, **options):
    b.restore("snaps", "snaps_half")
    frame = spark.readStream.format("iceberg").options(**options).load("j.fix.snaps")
    with b.timed():
        batches = s.run_stream(b, "stream_source", frame, lambda w: w.format("noop").start())
    return s.batch_facts(batches)


def stream_source_limited(spark, b):
    return stream_source(spark, b, **{"streaming-max-files-per-micro-batch": "50"})


# --- start
# --------------------------------------------------------------------------------------------------


def cold_start(spark, b):
    b.restore("snaps", "snaps_few")
    return start.cold(b, "java", "pyspark")


def hello(b):
    return sql(open(b), "select sum(price) from j.fix.snaps")[0]
