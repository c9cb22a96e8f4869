"""Read the properties of a Hive catalog, under Java's and PyIceberg's names: the metastore's
addresses, locks, how tables are stored.
"""

from __future__ import annotations

import getpass
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from frazil.catalog.hive import options as o
from frazil.catalog.hive.sasl import PROTECTIONS, ticket_user
from frazil.catalog.options import UNIQUE_LOCATION, value
from frazil.errors import InvalidInput, Unsupported
from frazil.storage import redact_text

_PORT = 9083


@dataclass(frozen=True)
class Tls:
    """Hold the files of TLS, in PEM format. `ca_bundle` None: the authorities that the system
    knows.
    """

    ca_bundle: str | None
    client_cert: str | None
    client_key: str | None


@dataclass(frozen=True)
class PlainIdentity:
    """Hold a user and password for SASL's PLAIN."""

    user: str
    password: str = field(repr=False)


@dataclass(frozen=True)
class KerberosIdentity:
    """Hold the principal of the metastore, which a Kerberos ticket is asked for. `host` None: the
    one of the address. `protections`: the layers that may be used, the best first; none: the
    strongest one that the server offers."""

    service: str
    host: str | None = None
    realm: str | None = None
    protections: tuple[str, ...] = ()


@dataclass(frozen=True)
class HiveSettings:
    """Hold the settings of one Hive catalog. Times are in seconds. `ugi`: the user whom a property
    names. `groups`: those of the user, which are sent to the metastore."""

    addresses: tuple[tuple[str, int], ...]
    ugi: str | None
    groups: tuple[str, ...]
    lock_enabled: bool
    engine_enabled: bool
    hive2_types: bool
    list_all: bool
    unique_locations: bool
    property_size: int
    lock_timeout: float
    lock_least_wait: float
    lock_longest_wait: float
    lock_creation_timeout: float
    heartbeat_interval: float
    connect_timeout: float
    read_timeout: float
    identity: PlainIdentity | KerberosIdentity | None = None
    """The user whom SASL proves; None: without SASL, the metastore believes the user's name."""
    tls: Tls | None = None

    @property
    def user(self) -> str:
        """Return who owns what is created: the user of `ugi`, else of the Kerberos ticket as Java
        has it, else of the process.
        """
        return (
            self.ugi
            or (ticket_user() if isinstance(self.identity, KerberosIdentity) else None)
            or _user()
        )


def settings(properties: Mapping[str, str]) -> HiveSettings:
    """Read the settings. Raises InvalidInput for an invalid value, Unsupported for one that is not
    served.
    """
    ugi = value(properties, o.UGI) or ""
    user, *groups = ugi.split(":")
    if not user and ugi:
        raise InvalidInput("Catalog property ugi must be a user, or user:group.")
    one, two, three, four, five, six, seven = (value(properties, t) / 1000 for t in o.TIMES)
    return HiveSettings(
        addresses(properties["uri"]),
        user or None,
        tuple(g for g in groups if g),
        value(properties, o.LOCK_ENABLED),
        value(properties, o.ENGINE_ENABLED),
        value(properties, o.HIVE2_TYPES),
        value(properties, o.LIST_ALL),
        value(properties, UNIQUE_LOCATION),
        value(properties, o.PROPERTY_SIZE),
        one,
        two,
        three,
        four,
        five,
        six,
        seven,
        _identity(properties),
        _tls(properties),
    )


