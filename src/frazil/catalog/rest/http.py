"""Call a REST catalog's server over pooled connections, with time limits, bounded answers, and
retries where they are safe.

A request that only reads is sent again after a lost connection, 429, 502, 503 or 504. One that
changes something is sent again only if it certainly was not handled: no connection could be made,
or the server answered 429; or if the server knows `Idempotency-Key`, by which it handles a request
once, however often it comes. Once the outcome of one sending is not known, no later answer but
success makes it certain. `rest.client.max-retries` bounds how often a request is sent again. No
redirect is followed: a token could go astray.
"""

from __future__ import annotations

import base64
import contextlib
import itertools
import os
import random
import re
import ssl
import threading
import time
import urllib.request
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote, urlencode, urlsplit

import msgspec

from frazil.catalog.base import Unclear
from frazil.catalog.rest.auth import Authentication
from frazil.catalog.rest.errors import ServerError, raised, scrubbed, server_error
from frazil.catalog.rest.settings import Proxy, Settings, fits_header
from frazil.catalog.rest.sigv4 import signed_headers
from frazil.codec.metadata_json import MAX_RATIO
from frazil.errors import CorruptData, FrazilError, InvalidInput, NotInstalledError, StorageError

if TYPE_CHECKING:
    from urllib3 import BaseHTTPResponse

# bytes of an answer about a table: ten thousand snapshots have 10 MB, each file of a planned scan
# some 500 bytes
MAX_BODY = 1 << 28
MAX_NAMES = 1 << 24  # bytes of a page of names: half a million
# bytes that any compressed body may grow to; beyond them the ratio of metadata files holds
_FREE_BYTES = 1 << 26
_MAX_ERROR_BODY = _MAX_TOKEN_BODY = 1 << 20
_PIECE = 1 << 16  # so much is decompressed at once
_LONGEST_WAIT_S = 10.0
_LONGEST_ANSWER_S = 600.0
_READING = ("GET", "HEAD")
_MAY_BE_HANDLED = "The request may have been handled."
# Statuses of a request that the server has not handled, and of one that may succeed when it is sent
# again.
_NOT_HANDLED, _TRANSIENT = frozenset((429,)), frozenset((429, 502, 503, 504))


@dataclass(frozen=True)
class Answer:
    """Hold the answer to a request. `error`: what the server reports, None for success.
    `request_line`: the request, for messages.
    """

    status: int
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)
    error: ServerError | None = None
    request_line: str = ""


@dataclass
class _Call:
    """Hold a request that may be sent several times, and what has become of it. `timeout`: the
    longest that one sending takes, in seconds. `known_until`: the time (`time.monotonic`) until
    which the server knows the request's key; None: it has none. `retries`: how many are left.
    `most`: the bytes that an answer may have. `unclear`: it changes something, and was sent once at
    least without an answer that tells whether it was handled."""

    method: str
    url: str
    data: bytes | None = field(repr=False)
    reads: bool
    timeout: float
    retries: int
    known_until: float | None = None
    unclear: bool = False
    most: int = _MAX_TOKEN_BODY

    def repeats(self, pause: float, *, handled: bool) -> bool:
        """Tell whether to send the request again after a fault and a pause of some seconds.
        `handled`: the server may have handled it.
        """
        return (
            self.retries > 0
            and (not handled or self.reads or self._is_known(pause))
            and self.may_be_sent(pause)
        )

    def may_be_sent(self, pause: float = 0.0) -> bool:
        """Tell whether the server would not handle the request a second time if it were sent after
        a pause of some seconds.
        """
        return self.reads or not self.unclear or self._is_known(pause)

    def _is_known(self, pause: float) -> bool:
        return (
            self.known_until is not None
            and time.monotonic() + pause + self.timeout < self.known_until
        )


