"""Keep the outcome of the last statement that wrote, for `frazil.last_result`."""

from __future__ import annotations

import threading
from collections import OrderedDict

from frazil.ops.operation import CommitResult
from frazil.ops.session import Session
from frazil.spark.host.jvm import session_key, thread_key
from frazil.table.engines import active_session

_MOST = 256
_LAST: OrderedDict[tuple[str, int | None], CommitResult] = OrderedDict()
"""The latest results by session and thread, and by session alone."""
_LOCK = threading.Lock()


def note(spark: Session, result: CommitResult) -> None:
    """Note the outcome of a write in a session; a write of any catalog passes here."""
    session, thread = session_key(spark), thread_key(spark)
    with _LOCK:
        for key in ((session, thread), (session, None)):
            _LAST[key] = result
            _LAST.move_to_end(key)
        while len(_LAST) > _MOST:
            _LAST.popitem(last=False)


def last_result(spark: Session | None = None) -> CommitResult | None:
    """Return the `CommitResult` of the last SQL statement that wrote in a session (None: the
    running one): of those of this thread, else of any thread. None if none has written."""
    session = active_session() if spark is None else spark
    if session is None:
        return None
    key, thread = session_key(session), thread_key(session)
    own = _LAST.get((key, thread))
    return own if own is not None else _LAST.get((key, None))
