"""Tell apart the batches that a query has under one number: a digest of what a batch reads, from
the log of offsets in its checkpoint.

A checkpoint that was restored from a backup counts its batches from there, so its next batch may
have the number of one that is committed, and other rows. Spark writes `offsets/<batch>` before a
batch begins, and a batch that is sent again after a crash reads it unchanged.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
from collections.abc import Callable
from typing import Any

log = logging.getLogger(__name__)
ReadText = Callable[[str], str | None]
"""Reads a file of a checkpoint by its path below the checkpoint's folder; None: there is none."""
# lines before the offsets: the version, and watermark, time and settings, which differ when a batch
# is planned again
_HEAD = 2
# in version 2 of the log the name of the source stands before its offset
_NAMED = re.compile(r"([\w.-]+):(?=[\[{])")


def batch_digest(batch_id: int, read: ReadText) -> str | None:
    """Return a digest of the offsets at which a batch ends; None where the checkpoint does not say
    them.
    """
    try:
        lines = (read(f"offsets/{batch_id}") or "").splitlines()[_HEAD:]
        parts = [_identity(n, line, read) for n, line in enumerate(lines)]
    except Exception as e:
        # the batch is written as those of older checkpoints are, whose marks hold no digest
        log.warning("The offsets of batch %d cannot be read from its checkpoint: %s", batch_id, e)
        return None
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:32] if parts else None


def _identity(place: int, line: str, read: ReadText) -> str:
    """Return a text that is the same for the same offset of a source, however it is written."""
    name = match[1] if (match := _NAMED.match(line)) else str(place)
    text = line[match.end() :] if match else line
    try:
        offset: Any = json.loads(text)
    except ValueError:
        return f"{name}:{text}"
    files = _listed_files(name, offset, read)
    return f"{name}:{json.dumps([offset, files], sort_keys=True)}"


def _listed_files(name: str, offset: object, read: ReadText) -> list[str]:
    """List the files of a batch of Spark's file source, whose offset is only the number of a list
    in `sources/`.
    """
    number = offset.get("logOffset") if isinstance(offset, dict) and len(offset) == 1 else None
    if type(number) is not int:
        return []
    text = read(f"sources/{name}/{number}") or read(f"sources/{name}/{number}.compact") or ""
    entries = [json.loads(line) for line in text.splitlines()[1:]]
    return sorted(str(e["path"]) for e in entries if e.get("batchId", number) == number)
