"""Refresh the credentials that a catalog vends for a table's files, before they expire, in whatever
process they are used.

A catalog gives the storage a source: a frozen, picklable value that, called, answers with
properties and the time at which they expire. The storage travels to workers with the source. Each
process asks it at most once for every life of the credentials, whatever the number of its threads
and tasks, early enough that a request that begins with the old ones still ends with them. While one
thread asks, the others go on with the credentials at hand as long as these live.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from frazil.errors import FrazilError, StorageError
from frazil.storage.base import frozen_properties
from frazil.storage.credentials.precedence import overriding

log = logging.getLogger(__name__)
EARLY_MS = 300_000  # before the end, as Java's VendedCredentialsProvider; of short lives, half
_AGAIN_MS = 10_000  # after the catalog has given none
_MOST_HELD = 1000  # sources, of which scans that the server plans bring a new one each


@dataclass(frozen=True)
class Credentials:
    """Hold vended credentials: `properties` (`s3.access-key-id`, …) take precedence over the
    catalog's own; `expires_ms`: since 1970, None: never."""

    properties: Mapping[str, str] = field(repr=False)
    expires_ms: int | None = None


CredentialsSource = Callable[[], Credentials]
"""Hashable and picklable; asks the catalog. Two that are equal vend the same. One that keeps what
it was given first has a method `anew`, which asks in any case."""


@dataclass
class _Held:
    """Hold the credentials of a source, and the time (milliseconds since 1970) at which they are
    renewed; they are replaced together.

    `refused_ms`: when a store last refused some before their end. `generation`: how often it did so
    and the source gave others.
    """

    lock: threading.Lock = field(default_factory=threading.Lock)
    state: tuple[Credentials, float] | None = None
    refused_ms: float = 0.0
    generation: int = 0

    def fresh(self) -> Credentials | None:
        """Return the credentials if they need not be renewed yet."""
        state = self.state
        return state[0] if state is not None and time.time() * 1000 < state[1] else None

    def living(self) -> Credentials | None:
        """Return the credentials if they can still be used, though it may be time to renew them."""
        state = self.state
        return (
            state[0]
            if state is not None and time.time() * 1000 < (state[0].expires_ms or float("inf"))
            else None
        )


_HELD: OrderedDict[CredentialsSource, _Held] = OrderedDict()
_LOCK = threading.Lock()


def current(source: CredentialsSource) -> Credentials:
    """Return credentials that can be used now. Raises StorageError when those at hand have expired
    and the source gives no others.
    """
    held = _held(source)
    if (fresh := held.fresh()) is not None:
        return fresh
    living = held.living()
    if not held.lock.acquire(blocking=living is None):
        assert living is not None, "a lock that is waited for is had"
        return living
    try:
        return held.fresh() or _renewed(source, held)
    finally:
        held.lock.release()


def renewed(source: CredentialsSource, refused: Credentials) -> bool:
    """Ask for other credentials than those that a store refuses before their end, as it may when
    they were revoked; tell whether there are others now. A catalog is asked so at most once in ten
    seconds: it may be that these credentials have no permission."""
    held = _held(source)
    with held.lock:
        if held.state is not None and held.state[0] is not refused:
            return True  # another thread was first
        if (now := time.time() * 1000) - held.refused_ms < _AGAIN_MS:
            return False
        held.refused_ms = now
        with contextlib.suppress(FrazilError):  # the store's own error tells more
            others = _renewed(getattr(source, "anew", source), held)
            if dict(others.properties) != dict(refused.properties):
                held.generation += 1
                log.warning(
                    "A store refuses credentials that the catalog has vended; it has vended others."
                )
                return True
        return False


def generation(source: CredentialsSource | None) -> int:
    """Return how often a store has refused credentials of a source, which gave others then. Clients
    that keep some are made anew.
    """
    return 0 if source is None else _held(source).generation


def _held(source: CredentialsSource) -> _Held:
    with _LOCK:
        held = _HELD.setdefault(source, _Held())
        _HELD.move_to_end(source)
        while len(_HELD) > _MOST_HELD:
            _HELD.popitem(last=False)
        return held


def _renewed(source: CredentialsSource, held: _Held) -> Credentials:
    try:
        credentials = source()
    except Exception as error:
        if (living := held.living()) is not None:
            held.state = (
                living,
                min(time.time() * 1000 + _AGAIN_MS, float(living.expires_ms or "inf")),
            )
            log.warning(
                "The catalog vends no new credentials; those at hand are used as long as they live: %s",
                type(error).__name__,
            )
            return living
        if isinstance(error, FrazilError):
            raise
        text = f"The catalog vends no credentials for the table's files: {type(error).__name__}."
        raise StorageError(text, hint="Look at the catalog, then try again.") from error
    now = time.time() * 1000  # after the source was asked, which may have taken its time
    life = float("inf") if credentials.expires_ms is None else credentials.expires_ms - now
    if life <= 0:
        text = "The catalog vends credentials that have expired already."
        raise StorageError(text, hint="Compare this machine's clock with the catalog's.")
    held.state = (credentials, now + life - min(EARLY_MS, life / 2))
    return credentials


def merged(
    properties: tuple[tuple[str, str], ...], source: CredentialsSource | None
) -> tuple[tuple[str, str], ...]:
    """Merge a store's properties with the credentials that can be used now, which count before
    them.
    """
    return (
        properties
        if source is None
        else frozen_properties(overriding(dict(properties), current(source).properties))
    )
