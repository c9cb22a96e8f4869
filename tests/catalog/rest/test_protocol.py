"""Faults, retries, authentication, pages and hostile answers, against a server in this process."""

from __future__ import annotations

import base64
import json
import pickle
import time
import uuid
from typing import Any

import pytest

import frazil
from frazil.catalog import Committed, Conflict, Unknown, load_backend
from frazil.catalog.rest.catalog import RestBackend
from frazil.errors import (
    CommitStateUnknownException,
    CorruptData,
    FrazilError,
    InvalidInput,
    NamespaceNotEmptyError,
    NoSuchNamespaceError,
    NoSuchTableError,
    StorageError,
    TableAlreadyExistsError,
    Unsupported,
    ValidationException,
)
from frazil.storage import catalog_properties, lasting_properties
from tests.catalog.conftest import TABLE, committed, set_to, swap
from tests.catalog.rest.conftest import CONFIG, Asked, Server, error, table_json

TABLE_ROUTE = "/v1/namespaces/db/tables/t"
SECRET = "hunter2-secret"


def test_a_load_is_one_request_and_an_unchanged_table_is_not_sent_again(server: Server) -> None:
    server.on(f"GET {TABLE_ROUTE}", (200, table_json(), {"ETag": '"one"'}), (304, b""))
    backend = server.catalog()
    first, again = backend.load(TABLE), backend.load(TABLE)
    assert again.metadata == first.metadata and server.routes() == [
        "GET /v1/config",
        f"GET {TABLE_ROUTE}",
        f"GET {TABLE_ROUTE}",
    ]
    assert (
        "If-None-Match" not in server.asked[1].headers
        and server.asked[2].headers["If-None-Match"] == '"one"'
    )


def test_a_commit_is_one_request(server: Server) -> None:
    server.on(f"GET {TABLE_ROUTE}", (200, table_json()))
    server.on(f"POST {TABLE_ROUTE}", (200, table_json()))
    backend = server.catalog()
    base = backend.load(TABLE)
    before = len(server.asked)
    assert isinstance(swap(backend, base, set_to(a="1")), Committed)
    assert (
        server.routes()[before:] == [f"POST {TABLE_ROUTE}"]
        and b'"set-properties"' in server.asked[-1].body
    )


@pytest.mark.parametrize(
    "answer, outcome, times",
    [
        (error(409, "CommitFailedException"), Conflict, 1),
        (error(404, "NoSuchTableException"), Conflict, 1),
        (error(500, "InternalServerError"), Unknown, 1),
        (error(502, "BadGateway"), Unknown, 1),
        ((503, {}, {"Retry-After": "0"}), Unknown, 1),
        ((504, b"<html>late</html>", {"Content-Type": "text/html"}), Unknown, 1),
        (None, Unknown, 1),
        ((200, b"not json"), Unknown, 1),
        ((408, b""), Unknown, 1),
        ((460, b""), Unknown, 1),
        ((499, b""), Unknown, 1),
        ((302, b"", {"Location": "/done"}), Unknown, 1),
        ((307, b"", {"Location": "/elsewhere"}), StorageError, 1),
        (error(403, "ForbiddenException"), StorageError, 1),
        (error(413, "TooLarge"), StorageError, 1),
        ((429, {}, {"Retry-After": "0"}), StorageError, 3),
    ],
)
def test_what_an_answer_to_a_commit_means(
    server: Server, answer: Any, outcome: type, times: int
) -> None:
    server.on(f"GET {TABLE_ROUTE}", (200, table_json()))
    server.on(f"POST {TABLE_ROUTE}", answer)
    backend = server.catalog()
    base = backend.load(TABLE)
    try:
        found: object = swap(backend, base, set_to(a="1"))
    except FrazilError as e:
        found = e
    assert isinstance(found, outcome), found
    assert server.routes().count(f"POST {TABLE_ROUTE}") == times


KEYED = {"defaults": {}, "overrides": {}, "idempotency-key-lifetime": "PT30M"}


@pytest.mark.parametrize(
    "first",
    [None, (503, {}), (504, b"late", {"Content-Type": "text/html"})],
    ids=["lost", "busy", "late"],
)
def test_a_change_is_sent_again_by_its_key_where_the_server_takes_keys(
    server: Server, first: Any
) -> None:
    server.on("GET /v1/config", (200, KEYED))
    server.on(f"GET {TABLE_ROUTE}", (200, table_json()))
    server.on(f"POST {TABLE_ROUTE}", first, (200, table_json()))
    backend = server.catalog()
    base = backend.load(TABLE)
    assert isinstance(swap(backend, base, set_to(a="1")), Committed)
    keys = [uuid.UUID(a.headers["Idempotency-Key"]) for a in server.asked if a.method == "POST"]
    assert (
        len(keys) == 2
        and keys[0] == keys[1]
        and keys[0].version == 7
        and keys[0].variant == uuid.RFC_4122
    )
    assert abs((keys[0].int >> 80) / 1000 - time.time()) < 60
    swap(backend, base, set_to(a="1"))
    assert uuid.UUID(server.asked[-1].headers["Idempotency-Key"]) != keys[0]
    assert not any("Idempotency-Key" in a.headers for a in server.asked if a.method == "GET")


