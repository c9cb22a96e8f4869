"""Java Iceberg's streams and ours take turns on one table: each goes on where the other stopped."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import frazil

pytestmark = [pytest.mark.spark, pytest.mark.java]

WRITE = """
import sys
warehouse, source, checkpoint = sys.argv[-3:]
frame = spark.readStream.schema("id bigint").parquet(source)
writer = frame.writeStream.format("iceberg").outputMode("append").option("checkpointLocation", checkpoint).trigger(availableNow=True)
writer.toTable("j.db.t").awaitTermination()
"""

READ = """
import json, sys
warehouse, checkpoint = sys.argv[-2:]
seen = []
def batch(frame, number):
    seen.extend(r.id for r in frame.collect())
writer = spark.readStream.format("iceberg").load("j.db.t").writeStream.foreachBatch(batch)
writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start().awaitTermination()
print("ANSWER" + json.dumps(sorted(seen)))
"""


def answer(stdout: str) -> Any:
    return json.loads(stdout.rpartition("ANSWER")[2].splitlines()[0])


def test_java_and_we_write_and_read_one_table_as_streams_in_turns(
    spark: Any, java_check: Any, tmp_path: Path
) -> None:
    source, warehouse, checkpoint = (
        tmp_path / "source",
        tmp_path / "warehouse",
        tmp_path / "checkpoint",
    )
    source.mkdir()
    catalog = frazil.load_catalog("j", type="path", warehouse=str(warehouse))
    catalog.create_namespace("db")
    table = catalog.create_table("db.t", "id bigint")

    def arrives(number: int) -> None:
        pq.write_table(
            pa.table({"id": [10 * number, 10 * number + 1]}), source / f"{number}.parquet"
        )

    def we_write() -> None:
        writer = table.refresh().write_stream(
            spark.readStream.schema("id bigint").parquet(str(source))
        )
        writer.option("checkpointLocation", str(checkpoint)).trigger(
            availableNow=True
        ).start().awaitTermination()

    def java_writes() -> None:
        java_check.run(WRITE, warehouse, source, checkpoint)

    def java_reads() -> list[int]:
        rows: list[int] = answer(java_check.run(READ, warehouse, tmp_path / "java-reads"))
        return rows

    def we_read() -> list[int]:
        seen: list[int] = []
        writer = (
            catalog.load_table("db.t")
            .read_stream(spark)
            .writeStream.foreachBatch(lambda f, _: seen.extend(r.id for r in f.collect()))
        )
        writer.option("checkpointLocation", str(tmp_path / "we-read")).trigger(
            availableNow=True
        ).start().awaitTermination()
        return sorted(seen)

    for number, write in enumerate((we_write, java_writes, we_write)):
        arrives(number)
        write()
        new = [10 * number, 10 * number + 1]
        assert we_read() == new
        assert java_reads() == new
    rows = catalog.load_table("db.t")
    assert sorted(rows.scan().to_arrow()["id"].to_pylist()) == sorted(
        10 * n + i for n in range(3) for i in range(2)
    )
    marks = [
        (s.summary.get("spark.sql.streaming.queryId"), s.summary.get("spark.sql.streaming.epochId"))
        for s in rows.snapshots()
    ]
    assert len({m[0] for m in marks}) == 1 and [m[1] for m in marks] == ["0", "1", "2"]
