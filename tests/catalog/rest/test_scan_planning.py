"""Scans that the catalog's server plans: who chooses, what is asked and how often, plans that fail,
end late or are given up.
"""

from __future__ import annotations

import json
import pickle
import time
from types import SimpleNamespace
from typing import Any
from urllib.parse import unquote

import pytest

from frazil.catalog import LoadedTable
from frazil.catalog.backend import planner_of
from frazil.catalog.rest import planning
from frazil.errors import (
    CorruptData,
    FrazilError,
    InvalidInput,
    ScanPlanningError,
    StorageError,
    Unsupported,
)
from frazil.ops.reading import RowsReading
from frazil.scan.plan import Plan
from tests.catalog.conftest import TABLE
from tests.catalog.rest.conftest import Server, error
from tests.catalog.rest.test_snapshot_loading import ROUTE, answer, state

BASE = "/v1/{prefix}/namespaces/{namespace}/tables/{table}"
OFFERED = [
    f"GET {BASE}",
    f"POST {BASE}/plan",
    f"GET {BASE}/plan/{{plan-id}}",
    f"DELETE {BASE}/plan/{{plan-id}}",
    f"POST {BASE}/tasks",
]
SERVER = {"scan-planning-mode": "server"}


def told(
    server: Server, *endpoints: str, table: dict[str, str] | None = None, **config: Any
) -> None:
    """Let the server list endpoints, and tell a configuration with the table."""
    server.on(
        "GET /v1/config",
        (200, {"defaults": {}, "overrides": {}, **config, "endpoints": list(endpoints)}),
    )
    status, body = answer(state(2))
    server.on(f"GET {ROUTE}", (status, {**body, "config": table or {}}))


def file(n: int, **more: Any) -> dict[str, Any]:
    return {
        "spec-id": 0,
        "content": "data",
        "file-path": f"memory://w/db/t/data/{n}.parquet",
        "file-format": "parquet",
        "partition": [],
        "file-size-in-bytes": 1000 + n,
        "record-count": 10,
        **more,
    }


def tasks(*numbers: int, **more: Any) -> dict[str, Any]:
    return {
        "file-scan-tasks": [{"data-file": file(n), "residual-filter": True} for n in numbers],
        **more,
    }


def completed(*numbers: int, **more: Any) -> tuple[int, Any]:
    return 200, {"status": "completed", "plan-id": "p1", **tasks(*numbers), **more}


def reading(server: Server, row_filter: str = "true", **properties: str) -> RowsReading:
    backend = server.catalog(**properties)
    table = backend.load(TABLE)
    return RowsReading(
        table.metadata, table.storage, row_filter=row_filter, planner=planner_of(backend, table)
    )


def planned(server: Server, row_filter: str = "true", **properties: str) -> Plan:
    return reading(server, row_filter, **properties).plan()


def paths(plan: Plan) -> list[str]:
    return sorted(p.rpartition("/")[2] for p in plan.paths())


def asked(server: Server) -> list[str]:
    """The requests for plans, below the table."""
    return [
        f"{a.method} {unquote(a.path.removeprefix(ROUTE))}"
        for a in server.asked
        if a.path.startswith(f"{ROUTE}/")
    ]


@pytest.mark.parametrize(
    "mine, config, table, by_server",
    [
        ({}, {}, {}, False),
        ({"scan_planning_mode": "server"}, {}, {}, True),
        ({}, {"defaults": SERVER}, {}, True),
        ({"scan_planning_mode": "client"}, {"defaults": SERVER}, {}, False),
        ({"scan_planning_mode": "client"}, {"overrides": SERVER}, {}, True),
        ({}, {}, SERVER, True),
        ({"scan_planning_mode": "client"}, {}, SERVER, True),
        ({"scan_planning_mode": "server"}, {}, {"scan-planning-mode": "CLIENT"}, False),
    ],
    ids=range(8),
)
def test_who_plans_is_told_by_the_table_then_by_the_catalog(
    server: Server, mine: Any, config: Any, table: Any, by_server: bool
) -> None:
    told(server, *OFFERED, table=table, **config)
    server.on(f"POST {ROUTE}/plan", completed(1, 2))
    found = reading(server, **mine)
    assert (found.planner is not None) is by_server
    if by_server:
        plan = found.plan()
        assert paths(plan) == ["1.parquet", "2.parquet"] and asked(server) == ["POST /plan"]
        assert plan.by_server is not None and (plan.by_server.plan_id, plan.by_server.requests) == (
            "p1",
            1,
        )
        again = pickle.loads(pickle.dumps(found))
        assert paths(again.plan()) == paths(plan)