@pytest.mark.parametrize("lifetime", ["PT1S", "soon", "P", "PT", None])
def test_no_change_is_sent_again_beyond_the_lifetime_of_its_key(
    server: Server, lifetime: str | None
) -> None:
    server.on("GET /v1/config", (200, {**KEYED, "idempotency-key-lifetime": lifetime}))
    server.on(f"GET {TABLE_ROUTE}", (200, table_json()))
    server.on(f"POST {TABLE_ROUTE}", None)
    backend = server.catalog()
    assert isinstance(swap(backend, backend.load(TABLE), set_to(a="1")), Unknown)
    assert server.routes().count(f"POST {TABLE_ROUTE}") == 1
    assert ("Idempotency-Key" in server.asked[-1].headers) == (lifetime == "PT1S")


def test_reads_are_sent_again_after_faults_that_pass(server: Server) -> None:
    server.on(
        f"GET {TABLE_ROUTE}", (503, {}), None, (429, {}, {"Retry-After": "0"}), (200, table_json())
    )
    assert server.catalog(rest__client__max_retries="5").load(TABLE).identifier == TABLE
    assert server.routes().count(f"GET {TABLE_ROUTE}") == 4


@pytest.mark.parametrize(
    "fault",
    [None, (503, {}), (200, b"{", {"Content-Length": "9", "Connection": "close"})],
    ids=["lost", "busy", "cut"],
)
@pytest.mark.parametrize("retries", [0, 2])
def test_a_read_is_sent_again_as_often_as_configured_and_no_more(
    server: Server, fault: Any, retries: int
) -> None:
    server.on(f"GET {TABLE_ROUTE}", fault)
    with pytest.raises(StorageError):
        server.catalog(rest__client__max_retries=str(retries)).load(TABLE)
    assert server.routes().count(f"GET {TABLE_ROUTE}") == 1 + retries


def test_a_change_is_sent_again_as_often_as_configured_and_no_more(server: Server) -> None:
    server.on("GET /v1/config", (200, KEYED))
    server.on(f"GET {TABLE_ROUTE}", (200, table_json()))
    server.on(f"POST {TABLE_ROUTE}", (429, {}), (504, b""), None, (200, table_json()))
    backend = server.catalog(rest__client__max_retries="2")
    assert isinstance(swap(backend, backend.load(TABLE), set_to(a="1")), Unknown)
    assert server.routes().count(f"POST {TABLE_ROUTE}") == 3


