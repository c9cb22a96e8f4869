"""Ask a REST catalog's server how it wants to be asked (`/v1/config`), and build the paths of
requests by it.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import quote, unquote

import msgspec

from frazil.catalog.base import Identifier
from frazil.catalog.names import full_name
from frazil.catalog.options import value
from frazil.catalog.rest.errors import raised
from frazil.catalog.rest.http import Client
from frazil.catalog.rest.options import PREFIX, SEPARATOR, VIEW_ENDPOINTS
from frazil.catalog.rest.vended import STORES, is_known
from frazil.errors import CorruptData, InvalidInput, Unsupported
from frazil.storage.credentials.parties import MARKS, TRUSTED, check_trusted
from frazil.storage.credentials.precedence import overriding
from frazil.storage.hdfs.hdfs_options import PREFIXES as HDFS

log = logging.getLogger(__name__)

_DURATION = re.compile(
    r"P(?:(\d{1,6})W)?(?:(\d{1,6})D)?(?:T(?:(\d{1,6})H)?(?:(\d{1,6})M)?(?:(\d{1,6}(?:\.\d{1,9})?)S)?)?"
)


class _Config(msgspec.Struct):
    defaults: dict[str, str | None] = {}
    overrides: dict[str, str | None] = {}
    endpoints: list[str] | None = None
    idempotency_key_lifetime: str | None = msgspec.field(
        default=None, name="idempotency-key-lifetime"
    )


@dataclass(frozen=True)
class Routes:
    """Hold the server's configuration. `properties`: its defaults, then what is configured,
    then its overrides. `from_server`: its defaults and overrides. `endpoints`: those it lists, None
    if it lists none, which means those of the specification's first version. `key_lifetime_s`: how
    long it knows the key of a request that changes something; None: it takes no keys."""

    properties: dict[str, str] = field(repr=False)
    prefix: str
    separator: str
    endpoints: frozenset[str] | None
    key_lifetime_s: float | None = None
    from_server: Mapping[str, str] = field(default_factory=dict, repr=False)

    def path(self, *parts: str) -> str:
        """Return the path of a resource; the parts are encoded already."""
        return "/".join(("v1", *((self.prefix,) if self.prefix else ()), *parts))

    def namespace(self, namespace: Identifier) -> str:
        """Return a namespace as a part of a path. Raises InvalidInput for one that
        another namespace could be written as.
        """
        return self.encoded_separator.join(
            quote(level, safe="") for level in self._separable(namespace)
        )

    @property
    def encoded_separator(self) -> str:
        return quote(self.separator, safe=".")

    def parent(self, namespace: Identifier) -> str:
        """Return a namespace as the value of a query's parameter, before it is encoded."""
        return self.separator.join(self._separable(namespace))

    def _separable(self, namespace: Identifier) -> Identifier:
        for level in namespace:
            if self.separator in level:
                text = f"The catalog's server separates the levels of namespaces by {self.separator!r}, so none may hold it: {level!r}."
                raise InvalidInput(text, namespace=full_name(namespace))
        return namespace

    def table(self, identifier: Identifier) -> str:
        return self.path(
            "namespaces", self.namespace(identifier[:-1]), "tables", quote(identifier[-1], safe="")
        )

    def serves(self, endpoint: str) -> bool:
        """Tell whether the server lists an endpoint, `POST tables/rename`. Where it lists none:
        True, unless view-endpoints-supported says that it has none for views."""
        if self.endpoints is not None:
            return endpoint in self.endpoints
        return "view" not in endpoint or value(self.properties, VIEW_ENDPOINTS)

    def lists(self, endpoint: str) -> bool:
        """Tell whether the server lists an endpoint; False where it lists none."""
        return self.endpoints is not None and endpoint in self.endpoints

    def check(self, endpoint: str, action: str) -> None:
        """Check that the server serves an endpoint. Raises Unsupported."""
        if not self.serves(endpoint):
            raise Unsupported(
                f"The catalog's server does not offer to {action} ({endpoint}).",
                hint="Ask who runs the server.",
            )


