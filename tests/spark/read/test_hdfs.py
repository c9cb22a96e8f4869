"""Tables in HDFS through Spark: rows are written by workers without a JVM, and read by Spark's own
scan and as Arrow alike. FRAZIL_TEST_HDFS names the cluster."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import functions as F

import frazil
from frazil.spark.scan.paths import jvm_can_open
from frazil.storage import storage_for
from tests.storage.conftest import hdfs_place

CLUSTER = os.environ.get("FRAZIL_TEST_HDFS", "")
pytestmark = [pytest.mark.spark, pytest.mark.skipif(not CLUSTER, reason="needs FRAZIL_TEST_HDFS")]


def rows(frame: Any) -> list[tuple[Any, ...]]:
    return sorted(tuple(r) for r in frame.collect())


def agreed(table: Any, spark: Any) -> list[tuple[Any, ...]]:
    """The rows as Spark reads them, which are those that Arrow reads."""
    found = rows(table.to_spark(spark))
    assert found == sorted(tuple(r.values()) for r in table.scan().to_arrow().to_pylist())
    return found


@pytest.mark.parametrize(("kind", "mode"), [("path", "merge-on-read"), ("sql", "copy-on-write")])
def test_a_table_lives_through_spark(spark: Any, tmp_path: Path, kind: str, mode: str) -> None:
    settings = {"type": kind, "warehouse": hdfs_place()} | (
        {"uri": f"sqlite:///{tmp_path}/c.db"} if kind == "sql" else {}
    )
    catalog = frazil.load_catalog(f"hdfs_{kind}", **settings)
    catalog.create_namespace("db")
    frame = spark.range(100).select("id", (F.col("id") % 3).cast("string").alias("p"))
    modes = {f"write.{verb}.mode": mode for verb in ("delete", "merge", "update")}
    table = catalog.create_table(
        "db.t", frame.schema, partition_by=["p"], properties={"format-version": "3", **modes}
    )
    table.append(frame)
    table.append(frame.select((F.col("id") + 100).alias("id"), "p"))
    assert table.location().startswith(CLUSTER)
    plan = table.to_spark(spark)._jdf.queryExecution().executedPlan().toString()
    assert "BatchScan" in plan, "Spark's own scan reads it"
    table.delete("id < 50 and id % 2 = 0")
    changes = spark.createDataFrame([(1, "x"), (1000, "y")], "id bigint, p string")
    table.merge(
        changes, on="target.id = source.id"
    ).when_matched_update_all().when_not_matched_insert_all().execute()
    expected = sorted(
        [(i, str(i % 3)) for i in range(100) if (i >= 50 or i % 2) and i != 1]
        + [(i + 100, str(i % 3)) for i in range(100)]
        + [(1, "x"), (1000, "y")]
    )
    assert agreed(table, spark) == expected
    done = table.maintenance.rewrite_data_files(options={"rewrite-all": "true"})
    assert done.rewritten_data_files_count > 0
    assert agreed(table, spark) == expected
    again = catalog.load_table("db.t")
    assert agreed(again, spark) == expected
    if kind == "path":
        assert rows(spark.read.format("iceberg").load(table.location())) == expected


def test_the_default_cluster_of_the_jvm_has_to_be_the_catalogs(spark: Any) -> None:
    host, port = CLUSTER.removeprefix("hdfs://").split(":")
    storage = storage_for("hdfs:/x", {"hdfs.host": host, "hdfs.port": port})
    assert jvm_can_open(spark, f"{CLUSTER}/x", {}, storage)
    assert not jvm_can_open(spark, "hdfs:/x", {}, storage), (
        "the JVM's default file system is another one"
    )
    place = hdfs_place().removeprefix(CLUSTER)
    catalog = frazil.load_catalog(
        "short", type="path", warehouse=f"hdfs:{place}", **{"hdfs.host": host, "hdfs.port": port}
    )
    table = catalog.create_table(("db", "t"), spark.range(3).schema)
    table.append(spark.range(3))
    assert table.location() == f"hdfs:{place}/db/t" and agreed(table, spark) == [(0,), (1,), (2,)]


def test_a_name_service_of_the_catalog_alone_is_read_without_the_jvm(spark: Any) -> None:
    nodes = {
        "hadoop.dfs.ha.namenodes.mine": "a,b",
        "hadoop.dfs.namenode.rpc-address.mine.a": "127.0.0.1:1",
    }
    nodes["hadoop.dfs.namenode.rpc-address.mine.b"] = CLUSTER.removeprefix("hdfs://")
    place = hdfs_place().removeprefix(CLUSTER)
    catalog = frazil.load_catalog("ns", type="path", warehouse=f"hdfs://mine{place}", **nodes)
    table = catalog.create_table(("db", "t"), spark.range(3).schema)
    table.append(spark.range(3))
    assert not jvm_can_open(spark, table.location(), {}, table.io)
    assert agreed(table, spark) == [(0,), (1,), (2,)]


def test_a_name_service_of_the_session_is_known_to_both(plain_spark: Any) -> None:
    session = plain_spark.newSession()
    nodes = {
        "dfs.nameservices": "pair",
        "dfs.ha.namenodes.pair": "a,b",
        "dfs.namenode.rpc-address.pair.a": "127.0.0.1:1",
    }
    nodes["dfs.namenode.rpc-address.pair.b"] = CLUSTER.removeprefix("hdfs://")
    nodes["dfs.client.failover.proxy.provider.pair"] = (
        "org.apache.hadoop.hdfs.server.namenode.ha.ConfiguredFailoverProxyProvider"
    )
    for key, value in nodes.items():
        session.conf.set(f"spark.hadoop.{key}", value)
        # what `spark.hadoop.…` is to the scans of a session that begins with it
        session.conf.set(key, value)
    frazil.install(session)
    place = f"hdfs://pair{hdfs_place().removeprefix(CLUSTER)}/t"
    session.range(5).write.format("iceberg").save(place)
    table = frazil.load_table(place, **{f"hadoop.{key}": value for key, value in nodes.items()})
    assert table.location() == place and jvm_can_open(session, place, {}, table.io)
    frame = session.read.format("iceberg").load(place)
    assert "BatchScan" in frame._jdf.queryExecution().executedPlan().toString()
    assert (
        rows(frame)
        == [(i,) for i in range(5)]
        == sorted(tuple(r.values()) for r in table.scan().to_arrow().to_pylist())
    )
    elsewhere = {f"hadoop.{key}": value for key, value in nodes.items()} | {
        "hadoop.dfs.namenode.rpc-address.pair.a": "127.0.0.1:2"
    }
    assert not jvm_can_open(session, place, {}, storage_for(place, elsewhere)), (
        "another cluster of that name"
    )
