"""Remove the files that a failed commit wrote: exactly these, and only when it is certain that no
table refers to them.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from frazil.storage.base import Storage

log = logging.getLogger(__name__)


def remove(storage: Storage, locations: Iterable[str], why: str) -> None:
    """Delete files; one that cannot be deleted is left as an orphan, with a warning, never an
    error.
    """
    wanted = list(dict.fromkeys(locations))
    if not wanted:
        return
    try:
        failed = storage.delete_many(wanted)
    except (
        Exception
    ) as e:  # any error of the store: the caller must get the outcome of the commit, not this error
        log.warning("Could not remove %d files of %s: %s", len(wanted), why, e)
        return
    for location, error in failed:
        log.warning("Could not remove %s of %s: %s", location, why, error)
