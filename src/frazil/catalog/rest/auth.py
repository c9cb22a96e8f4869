"""Hold the authentication of requests to a REST catalog: none, basic, a bearer token, or OAuth2
(credential or exchange, renewed).
"""

from __future__ import annotations

import base64
import binascii
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from urllib.parse import quote_plus

import msgspec

from frazil.catalog.rest.clouds import CLOUDS, Provider, cloud_tokens
from frazil.catalog.rest.settings import AuthSettings
from frazil.errors import FrazilError, StorageError

_EARLY_S = 300.0
_EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"
_ACCESS_TOKEN = "urn:ietf:params:oauth:token-type:access_token"
Fetch = Callable[[str, dict[str, str], dict[str, str]], bytes]
"""Post a form (address, fields, headers) to the OAuth2 server and return its answer. Raises
FrazilError.
"""


class _Token(msgspec.Struct):
    access_token: str
    expires_in: float | None = None


class _Claims(msgspec.Struct):
    exp: float | None = None


@dataclass
class Authentication:
    """Hold the current token of one catalog, and renew it. Threads share it; one of them renews,
    the others wait.
    """

    settings: AuthSettings
    fetch: Fetch = field(repr=False)
    _token: str | None = field(default=None, repr=False)
    _renew_at: float = field(default=float("inf"), repr=False)
    _expires_at: float = field(default=float("inf"), repr=False)
    _provider: Provider | None = field(default=None, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def __post_init__(self) -> None:
        if self.settings.token:
            self._take(self.settings.token, None)

    def header(self) -> str | None:
        """Return the value of the header Authorization, None without authentication. Raises
        StorageError when no token can be had.
        """
        match self.settings.kind:
            case "none":
                return None
            case "basic":
                return f"Basic {self._pair()}"
        with self._lock:
            if self._token is None or self._is_due():
                self._renew()
            return f"Bearer {self._token}"

    def renewed(self, refused: str | None) -> bool:
        """Load another token after the server has refused the header `refused`; True: there is
        another one, so ask again.
        """
        if self.settings.kind not in ("oauth2", *CLOUDS) or not self._can_renew():
            return False
        with self._lock:
            if refused == f"Bearer {self._token}":
                try:
                    self._renew()
                except FrazilError:
                    return False  # the server's refusal of the request says more
            return refused != f"Bearer {self._token}"

    def _pair(self) -> str:
        """Return the user and password of basic authentication as they are sent."""
        return base64.b64encode(f"{self.settings.user}:{self.settings.password}".encode()).decode()

    def secrets(self) -> tuple[str, ...]:
        """Return every secret that an answer could repeat, as it is configured and as it is sent."""
        settings = self.settings
        secret = (settings.credential or "").rpartition(":")[2]
        configured = (
            settings.password,
            settings.token,
            settings.credential,
            secret,
            quote_plus(secret),
            self._token,
        )
        sent = (self._pair(),) if settings.kind == "basic" else ()
        return tuple(x for x in (*configured, *sent) if x and len(x) > 2)

    def _is_due(self) -> bool:
        """Tell whether to renew the token now. Without a credential, one that has expired by this
        machine's clock is sent all the same: the server tells by its own clock whether it takes it,
        and where it does not, `renewed` exchanges it."""
        now = time.time()
        can_always = bool(self.settings.credential) or self.settings.kind in CLOUDS
        return (
            self._can_renew() and now >= self._renew_at and (can_always or now < self._expires_at)
        )

    def _can_renew(self) -> bool:
        if self.settings.kind in CLOUDS:
            return True
        return self.settings.refresh and bool(
            self.settings.credential or (self._token and self.settings.exchange)
        )

    def _renew(self) -> None:
        settings = self.settings
        if settings.kind in CLOUDS:
            self._renew_of_cloud()
            return
        if settings.credential:
            client, _, secret = settings.credential.rpartition(":")
            form = {
                "grant_type": "client_credentials",
                **({"client_id": client} if client else {}),
                "client_secret": secret,
            }
            headers: dict[str, str] = {}
        else:
            form = {
                "grant_type": _EXCHANGE,
                "subject_token": self._token or "",
                "subject_token_type": _ACCESS_TOKEN,
            }
            headers = {"Authorization": f"Bearer {self._token}"}
        try:
            body = self.fetch(settings.server, {**form, **dict(settings.form_fields)}, headers)
        except FrazilError:
            if self._token is not None and time.time() < self._expires_at:
                self._renew_at = time.time() + 10  # the token at hand is still good
                return
            raise
        try:
            answer = msgspec.json.decode(body, type=_Token)
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
            text = f"The OAuth2 server {settings.server} answers with something that is no token."
            raise StorageError(text, hint="Check oauth2-server-uri.") from None
        if (
            not answer.access_token
            or not answer.access_token.isprintable()
            or not answer.access_token.isascii()
        ):
            raise StorageError(
                f"The OAuth2 server {settings.server} answers with an invalid token.",
                hint="Check oauth2-server-uri.",
            )
        self._take(
            answer.access_token,
            answer.expires_in if answer.expires_in is not None else settings.expires_s,
        )

    def _renew_of_cloud(self) -> None:
        try:
            if self._provider is None:
                scopes = tuple(value for _, value in self.settings.form_fields)
                self._provider = cloud_tokens(
                    self.settings.kind, self.settings.credentials_path, scopes
                )
            token, ends = self._provider()
        except FrazilError:
            if self._token is not None and time.time() < self._expires_at:
                self._renew_at = time.time() + 10  # the token at hand is still good
                return
            raise
        self._take(token, None if ends is None else ends - time.time())

    def _take(self, token: str, life: float | None) -> None:
        self._token = token
        self._expires_at = _expiry_of(token) if life is None else time.time() + max(0.0, life)
        self._renew_at = self._expires_at - min(
            _EARLY_S, max(0.0, self._expires_at - time.time()) / 2
        )


def _expiry_of(token: str) -> float:
    """Return when a JSON web token expires, in seconds since 1970; infinity for other tokens."""
    parts = token.split(".")
    if len(parts) != 3:
        return float("inf")
    try:
        claims = base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4))
        return msgspec.json.decode(claims, type=_Claims).exp or float("inf")
    except (msgspec.MsgspecError, binascii.Error, ValueError, RecursionError):
        return float("inf")
