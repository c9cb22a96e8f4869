"""A proxy before a name node, which loses the answer to a request when told to."""

from __future__ import annotations

import contextlib
import socket
import threading
from urllib.parse import urlsplit


class NameNodeProxy:
    """Pass requests on to a name node. `lose("rename2")`: the next request of that name reaches it, and its connection ends before the
    answer comes; with `then_down`, connections are refused from then on. `lost` lists what was lost."""

    def __init__(self, address: str):
        self._server = urlsplit(address)
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.uri = f"hdfs://127.0.0.1:{self._listening.getsockname()[1]}"
        self.lost: list[str] = []
        self._todo: dict[str, bool] = {}
        threading.Thread(target=self._serve, daemon=True).start()

    def lose(self, request: str, then_down: bool = False) -> None:
        self._todo[request] = then_down

    def close(self) -> None:
        self._listening.close()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                server = socket.create_connection((self._server.hostname or "", self._server.port or 0))
                swallow = threading.Event()
                threading.Thread(target=self._requests, args=(client, server, swallow), daemon=True).start()
                threading.Thread(target=self._answers, args=(client, server, swallow), daemon=True).start()

    def _requests(self, client: socket.socket, server: socket.socket, swallow: threading.Event) -> None:
        with contextlib.suppress(OSError), client, server:
            while data := client.recv(1 << 20):
                for request in [r for r in self._todo if r.encode() in data]:
                    swallow.set()
                    if self._todo.pop(request):
                        self._listening.shutdown(socket.SHUT_RDWR)
                        self.close()
                    self.lost.append(request)
                server.sendall(data)

    def _answers(self, client: socket.socket, server: socket.socket, swallow: threading.Event) -> None:
        with contextlib.suppress(OSError), client, server:
            while data := server.recv(1 << 20):
                if swallow.is_set():
                    with contextlib.suppress(OSError):
                        client.shutdown(socket.SHUT_RDWR)
                    return
                client.sendall(data)