def test_a_server_that_does_not_offer_it_is_refused_by_name(server: Server) -> None:
    told(server, OFFERED[0], table=SERVER)
    with pytest.raises(
        Unsupported,
        match=r"Scans of table r.db.t .*does not list POST namespaces/\{\}/tables/\{\}/plan.* Ask who runs",
    ):
        planned(server)
    told(server, OFFERED[0])
    with pytest.raises(Unsupported, match="Leave scan-planning-mode out"):
        planned(server, scan_planning_mode="server")
    with pytest.raises(
        InvalidInput, match="scan-planning-mode must be client or server, not 'both'"
    ):
        server.catalog(scan_planning_mode="both")
    told(server, *OFFERED, table={"scan-planning-mode": "both"})
    with pytest.raises(CorruptData, match="tells scan-planning-mode='both' for table r.db.t"):
        planned(server)
    assert asked(server) == []


def test_the_request_names_snapshot_filter_and_columns(server: Server) -> None:
    told(server, *OFFERED, table=SERVER)
    server.on(f"POST {ROUTE}/plan", completed())
    found = reading(server, "id > 5 AND id IS NOT NULL AND id % 2 = 0")
    RowsReading(
        found.metadata,
        found.storage,
        {"snapshot_id": 1},
        None,
        found.row_filter,
        ("id", "_file"),
        planner=found.planner,
    ).plan()
    assert json.loads(server.asked[-1].body) == {
        "snapshot-id": 1,
        "case-sensitive": True,
        "use-snapshot-schema": True,
        "select": ["id"],
        "stats-fields": ["id"],
        "filter": {
            "type": "and",
            "left": {"type": "gt", "term": "id", "value": 5},
            "right": {"type": "not-null", "term": "id"},
        },
    }
    found.plan()
    sent = json.loads(server.asked[-1].body)
    assert (sent["snapshot-id"], sent["use-snapshot-schema"], "select" in sent) == (2, False, False)


def clock_with(sleep: Any) -> SimpleNamespace:
    """The module `time` of one module, with another sleep: other threads sleep as ever."""
    return SimpleNamespace(**{**vars(time), "sleep": sleep})