class Client:
    """Call one server. It may be used by several threads; a process that was forked opens
    connections of its own.
    """

    def __init__(self, settings: Settings):
        self.settings = settings
        self.auth = Authentication(settings.auth, self._token_answer)
        self.key_lifetime_s: float | None = None
        """How long the server knows the key of a request that changes something; None: it takes no
        keys.
        """
        self._urllib3 = _urllib3()
        self._pools: dict[Proxy | None, Any] = {}  # by the proxy through which they go
        self._pool_owner = os.getpid()
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
            pools, self._pools = self._pools, {}
        for pool in pools.values() if self._pool_owner == os.getpid() else ():
            pool.clear()

    def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: object = None,
        headers: Mapping[str, str] | None = None,
        bearer: str | None = None,
        repeatable: bool = False,
        most: int | None = None,
    ) -> Answer:
        """Call a path below the server's address and return its answer, also one that reports an
        error. A whole address is called as it is: whose it is, the caller has checked.

        `body`: sent as JSON. `bearer`: a token for this request alone. `repeatable`: the request
        changes nothing, whatever its method. `most`: the bytes that an answer may have.
        Raises Unclear when a request that changes something may have been handled, StorageError
        when it certainly was not, CorruptData for an answer that is too large.
        """
        url = _below(path if "://" in path else f"{self.settings.uri}/{path}") + (
            f"?{urlencode(query, quote_via=quote)}" if query else ""
        )
        call = self._call(
            method,
            url,
            None if body is None else msgspec.json.encode(body),
            reads=repeatable or method in _READING,
        )
        call.most = MAX_BODY if most is None else most
        if self.key_lifetime_s is not None and not call.reads:
            call.known_until = time.monotonic() + self.key_lifetime_s
            headers = {**(headers or {}), "Idempotency-Key": str(_uuid7())}
        try:
            answer = self._authorized(call, headers or {}, bearer)
        except Unclear:
            raise
        except FrazilError as error:
            if not call.unclear:
                raise
            raise Unclear(error.message, hint=_MAY_BE_HANDLED) from error
        if call.unclear and answer.error is not None:
            # the first request, which may still run, may be the cause
            raise Unclear(
                f"The catalog's server {_host(url)} answers a repeated request: {answer.error}",
                hint=_MAY_BE_HANDLED,
            )
        return answer

    def secrets(self) -> tuple[str, ...]:
        """Return every secret of the catalog that an answer could repeat."""
        signing = self.settings.signing
        return (
            *self.auth.secrets(),
            *(signing.secrets() if signing else ()),
            *self.settings.header_secrets(),
        )

    def _call(self, method: str, url: str, data: bytes | None, *, reads: bool) -> _Call:
        return _Call(
            method,
            url,
            data,
            reads,
            self.settings.connect_timeout + self.settings.read_timeout,
            self.settings.retries,
        )

    def _authorized(self, call: _Call, headers: Mapping[str, str], bearer: str | None) -> Answer:
        """Call the server with headers and authentication, once more by a newer token where the
        first one is refused.
        """
        for last in (False, True):
            authorization = f"Bearer {bearer}" if bearer else self.auth.header()
            sent = {
                **_USER_AGENT,
                "Accept": "application/json",
                **dict(self.settings.headers),
                **headers,
                **({"Content-Type": "application/json"} if call.data is not None else {}),
                **({"Authorization": authorization} if authorization else {}),
            }
            answer = self._send(call, sent, (bearer or "", *self.secrets()), signed=True)
            if (
                last
                or answer.status not in (401, 419)
                or bearer
                or not self.auth.renewed(authorization)
                or not call.may_be_sent()
            ):
                return answer
        raise AssertionError("the second answer is returned")

    def _token_answer(self, url: str, form: dict[str, str], headers: dict[str, str]) -> bytes:
        # others are sent no secrets of the catalog
        at_own_host = urlsplit(url)[:2] == urlsplit(self.settings.uri)[:2]
        sent = {
            **_USER_AGENT,
            "Accept": "application/json",
            **(dict(self.settings.headers) if at_own_host else {}),
            "Content-Type": "application/x-www-form-urlencoded",
            **headers,
        }
        # one token more does no harm
        call = self._call("POST", _below(url), urlencode(form).encode(), reads=True)
        try:
            answer = self._send(
                call,
                sent,
                (
                    *self.secrets(),
                    *(form.get(field, "") for field in ("client_secret", "subject_token")),
                ),
            )
        except StorageError as error:
            error.advise("Tokens come from oauth2-server-uri.")
            raise
        if answer.error is not None:
            refusal = raised(answer.error, f"Cannot get a token from {_host(url)}")
            refusal.advise("Check credential, scope, audience, resource and oauth2-server-uri.")
            raise refusal
        return answer.body

    def _send(
        self,
        call: _Call,
        headers: Mapping[str, str],
        secrets: tuple[str, ...],
        *,
        signed: bool = False,
    ) -> Answer:
        """Call the server and return the answer; again after faults that pass, as long as `call`
        has retries.
        """
        for attempt in itertools.count():
            pause = min(_LONGEST_WAIT_S, 0.1 * 2**attempt * random.uniform(0.5, 1.0))
            try:
                with self._connected(
                    call, self._signed(call, headers) if signed else headers
                ) as response:
                    answer = _answer(response, secrets, call)
            except self._urllib3.exceptions.HTTPError as error:
                handled = not self._never_sent(error)
                call.unclear |= handled and not call.reads
                if not call.repeats(pause, handled=handled):
                    raise _lost(call, error, secrets) from None
            else:
                handled, pause = (
                    answer.status not in _NOT_HANDLED,
                    max(pause, self._asked_pause(answer)),
                )
                if answer.status not in _TRANSIENT or not call.repeats(pause, handled=handled):
                    return answer
                call.unclear |= handled and not call.reads
            call.retries -= 1
            time.sleep(pause)
        raise AssertionError("the last attempt returns or raises")

    def _asked_pause(self, answer: Answer) -> float:
        """Return how many seconds the server asks to wait, at most `_LONGEST_WAIT_S`."""
        try:
            wanted = self._urllib3.Retry().parse_retry_after(answer.headers.get("Retry-After", "0"))
        except (self._urllib3.exceptions.InvalidHeader, OverflowError, ValueError):
            return 0.0
        return min(float(wanted), _LONGEST_WAIT_S)

    def _signed(self, call: _Call, headers: Mapping[str, str]) -> Mapping[str, str]:
        """Add a signature where that is configured; each time that a request is sent, since a
        signature counts for minutes.
        """
        signing = self.settings.signing
        return (
            headers
            if signing is None
            else signed_headers(signing, call.method, call.url, headers, call.data)
        )

    @contextlib.contextmanager
    def _connected(self, call: _Call, headers: Mapping[str, str]) -> Iterator[Any]:
        _check_headers(headers)
        timeout = self._urllib3.Timeout(
            connect=self.settings.connect_timeout, read=self.settings.read_timeout
        )
        response = self._manager(call.url).request(
            call.method,
            call.url,
            body=call.data,
            headers=dict(headers),
            retries=False,
            timeout=timeout,
            redirect=False,
            preload_content=False,
        )
        try:
            yield response
        except BaseException:
            response.close()  # what is left of the body would be taken for the next answer
            raise
        finally:
            response.release_conn()

    def _manager(self, url: str) -> Any:
        """Return the connections for a host: those through the proxy that counts for it, or those
        without one.
        """
        parts = urlsplit(url)
        proxy = self.settings.proxy or _proxy_of_environment(
            parts.scheme, parts.hostname or "", parts.netloc.rpartition("@")[2]
        )
        with self._lock:
            if self._pool_owner != os.getpid():
                self._pools, self._pool_owner = {}, os.getpid()
            if proxy not in self._pools:
                self._pools[proxy] = self._new_manager(proxy)
            return self._pools[proxy]

    def _new_manager(self, proxy: Proxy | None) -> Any:
        settings = self.settings
        tls = {
            "ca_certs": settings.ca_bundle,
            "cert_file": settings.client_cert,
            "key_file": settings.client_key,
        }
        options: dict[str, Any] = {
            "maxsize": 16,
            "num_pools": 4,
            **{k: v for k, v in tls.items() if v},
        }
        if proxy is None:
            return self._urllib3.PoolManager(**options)
        if proxy.user is not None:
            pair = f"{proxy.user}:{proxy.password or ''}".encode()
            options["proxy_headers"] = {
                "Proxy-Authorization": f"Basic {base64.b64encode(pair).decode()}"
            }
        return self._urllib3.ProxyManager(proxy.address, **options)

    def _never_sent(self, error: Exception) -> bool:
        exceptions = self._urllib3.exceptions
        cause = getattr(error, "reason", None) or error
        if isinstance(cause, exceptions.SSLError):
            # other faults of TLS may come after the request has been sent
            return any(isinstance(a, ssl.SSLCertVerificationError) for a in cause.args)
        if isinstance(cause, exceptions.ProxyError):
            # also of a proxy that was sent the request and then cut the connection
            cause = cause.original_error
            if type(cause) is OSError and str(cause).startswith("Tunnel connection failed"):
                return True
        return isinstance(
            cause,
            exceptions.NewConnectionError
            | exceptions.ConnectTimeoutError
            | exceptions.LocationValueError,
        )


