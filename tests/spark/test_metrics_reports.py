"""Metrics reports by the doors of Spark: reads and writes of tables, streams, and the Python data
source of a session that was not prepared.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import frazil
from frazil.catalog import reporting
from frazil.codec.metadata_json import encode_metadata
from tests.catalog.rest.conftest import Server, server
from tests.catalog.test_reporting import NAMED, Recorder, recorder

__all__ = ["recorder", "server"]
pytestmark = pytest.mark.spark


@pytest.fixture
def reported(tmp_path: Path, recorder: Recorder) -> Iterator[Any]:
    properties = {
        "type": "sql",
        "uri": f"sqlite:///{tmp_path}/c.db",
        "warehouse": str(tmp_path / "wh"),
    }
    with frazil.load_catalog("reported", **properties, **NAMED) as catalog:
        catalog.create_namespace("db")
        yield catalog


def told(recorder: Recorder) -> list[str]:
    """What was told since the last call: "scan", or the operation of a commit."""
    reporting.flush(10)
    found = [getattr(r, "operation", "scan") for r in recorder.told]
    recorder.told.clear()
    return found


def test_reads_and_writes_of_a_table_on_spark_are_reported(
    spark: Any, reported: Any, recorder: Recorder
) -> None:
    table = reported.create_table("db.t", "id bigint, s string")
    table.append(spark.createDataFrame([(n, f"s{n}") for n in range(6)], "id long, s string"))
    assert told(recorder) == ["append"]
    assert table.scan("id < 3").to_spark(spark).count() == 3
    reporting.flush(10)
    assert recorder.scans()[0].filter == {"type": "lt", "term": "id", "value": "(1-digit-int)"}
    assert told(recorder) == ["scan"]
    table.delete("substring(s, 2, 1) = '4'", spark=spark)
    assert told(recorder) == ["scan", "overwrite"]
    source = spark.createDataFrame([(0, "zero"), (9, "nine")], "id long, s string")
    table.merge(
        source, on="target.id = source.id"
    ).when_matched_update_all().when_not_matched_insert_all().execute()
    assert told(recorder) == ["scan", "overwrite"]
    table.append(spark.createDataFrame([(20, "x")], "id long, s string"))
    told(recorder)
    table.maintenance.rewrite_data_files(options={"rewrite-all": "true"}, spark=spark)
    found = told(recorder)
    assert found[-1] == "replace" and "scan" in found


def test_streams_report_each_batch_that_they_commit(
    spark: Any, reported: Any, recorder: Recorder, tmp_path: Path
) -> None:
    table = reported.create_table("db.t", "id bigint")
    for n in range(2):
        spark.range(n, n + 1).coalesce(1).write.mode("append").parquet(str(tmp_path / "in"))
    rows = (
        spark.readStream.schema("id bigint")
        .option("maxFilesPerTrigger", 1)
        .parquet(str(tmp_path / "in"))
    )
    query = (
        table.write_stream(rows)
        .trigger(availableNow=True)
        .option("checkpointLocation", str(tmp_path / "cp"))
        .start()
    )
    query.awaitTermination()
    reporting.flush(10)
    ids = [r.snapshot_id for r in recorder.commits()]
    assert told(recorder) == ["append", "append"] and ids == [
        s.snapshot_id for s in table.refresh().snapshots()
    ]


def test_the_python_data_source_reports_before_its_process_ends(
    session: Any, reported: Any, server: Server
) -> None:
    table = reported.create_table("db.t", "id bigint")
    table.append([{"id": 1}, {"id": 2}])
    loaded = {
        "metadata-location": table.metadata_location,
        "metadata": json.loads(encode_metadata(table.metadata)),
    }
    server.on("GET /v1/namespaces/db/tables/t", (200, loaded))
    server.on("POST /v1/namespaces/db/tables/t/metrics", (204, b""))
    options = {"catalog.type": "rest", "catalog.uri": server.uri}
    assert session.read.format("iceberg").options(**options).load("seen.db.t").count() == 2
    (body,) = [json.loads(a.body) for a in server.asked if a.path.endswith("/metrics")]
    assert (body["report-type"], body["table-name"], body["snapshot-id"]) == (
        "scan-report",
        "seen.db.t",
        table.current_snapshot().snapshot_id,
    )
