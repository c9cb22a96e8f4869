"""A proxy before a metastore, which loses calls or their answers when told to."""

from __future__ import annotations

import contextlib
import socket
import threading
from urllib.parse import urlsplit


class CuttingProxy:
    """Pass calls on to a server. `lose(call, "answer")`: the next call of that name reaches the server, and its connection ends before the
    answer comes; `lose(call, "call")`: it ends before the server has it. `lost` lists what was lost, `answered` counts the answers that went through."""

    def __init__(self, address: str):
        self._server = urlsplit(address)
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.uri = f"thrift://127.0.0.1:{self._listening.getsockname()[1]}"
        self.lost: list[tuple[str, str]] = []
        self.answered = 0
        self._todo: list[tuple[str, str]] = []
        self._lock = threading.Lock()
        self._clients: list[socket.socket] = []
        threading.Thread(target=self._serve, daemon=True).start()

    def lose(self, call: str, what: str) -> None:
        with self._lock:
            self._todo.append((call, what))

    def close(self) -> None:
        self._listening.close()

    def die(self) -> None:
        """Take no more connections, and cut those that are open."""
        self._listening.shutdown(socket.SHUT_RDWR)
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
        with client, socket.create_connection((self._server.hostname or "", self._server.port or 0)) as server:
            with contextlib.suppress(OSError):
                while data := client.recv(1 << 20):
                    fault = self._fault_of(data)
                    if fault == "call":
                        return
                    server.sendall(data)
                    while client_waits(server, client):
                        pass
                    answer = server.recv(1 << 20)
                    if fault == "answer" or not answer:
                        return
                    self.answered += 1
                    client.sendall(answer)

    def _fault_of(self, data: bytes) -> str | None:
        with self._lock:
            for fault in self._todo:
                if fault[0].encode() in data[:100]:
                    self._todo.remove(fault)
                    self.lost.append(fault)
                    return fault[1]
        return None


def client_waits(server: socket.socket, client: socket.socket) -> bool:
    """Pass on what else the client has sent, until the server answers. False: an answer is there."""
    import select

    ready, _, _ = select.select([server, client], [], [], 60)
    if client in ready and server not in ready:
        more = client.recv(1 << 20)
        if not more:
            raise OSError("the client has left")
        server.sendall(more)
        return True
    return False
