"""Call a REST catalog's server over pooled connections, with time limits, bounded answers, and retries where they are safe.

A request that only reads is sent again after a lost connection, 429, 502, 503 or 504. One that changes something is sent again only if it
certainly was not handled: no connection could be made, or the server answered 429; or if the server knows `Idempotency-Key`, by which it
handles a request once, however often it comes. No redirect is followed: a token could go astray.
"""

from __future__ import annotations

import base64
import contextlib
import os
import ssl
import threading
import time
import urllib.request
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, unquote, urlencode, urlsplit

import msgspec

from frazil.catalog.base import Unclear
from frazil.catalog.rest.auth import Authentication
from frazil.catalog.rest.errors import ServerError, raised, scrubbed, server_error
from frazil.catalog.rest.settings import Proxy, Settings
from frazil.catalog.rest.sigv4 import signed_headers
from frazil.errors import CorruptData, NotInstalledError, StorageError

MAX_BODY = 1 << 30
_MAX_ERROR_BODY = 1 << 20
_PIECE = 1 << 16  # so much is decompressed at once
_LONGEST_WAIT_S = 10.0
_LONGEST_ANSWER_S = 600.0
_READING, _ATTEMPTS = ("GET", "HEAD"), 3
# Statuses of a request that the server has not handled, and of one that may succeed when it is sent again.
_NOT_HANDLED, _TRANSIENT = frozenset((429,)), frozenset((429, 502, 503, 504))


@dataclass(frozen=True)
class Answer:
    """Hold the answer to a request. `error`: what the server reports, None for success. `request_line`: the request, for messages."""

    status: int
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)
    error: ServerError | None = None
    request_line: str = ""