def _check_headers(headers: Mapping[str, str]) -> None:
    """Refuse what no header can hold, as of a token that was read from a file of several lines: the
    error that would follow quotes it.
    """
    for name, value in headers.items():
        if not fits_header(value):
            text = f"The header {name} of a request to the catalog's server would hold a character that HTTP does not allow."
            raise InvalidInput(
                text,
                hint="Check the token, key or credential that it is made of for line breaks and foreign characters.",
            )


def _proxy_of_environment(scheme: str, host: str, host_and_port: str) -> Proxy | None:
    """Return the proxy that HTTP_PROXY, HTTPS_PROXY and NO_PROXY name for a host, with the user and
    password in its address.
    """
    address = urllib.request.getproxies().get(scheme)
    if (
        not address
        or urllib.request.proxy_bypass(host)
        or urllib.request.proxy_bypass(host_and_port)
    ):
        return None
    parts = urlsplit(address if "://" in address else f"http://{address}")
    user = None if parts.username is None else unquote(parts.username)
    return Proxy(
        f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}", user, unquote(parts.password or "")
    )


def _lost(call: _Call, error: Exception, secrets: tuple[str, ...]) -> StorageError:
    """Return the error of a request that was not answered."""
    failure = f"{call.method} {_host(call.url)}{urlsplit(call.url).path}: {_reason(error)}"
    text = f"No answer from the catalog's server {_host(call.url)} to {scrubbed(failure, secrets)}"
    if call.unclear:
        return Unclear(text, hint=_MAY_BE_HANDLED)
    return StorageError(text, hint="Check uri, the network and the server, then try again.")


