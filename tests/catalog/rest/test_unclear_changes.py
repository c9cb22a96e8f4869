"""A change that is sent twice under one key: once the outcome of the first sending is not known, no
refusal of the second one makes it known.
"""

from __future__ import annotations

import contextlib
import json
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import frazil
from frazil.catalog import Unknown
from frazil.catalog.base import Unclear
from frazil.codec.metadata_json import encode_metadata
from frazil.codec.view_json import decode_view
from frazil.commit.apply import apply_updates
from frazil.errors import CommitStateUnknownException, StorageError
from frazil.spec.updates import check_requirements
from tests.builders.json_updates import requirement_from_json, update_from_json
from tests.catalog.conftest import TABLE, new_metadata, set_to, swap
from tests.catalog.rest.conftest import Asked, Server, error, table_json
from tests.catalog.rest.test_hostile_answers import VIEW_ANSWER
from tests.catalog.rest.test_protocol import KEYED, TABLE_ROUTE

REFUSALS = [
    *(error(status, "Refused") for status in (400, 401, 403, 404, 408, 409, 422, 501)), (429, {}, {"Retry-After": "0"}),
    *((status, b"", {"Location": "/elsewhere"}) for status in (302, 307)), None,
]  # fmt: skip
LATE = (504, b"late", {"Content-Type": "text/html"})


@pytest.mark.parametrize("first", [None, LATE], ids=["lost", "late"])
@pytest.mark.parametrize("second", REFUSALS, ids=lambda a: str(a and a[0]))
def test_a_repeated_change_that_is_refused_may_have_been_handled(
    server: Server, first: Any, second: Any
) -> None:
    server.on("GET /v1/config", (200, KEYED))
    server.on(f"GET {TABLE_ROUTE}", (200, table_json()))
    server.on(f"POST {TABLE_ROUTE}", first, second)
    backend = server.catalog()
    assert isinstance(swap(backend, backend.load(TABLE), set_to(a="1")), Unknown)
    assert server.routes().count(f"POST {TABLE_ROUTE}") >= 2


@pytest.mark.parametrize(
    "renewal",
    [(200, {"access_token": "two"}), error(401, "NotAuthorizedException"), None],
    ids=["new", "refused", "lost"],
)
def test_a_change_stays_unclear_while_its_token_is_renewed(server: Server, renewal: Any) -> None:
    server.on("GET /v1/config", (200, KEYED))
    server.on("POST /v1/oauth/tokens", (200, {"access_token": "one"}), renewal)
    server.on(f"GET {TABLE_ROUTE}", (200, table_json()))
    server.on(f"POST {TABLE_ROUTE}", LATE, error(401, "NotAuthorizedException"))
    backend = server.catalog(credential="me:pass-word")
    assert isinstance(swap(backend, backend.load(TABLE), set_to(a="1")), Unknown)
    posted = [a.headers for a in server.asked if a.path == TABLE_ROUTE and a.method == "POST"]
    assert (
        len(posted) == (3 if renewal and renewal[0] == 200 else 2)
        and len({h["Idempotency-Key"] for h in posted}) == 1
    )


def test_a_change_is_not_sent_by_a_new_token_once_the_server_has_forgotten_its_key(
    server: Server,
) -> None:
    """The first sending may have been handled, and the server would handle the next one again."""
    # a sending takes 12 seconds at most
    server.on("GET /v1/config", (200, {**KEYED, "idempotency-key-lifetime": "PT13S"}))
    server.on(
        "POST /v1/oauth/tokens", (200, {"access_token": "one"}), (200, {"access_token": "two"})
    )
    server.on(f"GET {TABLE_ROUTE}", (200, table_json()))

    def late_refusal(_: Any) -> Any:
        time.sleep(1.2)
        return error(401, "NotAuthorizedException")

    server.on(f"POST {TABLE_ROUTE}", LATE, late_refusal, (200, table_json()))
    backend = server.catalog(credential="me:pass-word")
    assert isinstance(swap(backend, backend.load(TABLE), set_to(a="1")), Unknown)
    assert (
        server.routes().count(f"POST {TABLE_ROUTE}") == 2
        and server.routes().count("POST /v1/oauth/tokens") == 2
    )