def test_a_server_that_asks_to_wait_for_ever_is_not_obeyed(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: list[float] = []
    monkeypatch.setattr(time, "sleep", waited.append)
    server.on(f"GET {TABLE_ROUTE}", (429, {}, {"Retry-After": "999999"}))
    with pytest.raises(StorageError, match="429"):
        server.catalog().load(TABLE)
    assert waited and max(waited) <= 10


def test_pages_are_followed_and_a_list_without_end_is_refused(server: Server) -> None:
    route = "GET /v1/namespaces"
    server.on(
        route,
        (200, {"namespaces": [["b"]], "next-page-token": "x"}),
        (200, {"namespaces": [["a"]], "next-page-token": None}),
    )
    assert server.catalog(rest_page_size="1").list_namespaces() == [("a",), ("b",)]
    assert "pageToken=x" in server.asked[-1].path and "pageSize=1" in server.asked[-1].path
    server.on(route, (200, {"namespaces": [], "next-page-token": "x"}))
    with pytest.raises(CorruptData, match="same page"):
        server.catalog().list_namespaces()


def test_names_of_a_namespace_are_listed_as_the_server_spells_it(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    names = [(["DB"], "T1"), (["db"], "t2"), (["DB", "inner"], "t3"), (["other"], "t4")]
    page = {"identifiers": [{"namespace": n, "name": t} for n, t in names]}
    config = {**CONFIG, "endpoints": ["GET /v1/{prefix}/namespaces/{namespace}/views"]}
    server.on("GET /v1/config", (200, config))
    server.on("GET /v1/namespaces/db/tables", (200, page))
    server.on("GET /v1/namespaces/db/views", (200, page))
    server.on(
        "GET /v1/namespaces",
        (200, {"namespaces": [["DB", "inner"], ["db", "more"], ["other", "x"], ["DB"]]}),
    )
    backend = server.catalog()
    assert (
        backend.list_tables(("db",)) == [("DB", "T1"), ("db", "t2")] == backend.list_views(("db",))
    )
    assert backend.list_namespaces(("db",)) == [("DB", "inner"), ("db", "more")]
    assert "other.t4" in caplog.text and "t3" not in caplog.text, (
        "what is left out without a reason is told"
    )


def test_configuration_names_prefix_separator_and_endpoints(server: Server) -> None:
    config = {
        "defaults": {"prefix": "no"},
        "overrides": {"prefix": "p/q", "namespace-separator": "%2E"},
        "endpoints": ["GET /v1/{prefix}/namespaces"],
    }
    server.on("GET /v1/config", (200, config))
    server.on("GET /v1/p/q/namespaces/a.b/tables/t", (200, table_json()))
    backend = server.catalog(warehouse="w 1")
    assert (
        backend.load(("a", "b", "t")).identifier == ("a", "b", "t")
        and server.asked[0].path == "/v1/config?warehouse=w%201"
    )
    with pytest.raises(InvalidInput, match="separates"):
        backend.load(("a.b", "t"))
    with pytest.raises(Unsupported, match="rename"):
        backend.rename_table(("a", "t"), ("a", "u"))


def test_a_server_that_lists_no_endpoints_has_views_unless_it_is_said_that_it_has_none(
    server: Server,
) -> None:
    server.on("GET /v1/config", (200, {"defaults": {}, "overrides": {}}))
    server.on(
        "GET /v1/namespaces/db/views", (200, {"identifiers": [{"namespace": ["db"], "name": "v"}]})
    )
    for own in ({}, {"view_endpoints_supported": "true"}):
        assert server.catalog(**own).list_views(("db",)) == [("db", "v")]
    backend = server.catalog(view_endpoints_supported="false")
    server.on(f"GET {TABLE_ROUTE}", (200, table_json()))
    assert backend.load(TABLE).identifier == TABLE
    with pytest.raises(Unsupported, match="list views"):
        backend.list_views(("db",))
    with pytest.raises(InvalidInput, match="view-endpoints-supported must be true or false"):
        server.catalog(view_endpoints_supported="maybe").list_views(("db",))


@pytest.mark.parametrize(
    "key, instead",
    [
        (
            "auth.oauth2.client-id",
            "Set credential=<client id>:<client secret>, oauth2-server-uri and scope",
        ),
        ("auth.impl", "Set token"),
        ("auth.custom.x", "Set token"),
        ("lock-impl", "Leave it out"),
    ],
)
def test_a_property_that_is_not_served_is_refused_with_what_to_set_instead(
    key: str, instead: str
) -> None:
    with pytest.raises(Unsupported, match=key) as refused:
        load_backend("r", **{"type": "rest", "uri": "http://localhost:1", key: "x"})
    assert refused.value.hint is not None and instead in refused.value.hint


def test_a_token_is_had_for_a_credential_and_again_when_it_is_refused(server: Server) -> None:
    server.on(
        "POST /v1/oauth/tokens",
        (200, {"access_token": "one", "expires_in": 3600}),
        (200, {"access_token": "two"}),
    )
    server.on(
        f"GET {TABLE_ROUTE}",
        lambda a: (
            (200, table_json())
            if a.headers["Authorization"] == "Bearer two"
            else error(401, "NotAuthorizedException")
        ),
    )
    backend = server.catalog(credential=f"me:{SECRET}", scope="all")
    assert backend.load(TABLE).identifier == TABLE
    form = server.asked[0].body.decode()
    assert (
        "grant_type=client_credentials" in form and "client_id=me" in form and "scope=all" in form
    )
    assert server.routes().count("POST /v1/oauth/tokens") == 2


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (
            (
                400,
                {"error": "invalid_scope", "error_description": f"No scope catalog for {SECRET}"},
            ),
            "HTTP 400, invalid_scope: No scope catalog for ***",
        ),
        ((401, {"error": "invalid_client"}), "HTTP 401, invalid_client"),
        ((403, {"Message": "User is not authorized"}), "HTTP 403, User is not authorized"),
        (
            (
                400,
                {
                    "error": {
                        "type": "BadRequestException",
                        "message": "No such client",
                        "code": 400,
                    }
                },
            ),
            "HTTP 400, BadRequestException: No such client",
        ),
        ((400, {"error": 7, "error_description": ["x"]}), "HTTP 400"),
    ],
)
def test_why_no_token_could_be_had_is_told_in_the_servers_words(
    server: Server, answer: Any, told: str
) -> None:
    server.on("POST /v1/oauth/tokens", answer)
    with pytest.raises(FrazilError) as refused:
        server.catalog(credential=f"me:{SECRET}").load(TABLE)
    assert f"Cannot get a token from {server.uri}: the catalog's server answers {told}." in str(
        refused.value
    )
    assert "oauth2-server-uri" in str(refused.value.hint) and SECRET not in f"{refused.value!r}"


@pytest.mark.parametrize(
    "answer",
    [
        (403, {"message": "Missing Authentication Token"}),
        (403, {"Message": "Missing Authentication Token", "error": None}),
    ],
)
def test_the_message_of_a_gateway_before_the_server_is_told(server: Server, answer: Any) -> None:
    server.on(f"GET {TABLE_ROUTE}", answer)
    with pytest.raises(StorageError, match=r"HTTP 403, Missing Authentication Token\."):
        server.catalog().load(TABLE)


