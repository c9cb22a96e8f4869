"""Read the properties of a Hive catalog, under Java's and PyIceberg's names: the metastore's
addresses, locks, how tables are stored.
"""

from __future__ import annotations

import getpass
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from frazil.catalog.base import flag, option, spelling
from frazil.catalog.hive.sasl import PROTECTIONS, ticket_user
from frazil.errors import InvalidInput, Unsupported
from frazil.spec.properties import HIVE_ENGINE_ENABLED, HIVE_LOCK_ENABLED
from frazil.storage import redact_text

AUTH_MODE, PLAIN_USER = "hive.metastore.client.auth.mode", "hive.metastore.client.plain.username"
PLAIN_PASSWORD, USE_TLS = "hive.metastore.client.plain.password", "hive.metastore.use.SSL"
RPC_PROTECTION = "hadoop.rpc.protection"
# milliseconds; the first five are Java's, which takes them of Hadoop's configuration as
# iceberg.hive.<name>
_TIMES = {
    "hive.lock-timeout-ms": 180_000,
    "hive.lock-check-min-wait-ms": 50,
    "hive.lock-check-max-wait-ms": 5_000,
    "hive.lock-creation-timeout-ms": 180_000,
    "hive.lock-heartbeat-interval-ms": 240_000,
    "hive.client.connection-timeout-ms": 10_000,
    "hive.client.socket-timeout-ms": 120_000,
}
_FLAGS = (HIVE_ENGINE_ENABLED.name, HIVE_LOCK_ENABLED.name, "hive.hive2-compatible")
_SIZE = "hive.table-property-max-size"
ACCESS_PROPERTIES = (
    "ugi", "hive.kerberos-authentication", "hive.kerberos-service-name", "hive.metastore.kerberos.principal", RPC_PROTECTION, AUTH_MODE,
    PLAIN_USER, PLAIN_PASSWORD, USE_TLS, "ssl.cabundle", "ssl.client.cert", "ssl.client.key",
)  # fmt: skip
"""Who asks, and what protects the calls."""
HIVE_PROPERTIES = (
    "uri", "list-all-tables", "unique-table-location", *ACCESS_PROPERTIES,
    *(prefix + key for key in (*_TIMES, *_FLAGS, _SIZE) for prefix in ("", "iceberg.")),
)  # fmt: skip
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
    names. `groups`: those of the user, told to the metastore."""

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
    """Who asks, by SASL; None: without SASL, the user is only told."""
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
    user, *groups = (properties.get("ugi") or "").split(":")
    if not user and properties.get("ugi"):
        raise InvalidInput("Catalog property ugi must be a user, or user:group.")
    return HiveSettings(
        addresses(properties["uri"]),
        user or None,
        tuple(g for g in groups if g),
        _flag(properties, HIVE_LOCK_ENABLED.name, True),
        _flag(properties, HIVE_ENGINE_ENABLED.name, False),
        _flag(properties, "hive.hive2-compatible", True),
        flag(properties, "list-all-tables", default=False),
        flag(properties, "unique-table-location", default=False),
        _number(properties, _SIZE, 32_672, least=0),
        *_times(properties),
        _identity(properties),
        _tls(properties),
    )


def _times(properties: Mapping[str, str]) -> tuple[float, float, float, float, float, float, float]:
    """Return the times of `_TIMES`, in their order, in seconds."""
    one, two, three, four, five, six, seven = (
        _number(properties, key, default) / 1000 for key, default in _TIMES.items()
    )
    return one, two, three, four, five, six, seven


def _identity(properties: Mapping[str, str]) -> PlainIdentity | KerberosIdentity | None:
    if RPC_PROTECTION in properties and not by_kerberos(properties):
        raise InvalidInput(
            f"Catalog property {RPC_PROTECTION} has no effect without hive.kerberos-authentication=true."
        )
    mode = properties.get(AUTH_MODE, "NOSASL").strip().upper()
    if flag(properties, "hive.kerberos-authentication", default=False):
        if mode not in ("NOSASL", "KERBEROS"):
            text = (
                f"Catalog property {AUTH_MODE} is {mode}, but hive.kerberos-authentication is true."
            )
            raise InvalidInput(text, hint="Keep one of them.")
        return _kerberos(properties)
    match mode:
        case "NOSASL":
            return None
        case "KERBEROS":
            return _kerberos(properties)
        case "PLAIN":
            user, password = properties.get(PLAIN_USER), properties.get(PLAIN_PASSWORD)
            if not user or password is None or "\0" in user + password:
                raise InvalidInput(
                    f"Catalog property {AUTH_MODE} is PLAIN, which needs {PLAIN_USER} and {PLAIN_PASSWORD}."
                )
            return PlainIdentity(user, password)
    raise Unsupported(
        f"Catalog property {AUTH_MODE} is {mode}.", hint="Served are NOSASL, PLAIN and KERBEROS."
    )


def by_kerberos(properties: Mapping[str, str]) -> bool:
    """Tell whether properties say that a Kerberos ticket shows who asks."""
    mode = properties.get(AUTH_MODE, "").strip().upper()
    return mode == "KERBEROS" or flag(properties, "hive.kerberos-authentication", default=False)


def _protections(properties: Mapping[str, str]) -> tuple[str, ...]:
    text = properties.get(RPC_PROTECTION)
    names = () if text is None else tuple(name.strip().lower() for name in text.split(","))
    if any(name not in PROTECTIONS for name in names):
        hint = f"There are {', '.join(PROTECTIONS)}, of which several may be given with commas between them."
        raise InvalidInput(f"Catalog property {RPC_PROTECTION} is {text}.", hint=hint)
    return names


def _kerberos(properties: Mapping[str, str]) -> KerberosIdentity:
    """Read the metastore's principal: Java's `hive.metastore.kerberos.principal`, as in
    hive/_HOST@REALM, or PyIceberg's name of the service alone."""
    principal, service = (
        properties.get("hive.metastore.kerberos.principal"),
        properties.get("hive.kerberos-service-name"),
    )
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
    files = Tls(
        *(properties.get(f"ssl.{name}") for name in ("cabundle", "client.cert", "client.key"))
    )
    if flag(properties, USE_TLS, default=False):
        return files
    if files != Tls(None, None, None):
        raise InvalidInput(
            f"Files of TLS (ssl.*) are given, but the catalog property {USE_TLS} is not true."
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


def _flag(properties: Mapping[str, str], key: str, default: bool) -> bool:
    return flag(properties, key, f"iceberg.{key}", default=default)


def _number(
    properties: Mapping[str, str], key: str, default: int, least: int = 1, most: int = 86_400_000
) -> int:
    text = (option(properties, key, f"iceberg.{key}") or str(default)).strip()
    if not re.fullmatch("[0-9]{1,9}", text) or not least <= int(text) <= most:
        name = spelling(properties, key, f"iceberg.{key}")
        raise InvalidInput(
            f"Catalog property {name} must be a number from {least} to {most}, not {text!r}."
        )
    return int(text)
