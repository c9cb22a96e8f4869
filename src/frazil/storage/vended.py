"""Refresh the credentials that a catalog vends for a table's files, before they expire, in whatever process they are used.

A catalog gives the storage a source: a frozen, picklable value that, called, answers with properties and the time at which they expire.
The storage travels to workers with the source. Each process asks it at most once for every life of the credentials, whatever the number
of its threads and tasks, early enough that a request that begins with the old ones still ends with them.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from frazil.errors import FrazilError, StorageError
from frazil.storage.base import frozen_properties

log = logging.getLogger(__name__)
EARLY_MS = 300_000  # before the end, as Java's VendedCredentialsProvider; of short lives, half


@dataclass(frozen=True)
class Credentials:
    """Hold vended credentials: `properties` (`s3.access-key-id`, …) take precedence over the catalog's own; `expires_ms`: since 1970, None:
    never."""

    properties: Mapping[str, str] = field(repr=False)
    expires_ms: int | None = None


CredentialsSource = Callable[[], Credentials]
"""Hashable and picklable; asks the catalog. Two that are equal vend the same."""


@dataclass
class _Held:
    lock: threading.Lock = field(default_factory=threading.Lock)
    credentials: Credentials | None = None
    renew_ms: float = 0.0


_HELD: dict[CredentialsSource, _Held] = {}
_LOCK = threading.Lock()


def current(source: CredentialsSource) -> Credentials:
    """Return credentials that can be used now. Raises StorageError when those at hand have expired and the source gives no others."""
    with _LOCK:
        held = _HELD.setdefault(source, _Held())
    with held.lock:
        now = time.time() * 1000
        if held.credentials is None or now >= held.renew_ms:
            _renew(source, held, now)
        assert held.credentials is not None
        return held.credentials


def _renew(source: CredentialsSource, held: _Held, now: float) -> None:
    try:
        credentials = source()
    except Exception as error:
        if held.credentials is not None and (held.credentials.expires_ms or 0) > now:
            held.renew_ms = min(now + 10_000, float(held.credentials.expires_ms or 0))
            log.warning("The catalog vends no new credentials; those at hand are used as long as they live: %s", type(error).__name__)
            return
        if isinstance(error, FrazilError):
            raise
        text = f"The catalog vends no credentials for the table's files: {type(error).__name__}."
        raise StorageError(text, hint="Look at the catalog, then try again.") from error
    if credentials.expires_ms is not None and credentials.expires_ms <= now:
        text = "The catalog vends credentials that have expired already."
        raise StorageError(text, hint="Compare this machine's clock with the catalog's.")
    held.credentials = credentials
    life = float("inf") if credentials.expires_ms is None else credentials.expires_ms - now
    held.renew_ms = now + life - min(EARLY_MS, life / 2)


def merged(properties: tuple[tuple[str, str], ...], source: CredentialsSource | None) -> tuple[tuple[str, str], ...]:
    """Merge a store's properties with the credentials that can be used now."""
    return properties if source is None else frozen_properties({**dict(properties), **current(source).properties})