@pytest.mark.parametrize("elsewhere", [False, True])
def test_own_headers_go_with_requests_for_tokens_to_the_catalogs_own_host(
    server: Server, elsewhere: bool
) -> None:
    server.on("POST /v1/oauth/tokens", (200, {"access_token": "one"}))
    server.on(f"GET {TABLE_ROUTE}", (200, table_json()))
    tokens = f"{server.uri.replace('127.0.0.1', 'localhost')}/v1/oauth/tokens"
    properties = {"credential": "me:pass-word", "header.X-Tenant": "ours"} | (
        {"oauth2-server-uri": tokens} if elsewhere else {}
    )
    load_backend("r", type="rest", uri=server.uri, **properties).load(TABLE)
    (asked,) = (a for a in server.asked if a.path == "/v1/oauth/tokens")
    assert (
        asked.headers.get("X-Tenant") == (None if elsewhere else "ours")
        and server.asked[-1].headers["X-Tenant"] == "ours"
    )
    assert (
        asked.headers["Content-Type"] == "application/x-www-form-urlencoded"
        and b"client_credentials" in asked.body
    )


def test_a_token_is_asked_for_again_after_faults_that_pass(server: Server) -> None:
    server.on(
        "POST /v1/oauth/tokens",
        (503, {}),
        None,
        (429, {}, {"Retry-After": "0"}),
        (200, {"access_token": "one"}),
    )
    server.on(f"GET {TABLE_ROUTE}", (200, table_json()))
    assert (
        server.catalog(credential="me:pass-word", rest__client__max_retries="3")
        .load(TABLE)
        .identifier
        == TABLE
    )
    assert (
        server.routes().count("POST /v1/oauth/tokens") == 4
        and server.asked[-1].headers["Authorization"] == "Bearer one"
    )


def test_a_token_is_exchanged_before_it_expires(server: Server) -> None:
    server.on(
        "POST /v1/oauth/tokens",
        (200, {"access_token": "soon", "expires_in": 0}),
        (200, {"access_token": "new", "expires_in": 3600}),
    )
    server.on(f"GET {TABLE_ROUTE}", (200, table_json()))
    backend = server.catalog(credential="me:pass-word")
    backend.load(TABLE)
    assert server.asked[-1].headers["Authorization"] == "Bearer new"
    server.on("POST /v1/oauth/tokens", (200, {"access_token": "exchanged"}))
    server.on(
        f"GET {TABLE_ROUTE}", error(419, "AuthenticationTimeoutException"), (200, table_json())
    )
    other = server.catalog(token=SECRET)
    other._routes = backend.routes
    other.load(TABLE)
    assert (
        server.asked[-1].headers["Authorization"] == "Bearer exchanged"
        and b"token-exchange" in server.asked[-2].body
    )


def expired_token() -> str:
    claims = (
        base64.urlsafe_b64encode(json.dumps({"exp": time.time() - 60}).encode())
        .decode()
        .rstrip("=")
    )
    return f"head.{claims}.sign"


@pytest.mark.parametrize("clock", ["ours is ahead", "it has expired"])
def test_a_token_that_has_expired_by_the_own_clock_is_sent_and_exchanged_where_it_is_refused(
    server: Server, clock: str
) -> None:
    token = expired_token()
    server.on(
        "POST /v1/oauth/tokens",
        (200, {"access_token": "exchanged"})
        if clock == "it has expired"
        else error(400, "BadRequestException"),
    )
    taken = "Bearer exchanged" if clock == "it has expired" else f"Bearer {token}"
    for route, answer in (("GET /v1/config", CONFIG), (f"GET {TABLE_ROUTE}", table_json())):
        server.on(
            route,
            lambda a, answer=answer: (
                (200, answer)
                if a.headers["Authorization"] == taken
                else error(401, "NotAuthorizedException")
            ),
        )
    backend = server.catalog(token=token)
    for _ in range(3):
        backend.load(TABLE)
    assert server.routes().count("POST /v1/oauth/tokens") == (1 if clock == "it has expired" else 0)


def test_a_tables_own_token_that_is_refused_is_had_again_by_loading_the_table(
    server: Server,
) -> None:
    server.on(
        f"GET {TABLE_ROUTE}",
        (200, table_json(config={"token": "one"})),
        (200, table_json(config={"token": "two"})),
    )
    server.on(
        f"POST {TABLE_ROUTE}",
        lambda a: (
            (200, table_json())
            if a.headers["Authorization"] == "Bearer two"
            else error(419, "AuthenticationTimeoutException")
        ),
    )
    backend = server.catalog(token="catalogs")
    table = committed(swap(backend, backend.load(TABLE), set_to(a="1")))
    sent = [(a.method, a.headers["Authorization"]) for a in server.asked[2:]]
    assert sent == [("POST", "Bearer one"), ("GET", "Bearer catalogs"), ("POST", "Bearer two")]
    committed(swap(backend, table, set_to(a="2")))
    assert [a.method for a in server.asked[5:]] == ["POST"], "the new token is kept"
    server.on(f"POST {TABLE_ROUTE}", error(401, "NotAuthorizedException"))
    with pytest.raises(FrazilError, match="NotAuthorized"):
        swap(backend, table, set_to(a="3"))
    assert [a.method for a in server.asked[6:]] == ["POST", "GET"], "the server has no other token"


