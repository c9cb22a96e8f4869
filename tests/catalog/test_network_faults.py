"""Faults of the network between Frazil and each server: rows and files are right afterwards, and
what was acknowledged is there once.

The short form meets half of the kinds at the request that commits, the other half at the next
server; FRAZIL_SOAK=1 all at all requests, thrice.
"""

from __future__ import annotations

import os
import uuid
from pathlib import Path

import pytest

from frazil.errors import FrazilError
from tests.builders.behind_proxies import REQUESTS, behind_proxies, one_state, there
from tests.fault_proxy import KINDS, Fired

SOAK = bool(os.environ.get("FRAZIL_SOAK"))
ORDER = (
    "path-hdfs",
    "path-s3",
    "hive2-local",
    "hive4-local",
    "mariadb-local",
    "postgres-local",
    "path-azurite",
    "rest-local",
)
PLACES = [p for p in ORDER if there(p)]
pytestmark = [pytest.mark.soak] if SOAK else []
# Nothing is lost by these. Of other requests, a slow close swallows the one that commits.
KEPT = {(request, "delay") for requests in REQUESTS.values() for request in requests} | {
    ("commit", "slow close")
}


def asked(place: str) -> tuple[str, dict[str, str]]:
    """The server that decides commits of a place, and its requests."""
    catalog, store = place.split("-")
    name = store if catalog == "path" else catalog
    return name, REQUESTS[name]


@pytest.mark.parametrize(
    "request_name", sorted({r for p in PLACES for r in asked(p)[1]}) if SOAK else ["commit"]
)
@pytest.mark.parametrize("place", PLACES)
def test_what_was_acknowledged_is_there_once_whatever_the_network_does(
    place: str, request_name: str, tmp_path: Path
) -> None:
    server, requests = asked(place)
    if request_name not in requests:
        return
    behind = behind_proxies(place, tmp_path)
    proxy, db = behind.proxies[server], f"t{uuid.uuid4().hex[:10]}"
    kinds = KINDS * 3 if SOAK else KINDS[ORDER.index(place) % 2 :: 2]
    failed: dict[int, Exception] = {}
    with behind.catalog() as catalog:
        catalog.create_namespace(db)
        table = catalog.create_table(f"{db}.t", "id bigint")
        for number, kind in enumerate(kinds):
            proxy.once(requests[request_name], kind, 0.2)
            try:
                table.append([{"id": number}])
                table.scan().to_arrow()
                catalog.load_table(f"{db}.t")
            except FrazilError as error:
                assert (request_name, kind) not in KEPT, f"{kind}: {error}"
                failed[number] = error
            assert proxy.fired[number:] == [Fired(requests[request_name], kind)]
            table = catalog.load_table(f"{db}.t")
        rows = sorted(table.scan().to_arrow()["id"].to_pylist())
        assert len(set(rows)) == len(rows) == len(table.snapshots())
        assert set(range(len(kinds))) - set(rows) <= failed.keys(), "an acknowledged row is missing"
        one_state(table, list(failed.values()))
    behind.close()
