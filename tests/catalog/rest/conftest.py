"""A small server of a REST catalog in this process, which gives the answers that a test sets, and
records the requests.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from frazil.catalog.rest.catalog import RestBackend
from frazil.codec.metadata_json import encode_metadata
from tests.catalog.conftest import new_metadata

CONFIG = {"defaults": {}, "overrides": {}}


@dataclass(frozen=True)
class Asked:
    method: str
    path: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Server:
    """Answers by route, `GET /v1/config`: (status, body, headers), or several, one after the other;
    the last one stays. None: the connection is cut.
    """

    answers: dict[str, list[Any]] = field(default_factory=dict)
    asked: list[Asked] = field(default_factory=list)
    uri: str = ""

    def on(self, route: str, *answers: Any) -> None:
        self.answers[route] = list(answers)

    def routes(self) -> list[str]:
        return [f"{a.method} {a.path.partition('?')[0]}" for a in self.asked]

    def catalog(self, **properties: str) -> RestBackend:
        quick = {"rest.client.max-retries": "2", "rest.client.socket-timeout-ms": "2000"}
        return RestBackend(
            "r",
            {
                "type": "rest",
                "uri": self.uri,
                **quick,
                **{k.replace("__", ".").replace("_", "-"): v for k, v in properties.items()},
            },
        )


def table_json(**more: Any) -> dict[str, Any]:
    metadata = json.loads(encode_metadata(new_metadata("memory://w/db/t")))
    return {
        "metadata-location": "memory://w/db/t/metadata/00000-a.metadata.json",
        "metadata": metadata,
        **more,
    }


def error(status: int, kind: str, message: str = "no") -> tuple[int, Any]:
    return status, {"error": {"message": message, "type": kind, "code": status}}


def handler(server: Server) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = 1 << 16  # head and body are one packet

        def log_message(self, *_: Any) -> None:
            pass

        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            server.asked.append(Asked(self.command, self.path, dict(self.headers), body))
            found = server.answers.get(
                f"{self.command} {self.path.partition('?')[0]}",
                [error(404, "NoSuchTableException")],
            )
            reply = found.pop(0) if len(found) > 1 else found[0]
            if callable(reply):
                reply = reply(server.asked[-1])
            if reply is None:
                self.close_connection = True
                self.connection.close()
                return
            status, content, *headers = reply
            data = content if isinstance(content, bytes) else json.dumps(content).encode()
            self.send_response(status)
            for key, value in {
                "Content-Type": "application/json",
                "Content-Length": str(len(data)),
                **(headers[0] if headers else {}),
            }.items():
                self.send_header(key, value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(data)

        do_GET = do_POST = do_DELETE = do_HEAD = answer

    return Handler


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    running = ThreadingHTTPServer(("127.0.0.1", 0), handler(made))
    running.daemon_threads = True
    made.uri = f"http://127.0.0.1:{running.server_port}"
    made.on("GET /v1/config", (200, CONFIG))
    thread = threading.Thread(target=running.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    yield made
    running.shutdown()
    running.server_close()


Ask = Callable[[RestBackend], object]
