"""Compute the signatures of requests (AWS Signature Version 4) that the REST endpoints of AWS Glue
and S3 Tables demand.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from urllib.parse import quote, unquote, urlsplit

from frazil.catalog.options import value
from frazil.catalog.rest import options as o
from frazil.errors import FrazilError, InvalidInput
from frazil.storage.credentials.aws import aws_credentials, chooses_aws
from frazil.storage.credentials.vended import CredentialsSource, current
from frazil.storage.objects.s3_signatures import signature_v4

_MANAGERS = {
    "org.apache.iceberg.rest.auth.NoopAuthManager": "none", "org.apache.iceberg.rest.auth.BasicAuthManager": "basic",
    "org.apache.iceberg.rest.auth.OAuth2Manager": "oauth2", "org.apache.iceberg.aws.RESTSigV4AuthManager": "sigv4",
    "org.apache.iceberg.gcp.auth.GoogleAuthManager": "google",
}  # fmt: skip
_SIGNED = re.compile(r"host|content-type|x-.*|original-authorization")  # what proxies do not change
_UNRESERVED = "-_.~"
_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True)
class Signing:
    """Hold whose requests are signed, for which region and service. Secrets are not shown."""

    region: str
    service: str
    access_key_id: str
    secret_access_key: str = field(repr=False)
    session_token: str | None = field(default=None, repr=False)
    source: CredentialsSource | None = field(default=None, repr=False)
    """Gives the keys of the moment, in place of those above: of a profile, a machine, a role."""

    def secrets(self) -> tuple[str, ...]:
        now = self
        with contextlib.suppress(FrazilError):
            now = self.now()
        return tuple(s for s in (now.secret_access_key, now.session_token) if s)

    def now(self) -> Signing:
        """Return the keys by which a request is signed now. Raises StorageError where there are
        none.
        """
        if self.source is None:
            return self
        keys = current(self.source).properties
        return replace(
            self,
            access_key_id=keys["s3.access-key-id"],
            secret_access_key=keys["s3.secret-access-key"],
            session_token=keys.get("s3.session-token"),
            source=None,
        )


def auth_kind(auth_type: str) -> str:
    """Return a type of authentication in small letters, also where the class is named by which Java
    serves it.
    """
    return _MANAGERS.get(auth_type.strip(), auth_type.strip().lower())


def is_sigv4(auth_type: str | None) -> bool:
    """Tell whether a type of authentication is that of signed requests, as newer releases of Java
    name it.
    """
    return auth_type is not None and auth_kind(auth_type) == "sigv4"


def signing_of(
    properties: Mapping[str, str], environ: Mapping[str, str] | None = None
) -> Signing | None:
    """Read how requests are signed; None: they are not (neither `rest.sigv4-enabled` is true nor
    `rest.auth.type` sigv4). What is not configured comes from the environment (AWS_REGION,
    AWS_ACCESS_KEY_ID, …). Raises InvalidInput for what is missing there, too."""
    if not value(properties, o.SIGNED) and not is_sigv4(value(properties, o.AUTH_TYPE)):
        return None
    env = os.environ if environ is None else environ
    region = (
        value(properties, o.SIGNING_REGION)
        or env.get("AWS_REGION")
        or env.get("AWS_DEFAULT_REGION")
    )
    own = {k: v for k, v in properties.items() if k.startswith("client.")}
    has_keys = bool(
        properties.get("rest.access-key-id") or properties.get("rest.secret-access-key")
    )
    source = None if has_keys else aws_credentials(own)
    if not region and source is not None:
        region = source.region()
    if not region:
        raise InvalidInput(
            "rest.sigv4-enabled needs a region.",
            hint="Set rest.signing-region, client.region, or AWS_REGION.",
        )
    service = value(properties, o.SIGNING_NAME)
    if source is not None and (
        chooses_aws(own) or not (own.get("client.access-key-id") or env.get("AWS_ACCESS_KEY_ID"))
    ):
        return Signing(region, service, "", "", source=source)
    for prefix in ("rest.", "client."):
        if properties.get(f"{prefix}access-key-id") or properties.get(f"{prefix}secret-access-key"):
            keys = [
                properties.get(prefix + name)
                for name in ("access-key-id", "secret-access-key", "session-token")
            ]
            where = f"{prefix}access-key-id and {prefix}secret-access-key"
            break
    else:
        keys = [
            env.get(name)
            for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
        ]
        where = "rest.access-key-id and rest.secret-access-key, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
    if not keys[0] or not keys[1]:
        raise InvalidInput("rest.sigv4-enabled needs credentials.", hint=f"Set {where}.")
    return Signing(region, service, keys[0], keys[1], keys[2])


def signed_headers(
    signing: Signing,
    method: str,
    url: str,
    headers: Mapping[str, str],
    body: bytes | None,
    now: float | None = None,
) -> dict[str, str]:
    """Return the headers to send instead of `headers`. An Authorization among them, of a token,
    becomes Original-Authorization, as Java sends it. `now`: seconds since 1970."""
    signing = signing.now()
    sent = {
        ("Original-Authorization" if k.lower() == "authorization" else k): v
        for k, v in headers.items()
    }
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(time.time() if now is None else now))
    added = {
        "Host": _host(url),
        "X-Amz-Date": stamp,
        "x-amz-content-sha256": hashlib.sha256(body or b"").hexdigest(),
    }
    if signing.session_token:
        added["X-Amz-Security-Token"] = signing.session_token
    sent = {
        **{k: v for k, v in sent.items() if k.lower() not in {m.lower() for m in added}},
        **added,
    }
    chosen = {k: v for k, v in sent.items() if _SIGNED.fullmatch(k.lower())}
    return {**sent, "Authorization": authorization(signing, method, url, chosen, body, stamp)}


def authorization(
    signing: Signing,
    method: str,
    url: str,
    headers: Mapping[str, str],
    body: bytes | None,
    stamp: str,
) -> str:
    """Return the value of the header Authorization that signs all of `headers`. `stamp`: their
    X-Amz-Date.
    """
    canonical = {k.lower(): " ".join(v.split()) for k, v in headers.items()}
    names = ";".join(sorted(canonical))
    parts = urlsplit(url)
    request = "\n".join(
        (
            method,
            _canonical_path(parts.path),
            _canonical_query(parts.query),
            *(f"{k}:{canonical[k]}" for k in sorted(canonical)),
            "",
            names,
            hashlib.sha256(body or b"").hexdigest(),
        )
    )
    scope = f"{stamp[:8]}/{signing.region}/{signing.service}/aws4_request"
    return signature_v4(
        signing.access_key_id, signing.secret_access_key, scope, stamp, names, request
    )


def _canonical_path(path: str) -> str:
    """Return the path as it is sent, without `.`, `..` and empty segments, encoded once more (as
    for every service but S3).
    """
    segments: list[str] = []
    for segment in path.split("/"):
        if segment == "..":
            del segments[-1:]
        elif segment not in ("", "."):
            segments.append(segment)
    ends = "/" if segments and path.endswith(("/", "/.", "/..")) else ""
    return quote(f"/{'/'.join(segments)}{ends}", safe="/" + _UNRESERVED)


def _canonical_query(query: str) -> str:
    pairs = [pair.partition("=") for pair in query.split("&") if pair]
    return "&".join(
        f"{key}={value}"
        for key, value in sorted((_encoded(key), _encoded(value)) for key, _, value in pairs)
    )


def _encoded(text: str) -> str:
    return quote(unquote(text), safe=_UNRESERVED)


def _host(url: str) -> str:
    parts = urlsplit(url)
    name = (
        (parts.hostname or "").encode("idna").decode()
        if not (parts.hostname or "").isascii()
        else parts.hostname or ""
    )
    name = f"[{name}]" if ":" in name else name
    return name if parts.port in (None, _PORTS.get(parts.scheme)) else f"{name}:{parts.port}"
