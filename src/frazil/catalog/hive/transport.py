"""Open connections of the Thrift library to a metastore: over TLS and SASL where that is wanted,
with limits on what an answer may hold and how long it may take."""

from __future__ import annotations

import functools
import logging
import select
import ssl
import time
from dataclasses import dataclass
from typing import Any

from frazil.catalog.hive.sasl import Kerberos, Mechanism, Plain, SaslTransport
from frazil.catalog.hive.settings import HiveSettings, PlainIdentity, Tls
from frazil.errors import InvalidInput, NotInstalledError

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
        raise NotInstalledError(
            "Hive catalogs need thrift.", hint='pip install "frazil[hive]"'
        ) from error
    # what it logs is raised, too
    logging.getLogger("thrift.transport.TSocket").setLevel(logging.CRITICAL)
    return ThriftLibrary(TSocket, TTransport, TBinaryProtocol, Thrift)


class AnswerLimits:
    """Bound one answer, in time and in bytes: a time limit for each read would let one that drips
    go on forever.
    """

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
        def __init__(self, limits: AnswerLimits, *address: object, read_timeout: float):
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

        def isOpen(self) -> bool:  # the library's name
            if not isinstance(self.handle, ssl.SSLSocket):
                return bool(super().isOpen())
            poll = select.poll()  # select() takes no descriptors above 1023
            poll.register(self.handle, select.POLLIN)
            return not poll.poll(0)  # an idle server says nothing before it takes its leave

    return LimitedSocket


def opened_socket(address: tuple[str, int], limits: AnswerLimits, settings: HiveSettings) -> Any:
    """Open a socket. Raises what the Thrift library and TLS raise, InvalidInput for files of TLS
    that cannot be used.
    """
    socket = _limited_socket()(limits, *address, read_timeout=settings.read_timeout)
    socket.setTimeout(settings.connect_timeout * 1000)
    socket.open()
    if settings.tls is not None:
        try:
            socket.handle = _tls_context(settings.tls).wrap_socket(
                socket.handle, server_hostname=address[0]
            )
        except BaseException:
            socket.close()
            raise
    socket.setTimeout(settings.read_timeout * 1000)
    return socket


@functools.lru_cache(maxsize=16)
def _tls_context(tls: Tls) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=tls.ca_bundle)
        if tls.client_cert:
            context.load_cert_chain(tls.client_cert, tls.client_key)
    except (OSError, ValueError) as error:  # of ssl, too
        text = (
            f"TLS cannot be used as ssl.cabundle, ssl.client.cert and ssl.client.key say: {error}."
        )
        raise InvalidInput(text, hint="They name files in PEM format.") from error
    return context


def transport_over(
    socket: Any, address: tuple[str, int], limits: AnswerLimits, settings: HiveSettings
) -> Any:
    """Return the transport over an open socket; with SASL, after the server knows who asks. Raises
    SaslRefused, NotInstalledError, StorageError where there is no Kerberos ticket, and what the
    libraries raise."""
    identity = settings.identity
    if identity is None:
        return thrift_library().transports.TBufferedTransport(socket)
    if isinstance(identity, PlainIdentity):
        mechanism: Mechanism = Plain(identity.user, identity.password)
    else:
        mechanism = Kerberos(
            identity.service, identity.host or address[0], identity.realm, identity.protections
        )
    sasl = SaslTransport(socket, mechanism)
    limits.begin()
    sasl.negotiate()
    return sasl


def protocol_over(transport: Any) -> Any:
    """Return the binary protocol over a transport, with limits for texts and lists."""
    return thrift_library().protocols.TBinaryProtocol(
        transport, string_length_limit=_LONGEST_TEXT, container_length_limit=_LONGEST_LIST
    )
