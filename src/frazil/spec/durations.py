"""Parse durations as Flink writes them in options: `0 s`, `1 h`, `30 min`, `1d`, `500ms`; a number
alone is milliseconds.
"""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Any

_UNITS = {
    "d": 86_400_000, "day": 86_400_000, "h": 3_600_000, "hour": 3_600_000, "m": 60_000, "min": 60_000, "minute": 60_000, "s": 1000,
    "sec": 1000, "second": 1000, "ms": 1, "milli": 1, "millisecond": 1, "": 1,
}  # fmt: skip
_PLURALS = {f"{unit}s": ms for unit, ms in _UNITS.items() if len(unit) > 2}


def milliseconds(duration: Any) -> int:
    """Parse a duration into milliseconds; a timedelta is taken as well. Raises ValueError."""
    if isinstance(duration, timedelta):
        duration = str(duration // timedelta(milliseconds=1))
    match = re.fullmatch(r"(\d+)\s*([a-z]*)", str(duration).strip().lower())
    unit = None if match is None else _UNITS.get(match[2], _PLURALS.get(match[2]))
    if match is None or unit is None:
        raise ValueError(duration)
    return int(match[1]) * unit
