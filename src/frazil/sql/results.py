"""Keep the outcome of the last statement that wrote, for `frazil.last_result`."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Any

from frazil.ops.result import CommitResult
from frazil.spark.host.jvm import session_key
from frazil.table.engines import active_session

_MOST = 256
_LAST: OrderedDict[str, CommitResult] = OrderedDict()
_LOCK = threading.Lock()
_OF_THREAD = threading.local()


def note(spark: Any, result: CommitResult) -> None:
    """Note the outcome of a write in a session; a write of any catalog passes here."""
    session = session_key(spark)
    with _LOCK:
        _put(_LAST, session, result)
    if not hasattr(_OF_THREAD, "last"):
        _OF_THREAD.last = OrderedDict()
    _put(_OF_THREAD.last, session, result)


def _put(results: OrderedDict[str, CommitResult], session: str, result: CommitResult) -> None:
    """Keep a result as the latest of a session; sessions that have not written for long are forgotten."""
    results[session] = result
    results.move_to_end(session)
    while len(results) > _MOST:
        results.popitem(last=False)


def last_of(spark: Any) -> CommitResult | None:
    """Return the outcome of the session's last write: of this thread, else of any; None where it has not written."""
    session = session_key(spark)
    own: CommitResult | None = getattr(_OF_THREAD, "last", {}).get(session)
    return own if own is not None else _LAST.get(session)


def last_result(spark: Any = None) -> CommitResult | None:
    """Return the `CommitResult` of the last SQL statement that wrote in a session (None: the running one): of those of this thread, else of
    any thread. None if none has written."""
    session = active_session() if spark is None else spark
    return None if session is None else last_of(session)
