"""Files of an operation that no result names: of tasks that failed, or ran twice. Their names carry the operation's id."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable

from frazil.arrow.write.write_context import WriteContext
from frazil.storage.locations import base_name, data_root

_PAUSE = 0.5


def leave_only(context: WriteContext, kept: Iterable[str], linger: float = 0.0) -> None:
    """Removes the operation's files that are not kept. Best effort, since what stays is an orphan and harmless.

    `linger`: seconds, for which it goes on looking. Tasks that were told to stop may finish a file before they do.

    Never after an outcome that is not known: then every file may be part of the table. Files are told by their names, which are different
    for every file of an operation: a store may list a location in other words than those it was written by.
    """
    wanted = frozenset(base_name(k) for k in kept)
    with contextlib.suppress(Exception):
        storage = context.storage
        root = data_root(context.location, context.properties)
        until = time.monotonic() + linger
        while True:
            found = (f.location for f in storage.list(root) if context.operation_id in f.location)
            storage.delete_many([f for f in found if base_name(f) not in wanted])
            if time.monotonic() >= until:
                return
            time.sleep(_PAUSE)
