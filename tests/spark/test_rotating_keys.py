"""Jobs of Spark that go on while a REST catalog (Java's reference server behind a proxy that vends)
gives one key after the other, each of which ends: a MERGE, and a stream from table to table."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import frazil
from tests.builders.rotating_keys import (
    KeyedStore,
    keyed_store,
    rotated_meanwhile,
    served,
    vending_handler,
)
from tests.storage.conftest import s3_place

pytestmark = [
    pytest.mark.spark, pytest.mark.service, pytest.mark.soak,
    pytest.mark.skipif(not os.environ.get("FRAZIL_TEST_S3"), reason="no S3 server runs: FRAZIL_TEST_S3 is not set"),
]  # fmt: skip
LIFE = 4.0  # seconds; they are renewed after half of it
SERVICES = Path(__file__).resolve().parents[1] / "services"


@pytest.fixture
def store() -> Iterator[KeyedStore]:
    with keyed_store(os.environ["FRAZIL_TEST_S3"]) as made:
        yield made


@pytest.fixture
def catalog(store: KeyedStore, tmp_path: Path) -> Iterator[frazil.Catalog]:
    """A catalog without keys of its own; the server writes metadata by keys that it is started
    with, straight into the S3 server.
    """
    place, properties = s3_place()
    environment = os.environ | {
        "PYTHON": sys.executable,
        "WAREHOUSE": place,
        "S3_ENDPOINT": store.endpoint,
        "AWS_ACCESS_KEY_ID": properties["s3.access-key-id"],
        "AWS_SECRET_ACCESS_KEY": properties["s3.secret-access-key"],
    }
    started = subprocess.run(
        [SERVICES / "iceberg_rest.sh", "start", tmp_path / "rest"],
        capture_output=True,
        text=True,
        env=environment,
    )
    if started.returncode == 77:
        pytest.skip(started.stderr.strip().splitlines()[-1])
    assert started.returncode == 0, started.stderr
    try:
        with served(vending_handler(started.stdout.strip(), store, f"{place}/", LIFE)) as uri:
            name = f"r{uuid.uuid4().hex[:8]}"
            with frazil.load_catalog(
                name,
                type="rest",
                uri=uri,
                **{"s3.endpoint": store.uri, "s3.path-style-access": "true"},
            ) as catalog:
                catalog.create_namespace("db")
                yield catalog
    finally:
        subprocess.run(
            [SERVICES / "iceberg_rest.sh", "stop", tmp_path / "rest"], check=True, env=environment
        )


def held(table: frazil.Table) -> list[tuple[int, str]]:
    return sorted((r["id"], r["v"]) for r in table.refresh().scan().to_arrow().to_pylist())


@pytest.mark.parametrize("mode", ["copy-on-write", "merge-on-read"])
def test_a_merge_goes_on_beyond_two_rotations(
    catalog: frazil.Catalog, store: KeyedStore, spark: Any, mode: str
) -> None:
    table = catalog.create_table(
        "db.t", "id bigint, v string", format_version=3, properties={"write.merge.mode": mode}
    )
    for n in range(8):
        table.append(pa.table({"id": range(100 * n, 100 * n + 100), "v": ["old"] * 100}))
    store.delay = 0.7
    with rotated_meanwhile(store, table.location(), 5):
        merge = table.merge(
            spark.range(50, 850).selectExpr("id", "'new' v"), on="target.id = source.id"
        )
        merge.when_matched_delete(
            "source.id % 10 = 0"
        ).when_matched_update_all().when_not_matched_insert_all().execute()
    store.delay = 0
    expected = (
        [(n, "old") for n in range(50)]
        + [(n, "new") for n in range(50, 800) if n % 10]
        + [(n, "new") for n in range(800, 850)]
    )
    assert held(table) == expected
    assert len(table.refresh().history()) == 9


def test_a_stream_from_table_to_table_goes_on_beyond_three_rotations(
    catalog: frazil.Catalog, store: KeyedStore, spark: Any, tmp_path: Path
) -> None:
    source = catalog.create_table("db.source", "id bigint, v string")
    target = catalog.create_table("db.target", "id bigint, v string", format_version=3)
    batches, written = (
        [
            (n, pa.table({"id": range(10 * n, 10 * n + 20), "v": [f"batch {n}"] * 20}))
            for n in range(40)
        ],
        threading.Event(),
    )

    def feed() -> None:
        for _, rows in batches:
            source.append(rows)
            time.sleep(0.4)
        written.set()

    frame = catalog.load_table("db.source").read_stream(
        spark,
        starting_strategy="INCREMENTAL_FROM_EARLIEST_SNAPSHOT",
        streaming_max_files_per_micro_batch=4,
        monitor_interval="100ms",
    )
    feeding = threading.Thread(target=feed, daemon=True)
    with rotated_meanwhile(store, target.location(), 6):
        query = (
            target.write_stream(frame, mode="upsert", key_columns="id")
            .option("checkpointLocation", str(tmp_path / "c"))
            .start()
        )
        feeding.start()
        assert written.wait(240)
        query.processAllAvailable()
        query.stop()
    assert held(target) == [(n, f"batch {min(n // 10, 39)}") for n in range(410)]
    assert target.scan().count() == 410 and source.refresh().scan().count() == 800