class Client:
    """Call one server. It may be used by several threads; a process that was forked opens connections of its own."""

    def __init__(self, settings: Settings):
        self.settings = settings
        self.auth = Authentication(settings.auth, self._token_answer)
        self.key_lifetime_s: float | None = None
        """How long the server knows the key of a request that changes something; None: it takes no keys."""
        self._urllib3 = _urllib3()
        self._pool: tuple[int, Any] | None = None
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"Client({self.settings.uri!r})"

    def change(self, settings: Settings) -> None:
        """Use other settings from now on. A token that was had with the same authentication stays."""
        if settings == self.settings:
            return
        self.close()
        if settings.auth != self.settings.auth:
            self.auth = Authentication(settings.auth, self._token_answer)
        self.settings = settings

    def close(self) -> None:
        with self._lock:
            pool, self._pool = self._pool, None
        if pool is not None and pool[0] == os.getpid():
            pool[1].clear()

    def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        bearer: str | None = None,
        repeatable: bool = False,
    ) -> Answer:
        """Call a path below the server's address and return its answer, also one that reports an error. A whole address is called as it
        is: whose it is, the caller has checked.

        `body`: sent as JSON. `bearer`: a token for this request alone. `repeatable`: the request changes nothing, whatever its method.
        Raises Unclear when a request that changes something may have been handled, StorageError when it certainly was not, CorruptData for
        an answer that is too large.
        """
        url = (path if "://" in path else f"{self.settings.uri}/{path}") + (f"?{urlencode(query, quote_via=quote)}" if query else "")
        data = None if body is None else msgspec.json.encode(body)
        reads = repeatable or method in _READING
        keyed = self.key_lifetime_s is not None and not reads
        key = {"Idempotency-Key": str(_uuid7())} if keyed else {}
        for last in (False, True):
            authorization = f"Bearer {bearer}" if bearer else self.auth.header()
            sent = {
                **_USER_AGENT, "Accept": "application/json", **dict(self.settings.headers), **(headers or {}),
                **({"Content-Type": "application/json"} if data is not None else {}),
                **({"Authorization": authorization} if authorization else {}), **key,
            }  # fmt: skip
            signing = self.settings.signing
            secrets = (bearer or "", *self.auth.secrets(), *(signing.secrets() if signing else ()))
            answer = self._send(method, url, data, sent, secrets=secrets, keyed=keyed, signed=True, reads=reads)
            if last or answer.status not in (401, 419) or bearer or not self.auth.renewed(authorization):
                return answer
        raise AssertionError("the second answer is returned")

    def _token_answer(self, url: str, form: dict[str, str], headers: dict[str, str]) -> bytes:
        sent = {**_USER_AGENT, "Accept": "application/json", "Content-Type": "application/x-www-form-urlencoded", **headers}
        answer = self._send("POST", url, urlencode(form).encode(), sent, secrets=(*self.auth.secrets(), *form.values()))
        if answer.error is not None:
            raise raised(answer.error, f"No token could be had from {_host(url)}")
        return answer.body

    def _send(
        self, method: str, url: str, data: bytes | None, headers: Mapping[str, str], secrets: tuple[str, ...], *, keyed: bool = False,
        signed: bool = False, reads: bool = False,
    ) -> Answer:
        """Call the server, again after faults that pass: a request that only reads always, any other within the lifetime of its key."""
        unclear = False
        until = time.monotonic() + (self.key_lifetime_s or 0.0) if keyed else float("inf")
        for attempt in range(_ATTEMPTS if reads or keyed else 1):
            again = attempt < _ATTEMPTS - 1 and time.monotonic() + self.settings.read_timeout < until and (reads or keyed)
            try:
                with self._connected(method, url, data, self._signed(method, url, data, headers) if signed else headers, reads) as response:
                    answer = _answer(response, secrets, url, method, reads=reads)
                if keyed and again and answer.status in _TRANSIENT - _NOT_HANDLED:
                    unclear = True
                elif unclear and answer.status in (404, 409):  # our own first request, which may still run, may be the cause
                    text = f"The catalog's server {_host(url)} answers a repeated request: {answer.error}"
                    raise Unclear(text, hint="The request may have been handled.")
                else:
                    return answer
            except (StorageError, CorruptData):
                raise
            except self._urllib3.exceptions.HTTPError as error:
                never = self._never_sent(error)
                if never or not again:
                    failure = f"{method} {_host(url)}{urlsplit(url).path}: {_reason(error)}"
                    text = f"No answer from the catalog's server {_host(url)} to {scrubbed(failure, secrets)}"
                    if reads or (never and not unclear):
                        raise StorageError(text, hint="Check uri, the network and the server, then try again.") from None
                    raise Unclear(text, hint="The request may have been handled.") from None
                unclear = True
            time.sleep(0.1 * 4**attempt)
        raise AssertionError("the last attempt returns or raises")

    def _signed(self, method: str, url: str, data: bytes | None, headers: Mapping[str, str]) -> Mapping[str, str]:
        """Add a signature where that is configured; each time that a request is sent, since a signature counts for minutes."""
        signing = self.settings.signing
        return headers if signing is None else signed_headers(signing, method, url, headers, data)

    @contextlib.contextmanager
    def _connected(self, method: str, url: str, data: bytes | None, headers: Mapping[str, str], reads: bool) -> Iterator[Any]:
        settings, urllib3, retries = self.settings, self._urllib3, self.settings.retries
        retry = _retry_class()(
            total=retries, connect=retries, status=retries, read=retries if reads else False, other=retries if reads else False,
            redirect=False, raise_on_redirect=False, raise_on_status=False, status_forcelist=_TRANSIENT if reads else _NOT_HANDLED,
            allowed_methods=None, backoff_factor=0.1, backoff_jitter=0.1, backoff_max=_LONGEST_WAIT_S,
        )  # fmt: skip
        timeout = urllib3.Timeout(connect=settings.connect_timeout, read=settings.read_timeout)
        response = self._manager(url).request(
            method, url, body=data, headers=dict(headers), retries=retry, timeout=timeout, redirect=False, preload_content=False
        )
        try:
            yield response
        except BaseException:
            response.close()  # what is left of the body would be taken for the next answer
            raise
        finally:
            response.release_conn()

    def _manager(self, url: str) -> Any:
        with self._lock:
            if self._pool is None or self._pool[0] != os.getpid():
                self._pool = (os.getpid(), self._new_manager(url))
            return self._pool[1]

    def _new_manager(self, url: str) -> Any:
        settings, parts = self.settings, urlsplit(url)
        tls = {"ca_certs": settings.ca_bundle, "cert_file": settings.client_cert, "key_file": settings.client_key}
        options: dict[str, Any] = {"maxsize": 16, "num_pools": 4, **{k: v for k, v in tls.items() if v}}
        proxy = settings.proxy or _proxy_of_environment(parts.scheme, parts.hostname or "")
        if proxy is None:
            return self._urllib3.PoolManager(**options)
        if proxy.user is not None:
            pair = f"{proxy.user}:{proxy.password or ''}".encode()
            options["proxy_headers"] = {"Proxy-Authorization": f"Basic {base64.b64encode(pair).decode()}"}
        return self._urllib3.ProxyManager(proxy.address, **options)

    def _never_sent(self, error: Exception) -> bool:
        exceptions = self._urllib3.exceptions
        cause = getattr(error, "reason", None) or error
        if isinstance(cause, exceptions.SSLError):  # other faults of TLS may come after the request has been sent
            return any(isinstance(a, ssl.SSLCertVerificationError) for a in cause.args)
        if isinstance(cause, exceptions.ProxyError):  # also of a proxy that was sent the request and then cut the connection
            cause = cause.original_error
            if type(cause) is OSError and str(cause).startswith("Tunnel connection failed"):
                return True
        return isinstance(cause, exceptions.NewConnectionError | exceptions.ConnectTimeoutError | exceptions.LocationValueError)


