"""Compute the signatures of requests to S3 by own or vended keys (AWS Signature Version 4), where
they are made without obstore.
"""

from __future__ import annotations

import hashlib
import hmac
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import quote, unquote, urlsplit

from frazil.errors import Unsupported
from frazil.storage.credentials.vended import CredentialsSource
from frazil.storage.objects.object_clients import Properties, s3_credential
from frazil.storage.objects.signed import SignedRequest

_ALGORITHM = "AWS4-HMAC-SHA256"


@dataclass(frozen=True)
class KeySigner:
    """Compute the signature of each request by the keys of the moment."""

    properties: Properties = field(repr=False)
    vended: CredentialsSource | None = field(default=None, repr=False)

    def __call__(
        self, method: str, url: str, region: str, headers: Mapping[str, str], body: str | None
    ) -> SignedRequest:
        keys = s3_credential(self.properties, self.vended)
        if not keys["access_key_id"]:
            if "s3.anonymous" in dict(self.properties):
                return SignedRequest(url, headers)
            text = "s3.acl needs keys: s3.access-key-id and s3.secret-access-key, vended ones, or those of the extra aws."
            raise Unsupported(text, hint='Give them, or pip install "frazil[aws]".')
        stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
        sent = {
            "host": urlsplit(url).netloc,
            "x-amz-date": stamp,
            **{k.lower(): v for k, v in headers.items()},
        }
        if keys["token"]:
            sent["x-amz-security-token"] = keys["token"]
        signature = s3_authorization(
            keys["access_key_id"], keys["secret_access_key"], region, method, url, sent
        )
        return SignedRequest(url, {**sent, "authorization": signature})


def s3_authorization(
    key_id: str, secret: str, region: str, method: str, url: str, headers: Mapping[str, str]
) -> str:
    """Return the value of the header Authorization that signs all of `headers`, which are in small
    letters.
    """
    stamp, parts, names = headers["x-amz-date"], urlsplit(url), ";".join(sorted(headers))
    pairs = (pair.partition("=") for pair in parts.query.split("&") if pair)
    query = "&".join(
        f"{key}={value}"
        for key, value in sorted((_encoded(key), _encoded(value)) for key, _, value in pairs)
    )
    lines = (f"{name}:{' '.join(headers[name].split())}" for name in sorted(headers))
    request = "\n".join(
        (method, parts.path or "/", query, *lines, "", names, headers["x-amz-content-sha256"])
    )
    return signature_v4(
        key_id, secret, f"{stamp[:8]}/{region}/s3/aws4_request", stamp, names, request
    )


def signature_v4(key_id: str, secret: str, scope: str, stamp: str, names: str, request: str) -> str:
    """Return the value of Authorization that signs a canonical request by AWS Signature Version 4.
    `names`: the signed headers.
    """
    text = "\n".join((_ALGORITHM, stamp, scope, hashlib.sha256(request.encode()).hexdigest()))
    key = f"AWS4{secret}".encode()
    for part in scope.split("/"):
        key = hmac.digest(key, part.encode(), "sha256")
    signature = hmac.new(key, text.encode(), "sha256").hexdigest()
    return f"{_ALGORITHM} Credential={key_id}/{scope}, SignedHeaders={names}, Signature={signature}"


def _encoded(text: str) -> str:
    return quote(unquote(text), safe="-_.~")
