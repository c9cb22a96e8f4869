"""Keys that end: a store that takes each only while it lives, and a proxy before a REST catalog's
server that vends one after the other.
"""

from __future__ import annotations

import contextlib
import json
import re
import threading
import time
from calendar import timegm
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import pytest

from frazil.errors import StorageError
from frazil.storage import storage_for


@dataclass
class KeyedStore:
    """Pass requests on to an S3 server that were signed while their access key lived, however late
    they come on a busy machine. `served` counts requests by key, `refused` lists keys and paths.
    Requests for data files take `delay` seconds."""

    endpoint: str
    uri: str = ""
    delay: float = 0.0
    ends: dict[str, float] = field(default_factory=dict)
    places: dict[str, str] = field(default_factory=dict)
    served: Counter[str] = field(default_factory=Counter)
    refused: list[tuple[str, str]] = field(default_factory=list)

    def key(self, life: float, place: str = "/") -> str:
        """Make a key that the store takes for `life` seconds, for paths that begin with `place`."""
        made = f"key{len(self.ends) + 1}"
        self.places[made] = place
        self.ends[made] = time.time() + life
        return made

    def credentials(self, prefix: str, life: float, place: str = "/") -> list[dict[str, Any]]:
        """Make a new key, and tell of it as a catalog does, with its end."""
        key = self.key(life, place)
        ends = {
            "s3.session-token": "t",
            "s3.session-token-expires-at-ms": str(int(self.ends[key] * 1000)),
        }
        return [
            {
                "prefix": prefix,
                "config": {"s3.access-key-id": key, "s3.secret-access-key": "hush", **ends},
            }
        ]

    def is_over(self, key: str) -> bool:
        """Tell whether requests signed from now on come too late: their signatures tell whole
        seconds.
        """
        return int(time.time()) > self.ends[key]

    def is_for(self, key: str, path: str) -> bool:
        """Tell whether a path, or the prefix of a listing, begins with the place of a key."""
        parts = urlsplit(path)
        listed = parse_qs(parts.query).get("prefix", [""])[0]
        return f"{unquote(parts.path)}{'/' if listed else ''}{listed}/".startswith(self.places[key])


class _Passing(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = 1 << 16

    def log_message(self, *_: Any) -> None:
        pass

    def reply(self, status: int, headers: dict[str, str], data: bytes) -> None:
        self.send_response_only(status)
        for key, value in headers.items():
            self.send_header(key, value)
        if "content-length" not in {k.lower() for k in headers}:
            self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def passed_on(
    endpoint: str, asked: BaseHTTPRequestHandler, body: bytes
) -> tuple[int, dict[str, str], bytes]:
    """Ask a server what a proxy was asked; its status, headers and body."""
    server = HTTPConnection(urlsplit(endpoint).netloc, timeout=60)
    server.request(asked.command, asked.path, body, dict(asked.headers))
    given = server.getresponse()
    data = given.read()
    headers = {
        k: v for k, v in given.getheaders() if k.lower() not in ("connection", "transfer-encoding")
    }
    server.close()
    return given.status, headers, data


@contextlib.contextmanager
def served(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    """The address at which the handler answers while the block runs."""
    running = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    running.daemon_threads = True
    threading.Thread(target=running.serve_forever, args=(0.02,), daemon=True).start()
    yield f"http://127.0.0.1:{running.server_port}"
    running.shutdown()
    running.server_close()


def keyed_handler(store: KeyedStore) -> type[BaseHTTPRequestHandler]:
    class Handler(_Passing):
        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            signed = re.search("Credential=([^/]+)/", self.headers.get("Authorization", ""))
            key = signed[1] if signed else ""
            when = timegm(
                time.strptime(self.headers.get("x-amz-date", "19700101T000000Z"), "%Y%m%dT%H%M%SZ")
            )
            if key not in store.ends or store.ends[key] < when or not store.is_for(key, self.path):
                store.refused.append((key, self.path))
                self.reply(
                    403,
                    {},
                    b"<Error><Code>ExpiredToken</Code><Message>The provided token has expired.</Message></Error>",
                )
                return
            store.served[key] += 1
            if "/data/" in self.path:
                time.sleep(store.delay)
            self.reply(*passed_on(store.endpoint, self, body))

        do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = answer

    return Handler


@contextlib.contextmanager
def keyed_store(endpoint: str) -> Iterator[KeyedStore]:
    store = KeyedStore(endpoint)
    with served(keyed_handler(store)) as store.uri:
        yield store


def vending_handler(
    uri: str, store: KeyedStore, prefix: str, life: float
) -> type[BaseHTTPRequestHandler]:
    """Pass requests on to a REST catalog's server, and vend a new key, which ends after `life`
    seconds, with each table and where the client asks for one. The server itself, which has keys of
    its own, vends none."""

    class Handler(_Passing):
        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            if self.path.partition("?")[0].endswith("/credentials"):
                self.reply(
                    200,
                    {},
                    json.dumps({"storage-credentials": store.credentials(prefix, life)}).encode(),
                )
                return
            status, headers, data = passed_on(uri, self, body)
            if status == 200 and self.command != "HEAD" and (told := json.loads(data or b"{}")):
                if "metadata" in told:
                    told["storage-credentials"] = store.credentials(prefix, life)
                if "endpoints" in told:
                    told["endpoints"].append(
                        "GET /v1/{prefix}/namespaces/{namespace}/tables/{table}/credentials"
                    )
                headers = {
                    k: v
                    for k, v in headers.items()
                    if k.lower() not in ("content-length", "content-encoding")
                }
                data = json.dumps(told).encode()
            self.reply(status, headers, b"" if self.command == "HEAD" else data)

        do_GET = do_POST = do_DELETE = do_HEAD = answer

    return Handler


def check_rotation(store: KeyedStore, location: str, keys: int, before: int = 0) -> None:
    """Assert that so many keys were served, none beyond its end, and that the store refuses the
    first of them, whose end has passed. `before`: the number of those that were served before."""
    served = list(store.served)[before:]
    assert len(served) >= keys
    while not store.is_over(served[0]):
        time.sleep(0.05)
    old = {
        "s3.endpoint": store.uri,
        "s3.access-key-id": served[0],
        "s3.secret-access-key": "hush",
        "s3.path-style-access": "true",
    }
    with pytest.raises(StorageError):
        storage_for(location, old).write(f"{location}/late", b"x")
    assert served[0] in {key for key, _ in store.refused}
    assert all(path.partition("?")[0].endswith("/late") for _, path in store.refused), (
        "nothing else was asked for by a key that had ended"
    )


@contextlib.contextmanager
def rotated_meanwhile(store: KeyedStore, location: str, keys: int) -> Iterator[None]:
    """Assert that so many keys were served in the block, and the first of them refused, while it
    still ran.
    """
    over, before = threading.Event(), len(store.served)

    def check() -> None:
        while len(served := list(store.served)[before:]) < keys or not store.is_over(served[0]):
            if over.wait(0.1):
                raise AssertionError(f"the job was over after {len(served)} keys")
        check_rotation(store, location, keys, before)
        assert not over.is_set()

    with ThreadPoolExecutor(1) as pool:
        checked = pool.submit(check)
        try:
            yield
        finally:
            over.set()
        checked.result()
    check_rotation(store, location, keys, before)
