"""Translate catalog properties of object stores (Iceberg's and PyIceberg's names) to the options of
obstore and pyarrow.

Each property is supported or refused by name: with a property silently ignored, files would be read
or written with other credentials.
"""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

from frazil.errors import InvalidInput, Unsupported
from frazil.storage.credentials.aws import AWS_BEGINNINGS, AWS_PROPERTIES
from frazil.storage.credentials.parties import check_parties
from frazil.storage.credentials.precedence import (
    CONNECTION,
    NAMES,
    SAS,
    account_host,
    account_in,
    same_account,
)
from frazil.storage.objects.s3_objects import DELETE_TAGS, S3_OBJECTS, SSE_KEY, TAGS, s3_objects
from frazil.storage.secrets import note_properties
from frazil.storage.tuning import is_tuning, tell_of_tuning

_S3 = {
    "s3.endpoint", "s3.access-key-id", "s3.secret-access-key", "s3.session-token", "s3.region", "s3.path-style-access",
    "s3.force-virtual-addressing", "s3.anonymous", "s3.connect-timeout", "s3.request-timeout",
    "s3.checksum-enabled", "s3.remote-signing-enabled",
    *S3_OBJECTS, *AWS_PROPERTIES, "client.region", "client.access-key-id", "client.secret-access-key", "client.session-token",
}  # fmt: skip
_GCS = {
    "gcs.oauth2.token",
    "gcs.oauth2.token-expires-at",
    "gcs.service.host",
    "gcs.no-auth",
    "gcs.project-id",
}
_ADLS = {
    "adls.connection-string",
    "adls.account-name", "adls.account-key", "adls.auth.shared-key.account.name", "adls.auth.shared-key.account.key",
    "adls.sas-token", "adls.tenant-id", "adls.client-id", "adls.client-secret",
}  # fmt: skip
_BY_ACCOUNT = (CONNECTION, SAS)
_BEGINNINGS = (*_BY_ACCOUNT, TAGS, DELETE_TAGS, *AWS_BEGINNINGS)
_S3_SECRETS = ("access-key-id", "secret-access-key", "session-token")
_CLOUDS = (
    ".core.windows.net", ".storage.azure.net", ".fabric.microsoft.com",
    ".core.chinacloudapi.cn", ".core.usgovcloudapi.net", ".core.cloudapi.de",
)  # fmt: skip
_KNOWN = {"s3": (("s3.", "client."), _S3), "gs": (("gcs.",), _GCS), "abfss": (("adls.",), _ADLS)}


@dataclass(frozen=True)
class Options:
    """Hold the options of a store: `config` and `client` for obstore, `arrow` for pyarrow.fs. They
    hold secrets, so none is shown. `writes`: the arguments of obstore's writes."""

    config: dict[str, Any] = field(repr=False)
    client: dict[str, Any] = field(repr=False)
    arrow: dict[str, Any] = field(repr=False)
    writes: dict[str, Any] = field(default_factory=dict)


def options(scheme: str, properties: Mapping[str, str], host: str = "") -> Options:
    """Translate the properties of a store. Raises Unsupported for a property that is not supported,
    InvalidInput for an invalid value.

    `host`: that of a location in Azure (`account.dfs.core.windows.net`). Its account is the one
    that is used, or none is.
    """
    note_properties(properties)
    for key in properties:
        if key.startswith(_KNOWN[scheme][0]):
            check_property(key)
    if scheme == "abfss":
        return _adls(properties, host)
    return _s3(properties) if scheme == "s3" else _gcs(properties)


def check_property(key: str) -> None:
    """Check that a property of an object store is supported, or only tunes. Raises Unsupported."""
    if is_tuning(key):
        tell_of_tuning(key)
        return
    for scheme, (prefixes, supported_keys) in _KNOWN.items():
        if (
            key.startswith(prefixes)
            and key not in supported_keys
            and not key.startswith(_BEGINNINGS)
        ):
            supported = ", ".join(sorted(supported_keys))
            raise Unsupported(
                f"Catalog property {key} is not supported by Frazil's {scheme} storage.",
                hint=f"Supported: {supported}.",
            )


def _flag(properties: Mapping[str, str], key: str) -> bool | None:
    value = properties.get(key)
    if value is None:
        return None
    if value.strip().lower() not in ("true", "false"):
        raise InvalidInput(f"Catalog property {key} must be true or false, not {value!r}.")
    return value.strip().lower() == "true"


