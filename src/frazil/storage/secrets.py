"""Mask secrets in properties, URIs and the texts of errors, so that they stay out of reprs, logs
and tracebacks.
"""

from __future__ import annotations

import os
import re
import threading
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from html import escape
from urllib.parse import quote, quote_plus

HIDDEN = "***"
_SECRET_KEY = re.compile(
    r"^header\.|secret|connection-string|token|password|passwd|credential|access-key|access_key|account-key|sas|private|signature|authorization|oauth"
    r"|sse\.key|sse\.md5",
    re.I,
)
_PUBLIC_KEY = re.compile(
    r"access-key-id$|expires|token-refresh|token-exchange|credentials-provider|oauth2-server-uri|-enabled$",
    re.I,
)
# A password may hold any character, also / and @: it ends with the last @ of the URI. A text that
# is a URI may hold blanks as well.
_USER_INFO = re.compile(
    r"(?P<scheme>[A-Za-z][\w+.-]*:(?://)?)(?P<user>[^/@:\s]*):(?P<password>\S*)@"
)
_WHOLE_USER_INFO = re.compile(
    r"\A(?P<scheme>[A-Za-z][\w+.-]*://)(?P<user>[^/@:\s]*):(?P<password>.*)@", re.S
)
_QUERY = re.compile(
    r"(?P<key>(?:\A|[?&;\s'\"])(?:password|passwd|pwd|token|secret|sig|sslpassword|user_password|accountkey|sharedaccesssignature"
    r"|x-amz-security-token|x-amz-signature|x-goog-signature|access_token|client_secret|refresh_token)=)[^&;\s'\"]*",
    re.I,
)
_HEADER = re.compile(
    r"(?P<key>\b(?:bearer|authorization['\"]?:\s*(?:basic|bearer)|x-amz-security-token['\"]?:|x-amz-server-side-encryption-customer-key['\"]?:)\s*['\"]?)"
    r"[\w+/=.~-]{6,}",
    re.I,
)
_PART = re.compile(
    r"(?:sig|accountkey|sharedaccesssignature)=([^;&]+)", re.I
)  # of signatures and connection strings of Azure
_SHORTEST, _MOST = 8, 2000  # shorter values would be masked in words that say something else
_KNOWN: OrderedDict[str, None] = OrderedDict()
_LOCK = threading.Lock()


def is_secret(key: str) -> bool:
    """Tell whether the value of a property is a secret, by the property's name."""
    return bool(_SECRET_KEY.search(key))


def is_public(key: str) -> bool:
    """Tell whether the value of a property may be seen though its name sounds like a secret."""
    return bool(_PUBLIC_KEY.search(key))


def note(values: Iterable[str | None]) -> None:
    """Keep in mind secrets that this process sends to a store: from now on they are masked in each
    spelling in which they may come back.
    """
    with _LOCK:
        for value in filter(None, values):
            for part in (value, *_PART.findall(value)):
                if len(part) >= _SHORTEST:
                    _KNOWN.update(
                        dict.fromkeys(
                            (
                                part,
                                quote(part, safe=""),
                                quote(part),
                                quote_plus(part),
                                escape(part, quote=False),
                            )
                        )
                    )
                    for spelled in {part, quote(part, safe="")}:
                        _KNOWN.move_to_end(spelled)
        while len(_KNOWN) > _MOST:
            _KNOWN.popitem(last=False)


def note_properties(properties: Mapping[str, str]) -> None:
    """Keep in mind the secrets among a store's properties."""
    secrets = (value for key, value in properties.items() if is_secret(key) and not is_public(key))
    note(value for value in secrets if value not in _KNOWN)


def _after_fork() -> None:
    global _LOCK
    _LOCK = threading.Lock()


os.register_at_fork(after_in_child=_after_fork)


def redact_text(text: str) -> str:
    """Mask the passwords of URIs, what is sent as a secret by its name, and the secrets that this
    process has sent; other text stays.
    """
    with _LOCK:
        repeated = [secret for secret in _KNOWN if secret in text]
    for secret in sorted(repeated, key=len, reverse=True):
        text = text.replace(secret, HIDDEN)
    for pattern in (_WHOLE_USER_INFO, _USER_INFO):
        text = pattern.sub(lambda m: f"{m['scheme']}{m['user']}:{HIDDEN}@", text)
    for pattern in (_QUERY, _HEADER):
        text = pattern.sub(lambda m: f"{m['key']}{HIDDEN}", text)
    return text


def without_secrets(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the properties that may leave this process: those whose key names no secret and whose
    value holds no password.
    """
    return {k: v for k, v in properties.items() if not is_secret(k) and redact_text(v) == v}


def redact(properties: Mapping[str, str]) -> dict[str, str]:
    """Mask the values of secret keys and the passwords in URIs, so that properties can be shown."""
    return {k: HIDDEN if is_secret(k) else redact_text(str(v)) for k, v in properties.items()}
