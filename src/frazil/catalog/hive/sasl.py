"""Implement SASL towards a Hive Metastore, as its Thrift servers frame it: PLAIN (user and
password), GSSAPI (Kerberos).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from io import BytesIO
from typing import Any, Protocol

from frazil.errors import NotInstalledError, StorageError

_START, _OK, _COMPLETE = 1, 2, 5
_LONGEST_CHALLENGE, _LONGEST_FRAME = 1 << 20, 1 << 29
PROTECTIONS = {"privacy": 4, "integrity": 2, "authentication": 1}
"""The layers of RFC 4752 by the names of hadoop.rpc.protection, the strongest first."""
_SHOWN = 300
_NO_CREDENTIALS, _CREDENTIALS_EXPIRED = 7, 11  # routine errors of RFC 2744
# MIT's AP_ERR_TKT_EXPIRED; REALM_UNKNOWN, KDC_UNREACH
_TICKET_EXPIRED, _KDC_UNREACHABLE = (
    2529638944,
    (2529639066, 2529639068),
)
_TICKET_HINT = "Get one by kinit (klist lists tickets), or let KRB5_CLIENT_KTNAME name a keytab, by which it is renewed as well."
_KDC_HINT = "Check the realm and its kdc in krb5.conf (KRB5_CONFIG), and that the KDC runs."
_PRINCIPAL_ADVICE = (
    "Check that hive.metastore.kerberos.principal is the metastore's own, as in hive/_HOST@REALM (_HOST stands for the host of uri), "
    "that the ticket is no older than the keys (kdestroy, kinit), and that the clocks agree; the metastore's log may tell more."
)
_INSTALL_HINT = 'pip install "frazil[hive-kerberos]" (needs Kerberos headers: apt-get install libkrb5-dev gcc, dnf install krb5-devel gcc)'


class SaslRefused(Exception):
    """Report that a server refuses who asks, or that its side of the negotiation makes no sense.
    `advice`: what to check.
    """

    def __init__(self, message: str, advice: str | None = None):
        super().__init__(message)
        self.advice = advice


class Mechanism(Protocol):
    """Define the client's side of a SASL mechanism: it answers the server's challenges, and
    protects the messages that follow.
    """

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


def _gssapi() -> Any:
    try:
        import gssapi  # type: ignore[import-not-found, unused-ignore]
    except ImportError as error:
        raise NotInstalledError("Kerberos needs gssapi.", hint=_INSTALL_HINT) from error
    return gssapi


def ticket_user() -> str | None:
    """Return the user that the Kerberos ticket names, as Hadoop shortens alice/host@REALM to alice;
    None: there is no ticket.
    """
    gssapi = _gssapi()
    try:
        principal = str(gssapi.Credentials(usage="initiate").name)
    except gssapi.exceptions.GSSError:
        return None
    return principal.partition("@")[0].partition("/")[0]


class Kerberos:
    """Show who asks by a Kerberos ticket (RFC 4752). `protections`: the names of the layers that
    are wanted, the first one that the server offers is used; none: the strongest one."""

    name = "GSSAPI"

    def __init__(self, service: str, host: str, realm: str | None, protections: Sequence[str] = ()):
        gssapi = _gssapi()
        self._error: type[Exception] = gssapi.exceptions.GSSError
        self._principal = f"{service}/{host}" + (f"@{realm}" if realm else "")
        if realm:
            name = gssapi.Name(self._principal, gssapi.NameType.kerberos_principal)
        else:
            name = gssapi.Name(f"{service}@{host}", gssapi.NameType.hostbased_service)
        flags = (
            gssapi.RequirementFlag.mutual_authentication,
            gssapi.RequirementFlag.integrity,
            gssapi.RequirementFlag.confidentiality,
            gssapi.RequirementFlag.out_of_sequence_detection,
        )
        self._context: Any = gssapi.SecurityContext(name=name, usage="initiate", flags=flags)
        self._protections, self.protection, self.complete = (
            tuple(protections),
            "authentication",
            False,
        )

    def step(self, challenge: bytes | None) -> bytes:
        """Return the answer to a challenge. Raises SaslRefused, StorageError where there is no
        ticket, or no KDC to get one from.
        """
        try:
            if not self._context.complete:
                return bytes(self._context.step(challenge) or b"")
            offered = bytes(self._context.unwrap(challenge or b"").message)
        except self._error as error:
            raise self._failure(error) from error
        if len(offered) != 4:
            raise SaslRefused("the server offers no layers of security")
        self.protection = self._chosen(offered[0])
        longest = (
            0
            if self.protection == "authentication"
            else min(int.from_bytes(offered[1:]) or 0xFFFFFF, 0xFFFFFF)
        )
        self.complete = True
        return bytes(
            self._context.wrap(
                bytes((PROTECTIONS[self.protection],)) + longest.to_bytes(3), False
            ).message
        )

    def _chosen(self, offered: int) -> str:
        chosen = next(
            (name for name in self._protections or PROTECTIONS if offered & PROTECTIONS[name]), None
        )
        if chosen is not None:
            return chosen
        names = (
            ", ".join(name for name, layer in PROTECTIONS.items() if offered & layer)
            or "no layer of security that is known"
        )
        wanted = (
            f", but hadoop.rpc.protection is {','.join(self._protections)} here"
            if self._protections
            else ""
        )
        raise SaslRefused(
            f"the server offers {names}{wanted}",
            "Both sides need a value of hadoop.rpc.protection in common.",
        )

    def _failure(self, error: Any) -> Exception:
        """Return the error that tells what Kerberos' library refused: on this side it is the same
        for all servers.
        """
        text = "; ".join(
            error.get_all_statuses(error.min_code, False)
            if error.min_code
            else error.get_all_statuses(error.maj_code, True)
        )
        if error.min_code in _KDC_UNREACHABLE:
            return StorageError(
                f"Cannot get a Kerberos ticket for {self._principal}: {text}.", hint=_KDC_HINT
            )
        if error.min_code == _TICKET_EXPIRED or error.maj_code >> 16 & 0xFF in (
            _NO_CREDENTIALS,
            _CREDENTIALS_EXPIRED,
        ):
            return StorageError(
                f"The metastore asks for a Kerberos ticket, and there is none: {text}.",
                hint=_TICKET_HINT,
            )
        return SaslRefused(text, _PRINCIPAL_ADVICE)

    def wrap(self, data: bytes) -> bytes:
        return (
            data
            if self.protection == "authentication"
            else bytes(self._context.wrap(data, self.protection == "privacy").message)
        )

    def unwrap(self, data: bytes) -> bytes:
        return (
            data
            if self.protection == "authentication"
            else bytes(self._context.unwrap(data).message)
        )


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
                advice = (
                    "Check the user and password."
                    if isinstance(self._mechanism, Plain)
                    else _PRINCIPAL_ADVICE
                )
                raise SaslRefused(
                    f"the server refuses {self._mechanism.name}: {text or f'status {status}'}",
                    advice,
                )
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
            self._in = BytesIO(
                self._mechanism.unwrap(self._read_whole(self._checked(length, _LONGEST_FRAME)))
            )
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
