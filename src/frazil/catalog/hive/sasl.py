"""Implement SASL towards a Hive Metastore, as its Thrift servers frame it: PLAIN (user and password), GSSAPI (Kerberos)."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from io import BytesIO
from typing import Any, Protocol

from frazil.errors import NotInstalledError

_START, _OK, _COMPLETE = 1, 2, 5
_LONGEST_CHALLENGE, _LONGEST_FRAME = 1 << 20, 1 << 29
_AUTH, _INTEGRITY, _PRIVACY = 1, 2, 4  # the layers that RFC 4752 names
_SHOWN = 300


class SaslRefused(Exception):
    """Report that a server refuses who asks, or that its side of the negotiation makes no sense."""


class Mechanism(Protocol):
    """Define what answers a server's challenges, and protects what is sent afterwards."""

    name: str
    complete: bool

    def step(self, challenge: bytes | None) -> bytes:
        """Return the answer to a challenge; None: the negotiation begins."""

    def wrap(self, data: bytes) -> bytes: ...

    def unwrap(self, data: bytes) -> bytes: ...


@dataclass
class Plain:
    """Tell a user and password (RFC 4616). They go as they are: TLS protects them, or nothing does."""

    user: str
    password: str = field(repr=False)
    name: str = "PLAIN"
    complete: bool = False

    def step(self, challenge: bytes | None) -> bytes:
        self.complete = True
        return b"" if challenge is not None else f"\0{self.user}\0{self.password}".encode()

    def wrap(self, data: bytes) -> bytes:
        return data

    def unwrap(self, data: bytes) -> bytes:
        return data


class Kerberos:
    """Show who asks by a Kerberos ticket (RFC 4752). Of the layers that a server offers the strongest is used: privacy, then integrity."""

    name = "GSSAPI"

    def __init__(self, service: str, host: str, realm: str | None):
        try:
            import gssapi  # type: ignore[import-not-found, unused-ignore]
        except ImportError as error:
            hint = 'pip install "frazil[hive-kerberos]", with the headers of the system\'s Kerberos (libkrb5-dev, krb5-devel).'
            raise NotInstalledError("Kerberos needs gssapi.", hint=hint) from error
        if realm:
            name = gssapi.Name(f"{service}/{host}@{realm}", gssapi.NameType.kerberos_principal)
        else:
            name = gssapi.Name(f"{service}@{host}", gssapi.NameType.hostbased_service)
        flags = (
            gssapi.RequirementFlag.mutual_authentication, gssapi.RequirementFlag.integrity, gssapi.RequirementFlag.confidentiality,
            gssapi.RequirementFlag.out_of_sequence_detection,
        )  # fmt: skip
        self._context: Any = gssapi.SecurityContext(name=name, usage="initiate", flags=flags)
        self._layer, self.complete = _AUTH, False

    def step(self, challenge: bytes | None) -> bytes:
        if not self._context.complete:
            return bytes(self._context.step(challenge) or b"")
        offered = bytes(self._context.unwrap(challenge or b"").message)
        if len(offered) != 4:
            raise SaslRefused("the server offers no layers of security")
        self._layer = next((layer for layer in (_PRIVACY, _INTEGRITY, _AUTH) if offered[0] & layer), 0)
        if not self._layer:
            raise SaslRefused("the server offers no layer of security that is known")
        longest = 0 if self._layer == _AUTH else min(int.from_bytes(offered[1:]) or 0xFFFFFF, 0xFFFFFF)
        self.complete = True
        return bytes(self._context.wrap(bytes((self._layer,)) + longest.to_bytes(3), False).message)

    def wrap(self, data: bytes) -> bytes:
        return data if self._layer == _AUTH else bytes(self._context.wrap(data, self._layer == _PRIVACY).message)

    def unwrap(self, data: bytes) -> bytes:
        return data if self._layer == _AUTH else bytes(self._context.unwrap(data).message)


class SaslTransport:
    """Pass frames over a socket of the Thrift library, once both sides have agreed on who asks."""

    def __init__(self, socket: Any, mechanism: Mechanism):
        self._socket, self._mechanism = socket, mechanism
        self._out, self._in = BytesIO(), BytesIO()

    def negotiate(self) -> None:
        """Begin. Raises SaslRefused, and what the socket and the mechanism's library raise."""
        self._tell(_START, self._mechanism.name.encode())
        self._tell(_OK, self._mechanism.step(None))
        while True:
            status, challenge = self._heard()
            if status == _COMPLETE:
                if not self._mechanism.complete:
                    raise SaslRefused("the server ends the negotiation before it was complete")
                return
            if status != _OK:
                text = challenge[:_SHOWN].decode("utf-8", "replace")
                raise SaslRefused(f"the server refuses {self._mechanism.name}: {text or f'status {status}'}")
            self._tell(_OK, self._mechanism.step(challenge))

    def _tell(self, status: int, body: bytes) -> None:
        self._socket.write(struct.pack("!BI", status, len(body)) + body)

    def _heard(self) -> tuple[int, bytes]:
        status, size = struct.unpack("!BI", self._read_whole(5))
        return status, self._read_whole(self._checked(size, _LONGEST_CHALLENGE))

    def read(self, size: int) -> bytes:
        data = self._in.read(size)
        if not data and size:
            (length,) = struct.unpack("!I", self._read_whole(4))
            self._in = BytesIO(self._mechanism.unwrap(self._read_whole(self._checked(length, _LONGEST_FRAME))))
            data = self._in.read(size)
        return data

    def readAll(self, size: int) -> bytes:  # the Thrift library's name
        """Read so many bytes, as the Thrift library's protocols ask for them."""
        pieces = []
        while size > 0:
            pieces.append(self.read(size))
            size -= len(pieces[-1])
        return b"".join(pieces)

    def write(self, data: bytes) -> None:
        self._out.write(data)

    def flush(self) -> None:
        data, self._out = self._mechanism.wrap(self._out.getvalue()), BytesIO()
        self._socket.write(struct.pack("!I", len(data)) + data)

    def _read_whole(self, size: int) -> bytes:
        return bytes(self._socket.readAll(size)) if size else b""

    def _checked(self, size: int, most: int) -> int:
        if size > most:
            raise ValueError(f"the server announces {size} bytes")
        return size
