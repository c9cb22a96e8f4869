"""How many files a keyed batch of a stream writes: rows of a partition come to one task or a few,
and all rows of a key to one.
"""

import os
import uuid
from collections import Counter, defaultdict

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import functions as F

from frazil.arrow.values.transforms import apply_arrow
from frazil.arrow.write.write_context import WriteContext
from frazil.arrow.write.write_options import write_options
from frazil.errors import InvalidInput
from frazil.spark.host.settings import temporarily
from frazil.spark.streams.sink import key_shuffle
from frazil.spark.streams.sink.key_shuffle import BatchKey, numbers_by_place, shuffled
from frazil.stream.sink.batch import checked_options

pytestmark = pytest.mark.spark
SCHEMA = "id bigint, p string, v bigint, op string"
COUNT, PARTS, TASKS = 2000, 20, 4
ADAPTIVE, SHUFFLE = "spark.sql.adaptive.enabled", "spark.sql.shuffle.partitions"
SMALL = {
    f"spark.sql.adaptive.{name}": "4KB"
    for name in ("advisoryPartitionSizeInBytes", "coalescePartitions.minPartitionSize")
}


def kind(i):
    """What the second batch does with a key: each partition has keys of every kind."""
    return ("left", "replaced", "removed")[i // PARTS % 3]


def batches(place, count=COUNT):
    """Two batches: the first adds all keys, the second replaces some and removes others. Each key
    comes twice, in any order.
    """
    place.mkdir(exist_ok=True)
    for n in range(2):
        ids = [i for i in range(count) for _ in range(2) if not n or kind(i) != "left"]
        ops = ["d" if n and kind(i) == "removed" else "u" for i in ids]
        values = [v + n * 10 * count for v in range(len(ids))]
        pq.write_table(
            pa.table({"id": ids, "p": [f"p{i % PARTS}" for i in ids], "v": values, "op": ops}),
            place / f"{n}.parquet",
        )
        os.utime(place / f"{n}.parquet", (1_700_000_000 + n,) * 2)
    return str(place)


def written(spark, table, where, checkpoint, **options):
    """The data and delete files of the second batch, by partition."""
    frame = (
        spark.readStream.schema(SCHEMA)
        .option("maxFilesPerTrigger", 1)
        .parquet(where)
        .repartition(TASKS)
    )
    writer = table.write_stream(
        frame, **{"mode": "cdc", "key_columns": "id,p", "order_column": "v", **options}
    )
    writer.option("checkpointLocation", str(checkpoint)).trigger(
        availableNow=True
    ).start().awaitTermination()
    first, second = table.refresh().snapshots()
    before = {
        r["file_path"] for r in table.inspect.files(snapshot_id=first.snapshot_id).to_pylist()
    }
    files = [
        r
        for r in table.inspect.files(snapshot_id=second.snapshot_id).to_pylist()
        if r["file_path"] not in before
    ]
    data, deletes = (
        Counter(str(r["partition"]) for r in files if (r["content"] == 0) == is_data)
        for is_data in (True, False)
    )
    return data, deletes


def held(table):
    rows = table.refresh().scan(selected_fields=("id", "v")).to_arrow().to_pylist()
    return {r["id"]: r["v"] for r in rows} if len(rows) == len({r["id"] for r in rows}) else rows


def after_both(count=COUNT):
    in_second = [i for i in range(count) if kind(i) != "left"]
    replaced = {i: 2 * n + 1 + 10 * count for n, i in enumerate(in_second) if kind(i) == "replaced"}
    return {i: 2 * i + 1 for i in range(count) if kind(i) == "left"} | replaced


@pytest.mark.parametrize(
    ("strategy", "version"),
    [
        ("equality-deletes", 2),
        ("lookup", 3),
        pytest.param("equality-deletes", 3, marks=pytest.mark.soak),
        pytest.param("lookup", 2, marks=pytest.mark.soak),
    ],
)
def test_a_batch_writes_a_file_for_each_partition_and_not_for_each_task_too(
    strategy, version, spark, catalog, tmp_path
):
    table = catalog.create_table(
        "db.t", SCHEMA.removesuffix(", op string"), partition_by=["p"], format_version=version
    )
    data, deletes = written(
        spark, table, batches(tmp_path / "in"), tmp_path / "c", upsert_strategy=strategy
    )
    assert sorted(data.values()) == sorted(deletes.values()) == [1] * PARTS
    assert held(table) == after_both()


def test_the_keyed_rows_of_each_table_of_many_come_by_partition_too(spark, catalog, tmp_path):
    frame = (
        spark.readStream.schema(SCHEMA)
        .parquet(batches(tmp_path / "in"))
        .selectExpr("*", "'db.t' as name", "v as seq")
        .repartition(TASKS)
    )
    writer = catalog.write_stream(
        frame,
        "name",
        mode="cdc",
        key_columns="id,p",
        order_column="seq",
        upsert_strategy="equality-deletes",
        create={"partition_by": ["p"]},
    )
    writer.option("checkpointLocation", str(tmp_path / "c")).trigger(
        availableNow=True
    ).start().awaitTermination()
    table = catalog.load_table("db.t")
    assert len(table.inspect.delete_files()) == PARTS and len(table.inspect.files()) == 2 * PARTS
    assert held(table) == after_both()


# Which task gets a row
# ---------------------------------------------------------------------------------------------------------------------


def tasks_of(frame, table, *, tasks=None, settings=(), **options):
    """For each row of a frame, whose columns are all keys: its key as text, and the task that gets
    it.
    """
    session = frame.sparkSession
    keys = [
        BatchKey(F.col(f"c{n}"), t.dataType, f)
        for n, (t, f) in enumerate(zip(frame.schema, table.schema().fields, strict=True))
    ]
    context = WriteContext.of(
        table.metadata, table._loaded.storage, write_options(options, "merge")
    )
    rows = frame.toDF(*(f"c{n}" for n in range(len(keys))))
    with (
        temporarily(session, dict(settings)),
        shuffled(frame, rows, keys, context, tasks) as by_task,
    ):
        return [
            (r[:-1], r[-1])
            for r in map(tuple, by_task.withColumn("task", F.spark_partition_id()).collect())
        ]


def spread(rows, of):
    """How many tasks share the rows for which `of` gives the same."""
    shares = defaultdict(set)
    for row, task in rows:
        shares[of(row)].add(task)
    return shares


@pytest.mark.parametrize(
    ("column", "value", "transform"),
    [
        ("k string", "concat('text', id)", "bucket(7, k)"),
        ("k timestamp_ns", "cast(timestamp_seconds(id * 10000) as timestamp_ntz)", "day(k)"),
        ("k bigint", "cast(id as int)", "truncate(100, k)"),
        *(
            pytest.param(*more, marks=pytest.mark.soak)
            for more in (
                ("k string", "concat('text', id)", "k"),
                ("k string", "id", "truncate(1, k)"),
                ("k int", "cast(id as int)", "bucket(7, k)"),
                ("k decimal(9, 2)", "cast(id as decimal(9, 2))", "bucket(7, k)"),
                ("k timestamptz", "timestamp_seconds(id * 10000)", "day(k)"),
                ("k date", "date_add(date'2026-01-01', cast(id as int))", "month(k)"),
                ("k uuid", "uuid", "bucket(7, k)"),
                ("k uuid", "uuid", "k"),
                ("k timestamp", "cast(timestamp_seconds(id * 10000) as timestamp_ntz)", "hour(k)"),
                ("k binary", "cast(concat('b', id) as binary)", "bucket(7, k)"),
            )
        ),
    ],
)
def test_each_partition_of_a_transform_comes_to_one_task(column, value, transform, spark, catalog):
    table = catalog.create_table(
        "db.t", f"id bigint, {column}", partition_by=[transform], format_version=3
    )
    uuids = F.element_at(
        F.array(*(F.lit(str(uuid.UUID(int=n))) for n in range(11))),
        (F.col("id") % 11 + 1).cast("int"),
    )
    frame = spark.range(600).withColumn("uuid", uuids).selectExpr("id", f"{value} as k")
    rows = tasks_of(frame, table, tasks=5, **{"distribution-mode": "hash"})
    field, source = table.spec().fields[0], table.schema().fields[1].field_type
    keys = pa.array([row[1] for row, _ in rows])
    values = apply_arrow(field.transform, source, keys).to_pylist()
    by_partition = spread(
        [((v,), task) for v, (_, task) in zip(values, rows, strict=True)], lambda row: row[0]
    )
    assert (
        len(rows) == 600
        and len(by_partition) > 5
        and all(len(shares) == 1 for shares in by_partition.values())
    )
    assert len(set().union(*by_partition.values())) > 1


def test_a_uuid_comes_to_one_task_however_it_is_written(spark, catalog):
    table = catalog.create_table("db.t", "k uuid", partition_by=["bucket(4, k)"])
    spelled = [
        (f(str(uuid.UUID(int=n << 60))),)
        for n in range(200)
        for f in (str, str.upper, lambda t: t.replace("-", ""))
    ]
    rows = tasks_of(
        spark.createDataFrame(spelled, "k string").repartition(3), table, settings=SMALL
    )
    assert (
        all(len(shares) == 1 for shares in spread(rows, lambda row: uuid.UUID(row[0])).values())
        and len({t for _, t in rows}) > 1
    )


@pytest.mark.parametrize(
    ("settings", "given", "shares"),
    [
        ({}, {}, 1),
        ({}, {"tasks": 4}, 4),  # equal shares, as in an append
        ({}, {"tasks": 4, "distribution-mode": "hash"}, 1),
        ({ADAPTIVE: "false"}, {"distribution-mode": "none"}, 8),
        ({"spark.sql.iceberg.distribution-mode": "none", ADAPTIVE: "false"}, {}, 8),
        ({ADAPTIVE: "false"}, {}, 4),  # nothing joins splits that turn out small, so there are few
        ({ADAPTIVE: "false"}, {"tasks": 3, "distribution-mode": "hash"}, 1),
        ({"spark.sql.adaptive.coalescePartitions.initialPartitionNum": "9"}, {}, 1),
    ],
)
def test_a_partition_is_shared_by_as_many_tasks_as_the_options_say(
    settings, given, shares, spark, catalog, monkeypatch
):
    monkeypatch.setattr(key_shuffle, "_SMALL", 0)  # no batch is known to be small
    table = catalog.create_table("db.t", "id bigint, p bigint", partition_by=["p"])
    frame = spark.range(4000).selectExpr("id", "id % 5 as p").repartition(3)
    rows = tasks_of(frame, table, settings={SHUFFLE: "8", **settings}, **given)
    assert (
        len(rows) == 4000
        and max(len(s) for s in spread(rows, lambda row: row[1]).values()) == shares
    )


@pytest.mark.versions
def test_a_large_partition_is_split_by_key_and_small_ones_are_not(spark, catalog):
    table = catalog.create_table("db.t", "id bigint, p bigint", partition_by=["p"])
    frame = (
        spark.range(60_000)
        .selectExpr("id % 20000 as id", "if(id % 20000 < 19950, 0, id % 50) as p")
        .repartition(3)
    )
    rows = tasks_of(frame, table, settings=SMALL)
    assert all(len(shares) == 1 for shares in spread(rows, lambda row: row).values())
    partitions = spread(rows, lambda row: row[1])
    assert 8 < len(partitions[0]) <= key_shuffle._SPLITS and sum(
        len(s) for p, s in partitions.items() if p
    ) < 2 * len(partitions)


@pytest.mark.parametrize(("mode", "shares"), [("none", 8), ("hash", 1), ("range", 1)])
def test_the_tables_distribution_mode_counts(mode, shares, spark, catalog, monkeypatch):
    table = catalog.create_table(
        "db.t",
        "id bigint, p bigint",
        partition_by=["p"],
        properties={"write.distribution-mode": mode},
    )
    if mode == "none":
        monkeypatch.setattr(key_shuffle, "_SMALL", 0)
    rows = tasks_of(
        spark.range(4000).selectExpr("id", "id % 5 as p"),
        table,
        settings={ADAPTIVE: "false", SHUFFLE: "8"},
    )
    assert {len(s) for s in spread(rows, lambda row: row[1]).values()} == {shares}


@pytest.mark.versions
def test_numbers_by_place_are_put_where_spark_puts_them(spark):
    numbers = numbers_by_place(60)
    at = (
        spark.createDataFrame([(n,) for n in numbers], "n int")
        .selectExpr("pmod(hash(n), 60) as at")
        .collect()
    )
    assert [r["at"] for r in at] == list(range(60))


def test_hash_of_look_ups_needs_keys_that_determine_the_partition(catalog):
    table = catalog.create_table("db.t", "id bigint, p string", partition_by=["p"])
    with pytest.raises(InvalidInput, match="distribution-mode=hash: partition field p"):
        checked_options(
            {"mode": "upsert", "key-columns": "id", "distribution-mode": "hash"}, table._loaded
        )
    given = {
        "mode": "upsert",
        "key-columns": "id,p",
        "distribution-mode": "hash",
        "write-parallelism": "2",
    }
    assert checked_options(given, table._loaded).tasks == 2
