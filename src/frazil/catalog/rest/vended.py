"""Take the properties and credentials that a REST catalog's server gives with a table, and ask for new ones before they expire."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import msgspec

from frazil.catalog.base import Identifier
from frazil.errors import Unsupported
from frazil.storage import Credentials, is_inside
from frazil.storage.object_options import check_property
from frazil.storage.vended import EARLY_MS

STORES = ("s3.", "gcs.", "adls.", "client.")
_EXPIRY = ("s3.session-token-expires-at-ms", "adls.sas-token-expires-at-ms", "gcs.oauth2.token-expires-at")
_OF_ACCOUNTS = ("adls.sas-token.", "adls.sas-token-expires-at-ms.")
_TOKENS = ("s3.session-token", "adls.sas-token", "gcs.oauth2.token")
_SECRETS = ("s3.access-key-id", "s3.secret-access-key", *_TOKENS)
SIGNING = ("s3.remote-signing-enabled", "s3.signer.uri", "s3.signer.endpoint", "signer.uri", "signer.endpoint")
Ask = Callable[[str, tuple[tuple[str, str], ...], Identifier, str, str | None], Credentials]


class StorageCredential(msgspec.Struct):
    """Hold the properties for the locations that begin with a prefix."""

    prefix: str
    config: dict[str, str]


def vended(location: str, config: Mapping[str, str], credentials: Sequence[StorageCredential]) -> Credentials:
    """Return the storage properties that a server gives for a table's location: those of the longest prefix count before `config`.

    What Frazil's stores do not know is left out; how requests are signed is read by `signer`.
    """
    matching = [c for c in credentials if location.startswith(c.prefix) or is_inside(location, c.prefix)]
    best = max(matching, key=lambda c: len(c.prefix), default=None)
    settings = _of_account(location, {**config, **(best.config if best else {})})
    expiry = [int(v) for k, v in settings.items() if k in _EXPIRY and v.isdecimal() and len(v) < 18]
    store_properties = {k: v for k, v in settings.items() if k.startswith(STORES) and is_known(k)}
    return Credentials(store_properties, min(expiry, default=None))


def _of_account(location: str, settings: Mapping[str, str]) -> dict[str, str]:
    """Rename the properties of the location's Azure account, `adls.sas-token.<account>`, to those of the store, and leave out those of
    other accounts. Accounts are named by their host or its first part; where the location names none, the only one given counts."""
    host = urlsplit(location).netloc.partition("@")[2].lower() or settings.get("adls.account-name", "").lower()
    named = {k: v for k, v in settings.items() if k.startswith(_OF_ACCOUNTS)}
    chosen = {k: v for k, v in settings.items() if k not in named}
    for stem in _OF_ACCOUNTS:
        by_account = {k.removeprefix(stem).lower(): v for k, v in named.items() if k.startswith(stem)}
        if not host and len(by_account) == 1:
            (value,) = by_account.values()
        else:
            short = (v for account, v in by_account.items() if account.partition(".")[0] == host.partition(".")[0])
            value = by_account.get(host) or next(short, "")
        if value:
            chosen[stem.removesuffix(".")] = value
    return chosen


def is_known(key: str) -> bool:
    """Tell whether Frazil's stores know a property that a server tells."""
    if key in SIGNING:
        return False
    try:
        check_property(key)
    except Unsupported:
        return False
    return True


def holds_secrets(credentials: Credentials) -> bool:
    return any(key in credentials.properties for key in _SECRETS)


def holds_token(properties: Mapping[str, str], own_properties: Mapping[str, str]) -> bool:
    """Tell whether the server gave one of the tokens among a storage's properties. Unlike keys, tokens always end, also where the server
    does not tell when."""
    return any(properties.get(key) not in (None, own_properties.get(key)) for key in _TOKENS)


@dataclass(frozen=True)
class TableCredentials:
    """Give the credentials of a table's files: those of the last load while they live, then new ones from the server.

    It travels to workers with the storage; each opens the catalog by its properties. `ask`: a function of this package, by reference.
    """

    catalog: str
    properties: tuple[tuple[str, str], ...] = field(repr=False)
    identifier: Identifier
    location: str
    ask: Ask = field(repr=False)
    first: Credentials | None = field(default=None, repr=False, compare=False)
    plan_id: str | None = None
    """The server's id of the plan with which the credentials came; None: they came with the table."""

    def __call__(self) -> Credentials:
        if self.first is not None and (self.first.expires_ms is None or self.first.expires_ms - time.time() * 1000 > EARLY_MS):
            return self.first
        return self.ask(self.catalog, self.properties, self.identifier, self.location, self.plan_id)