def test_basic_and_own_headers_are_sent(server: Server) -> None:
    server.on(f"GET {TABLE_ROUTE}", (200, table_json()))
    properties = {
        "auth.type": "basic",
        "auth.basic.username": "u",
        "auth.basic.password": "p",
        "header.X-Mine": "1",
    }
    load_backend("r", type="rest", uri=server.uri, **properties).load(TABLE)
    sent = server.asked[-1].headers
    assert (
        sent["Authorization"] == "Basic dTpw"
        and sent["X-Mine"] == "1"
        and sent["User-Agent"].startswith("Frazil")
    )
    assert sent["X-Iceberg-Access-Delegation"] == "vended-credentials,remote-signing"


@pytest.mark.parametrize(
    ("manager", "more", "sent"),
    [
        ("rest.auth.OAuth2Manager", {"token": "t0ken"}, "Bearer t0ken"),
        (
            "rest.auth.BasicAuthManager",
            {"rest.auth.basic.username": "u", "rest.auth.basic.password": "p"},
            "Basic dTpw",
        ),
        ("rest.auth.NoopAuthManager", {"token": "t0ken"}, None),
        (
            "aws.RESTSigV4AuthManager",
            {
                "rest.signing-region": "r-1",
                "rest.access-key-id": "k",
                "rest.secret-access-key": "s",
            },
            "AWS4-HMAC-SHA256 Credential=k/",
        ),
    ],
)
def test_a_type_of_authentication_may_be_named_by_javas_class(
    server: Server, manager: str, more: dict[str, str], sent: str | None
) -> None:
    server.on(f"GET {TABLE_ROUTE}", (200, table_json()))
    load_backend(
        "r",
        type="rest",
        uri=server.uri,
        **{"rest.auth.type": f"org.apache.iceberg.{manager}", **more},
    ).load(TABLE)
    found = server.asked[-1].headers.get("Authorization")
    assert found is None if sent is None else str(found).startswith(sent)


def test_headers_authentication_and_time_limits_may_be_the_servers(server: Server) -> None:
    defaults = {
        "header.X-Default": "d",
        "header.X-Mine": "theirs",
        "auth.type": "basic",
        "auth.basic.username": "u",
        "auth.basic.password": "p",
    }
    overrides = {
        "rest.client.socket-timeout-ms": "1500",
        "header.X-Override": "o",
        "scan-planning-mode": "server",
        "ssl.cabundle": "/no/where",
    }
    server.on("GET /v1/config", (200, {"defaults": defaults, "overrides": overrides}))
    server.on(f"GET {TABLE_ROUTE}", (200, table_json()))
    backend = RestBackend("r", {"type": "rest", "uri": server.uri, "header.X-Mine": "mine"})
    backend.load(TABLE)
    asked, sent = (a.headers for a in server.asked)
    assert "Authorization" not in asked and asked["X-Mine"] == "mine"
    assert (sent["Authorization"], sent["X-Default"], sent["X-Mine"], sent["X-Override"]) == (
        "Basic dTpw",
        "d",
        "mine",
        "o",
    )
    assert backend.client.settings.read_timeout == 1.5 and backend.client.settings.ca_bundle is None


def test_a_token_that_was_had_stays_when_the_server_tells_other_headers(server: Server) -> None:
    server.on("POST /v1/oauth/tokens", (200, {"access_token": "one", "expires_in": 3600}))
    server.on("GET /v1/config", (200, {"defaults": {}, "overrides": {"header.X-Route": "7"}}))
    server.on(f"GET {TABLE_ROUTE}", (200, table_json()))
    server.catalog(credential="me:pass-word").load(TABLE)
    assert server.routes().count("POST /v1/oauth/tokens") == 1
    assert (server.asked[-1].headers["X-Route"], server.asked[-1].headers["Authorization"]) == (
        "7",
        "Bearer one",
    )


def test_an_invalid_configuration_of_the_server_is_told_as_the_servers(server: Server) -> None:
    server.on(
        "GET /v1/config",
        (200, {"defaults": {"rest.client.socket-timeout-ms": "soon"}, "overrides": {}}),
    )
    with pytest.raises(InvalidInput, match=r"socket-timeout-ms.*'soon'(?s:.*)v1/config"):
        RestBackend("r", {"type": "rest", "uri": server.uri}).load(TABLE)


def test_properties_of_stores_that_only_the_server_knows_are_left_out(server: Server) -> None:
    server.on(
        "GET /v1/config",
        (
            200,
            {
                "defaults": {"s3.no-such-thing": "1", "s3.region": "r-1"},
                "overrides": {"client.unheard-of": "2"},
            },
        ),
    )
    server.on(f"GET {TABLE_ROUTE}", (200, table_json()))
    backend = server.catalog()
    backend.load(TABLE)
    assert (
        backend.routes.properties["s3.region"] == "r-1"
        and "s3.no-such-thing" not in backend.routes.properties
    )
    with pytest.raises(Unsupported, match=r"no-such-thing"):
        load_backend("r", type="rest", uri=server.uri, **{"s3.no-such-thing": "1"}).load(TABLE)


