"""Turn local date-times into instants in a time zone, on days that gain or lose an hour as
java.time does.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def zone_of(name: str) -> tzinfo | None:
    """Look up a time zone: a name of the IANA database, or an offset such as `+08:00`, `GMT+8`,
    `UTC-03:30`; None: there is none.
    """
    offset = re.fullmatch(r"(?:UTC|GMT|UT)?([+-])(\d{1,2})(?::?([0-5]\d))?", name)
    if offset is not None and int(offset[2]) <= 18:
        span = timedelta(hours=int(offset[2]), minutes=int(offset[3] or 0))
        return timezone(-span if offset[1] == "-" else span)
    try:
        return UTC if name in ("UTC", "Z") else ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        return None


def instant_ms(local: datetime, zone: tzinfo) -> int:
    """Convert a date-time to milliseconds since 1970 UTC; one that has an offset of its own keeps
    it.

    Of a local time that a day has twice the first is meant; one that a day lacks is moved on by the
    gap: both as java.time does.
    """
    placed = local if local.tzinfo is not None else local.replace(tzinfo=zone, fold=0)
    return int((placed.astimezone(UTC) - _EPOCH) // timedelta(milliseconds=1))
