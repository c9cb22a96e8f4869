"""REST catalogs behind TLS with client certificates and behind forward proxies: real handshakes,
real tunnels.
"""

from __future__ import annotations

import base64
import contextlib
import os
import socket
import ssl
import subprocess
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from frazil.catalog.base import Unclear
from frazil.catalog.rest.catalog import RestBackend
from frazil.catalog.rest.http import Client
from frazil.catalog.rest.settings import settings
from frazil.errors import FrazilError, StorageError
from tests.catalog.conftest import committed, made, set_to, swap
from tests.catalog.rest.conftest import Server

SERVERS = [os.environ["FRAZIL_TEST_REST"]] if os.environ.get("FRAZIL_TEST_REST") else []


def pump(a: socket.socket, b: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := a.recv(65536):
            b.sendall(data)
    for one in (a, b):
        with contextlib.suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)


def joined(a: socket.socket, b: socket.socket) -> None:
    other = threading.Thread(target=pump, args=(b, a), daemon=True)
    other.start()
    pump(a, b)
    other.join()


@contextlib.contextmanager
def listening(serve: Any) -> Iterator[int]:
    """Call `serve` with each connection to a port of this machine."""

    def one(connection: socket.socket) -> None:
        with contextlib.suppress(OSError), connection:
            serve(connection)

    def accept() -> None:
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=one, args=(door.accept()[0],), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as door:
        threading.Thread(target=accept, daemon=True).start()
        yield door.getsockname()[1]
        door.shutdown(socket.SHUT_RDWR)


def openssl(folder: Path, *words: str) -> None:
    subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True)


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("keys")
    ec = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    openssl(
        folder,
        "req",
        "-x509",
        *ec,
        "-keyout",
        "ca.key",
        "-out",
        "ca.pem",
        "-subj",
        "/CN=ca",
        "-days",
        "2",
    )
    for name in ("server", "client"):
        (folder / "ext").write_text("subjectAltName=IP:127.0.0.1\n")
        openssl(
            folder,
            "req",
            *ec,
            "-keyout",
            f"{name}.key",
            "-out",
            f"{name}.csr",
            "-subj",
            f"/CN={name}",
        )
        signed = (
            "-CA",
            "ca.pem",
            "-CAkey",
            "ca.key",
            "-CAcreateserial",
            "-extfile",
            "ext",
            "-days",
            "2",
        )
        openssl(folder, "x509", "-req", "-in", f"{name}.csr", "-out", f"{name}.pem", *signed)
    return folder


def server_context(keys: Path) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(keys / "ca.pem"))
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_cert_chain(keys / "server.pem", keys / "server.key")
    return context


@contextlib.contextmanager
def tls_before(uri: str, keys: Path) -> Iterator[int]:
    """A port where TLS with a client's certificate ends, before a server."""
    context = server_context(keys)
    target = int(uri.rpartition(":")[2])

    def serve(connection: socket.socket) -> None:
        with (
            context.wrap_socket(connection, server_side=True) as inner,
            socket.create_connection(("127.0.0.1", target)) as onward,
        ):
            joined(inner, onward)

    with listening(serve) as port:
        yield port


