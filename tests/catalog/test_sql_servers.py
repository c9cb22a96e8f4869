"""SQL catalogs in PostgreSQL and MariaDB whose connections are lost: what only reads is asked
again, and what is wrong is told at once.
"""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

import frazil
from frazil.errors import StorageError
from tests.builders.behind_proxies import REQUESTS, behind_proxies, there
from tests.builders.frames import ids_of
from tests.fault_proxy import Fired

PLACES = [p for p in ("postgres-local", "mariadb-local") if there(p)]
BEGINS = {"postgres": "\x00user\x00", "mariadb": "AUTOCOMMIT"}
"""What a client sends when it has just connected."""


@pytest.mark.parametrize("fault", ["reset", "call", "answer", "truncated"])
@pytest.mark.parametrize("moment", ["connect", "load"])
@pytest.mark.parametrize("place", PLACES)
def test_what_only_reads_goes_on_over_another_connection(
    place: str, moment: str, fault: str, tmp_path: Path
) -> None:
    behind, db = behind_proxies(place, tmp_path), f"t{uuid.uuid4().hex[:10]}"
    server = place.partition("-")[0]
    (proxy,) = behind.proxies.values()
    with behind.catalog() as catalog:
        catalog.create_namespace(db)
        catalog.create_table(f"{db}.t", "id bigint").append([{"id": 1}])
        request = REQUESTS[server]["load"] if moment == "load" else BEGINS[server]
        proxy.once(request, fault)
        if moment == "load":
            assert ids_of(catalog, f"{db}.t") == [1]
        else:
            with behind.catalog() as other:
                assert ids_of(other, f"{db}.t") == [1]
        assert proxy.fired == [Fired(request, fault)]
        catalog.load_table(f"{db}.t").append([{"id": 2}])
        assert ids_of(catalog, f"{db}.t") == [1, 2]
    behind.close()


@pytest.mark.parametrize("place", PLACES)
def test_a_user_whom_the_server_refuses_asks_once(place: str, tmp_path: Path) -> None:
    behind = behind_proxies(place, tmp_path)
    (proxy,) = behind.proxies.values()
    uri = behind.properties["uri"].replace("app:app@", "stranger:wrong-word@")
    with pytest.raises(StorageError, match="stranger") as told:
        frazil.load_catalog("c", **{**behind.properties, "uri": uri})  # type: ignore[arg-type]
    assert proxy.connections == 1 and "wrong-word" not in f"{told.value} {told.value!r}"
    behind.close()


@pytest.mark.parametrize("fault", ["reset", "call", "answer", "truncated"])
@pytest.mark.parametrize(
    "request_",
    ["UPDATE iceberg_tables", "INSERT INTO iceberg_tables", "DELETE FROM iceberg_tables"],
)
@pytest.mark.parametrize("place", PLACES)
def test_a_change_goes_on_over_another_connection_where_the_first_is_lost_before_it_is_committed(
    place: str, request_: str, fault: str, tmp_path: Path
) -> None:
    behind, db = behind_proxies(place, tmp_path), f"t{uuid.uuid4().hex[:10]}"
    (proxy,) = behind.proxies.values()
    with behind.catalog() as catalog:
        catalog.create_namespace(db)
        table = catalog.create_table(f"{db}.t", "id bigint")
        table.append([{"id": 1}])
        proxy.once(request_, fault)
        match request_.partition(" ")[0]:
            case "UPDATE":
                table.append([{"id": 2}])
            case "INSERT":
                catalog.create_table(f"{db}.u", "id bigint")
            case _:
                catalog.drop_table(f"{db}.t")
        assert proxy.fired == [Fired(request_, fault)]
        names = sorted(name for _, name in catalog.list_tables(db))
        assert (
            names
            == {"UPDATE": ["t"], "INSERT": ["t", "u"], "DELETE": []}[request_.partition(" ")[0]]
        )
        if "t" in names:
            assert ids_of(catalog, f"{db}.t") == ([1, 2] if request_.startswith("UPDATE") else [1])
            assert len(catalog.load_table(f"{db}.t").snapshots()) == (
                2 if request_.startswith("UPDATE") else 1
            )
    behind.close()
