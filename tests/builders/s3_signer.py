"""Sign requests to S3 as the server of a catalog does that gives out no keys, by AWS's rules
(Signature Version 4).
"""

from __future__ import annotations

import hashlib
import hmac
import json
import time
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, quote, urlsplit

from tests.catalog.rest.conftest import Asked


def signature(method: str, url: str, headers: dict[str, str], secret: str) -> str:
    """The signature of a request whose headers, in lower case, tell with `authorization` what is
    signed and for whom. The path is taken as it is sent, and the body is not signed."""
    parts, told = urlsplit(url), headers["authorization"]
    names = told.partition("SignedHeaders=")[2].partition(",")[0].split(";")
    scope = told.partition("Credential=")[2].partition(",")[0].partition("/")[2]
    pairs = sorted(
        (quote(k, safe="-_.~"), quote(v, safe="-_.~"))
        for k, v in parse_qsl(parts.query, keep_blank_values=True)
    )
    known = {"host": parts.netloc, **headers}
    query = "&".join(f"{k}={v}" for k, v in pairs)
    lines = [
        method,
        parts.path,
        query,
        *(f"{n}:{known[n]}" for n in names),
        "",
        ";".join(names),
        "UNSIGNED-PAYLOAD",
    ]
    to_sign = "\n".join(
        [
            "AWS4-HMAC-SHA256",
            headers["x-amz-date"],
            scope,
            hashlib.sha256("\n".join(lines).encode()).hexdigest(),
        ]
    )
    key = f"AWS4{secret}".encode()
    for part in scope.split("/"):
        key = hmac.digest(key, part.encode(), "sha256")
    return hmac.digest(key, to_sign.encode(), "sha256").hex()


@dataclass
class S3Signer:
    """Answer requests to sign. `signed` lists what was signed: the method, and the path with its
    query.
    """

    key: str
    secret: str = field(repr=False)
    signed: list[tuple[str, str]] = field(default_factory=list)

    def __call__(self, asked: Asked) -> tuple[int, Any]:
        given = json.loads(asked.body)
        method, url = given["method"], given["uri"]
        headers = {k.lower(): ", ".join(v) for k, v in given["headers"].items()} | {
            "x-amz-date": time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
        }
        names = ";".join(sorted({"host", *headers}))
        told = f"AWS4-HMAC-SHA256 Credential={self.key}/{headers['x-amz-date'][:8]}/{given['region']}/s3/aws4_request, SignedHeaders={names}"
        sent = {
            **headers,
            "Authorization": f"{told}, Signature={signature(method, url, {**headers, 'authorization': told}, self.secret)}",
        }
        self.signed.append((method, url.partition("://")[2].partition("/")[2]))
        return 200, {"uri": url, "headers": {k: [v] for k, v in sent.items()}}
