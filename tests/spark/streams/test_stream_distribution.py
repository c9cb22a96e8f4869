"""How many files a keyed batch of a stream writes: rows of a partition come to one task or a few, and all rows of a key to one."""

from __future__ import annotations

import os
import uuid
from collections import Counter

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from frazil.errors import InvalidInput
from frazil.spark.streams.key_shuffle import numbers_by_place

pytestmark = pytest.mark.spark
SCHEMA = "id bigint, p string, v bigint, op string"
COUNT, PARTS, TASKS = 2000, 20, 4
OPTIONS = {"mode": "cdc", "key_columns": "id,p", "write_parallelism": TASKS}
_ADAPTIVE = "spark.sql.adaptive.enabled"


def kind(i):
    """What the second batch does with a key: each partition has keys of every kind."""
    return ("left", "replaced", "removed")[i // PARTS % 3]


def batches(place, count=COUNT):
    """Two batches: the first adds all keys, the second replaces some and removes others. Each key comes twice, in any order."""
    place.mkdir(exist_ok=True)
    for n in range(2):
        ids = [i for i in range(count) for _ in range(2) if not n or kind(i) != "left"]
        ops = ["d" if n and kind(i) == "removed" else "u" for i in ids]
        values = [v + n * 10 * count for v in range(len(ids))]
        pq.write_table(pa.table({"id": ids, "p": [f"p{i % PARTS}" for i in ids], "v": values, "op": ops}), place / f"{n}.parquet")
        os.utime(place / f"{n}.parquet", (1_700_000_000 + n,) * 2)
    return str(place)


def written(spark, table, where, checkpoint, frame_of=lambda frame: frame, **options):
    """The data and delete files of the second batch, by partition."""
    frame = frame_of(spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(where).repartition(TASKS))
    writer = table.write_stream(frame, **{"mode": "cdc", "key_columns": "id,p", "order_column": "v", **options})
    writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start().awaitTermination()
    first, second = table.refresh().snapshots()
    before = {r["file_path"] for r in table.inspect.files(snapshot_id=first.snapshot_id).to_pylist()}
    files = [r for r in table.inspect.files(snapshot_id=second.snapshot_id).to_pylist() if r["file_path"] not in before]
    data, deletes = (Counter(str(r["partition"]) for r in files if (r["content"] == 0) == is_data) for is_data in (True, False))
    return data, deletes


def held(table):
    rows = table.refresh().scan(selected_fields=("id", "v")).to_arrow().to_pylist()
    return {r["id"]: r["v"] for r in rows} if len(rows) == len({r["id"] for r in rows}) else rows


def after_both(count=COUNT):
    in_second = [i for i in range(count) if kind(i) != "left"]
    replaced = {i: 2 * n + 1 + 10 * count for n, i in enumerate(in_second) if kind(i) == "replaced"}
    return {i: 2 * i + 1 for i in range(count) if kind(i) == "left"} | replaced


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("strategy", ["equality-deletes", "lookup"])
def test_a_batch_writes_a_file_for_each_partition_and_not_for_each_task_too(version, strategy, spark, catalog, tmp_path):
    table = catalog.create_table("db.t", SCHEMA.removesuffix(", op string"), partition_by=["p"], format_version=version)
    data, deletes = written(spark, table, batches(tmp_path / "in"), tmp_path / "c", upsert_strategy=strategy)
    assert sorted(data.values()) == sorted(deletes.values()) == [1] * PARTS
    assert held(table) == after_both()
