"""How many connections a catalog opens to its server, counted by a proxy before it."""

from __future__ import annotations

import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.builders.behind_proxies import behind_proxies, there

PLACES = [p for p in ("rest-local", "hive2-local", "hive4-local", "postgres-local", "mariadb-local") if there(p)]
THREADS = 8


@pytest.mark.parametrize("place", PLACES)
def test_a_catalog_keeps_its_connections_and_has_no_more_than_there_are_threads(place: str, tmp_path: Path) -> None:
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
        assert {t.metadata.current_snapshot_id for t in loaded} == {table.metadata.current_snapshot_id}
        assert proxy.answered - asked >= 200 and proxy.connections <= THREADS + 1
    behind.close()
