"""Answers that no server should give: cut, slow, huge, bombs, redirected, and real answers with one
thing in them changed.
"""

from __future__ import annotations

import copy
import gzip
import io
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from frazil.catalog import Unknown
from frazil.catalog.backend import planner_of
from frazil.catalog.rest import http
from frazil.catalog.rest.catalog import RestBackend
from frazil.errors import CorruptData, FrazilError, StorageError
from frazil.ops.reading import RowsReading
from tests.catalog.conftest import TABLE, set_to, swap
from tests.catalog.rest.conftest import CONFIG, Server, table_json
from tests.catalog.rest.test_scan_planning import OFFERED

SECRET, ROUTE = "hunter2-secret", "/v1/namespaces/db/tables/t"
VIEW_ROUTE = "/v1/namespaces/db/views/t"


class RawServer:
    """A server that answers each request with the pieces of bytes that a test names, and then
    closes the connection.
    """

    def __init__(self) -> None:
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.uri = f"http://127.0.0.1:{self.listening.getsockname()[1]}"
        self.pieces: Callable[[], Iterator[bytes]] = lambda: iter(())
        self.asked: list[bytes] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self.listening.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        with connection, connection.makefile("rb") as lines:
            try:
                self.asked.append(b"".join(iter(lines.readline, b"\r\n")))
                config = b"/v1/config" in self.asked[-1].split(b"\r\n")[0]
                for piece in [answer(json.dumps(CONFIG).encode())] if config else self.pieces():
                    connection.sendall(piece)
            except OSError:
                return

    def load(self, **more: str) -> object:
        quick = {
            "rest.client.max-retries": "1",
            "rest.client.socket-timeout-ms": "700",
            "token": SECRET,
            "token-exchange-enabled": "false",
        }
        return RestBackend("r", {"type": "rest", "uri": self.uri, **quick, **more}).load(TABLE)


def answer(body: bytes, *headers: str, length: int | None = None) -> bytes:
    head = [
        "HTTP/1.1 200 OK",
        "Content-Type: application/json",
        f"Content-Length: {len(body) if length is None else length}",
        "Connection: close",
        *headers,
    ]
    return "\r\n".join([*head, "", ""]).encode() + body


@pytest.fixture
def raw() -> Iterator[RawServer]:
    server = RawServer()
    yield server
    server.listening.close()


def refused(raw: RawServer, kind: type[FrazilError], told: str) -> None:
    with pytest.raises(kind, match=told) as caught:
        raw.load()
    shown = f"{caught.value} {caught.value!r} {caught.value.facts}"
    assert raw.uri in shown and ROUTE in shown and SECRET not in shown, (
        "server and request are named, tokens are not"
    )


GOOD = json.dumps(table_json()).encode()


