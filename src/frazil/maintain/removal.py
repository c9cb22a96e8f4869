"""Delete many files in parallel: those that are gone already count as deleted, and one that cannot
be deleted is logged and left.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

import pyarrow as pa

from frazil.errors import InvalidInput
from frazil.maintain.progress import Progress
from frazil.ops.arguments import number
from frazil.scan.manifests import each
from frazil.scan.options import default_workers
from frazil.storage import Storage

_log = logging.getLogger("frazil.maintain")
_AT_ONCE = 500
_SHOWN = 10


def deleting_threads(max_concurrent_deletes: int | None) -> int:
    """Return the number of threads that delete files. Raises InvalidInput for a number below 1."""
    wanted = number("max_concurrent_deletes", max_concurrent_deletes)
    if wanted is not None and wanted < 1:
        raise InvalidInput(f"max_concurrent_deletes should have value > 0, value: {wanted}")
    return default_workers() if wanted is None else wanted


def delete_files(
    storage: Storage,
    paths: Sequence[str] | pa.Array | pa.ChunkedArray,
    threads: int,
    shown: Progress,
) -> list[str]:
    """Delete files; return those that could not be deleted, which are logged. Never raises because
    of a file.
    """

    def delete(start: int) -> list[str]:
        part = paths[start : start + _AT_ONCE]
        batch = part.to_pylist() if isinstance(part, pa.Array | pa.ChunkedArray) else list(part)
        try:
            failed = storage.delete_many(batch)
        except Exception as error:  # any error of the store: the others are deleted all the same
            failed = [(location, error) for location in batch]
        shown.advance(len(batch))
        for location, problem in failed[:_SHOWN]:
            _log.warning("Could not delete %s, which stays: %s", location, problem)
        if len(failed) > _SHOWN:
            _log.warning("Could not delete %d files more", len(failed) - _SHOWN)
        return [location for location, _ in failed]

    return [
        location
        for failed in each(delete, range(0, len(paths), _AT_ONCE), threads)
        for location in failed
    ]
