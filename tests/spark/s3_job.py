"""A Spark application over tables in S3, for test_s3_scan.py: s3_job.py ENDPOINT BUCKET JARS
[ADDRESS] prints what it found as JSON. ADDRESS: of a REST catalog that vends keys, in the long
form."""

import contextlib
import io
import json
import logging
import os
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import s3_vending

import frazil
from frazil.spark.host import jvm_reads
from frazil.spark.host.jvm import class_is_loaded
from frazil.spark.scan.paths import jvm_can_open

endpoint, bucket, jars, *addresses = sys.argv[1:]
warned: list[str] = []


class Kept(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        warned.append(record.getMessage())


logging.getLogger("frazil.spark").addHandler(Kept())
if jars != "none":
    # Before there is a session: no file system of Hadoop has opened the bucket by the keys that the
    # table is written with.
    writing = frazil.load_catalog(
        "vended",
        type="sql",
        uri="sqlite:///vended.db",
        warehouse=f"s3://{bucket}-vended",
        **{
            "s3.endpoint": endpoint,
            "s3.access-key-id": "writer",
            "s3.secret-access-key": "testtest-" + "S3CRET",
        },
    )
    writing.create_namespace("db")
    vending = s3_vending.vending({"s3.endpoint": endpoint}, s3_vending.written(writing, "db.t"))
SETTINGS = {
    "spark.driver.memory": "1g",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
}
spark = frazil.spark_session(
    app_name="s3",
    master="local[2]",
    config={**SETTINGS, **({"spark.jars": jars} if jars != "none" else {})},
)
spark.sparkContext.setLogLevel("ERROR")


def catalog_of(name: str, key: str = "testuser", scheme: str = "s3") -> frazil.Catalog:
    return frazil.load_catalog(
        name,
        type="sql",
        uri=f"sqlite:///{name}.db",
        warehouse=f"{scheme}://{bucket}/{name}",
        **{
            "s3.endpoint": endpoint,
            "s3.access-key-id": key,
            "s3.secret-access-key": "testtest-" + "S3CRET",
        },
    )


def read(table: frazil.Table) -> dict[str, object]:
    """The rows, whether Spark's own scan read them all, and whether the secret shows anywhere in
    the plan.
    """
    frame = table.scan().to_spark(spark)
    with contextlib.redirect_stdout(io.StringIO()) as plan:
        frame.explain("formatted")
        frame.explain("extended")
    rows = sorted((r.id, r.kind) for r in frame.collect())
    text = plan.getvalue()
    by_spark = "BatchScan" in text and "Python" not in text and "ArrowEval" not in text
    return {
        "rows": rows,
        "by_spark": by_spark,
        "secret": "S3CRET" in f"{text} {table!r} {table._loaded!r} {table.io!r} {frame!r}",
    }


hadoop_aws = (
    jvm_reads.S3A_FILE_SYSTEM,
    jvm_reads.S3A_ANONYMOUS,
    jvm_reads.S3A_KEYS,
    jvm_reads.S3A_SESSION_KEYS,
)
found: dict[str, object] = {"classes": [class_is_loaded(spark, name) for name in hadoop_aws]}
for name, scheme in (("one", "s3"), ("two", "s3a")):
    catalog = catalog_of(name, scheme=scheme)
    catalog.create_namespace("db")
    t = catalog.create_table(
        "db.t",
        "id bigint, kind string",
        format_version=3,
        properties={"write.delete.mode": "merge-on-read"},
    )
    t.append(spark.sql("SELECT id, if(id % 2 = 0, 'a', 'b') kind FROM range(6)"))
    t.delete("id = 1")
    found[name] = read(t)
keyed = catalog_of("one").create_table("db.keyed", "id bigint, kind string")
keyed.append(pa.table({"id": [1, 2, 3], "kind": ["a", "b", "c"]}))
os.makedirs("changes")
pq.write_table(pa.table({"id": [2, 4], "kind": ["B", "d"]}), "changes/1.parquet")
changes = spark.readStream.schema("id bigint, kind string").parquet("changes")
query = keyed.write_stream(
    changes, mode="upsert", key_columns="id", upsert_strategy="equality-deletes"
)
query.option("checkpointLocation", "checkpoint").trigger(
    availableNow=True
).start().awaitTermination()
found["equality"] = read(keyed.refresh())
found["other keys"] = read(
    frazil.load_catalog(
        "one",
        type="sql",
        uri="sqlite:///one.db",
        warehouse=f"s3://{bucket}/one",
        **{
            "s3.endpoint": endpoint,
            "s3.access-key-id": "another",
            "s3.secret-access-key": "testtest-" + "S3CRET",
        },
    ).load_table("db.t")
)
if jars != "none":
    for name in s3_vending.VENDED if addresses else ("vended_token", "vended_keys"):
        found[name] = read(vending.load_table(f"db.{name}"))
    t = vending.load_table("db.vended_keys")
    (lost,) = (
        path for path in t.inspect.files()["file_path"].to_pylist() if path.endswith(".parquet")
    )
    t.io.delete(lost)
    try:
        t.scan().to_spark(spark).collect()
    except Exception as error:
        found["lost"] = f"{error!r} {error}"
for address in addresses:
    served = frazil.load_catalog("served", type="rest", uri=address, **{"s3.endpoint": endpoint})
    served.create_namespace(space := f"v{os.getpid()}")
    found["served"] = read(s3_vending.written(served, f"{space}.t"))
hadoop = spark.sparkContext._jsc.hadoopConfiguration()
hadoop.set(f"fs.s3a.bucket.{bucket}.endpoint", "http://127.0.0.1:1")
frazil.clear_caches()
found["other endpoint of the bucket"] = read(catalog_of("one").load_table("db.t"))
hadoop.unset(f"fs.s3a.bucket.{bucket}.endpoint")
if jars != "none":
    os.environ["AWS_ENDPOINT_URL_S3"] = endpoint  # after the JVM began, which knows nothing of it
    told = frazil.load_catalog(
        "told",
        type="sql",
        uri="sqlite:///told.db",
        warehouse=f"s3://{bucket}-env",
        **{"s3.access-key-id": "testuser", "s3.secret-access-key": "testtest-" + "S3CRET"},
    )
    told.create_namespace("db")
    t = told.create_table("db.t", "id bigint, kind string")
    t.append(pa.table({"id": [1], "kind": ["a"]}))
    found["endpoint of the environment"] = read(t)
    del os.environ["AWS_ENDPOINT_URL_S3"]
    hadoop.set("fs.s3a.endpoint", "http://127.0.0.1:1")
    frazil.clear_caches()
    known = frazil.load_catalog(
        "known",
        type="sql",
        uri="sqlite:///known.db",
        warehouse=f"s3://{bucket}-known",
        **{"s3.access-key-id": "a", "s3.secret-access-key": "b"},
    )
    found["endpoint of the session alone"] = jvm_can_open(
        spark, f"s3://{bucket}-known/f", {}, known._backend.storage_of(f"s3://{bucket}-known/f")
    )
hadoop.set("fs.s3a.endpoint", "http://127.0.0.1:1")
frazil.clear_caches()
found["other endpoint"] = read(catalog_of("one").load_table("db.t"))
print("FOUND " + json.dumps({**found, "warned": warned}))
spark.stop()