@pytest.fixture
def proxy() -> Iterator[tuple[int, list[str]]]:
    """A forward proxy that asks for user and password, with tunnels and plain requests, and the
    request lines that it was sent.
    """
    lines: list[str] = []
    wanted = b"proxy-authorization: basic " + base64.b64encode(b"me:se:cret").lower()

    def serve(connection: socket.socket) -> None:
        head = b""
        while b"\r\n\r\n" not in head:
            if not (data := connection.recv(65536)):
                return
            head += data
        method, target, _ = head.split(b"\r\n")[0].decode().split(" ")
        lines.append(f"{method} {target}")
        if wanted not in head.lower():
            connection.sendall(b"HTTP/1.1 407 No\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            return
        place = target if method == "CONNECT" else target.split("/")[2]
        host, _, port = place.partition(":")
        with socket.create_connection((host, int(port))) as onward:
            if method == "CONNECT":
                connection.sendall(b"HTTP/1.1 200 Yes\r\n\r\n")
            else:
                _, _, rest = head.partition(b"\r\n")
                path = target.split(place, 1)[1].encode()
                onward.sendall(
                    b"%s %s HTTP/1.1\r\nConnection: close\r\n%s" % (method.encode(), path, rest)
                )
            joined(connection, onward)

    with listening(serve) as port:
        yield port, lines


@pytest.fixture
def tls(server: Server, keys: Path) -> Iterator[int]:
    with tls_before(server.uri, keys) as port:
        yield port


def certificates(keys: Path) -> dict[str, str]:
    return {
        "ssl.cabundle": f"{keys}/ca.pem",
        "ssl.client.cert": f"{keys}/client.pem",
        "ssl.client.key": f"{keys}/client.key",
    }


def through(port: int, **more: str) -> dict[str, str]:
    given = {
        "hostname": "127.0.0.1",
        "port": str(port),
        "username": "me",
        "password": "se:cret",
        **more,
    }
    return {f"rest.client.proxy.{k}": v for k, v in given.items()}


def listed(server: Server, uri: str, **properties: str) -> object:
    server.on("GET /v1/namespaces", (200, {"namespaces": [["db"]]}))
    return server.catalog(uri=uri, **properties).list_namespaces()


def test_a_server_that_asks_for_a_certificate_is_shown_it(
    server: Server, tls: int, keys: Path
) -> None:
    assert listed(server, f"https://127.0.0.1:{tls}", **certificates(keys)) == [("db",)]


@pytest.mark.parametrize("missing", ["ssl.client.cert", "ssl.cabundle"])
def test_without_certificate_or_bundle_nothing_reaches_the_server(
    server: Server, tls: int, keys: Path, missing: str
) -> None:
    given = {
        k: v
        for k, v in certificates(keys).items()
        if not k.startswith(missing) and (missing, k) != ("ssl.client.cert", "ssl.client.key")
    }
    with pytest.raises(StorageError, match="No answer from the catalog's server"):
        listed(server, f"https://127.0.0.1:{tls}", token="tok-en", **given)
    assert server.asked == []


def test_a_proxy_is_used_with_user_and_password(
    server: Server, proxy: tuple[int, list[str]]
) -> None:
    assert listed(server, server.uri, **through(proxy[0])) == [("db",)]
    assert proxy[1] and all(line.startswith(f"GET {server.uri}/v1/") for line in proxy[1])


def test_a_server_behind_tls_is_reached_through_a_tunnel(
    server: Server, tls: int, keys: Path, proxy: tuple[int, list[str]]
) -> None:
    assert listed(
        server, f"https://127.0.0.1:{tls}", **certificates(keys), **through(proxy[0])
    ) == [("db",)]
    assert set(proxy[1]) == {f"CONNECT 127.0.0.1:{tls}"}
    assert not any("proxy-authorization" in {k.lower() for k in a.headers} for a in server.asked)


def test_a_proxy_of_the_environment_is_given_its_user(
    server: Server, proxy: tuple[int, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", f"http://me:se%3Acret@127.0.0.1:{proxy[0]}")
    monkeypatch.delenv("no_proxy", raising=False)
    monkeypatch.delenv("NO_PROXY", raising=False)
    assert listed(server, server.uri) == [("db",)]
    assert proxy[1]


@pytest.mark.parametrize("excluded", ["catalog", "tokens"])
def test_a_host_that_no_proxy_excludes_is_asked_directly_whichever_is_asked_first(
    server: Server, proxy: tuple[int, list[str]], monkeypatch: pytest.MonkeyPatch, excluded: str
) -> None:
    hosts = {"catalog": server.uri, "tokens": server.uri.replace("127.0.0.1", "localhost")}
    monkeypatch.setenv("http_proxy", f"http://me:se%3Acret@127.0.0.1:{proxy[0]}")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.setenv("no_proxy", hosts[excluded].removeprefix("http://"))
    server.on("POST /tokens", (200, {"access_token": "tok-en"}))
    assert listed(
        server, server.uri, oauth2_server_uri=f"{hosts['tokens']}/tokens", credential="me:secret"
    ) == [("db",)]
    through_proxy = {line.split(" ")[1].rpartition(":")[0] for line in proxy[1]}
    assert through_proxy == {
        hosts[other].rpartition(":")[0] for other in hosts if other != excluded
    }


def test_a_proxy_that_refuses_is_told_without_the_password(
    server: Server, proxy: tuple[int, list[str]]
) -> None:
    with pytest.raises(FrazilError) as told:
        listed(server, server.uri, **through(proxy[0], password="wr-ong"))
    assert server.asked == []
    assert "wr-ong" not in f"{told.value}{told.value!r}"


def test_a_server_cannot_name_a_proxy(server: Server, proxy: tuple[int, list[str]]) -> None:
    server.on("GET /v1/config", (200, {"defaults": {}, "overrides": through(proxy[0])}))
    assert listed(server, server.uri) == [("db",)]
    assert proxy[1] == []


@pytest.mark.parametrize("left", ["hostname", "port", "username", "password"])
def test_half_a_proxy_is_refused_by_name(server: Server, left: str) -> None:
    given = {k: v for k, v in through(1).items() if not k.endswith(left)}
    with pytest.raises(FrazilError, match=r"rest\.client\.proxy\."):
        server.catalog(**given).list_namespaces()


@pytest.mark.parametrize(("method", "outcome"), [("POST", Unclear), ("GET", StorageError)])
def test_a_fault_of_tls_after_a_request_was_sent_is_an_unknown_outcome(
    keys: Path, method: str, outcome: type
) -> None:
    sent: list[bytes] = []
    context = server_context(keys)

    def serve(connection: socket.socket) -> None:
        inner = context.wrap_socket(connection, server_side=True)
        sent.append(inner.recv(65536))
        with socket.socket(fileno=inner.detach()) as bare:
            bare.sendall(b"no record of TLS" * 8)

    with listening(serve) as port:
        given = {
            "uri": f"https://127.0.0.1:{port}",
            "rest.client.max-retries": "0",
            **certificates(keys),
        }
        with pytest.raises(outcome, match="No answer from the catalog's server https://127"):
            Client(settings(given)).request(method, "v1/namespaces/db/tables/t")
    assert sent and sent[0].startswith(method.encode())


def test_a_proxy_that_cuts_the_connection_after_a_change_was_sent_leaves_its_outcome_unknown() -> (
    None
):
    sent: list[bytes] = []
    with listening(lambda connection: sent.append(connection.recv(65536))) as port:
        given = {"uri": "http://127.0.0.1:9", "rest.client.max-retries": "0", **through(port)}
        with pytest.raises(Unclear):
            Client(settings(given)).request("POST", "v1/namespaces/db/tables/t", body={})
    assert len(sent) == 1 and sent[0].startswith(b"POST http://127.0.0.1:9/v1/")


def test_a_tunnel_that_is_refused_has_sent_nothing(proxy: tuple[int, list[str]]) -> None:
    given = {
        "uri": "https://127.0.0.1:9",
        "rest.client.max-retries": "0",
        **through(proxy[0], password="other"),
    }
    with pytest.raises(StorageError, match="407"):
        Client(settings(given)).request("POST", "v1/namespaces/db/tables/t", body={})
    assert proxy[1] == ["CONNECT 127.0.0.1:9"]


@pytest.mark.parametrize("uri", SERVERS)
def test_javas_server_is_used_behind_tls_and_a_tunnel(
    uri: str, keys: Path, proxy: tuple[int, list[str]]
) -> None:
    with tls_before(uri, keys) as port:
        given = {
            "type": "rest",
            "uri": f"https://127.0.0.1:{port}",
            **certificates(keys),
            **through(proxy[0]),
        }
        backend, namespace = RestBackend("r", given), (f"t{uuid.uuid4().hex}",)
        table = made(backend, (*namespace, "t"))
        after = committed(swap(backend, table, set_to(a="b")))
        assert backend.load(after.identifier).metadata.properties["a"] == "b"
        backend.drop_table(after.identifier)
        backend.drop_namespace(namespace)
    assert set(proxy[1]) == {f"CONNECT 127.0.0.1:{port}"}
