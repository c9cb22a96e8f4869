"""Keep obstore from following a store's redirects: tokens and signatures would go with the next
request, in headers and in its `Referer`.

obstore has no setting for it, but one for a proxy. A redirect to another host over TLS goes to a
proxy that refuses it, while the store's own host is asked directly. Without TLS each connection
goes through a relay in this process, which leads to the one store that it is for and refuses
requests that are meant for another host or port. Where the environment names a proxy, the relay
goes through that one.
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
import threading
import urllib.request
from base64 import b64encode
from typing import Any
from urllib.parse import unquote, urlsplit

REFUSED = "RedirectRefused"
_AMBIENT = {  # hosts of which clients ask for credentials by themselves
    "s3": (
        "169.254.0.0/16", "fd00:ec2::/32", "sts.amazonaws.com", "sts.{region}.amazonaws.com", "sts.{region}.amazonaws.com.cn",
        "{environment}",
    ),
    "gs": (
        "169.254.0.0/16", "metadata.google.internal", "metadata", "oauth2.googleapis.com", "accounts.google.com",
        "iamcredentials.googleapis.com", "sts.googleapis.com",
    ),
    "abfss": (
        "169.254.0.0/16", "login.microsoftonline.com", "login.microsoftonline.us", "login.chinacloudapi.cn",
        "login.partner.microsoftonline.cn", "{environment}",
    ),
}  # fmt: skip
_VARIABLES = (
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
    "AWS_ENDPOINT_URL_STS",
    "AZURE_AUTHORITY_HOST",
    "IDENTITY_ENDPOINT",
    "MSI_ENDPOINT",
)
_PIECE, _LONGEST_HEAD = 1 << 18, 1 << 17
_RELAYS: dict[tuple[str, int, str, str], int] = {}
_LOCK = threading.Lock()
_REQUEST = re.compile(rb"([A-Z]+) (?:http://([^/? ]+))?([^ ]*) (HTTP/1\.[01])\r\n")
_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*(\d{1,18})[ \t]*\r\n", re.I)
_REFUSAL = (
    b"HTTP/1.1 403 Forbidden\r\nContent-Type: application/xml\r\nContent-Length: 43\r\nConnection: close\r\n\r\n"
    b"<Error><Code>RedirectRefused</Code></Error>"
)


def without_redirects(
    scheme: str, address: str, *, ambient: bool, region: str = ""
) -> dict[str, Any]:
    """Return the options of obstore's client with which it asks no host but the store's at
    `address`.

    `ambient`: it asks for credentials by itself, so their hosts are asked as well.
    """
    parts = urlsplit(address)
    host, tls = parts.hostname or "", parts.scheme == "https"
    port, through = parts.port or (443 if tls else 80), _proxy_of_environment(parts.scheme, host)
    excluded = [] if through or not tls else [host]
    if ambient:
        of_environment = ",".join(
            filter(None, (urlsplit(os.environ.get(name, "")).hostname for name in _VARIABLES))
        )
        excluded += [
            name.format(region=region, environment=of_environment) for name in _AMBIENT[scheme]
        ]
    relay = f"http://127.0.0.1:{_relay(host, port, through)}"
    return {
        "proxy_url": relay,
        "proxy_excludes": ",".join(filter(None, excluded)) or "proxy.invalid",
    }


def _proxy_of_environment(scheme: str, host: str) -> str:
    proxy = urllib.request.getproxies().get(scheme, "")
    return (
        ""
        if not proxy or urllib.request.proxy_bypass(host)
        else proxy
        if "://" in proxy
        else f"http://{proxy}"
    )


def _relay(host: str, port: int, through: str) -> int:
    """Start a relay that leads to one host, unless one runs in this process; returns its port."""
    key = (host, port, through, str(os.getpid()))
    with _LOCK:
        if key not in _RELAYS:
            listening = socket.create_server(("127.0.0.1", 0), backlog=128)
            _RELAYS[key] = listening.getsockname()[1]
            threading.Thread(
                target=_accept,
                args=(listening, host, port, through),
                name="frazil-relay",
                daemon=True,
            ).start()
        return _RELAYS[key]


def _after_fork() -> None:
    global _LOCK
    _LOCK = threading.Lock()


os.register_at_fork(after_in_child=_after_fork)


def _accept(listening: socket.socket, host: str, port: int, through: str) -> None:
    while True:
        with contextlib.suppress(OSError):
            client, _ = listening.accept()
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(
                target=_serve, args=(client, host, port, through), name="frazil-relay", daemon=True
            ).start()


def _serve(client: socket.socket, host: str, port: int, through: str) -> None:
    """Pass the requests of a connection on, each of which names the host that it is for; answers
    come back as they are.
    """
    store: socket.socket | None = None
    try:
        held = b""
        while True:
            while b"\r\n\r\n" not in held:
                if len(held) > _LONGEST_HEAD or not (piece := client.recv(_PIECE)):
                    return
                held += piece
            head, _, held = held.partition(b"\r\n\r\n")
            head += b"\r\n\r\n"
            if (asked := _asked(head)) is None or not _is_for(*asked[0], host.lower(), port):
                client.sendall(_REFUSAL)
                return
            if store is None:
                store = _connected(asked[0][0], port, through)
                threading.Thread(
                    target=_pump, args=(store, client), name="frazil-relay", daemon=True
                ).start()
            if asked[1]:  # a tunnel to the store, through the proxy of the environment
                store.sendall(_with_proxys_user(head, through) + held)
                _pump(client, store)
                return
            store.sendall(
                _with_proxys_user(head, through)
                if through
                else _REQUEST.sub(rb"\1 \3 \4\r\n", head, count=1)
            )
            match = _LENGTH.search(head)
            left = int(match[1]) if match else 0
            while left:
                if not held and not (held := client.recv(min(_PIECE, left))):
                    return
                store.sendall(held[:left])
                sent, held = min(left, len(held)), held[left:]
                left -= sent
    except OSError:
        return
    finally:
        for end in (client, store):
            if end is not None:
                with contextlib.suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)


def _is_for(asked_host: str, asked_port: int, host: str, port: int) -> bool:
    """Tell whether a request is for the store: for its host, or that of a bucket below it."""
    return asked_port == port and (asked_host == host or asked_host.endswith(f".{host}"))


def _asked(head: bytes) -> tuple[tuple[str, int], bool] | None:
    """Return the host and port that a request is for, and whether it asks for a tunnel."""
    tunnel = re.match(rb"CONNECT ([^ ]+) ", head)
    match = tunnel or _REQUEST.match(head)
    if match is None:
        return None
    authority = match[1] if tunnel else match[2]
    parts = urlsplit(f"//{(authority or b'').decode('latin-1')}")
    try:
        return (
            (parts.hostname or "").lower(),
            parts.port or (443 if tunnel else 80),
        ), tunnel is not None
    except ValueError:
        return None


def _connected(host: str, port: int, through: str) -> socket.socket:
    proxy = urlsplit(through)
    store = socket.create_connection(
        (proxy.hostname, proxy.port or 80) if through else (host, port), timeout=60
    )
    store.settimeout(None)
    store.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return store


def _with_proxys_user(head: bytes, through: str) -> bytes:
    proxy = urlsplit(through)
    if not proxy.username:
        return head
    pair = b64encode(f"{unquote(proxy.username)}:{unquote(proxy.password or '')}".encode())
    return head[:-2] + b"Proxy-Authorization: Basic " + pair + b"\r\n\r\n"


def _pump(source: socket.socket, target: socket.socket) -> None:
    """Pass bytes on until one side ends; then both do."""
    piece = bytearray(_PIECE)
    view = memoryview(piece)
    try:
        while size := source.recv_into(piece):
            target.sendall(view[:size])
    except OSError:
        pass
    finally:
        for end in (source, target):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