def _seconds(properties: Mapping[str, str], key: str, default: float) -> float:
    value = properties.get(key)
    try:
        seconds = default if value is None else float(value)
    except ValueError:
        seconds = -1.0
    if not 0 < seconds < 86400:
        raise InvalidInput(f"Catalog property {key} must be a number of seconds, not {value!r}.")
    return seconds


def _without_none(**values: object) -> dict[str, Any]:
    return {k: v for k, v in values.items() if v is not None}


def _s3(properties: Mapping[str, str]) -> Options:
    def s3_option(name: str) -> str | None:
        return properties.get(f"s3.{name}", properties.get(f"client.{name}"))

    path_style, virtual = (
        _flag(properties, "s3.path-style-access"),
        _flag(properties, "s3.force-virtual-addressing"),
    )
    if path_style and virtual:
        raise InvalidInput(
            "Catalog properties s3.path-style-access and s3.force-virtual-addressing contradict each other."
        )
    if path_style is not None and virtual is None:
        virtual = not path_style
    anonymous = _flag(properties, "s3.anonymous")
    if _flag(properties, "s3.remote-signing-enabled"):
        text = "Catalog property s3.remote-signing-enabled is true, but nobody signs requests here."
        raise Unsupported(
            text, hint="Leave it out: the server of a REST catalog tells for which tables it signs."
        )
    access_key, secret_key, session_token = map(
        s3_option, ("access-key-id", "secret-access-key", "session-token")
    )
    together = (
        ("access-key-id", "secret-access-key"),
        ("secret-access-key", "access-key-id"),
        ("session-token", "access-key-id"),
    )
    for present, missing in together:
        if s3_option(present) and not s3_option(missing):
            raise InvalidInput(
                f"Catalog property s3.{present} is given without s3.{missing}.",
                hint="They belong together.",
            )
    if anonymous and access_key:
        raise InvalidInput(
            "Catalog properties s3.anonymous and s3.access-key-id contradict each other."
        )
    endpoint, region = s3_endpoint(properties), s3_region(properties)
    _check_s3_parties(properties, endpoint, anonymous=bool(anonymous))
    stored, _ = s3_objects(properties), _flag(properties, "s3.delete-enabled")
    connect, request = (
        _seconds(properties, "s3.connect-timeout", 10),
        _seconds(properties, "s3.request-timeout", 60),
    )
    config = _without_none(
        endpoint=endpoint,
        region=region,
        access_key_id=access_key or None,
        secret_access_key=secret_key or None,
        session_token=session_token or None,
        skip_signature=anonymous,
        virtual_hosted_style_request=bool(virtual),
        conditional_put="etag",
        checksum_algorithm="SHA256" if _flag(properties, "s3.checksum-enabled") else None,
        **stored.config(),
    )
    client = {"connect_timeout": timedelta(seconds=connect), "timeout": timedelta(seconds=request)}
    if endpoint and endpoint.startswith("http://"):
        client["allow_http"] = True  # type: ignore[assignment]
    if (
        endpoint is None and virtual is False
    ):  # pyarrow puts the bucket into the host's name wherever it is given no endpoint
        endpoint = f"https://s3.{region}.amazonaws.com"
    arrow = _without_none(
        endpoint_override=endpoint,
        region=region,
        access_key=access_key or None,
        secret_key=secret_key or None,
        session_token=session_token or None,
        anonymous=anonymous,
        force_virtual_addressing=virtual,
        connect_timeout=connect,
        request_timeout=request,
        allow_delayed_open=True,
    )
    return Options(config, client, arrow, stored.of_writes())


def _check_s3_parties(
    properties: Mapping[str, str], endpoint: str | None, *, anonymous: bool
) -> None:
    keys = (
        ()
        if anonymous
        else [f"{client}.{key}" for client in ("s3", "client") for key in _S3_SECRETS]
    )
    sent = [key for key in (*keys, SSE_KEY) if properties.get(key)]
    check_parties(
        properties,
        ["s3.endpoint"] if "s3.endpoint" in properties else [],
        [endpoint],
        sent,
        needs=not anonymous,
    )


def _environment(*names: str) -> str | None:
    """Return the first of these variables of the environment that is set. The two libraries read
    different ones, so they are told.
    """
    return next(filter(None, map(os.environ.get, names)), None)


