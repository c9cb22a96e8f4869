"""No redirect of an object store is followed: tokens and signatures would go along."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa
import pytest

from frazil.errors import FrazilError
from frazil.storage import Storage, storage_for
from frazil.storage.objects.object_clients import client
from frazil.storage.objects.redirects import without_redirects
from tests.storage.fake_s3 import fake_s3
from tests.storage.recorder import Recorder, recorder

pytest.importorskip("obstore")
SECRET = "hunter2-secret"


@pytest.fixture
def elsewhere() -> Iterator[Recorder]:
    with recorder() as store:
        yield store


@pytest.fixture
def redirecting(elsewhere: Recorder, request: pytest.FixtureRequest) -> Iterator[list[Any]]:
    """The address of a store that redirects everything, and what it was asked."""
    asked: list[Any] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def redirect(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            asked.append((self.command, self.path))
            self.send_response(request.param)
            self.send_header("Location", elsewhere.endpoint + urlsplit(self.path).path)
            self.send_header("Content-Length", "0")
            self.end_headers()

        do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = redirect

        def log_message(self, *_: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(
        target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True
    ).start()
    yield [f"http://127.0.0.1:{server.server_port}", asked]
    server.shutdown()
    server.server_close()


PLACES: dict[str, Callable[[str], dict[str, str]]] = {
    "s3://b/k": lambda at: {"s3.endpoint": at, "s3.access-key-id": "a", "s3.secret-access-key": "b", "s3.session-token": SECRET},
    "gs://b/k": lambda at: {"gcs.service.host": at, "gcs.oauth2.token": SECRET},
    "abfss://c@mine.dfs.core.windows.net/k": lambda at: {"adls.connection-string.mine": f"{at}/mine", "adls.sas-token.mine": f"sv=1&sig={SECRET}"},
}  # fmt: skip


def asks(storage: Storage, location: str) -> list[Callable[[], object]]:
    def upload() -> None:
        with storage.open_output(location) as sink:
            sink.write(b"x" * (11 << 20))

    def inspect() -> None:
        system, path = storage.arrow(location)
        assert system.get_file_info(path).size is None

    return [
        lambda: storage.read(location),
        lambda: storage.read_start(location, 9),
        lambda: storage.open_input(location).read(),
        lambda: storage.write(location, b"x", True),
        upload,
        lambda: list(storage.list(location)),
        lambda: storage.publish(location, b"x"),
        lambda: storage.delete(location),
        lambda: storage.size(location),
        inspect,
    ]


@pytest.mark.parametrize("location", PLACES)
@pytest.mark.parametrize("redirecting", [301, 302, 303, 307, 308], indirect=True)
def test_a_redirect_is_refused(redirecting: list[Any], elsewhere: Recorder, location: str) -> None:
    endpoint, asked = redirecting
    for ask in asks(storage_for(location, PLACES[location](endpoint)), location):
        before = len(asked)
        with pytest.raises((FrazilError, OSError, pa.ArrowException)):
            ask()
        assert len(asked) > before, "the store was asked, and redirected"
    assert elsewhere.asked == []


@pytest.mark.parametrize("redirecting", [307], indirect=True)
def test_a_refused_redirect_is_told_as_one(redirecting: list[Any]) -> None:
    with pytest.raises(FrazilError, match="RedirectRefused") as told:
        storage_for("s3://b/k", PLACES["s3://b/k"](redirecting[0])).read("s3://b/k")
    assert "redirects to another host" in str(told.value.hint)


def test_over_tls_only_the_stores_own_host_is_asked_without_the_relay() -> None:
    options = without_redirects("s3", "https://store.example", ambient=False)
    assert options["proxy_excludes"] == "store.example"
    relay = urlsplit(options["proxy_url"])
    with socket.create_connection((str(relay.hostname), relay.port or 0)) as tunnel:
        tunnel.sendall(b"CONNECT evil.example:443 HTTP/1.1\r\nHost: evil.example:443\r\n\r\n")
        assert tunnel.recv(1000).startswith(b"HTTP/1.1 403 ")
    asked = without_redirects(
        "s3", "https://s3.eu-west-1.amazonaws.com", ambient=True, region="eu-west-1"
    )["proxy_excludes"].split(",")
    assert {"169.254.0.0/16", "sts.eu-west-1.amazonaws.com", "s3.eu-west-1.amazonaws.com"} <= {
        *asked
    }, "where clouds give credentials"


def test_the_proxy_of_the_environment_is_gone_through(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "NO_PROXY", "no_proxy", "REQUEST_METHOD"):
        monkeypatch.delenv(name, raising=False)
    with recorder() as proxy, fake_s3() as store:
        monkeypatch.setenv("http_proxy", proxy.endpoint.replace("://", "://me:word@"))
        client.cache_clear()
        with pytest.raises(FrazilError):
            storage_for("s3://b/k", store.properties).read("s3://b/k")
        assert not store.asked and proxy.asked[0][1] == f"{store.endpoint}/b/k"
        assert proxy.asked[0][2]["proxy-authorization"] == "Basic bWU6d29yZA=="
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        client.cache_clear()
        storage_for("s3://b/k", store.properties).write("s3://b/k", b"x" * (3 << 20))
        assert (
            storage_for("s3://b/k", store.properties).read("s3://b/k") == b"x" * (3 << 20)
            and len(proxy.asked) == 1
        )
    client.cache_clear()


def test_a_tunnel_through_the_proxy_of_the_environment_leads_to_the_store_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("HTTPS_PROXY", "NO_PROXY", "no_proxy", "REQUEST_METHOD"):
        monkeypatch.delenv(name, raising=False)
    with socket.create_server(("127.0.0.1", 0)) as proxy:
        monkeypatch.setenv("https_proxy", f"http://127.0.0.1:{proxy.getsockname()[1]}")
        options = without_redirects("s3", "https://store.example", ambient=False)
        relay = urlsplit(options["proxy_url"])
        assert "store.example" not in options["proxy_excludes"]
        for host, is_passed_on in (
            ("store.example", True),
            ("bucket.store.example", True),
            ("evilstore.example", False),
            ("evil.example", False),
        ):
            with socket.create_connection((str(relay.hostname), relay.port or 0)) as tunnel:
                tunnel.sendall(f"CONNECT {host}:443 HTTP/1.1\r\nHost: {host}:443\r\n\r\n".encode())
                if is_passed_on:
                    accepted, _ = proxy.accept()
                    with accepted:
                        assert accepted.recv(1000).startswith(f"CONNECT {host}:443 ".encode())
                        accepted.sendall(b"HTTP/1.1 200 OK\r\n\r\nhello")
                        assert b"200 OK" in tunnel.recv(1000)
                else:
                    assert tunnel.recv(1000).startswith(b"HTTP/1.1 403 ")


def test_a_large_file_is_read_in_parts() -> None:
    data = bytes(range(256)) * (20 << 12)
    with fake_s3() as store:
        storage = storage_for("s3://b/k", store.properties)
        with storage.open_output("s3://b/k") as sink:
            sink.write(data)
        with storage.open_input("s3://b/k") as file:
            file.seek(1)
            assert file.read() == data[1:]
    assert sum(method == "GET" for method, _, _ in store.asked) == 3
