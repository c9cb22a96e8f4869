"""Credentials that end in the midst of a job: a store that takes a key only while it lives, and a
REST catalog that vends one after the other.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from frazil.catalog import Catalog
from tests.builders.one_table import one_table
from tests.builders.rotating_keys import KeyedStore, check_rotation, keyed_store
from tests.catalog.rest.conftest import Server
from tests.storage.conftest import s3_place

pytestmark = pytest.mark.skipif(
    not os.environ.get("FRAZIL_TEST_S3"), reason="no S3 server runs: FRAZIL_TEST_S3 is not set"
)
LIFE = 3.0  # seconds; keys are renewed after half of it


@pytest.fixture
def store() -> Iterator[KeyedStore]:
    with keyed_store(os.environ["FRAZIL_TEST_S3"]) as made:
        yield made


def vends(server: Server, store: KeyedStore, life: float) -> Catalog:
    """A catalog of one table, db.t, that vends a new key at every question, which ends after `life`
    seconds.
    """
    place, _ = s3_place()
    told = lambda: {"storage-credentials": store.credentials(f"{place}/", life)}
    return one_table(server, store.uri, f"{place}/t", told, {"write.target-file-size-bytes": "1"})


def slowly(batches: int, seconds: float) -> pa.RecordBatchReader:
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False)])

    def made() -> Iterator[pa.RecordBatch]:
        for n in range(batches):
            time.sleep(seconds)
            yield pa.record_batch(
                [pa.array(range(100 * n, 100 * n + 100), pa.int64())], schema=schema
            )

    return pa.RecordBatchReader.from_batches(schema, made())


def test_an_append_and_a_read_without_spark_go_on_beyond_two_rotations(
    server: Server, store: KeyedStore
) -> None:
    with vends(server, store, LIFE) as catalog:
        table = catalog.load_table("db.t")
        table.append(slowly(8, 0.25))
        written = len(store.served)
        assert written >= 2, "rotated while the files were written"
        read = table.scan().to_arrow_batch_reader()
        ids: list[int] = []
        for batch in read:
            ids += batch["id"].to_pylist()
            time.sleep(0.1)
        assert sorted(ids) == list(range(800)) and len(table.inspect.files()) > 1
        time.sleep(LIFE)
        assert (
            table.scan().count() == 800
            and len(table.scan().to_arrow()) == 800
            and len(store.served) > written
        ), "rotated while it was read"
        check_rotation(store, table.location(), 3)


@pytest.mark.soak
@pytest.mark.spark
def test_tasks_of_spark_write_and_read_beyond_two_rotations(
    server: Server, store: KeyedStore, spark: Any
) -> None:
    def slow(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            time.sleep(0.8)
            yield batch

    with vends(server, store, 4) as catalog:
        table = catalog.load_table("db.t")
        table.append(spark.range(0, 800, 1, 16).mapInArrow(slow, "id long"))
        written = len(store.served)
        assert written >= 3, "rotated twice while tasks wrote"
        frame = table.scan(options={"split-size": "1"}).to_spark(spark)
        ids = sorted(r.id for r in frame.mapInArrow(slow, "id long").collect())
        assert ids == list(range(800)) and len(store.served) - written >= 2, (
            "rotated twice while tasks read"
        )
        time.sleep(2)
        check_rotation(store, table.location(), 3)
