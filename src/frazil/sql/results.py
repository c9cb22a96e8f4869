"""Keep the outcome of the last statement that wrote, for `frazil.last_result`."""

from __future__ import annotations

import threading
import weakref
from typing import Any

from frazil.ops.result import CommitResult

_LAST: weakref.WeakKeyDictionary[Any, CommitResult] = weakref.WeakKeyDictionary()
_LOCK = threading.Lock()


def note(spark: Any, result: CommitResult) -> None:
    """Note the outcome of a write in a session; a write of any catalog passes here."""
    with _LOCK:
        _LAST[spark] = result


def last_of(spark: Any) -> CommitResult | None:
    """Return the outcome of the session's last write; None where it has not written."""
    return _LAST.get(spark)
