"""Write a success file into the folder of a partition that is complete (policy `success-file`)."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

from frazil.errors import NoSuchFileError
from frazil.spec.snapshot import MAIN_BRANCH
from frazil.storage import Storage
from frazil.storage.locations import join
from frazil.stream.partitions.policies.context import PartitionContext, Policy


def now_ms() -> int:
    """Read the system's clock, in milliseconds."""
    return time.time_ns() // 1_000_000


def success_file(storage: Storage, name: str, clock: Callable[[], int] = now_ms) -> Policy:
    """Make the policy. The file holds a JSON object with creationTime, modificationTime
    (milliseconds), watermark and late; when the partition is committed again, creationTime stays.
    On a branch other than main its name is followed by `.` and the branch's."""

    def write(context: PartitionContext) -> None:
        file = name if context.branch == MAIN_BRANCH else f"{name}.{quote(context.branch, safe='')}"
        location, now = join(context.path, file), clock()
        body = {
            "creationTime": _created(storage, location, now),
            "modificationTime": now,
            "watermark": context.watermark,
            "late": context.late,
        }
        storage.write(location, json.dumps(body).encode(), overwrite=True)

    return write


def _created(storage: Storage, location: str, now: int) -> int:
    try:
        body: Any = json.loads(storage.read(location))
    except (
        NoSuchFileError,
        ValueError,
    ):
        # ValueError: for example a file that another engine left empty
        return now
    created = body.get("creationTime") if isinstance(body, dict) else None
    return created if type(created) is int else now