HOSTILE = [
    (302, b"", {"Location": "http://evil.example/?token=x"}),
    (
        401,
        {
            "error": {
                "message": f"Bad token {SECRET}",
                "type": "NotAuthorizedException",
                "code": 401,
            }
        },
    ),
    (200, b"[" * 200_000),
    (200, b'{"metadata": 7, "metadata-location": "x"}'),
    (200, {"metadata-location": ["x"], "metadata": {}}),
    (200, {"metadata-location": "x", "metadata": {"format-version": "two"}}),
    (200, b""),
    (500, b"<html>" + b"x" * 3_000_000, {"Content-Type": "text/html"}),
    (200, b"\x1f\x8b broken", {"Content-Encoding": "gzip"}),
]


@pytest.mark.parametrize("answer", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_answers_are_typed_errors_and_leak_no_token(
    server: Server, answer: Any, caplog: pytest.LogCaptureFixture
) -> None:
    server.on(f"GET {TABLE_ROUTE}", answer)
    backend = server.catalog(token=SECRET, token_exchange_enabled="false")
    with pytest.raises(FrazilError) as caught:
        backend.load(TABLE)
    shown = f"{caught.value} {caught.value!r} {caught.value.facts} {backend!r} {backend.client!r} {backend.client.auth!r} {backend.client.settings!r} {caplog.text}"
    assert SECRET not in shown and not any("evil" in a.path for a in server.asked)


def test_values_of_headers_are_shown_nowhere(server: Server) -> None:
    told = {"header.X-Tenant": f"{SECRET}-told"}
    server.on("GET /v1/config", (200, {"defaults": told, "overrides": {}}))
    server.on(
        f"GET {TABLE_ROUTE}",
        lambda a: error(
            403,
            "ForbiddenException",
            f"Not by {a.headers['X-Mine']}, {SECRET}, {SECRET}-told, vended-credentials",
        ),
    )
    catalog = frazil.load_catalog(
        "r", type="rest", uri=server.uri, **{"header.X-Mine": f"Key {SECRET}"}
    )
    with pytest.raises(
        StorageError, match=r"Not by \*\*\*, \*\*\*, \*\*\*, vended-credentials"
    ) as caught:
        catalog.load_table("db.t")
    shown = f"{caught.value} {caught.value!r} {catalog!r} {catalog._backend!r} {catalog.properties}"
    assert (
        server.asked[-1].headers["X-Mine"] == f"Key {SECRET}"
        and SECRET not in shown
        and "header.X-Mine" in shown
    )


def test_a_server_cannot_move_the_catalog_to_another_host(server: Server) -> None:
    server.on(
        "GET /v1/config", (200, {"defaults": {}, "overrides": {"uri": "https://evil.example"}})
    )
    with pytest.raises(InvalidInput, match="another server"):
        server.catalog(token=SECRET).list_namespaces()


def test_errors_of_the_server_are_told_with_type_and_message(server: Server) -> None:
    with pytest.raises(NoSuchTableError, match="NoSuchTableException: no"):
        server.catalog().load(TABLE)
    server.on("GET /v1/namespaces/db", (200, {}))
    server.on("GET /v1/namespaces", (200, {"namespaces": []}))
    server.on(
        "DELETE /v1/namespaces/db",
        error(409, "NamespaceNotEmptyException", "Namespace db is not empty."),
    )
    with pytest.raises(NamespaceNotEmptyError, match="db is not empty"):
        server.catalog().drop_namespace(("db",))


def test_vended_credentials_reach_the_storage_and_are_renewed(server: Server) -> None:
    def vending(key: str, life_s: float) -> dict[str, Any]:
        config = {
            "s3.access-key-id": key,
            "s3.secret-access-key": SECRET,
            "s3.session-token": SECRET,
        }
        config["s3.session-token-expires-at-ms"] = str(int((time.time() + life_s) * 1000))
        return table_json(
            **{
                "storage-credentials": [
                    {"prefix": "memory://w", "config": config},
                    {"prefix": "s3://other", "config": {}},
                ]
            }
        )

    server.on(f"GET {TABLE_ROUTE}", (200, vending("short", 60)), (200, vending("long", 3600)))
    table = server.catalog().load(TABLE)
    source = pickle.loads(pickle.dumps(table.storage)).vended
    assert source().properties["s3.access-key-id"] == "long" and SECRET not in repr(source) + repr(
        table
    )
    before = len(server.asked)
    assert server.catalog().load(TABLE).storage.vended().properties["s3.access-key-id"] == "long"
    assert server.routes()[before:] == ["GET /v1/config", f"GET {TABLE_ROUTE}"], (
        "what was given with the table is used first"
    )


def test_credentials_without_an_end_are_sent_anew_with_each_load(server: Server) -> None:
    """A server that compares metadata alone would answer that a table is unchanged, though the keys
    are others.
    """
    keys = [
        {
            "s3.access-key-id": f"key{n}",
            "s3.secret-access-key": SECRET,
            **({"s3.session-token": SECRET} if n else {}),
        }
        for n in range(3)
    ]

    def answer(asked: Asked) -> Any:
        return (
            (304, b"")
            if "If-None-Match" in asked.headers
            else (200, table_json(config=keys[loads.pop(0)]), {"ETag": '"same"'})
        )

    loads = [0, 1, 2]
    server.on(f"GET {TABLE_ROUTE}", answer)
    backend = server.catalog(s3__access_key_id="own", s3__secret_access_key="own")
    found = [
        dict(catalog_properties(backend.load(TABLE).storage))["s3.access-key-id"] for _ in range(3)
    ]
    assert found == ["key0", "key1", "key2"]
    server.on(
        f"GET {TABLE_ROUTE}",
        lambda a: (
            (304, b"") if "If-None-Match" in a.headers else (200, table_json(), {"ETag": '"same"'})
        ),
    )
    backend.load(TABLE)
    assert (
        dict(catalog_properties(backend.load(TABLE).storage))["s3.access-key-id"] == "own"
        and server.asked[-1].headers["If-None-Match"]
    )


@pytest.mark.parametrize(
    ("vended", "own", "lasts"),
    [
        ({"s3.access-key-id": "k", "s3.secret-access-key": SECRET}, {}, True),
        (
            {"s3.access-key-id": "k", "s3.secret-access-key": SECRET, "s3.session-token": SECRET},
            {},
            False,
        ),
        (
            {
                "s3.access-key-id": "k",
                "s3.secret-access-key": SECRET,
                "s3.session-token-expires-at-ms": "32503680000000",
            },
            {},
            False,
        ),
        ({"adls.sas-token": SECRET}, {}, False),
        ({"gcs.oauth2.token": SECRET}, {}, False),
        ({}, {"s3__session_token": SECRET}, True),
    ],
)
@pytest.mark.parametrize("with_prefix", [True, False])
def test_only_keys_without_an_end_and_a_token_of_the_server_are_lasting(
    server: Server, vended: dict[str, str], own: dict[str, str], lasts: bool, with_prefix: bool
) -> None:
    given: dict[str, Any] = (
        {"storage-credentials": [{"prefix": "memory://w", "config": vended}]}
        if with_prefix
        else {"config": vended}
    )
    server.on(f"GET {TABLE_ROUTE}", (200, table_json(**given)))
    storage = pickle.loads(pickle.dumps(server.catalog(**own).load(TABLE).storage))
    properties = lasting_properties(storage, "memory://w/db/t/data/x.parquet")
    assert (properties is not None) is lasts and SECRET not in repr(storage)
    assert not lasts or vended.items() <= dict(properties or ()).items()


def test_a_catalog_travels_by_its_properties(server: Server) -> None:
    server.on(f"GET {TABLE_ROUTE}", (200, table_json()))
    backend = server.catalog(token="t0ken")
    backend.load(TABLE)
    assert pickle.loads(pickle.dumps(backend)).load(TABLE).identifier == TABLE


@pytest.mark.parametrize(
    "given, told",
    [
        ({"snapshot-loading-mode": "some"}, "snapshot-loading-mode"),
        ({"rest.sigv4-enabled": "true"}, "sigv4"),
        ({"auth.type": "pigeon"}, "auth.type"),
        ({"rest.auth.type": "pigeon"}, r"property rest\.auth\.type"),
        (
            {"auth.type": "sigv4", "auth.sigv4.delegate-auth-type": "pigeon"},
            r"property auth\.sigv4\.delegate-auth-type",
        ),
        ({"auth.type": "basic"}, "auth.basic"),
        ({"tokn": "x"}, "Did you mean token"),
        ({"header.X": "a\r\nb"}, "header"),
        ({"uri": "http://u:p@host"}, "password"),
        ({"rest.client.max-retries": "x"}, "max-retries"),
    ],
)
def test_options_are_honoured_or_refused_by_name(given: dict[str, str], told: str) -> None:
    with pytest.raises(InvalidInput, match=told):
        load_backend("r", **{"type": "rest", "uri": "http://localhost:1", **given})


@pytest.mark.parametrize(
    "body, told",
    [
        (
            {"error": "invalid_client", "error_description": "the secret has ended"},
            "invalid_client: the secret has ended",
        ),
        ({"error": "invalid_client"}, "HTTP 401, invalid_client"),
        (
            {"message": "The security token included in the request is invalid"},
            "HTTP 401, The security token",
        ),
        (
            {"__type": "ExpiredTokenException", "Message": "it has expired"},
            "ExpiredTokenException: it has expired",
        ),
        (
            {"timestamp": "now", "status": 401, "error": "Unauthorized", "path": "/v1"},
            "HTTP 401, Unauthorized",
        ),
    ],
)
def test_errors_of_oauth2_servers_gateways_and_aws_are_told_too(
    server: Server, body: Any, told: str
) -> None:
    server.on("POST /v1/oauth/tokens", (401, body))
    server.on("GET /v1/namespaces", (401, body))
    for catalog in (server.catalog(), server.catalog(credential="me:pass-word")):
        with pytest.raises(StorageError, match=told):
            catalog.list_namespaces()


@pytest.mark.parametrize("token", ["hunter2\nsecret", "hunter2-\u20acsecret", "hunter2\x00"])
def test_a_token_that_no_header_can_hold_is_told_without_it(server: Server, token: str) -> None:
    server.on(f"GET {TABLE_ROUTE}", (200, table_json(config={"token": token})))
    server.on(f"POST {TABLE_ROUTE}", (200, table_json()))
    with pytest.raises(InvalidInput, match="header Authorization") as told:
        server.catalog(token=token).load(TABLE)
    assert "hunter2" not in str(told.value)
    backend = server.catalog()
    with pytest.raises(InvalidInput, match="header Authorization") as told:
        swap(backend, backend.load(TABLE), set_to(a="1"))
    assert "hunter2" not in str(told.value) and f"POST {TABLE_ROUTE}" not in server.routes()


def test_the_line_break_at_the_end_of_a_tokens_file_is_no_part_of_it(server: Server) -> None:
    server.on("GET /v1/namespaces", (200, {"namespaces": []}))
    server.catalog(token=f"{SECRET}\n").list_namespaces()
    assert server.asked[-1].headers["Authorization"] == f"Bearer {SECRET}"


def test_a_server_that_repeats_basic_authentication_leaks_nothing(server: Server) -> None:
    pair = base64.b64encode(b"me:pass-word").decode()
    server.on("GET /v1/namespaces", error(401, "NotAuthorizedException", f"bad: Basic {pair}"))
    backend = server.catalog(
        auth__type="basic", auth__basic__username="me", auth__basic__password="pass-word"
    )
    with pytest.raises(StorageError, match=r"bad: Basic \*\*\*"):
        backend.list_namespaces()


def test_a_token_server_that_repeats_the_form_shows_its_error_but_not_the_secret(
    server: Server,
) -> None:
    answer = {
        "error": "invalid_client",
        "error_description": "client_id=id&client_secret=p%40ss+word",
    }
    server.on("POST /v1/oauth/tokens", (401, answer))
    with pytest.raises(StorageError, match="invalid_client: client_id=id&client_secret=") as told:
        server.catalog(credential="id:p@ss word").list_namespaces()
    assert "p%40ss" not in str(told.value)


def test_a_namespace_that_goes_while_a_table_is_made_in_it_is_told(server: Server) -> None:
    server.on("GET /v1/namespaces/db", (200, {"namespace": ["db"]}))
    server.on("POST /v1/namespaces/db/tables", (200, table_json()))
    server.on(
        f"POST {TABLE_ROUTE}",
        error(404, "NoSuchNamespaceException", "Namespace does not exist: db"),
    )
    with pytest.raises(NoSuchNamespaceError, match="Namespace does not exist: db"):
        frazil.Catalog(server.catalog()).create_table("db.t", "id bigint")


def test_a_table_whose_files_others_may_share_is_not_purged(server: Server) -> None:
    answer = table_json()
    answer["metadata"]["properties"]["gc.enabled"] = "false"
    server.on(f"GET {TABLE_ROUTE}", (200, answer))
    server.on(f"DELETE {TABLE_ROUTE}", (204, b""))
    backend = server.catalog()
    with pytest.raises(ValidationException, match="GC is disabled"):
        backend.drop_table(TABLE, purge=True)
    backend.drop_table(TABLE)
    assert server.routes().count(f"DELETE {TABLE_ROUTE}") == 1


@pytest.mark.parametrize(
    "reply",
    [None, error(409, "AlreadyExistsException"), error(500, "InternalServerError")],
    ids=["lost", "twice", "failed"],
)
@pytest.mark.parametrize("ours", [True, False])
def test_an_empty_table_that_was_made_without_an_answer_is_known_by_its_uuid(
    server: Server, reply: Any, ours: bool
) -> None:
    def made(asked: Asked) -> Any:
        assigned = next(
            u["uuid"] for u in json.loads(asked.body)["updates"] if u["action"] == "assign-uuid"
        )
        found = table_json()
        found["metadata"]["table-uuid"] = assigned if ours else str(uuid.uuid4())
        server.on(f"GET {TABLE_ROUTE}", (200, found))
        return reply

    server.on("GET /v1/namespaces/db", (200, {"namespace": ["db"]}))
    server.on("POST /v1/namespaces/db/tables", (200, table_json()))
    server.on(f"POST {TABLE_ROUTE}", made)
    catalog = frazil.Catalog(server.catalog())
    if ours:
        assert catalog.create_table("db.t", "id bigint").metadata.location == "memory://w/db/t"
    else:
        with pytest.raises((TableAlreadyExistsError, CommitStateUnknownException)):
            catalog.create_table("db.t", "id bigint")
