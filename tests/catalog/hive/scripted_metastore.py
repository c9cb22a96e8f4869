"""A metastore in this process, which gives the answers that a test sets: well-formed ones, or bytes
that no metastore would send.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.transport.TTransport import TBufferedTransport, TFileObjectTransport, TMemoryBuffer

from frazil.catalog.hive import calls
from frazil.catalog.hive.calls import MetastoreCall

Reply = bytes | Callable[[socket.socket], None]
_BY_NAME = {c.name: c for c in vars(calls).values() if isinstance(c, MetastoreCall)}
_STRUCT = 12


def answer(name: str, **result: Any) -> bytes:
    """The bytes of an answer as a metastore sends it."""
    spec = _BY_NAME[name].result_spec
    whole = SimpleNamespace(**{member[2]: result.get(member[2]) for member in spec if member})
    return _message(name, lambda protocol: protocol.writeStruct(whole, spec))


def answer_of_bytes(name: str, body: bytes) -> bytes:
    """The head of an answer, and bytes in place of its result."""
    return _message(name, lambda protocol: protocol.trans.write(body))


def _message(name: str, write: Callable[[Any], None]) -> bytes:
    buffer = TMemoryBuffer()
    protocol = TBinaryProtocol(buffer)
    protocol.writeMessageBegin(name, 2, 0)
    write(protocol)
    return bytes(buffer.getvalue())


def dripping(data: bytes, pause: float = 0.02) -> Callable[[socket.socket], None]:
    """Send bytes one by one, each well within the time limit of a read."""

    def send(client: socket.socket) -> None:
        for byte in data:
            client.sendall(bytes((byte,)))
            time.sleep(pause)

    return send


class ScriptedMetastore:
    """Answers by the name of the call; `asked` lists the calls. `guard`: called with each new
    connection's socket; it returns the transport over which calls come and answers go, or None to
    end it."""

    def __init__(self, guard: Callable[[socket.socket], Any] | None = None):
        self.answers: dict[str, Reply] = {"set_ugi": answer("set_ugi", success=[])}
        self.asked: list[str] = []
        self.guard = guard
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.uri = f"thrift://127.0.0.1:{self._listening.getsockname()[1]}"
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        self._listening.close()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                threading.Thread(target=self._answer, args=(client,), daemon=True).start()

    def _answer(self, client: socket.socket) -> None:
        with contextlib.suppress(Exception), client:
            stream = client.makefile("rwb", buffering=0)
            transport = (
                TBufferedTransport(TFileObjectTransport(stream))
                if self.guard is None
                else self.guard(client)
            )
            while transport is not None:
                protocol = TBinaryProtocol(transport)
                name, _, _ = protocol.readMessageBegin()
                protocol.skip(_STRUCT)
                self.asked.append(name)
                reply = self.answers[name]
                if callable(reply):
                    reply(client)
                else:
                    transport.write(reply)
                    transport.flush()


@contextlib.contextmanager
def scripted_metastore(
    guard: Callable[[socket.socket], Any] | None = None,
) -> Iterator[ScriptedMetastore]:
    server = ScriptedMetastore(guard)
    try:
        yield server
    finally:
        server.close()