def s3_region(properties: Mapping[str, str]) -> str:
    """Find the region of S3: the catalog's, else that of the environment, else Amazon's first."""
    region = (
        properties.get("s3.region", properties.get("client.region"))
        or _environment("AWS_REGION", "AWS_DEFAULT_REGION")
        or "us-east-1"
    )
    if not re.fullmatch(r"[\w-]{1,100}", region, re.A):  # it becomes a part of the host's name
        raise InvalidInput(
            f"{region!r} is no region of S3.",
            hint="Regions, as s3.region or AWS_REGION, have letters, digits and -.",
        )
    return region


def s3_endpoint(properties: Mapping[str, str]) -> str | None:
    """Find the endpoint of S3, without a bucket and a slash at the end; None: Amazon's for the
    region.
    """
    configured = properties.get("s3.endpoint")
    where = (
        "Catalog property s3.endpoint"
        if configured is not None
        else "The endpoint in the environment (AWS_ENDPOINT_URL)"
    )
    endpoint = (
        configured
        if configured is not None
        else _environment("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")
    )
    if endpoint is not None and not re.match(r"https?://[^/\s]+", endpoint):
        raise InvalidInput(f"{where} must begin with http:// or https://, not {endpoint!r}.")
    return endpoint.rstrip("/") if endpoint else None


def _gcs(properties: Mapping[str, str]) -> Options:
    token, host, anonymous = (
        properties.get("gcs.oauth2.token"),
        properties.get("gcs.service.host"),
        _flag(properties, "gcs.no-auth"),
    )
    if token is not None and anonymous:
        raise InvalidInput(
            "Catalog properties gcs.oauth2.token and gcs.no-auth contradict each other."
        )
    if host is not None and not re.match(r"https?://[^/\s]+", host):
        raise InvalidInput(
            f"Catalog property gcs.service.host must begin with http:// or https://, not {host!r}."
        )
    sent = ["gcs.oauth2.token"] if token is not None else []
    check_parties(
        properties, ["gcs.service.host"] if host else [], [host], sent, needs=not anonymous
    )
    unsigned = (
        anonymous if token is None else False
    )  # GOOGLE_SKIP_SIGNATURE of the environment is for others than this token
    config = _without_none(
        base_url=host.rstrip("/") if host else None, skip_signature=unsigned, bearer_token=token
    )
    client: dict[str, Any] = {"allow_http": True} if host and host.startswith("http://") else {}
    arrow = _without_none(
        anonymous=anonymous,
        access_token=token,
        credential_token_expiration=_token_expiry(properties) if token is not None else None,
        endpoint_override=re.sub("^https?://", "", host).rstrip("/") if host else None,
        scheme=host.partition(":")[0] if host else None,
        project_id=properties.get("gcs.project-id"),
    )
    return Options(config, client, arrow)


