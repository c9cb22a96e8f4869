"""Check that an object store honours conditional writes, on which the commits of path tables rest,
before the first of them.

Some stores that speak S3's protocol ignore the header If-None-Match, so that two writers would both
win and one commit be lost in silence; others answer that they do not implement it. Neither is told
by anything but trying.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import uuid
from collections.abc import Callable
from typing import Any

from frazil.errors import FrazilError, Unsupported

log = logging.getLogger(__name__)
_HINT = "Use a catalog that keeps the pointer itself (type sql, rest or hive), or a store that honours If-None-Match (AWS S3 does)."
_NOT_IMPLEMENTED = ("501 Not Implemented", "HTTP 501")
_proved: set[tuple[Any, ...]] = set()
_trying: dict[tuple[Any, ...], threading.Lock] = {}

Create = Callable[[str], bool]
"""Create the object at a location unless there is one; returns False if there is. Raises what the
store's library raises.
"""


def check_conditional_writes(
    bucket: tuple[Any, ...], location: str, create: Create, delete: Callable[[str], None]
) -> None:
    """Create an object beside `location` twice, and check that the second time is refused; once for
    each bucket and process.

    `bucket`: what identifies the bucket and its server. Raises Unsupported where the store ignores
    or refuses conditions, and what `create` raises for other failures, after which it is checked
    again next time.
    """
    if bucket in _proved:
        return
    with _trying.setdefault(
        bucket, threading.Lock()
    ):  # commits of other threads to this bucket wait for the answer
        if bucket in _proved:
            return
        # clean-ups know this form as temporary
        probe = f"{location.rpartition('/')[0]}/.conditional-write.{uuid.uuid4().hex}.tmp"
        try:
            # Also a first time that finds an object proves it: it has met itself, sent again after
            # a lost answer.
            if create(probe) and create(probe):
                raise _refusal(
                    location,
                    "ignores conditional writes (If-None-Match): it let a second writer replace an object",
                )
        except Exception as error:
            if any(text in str(error) for text in _NOT_IMPLEMENTED):
                raise _refusal(
                    location,
                    "does not implement conditional writes (If-None-Match): it answers with 501",
                ) from error
            raise
        finally:
            with contextlib.suppress(FrazilError):
                delete(probe)
        _proved.add(bucket)
        log.debug("%s: conditional writes are honoured.", location)


os.register_at_fork(
    after_in_child=_trying.clear
)  # a lock may be held by a thread that only the parent has


def _refusal(location: str, reason: str) -> Unsupported:
    bucket = "/".join(location.split("/")[:3])
    text = f"Path tables are not safe in {bucket}: the store {reason}, so commits of several writers could be lost."
    return Unsupported(text, hint=_HINT, file=location)
