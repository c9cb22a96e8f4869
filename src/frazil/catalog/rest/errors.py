"""Turn the answers of a REST catalog's server that report an error into errors of Frazil, with the
server's own type and message.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

from frazil.errors import (
    AlreadyExists,
    CommitFailedException,
    FrazilError,
    InvalidInput,
    NamespaceAlreadyExistsError,
    NamespaceNotEmptyError,
    NoSuchFileError,
    NoSuchNamespaceError,
    NoSuchTableError,
    NoSuchViewError,
    NotFound,
    StorageError,
    TableAlreadyExistsError,
    Unsupported,
    ViewAlreadyExistsError,
)
from frazil.storage import redact_text

_SHOWN = 1000
# By the type that the server names; what it names otherwise is decided by the status.
_BY_TYPE: dict[str, type[FrazilError]] = {
    "NoSuchTableException": NoSuchTableError, "NoSuchNamespaceException": NoSuchNamespaceError, "NoSuchViewException": NoSuchViewError,
    "NamespaceNotEmptyException": NamespaceNotEmptyError, "CommitFailedException": CommitFailedException,
    "NotFoundException": NoSuchFileError,
}  # fmt: skip
_BY_STATUS: dict[int, type[FrazilError]] = {
    400: InvalidInput, 404: NotFound, 406: Unsupported, 409: AlreadyExists, 422: InvalidInput, 501: Unsupported,
}  # fmt: skip
_CERTAIN = frozenset(
    (400, 401, 403, 404, 405, 406, 407, 409, 411, 413, 414, 415, 419, 422, 429, 431, 501)
)
_HINTS = {
    401: "Check the catalog's token, credential or auth.type.",
    403: "The server knows who asks, but does not allow it.",
    419: "The token has expired; give a new one, or a credential by which it is renewed.",
    429: "The server is asked too often; try again later.",
    503: "The server is not ready; try again later.",
}


@dataclass(frozen=True)
class ServerError:
    """Hold an answer that reports an error. `type` and `message` are the server's, without secrets."""

    status: int
    type: str
    message: str

    def __str__(self) -> str:
        text = ": ".join(t for t in (self.type, self.message) if t)
        return f"HTTP {self.status}" + (f", {text}" if text else "")


class _Error(msgspec.Struct):
    message: str | None = None
    type: str | None = None


class _Body(msgspec.Struct):
    """Hold the body of an answer that reports an error: `error` is an object in Iceberg's form, and
    a text in that of OAuth2 (RFC 6749, 5.2) and of some web servers; AWS and gateways before a
    server give a `message` alone, or beside a type."""

    error: _Error | str | None = None
    error_description: str | None = None
    type: str | None = msgspec.field(default=None, name="__type")
    message: str | None = None
    capital_message: str | None = msgspec.field(default=None, name="Message")

    def kind_and_message(self) -> tuple[str, str]:
        """Return the type and the message."""
        if isinstance(self.error, _Error):
            return self.error.type or "", self.error.message or ""
        return (
            self.error or self.type or "",
            self.error_description or self.message or self.capital_message or "",
        )


def server_error(
    status: int, content_type: str, body: bytes, secrets: Iterable[str]
) -> ServerError:
    """Read the error of an answer. A body that tells none, such as an HTML page, is left out."""
    kind = message = ""
    if "json" in content_type.lower():
        with contextlib.suppress(msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
            kind, message = msgspec.json.decode(body, type=_Body).kind_and_message()
    return ServerError(status, scrubbed(kind, secrets), scrubbed(message, secrets))


def scrubbed(text: str, secrets: Iterable[str]) -> str:
    """Return one short line of a server's text, without the secrets that it may repeat."""
    for secret in sorted(filter(None, secrets), key=len, reverse=True):
        text = text.replace(secret, "***")
    line = redact_text("".join(c if c.isprintable() else " " for c in text[: 4 * _SHOWN])).strip()
    return line if len(line) <= _SHOWN else line[:_SHOWN] + "…"


def certain(status: int) -> bool:
    """Tell whether a status that reports an error says for certain that a change was not applied.
    By others, such as 408, 499 and 5xx, a server or a proxy before it may only have given up to
    wait for it."""
    return status in _CERTAIN


def raised(error: ServerError, subject: str, **facts: str) -> FrazilError:
    """Return the error to raise. `subject`: what was asked for, as in "Table prod.db.t". `facts`:
    as of FrazilError.
    """
    kind: type[FrazilError] | None = _BY_TYPE.get(error.type)
    if kind is None and error.status == 409:
        kind = _already_there(error, facts)
    if kind is None and error.status == 404:
        known = {
            "table": NoSuchTableError,
            "view": NoSuchViewError,
            "namespace": NoSuchNamespaceError,
        }
        kind = next((error_type for fact, error_type in known.items() if fact in facts), NotFound)
    if kind is None:
        kind = _BY_STATUS.get(error.status, StorageError)
    return kind(
        f"{subject}: the catalog's server answers {error}.",
        hint=_HINTS.get(error.status),
        status=error.status,
        **facts,
    )


def _already_there(error: ServerError, facts: dict[str, str]) -> type[FrazilError]:
    if "view" in error.message.lower()[:4]:
        return ViewAlreadyExistsError
    return (
        TableAlreadyExistsError
        if "table" in facts
        else NamespaceAlreadyExistsError
        if "namespace" in facts
        else AlreadyExists
    )
