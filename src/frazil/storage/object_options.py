"""Translate catalog properties of object stores (Iceberg's and PyIceberg's names) to the options of obstore and pyarrow.

Each property is supported or refused by name: with a property silently ignored, files would be read or written with other credentials.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from frazil.errors import InvalidInput, Unsupported

_S3 = {
    "s3.endpoint", "s3.access-key-id", "s3.secret-access-key", "s3.session-token", "s3.region", "s3.path-style-access",
    "s3.force-virtual-addressing", "s3.anonymous", "s3.connect-timeout", "s3.request-timeout",
    "s3.remote-signing-enabled", "client.region", "client.access-key-id", "client.secret-access-key", "client.session-token",
}  # fmt: skip
_GCS = {"gcs.oauth2.token", "gcs.oauth2.token-expires-at", "gcs.service.host", "gcs.no-auth", "gcs.project-id"}
_ADLS = {
    "adls.connection-string",
    "adls.account-name", "adls.account-key", "adls.sas-token", "adls.tenant-id", "adls.client-id", "adls.client-secret",
}  # fmt: skip
_KNOWN = {"s3": (("s3.", "client."), _S3), "gs": (("gcs.",), _GCS), "abfss": (("adls.",), _ADLS)}


@dataclass(frozen=True)
class Options:
    """Hold the options of a store: `config` and `client` for obstore, `arrow` for pyarrow.fs. They hold secrets, so none is shown."""

    config: dict[str, Any] = field(repr=False)
    client: dict[str, Any] = field(repr=False)
    arrow: dict[str, Any] = field(repr=False)


def options(scheme: str, properties: Mapping[str, str]) -> Options:
    """Translate the properties of a store. Raises Unsupported for a property that is not supported, InvalidInput for an invalid value."""
    for key in properties:
        if key.startswith(_KNOWN[scheme][0]):
            check_property(key)
    return {"s3": _s3, "gs": _gcs, "abfss": _adls}[scheme](properties)


def check_property(key: str) -> None:
    """Check that a property of an object store is supported. Raises Unsupported."""
    for scheme, (prefixes, known) in _KNOWN.items():
        if key.startswith(prefixes) and key not in known:
            supported = ", ".join(sorted(known))
            raise Unsupported(f"Catalog property {key} is not supported by Frazil's {scheme} storage.", hint=f"Supported: {supported}.")


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


def _without_none(**values: Any) -> dict[str, Any]:
    return {k: v for k, v in values.items() if v is not None}


def _s3(properties: Mapping[str, str]) -> Options:
    def s3_option(name: str) -> str | None:
        return properties.get(f"s3.{name}", properties.get(f"client.{name}"))

    endpoint, region = properties.get("s3.endpoint"), s3_option("region")
    path_style, virtual = _flag(properties, "s3.path-style-access"), _flag(properties, "s3.force-virtual-addressing")
    if path_style and virtual:
        raise InvalidInput("Catalog properties s3.path-style-access and s3.force-virtual-addressing contradict each other.")
    if path_style is not None and virtual is None:
        virtual = not path_style
    anonymous = _flag(properties, "s3.anonymous")
    if _flag(properties, "s3.remote-signing-enabled"):
        text = "Catalog property s3.remote-signing-enabled is true, but nobody signs requests here."
        raise Unsupported(text, hint="Leave it out: the server of a REST catalog tells for which tables it signs.")
    for given, missing in (("access-key-id", "secret-access-key"), ("secret-access-key", "access-key-id")):
        if s3_option(given) and not s3_option(missing):
            raise InvalidInput(f"Catalog property s3.{given} is given without s3.{missing}.", hint="They belong together.")
    if endpoint is not None and not re.match(r"https?://[^/\s]+", endpoint):
        raise InvalidInput(f"Catalog property s3.endpoint must begin with http:// or https://, not {endpoint!r}.")
    connect, request = _seconds(properties, "s3.connect-timeout", 10), _seconds(properties, "s3.request-timeout", 60)
    access_key, secret_key, session_token = map(s3_option, ("access-key-id", "secret-access-key", "session-token"))
    config = _without_none(
        endpoint=endpoint, region=region or "us-east-1", access_key_id=access_key, secret_access_key=secret_key,
        session_token=session_token, skip_signature=anonymous, virtual_hosted_style_request=virtual, conditional_put="etag",
    )  # fmt: skip
    client = {"connect_timeout": timedelta(seconds=connect), "timeout": timedelta(seconds=request)}
    if endpoint and endpoint.startswith("http://"):
        client["allow_http"] = True  # type: ignore[assignment]
    arrow = _without_none(
        endpoint_override=endpoint.rstrip("/") if endpoint else None, region=region or ("us-east-1" if endpoint else None),
        access_key=access_key, secret_key=secret_key, session_token=session_token, anonymous=anonymous,
        force_virtual_addressing=virtual, connect_timeout=connect, request_timeout=request, allow_delayed_open=True,
    )  # fmt: skip
    return Options(config, client, arrow)


def _gcs(properties: Mapping[str, str]) -> Options:
    token, host, anonymous = properties.get("gcs.oauth2.token"), properties.get("gcs.service.host"), _flag(properties, "gcs.no-auth")
    if token is not None and anonymous:
        raise InvalidInput("Catalog properties gcs.oauth2.token and gcs.no-auth contradict each other.")
    if host is not None and not re.match(r"https?://[^/\s]+", host):
        raise InvalidInput(f"Catalog property gcs.service.host must begin with http:// or https://, not {host!r}.")
    config = _without_none(base_url=host.rstrip("/") if host else None, skip_signature=anonymous, bearer_token=token)
    client: dict[str, Any] = {"allow_http": True} if host and host.startswith("http://") else {}
    arrow = _without_none(
        anonymous=anonymous, access_token=token,
        credential_token_expiration=_token_expiry(properties) if token is not None else None,
        endpoint_override=re.sub("^https?://", "", host).rstrip("/") if host else None, scheme=host.partition(":")[0] if host else None,
        project_id=properties.get("gcs.project-id"),
    )  # fmt: skip
    return Options(config, client, arrow)


def _token_expiry(properties: Mapping[str, str]) -> datetime:
    """Read when a token of Google expires. pyarrow wants a time: a token without one is used until the store refuses it."""
    value = properties.get("gcs.oauth2.token-expires-at")
    try:
        return datetime.fromtimestamp(253402214400 if value is None else int(value) / 1000, UTC)
    except (ValueError, OverflowError, OSError):
        text = f"Catalog property gcs.oauth2.token-expires-at must be milliseconds since 1970, not {value!r}."
        raise InvalidInput(text) from None


def _adls(properties: Mapping[str, str]) -> Options:
    parts = _connection(properties["adls.connection-string"]) if "adls.connection-string" in properties else {}
    if parts:
        doubled = sorted(k for k in properties if k in _ADLS - {"adls.connection-string"})
        if doubled:
            raise InvalidInput(f"Catalog property adls.connection-string comes with {', '.join(doubled)}.", hint="Give one or the other.")

    def adls_option(name: str, part: str = "") -> str | None:
        return parts.get(part.lower()) if parts else properties.get(f"adls.{name}")

    name, key = adls_option("account-name", "AccountName"), adls_option("account-key", "AccountKey")
    sas = adls_option("sas-token", "SharedAccessSignature")
    own = _without_none(tenant_id=adls_option("tenant-id"), client_id=adls_option("client-id"), client_secret=adls_option("client-secret"))
    blob, dfs = _endpoints(parts, name)
    config = _without_none(account_name=name, account_key=key, sas_key=sas, endpoint=blob) | own
    arrow = _without_none(account_name=name, account_key=key, sas_token=sas) | own
    for kind, endpoint in (("blob", blob), ("dfs", dfs)):
        if endpoint:
            scheme, _, rest = endpoint.partition("://")
            host = rest.partition("/")[0]
            arrow |= {f"{kind}_storage_scheme": scheme, f"{kind}_storage_authority": host.removeprefix(name or "")}
    return Options(config, {"allow_http": True} if blob and blob.startswith("http://") else {}, arrow)


_CONNECTION = {
    "defaultendpointsprotocol", "accountname", "accountkey", "endpointsuffix", "blobendpoint", "dfsendpoint", "sharedaccesssignature",
    "queueendpoint", "tableendpoint", "fileendpoint",
}  # fmt: skip


def _connection(text: str) -> dict[str, str]:
    """Split a connection string of Azure into its parts. Raises InvalidInput, which shows no values: they are secrets."""
    parts = {}
    for part in filter(None, (p.strip() for p in text.split(";"))):
        name, equals, value = part.partition("=")
        if not equals or name.strip().lower() not in _CONNECTION:
            shown = name if equals else "a part without ="
            refused = f"Catalog property adls.connection-string holds {shown}: not known."
            raise InvalidInput(refused, hint="Copy it from Azure's portal.")
        parts[name.strip().lower()] = value.strip()
    if "accountname" not in parts or not ("accountkey" in parts or "sharedaccesssignature" in parts):
        text = "Catalog property adls.connection-string must hold AccountName, and AccountKey or SharedAccessSignature."
        raise InvalidInput(text, hint="Copy it from Azure's portal.")
    return parts


def _endpoints(parts: Mapping[str, str], account: str | None) -> tuple[str | None, str | None]:
    """Find the addresses of blobs and of the file interface that a connection string names; None are Azure's own."""
    blob, dfs = (parts.get(f"{kind}endpoint", "").rstrip("/") or None for kind in ("blob", "dfs"))
    if blob is None and ("endpointsuffix" in parts or parts.get("defaultendpointsprotocol") == "http"):
        scheme, suffix = parts.get("defaultendpointsprotocol", "https"), parts.get("endpointsuffix", "core.windows.net")
        blob, dfs = f"{scheme}://{account}.blob.{suffix}", dfs or f"{scheme}://{account}.dfs.{suffix}"
    if blob and dfs is None:
        dfs = blob.replace(".blob.", ".dfs.", 1)
    for found in (blob, dfs):
        if found and not re.match(r"https?://[^/\s]+", found):
            raise InvalidInput("Catalog property adls.connection-string holds an address that does not begin with http:// or https://.")
    return blob, dfs
