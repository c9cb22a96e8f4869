"""Mask secrets in properties and URIs, so that they stay out of reprs, logs and errors."""

from __future__ import annotations

import re
from collections.abc import Mapping

HIDDEN = "***"
_SECRET_KEY = re.compile(
    r"^header\.|secret|connection-string|token|password|passwd|credential|access-key|access_key|account-key|sas|private|signature|authorization|oauth",
    re.I,
)
_USER_INFO = re.compile(r"(?P<scheme>[A-Za-z][\w+.-]*:(?://)?)(?P<user>[^/@:\s]*):(?P<password>[^@\s]*)@")
_QUERY = re.compile(r"(?P<key>[?&;](?:password|passwd|pwd|token|secret|sig|sslpassword|user_password)=)[^&;\s]*", re.I)


def is_secret(key: str) -> bool:
    """Tell whether the value of a property is a secret, by the property's name."""
    return bool(_SECRET_KEY.search(key))


def redact_text(text: str) -> str:
    """Mask the password in a URI; other text stays as it is."""
    text = _USER_INFO.sub(lambda m: f"{m['scheme']}{m['user']}:{HIDDEN}@", text)
    return _QUERY.sub(lambda m: f"{m['key']}{HIDDEN}", text)


def without_secrets(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the properties that may leave this process: those whose key names no secret and whose value holds no password."""
    return {k: v for k, v in properties.items() if not is_secret(k) and redact_text(v) == v}


def redact(properties: Mapping[str, str]) -> dict[str, str]:
    """Mask the values of secret keys and the passwords in URIs, so that properties can be shown."""
    return {k: HIDDEN if is_secret(k) else redact_text(str(v)) for k, v in properties.items()}
