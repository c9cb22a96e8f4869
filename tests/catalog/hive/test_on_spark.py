"""A Hive catalog that the Spark session configures: written, changed, streamed and read by name."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

import frazil
from tests.catalog.conftest import HIVE

SERVERS = [os.environ[HIVE["hive2"]]] if os.environ.get(HIVE["hive2"]) else []


@pytest.mark.spark
@pytest.mark.parametrize("uri", SERVERS)
def test_a_catalog_of_the_session_is_written_streamed_and_read_by_name(
    uri: str, db: str, spark: Any, tmp_path: Path
) -> None:
    properties = {"type": "hive", "uri": uri, "warehouse": f"{tmp_path}/warehouse"}
    for key, value in properties.items():
        spark.conf.set(f"spark.sql.catalog.hive_of_test.{key}", value)
    catalog = frazil.load_catalog("hive_of_test", **properties)
    catalog.create_namespace(db)
    name = f"hive_of_test.{db}.t"
    spark.range(10).writeTo(name).using("iceberg").create()
    spark.range(10, 20).writeTo(name).append()
    table = catalog.load_table(f"{db}.t")
    table.delete("id % 2 = 0")
    spark.range(100, 103).write.mode("overwrite").parquet(f"{tmp_path}/source")
    arriving = spark.readStream.schema("id bigint").parquet(f"{tmp_path}/source")
    writer = catalog.load_table(f"{db}.t").write_stream(arriving, mode="upsert", key_columns="id")
    writer.option("checkpointLocation", f"{tmp_path}/checkpoint").trigger(
        availableNow=True
    ).start().awaitTermination()
    catalog.load_table(f"{db}.t").maintenance.rewrite_data_files(options={"rewrite-all": "true"})
    want = [*range(1, 20, 2), 100, 101, 102]
    assert sorted(r.id for r in spark.table(name).collect()) == want
    assert sorted(r.id for r in spark.read.format("iceberg").load(name).collect()) == want
    assert spark.catalog.tableExists(name)
    catalog.close()
