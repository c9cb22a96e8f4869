"""Translate catalog properties of object stores (Iceberg's and PyIceberg's names) to the options of obstore and pyarrow.

Each property is supported or refused by name: with a property silently ignored, files would be read or written with other credentials.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from frazil.errors import InvalidInput, Unsupported

_S3 = {
    "s3.endpoint", "s3.access-key-id", "s3.secret-access-key", "s3.session-token", "s3.region", "s3.path-style-access",
    "s3.force-virtual-addressing", "s3.anonymous", "s3.connect-timeout", "s3.request-timeout",
    "s3.remote-signing-enabled", "client.region", "client.access-key-id", "client.secret-access-key", "client.session-token",
}  # fmt: skip
_GCS = {"gcs.oauth2.token", "gcs.service.host", "gcs.no-auth", "gcs.project-id"}
_ADLS = {"adls.account-name", "adls.account-key", "adls.sas-token", "adls.tenant-id", "adls.client-id", "adls.client-secret"}
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
    def of(name: str) -> str | None:
        return properties.get(f"s3.{name}", properties.get(f"client.{name}"))

    endpoint, region = properties.get("s3.endpoint"), of("region")
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
        if of(given) and not of(missing):
            raise InvalidInput(f"Catalog property s3.{given} is given without s3.{missing}.", hint="They belong together.")
    if endpoint is not None and not re.match(r"https?://[^/\s]+", endpoint):
        raise InvalidInput(f"Catalog property s3.endpoint must begin with http:// or https://, not {endpoint!r}.")
    connect, request = _seconds(properties, "s3.connect-timeout", 10), _seconds(properties, "s3.request-timeout", 60)
    config = _without_none(
        endpoint=endpoint, region=region or "us-east-1", access_key_id=of("access-key-id"), secret_access_key=of("secret-access-key"),
        session_token=of("session-token"), skip_signature=anonymous, virtual_hosted_style_request=virtual, conditional_put="etag",
    )  # fmt: skip
    client = {"connect_timeout": timedelta(seconds=connect), "timeout": timedelta(seconds=request)}
    if endpoint and endpoint.startswith("http://"):
        client["allow_http"] = True  # type: ignore[assignment]
    arrow = _without_none(
        endpoint_override=endpoint.rstrip("/") if endpoint else None, region=region or ("us-east-1" if endpoint else None),
        access_key=of("access-key-id"), secret_key=of("secret-access-key"), session_token=of("session-token"), anonymous=anonymous,
        force_virtual_addressing=virtual, connect_timeout=connect, request_timeout=request, allow_delayed_open=True,
    )  # fmt: skip
    return Options(config, client, arrow)


def _gcs(properties: Mapping[str, str]) -> Options:
    token, host, anonymous = properties.get("gcs.oauth2.token"), properties.get("gcs.service.host"), _flag(properties, "gcs.no-auth")
    if token is not None:
        text = "Catalog property gcs.oauth2.token is not supported: its expiry is not known."
        raise Unsupported(text, hint="Use application default credentials.")
    config = _without_none(base_url=host, skip_signature=anonymous)
    arrow = _without_none(anonymous=anonymous, endpoint_override=re.sub("^https?://", "", host) if host else None)
    return Options(config, {"allow_http": True} if host and host.startswith("http://") else {}, arrow)


def _adls(properties: Mapping[str, str]) -> Options:
    def of(name: str) -> str | None:
        return properties.get(f"adls.{name}")

    config = _without_none(
        account_name=of("account-name"), account_key=of("account-key"), sas_key=of("sas-token"), tenant_id=of("tenant-id"),
        client_id=of("client-id"), client_secret=of("client-secret"),
    )  # fmt: skip
    arrow = _without_none(
        account_name=of("account-name"), account_key=of("account-key"), sas_token=of("sas-token"), tenant_id=of("tenant-id"),
        client_id=of("client-id"), client_secret=of("client-secret"),
    )  # fmt: skip
    return Options(config, {}, arrow)
