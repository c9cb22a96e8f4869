"""Take the properties and credentials that a REST catalog's server gives with a table, and ask for
new ones before they expire.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from urllib.parse import unquote

import msgspec

from frazil.catalog.base import Identifier
from frazil.errors import StorageError, Unsupported
from frazil.storage import Credentials, RoutedStorage, checked
from frazil.storage.credentials.aws import AWS_BEGINNINGS, AWS_PROPERTIES
from frazil.storage.credentials.precedence import (
    CONNECTION,
    SAS,
    SAS_ENDS,
    SECRETS,
    host_of,
    is_for,
    overriding,
    same_account,
)
from frazil.storage.credentials.vended import EARLY_MS
from frazil.storage.objects.object_options import check_property

STORES = ("s3.", "gcs.", "adls.", "client.")
_EXPIRY = (
    "s3.session-token-expires-at-ms",
    "adls.sas-token-expires-at-ms",
    "gcs.oauth2.token-expires-at",
)
_OF_ACCOUNTS = (SAS, SAS_ENDS)
_LAST_MS = 253402300799000  # the end of the year 9999
_ACCOUNT_KEYS = ("adls.account-key", "adls.auth.shared-key.account.key")
_TOKENS = ("s3.session-token", "client.session-token", "adls.sas-token", "gcs.oauth2.token")
SIGNING = (
    "s3.remote-signing-enabled",
    "s3.signer.uri",
    "s3.signer.endpoint",
    "signer.uri",
    "signer.endpoint",
)
Ask = Callable[[str, tuple[tuple[str, str], ...], Identifier, str, str | None], Credentials]


class StorageCredential(msgspec.Struct):
    """Hold the properties for the locations that begin with a prefix."""

    prefix: str
    config: dict[str, str]


def vended(
    location: str, config: Mapping[str, str], credentials: Sequence[StorageCredential]
) -> Credentials:
    """Return the storage properties that a server gives for a table's location: those of the
    longest prefix count before `config`.

    Tokens of Azure keep the account that they are for, and those of accounts in which the table's
    location is not are kept as well. What Frazil's stores do not know is left out; how requests are
    signed is read by `signer`.
    """
    matching = [c for c in credentials if is_for(c.prefix, location)]
    best = max(matching, key=lambda c: len(c.prefix), default=None)
    of_prefix = best.config if best else {}
    host = host_of(location) or {**config, **of_prefix}.get("adls.account-name", "").lower()
    settings = overriding(_by_account(config, host), _by_account(of_prefix, host))
    if host:
        settings = overriding(
            settings, _of_other_accounts(host, [c for c in credentials if c is not best])
        )
        settings = _without_ended(settings, host)
        if (
            any(key in settings for key in _ACCOUNT_KEYS)
            and "adls.auth.shared-key.account.name" not in settings
        ):
            settings.setdefault("adls.account-name", host.partition(".")[0])
    ends = [
        end
        for key, value in settings.items()
        if _tells_end(key, settings) and (end := _time(value)) is not None
    ]
    ends += [
        end
        for key, value in settings.items()
        if _is_connection(key) and (end := _end_of_signature(value)) is not None
    ]
    store_properties = {k: v for k, v in settings.items() if k.startswith(STORES) and is_known(k)}
    return Credentials(store_properties, min(ends, default=None))


def vended_by_prefix(
    location: str, config: Mapping[str, str], credentials: Sequence[StorageCredential]
) -> tuple[tuple[str, Credentials | None], ...]:
    """Return the prefixes for which a server gives storage properties of their own, the longest
    first, with these; None: with those of the table's location. Files below none of them are
    reached by those of the table's location, too."""
    prefixes = sorted({c.prefix for c in credentials}, key=lambda prefix: (-len(prefix), prefix))
    own = vended(location, config, credentials)
    best = next((prefix for prefix in prefixes if is_for(prefix, location)), None)
    of_prefixes = [
        (prefix, None if prefix == best else vended(prefix, config, credentials))
        for prefix in prefixes
    ]
    by_prefix = tuple(
        (prefix, None if of_prefix == own else of_prefix) for prefix, of_prefix in of_prefixes
    )
    return by_prefix if any(of_prefix is not None for _, of_prefix in by_prefix) else ()


def storage_of_prefixes(
    location: str,
    config: Mapping[str, str],
    credentials: Sequence[StorageCredential],
    reached_by: Callable[[str, Credentials], RoutedStorage],
) -> RoutedStorage:
    """Return the storage of a table's files, each of which is reached by what the server gives for
    the longest prefix of its location. `reached_by`: makes the storage of the files below a place,
    with these properties."""
    of_prefixes = vended_by_prefix(location, config, credentials)
    by_prefix = tuple(
        (prefix, None if of_prefix is None else reached_by(prefix, of_prefix))
        for prefix, of_prefix in of_prefixes
    )
    return checked(
        replace(reached_by(location, vended(location, config, credentials)), by_prefix=by_prefix),
        location,
    )


