"""Read the properties of a REST catalog: its address, authentication, headers, TLS and time limits,
under Java's and PyIceberg's names.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from frazil.catalog.base import flag, option, spelling
from frazil.catalog.rest.clouds import CLOUDS
from frazil.catalog.rest.sigv4 import (
    AUTH_TYPES,
    SIGV4_PROPERTIES,
    Signing,
    auth_kind,
    is_sigv4,
    signing_of,
)
from frazil.errors import InvalidInput, Unsupported
from frazil.storage import redact_text
from frazil.storage.parties import TRUSTED

VIEW_ENDPOINTS = "view-endpoints-supported"
SCAN_PLANNING, POLL_TIMEOUT = "scan-planning-mode", "rest-scan-planning.poll-timeout-ms"
_OF_CLOUDS = {  # how a cloud's tokens are had, under Java's and PyIceberg's names
    "google": (("auth.google.credentials-path", "rest.auth.google.credentials-path", "gcp.auth.credentials-path"),
               ("auth.google.scopes", "rest.auth.google.scopes", "gcp.auth.scopes")),
    "entra": ((), ("auth.entra.scopes", "rest.auth.entra.scopes")),
}  # fmt: skip
CLOUD_PROPERTIES = tuple(key for names in _OF_CLOUDS.values() for keys in names for key in keys)
REST_PROPERTIES = (
    "uri", "prefix", "token", "credential", "oauth2-server-uri", "scope", "audience", "resource", "token-expires-in-ms",
    "token-refresh-enabled", "token-exchange-enabled", "auth.type", "auth.basic.username", "auth.basic.password", "rest.auth.type",
    "rest.auth.basic.username", "rest.auth.basic.password", *SIGV4_PROPERTIES, "rest-page-size", "namespace-separator",
    "snapshot-loading-mode", SCAN_PLANNING, POLL_TIMEOUT, "rest-metrics-reporting-enabled", "rest.client.connection-timeout-ms",
    "rest.client.socket-timeout-ms", "rest.client.max-retries", "rest.client.proxy.hostname", "rest.client.proxy.port",
    "rest.client.proxy.username", "rest.client.proxy.password", TRUSTED, *CLOUD_PROPERTIES, "ssl.cabundle", "ssl.client.cert",
    "ssl.client.key", "deletable-locations", VIEW_ENDPOINTS,
)  # fmt: skip
REST_PREFIXES = ("header.",)
_DELEGATION = "X-Iceberg-Access-Delegation"
_SHORTEST_SECRET = 6  # shorter values would be masked in words that say something else
_AUTH_TYPES = {
    "none": "none",
    "noop": "none",
    "basic": "basic",
    "oauth2": "oauth2",
    "google": "google",
    "entra": "entra",
    "azure": "entra",
}


@dataclass(frozen=True)
class AuthSettings:
    """Hold how requests are authenticated. `kind`: none, basic, oauth2, google or entra. Nothing of
    it is shown.
    """

    kind: str
    user: str = field(default="", repr=False)
    password: str = field(default="", repr=False)
    token: str | None = field(default=None, repr=False)
    credential: str | None = field(default=None, repr=False)
    server: str = ""
    form_fields: tuple[tuple[str, str], ...] = ()
    """What else the form of a request for a token says: scope, audience, resource."""
    expires_s: float = 3600.0
    refresh: bool = True
    exchange: bool = True
    credentials_path: str | None = None
    """Of a cloud's credentials, where they are not the default ones; `form_fields` hold the scopes.
    """


@dataclass(frozen=True)
class Proxy:
    """Hold the address of a forward proxy, http://host:port, and what it asks for."""

    address: str
    user: str | None = field(default=None, repr=False)
    password: str | None = field(default=None, repr=False)


@dataclass(frozen=True)
class Settings:
    """Hold the settings of one REST catalog. Times are in seconds."""

    uri: str
    auth: AuthSettings
    headers: tuple[tuple[str, str], ...] = field(repr=False)
    connect_timeout: float
    read_timeout: float
    retries: int
    ca_bundle: str | None
    client_cert: str | None
    client_key: str | None
    signing: Signing | None = None
    snapshots: str = "all"
    """Which snapshots a load of a table is sent: "all", or "refs" for those that branches and tags
    name; the others when needed.
    """
    reports_metrics: bool = True
    proxy: Proxy | None = None
    """None: the proxy that the environment names, if any."""
    planning: str = "client"
    """Who plans scans of tables of which the server tells nothing else: "client" or "server"."""
    poll_timeout: float = 300.0
    """How long to wait for a plan that the server has not finished."""

    def header_secrets(self) -> tuple[str, ...]:
        """Return the values of headers, and the longer words in them, since any of them may be a
        secret.
        """
        values = [value for name, value in self.headers if name.lower() != _DELEGATION.lower()]
        return tuple(
            text
            for value in values
            for text in {value, *value.split()}
            if len(text) >= _SHORTEST_SECRET
        )


