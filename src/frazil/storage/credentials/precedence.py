"""Let the secrets that a catalog's server vends take the place of the catalog's own.

What belongs to a secret goes with it: the token of other keys, another token's end, anonymous
access. In Azure a secret takes the place of those of its own account; secrets of other accounts
stay.
"""

from __future__ import annotations

from collections.abc import Mapping

from frazil.storage.locations import is_inside

SAS, SAS_ENDS, CONNECTION = (
    "adls.sas-token.",
    "adls.sas-token-expires-at-ms.",
    "adls.connection-string.",
)
"""Properties of Azure after which an account follows: its name, or that of its host."""

NAMES = frozenset({"adls.account-name", "adls.auth.shared-key.account.name"})
_KEYS = tuple(
    f"{client}.{key}"
    for client in ("s3", "client")
    for key in ("access-key-id", "secret-access-key", "session-token")
)
_AZURE = (
    "adls.sas-token",
    "adls.account-key",
    "adls.auth.shared-key.account.key",
    "adls.connection-string",
    "adls.client-secret",
)
_CLIENT = ("adls.tenant-id", "adls.client-id")
SECRETS = (*_KEYS, "gcs.oauth2.token", *_AZURE)
AWS_PROFILES = ("client.profile", "client.profile-name", "s3.profile", "s3.profile-name")
AWS_ROLES = ("client.assume-role.arn", "client.role-arn", "s3.role-arn")
AWS_CHOOSING = (*AWS_PROFILES, *AWS_ROLES, "client.credentials-provider")
"""Properties by which keys of AWS are found elsewhere; keys that a server vends take their place.
"""

_STORES = (  # secrets, the property by which there are none, and what tells until when they live
    (_KEYS, "s3.anonymous", "s3.session-token-expires-at-ms"),
    (("gcs.oauth2.token",), "gcs.no-auth", "gcs.oauth2.token-expires-at"),
)
_ALIKE = (("s3.region", "client.region"), ("s3.path-style-access", "s3.force-virtual-addressing"))


def overriding(properties: Mapping[str, str], vended: Mapping[str, str]) -> dict[str, str]:
    """Merge properties with those that a server vends, which count before the others; secrets
    replace all that would be mixed with them.
    """
    own = dict(properties)
    for secrets, anonymous, ends in _STORES:
        if _has_other(vended, own, secrets) or vended.get(anonymous, "").strip().lower() == "true":
            chosen = AWS_CHOOSING if secrets is _KEYS else ()
            own = {
                key: value
                for key, value in own.items()
                if key not in (*secrets, anonymous, ends, *chosen)
            }
    replaced = {key for names in _ALIKE if vended.keys() & set(names) for key in names}
    own = {key: value for key, value in own.items() if key not in replaced}
    for key, value in vended.items():
        if key.startswith((SAS, CONNECTION)) and own.get(key) != value:
            own = _without_account(own, key, value)
    if _has_other(vended, own, _AZURE):
        own = _without_own_account(own, vended)
    return {**own, **vended}


def _has_other(
    vended: Mapping[str, str], properties: Mapping[str, str], secrets: tuple[str, ...]
) -> bool:
    return any(vended.get(key) and vended[key] != properties.get(key) for key in secrets)


def _without_account(properties: Mapping[str, str], vended_key: str, value: str) -> dict[str, str]:
    """Drop what a secret of an account in Azure replaces: all spellings of its property, and a
    signature where a connection string brings a secret of its own. A signature leaves the addresses
    of a connection string; what this has of secrets counts after it."""
    stem = next(prefix for prefix in (SAS, CONNECTION) if vended_key.startswith(prefix))
    dropped = (
        (SAS, SAS_ENDS)
        if stem == SAS
        else (SAS, SAS_ENDS, CONNECTION)
        if "=" in value
        else (CONNECTION,)
    )
    account = vended_key.removeprefix(stem)
    return {
        k: v
        for k, v in properties.items()
        if not any(k.startswith(d) and same_account(k.removeprefix(d), account) for d in dropped)
    }


def _without_own_account(
    properties: Mapping[str, str], vended: Mapping[str, str]
) -> dict[str, str]:
    """Drop the secrets that those of Azure replace which name no account in their property."""
    text = vended.get("adls.connection-string")
    names = [
        value
        for settings in (vended, properties)
        for key, value in settings.items()
        if key in NAMES
    ]
    account = next(iter(names), "") if text is None else account_in(text)
    client = () if vended.get("adls.client-secret") else _CLIENT  # tell whose a secret is
    replaced = {*_AZURE, *client, *(NAMES if text is not None or NAMES & vended.keys() else ())}
    return {k: v for k, v in properties.items() if k not in replaced and not _is_of(k, account)}


def _is_of(key: str, account: str) -> bool:
    """Tell whether a property is of one account in Azure, and of this one; of any, where the
    account is not known.
    """
    stem = next((prefix for prefix in (SAS, SAS_ENDS, CONNECTION) if key.startswith(prefix)), None)
    return stem is not None and (not account or same_account(key.removeprefix(stem), account))


def account_in(connection: str) -> str:
    """Find the account that a connection string names; empty where it names none."""
    parts = (part.partition("=") for part in connection.split(";"))
    return next(
        (value.strip() for name, _, value in parts if name.strip().lower() == "accountname"), ""
    )


def same_account(one: str, other: str) -> bool:
    """Tell whether two names, each of an account or of its host, mean one account. Hosts of two
    clouds are of two accounts.
    """
    left, right = account_host(one), account_host(other)
    if "." in left and "." in right:
        return left == right
    return bool(left) and left.partition(".")[0] == right.partition(".")[0]


def account_host(name: str) -> str:
    """Spell the name of an account, or of its host, in one way: in lower case, a host as that of
    the file interface.
    """
    return name.lower().replace(".blob.", ".dfs.", 1)


def host_of(location: str) -> str:
    """Find the account's host in a location of Azure, `container@account.dfs.core.windows.net`;
    empty where there is none.
    """
    return location.partition("://")[2].partition("/")[0].partition("@")[2].lower()


def is_for(prefix: str, location: str) -> bool:
    """Tell whether what a server vends for a prefix is for a location, which begins with it; a
    prefix that ends within the name of another account in Azure is not for it."""
    place, host = host_of(prefix), host_of(location)
    return (location.startswith(prefix) or is_inside(location, prefix)) and (
        not place or not host or same_account(place, host)
    )