def test_a_submitted_plan_is_waited_for(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    waits: list[float] = []
    monkeypatch.setattr(planning, "time", clock_with(waits.append))
    told(server, *OFFERED, table=SERVER)
    server.on(f"POST {ROUTE}/plan", (200, {"status": "submitted", "plan-id": "a/b ü"}))
    place = f"GET {ROUTE}/plan/a%2Fb%20%C3%BC"
    server.on(
        place, *[(200, {"status": "submitted"})] * 3, (200, {"status": "completed", **tasks(1, 2)})
    )
    plan = planned(server)
    assert paths(plan) == ["1.parquet", "2.parquet"] and asked(server) == [
        "POST /plan",
        *["GET /plan/a/b ü"] * 4,
    ]
    assert (
        plan.by_server is not None
        and plan.by_server.plan_id == "a/b ü"
        and waits == pytest.approx([0.1, 0.2, 0.4, 0.8])
    )


@pytest.mark.parametrize(
    "first, then, message, cancelled",
    [
        (
            {"status": "failed", "error": {"message": "no memory", "type": "Oom", "code": 500}},
            None,
            "failed to plan .*HTTP 500, Oom: no memory",
            False,
        ),
        (
            {"status": "submitted", "plan-id": "p"},
            (200, {"status": "failed"}),
            r"failed to plan the scan \(plan p\)",
            False,
        ),
        (
            {"status": "submitted", "plan-id": "p"},
            (200, {"status": "cancelled"}),
            r"cancelled the plan of the scan \(plan p\)",
            False,
        ),
        (
            {"status": "submitted", "plan-id": "p"},
            (200, {"status": "submitted"}),
            r"has not planned the scan within 0.2 s \(plan p\)",
            True,
        ),
        (
            {"status": "submitted", "plan-id": "p"},
            error(404, "NoSuchPlanIdException"),
            r"no longer knows the plan of the scan \(plan p\)",
            True,
        ),
        (
            {"status": "completed", "plan-id": "p", "plan-tasks": ["x"]},
            None,
            r"no longer knows the plan of the scan \(plan p\)",
            True,
        ),
    ],
    ids=range(6),
)
def test_a_plan_that_ends_badly_is_told_and_given_up(
    server: Server, first: Any, then: Any, message: str, cancelled: bool
) -> None:
    told(server, *OFFERED, table=SERVER)
    server.on(f"POST {ROUTE}/plan", (200, first))
    server.on(f"GET {ROUTE}/plan/p", then)
    server.on(f"POST {ROUTE}/tasks", error(404, "NoSuchPlanTaskException"))
    server.on(f"DELETE {ROUTE}/plan/p", (204, b""))
    with pytest.raises(ScanPlanningError, match=message) as caught:
        planned(server, **{"rest-scan-planning__poll-timeout-ms": "200"})
    told_facts = caught.value.facts
    assert (
        told_facts["server"] == server.uri
        and told_facts["table"] == "r.db.t"
        and told_facts.get("plan_id") == first.get("plan-id")
    )
    assert server.uri in str(caught.value) and "r.db.t" in str(caught.value)
    assert (asked(server)[-1] == "DELETE /plan/p") is cancelled


def test_a_plan_is_cancelled_when_the_wait_for_it_is_broken_off(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(_: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(planning, "time", clock_with(interrupted))
    told(server, *OFFERED, table=SERVER)
    server.on(f"POST {ROUTE}/plan", (200, {"status": "submitted", "plan-id": "p"}))
    server.on(f"DELETE {ROUTE}/plan/p", error(500, "X"))
    with pytest.raises(KeyboardInterrupt):
        planned(server)
    assert asked(server)[:2] == ["POST /plan", "DELETE /plan/p"] and set(asked(server)[2:]) <= {
        "DELETE /plan/p"
    }
    told(server, *OFFERED[:3], table=SERVER)
    with pytest.raises(KeyboardInterrupt):
        planned(server)
    assert asked(server)[-1] == "POST /plan", (
        "a server that does not list it is not asked to cancel"
    )


def test_plan_tasks_are_fetched_with_those_that_they_name(server: Server) -> None:
    told(server, *OFFERED, table=SERVER)
    pages = {
        "a": tasks(2, **{"plan-tasks": ["c"]}),
        "b": tasks(3),
        "c": tasks(4, **{"plan-tasks": ["d"]}),
        "d": {},
    }
    server.on(f"POST {ROUTE}/plan", completed(1, **{"plan-tasks": ["a", "b"]}))
    server.on(
        f"POST {ROUTE}/tasks", lambda request: (200, pages[json.loads(request.body)["plan-task"]])
    )
    plan = planned(server)
    assert (
        paths(plan) == [f"{n}.parquet" for n in (1, 2, 3, 4)]
        and plan.by_server is not None
        and plan.by_server.requests == 5
    )
    assert sorted(asked(server)) == ["POST /plan", *["POST /tasks"] * 4]


def test_credentials_of_the_plan_read_its_files(server: Server) -> None:
    told(server, *OFFERED, f"GET {BASE}/credentials", table=SERVER)
    secret = {"s3.access-key-id": "k", "s3.secret-access-key": "hush"}
    server.on(
        f"POST {ROUTE}/plan",
        completed(1, **{"storage-credentials": [{"prefix": "memory://w/", "config": secret}]}),
    )
    plan = planned(server)
    assert (
        plan.by_server is not None
        and plan.storage is not None
        and plan.reads_by(plan.storage) is plan.by_server.storage
    )
    assert "hush" not in repr(plan)
    soon = {**secret, "s3.session-token-expires-at-ms": "1000"}
    server.on(
        f"POST {ROUTE}/plan",
        completed(1, **{"storage-credentials": [{"prefix": "memory://w/", "config": soon}]}),
    )
    server.on(
        f"GET {ROUTE}/credentials",
        (200, {"storage-credentials": [{"prefix": "memory://w/", "config": secret}]}),
    )
    backend = server.catalog()
    table: LoadedTable = backend.load(TABLE)
    assert (
        backend.credentials(TABLE, table.metadata.location, "p 1").properties[
            "s3.secret-access-key"
        ]
        == "hush"
    )
    assert server.asked[-1].path == f"{ROUTE}/credentials?planId=p%201"


def with_delete(references: list[int], **more: Any) -> tuple[int, Any]:
    vector = {
        **file(9, content="position-deletes"),
        "file-path": "memory://w/db/t/data/v.puffin",
        "file-format": "puffin",
        "content-offset": 4,
        "content-size-in-bytes": 40,
        "record-count": 2,
        **more,
    }
    body = {
        "status": "completed",
        "file-scan-tasks": [{"data-file": file(1), "delete-file-references": references}],
        "delete-files": [vector],
    }
    return 200, body


@pytest.mark.parametrize(
    "reply, message",
    [
        ((200, {"status": "completed", "plan-id": ".."}), r"names a plan '\.\.'"),
        ((200, {"status": "completed", "plan-id": ""}), "names a plan ''"),
        ((200, {"status": "submitted"}), "does not name the plan"),
        ((200, {"status": "happy"}), "unknown status 'happy'"),
        ((200, []), "no valid plan"),
        ((200, b"{" * 100_000), "no valid plan"),
        (completed(1, 1), "lists data file memory://w/db/t/data/1.parquet 2 times"),
        (
            completed(**{"file-scan-tasks": [{"data-file": file(1, **{"spec-id": 7})}]}),
            "of partition spec 7",
        ),
        (
            completed(**{"file-scan-tasks": [{"data-file": file(1, partition=[1])}]}),
            "has 1 partition values",
        ),
        (
            completed(**{"file-scan-tasks": [{"data-file": file(1, content="equality-deletes")}]}),
            "not a data file",
        ),
        (
            completed(**{"file-scan-tasks": [{"data-file": file(1, content="new")}]}),
            "unknown content 'new'",
        ),
        (
            completed(**{"file-scan-tasks": [{"data-file": file(1, **{"record-count": -1})}]}),
            "no valid plan",
        ),
        (
            completed(
                **{"file-scan-tasks": [{"data-file": file(1, **{"file-size-in-bytes": 2**63})}]}
            ),
            "no valid plan",
        ),
        (with_delete([1]), "refers to delete file 1, but the answer has 1"),
        (with_delete([-1]), "refers to delete file -1"),
        (
            with_delete([0], **{"referenced-data-file": "memory://w/db/t/data/2.parquet"}),
            "is one of memory://w/db/t/data/2.parquet",
        ),
        (with_delete([0], **{"content-offset": None}), "no place in its file"),
        (with_delete([0], content="equality-deletes", **{"equality-ids": [1]}), "puffin file"),
        (completed(1, **{"plan-tasks": ["a", "a"]}), "names the plan task 'a' twice"),
    ],
    ids=range(19),
)
def test_plans_that_contradict_themselves_are_refused(
    server: Server, reply: Any, message: str
) -> None:
    told(server, *OFFERED, table=SERVER)
    server.on(f"POST {ROUTE}/plan", reply)
    with pytest.raises(CorruptData, match=message) as caught:
        planned(server)
    assert server.uri in str(caught.value)
    assert not any(a.method == "DELETE" and a.path.rstrip("/.") == ROUTE for a in server.asked), (
        "the table itself is never asked to be deleted"
    )


def test_encrypted_files_are_refused_and_server_errors_are_told(server: Server) -> None:
    told(server, *OFFERED, table=SERVER)
    server.on(
        f"POST {ROUTE}/plan",
        completed(**{"file-scan-tasks": [{"data-file": file(1, **{"key-metadata": "00"})}]}),
    )
    with pytest.raises(Unsupported, match="encrypted"):
        planned(server)
    for reply, kind in (
        (error(400, "ValidationException", "bad filter"), InvalidInput),
        (error(403, "ForbiddenException"), StorageError),
        (error(406, "X"), Unsupported),
    ):
        server.on(f"POST {ROUTE}/plan", reply)
        with pytest.raises(
            FrazilError, match=r"Table r.db.t: planning a scan by the server http"
        ) as caught:
            planned(server)
        assert type(caught.value) is kind and caught.value.facts["server"] == server.uri


def test_a_vector_is_found_by_its_data_file_in_a_puffin_file_of_many(server: Server) -> None:
    """Java's server 1.11.0 refers to the last vector of a Puffin file, whichever is meant."""
    told(server, *OFFERED, table=SERVER)
    _, body = with_delete([1], **{"referenced-data-file": file(1)["file-path"]})
    other = {
        **body["delete-files"][0],
        "content-offset": 44,
        "referenced-data-file": file(2)["file-path"],
    }
    body["delete-files"].append(other)
    body["file-scan-tasks"].append({"data-file": file(2), "delete-file-references": [1]})
    server.on(f"POST {ROUTE}/plan", (200, body))
    found = {
        t.file.file_path[-9:]: [d.content_offset for d in t.delete_files]
        for t in planned(server).tasks()
    }
    assert found == {"1.parquet": [4], "2.parquet": [44]}


def bounded(form: Any) -> tuple[int, Any]:
    """Three files of the ids 0 to 9, 10 to 19, 20 to 29."""
    files = [
        file(
            n,
            **{
                "value-counts": {"keys": [1], "values": [10]},
                "null-value-counts": {"keys": [1], "values": [0]},
                "lower-bounds": {"keys": [1], "values": [form(10 * n)]},
                "upper-bounds": {"keys": [1], "values": [form(10 * n + 9)]},
            },
        )
        for n in range(3)
    ]
    return completed(**{"file-scan-tasks": [{"data-file": f} for f in files]})


@pytest.mark.parametrize(
    "form", [lambda n: n, lambda n: n.to_bytes(8, "little").hex().upper()], ids=["typed", "bytes"]
)
def test_bounds_prune_and_decide_in_both_forms(server: Server, form: Any) -> None:
    told(server, *OFFERED, table=SERVER)
    server.on(f"POST {ROUTE}/plan", bounded(form))
    plan = planned(server, "id >= 15")
    assert (
        paths(plan) == ["1.parquet", "2.parquet"]
        and plan.matched_records == 10
        and len(plan.undecided_tasks()) == 1
    )
    assert "1 by counts and bounds" in str(plan.explain())
