"""Record in a table property when a maintenance task ran last, and at which version of the
metadata, so that no later run repeats it.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Mapping
from typing import Any

from frazil.catalog import LoadedTable
from frazil.commit.actions import MetadataChange
from frazil.maintain.procedure import MaintainedTable
from frazil.spec.metadata import TableMetadata
from frazil.spec.properties import MAINTENANCE
from frazil.spec.updates import SetProperties

_NUMBER = re.compile(r"v?(\d{1,9})[-.]")


def record_run(table: MaintainedTable, task: str) -> tuple[int, LoadedTable]:
    """Record that a task has run; return the time in milliseconds since 1970, and the state of the
    table before the record.
    """
    now, newest = int(time.time() * 1000), table.newest()
    mark = {"at": now, "version": version_number(newest.metadata_location)}
    with table.begin(newest) as operation:
        operation.stage(
            MetadataChange(
                lambda _: (SetProperties({f"{MAINTENANCE.prefix}{task}": json.dumps(mark)}),)
            )
        )
    return now, newest


def last_run(metadata: TableMetadata, task: str) -> int | None:
    """Return when a task ran last, in milliseconds since 1970; None if it never ran, or that is not
    known.
    """
    return _recorded(metadata, task, "at")


def last_version(metadata: TableMetadata, task: str) -> int:
    """Return the version of the metadata at which a task ran last; 0 if it never ran, or that is
    not known.
    """
    return _recorded(metadata, task, "version") or 0


def version_number(metadata_location: str) -> int | None:
    """Return the number with which the name of a metadata file begins; None where it has none."""
    number = _NUMBER.match(metadata_location.rpartition("/")[2])
    return None if number is None else int(number[1])


def _recorded(metadata: TableMetadata, task: str, word: str) -> int | None:
    try:
        mark: Mapping[str, Any] = json.loads(
            metadata.properties.get(f"{MAINTENANCE.prefix}{task}", "{}")
        )
        return int(mark[word])
    except (ValueError, KeyError, TypeError):
        return None