def _token_expiry(properties: Mapping[str, str]) -> datetime:
    """Read when a token of Google expires. pyarrow wants a time: a token without one is used until
    the store refuses it.
    """
    value = properties.get("gcs.oauth2.token-expires-at")
    try:
        return datetime.fromtimestamp(253402214400 if value is None else int(value) / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        text = f"Catalog property gcs.oauth2.token-expires-at must be milliseconds since 1970, not {value!r}."
        raise InvalidInput(text) from None


def _adls(properties: Mapping[str, str], host: str) -> Options:
    host = _host_of_account(properties, host.lower())
    account = host.partition(".")[0] or None
    name, secrets, parts = _account_of(properties, account, host)
    _check_key(secrets)
    blob, dfs = _endpoints(parts, name, host)
    _check_azure_parties(properties, name, host, (blob, dfs), secrets)
    config = _without_none(account_name=name, endpoint=blob) | secrets
    arrow = _without_none(account_name=name) | secrets
    if "sas_key" in secrets:
        config["sas_key"] = secrets["sas_key"].removeprefix("?")
        arrow["sas_token"] = "?" + arrow.pop("sas_key").removeprefix(
            "?"
        )  # pyarrow appends it to addresses as it is
    arrow |= _arrow_addresses(name, "account_key" in secrets, blob, dfs)
    return Options(
        config, {"allow_http": True} if blob and blob.startswith("http://") else {}, arrow
    )


def _check_azure_parties(
    properties: Mapping[str, str],
    name: str | None,
    host: str,
    addresses: tuple[str | None, str | None],
    secrets: Mapping[str, str],
) -> None:
    """Check who named the host that is asked. Azure's own host of the location's account needs no
    name.
    """
    asked = [urlsplit(address) for address in addresses if address]
    is_of_location = bool(host) and all(
        not _is_domain(a.netloc.lower()) and same_account(a.netloc, host) for a in asked
    )
    if is_of_location and all(a.scheme == "https" for a in asked):
        return
    own = {k: v for k, v in properties.items() if k.startswith("adls.")}
    naming = [
        k
        for k, v in own.items()
        if (k in NAMES and not host) or any(_names_address(k, v, a.scheme, a.netloc) for a in asked)
    ]
    sent = [k for k, v in own.items() if any(secret in v for secret in secrets.values() if secret)]
    check_parties(properties, naming, addresses, sent)


def _names_address(key: str, value: str, scheme: str, netloc: str) -> bool:
    """Tell whether a property of Azure names an address: in its value, by a suffix there, or, with
    TLS, by the host in its name.
    """
    at, text = account_host(netloc), account_host(value)
    suffix = re.search(r"(?:^|;)\s*endpointsuffix=\s*([^;\s]+)", text)
    is_plain = scheme == "http" and not re.search(
        r"(?:^|;)\s*defaultendpointsprotocol=\s*http\s*(?:;|$)", text
    )
    if suffix and at.endswith(f".{suffix[1]}"):
        return not is_plain
    return f"{scheme}://{at}" in text or (
        scheme == "https" and key.lower().replace(".blob.", ".dfs.").endswith(f".{at}")
    )


def _check_key(secrets: Mapping[str, str]) -> None:
    """Check that the key of an account is one. Raises InvalidInput, which does not show it: with
    another text pyarrow ends the process.
    """
    try:
        base64.b64decode(secrets.get("account_key", ""), validate=True)
    except ValueError:
        text = "The key of the Azure account (adls.account-key, or AccountKey in adls.connection-string) is not Base64."
        raise InvalidInput(
            text, hint="Copy it from Azure's portal, with the = at its end."
        ) from None


def _arrow_addresses(
    name: str | None, is_signed_by_key: bool, blob: str | None, dfs: str | None
) -> dict[str, str]:
    """Translate addresses to pyarrow's options. It puts the account's name before an authority that
    begins with a dot, and as a folder after any other; so the first part of a domain of one's own
    is told to be the account, which only signatures by a key would notice."""
    translated = dict[str, str]()
    for kind, address in (("blob", blob), ("dfs", dfs)):
        if not address:
            continue
        scheme, _, rest = address.partition("://")
        authority, _, folder = rest.partition("/")
        label, dot, domain = authority.partition(".")
        told_name = folder or label
        is_own = told_name.lower() == (name or "").lower() or (
            dot and not folder and not is_signed_by_key
        )
        if not is_own or translated.setdefault("account_name", told_name) != told_name:
            text = f"Files of the Azure account {name} cannot be read at {address}: pyarrow asks elsewhere, or signs for another account."
            hint = "Give an address that begins with the account's name or ends in it as a folder; a signature needs no such name."
            raise Unsupported(text, hint=hint)
        translated |= {
            f"{kind}_storage_scheme": scheme,
            f"{kind}_storage_authority": authority if folder else f".{domain}",
        }
    return translated


def _host_of_account(properties: Mapping[str, str], host: str) -> str:
    """Complete the host of a location that names none, or an account alone: by the only account for
    whose host there is a property.
    """
    if "." in host:
        return host
    named_by = _either(properties, "adls.account-name", "adls.auth.shared-key.account.name")
    name = host or (named_by or account_in(properties.get("adls.connection-string", ""))).lower()
    named = {
        account_host(k.removeprefix(stem))
        for k in properties
        for stem in _BY_ACCOUNT
        if k.startswith(stem)
    }
    hosts = {n for n in named if "." in n and (not name or same_account(n, name))}
    if len(hosts) == 1 and (name or all(same_account(n, m) for n in named for m in hosts)):
        return hosts.pop()
    return named.pop() if not name and len(named) == 1 else host


def _account_of(
    properties: Mapping[str, str], account: str | None, host: str
) -> tuple[str | None, dict[str, str], Mapping[str, str]]:
    """Find the account to use, its secrets, and the parts of its connection string.

    What is given for the location's account by name counts first, and as in Java a signature counts
    before a key; a connection string then gives addresses. Raises InvalidInput where the properties
    hold the secrets of another account: files would be sought, and deleted, there.
    """
    name, key = (
        _either(properties, f"adls.account-{part}", f"adls.auth.shared-key.account.{part}")
        for part in ("name", "key")
    )
    at = host or name or ""
    own_text, own_sas = _by_account(properties, CONNECTION, at), _by_account(properties, SAS, at)
    text = own_text or properties.get("adls.connection-string")
    parts = {} if text is None else _connection(text)
    if own_sas and not own_text and not _is_of(parts, account, host):
        parts = {}
    elif text is not None and not own_text:
        same_name = {
            k
            for k in NAMES
            if properties.get(k, "").lower() == parts.get("accountname", "").lower()
        }
        doubled = sorted(
            k for k in properties if k in _ADLS - same_name - {"adls.connection-string"}
        )
        if doubled:
            raise InvalidInput(
                f"Catalog property adls.connection-string comes with {', '.join(doubled)}.",
                hint="Give one or the other.",
            )
    if not (_is_named(properties, host) or _is_of(parts, account, host)):
        hint = f"Give adls.sas-token.{host}, or adls.connection-string.{host}: one with AccountName, or the address https://{host}."
        raise InvalidInput(
            f"Which Azure account serves the location's host {host} is not known: no property names this host.",
            hint=hint,
        )
    own_name = parts.get("accountname") or (name if _is_domain(host) else None) or account or name
    if parts.get("accountname") and not _is_domain(host) and not _is_of(parts, account, host):
        raise _other_account(parts["accountname"], account, "adls.connection-string")
    if (
        "blobendpoint" in parts
        and not own_text
        and "accountname" not in parts
        and account
        and not _is_domain(host)
    ):  # it names its account
        address = urlsplit(parts["blobendpoint"])
        if not same_account(addressed := address.path.strip("/") or address.netloc, host):
            raise _other_account(addressed.partition(".")[0], account, "adls.connection-string")
    if sas := own_sas or parts.get("sharedaccesssignature"):
        return own_name, {"sas_key": sas}, parts
    if "accountkey" in parts:
        return own_name, {"account_key": parts["accountkey"]}, parts
    if name and account and name.lower() != account and not _is_domain(host):
        raise _other_account(name, account, "adls.account-name")
    if sas := properties.get("adls.sas-token"):
        return own_name, {"sas_key": sas}, parts
    if key:
        return own_name, {"account_key": key}, parts
    own = {
        part: properties.get(f"adls.{part.replace('_', '-')}")
        for part in ("tenant_id", "client_id", "client_secret")
    }
    return own_name, _without_none(**own), parts


def _accounts(properties: Mapping[str, str], stem: str) -> dict[str, str]:
    """Find the properties of accounts that begin with a stem, by the account's name or that of its
    host.
    """
    return {
        k.removeprefix(stem).lower(): v for k, v in properties.items() if k.startswith(stem) and v
    }


def _by_account(properties: Mapping[str, str], stem: str, at: str) -> str | None:
    """Find a property of an account: by the host's name, with which Java looks for it, or by the
    account's.
    """
    named = _accounts(properties, stem)
    names = (at, account_host(at), at.replace(".dfs.", ".blob.", 1), at.partition(".")[0])
    return next((named[n] for n in names if n in named), None)


def _either(properties: Mapping[str, str], key: str, java: str) -> str | None:
    """Return the value of a property that has two names. Raises InvalidInput where they have two
    values.
    """
    value, other = properties.get(key), properties.get(java)
    if value and other and value != other:
        raise InvalidInput(
            f"Catalog properties {key} and {java} contradict each other.", hint="Give one of them."
        )
    return value or other or None


def _is_domain(host: str) -> bool:
    """Tell whether a host is none of Azure's clouds: whose it is only properties can tell, so that
    no file's location can choose who is sent a secret."""
    return "." in host and not host.partition(":")[0].endswith(_CLOUDS)


def _is_named(properties: Mapping[str, str], host: str) -> bool:
    """Tell whether a host is one of Azure's clouds, or a property is for it."""
    return not _is_domain(host) or any(
        account_host(host) in map(account_host, _accounts(properties, stem)) for stem in _BY_ACCOUNT
    )


def _is_of(parts: Mapping[str, str], account: str | None, host: str) -> bool:
    """Tell whether a connection string is of the location's account: by the account's name, and
    where the host is none of Azure's by an address or a suffix as well."""
    has_name = not account or parts.get("accountname", "").lower() == account
    if not _is_domain(host):
        return has_name
    hosts = {
        account_host(urlsplit(parts.get(f"{kind}endpoint", "")).netloc) for kind in ("blob", "dfs")
    }
    is_addressed = "blobendpoint" in parts or parts.get("endpointsuffix", "").lower() == _suffix(
        host
    )
    return account_host(host) in hosts or (has_name and is_addressed)


def _other_account(name: str, account: str | None, key: str) -> InvalidInput:
    """Make the error for secrets of an account where the location is in another one."""
    hint = f"Give the secrets of {account} as adls.sas-token.{account} or adls.connection-string.{account}"
    hint += ", or leave out adls.account-name." if key == "adls.account-name" else "."
    return InvalidInput(
        f"Catalog property {key} is of the account {name}, but the location is in the account {account}.",
        hint=hint,
    )


_CONNECTION = {
    "defaultendpointsprotocol", "accountname", "accountkey", "endpointsuffix", "blobendpoint", "dfsendpoint", "sharedaccesssignature",
    "queueendpoint", "tableendpoint", "fileendpoint",
}  # fmt: skip


def _connection(text: str) -> dict[str, str]:
    """Split a connection string of Azure into its parts. Raises InvalidInput, which shows no
    values: they are secrets.

    Java, and servers that give it one, call an address so, which a signature may follow.
    """
    if re.match("https?://", text):
        address, _, sas = text.partition("?")
        blob, dfs = (
            address.replace(f".{old}.", f".{new}.", 1)
            for old, new in (("dfs", "blob"), ("blob", "dfs"))
        )
        return {"blobendpoint": blob, "dfsendpoint": dfs} | (
            {"sharedaccesssignature": sas} if sas else {}
        )
    parts = {}
    for part in filter(None, (p.strip() for p in text.split(";"))):
        name, equals, value = part.partition("=")
        if not equals or name.strip().lower() not in _CONNECTION:
            shown = name if equals else "a part without ="
            refused = f"Catalog property adls.connection-string holds {shown}: not known."
            raise InvalidInput(refused, hint="Copy it from Azure's portal.")
        parts[name.strip().lower()] = value.strip()
    if "accountname" not in parts or not (
        "accountkey" in parts or "sharedaccesssignature" in parts
    ):
        text = "Catalog property adls.connection-string must hold AccountName, and AccountKey or SharedAccessSignature."
        raise InvalidInput(text, hint="Copy it from Azure's portal.")
    return parts


def _endpoints(
    parts: Mapping[str, str], account: str | None, host: str
) -> tuple[str | None, str | None]:
    """Find the addresses of blobs and of the file interface: those that a connection string names,
    else of the location's host, else those of Azure's public cloud; None where there is no account.
    """
    blob, dfs = (parts.get(f"{kind}endpoint", "").rstrip("/") or None for kind in ("blob", "dfs"))
    suffix, own = _suffix(host), parts.get("endpointsuffix")
    if blob is None and account is not None:
        if own and suffix and own.lower() != suffix.lower():
            text = f"Catalog property adls.connection-string is of the cloud {own}, but the location is in the cloud {suffix}."
            raise InvalidInput(
                text, hint=f"Give the one for this location as adls.connection-string.{host}."
            )
        scheme = parts.get("defaultendpointsprotocol", "https")
        if suffix:
            blob, dfs = (
                f"{scheme}://{host.replace('.dfs.', '.blob.', 1)}",
                dfs or f"{scheme}://{host.replace('.blob.', '.dfs.', 1)}",
            )
        elif not re.fullmatch(r"[\w-]+", account, re.A) or not re.fullmatch(
            r"[\w.:-]*", own or "", re.A
        ):  # they would end the host's name
            raise InvalidInput(
                "The name of the Azure account, or its EndpointSuffix, holds a character that no host's name has."
            )
        elif "." in host:  # a domain of one's own
            blob, dfs = f"{scheme}://{host}", dfs or f"{scheme}://{host}"
        else:
            own = own or "core.windows.net"
            blob, dfs = f"{scheme}://{account}.blob.{own}", dfs or f"{scheme}://{account}.dfs.{own}"
    if blob and dfs is None:
        dfs = blob.replace(".blob.", ".dfs.", 1)
    for endpoint in (blob, dfs):
        if endpoint and not re.match(r"https?://[^/\s]+", endpoint):
            raise InvalidInput(
                "Catalog property adls.connection-string holds an address that does not begin with http:// or https://."
            )
    return blob, dfs


def _suffix(host: str) -> str | None:
    """Find the cloud of a host, as `core.windows.net`; None where the host does not tell."""
    match = re.fullmatch(r"[^.]+\.(?:.+\.)?(?:dfs|blob)\.(?P<suffix>.+)", host)
    return match["suffix"] if match else None
