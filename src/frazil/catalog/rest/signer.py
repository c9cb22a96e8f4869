"""Ask a REST catalog's server to sign requests to S3, for tables whose files it gives no keys of
(`s3.remote-signing-enabled`).
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import msgspec

from frazil.catalog.base import Identifier
from frazil.catalog.names import full_name
from frazil.catalog.rest.http import Client
from frazil.catalog.rest.namespaces import decoded
from frazil.storage.credentials.parties import check_trusted
from frazil.storage.objects.signed import SignedAccessError, SignedRequest

# as long as Java's client uses a signature again, where the server allows that
_KEPT_S, _KEPT = (
    30.0,
    1000,
)
_ENDPOINTS: dict[TableSigner, tuple[str, str | None]] = {}
_SIGNED: OrderedDict[tuple[TableSigner, str, str, str], tuple[float, SignedRequest]] = OrderedDict()
_LOCK = threading.Lock()


class _Answer(msgspec.Struct):
    uri: str
    headers: dict[str, list[str]]


@dataclass(frozen=True)
class TableSigner:
    """Ask for signatures of requests for the files of one table. It travels to workers with the
    storage; each asks the server for itself.

    `first`: the address at which the server signed when the table was loaded. Servers may let it
    expire: then the table is loaded again. `opened`: functions of this package, by reference: one
    returns the client of the catalog, one the newest address and token.
    """

    catalog: str
    properties: tuple[tuple[str, str], ...] = field(repr=False)
    identifier: Identifier
    opened: Callable[[str, tuple[tuple[str, str], ...]], Client] = field(repr=False)
    renewed: Callable[
        [str, tuple[tuple[str, str], ...], Identifier], tuple[str, str | None] | None
    ] = field(repr=False)
    first: str = field(repr=False, compare=False)
    token: str | None = field(default=None, repr=False, compare=False)
    """Given by the server for this table alone; None: the catalog's counts."""

    def __call__(
        self, method: str, url: str, region: str, headers: Mapping[str, str], body: str | None
    ) -> SignedRequest:
        cache_key, now = (self, method, url, str(sorted(headers.items()))), time.monotonic()
        with _LOCK:
            cached = _SIGNED.get(cache_key)
            endpoint, token = _ENDPOINTS.setdefault(self, (self.first, self.token))
        if cached is not None and now - cached[0] < _KEPT_S:
            return cached[1]
        sent = {k: [v] for k, v in headers.items()}
        to_sign = {
            "region": region,
            "uri": url,
            "method": method,
            "headers": sent,
            "properties": {},
            "provider": "s3",
        }
        if body is not None:
            to_sign["body"] = body
        client = self.opened(self.catalog, self.properties)
        answer = client.request("POST", endpoint, body=to_sign, bearer=token, repeatable=True)
        if answer.status in (400, 401, 403, 404, 419) and (
            newer := self.renewed(self.catalog, self.properties, self.identifier)
        ):
            with _LOCK:
                _ENDPOINTS[self] = newer
            if newer != (endpoint, token):
                answer = client.request(
                    "POST", newer[0], body=to_sign, bearer=newer[1], repeatable=True
                )
        if answer.error is not None:
            name = f"{self.catalog}.{full_name(self.identifier)}"
            text = f"The catalog's server does not sign {method} {url.partition('?')[0]} for table {name}"
            raise SignedAccessError(
                f"{text}: {answer.error}.", status=answer.status, table=full_name(self.identifier)
            )
        answered = decoded(answer, _Answer, "signature")
        signed = SignedRequest(answered.uri, {k: ", ".join(v) for k, v in answered.headers.items()})
        if answer.headers.get("Cache-Control", "").strip().lower() == "private":
            with _LOCK:
                _SIGNED[cache_key] = (now, signed)
                while len(_SIGNED) > _KEPT:
                    _SIGNED.popitem(last=False)
        return signed


def signing_endpoint(
    table_config: Mapping[str, str],
    catalog_properties: Mapping[str, str],
    uri: str,
    table_path: str | None,
) -> str | None:
    """Return the address at which a server signs requests for a table, on the catalog's own host;
    None where it does not.

    `table_config`: the table's configuration. `catalog_properties`: the catalog's own; keys that
    are given there are used. `table_path`: the path of the endpoint that signs for this table
    alone, of the newer specification, where the server lists it. Raises InvalidInput for an address
    elsewhere, which tokens must not be sent to.
    """
    enabled = catalog_properties.get(
        "s3.remote-signing-enabled", table_config.get("s3.remote-signing-enabled", "")
    )
    keys = ("s3.access-key-id", "client.access-key-id")
    if enabled.strip().lower() != "true" or any(
        k in table_config or k in catalog_properties for k in keys
    ):
        return None
    base = table_config.get("s3.signer.uri", table_config.get("signer.uri", uri)).rstrip("/")
    endpoint = table_config.get(
        "s3.signer.endpoint", table_config.get("signer.endpoint", table_path or "v1/aws/s3/sign")
    )
    address = endpoint if "://" in endpoint else f"{base}/{endpoint.lstrip('/')}"
    check_trusted(address, uri, catalog_properties, "s3.signer.uri")
    return address