def _answer(response: BaseHTTPResponse, secrets: tuple[str, ...], call: _Call) -> Answer:
    url, method, reads = call.url, call.method, call.reads
    status, request_line = (
        int(response.status),
        f"{method} {_host(url)}{scrubbed(urlsplit(url).path, secrets)}",
    )
    if 300 <= status < 400 and status != 304:
        target = (
            scrubbed(_host(str(response.headers.get("Location", ""))), secrets) or "another place"
        )
        text = f"The catalog's server {_host(url)} redirects {request_line} to {target} (HTTP {status})."
        # 307 and 308 ask for the same request elsewhere; the others, for another one that may show
        # what came of this.
        kind = StorageError if reads or status in (307, 308) else Unclear
        raise kind(
            text,
            hint="Redirects are not followed, as credentials could go astray: set uri to the address that is meant.",
        )
    failed = status >= 400
    try:
        body = _read(response, _MAX_ERROR_BODY if failed else call.most, request_line, cut=failed)
    except (StorageError, CorruptData) as fault:
        if reads:
            raise
        raise Unclear(fault.message, hint=_MAY_BE_HANDLED) from None
    error = (
        server_error(status, str(response.headers.get("Content-Type", "")), body, secrets)
        if failed
        else None
    )
    return Answer(status, response.headers, b"" if failed else body, error, request_line)


def _read(response: BaseHTTPResponse, limit: int, request_line: str, *, cut: bool) -> bytes:
    """Read a body of at most `limit` bytes after decompression. `cut`: what is longer is cut off
    instead of refused.
    """
    pieces, size, until = [], 0, time.monotonic() + _LONGEST_ANSWER_S
    compressed = bool(response.headers.get("Content-Encoding"))
    while piece := response.read1(_PIECE, decode_content=True):
        # read1 returns the bytes that are there, so that the limit of time holds for slow answers
        pieces.append(piece)
        size += len(piece)
        if size > limit and cut:
            response.close()
            break
        if size > limit:
            text = f"The catalog's server answers {request_line} with more than {limit >> 20} MB."
            raise CorruptData(text, hint="Ask who runs the server.")
        if compressed and size > max(_FREE_BYTES, MAX_RATIO * response.tell()):
            text = f"The catalog's server answers {request_line} with a compressed body that becomes far larger than its size allows."
            raise CorruptData(text, hint="Ask who runs the server.")
        if time.monotonic() > until:
            raise StorageError(
                f"The catalog's server takes more than {_LONGEST_ANSWER_S:.0f} s to answer {request_line}."
            )
    return b"".join(pieces)[:limit]


def _below(url: str) -> str:
    """Return an address whose path stays below where it begins. Raises CorruptData for `.` and `..`
    in it, encoded or not, which clients and servers resolve: a server that names such a prefix or
    plan would have requests, with their tokens, go to other programs there."""
    path = urlsplit(url).path
    for text in (path, unquote(path), unquote(unquote(path))):
        if {".", ".."} & set(re.split(r"[/\\]", text)):
            shown = f"A request to the catalog's server would leave its path by '.' or '..': {_host(url)}{path[:200]}."
            raise CorruptData(shown, hint="Check prefix and uri.")
    return url


def _uuid7() -> uuid.UUID:
    """Make a UUID of version 7, which begins with the time (RFC 9562); Python has none before 3.14."""
    milliseconds, chance = time.time_ns() // 1_000_000, int.from_bytes(os.urandom(10)) >> 6
    return uuid.UUID(
        int=(milliseconds << 80)
        | (7 << 76)
        | ((chance >> 62) << 64)
        | (2 << 62)
        | (chance & (1 << 62) - 1)
    )


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
        raise NotInstalledError(
            "REST catalogs need urllib3.", hint='pip install "frazil[rest]"'
        ) from error
    return urllib3


def _user_agent() -> dict[str, str]:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return {"User-Agent": f"Frazil/{version('frazil')}"}
    except PackageNotFoundError:
        return {"User-Agent": "Frazil"}


_USER_AGENT = _user_agent()
