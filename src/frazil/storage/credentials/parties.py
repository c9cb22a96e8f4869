"""Keep a catalog's own secrets from hosts that only its server has named: in one rule, for every
store and every request.

A secret goes to the host that the same party named. What a server tells (`/v1/config`, a table's
`config`, credentials of a prefix, of a plan, of a renewal) may name an endpoint, if it gives the
credentials for it. Where it names one and gives none, the catalog's own would go there: that is
refused, unless the catalog names the same host itself, or lists it in `rest.trusted-hosts`.

Properties travel far, to workers and to Spark's scan, before a store is opened; so those that a
server told carry marks with them, which say what it named (`NAMED`) and which secrets are its own
(`GIVEN`). `object_options.options` looks at them wherever a client is made.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from urllib.parse import urlsplit

from frazil.errors import InvalidInput

TRUSTED = "rest.trusted-hosts"
NAMED, GIVEN, MARKS = "frazil.named-by-server", "frazil.given-by-server", "frazil."
_ENDPOINTS = {  # and the hosts that are asked where nobody names one
    "s3.endpoint": re.compile(r"s3[.-](?:[\w-]+\.)*amazonaws\.com(?:\.cn)?"),
    "gcs.service.host": re.compile(r"storage\.googleapis\.com"),
}
_OF_CONNECTIONS = (
    "adls.connection-string",
    "adls.account-name",
    "adls.auth.shared-key.account.name",
    "adls.sas-token.",
)
_HOW = f"Have the server vend credentials for it, name the host in the catalog's own properties, or list it in {TRUSTED}, if it is meant."


def origin(address: str) -> tuple[str, str, int | None]:
    """Return the scheme, host and port of an address, in one spelling; a text that is no address is
    its own origin.
    """
    try:
        parts = urlsplit(address)
        return (
            parts.scheme,
            (parts.hostname or "").rstrip("."),
            parts.port or {"http": 80, "https": 443}.get(parts.scheme),
        )
    except ValueError:
        return "", address, None


def is_trusted(address: str, properties: Mapping[str, str]) -> bool:
    """Tell whether `rest.trusted-hosts` lists the host of an address, `host` or `host:port`."""
    _, host, port = origin(address)
    listed = {
        name.strip().lower()
        for name in re.split(r"[,\s]+", properties.get(TRUSTED, ""))
        if name.strip()
    }
    return bool(listed & {host, f"{host}:{port}"})


def check_trusted(
    address: str, own_address: str, properties: Mapping[str, str], named_by: str
) -> None:
    """Check that an address which a catalog's server tells is at the host that the catalog's own
    properties name, or at a trusted one. `named_by`: the property that tells it. Raises
    InvalidInput."""
    if origin(address) != origin(own_address) and not is_trusted(address, properties):
        text = f"The catalog's server tells to use another server, by {named_by}: {urlsplit(address).hostname}."
        hint = f"The catalog's secrets would go there. If that is meant, list the host in {TRUSTED} of the catalog's own properties."
        raise InvalidInput(text, hint=hint)


def marks(
    properties: Mapping[str, str], own: Mapping[str, str], from_server: Mapping[str, str]
) -> dict[str, str]:
    """Return the marks of a store's properties, of which some are a server's: which hosts it alone
    named, and what it gave.

    `own`: the catalog's own properties, those of the environment included where they name an
    endpoint.
    """
    server_keys = {key for key, value in properties.items() if from_server.get(key) == value}
    named = sorted(key for key in server_keys if _names_host(key, properties[key], own))
    return {NAMED: " ".join(named), GIVEN: " ".join(sorted(server_keys)) if named else ""}


def _names_host(key: str, value: str, own: Mapping[str, str]) -> bool:
    """Tell whether a property of the server names a host that the catalog's own properties do not."""
    if key in _ENDPOINTS:
        if own.get(key):
            return origin(value) != origin(own[key])
        scheme, host, port = origin(value)
        return not (scheme == "https" and port == 443 and _ENDPOINTS[key].fullmatch(host))
    return key.startswith(_OF_CONNECTIONS) and own.get(key) != value


def check_parties(
    properties: Mapping[str, str],
    naming: Iterable[str],
    addresses: Iterable[str | None],
    secrets: Iterable[str],
    *,
    needs: bool = True,
) -> None:
    """Check that no secret goes to a host that another party named. Raises InvalidInput.

    `naming`: the properties by which the store's host was found, `addresses`: where it is.
    `secrets`: the properties whose secrets are sent there; `needs`: whether, without any, those of
    the environment would be.
    """
    named = set(properties.get(NAMED, "").split())
    if not (by := set(naming)) or not by <= named:
        return
    hosts = [address for address in addresses if address]
    if hosts and all(is_trusted(address, properties) for address in hosts):
        return
    sent, from_server = set(secrets), set(properties.get(GIVEN, "").split())
    if sent - from_server or (needs and not sent):
        shown = ", ".join(sorted({origin(address)[1] for address in hosts})) or "another host"
        text = f"The catalog's server tells to find the files at {shown}, by {min(by)}, and gives no credentials for it: "
        raise InvalidInput(f"{text}the catalog's own would go there.", hint=_HOW)
