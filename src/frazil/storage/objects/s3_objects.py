"""Read how objects of S3 are to be stored: encrypted (`s3.sse.*`), with an ACL (`s3.acl`), tags and
a storage class (`s3.write.*`).

A bucket's policy may demand them of each write. They are Java's properties; a REST catalog's server
may tell them, too. obstore sends all but the ACL, so where one is set requests are made and signed
here (`signed`).
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlencode

from frazil.errors import InvalidInput

TAGS, DELETE_TAGS, SSE_KEY = "s3.write.tags.", "s3.delete.tags.", "s3.sse.key"
S3_OBJECTS = {
    "s3.sse.type",
    SSE_KEY,
    "s3.sse.md5",
    "s3.acl",
    "s3.write.storage-class",
    "s3.delete-enabled",
}
_TYPES = {
    "none": None,
    "s3": "AES256",
    "kms": "aws:kms",
    "dsse-kms": "aws:kms:dsse",
    "custom": "sse-c",
}
_ACLS = (
    "private", "public-read", "public-read-write", "authenticated-read", "aws-exec-read", "bucket-owner-read", "bucket-owner-full-control",
    "log-delivery-write",
)  # fmt: skip
_MOST_TAGS = 10


@dataclass(frozen=True)
class S3Objects:
    """Hold how objects are stored. `encryption`: as the header names it, or sse-c. `key`: of the
    key service, or the customer's own.
    """

    encryption: str | None = None
    key: str | None = field(default=None, repr=False)
    acl: str | None = None
    storage_class: str | None = None
    tags: tuple[tuple[str, str], ...] = ()

    def config(self) -> dict[str, str]:
        """Return the options of obstore's client."""
        key_option = "sse_customer_key_base64" if self.encryption == "sse-c" else "sse_kms_key_id"
        options = {"server_side_encryption": self.encryption, key_option: self.key}
        return {name: value for name, value in options.items() if value}

    def of_writes(self) -> dict[str, dict[str, str]]:
        """Return the arguments of obstore's writes."""
        attributes = (
            {"attributes": {"Storage-Class": self.storage_class}} if self.storage_class else {}
        )
        return {**attributes, **({"tags": dict(self.tags)} if self.tags else {})}

    def access_headers(self) -> dict[str, str]:
        """Return the headers of each request for an object's bytes, also of those that read it."""
        if self.encryption != "sse-c":
            return {}
        stem = "x-amz-server-side-encryption-customer-"
        return {
            f"{stem}algorithm": "AES256",
            f"{stem}key": self.key or "",
            f"{stem}key-MD5": _md5(self.key or ""),
        }

    def write_headers(self) -> dict[str, str]:
        """Return the headers of requests that make an object."""
        named = self.encryption if self.encryption != "sse-c" else None
        headers = {
            "x-amz-server-side-encryption": named,
            "x-amz-server-side-encryption-aws-kms-key-id": self.key if named else None,
            "x-amz-acl": self.acl,
            "x-amz-storage-class": self.storage_class,
            "x-amz-tagging": urlencode(self.tags),
        }
        return {
            **self.access_headers(),
            **{name: value for name, value in headers.items() if value},
        }


def s3_objects(properties: Mapping[str, str]) -> S3Objects:
    """Read how objects are stored. Raises InvalidInput, which shows no key."""
    kind = properties.get("s3.sse.type", "none").strip().lower()
    if kind not in _TYPES:
        raise InvalidInput(
            f"Catalog property s3.sse.type must be one of {', '.join(_TYPES)}, not {kind!r}."
        )
    key, md5 = properties.get(SSE_KEY), properties.get("s3.sse.md5")
    if kind == "custom":
        _check_customers_key(key, md5)
    elif kind in ("none", "s3") and key:
        raise InvalidInput(
            f"Catalog property s3.sse.key is given, but s3.sse.type is {kind}.",
            hint="Set s3.sse.type=kms or custom.",
        )
    if md5 and kind != "custom":
        raise InvalidInput(
            f"Catalog property s3.sse.md5 is given, but s3.sse.type is {kind}.",
            hint="It belongs to s3.sse.type=custom.",
        )
    acl = properties.get("s3.acl")
    if acl is not None and acl not in _ACLS:
        raise InvalidInput(
            f"Catalog property s3.acl must be one of {', '.join(_ACLS)}, not {acl!r}."
        )
    tags = tuple(
        sorted((k.removeprefix(TAGS), v) for k, v in properties.items() if k.startswith(TAGS))
    )
    if len(tags) > _MOST_TAGS or any(
        not name or len(name) > 128 or len(value) > 256 for name, value in tags
    ):
        text = f"Catalog properties {TAGS}… name more than {_MOST_TAGS} tags, or one longer than S3 takes."
        raise InvalidInput(text, hint="Names have at most 128 characters, values 256.")
    return S3Objects(_TYPES[kind], key or None, acl, properties.get("s3.write.storage-class"), tags)


def _check_customers_key(key: str | None, md5: str | None) -> None:
    try:
        is_key = len(base64.b64decode(key or "", validate=True)) == 32
    except ValueError:
        is_key = False
    if not is_key:
        raise InvalidInput(
            "Catalog property s3.sse.key is no key of 256 bits in Base64.",
            hint="s3.sse.type=custom needs one.",
        )
    if md5 and md5.strip() != _md5(key or ""):
        raise InvalidInput(
            "Catalog property s3.sse.md5 is not the digest of s3.sse.key.",
            hint="Leave it out: it is computed.",
        )


def _md5(key: str) -> str:
    return base64.b64encode(
        hashlib.md5(base64.b64decode(key), usedforsecurity=False).digest()
    ).decode()
