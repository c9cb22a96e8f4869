"""Files of an operation that no result names: of tasks that failed, or ran twice. Their names carry the operation's id."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Mapping
from typing import Protocol

from frazil.storage import Storage
from frazil.storage.locations import base_name, data_root

_PAUSE = 0.5


class Operation(Protocol):
    """A write whose files carry `operation_id` in their names, in the data folder of the table at `location`."""

    @property
    def storage(self) -> Storage: ...

    @property
    def location(self) -> str: ...

    @property
    def properties(self) -> Mapping[str, str]: ...

    @property
    def operation_id(self) -> str: ...


def leave_only(context: Operation, kept: Iterable[str], linger: float = 0.0) -> None:
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
