"""Read the properties of a REST catalog: its address, authentication, headers, TLS and time limits,
under Java's and PyIceberg's names.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from frazil.catalog.options import spelling, value
from frazil.catalog.rest import options as o
from frazil.catalog.rest.clouds import CLOUDS
from frazil.catalog.rest.sigv4 import Signing, auth_kind, is_sigv4, signing_of
from frazil.errors import InvalidInput, Unsupported
from frazil.storage import redact_text

_SCOPES = {"google": o.GOOGLE_SCOPES, "entra": o.ENTRA_SCOPES}
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
    client_cert, client_key = value(properties, o.CLIENT_CERT), value(properties, o.CLIENT_KEY)
    if client_key and not client_cert:
        raise InvalidInput(
            "Catalog property ssl.client.key is given without ssl.client.cert.",
            hint="They belong together.",
        )
    return Settings(
        uri,
        _auth(properties, uri),
        _headers(properties),
        value(properties, o.CONNECT_TIMEOUT) / 1000,
        value(properties, o.READ_TIMEOUT) / 1000,
        value(properties, o.RETRIES),
        value(properties, o.CA_BUNDLE),
        client_cert,
        client_key,
        signing_of(properties),
        value(properties, o.SNAPSHOT_LOADING),
        value(properties, o.METRICS),
        _proxy(properties),
        value(properties, o.SCAN_PLANNING),
        value(properties, o.POLL_TIMEOUT) / 1000,
    )


def told_settings(own: Mapping[str, str], merged: Mapping[str, str]) -> Settings:
    """Read the settings again with the server's configuration (`/v1/config`): headers,
    authentication and time limits may be the server's; files of certificates, proxies and signing
    are one's `own`.

    Raises as `settings` does.
    """

    chosen = {k: v for k, v in merged.items() if k in own or (o.is_of_rest(k) and not o.is_own(k))}
    # Whether requests are signed, or hold a token of a cloud, is one's own, too.
    for key in o.AUTH_TYPE.names:
        if any(
            is_sigv4(kind) or auth_kind(kind or "") in (*CLOUDS, "azure")
            for kind in (own.get(key), chosen.get(key))
        ):
            chosen = {k: v for k, v in {**chosen, key: own.get(key)}.items() if v is not None}
    try:
        return settings({**chosen, **{k: v for k, v in own.items() if o.is_own(k)}})
    except (InvalidInput, Unsupported) as error:
        error.advise(
            f"The configuration that the server gives counts, too ({own['uri']}/v1/config)."
        )
        raise


def fits_header(value: str) -> bool:
    """Tell whether a header can hold a value: Latin-1 without control characters."""
    return re.fullmatch(r"[\x20-\x7e\x80-\xff]*", value) is not None


def _headers(properties: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Return the headers of every request. `header.<Name>`: those that are configured; an empty
    value leaves a header out.
    """
    headers_by_name = {_DELEGATION.lower(): (_DELEGATION, "vended-credentials,remote-signing")}
    for key, text in properties.items():
        if not key.startswith("header."):
            continue
        name = key.removeprefix("header.")
        if not name or not all(c.isalnum() or c in "-_" for c in name) or not fits_header(text):
            hint = "Names have letters, digits and -, values no line break."
            raise InvalidInput(f"Catalog property {key} is no valid HTTP header.", hint=hint)
        headers_by_name[name.lower()] = (name, text)
    return tuple(pair for pair in headers_by_name.values() if pair[1])


def _proxy(properties: Mapping[str, str]) -> Proxy | None:
    """Read the forward proxy. As in Java, host and port belong together, and user and password."""
    host, user = value(properties, o.PROXY_HOST), value(properties, o.PROXY_USER)
    port, password = value(properties, o.PROXY_PORT), value(properties, o.PROXY_PASSWORD)
    if (host is None) != (port is None):
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
    return Proxy(f"http://{host.strip()}:{port}", user, password)


def _auth(properties: Mapping[str, str], uri: str) -> AuthSettings:
    option = o.AUTH_TYPE
    auth_type = value(properties, option)
    if is_sigv4(auth_type):  # the token travels beside the signature, if there is one
        option = o.DELEGATE_AUTH_TYPE
        auth_type = value(properties, option)
        auth_type = (
            None if auth_type is not None and auth_kind(auth_type) == "oauth2" else auth_type
        )
    token, credential = value(properties, o.TOKEN), value(properties, o.CREDENTIAL)
    implied = "oauth2" if token or credential else "none"
    kind = implied if auth_type is None else _AUTH_TYPES.get(auth_kind(auth_type), "")
    if not kind:
        hint = f"Served are {', '.join((*_AUTH_TYPES, 'sigv4'))}."
        raise Unsupported(
            f"Catalog property {spelling(properties, option)} is {auth_type!r}.", hint=hint
        )
    if kind == "basic":
        user, password = value(properties, o.USER), value(properties, o.PASSWORD)
        if user is None or password is None:
            raise InvalidInput(
                "Catalog property auth.type is basic, but auth.basic.username or auth.basic.password is missing."
            )
        return AuthSettings(kind, user, password)
    if kind == "none":
        return AuthSettings(kind)
    if kind in CLOUDS:
        names = tuple(re.split(r"[,\s]+", (value(properties, _SCOPES[kind]) or "").strip()))
        path = value(properties, o.GOOGLE_PATH) if kind == "google" else None
        return AuthSettings(
            kind,
            form_fields=tuple(("scope", name) for name in names if name),
            credentials_path=path,
        )
    if not (token or credential):
        raise InvalidInput(
            "Catalog property auth.type is oauth2, but neither token nor credential is given."
        )
    server = value(properties, o.OAUTH2_SERVER)
    form_fields = {
        o.SCOPE.name: value(properties, o.SCOPE),
        o.AUDIENCE.name: value(properties, o.AUDIENCE),
        o.RESOURCE.name: value(properties, o.RESOURCE),
    }
    return AuthSettings(
        kind,
        token=(token or "").strip() or None,
        credential=credential,  # files end with a line break
        server=server if "://" in server else f"{uri}/{server.lstrip('/')}",
        form_fields=tuple((k, v) for k, v in form_fields.items() if v),
        expires_s=value(properties, o.TOKEN_EXPIRES) / 1000,
        refresh=value(properties, o.TOKEN_REFRESH),
        exchange=value(properties, o.TOKEN_EXCHANGE),
    )
