"""A TCP proxy before a real server, which disturbs single requests when told to, and keeps what it
did.
"""

from __future__ import annotations

import contextlib
import re
import selectors
import socket
import struct
import threading
import time
from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import urlsplit

KINDS = ("delay", "reset", "call", "answer", "truncated", "slow close")

_REQUEST = re.compile(rb"[A-Z]+ \S+(?= HTTP/1\.)")


class Fired(NamedTuple):
    request: str
    kind: str


def readable(*sockets: Any, within: float | None = None) -> list[Any]:
    """Wait until sockets can be read, and return those. A process may have more than the 1024 files
    that `select` can count.
    """
    with selectors.PollSelector() as waiting:
        for one in sockets:
            waiting.register(one, selectors.EVENT_READ)
        return [key.fileobj for key, _ in waiting.select(within)]


@dataclass(frozen=True)
class _Fault:
    request: str
    kind: str
    seconds: float
    then_down: bool


class FaultProxy:
    """Pass requests on to the server of an address (`http://…`, `thrift://…`, `hdfs://…`, a
    database's); `uri` is the address to use instead.

    `once(request, kind)`: the next request in which the regular expression is found (in what comes
    first of it) meets a fault:

    - `delay`: its answer comes `seconds` late;
    - `reset`: the connection is reset before the server has the request;
    - `call`: the connection ends before the server has it;
    - `answer`: the server does what it asks, and the connection ends before the answer comes;
    - `truncated`: the answer ends in the middle (of its body, where it is one of HTTP);
    - `slow close`: the answer is whole, but what the client sends on that connection afterwards is
      swallowed, until it ends after `seconds`.

    With `then_down`, connections are refused from then on. `fired` lists the faults that happened;
    what was not asked for is passed on as it is. `die()` also ends the connections that are open.
    `answered` counts the answers that went through. `requests` holds the first line of each request
    of HTTP; `connections` counts those that were opened, `now_open` those that are open,
    `most_open` how many were open at once.
    """

    def __init__(self, address: str):
        self._server = urlsplit(address)
        self._listening = socket.create_server(("127.0.0.1", 0))
        account = f"{self._server.netloc.rpartition('@')[0]}@" if "@" in self._server.netloc else ""
        self.uri = self._server._replace(
            netloc=f"{account}127.0.0.1:{self._listening.getsockname()[1]}"
        ).geturl()
        self.fired: list[Fired] = []
        self.answered = self.connections = self.most_open = self.now_open = 0
        self.requests: list[str] = []
        self._clients: list[socket.socket] = []
        self._due: list[_Fault] = []
        self._lock = threading.Lock()
        threading.Thread(target=self._serve, daemon=True).start()

    def once(
        self, request: str, kind: str, seconds: float = 0.3, *, then_down: bool = False
    ) -> None:
        if kind not in KINDS:
            raise ValueError(f"{kind}: one of {KINDS} is meant")
        with self._lock:
            self._due.append(_Fault(request, kind, seconds, then_down))

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()

    def die(self) -> None:
        self.close()
        for client in self._clients:
            with contextlib.suppress(OSError):
                client.shutdown(socket.SHUT_RDWR)

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                self._clients.append(client)
                threading.Thread(target=self._pass_on, args=(client,), daemon=True).start()

    def _pass_on(self, client: socket.socket) -> None:
        with self._lock:
            self.connections += 1
            self.now_open += 1
            self.most_open = max(self.most_open, self.now_open)
        self._pass_on_until_it_ends(client)
        with self._lock:
            self.now_open -= 1

    def _pass_on_until_it_ends(self, client: socket.socket) -> None:
        fault: _Fault | None = None
        with (
            contextlib.suppress(OSError),
            client,
            socket.create_connection(
                (self._server.hostname or "", self._server.port or 0)
            ) as server,
        ):
            for each in (client, server):
                each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            while True:
                ready = readable(client, server)
                if client in ready:
                    data = client.recv(1 << 20)
                    if not data:
                        return
                    if line := _REQUEST.match(data):
                        self.requests.append(line[0].decode(errors="replace"))
                    fault = self._fault_of(data) or fault
                    if fault is not None and _ends_before_the_server(fault, client):
                        return
                    server.sendall(data)
                if server in ready:
                    answer = server.recv(1 << 20)
                    if not answer or (
                        fault is not None and _disturbed(fault, answer, client, server)
                    ):
                        return
                    if fault is None or fault.kind == "delay":
                        client.sendall(answer)
                        self.answered += 1
                    fault = None

    def _fault_of(self, data: bytes) -> _Fault | None:
        with self._lock:
            for fault in self._due:
                if re.search(fault.request.encode(), data[:4096]):
                    self._due.remove(fault)
                    if fault.then_down:
                        self.close()
                    self.fired.append(Fired(fault.request, fault.kind))
                    return fault
        return None


def _ends_before_the_server(fault: _Fault, client: socket.socket) -> bool:
    if fault.kind == "reset":  # to linger for no time at all: closing sends a reset
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    return fault.kind in ("reset", "call")


def _disturbed(fault: _Fault, answer: bytes, client: socket.socket, server: socket.socket) -> bool:
    """Do what the fault does to an answer. True: the connection ends with it."""
    match fault.kind:
        case "delay":
            time.sleep(fault.seconds)
            return False
        case "truncated":
            if (
                answer.startswith(b"HTTP/")
                and answer.endswith(b"\r\n\r\n")
                and readable(server, within=0.2)
            ):
                answer += server.recv(1 << 20)
            head, ends, body = (
                answer.partition(b"\r\n\r\n") if answer.startswith(b"HTTP/") else (b"", b"", answer)
            )
            client.sendall(head + ends + body[: len(body) // 2] if body else head[: len(head) // 2])
        case "slow close":
            while answer:
                client.sendall(answer)
                answer = server.recv(1 << 20) if readable(server, within=0.05) else b""
            until = time.monotonic() + fault.seconds
            while (left := until - time.monotonic()) > 0:
                if readable(client, within=left) and not client.recv(1 << 20):
                    break
    return True