@pytest.mark.parametrize(
    "pieces, kind, told",
    [
        ([answer(GOOD[:-20], length=len(GOOD))], StorageError, "IncompleteRead"),
        (
            [b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{"met\r\n'],
            StorageError,
            "IncompleteRead|InvalidChunk",
        ),
        (
            [b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzzzz\r\n"],
            StorageError,
            "No answer",
        ),
        ([b"\x00\x01 no HTTP at all"], StorageError, "No answer"),
        ([b"HTTP/1.1 200 OK\r\nX: " + b"x" * 70_000 + b"\r\n\r\n"], StorageError, "No answer"),
        ([b"HTTP/1.1 200 OK\r\n" + b"X-Y: z\r\n" * 300 + b"\r\n"], StorageError, "No answer"),
        ([answer(gzip.compress(GOOD)[:-30], "Content-Encoding: gzip")], FrazilError, "GET"),
        ([answer(b"[" * 100_000)], CorruptData, "no valid table"),
        (
            [answer(GOOD.replace(b'"format-version"', b'"format-version\xff"'))],
            CorruptData,
            "answered|valid",
        ),
        (
            [
                answer(
                    b'{"metadata-location":"m","metadata":'
                    + b'{"a":' * 50_000
                    + b"1"
                    + b"}" * 50_000
                    + b"}"
                )
            ],
            CorruptData,
            "GET",
        ),
    ],
    ids=range(10),
)
def test_an_answer_that_is_cut_or_none_is_told(
    raw: RawServer, pieces: list[bytes], kind: type[FrazilError], told: str
) -> None:
    raw.pieces = lambda: iter(pieces)
    refused(raw, kind, told)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_no_token_follows_a_redirect(raw: RawServer, status: int) -> None:
    other = RawServer()
    raw.pieces = lambda: iter(
        [
            f"HTTP/1.1 {status} Moved\r\nLocation: {other.uri}/x?token={SECRET}\r\nContent-Length: 0\r\n\r\n".encode()
        ]
    )
    refused(raw, StorageError, "redirects")
    other.listening.close()
    assert not other.asked and any(SECRET.encode() in asked for asked in raw.asked)


def test_a_body_that_comes_byte_by_byte_ends(
    raw: RawServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "_LONGEST_ANSWER_S", 0.5)

    def slowly() -> Iterator[bytes]:
        yield answer(b"", length=1 << 20)
        while True:
            time.sleep(0.05)
            yield b" "

    raw.pieces, began = slowly, time.monotonic()
    refused(raw, StorageError, "takes more than")
    assert time.monotonic() - began < 10


def test_a_body_without_end_and_a_bomb_are_bounded(
    raw: RawServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(http, "MAX_BODY", 4 << 20)
    packed = io.BytesIO()
    with gzip.GzipFile(fileobj=packed, mode="wb") as out:
        for _ in range(64):
            out.write(bytes(1 << 20))
    raw.pieces = lambda: iter([answer(packed.getvalue(), "Content-Encoding: gzip")])
    refused(raw, CorruptData, "more than 4 MB")

    def endless() -> Iterator[bytes]:
        yield b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
        while True:
            yield b"10000\r\n" + b"x" * 65536 + b"\r\n"

    raw.pieces = endless
    refused(raw, CorruptData, "more than 4 MB")


def packed(part: bytes, times: int) -> bytes:
    out = io.BytesIO()
    with gzip.GzipFile(fileobj=out, mode="wb") as file:
        block = part * (1 + (1 << 20) // len(part))
        for _ in range(times // (1 + (1 << 20) // len(part))):
            file.write(block)
    return out.getvalue()


@pytest.mark.parametrize("name", [b'["a"],', b"[],", b'{"namespace":["db"],"name":"t"},'])
@pytest.mark.parametrize("zipped", [True, False])
def test_millions_of_names_on_a_page_are_refused_before_they_are_parsed(
    raw: RawServer, name: bytes, zipped: bool
) -> None:
    body = packed(name, 40_000_000) if zipped else name * (30_000_000 // len(name))
    page = answer(body, *(["Content-Encoding: gzip"] if zipped else []))
    raw.pieces, began = lambda: iter([page]), time.monotonic()
    catalog = RestBackend("r", {"type": "rest", "uri": raw.uri, "rest.client.max-retries": "1"})
    for ask in (lambda: catalog.list_namespaces(), lambda: catalog.list_tables(("db",))):
        with pytest.raises(CorruptData, match="more than 16 MB"):
            ask()
    assert time.monotonic() - began < 10


def test_a_table_that_is_compressed_beyond_measure_is_refused(raw: RawServer) -> None:
    bomb = answer(packed(b'{"a":1},', 20_000_000), "Content-Encoding: gzip")
    raw.pieces = lambda: iter([bomb])
    refused(raw, CorruptData, "far larger than its size allows")


@pytest.mark.parametrize("names", [[], [["a"]], [["a"], ["b"]]])
def test_pages_without_end_are_told_also_where_each_has_a_token_of_its_own(
    server: Server, names: list[list[str]]
) -> None:
    numbers = iter(range(10**9))
    server.on(
        "GET /v1/namespaces",
        lambda _: (200, {"namespaces": names, "next-page-token": str(next(numbers))}),
    )
    with pytest.raises(CorruptData, match="100 pages without a new name"):
        server.catalog().list_namespaces()
    assert len(server.asked) < 110


def test_some_pages_without_names_are_passed_over(server: Server) -> None:
    pages = [
        (
            200,
            {
                "namespaces": [["a"]] if n == 60 else [],
                "next-page-token": str(n) if n < 120 else None,
            },
        )
        for n in range(121)
    ]
    server.on("GET /v1/namespaces", *pages)
    assert server.catalog().list_namespaces() == [("a",)]


@pytest.mark.parametrize(
    "prefix",
    [
        "../..",
        "..",
        "a/../../b",
        "%2e%2e/x",
        "a/%2E%2e",
        "%252e%252e",
        ".",
        "x/..%2fy",
        "a\\..\\b",
        "a%5C..%5Cb",
    ],
)
def test_a_servers_prefix_does_not_leave_the_path(server: Server, prefix: str) -> None:
    server.on("GET /v1/config", (200, {"defaults": {}, "overrides": {"prefix": prefix}}))
    catalog = server.catalog(token=SECRET)
    for ask in (
        lambda: catalog.load(TABLE),
        lambda: catalog.list_namespaces(),
        lambda: catalog.drop_table(TABLE),
    ):
        with pytest.raises(CorruptData, match="leave its path"):
            ask()
    assert server.routes() == ["GET /v1/config"]


@pytest.mark.parametrize(
    "prefix", ["a/b", "arn%3Aaws:x@y", "v1.2", "...", "..a", "catalogs/my%20wh"]
)
def test_other_prefixes_are_taken(server: Server, prefix: str) -> None:
    server.on("GET /v1/config", (200, {"defaults": {}, "overrides": {"prefix": prefix}}))
    server.on(f"GET /v1/{prefix}/namespaces", (200, {"namespaces": [["a"]]}))
    assert server.catalog().list_namespaces() == [("a",)]


def test_the_path_of_a_token_does_not_leave_that_of_the_catalog(server: Server) -> None:
    catalog = server.catalog(credential="me:pass-word", oauth2_server_uri="../admin/tokens")
    with pytest.raises(CorruptData, match="leave its path"):
        catalog.load(TABLE)
    assert server.asked == []


@pytest.mark.parametrize("reply", ["endless", "slow", "elsewhere", "cut"])
def test_a_commit_whose_answer_is_unusable_may_have_been_handled(
    raw: RawServer, reply: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files of a commit that may stand must not be removed, so its outcome is unknown, not a
    failure.
    """
    raw.pieces = lambda: iter([answer(GOOD)])
    catalog = RestBackend(
        "r",
        {
            "type": "rest",
            "uri": raw.uri,
            "rest.client.max-retries": "1",
            "rest.client.socket-timeout-ms": "700",
        },
    )
    base = catalog.load(TABLE)
    monkeypatch.setattr(http, "MAX_BODY", 1 << 20)
    monkeypatch.setattr(http, "_LONGEST_ANSWER_S", 0.3)

    def pieces() -> Iterator[bytes]:
        match reply:
            case "endless":
                yield answer(bytes(3 << 20))
            case "slow":
                yield answer(b"", length=1 << 20)
                for _ in range(60):
                    time.sleep(0.02)
                    yield b" "
            case "elsewhere":
                yield b"HTTP/1.1 303 See Other\r\nLocation: /x\r\nContent-Length: 0\r\n\r\n"
            case _:
                yield answer(GOOD[:-9], length=len(GOOD))

    raw.pieces = pieces
    assert isinstance(swap(catalog, base, set_to(a="1")), Unknown)


# --- real answers with one thing changed

EXPIRY = "s3.session-token-expires-at-ms"
KEYS = {
    "s3.access-key-id": "k",
    "s3.secret-access-key": SECRET,
    "s3.session-token": SECRET,
    EXPIRY: "4102444800000",
}
VENDED = [{"prefix": "memory://w", "config": KEYS}]
TABLE_ANSWER = table_json(
    **{"storage-credentials": VENDED, "config": {"s3.region": "r", "token": SECRET}}
)
TABLE_ANSWER["metadata"].update(
    {
        "snapshots": [
            {
                "snapshot-id": 1,
                "sequence-number": 1,
                "timestamp-ms": 1_700_000_000_000,
                "manifest-list": "memory://w/m",
                "summary": {"operation": "append"},
                "schema-id": 0,
            }
        ],
        "current-snapshot-id": 1,
        "refs": {"main": {"snapshot-id": 1, "type": "branch"}},
        "last-sequence-number": 1,
        "snapshot-log": [{"snapshot-id": 1, "timestamp-ms": 1_700_000_000_000}],
    }
)
VIEW_VERSION = {
    "version-id": 1, "timestamp-ms": 1_700_000_000_000, "schema-id": 0, "summary": {"engine-name": "x"}, "default-namespace": ["db"],
    "representations": [{"type": "sql", "sql": "SELECT 1", "dialect": "spark"}],
}  # fmt: skip
VIEW_ANSWER = {
    "metadata-location": "memory://w/v/1.metadata.json",
    "metadata": {
        "view-uuid": "fa6506c3-7681-40c8-86dc-e36561f83385", "format-version": 1, "location": "memory://w/v", "current-version-id": 1,
        "properties": {"comment": "c"}, "versions": [VIEW_VERSION], "version-log": [{"timestamp-ms": 1_700_000_000_000, "version-id": 1}],
        "schemas": [{"type": "struct", "schema-id": 0, "fields": [{"id": 1, "name": "id", "required": False, "type": "long"}]}],
    },
}  # fmt: skip
PLANNED_FILE = {
    "spec-id": 0, "content": "data", "file-path": "memory://w/1.parquet", "file-format": "parquet", "partition": [], "file-size-in-bytes": 9,
    "record-count": 3, "split-offsets": [4], "lower-bounds": {"keys": [1], "values": [1]}, "upper-bounds": {"keys": [1], "values": [9]},
    "null-value-counts": {"keys": [1], "values": [0]}, "value-counts": {"keys": [1], "values": [3]}, "sort-order-id": 0,
}  # fmt: skip
PLANNED_DELETE = {
    **PLANNED_FILE,
    "content": "equality-deletes",
    "file-path": "memory://w/d.parquet",
    "equality-ids": [1],
}
PLAN_ANSWER = {
    "status": "completed", "plan-id": "p", "plan-tasks": [], "storage-credentials": VENDED, "delete-files": [PLANNED_DELETE],
    "file-scan-tasks": [{"data-file": PLANNED_FILE, "delete-file-references": [0], "residual-filter": True}],
}  # fmt: skip
ENDPOINTS = ["GET /v1/{prefix}/namespaces/{namespace}/tables/{table}/credentials"]
FULL = {
    "defaults": {"rest-page-size": "2"},
    "overrides": {"header.X-A": "b"},
    "endpoints": [],
    "idempotency-key-lifetime": "PT30M",
}


def planning(catalog: RestBackend) -> object:
    table = catalog.load(TABLE)
    table = replace(table, config={**table.config, "scan-planning-mode": "server"})
    plan = RowsReading(
        table.metadata, table.storage, row_filter="id > 1", planner=planner_of(catalog, table)
    ).plan()
    return f"{plan!r}{plan.explain()}{list(plan.tasks())}{[t.delete_files for t in plan.tasks()]}{plan.matched_records}"


def committing(catalog: RestBackend) -> object:
    return swap(catalog, catalog.load(TABLE), set_to(a="1"))


ASKED: dict[str, tuple[str, Any, Callable[[RestBackend], object]]] = {
    "config": ("GET /v1/config", FULL, lambda c: (c.load(TABLE), c.list_namespaces())),
    "table": (f"GET {ROUTE}", TABLE_ANSWER, lambda c: pickled(c.load(TABLE))),
    "commit": (f"POST {ROUTE}", TABLE_ANSWER, committing),
    "tables": ("GET /v1/namespaces/db/tables", {"identifiers": [{"namespace": ["db"], "name": "t"}], "next-page-token": None}, lambda c: c.list_tables(("db",))),
    "namespaces": ("GET /v1/namespaces", {"namespaces": [["a"], ["b"]], "next-page-token": None}, lambda c: c.list_namespaces()),
    "properties": ("GET /v1/namespaces/db", {"namespace": ["db"], "properties": {"a": "b"}}, lambda c: c.load_namespace_properties(("db",))),
    "credentials": (f"GET {ROUTE}/credentials", {"storage-credentials": VENDED}, lambda c: c.credentials(TABLE, "memory://w/db/t")),
    "view": (f"GET {VIEW_ROUTE}", VIEW_ANSWER, lambda c: c.load_view(TABLE)),
    "plan": (f"POST {ROUTE}/plan", PLAN_ANSWER, planning),
    "token": ("POST /v1/oauth/tokens", {"access_token": "t", "token_type": "bearer", "expires_in": 60}, lambda c: c.list_namespaces()),
}  # fmt: skip


def pickled(table: Any) -> str:
    return f"{table!r}{table.storage!r}{table.metadata.current_snapshot()!r}"


def places(value: Any, here: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield here
    for key, inner in (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    ):
        yield from places(inner, (*here, key))


HOSTILE = [
    None,
    True,
    0,
    -1,
    2**70,
    1e308,
    "",
    "x",
    "²",
    "9" * 5000,
    "\u0000",
    "s3://[::1",
    "../..",
    [],
    [[]],
    {},
    {"": None},
    ["x", 7],
    {"a": {"b": []}},
    "\ud7ff" * 99,
]


@pytest.mark.parametrize("name", ASKED)
def test_a_changed_answer_is_taken_or_told(server: Server, name: str) -> None:
    route, real, ask = ASKED[name]
    all_places = list(places(real))
    for at, (known, body, _) in ASKED.items():
        server.on(
            known,
            (
                200,
                body
                if at != "config"
                else {**CONFIG, "endpoints": {"credentials": ENDPOINTS, "plan": OFFERED}.get(name)},
            ),
        )

    @settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(st.sampled_from(all_places), st.one_of(st.sampled_from(HOSTILE), st.just("drop")))
    def changed(place: tuple[Any, ...], value: Any) -> None:
        body = copy.deepcopy(real)
        if place:
            parent = body
            for step in place[:-1]:
                parent = parent[step]
            if value == "drop":
                del parent[place[-1]]
            else:
                parent[place[-1]] = value
        else:
            body = value
        server.on(route, (200, body))
        more = (
            {"credential": f"me:{SECRET}"}
            if name == "token"
            else {"token": SECRET, "token_exchange_enabled": "false"}
        )
        catalog = server.catalog(**more)
        try:
            shown = repr(ask(catalog))
            assert name != "commit" or "Committed" in shown or "Unknown" in shown
        except FrazilError as error:
            assert not isinstance(error, Unknown)
            shown = f"{error} {error!r} {error.facts}"
        finally:
            catalog.close()
        assert SECRET not in shown

    changed()
