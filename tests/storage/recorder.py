"""A store that refuses everything (403) and remembers what it was asked, with the headers, to see
what a client sends and where.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Recorder:
    """`asked`: (method, path with query, headers in lower case) of each request."""

    endpoint: str = ""
    asked: list[tuple[str, str, dict[str, str]]] = field(default_factory=list)


@contextmanager
def recorder() -> Iterator[Recorder]:
    """A server that runs while the context lasts."""
    kept = Recorder()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def refuse(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            kept.asked.append(
                (self.command, self.path, {k.lower(): v for k, v in self.headers.items()})
            )
            self.send_response(403)
            self.send_header("Content-Length", "0")
            self.end_headers()

        do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = refuse

        def log_message(self, *_: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    kept.endpoint = f"http://127.0.0.1:{server.server_port}"
    threading.Thread(
        target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True
    ).start()
    try:
        yield kept
    finally:
        server.shutdown()
        server.server_close()
