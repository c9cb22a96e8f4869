"""Keep the outcome of the last statement that wrote, for `frazil.last_result`."""

from __future__ import annotations

import threading
import weakref
from typing import Any

from frazil.ops.result import CommitResult

_LAST: weakref.WeakKeyDictionary[Any, CommitResult] = weakref.WeakKeyDictionary()
_LOCK = threading.Lock()
_OF_THREAD = threading.local()


def note(spark: Any, result: CommitResult) -> None:
    """Note the outcome of a write in a session; a write of any catalog passes here."""
    with _LOCK:
        _LAST[spark] = result
    if not hasattr(_OF_THREAD, "last"):
        _OF_THREAD.last = weakref.WeakKeyDictionary()
    _OF_THREAD.last[spark] = result


def last_of(spark: Any) -> CommitResult | None:
    """Return the outcome of the session's last write: of this thread, else of any; None where it has not written."""
    own: CommitResult | None = getattr(_OF_THREAD, "last", {}).get(spark)
    if own is not None:
        return own
    with _LOCK:
        return _LAST.get(spark)