def test_a_token_that_cannot_be_had_leaves_a_change_unclear_only_after_it_was_sent(
    server: Server,
) -> None:
    """The token ends between two sendings of one change; without a sending, the same fault is a
    failure for certain.
    """
    server.on("GET /v1/config", (200, KEYED))
    server.on("POST /v1/oauth/tokens", (200, {"access_token": "one", "expires_in": 3600}), None)
    server.on(f"GET {TABLE_ROUTE}", (200, table_json()))

    def ends(_: Any) -> Any:
        backend.client.auth._token = None
        return error(401, "NotAuthorizedException")

    server.on(f"POST {TABLE_ROUTE}", LATE, ends)
    backend = server.catalog(credential="me:pass-word")
    base = backend.load(TABLE)
    assert isinstance(swap(backend, base, set_to(a="1")), Unknown)
    assert server.routes()[-1] == "POST /v1/oauth/tokens"
    with pytest.raises(StorageError, match="No answer"):
        swap(backend, base, set_to(a="1"))


@pytest.mark.parametrize(
    "change", ["drop_table", "rename_table", "create_namespace", "drop_view", "create_view"]
)
def test_other_changes_that_are_refused_when_they_are_repeated_are_unclear(
    server: Server, change: str
) -> None:
    routes = {
        "drop_table": f"DELETE {TABLE_ROUTE}",
        "rename_table": "POST /v1/tables/rename",
        "create_namespace": "POST /v1/namespaces",
    }
    views = {
        "drop_view": "DELETE /v1/namespaces/db/views/t",
        "create_view": "POST /v1/namespaces/db/views",
    }
    server.on("GET /v1/config", (200, KEYED))
    server.on("GET /v1/namespaces/db", (200, {}))
    server.on({**routes, **views}[change], None, error(403, "ForbiddenException"))
    backend, more = (
        server.catalog(),
        {
            "rename_table": (("db", "u"),),
            "create_view": (decode_view(json.dumps(VIEW_ANSWER["metadata"]).encode(), file="v"),),
        },
    )
    ask = partial(getattr(backend, change), TABLE, *more.get(change, ()))
    if change == "create_view":
        assert isinstance(ask(), Unknown)
    else:
        with pytest.raises(Unclear, match="403"):
            ask()
    assert server.routes().count({**routes, **views}[change]) == 2


def keeping(server: Server, place: Path, *refusals: Any) -> Any:
    """Let the server keep a table below a folder and apply the first commit, but answer it so that
    its outcome is not known, and those after it with the refusals."""
    state = {"now": new_metadata(str(place), commit__status_check__num_retries="0")}

    def table(_: Any = None) -> tuple[int, Any]:
        shown = f"{place}/metadata/{len(state['now'].snapshots)}.metadata.json"
        return 200, {
            "metadata-location": shown,
            "metadata": json.loads(encode_metadata(state["now"])),
        }

    def applied(asked: Asked) -> Any:
        body = json.loads(asked.body)
        check_requirements(state["now"], [requirement_from_json(r) for r in body["requirements"]])
        state["now"] = apply_updates(state["now"], [update_from_json(u) for u in body["updates"]])
        return LATE

    server.on("GET /v1/config", (200, KEYED))
    server.on(f"GET {TABLE_ROUTE}", table)
    server.on(f"POST {TABLE_ROUTE}", applied, *refusals)
    return frazil.load_catalog("r", type="rest", uri=server.uri, **{"rest.client.max-retries": "1"})


@pytest.mark.parametrize("second", [*REFUSALS[:3], *REFUSALS[-4:]], ids=lambda a: str(a and a[0]))
@pytest.mark.parametrize("seen", [True, False], ids=["found", "out of sight"])
def test_no_file_of_an_append_that_was_applied_is_lost_when_its_repetition_is_refused(
    server: Server, tmp_path: Path, second: Any, seen: bool
) -> None:
    with keeping(server, tmp_path / "t", second) as catalog:
        table = catalog.load_table("db.t")
        after = server.answers[f"GET {TABLE_ROUTE}"]
        if not seen:
            server.on(f"GET {TABLE_ROUTE}", error(403, "ForbiddenException"))
        with contextlib.nullcontext() if seen else pytest.raises(CommitStateUnknownException):
            table.append([{"id": 1}])
        assert server.routes().count(f"POST {TABLE_ROUTE}") == 2
        server.answers[f"GET {TABLE_ROUTE}"] = after
        assert catalog.load_table("db.t").to_arrow()["id"].to_pylist() == [1]
