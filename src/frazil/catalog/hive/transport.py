"""Open connections of the Thrift library to a metastore, with limits on what an answer may hold and how long it may take."""

from __future__ import annotations

import functools
import logging
import time
from dataclasses import dataclass
from typing import Any

from frazil.errors import NotInstalledError

_LONGEST_ANSWER_S = 600.0
_MOST_BYTES = 1 << 29
_LONGEST_TEXT, _LONGEST_LIST = 1 << 26, 10_000_000


@dataclass(frozen=True)
class ThriftLibrary:
    """Hold the modules of the Thrift library, which is imported when it is used."""

    sockets: Any
    transports: Any
    protocols: Any
    thrift: Any


@functools.cache
def thrift_library() -> ThriftLibrary:
    """Import the Thrift library. Raises NotInstalledError."""
    try:
        from thrift import Thrift
        from thrift.protocol import TBinaryProtocol
        from thrift.transport import TSocket, TTransport
    except ImportError as error:
        raise NotInstalledError("Hive catalogs need thrift.", hint='pip install "frazil[hive]"') from error
    logging.getLogger("thrift.transport.TSocket").setLevel(logging.CRITICAL)  # what it logs is raised, too
    return ThriftLibrary(TSocket, TTransport, TBinaryProtocol, Thrift)


class AnswerLimits:
    """Bound one answer, in time and in bytes: a time limit for each read would let one that drips go on forever."""

    def __init__(self) -> None:
        self._until, self._left = 0.0, 0

    def begin(self) -> None:
        """Begin with the next answer."""
        self._until, self._left = time.monotonic() + _LONGEST_ANSWER_S, _MOST_BYTES

    def time_left(self) -> float:
        """Return how many seconds may still be waited. Raises TimeoutError."""
        left = self._until - time.monotonic()
        if left <= 0:
            raise TimeoutError(f"the answer takes more than {_LONGEST_ANSWER_S:.0f} s")
        return left

    def take(self, size: int) -> None:
        """Count bytes that have come. Raises ValueError."""
        self._left -= size
        if self._left < 0:
            raise ValueError(f"the answer has more than {_MOST_BYTES >> 20} MB")


@functools.cache
def _limited_socket() -> type[Any]:
    """Return the library's socket with limits for each answer."""

    class LimitedSocket(thrift_library().sockets.TSocket):  # type: ignore[misc]  # typed only where thrift is installed
        def __init__(self, limits: AnswerLimits, *address: Any, read_timeout: float):
            super().__init__(*address, socket_keepalive=True)
            self.limits, self.read_timeout = limits, read_timeout

        def read(self, size: int) -> bytes:
            self.handle.settimeout(min(self.read_timeout, self.limits.time_left()))
            try:
                data: bytes = super().read(size)
            except Exception:
                self.limits.time_left()  # where that is over, it is the reason
                raise
            self.limits.take(len(data))
            return data

    return LimitedSocket


def opened_socket(address: tuple[str, int], limits: AnswerLimits, connect_timeout: float, read_timeout: float) -> Any:
    """Open a socket. Raises what the Thrift library raises."""
    socket = _limited_socket()(limits, *address, read_timeout=read_timeout)
    socket.setTimeout(connect_timeout * 1000)
    socket.open()
    socket.setTimeout(read_timeout * 1000)
    return socket


def protocol_over(transport: Any) -> Any:
    """Return the binary protocol over a transport, with limits for texts and lists."""
    return thrift_library().protocols.TBinaryProtocol(
        transport, string_length_limit=_LONGEST_TEXT, container_length_limit=_LONGEST_LIST
    )