def settings(properties: Mapping[str, str]) -> Settings:
    """Read the settings. Raises InvalidInput for an invalid value, Unsupported for one that is not
    served.
    """
    uri = properties["uri"].strip().rstrip("/")
    parts = urlsplit(uri)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise InvalidInput(
            f"Catalog property uri must be the address of a REST catalog, as in https://host/path, not {redact_text(uri)!r}."
        )
    if parts.username or parts.password:
        raise InvalidInput(
            "Catalog property uri holds a user or password.",
            hint="Set token, credential, or auth.type=basic instead.",
        )
    if uri.endswith("/v1"):
        uri = uri.removesuffix("/v1")  # some products give their address with the version
    client_key = properties.get("ssl.client.key")
    if client_key and not properties.get("ssl.client.cert"):
        raise InvalidInput(
            "Catalog property ssl.client.key is given without ssl.client.cert.",
            hint="They belong together.",
        )
    return Settings(
        uri,
        _auth(properties, uri),
        _headers(properties),
        _number(properties, "rest.client.connection-timeout-ms", 10_000) / 1000,
        _number(properties, "rest.client.socket-timeout-ms", 60_000) / 1000,
        int(_number(properties, "rest.client.max-retries", 5, least=0, most=100)),
        properties.get("ssl.cabundle"),
        properties.get("ssl.client.cert"),
        client_key,
        signing_of(properties),
        _one_of(properties, "snapshot-loading-mode", "all", "refs"),
        flag(properties, "rest-metrics-reporting-enabled", default=True),
        _proxy(properties),
        _one_of(properties, SCAN_PLANNING, "client", "server"),
        _number(properties, POLL_TIMEOUT, 300_000) / 1000,
    )


def told_settings(own: Mapping[str, str], merged: Mapping[str, str]) -> Settings:
    """Read the settings again after the server has told its configuration (`/v1/config`): headers,
    authentication and time limits may be the server's; files of certificates, proxies and signing
    are one's `own`.

    Raises as `settings` does.
    """

    def counts(key: str) -> bool:
        known = key.startswith(REST_PREFIXES) or key in REST_PROPERTIES
        return key in own or (known and not _is_own(key))

    chosen = {k: v for k, v in merged.items() if counts(k)}
    for (
        key
    ) in AUTH_TYPES:  # whether requests are signed, or hold a token of a cloud, is one's own, too
        if any(
            is_sigv4(kind) or auth_kind(kind or "") in (*CLOUDS, "azure")
            for kind in (own.get(key), chosen.get(key))
        ):
            chosen = {k: v for k, v in {**chosen, key: own.get(key)}.items() if v is not None}
    try:
        return settings({**chosen, **{k: v for k, v in own.items() if _is_own(k)}})
    except (InvalidInput, Unsupported) as error:
        error.advise(
            f"The configuration that the server gives counts, too ({own['uri']}/v1/config)."
        )
        raise


def _is_own(key: str) -> bool:
    """Tell whether a property counts only as it is configured here, whatever the server tells."""
    return key in (*SIGV4_PROPERTIES, *CLOUD_PROPERTIES, TRUSTED) or key.startswith(
        ("ssl.", "client.", "rest.client.proxy.")
    )


def fits_header(value: str) -> bool:
    """Tell whether a header can hold a value: Latin-1 without control characters."""
    return re.fullmatch(r"[\x20-\x7e\x80-\xff]*", value) is not None