def routes(client: Client, properties: Mapping[str, str]) -> Routes:
    """Ask the server for its configuration. Raises CorruptData for an answer that is none,
    InvalidInput for one that leads elsewhere.
    """
    warehouse = properties.get("warehouse")
    answer = client.request(
        "GET", "v1/config", query={"warehouse": warehouse} if warehouse else None
    )
    if answer.error is not None:
        raise raised(answer.error, f"Configuration of the catalog at {client.settings.uri}")
    try:
        config = msgspec.json.decode(answer.body, type=_Config)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        text = f"{client.settings.uri}/v1/config does not answer as a REST catalog does: {str(error)[:200]}"
        raise CorruptData(text, hint="Check uri: /v1/config is added to it.") from None
    defaults, overrides = _known_properties(config.defaults), _known_properties(config.overrides)
    _check_same_server(
        {**{k: v for k, v in defaults.items() if k not in properties}, **overrides},
        properties,
        client.settings.uri,
    )
    merged = overriding(overriding(defaults, properties), overrides)
    separator = unquote(value(merged, SEPARATOR))
    if not separator or "/" in separator or len(separator) > 8:
        raise CorruptData(
            f"The catalog's server names {separator[:20]!r} as separator of namespaces.",
            hint="Ask who runs the server.",
        )
    endpoints = (
        None if not config.endpoints else frozenset(filter(None, map(_endpoint, config.endpoints)))
    )
    prefix, lifetime = (
        quote((value(merged, PREFIX) or "").strip("/"), safe="/%:@"),
        _seconds(config.idempotency_key_lifetime or ""),
    )
    return Routes(merged, prefix, separator, endpoints, lifetime, {**defaults, **overrides})


def _seconds(duration: str) -> float | None:
    """Read a duration of ISO 8601 (`PT30M`, `P1DT2H`) in seconds; None for a text that is none."""
    match = _DURATION.fullmatch(duration.strip().upper())
    if match is None or not any(match.groups()):
        return None
    return sum(
        float(n or 0) * size
        for n, size in zip(match.groups(), (604_800, 86_400, 3_600, 60, 1), strict=True)
    )


def _known_properties(server_config: Mapping[str, str | None]) -> dict[str, str]:
    """Return a server's properties without those of stores that Frazil's stores do not know: they
    are no mistake of the user's. Only the user's own properties say how HDFS is reached and by
    whose tickets, and which hosts are trusted."""
    own_alone = (*HDFS, MARKS, TRUSTED)
    if hdfs := sorted(k for k in server_config if k.startswith(HDFS)):
        log.warning(
            "The catalog's server tells how to reach HDFS (%s); only what is configured here counts.",
            ", ".join(hdfs),
        )
    return {
        k: v
        for k, v in server_config.items()
        if v is not None
        and not k.startswith(own_alone)
        and (not k.startswith(STORES) or is_known(k))
    }


def _check_same_server(server_config: Mapping[str, str], own: Mapping[str, str], uri: str) -> None:
    """Refuse a configuration that would send requests, and with them tokens, to another server than
    one's own properties name.
    """
    for key in ("uri", "oauth2-server-uri"):
        value, own_address = server_config.get(key, ""), own.get(key, "") if key != "uri" else uri
        if value:
            absolute_own = own_address if "://" in own_address else uri
            check_trusted(value if "://" in value else uri, absolute_own, own, key)


def _endpoint(text: str) -> str:
    """Shorten an endpoint as servers list it, `GET /v1/{prefix}/namespaces/{namespace}`, to `GET
    namespaces/{}`.
    """
    method, _, path = text.strip().partition(" ")
    path = re.sub(r"^/?v1/(\{prefix\}/?)?", "", path.strip())
    return f"{method.upper()} {re.sub(r'{[^}]*}', '{}', path)}"