def _identity(properties: Mapping[str, str]) -> PlainIdentity | KerberosIdentity | None:
    if value(properties, o.RPC_PROTECTION) is not None and not by_kerberos(properties):
        raise InvalidInput(
            f"Catalog property {o.RPC_PROTECTION.name} has no effect without hive.kerberos-authentication=true."
        )
    mode = value(properties, o.AUTH_MODE).strip().upper()
    if value(properties, o.KERBEROS):
        if mode not in ("NOSASL", "KERBEROS"):
            text = f"Catalog property {o.AUTH_MODE.name} is {mode}, but hive.kerberos-authentication is true."
            raise InvalidInput(text, hint="Keep one of them.")
        return _kerberos(properties)
    match mode:
        case "NOSASL":
            return None
        case "KERBEROS":
            return _kerberos(properties)
        case "PLAIN":
            user, password = value(properties, o.PLAIN_USER), value(properties, o.PLAIN_PASSWORD)
            if not user or password is None or "\0" in user + password:
                raise InvalidInput(
                    f"Catalog property {o.AUTH_MODE.name} is PLAIN, which needs {o.PLAIN_USER.name} and {o.PLAIN_PASSWORD.name}."
                )
            return PlainIdentity(user, password)
    raise Unsupported(
        f"Catalog property {o.AUTH_MODE.name} is {mode}.",
        hint="Served are NOSASL, PLAIN and KERBEROS.",
    )


def by_kerberos(properties: Mapping[str, str]) -> bool:
    """Tell whether properties say that a Kerberos ticket shows who asks."""
    mode = value(properties, o.AUTH_MODE).strip().upper()
    return mode == "KERBEROS" or value(properties, o.KERBEROS)


def _protections(properties: Mapping[str, str]) -> tuple[str, ...]:
    text = value(properties, o.RPC_PROTECTION)
    names = () if text is None else tuple(name.strip().lower() for name in text.split(","))
    if any(name not in PROTECTIONS for name in names):
        hint = f"There are {', '.join(PROTECTIONS)}, of which several may be given with commas between them."
        raise InvalidInput(f"Catalog property {o.RPC_PROTECTION.name} is {text}.", hint=hint)
    return names


def _kerberos(properties: Mapping[str, str]) -> KerberosIdentity:
    """Read the metastore's principal: Java's `hive.metastore.kerberos.principal`, as in
    hive/_HOST@REALM, or PyIceberg's name of the service alone."""
    principal, service = value(properties, o.PRINCIPAL), value(properties, o.SERVICE)
    if not principal:
        return KerberosIdentity(service or "hive", protections=_protections(properties))
    match = re.fullmatch(r"([^/@\s]+)(?:/([^/@\s]+))?(?:@([^/@\s]+))?", principal)
    if match is None:
        text = f"Catalog property hive.metastore.kerberos.principal must look like hive/_HOST@REALM, not {principal!r}."
        raise InvalidInput(text)
    if service and service != match[1]:
        text = f"Catalog property hive.kerberos-service-name is {service}, but hive.metastore.kerberos.principal is {principal}."
        raise InvalidInput(text, hint="Keep one of them.")
    return KerberosIdentity(
        match[1],
        None if match[2] in (None, "_HOST") else match[2],
        match[3],
        _protections(properties),
    )


def _tls(properties: Mapping[str, str]) -> Tls | None:
    files = Tls(*(value(properties, file) for file in (o.CA_BUNDLE, o.CLIENT_CERT, o.CLIENT_KEY)))
    if value(properties, o.USE_TLS):
        return files
    if files != Tls(None, None, None):
        raise InvalidInput(
            f"Files of TLS (ssl.*) are given, but the catalog property {o.USE_TLS.name} is not true."
        )
    return None


def addresses(uri: str) -> tuple[tuple[str, int], ...]:
    """Parse the hosts and ports of a URI, or of several with commas between them. Raises
    InvalidInput.
    """
    hosts_and_ports = []
    for address in (part.strip() for part in uri.split(",")):
        try:
            parts = urlsplit(address)
            port = parts.port or _PORT
        except ValueError:
            parts, port = urlsplit(""), 0
        if (
            parts.scheme != "thrift"
            or not parts.hostname
            or parts.username
            or parts.path not in ("", "/")
            or parts.query
        ):
            raise InvalidInput(
                f"Catalog property uri must be the address of a Hive Metastore, not {redact_text(address)!r}.",
                hint="As in thrift://host:9083; several are separated by commas.",
            )
        hosts_and_ports.append((parts.hostname, port))
    return tuple(hosts_and_ports)


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container whose user has no name
        return "unknown"