def _headers(properties: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Return the headers of every request. `header.<Name>`: those that are configured; an empty
    value leaves a header out.
    """
    headers_by_name = {_DELEGATION.lower(): (_DELEGATION, "vended-credentials,remote-signing")}
    for key, value in properties.items():
        if not key.startswith("header."):
            continue
        name = key.removeprefix("header.")
        if not name or not all(c.isalnum() or c in "-_" for c in name) or not fits_header(value):
            hint = "Names have letters, digits and -, values no line break."
            raise InvalidInput(f"Catalog property {key} is no valid HTTP header.", hint=hint)
        headers_by_name[name.lower()] = (name, value)
    return tuple(pair for pair in headers_by_name.values() if pair[1])


def _one_of(properties: Mapping[str, str], key: str, default: str, other: str) -> str:
    mode = properties.get(key, default).strip().lower()
    if mode not in (default, other):
        raise InvalidInput(f"Catalog property {key} must be {default} or {other}, not {mode!r}.")
    return mode


def _proxy(properties: Mapping[str, str]) -> Proxy | None:
    """Read the forward proxy. As in Java, host and port belong together, and user and password."""
    host, user, password = (
        properties.get(f"rest.client.proxy.{k}") for k in ("hostname", "username", "password")
    )
    if (host is None) != ("rest.client.proxy.port" not in properties):
        raise InvalidInput(
            "Catalog properties rest.client.proxy.hostname and rest.client.proxy.port belong together; one is missing."
        )
    if (user is None) != (password is None):
        raise InvalidInput(
            "Catalog properties rest.client.proxy.username and rest.client.proxy.password belong together; one is missing."
        )
    if host is None:
        if user is not None:
            raise InvalidInput(
                "Catalog property rest.client.proxy.username is given without rest.client.proxy.hostname."
            )
        return None
    if not host.strip() or any(c in host for c in "/@?#") or any(c.isspace() for c in host.strip()):
        raise InvalidInput(
            "Catalog property rest.client.proxy.hostname must be the name of a host, without scheme and path."
        )
    if user is not None and ":" in user:
        raise InvalidInput(
            "Catalog property rest.client.proxy.username must not hold a colon.",
            hint="HTTP forbids it.",
        )
    return Proxy(
        f"http://{host.strip()}:{int(_number(properties, 'rest.client.proxy.port', 0, most=65535))}",
        user,
        password,
    )


def _number(
    properties: Mapping[str, str], key: str, default: int, least: int = 1, most: int = 86_400_000
) -> float:
    text = properties.get(key, str(default)).strip()
    if not text.isdecimal() or len(text) > 18 or not least <= int(text) <= most:
        raise InvalidInput(
            f"Catalog property {key} must be a number from {least} to {most}, not {text!r}."
        )
    return int(text)


def _auth(properties: Mapping[str, str], uri: str) -> AuthSettings:
    names: tuple[str, ...] = AUTH_TYPES
    auth_type = option(properties, *names)
    if is_sigv4(auth_type):  # the token travels beside the signature, if there is one
        names = tuple(f"{kind.removesuffix('type')}sigv4.delegate-auth-type" for kind in AUTH_TYPES)
        auth_type = option(properties, *names)
        auth_type = (
            None if auth_type is not None and auth_kind(auth_type) == "oauth2" else auth_type
        )
    implied = "oauth2" if properties.get("token") or properties.get("credential") else "none"
    kind = implied if auth_type is None else _AUTH_TYPES.get(auth_kind(auth_type), "")
    if not kind:
        hint = f"Served are {', '.join((*_AUTH_TYPES, 'sigv4'))}."
        raise Unsupported(
            f"Catalog property {spelling(properties, *names)} is {auth_type!r}.", hint=hint
        )
    if kind == "basic":
        user = option(properties, "auth.basic.username", "rest.auth.basic.username")
        password = option(properties, "auth.basic.password", "rest.auth.basic.password")
        if user is None or password is None:
            raise InvalidInput(
                "Catalog property auth.type is basic, but auth.basic.username or auth.basic.password is missing."
            )
        return AuthSettings(kind, user, password)
    if kind == "none":
        return AuthSettings(kind)
    if kind in CLOUDS:
        paths, scopes = _OF_CLOUDS[kind]
        names = tuple(re.split(r"[,\s]+", (option(properties, *scopes) or "").strip()))
        path = option(properties, *paths) if paths else None
        return AuthSettings(
            kind,
            form_fields=tuple(("scope", name) for name in names if name),
            credentials_path=path,
        )
    if not (properties.get("token") or properties.get("credential")):
        raise InvalidInput(
            "Catalog property auth.type is oauth2, but neither token nor credential is given."
        )
    server = properties.get("oauth2-server-uri", "v1/oauth/tokens")
    form_fields = {
        "scope": properties.get("scope", "catalog"),
        **{k: properties.get(k) for k in ("audience", "resource")},
    }
    return AuthSettings(
        kind,
        token=properties.get("token", "").strip() or None,
        credential=properties.get("credential"),  # files end with a line break
        server=server if "://" in server else f"{uri}/{server.lstrip('/')}",
        form_fields=tuple((k, v) for k, v in form_fields.items() if v),
        expires_s=_number(properties, "token-expires-in-ms", 3_600_000) / 1000,
        refresh=flag(properties, "token-refresh-enabled", default=True),
        exchange=flag(properties, "token-exchange-enabled", default=True),
    )