def _by_account(settings: Mapping[str, str], host: str) -> dict[str, str]:
    """Spell the tokens of Azure, and their ends, by their account: those that name none are of the
    account at `host`, if that is known. What is given for an account's host counts before what is
    given for its name, and both before what names none."""
    named = dict[str, str]()
    for key in sorted(settings, key=len):
        stem = next(
            (s for s in _OF_ACCOUNTS if key.startswith(s) or key == s.removesuffix(".")), None
        )
        account = key[len(stem) :].lower() if stem else ""
        if (
            stem
            and host
            and (
                not account or (same_account(account, host) and ("." in host or "." not in account))
            )
        ):
            account = host
        named[f"{stem}{account}" if stem and account else key] = settings[key]
    for key in [key for key in named if key.startswith(SAS)]:
        if (end := _end_of_signature(named[key])) is not None:
            named.setdefault(SAS_ENDS + key.removeprefix(SAS), str(end))
    return named


def _end_of_signature(sas: str) -> int | None:
    """Read in a signature of Azure, also in that of a connection string, when it ends, in
    milliseconds since 1970; None where the signature has no expiry."""
    match = re.search(r"(?:^|[?&=;])se=([^&;]+)", sas)
    try:
        end = datetime.fromisoformat(unquote(match[1]) if match else "")
    except ValueError:
        return None
    return int(end.replace(tzinfo=end.tzinfo or UTC).timestamp() * 1000)


def _of_other_accounts(host: str, credentials: Sequence[StorageCredential]) -> dict[str, str]:
    """Return the tokens of Azure for other accounts than that at `host`: a prefix counts for its
    own account, the shortest of several.
    """
    tokens = dict[str, str]()
    for credential in sorted(credentials, key=lambda c: len(c.prefix), reverse=True):
        place, of_prefix = host_of(credential.prefix), dict[str, str]()
        for key, value in _by_account(credential.config, place).items():
            account = next(
                (key.removeprefix(stem) for stem in _OF_ACCOUNTS if key.startswith(stem)), ""
            )
            if (
                account
                and not same_account(account, host)
                and (not place or same_account(account, place))
            ):
                of_prefix[key] = value
        tokens = overriding(tokens, of_prefix)
    return tokens


def _without_ended(settings: Mapping[str, str], host: str) -> dict[str, str]:
    """Drop the tokens of other accounts than that at `host` that have ended: the table may not need
    them.
    """
    now = time.time() * 1000
    ended = {
        k.removeprefix(SAS_ENDS)
        for k, v in settings.items()
        if k.startswith(SAS_ENDS) and (_time(v) or now + 1) <= now
    }
    dropped = {
        f"{stem}{account}"
        for account in ended
        if not same_account(account, host)
        for stem in _OF_ACCOUNTS
    }
    return {k: v for k, v in settings.items() if k not in dropped}


def _tells_end(key: str, settings: Mapping[str, str]) -> bool:
    """Tell whether a property is the end of a token that is among the settings."""
    return key in _EXPIRY or (
        key.startswith(SAS_ENDS) and SAS + key.removeprefix(SAS_ENDS) in settings
    )


def _time(value: str) -> int | None:
    """Read milliseconds since 1970, up to the last that a datetime holds; None for a text that is
    no such time.
    """
    return min(int(value), _LAST_MS) if value.isdecimal() and len(value) < 18 else None


def _is_connection(key: str) -> bool:
    return key.startswith(CONNECTION) or key == CONNECTION.removesuffix(".")


def is_known(key: str) -> bool:
    """Tell whether Frazil's stores know a property that a server tells."""
    if key in SIGNING or key in AWS_PROPERTIES or key.startswith(AWS_BEGINNINGS):
        # whose identity is used, only one's own properties say
        return False
    try:
        check_property(key)
    except Unsupported:
        return False
    return True


def holds_secrets(credentials: Credentials) -> bool:
    return any(
        key in SECRETS or key.startswith((SAS, CONNECTION)) for key in credentials.properties
    )


def holds_token(properties: Mapping[str, str], own_properties: Mapping[str, str]) -> bool:
    """Tell whether the server gave one of the tokens among a storage's properties. Unlike keys,
    tokens always expire, also where the server does not say when."""
    signed = {key for key, value in properties.items() if _is_connection(key) and "sig=" in value}
    tokens = {
        key: value
        for key, value in properties.items()
        if key in _TOKENS or key in signed or key.startswith(SAS)
    }
    return any(own_properties.get(key) != value for key, value in tokens.items())


@dataclass(frozen=True)
class TableCredentials:
    """Give the credentials of a table's files: those of the last load while they live, then new
    ones from the server.

    It travels to workers with the storage; each opens the catalog by its properties. `ask`: a
    function of this package, by reference.
    """

    catalog: str
    properties: tuple[tuple[str, str], ...] = field(repr=False)
    identifier: Identifier
    location: str
    ask: Ask = field(repr=False)
    first: Credentials | None = field(default=None, repr=False, compare=False)
    plan_id: str | None = None
    """The server's id of the plan with which the credentials came; None: they came with the table.
    """

    def __call__(self) -> Credentials:
        if self.first is not None and (
            self.first.expires_ms is None or self.first.expires_ms - time.time() * 1000 > EARLY_MS
        ):
            return self.first
        return self.anew()

    def anew(self) -> Credentials:
        """Ask the server for credentials, whatever those of the last load are good for."""
        renewed = self.ask(
            self.catalog, self.properties, self.identifier, self.location, self.plan_id
        )
        if not holds_secrets(renewed):
            # those at hand would be used beyond their end, and never be renewed again
            text = f"The catalog's server gave credentials for {self.location}, and now gives none."
            raise StorageError(
                text,
                hint="Load the table again. Ask who runs the server for which prefixes it gives credentials.",
            )
        return renewed
