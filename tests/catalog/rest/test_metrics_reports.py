"""Metrics reports to a REST catalog's server: sent where it takes them, by the specification's
shapes, and never in the way of anything.
"""

from __future__ import annotations

import json
import os
import threading
import time
import uuid
from typing import Any

import pytest

import frazil
from frazil.catalog import reporting
from frazil.catalog.backend import reporter_of
from frazil.errors import InvalidInput
from frazil.table.catalog import Catalog
from tests.catalog.conftest import TABLE
from tests.catalog.rest.conftest import Server, error
from tests.catalog.rest.test_snapshot_loading import ROUTE, answer, state

METRICS = f"{ROUTE}/metrics"
SERVERS = [os.environ["FRAZIL_TEST_REST"]] if os.environ.get("FRAZIL_TEST_REST") else []
SERVED = "POST /v1/{prefix}/namespaces/{namespace}/tables/{table}/metrics"
OTHERS = [
    "GET /v1/{prefix}/namespaces/{namespace}/tables/{table}",
    "POST /v1/{prefix}/namespaces/{namespace}/tables/{table}",
]


def config(
    *endpoints: str, defaults: dict[str, str] | None = None, overrides: dict[str, str] | None = None
) -> tuple[int, Any]:
    return 200, {
        "defaults": defaults or {},
        "overrides": overrides or {},
        **({"endpoints": list(endpoints)} if endpoints else {}),
    }


def committed(server: Server, **properties: str) -> list[Any]:
    """Report one commit of a table that the server has, and return the bodies that the server was
    sent.
    """
    server.on(f"GET {ROUTE}", answer(state(2)))
    server.on(f"POST {METRICS}", (204, b""))
    backend = server.catalog(**properties)
    table = backend.load(TABLE)
    if (reporter := reporter_of(backend, TABLE)) is not None:
        reporter.committed(tuple(table.metadata.snapshots), 3, 0.25, {"engine-name": "frazil"})
    backend.close()
    return [json.loads(a.body) for a in server.asked if a.path == METRICS]


def test_a_server_that_tells_no_endpoints_is_sent_reports_as_by_java(server: Server) -> None:
    first, second = committed(server)
    assert first["report-type"] == "commit-report" and (
        first["table-name"],
        first["snapshot-id"],
        second["snapshot-id"],
    ) == ("r.db.t", 1, 2)
    assert first["metrics"] == {
        "total-duration": {"count": 1, "time-unit": "nanoseconds", "total-duration": 250_000_000},
        "attempts": {"unit": "count", "value": 3},
    }
    assert first["metadata"] == {"engine-name": "frazil"}


def test_a_server_that_lists_the_route_is_sent_reports(server: Server) -> None:
    server.on("GET /v1/config", config(*OTHERS, SERVED))
    assert len(committed(server)) == 2


def test_a_server_that_does_not_list_the_route_is_sent_none(server: Server) -> None:
    server.on("GET /v1/config", config(*OTHERS))
    assert committed(server) == [] and server.routes() == ["GET /v1/config", f"GET {ROUTE}"]


def test_reports_are_switched_off_by_property_here_or_by_the_server(server: Server) -> None:
    assert committed(server, rest_metrics_reporting_enabled="false") == []
    server.on("GET /v1/config", config(overrides={"rest-metrics-reporting-enabled": "false"}))
    assert committed(server) == []
    with pytest.raises(InvalidInput, match="rest-metrics-reporting-enabled must be true or false"):
        server.catalog(rest_metrics_reporting_enabled="maybe")


def test_a_server_cannot_name_a_function_to_import(server: Server) -> None:
    server.on(
        "GET /v1/config",
        config(*OTHERS, overrides={"metrics-reporter-impl": "no_such_module_of_ours:take"}),
    )
    assert committed(server) == []


@pytest.mark.parametrize(
    "reply",
    [error(500, "ServiceFailureException"), error(403, "ForbiddenException"), None, (204, b"")],
)
def test_an_answer_to_a_report_changes_nothing(server: Server, reply: Any) -> None:
    reporting._warn_once.cache_clear()
    server.on(f"GET {ROUTE}", answer(state(2)))
    server.on(f"POST {METRICS}", reply)
    with Catalog(server.catalog()) as catalog:
        loaded = catalog._backend.load(TABLE)
        taker = reporter_of(catalog._backend, TABLE)
        assert taker is not None
        taker.committed(tuple(loaded.metadata.snapshots), 1, 0.1, {})
        assert catalog.load_table("db.t").metadata == loaded.metadata
    assert server.routes().count(f"POST {METRICS}") == 2


def test_a_server_that_does_not_answer_reports_delays_nothing(server: Server) -> None:
    released = threading.Event()
    server.on(f"GET {ROUTE}", answer(state(2)))
    server.on(f"POST {METRICS}", lambda _: released.wait(20) and (204, b""))
    backend = server.catalog()
    loaded, taker = backend.load(TABLE), reporter_of(backend, TABLE)
    assert taker is not None
    begun = time.monotonic()
    for _ in range(500):
        taker.committed(tuple(loaded.metadata.snapshots), 1, 0.1, {})
    assert time.monotonic() - begun < 10 and backend.load(TABLE).metadata == loaded.metadata
    begun = time.monotonic()
    backend.close()
    assert time.monotonic() - begun < 10
    released.set()


@pytest.mark.parametrize("uri", SERVERS)
def test_javas_server_takes_reports_of_scans_and_commits(
    uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"m{uuid.uuid4().hex[:8]}.t"
    with frazil.load_catalog("r", type="rest", uri=uri) as catalog:
        client: Any = catalog._backend.client  # type: ignore[attr-defined]
        ask, statuses = client.request, list[tuple[str, int]]()

        def noted(method: str, path: str, **more: Any) -> Any:
            found = ask(method, path, **more)
            if path.endswith("/metrics"):
                statuses.append((json.dumps(more["body"]), found.status))
            return found

        monkeypatch.setattr(client, "request", noted)
        catalog.create_namespace(name[:-2])
        table = catalog.create_table(name, "id bigint, s string, d date, x double")
        table.append([{"id": 1, "s": "it's", "d": None, "x": 0.5}])
        condition = "id in (1, 22) and s like 'it%' and (d is null or x > 0.25) and not isnan(x) and s <> 'x'"
        assert table.scan(condition).to_arrow().num_rows == 1
        table.delete("id = 1")
    assert [status for _, status in statuses] in ([200] * len(statuses), [204] * len(statuses))
    kinds = [json.loads(body)["report-type"] for body, _ in statuses]
    assert (
        kinds == ["commit-report", "scan-report", "scan-report", "commit-report"]
        and "it's" not in statuses[1][0]
    )