def _proxy_of_environment(scheme: str, host: str) -> Proxy | None:
    """Return the proxy that HTTP_PROXY, HTTPS_PROXY and NO_PROXY name for a host, with the user and password in its address."""
    address = urllib.request.getproxies().get(scheme)
    if not address or urllib.request.proxy_bypass(host):
        return None
    parts = urlsplit(address if "://" in address else f"http://{address}")
    user = None if parts.username is None else unquote(parts.username)
    return Proxy(f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}", user, unquote(parts.password or ""))


def _answer(response: Any, secrets: tuple[str, ...], url: str, method: str, *, reads: bool) -> Answer:
    status, request_line = int(response.status), f"{method} {_host(url)}{scrubbed(urlsplit(url).path, secrets)}"
    if 300 <= status < 400 and status != 304:
        target = scrubbed(_host(str(response.headers.get("Location", ""))), secrets) or "another place"
        text = f"The catalog's server {_host(url)} redirects {request_line} to {target} (HTTP {status})."
        kind = Unclear if status == 303 and not reads else StorageError  # 303 says that the request was handled
        raise kind(text, hint="Redirects are not followed, as credentials could go astray: set uri to the address that is meant.")
    failed = status >= 400
    try:
        body = _read(response, _MAX_ERROR_BODY if failed else MAX_BODY, request_line, cut=failed)
    except (StorageError, CorruptData) as fault:
        if reads:
            raise
        raise Unclear(fault.message, hint="The request may have been handled.") from None
    error = server_error(status, str(response.headers.get("Content-Type", "")), body, secrets) if failed else None
    return Answer(status, response.headers, b"" if failed else body, error, request_line)


def _read(response: Any, limit: int, request_line: str, *, cut: bool) -> bytes:
    """Read a body of at most `limit` bytes after decompression. `cut`: what is longer is cut off instead of refused."""
    pieces, size, until = [], 0, time.monotonic() + _LONGEST_ANSWER_S
    while piece := response.read1(_PIECE, decode_content=True):  # what has come by now, so that time is told also where little comes
        pieces.append(piece)
        size += len(piece)
        if size > limit and cut:
            response.close()
            break
        if size > limit:
            text = f"The catalog's server answers {request_line} with more than {limit >> 20} MB."
            raise CorruptData(text, hint="Ask who runs the server.")
        if time.monotonic() > until:
            raise StorageError(f"The catalog's server takes more than {_LONGEST_ANSWER_S:.0f} s to answer {request_line}.")
    return b"".join(pieces)[:limit]


def _uuid7() -> uuid.UUID:
    """Make a UUID of version 7, which begins with the time (RFC 9562); Python has none before 3.14."""
    milliseconds, chance = time.time_ns() // 1_000_000, int.from_bytes(os.urandom(10)) >> 6
    return uuid.UUID(int=(milliseconds << 80) | (7 << 76) | ((chance >> 62) << 64) | (2 << 62) | (chance & (1 << 62) - 1))


def _host(url: str) -> str:
    """Return scheme, host and port of an address: what may be shown of it."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}" if parts.netloc else ""


def _reason(error: Exception) -> str:
    cause = getattr(error, "reason", None) or error
    return f"{type(cause).__name__}: {str(cause).rpartition('>: ')[2] or cause}"


def _urllib3() -> Any:
    try:
        import urllib3
    except ImportError as error:
        raise NotInstalledError("REST catalogs need urllib3.", hint='pip install "frazil[rest]"') from error
    return urllib3


def _retry_class() -> Any:
    """Return urllib3's Retry with bounds on what a server may ask for: how long to wait, and to repeat what may have been handled."""
    import urllib3

    class Bounded(urllib3.Retry):  # type: ignore[misc]  # typed only where urllib3 is installed
        RETRY_AFTER_STATUS_CODES = frozenset((429,))

        def get_retry_after(self, response: Any) -> float | None:
            try:
                wanted = super().get_retry_after(response)
            except (urllib3.exceptions.InvalidHeader, OverflowError, ValueError):
                return None
            return None if wanted is None else min(wanted, _LONGEST_WAIT_S)

    return Bounded


def _user_agent() -> dict[str, str]:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return {"User-Agent": f"Frazil/{version('frazil')}"}
    except PackageNotFoundError:
        return {"User-Agent": "Frazil"}


_USER_AGENT = _user_agent()
