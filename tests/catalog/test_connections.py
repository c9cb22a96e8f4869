"""How many connections a catalog opens to its server, counted by a proxy before it."""

from __future__ import annotations

import threading
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.builders.behind_proxies import behind_proxies, there

PLACES = [
    p
    for p in ("rest-local", "hive2-local", "hive4-local", "postgres-local", "mariadb-local")
    if there(p)
]
THREADS = 8


@pytest.mark.parametrize("place", PLACES)
def test_a_catalog_keeps_its_connections_and_has_no_more_than_there_are_threads(
    place: str, tmp_path: Path
) -> None:
    behind, db = behind_proxies(place, tmp_path), f"t{uuid.uuid4().hex[:10]}"
    (proxy,) = behind.proxies.values()
    with behind.catalog() as catalog:
        catalog.create_namespace(db)
        table = catalog.create_table(f"{db}.t", "id bigint")
        for number in range(10):
            table.append([{"id": number}])
        assert proxy.most_open <= 2, "one for commits, one for the reports of metrics"
        asked = proxy.answered
        with ThreadPoolExecutor(THREADS) as pool:
            loaded = list(pool.map(lambda _: catalog.load_table(f"{db}.t"), range(200)))
        assert {t.metadata.current_snapshot_id for t in loaded} == {
            table.metadata.current_snapshot_id
        }
        assert proxy.answered - asked >= 200 and proxy.connections <= THREADS + 1
    behind.close()


@pytest.mark.parametrize("place", PLACES)
def test_few_connections_are_left_when_many_threads_have_asked_at_once(
    place: str, tmp_path: Path
) -> None:
    behind, db, threads = behind_proxies(place, tmp_path), f"t{uuid.uuid4().hex[:10]}", 40
    (proxy,) = behind.proxies.values()
    with behind.catalog() as catalog:
        catalog.create_namespace(db)
        catalog.create_table(f"{db}.t", "id bigint")
        together = threading.Barrier(threads)

        def load(_: int) -> str:
            together.wait(30)
            return catalog.load_table(f"{db}.t").metadata_location

        with ThreadPoolExecutor(threads) as pool:
            assert len(set(pool.map(load, range(threads)))) == 1
        assert proxy.most_open > 2, "they have asked beside each other"
        until = time.monotonic() + 10
        while proxy.now_open > 17 and time.monotonic() < until:
            time.sleep(0.05)
        assert proxy.now_open <= 17, "sixteen in the pool of calls, one for the reports of metrics"
    behind.close()
