"""Read durations as Flink writes them: `60s`, `500 ms`, `1 min`; a number without a unit is in milliseconds."""

from __future__ import annotations

import re

from frazil.errors import InvalidInput

_UNITS = {
    1: ("", "ms", "milli", "millis", "millisecond", "milliseconds"), 1000: ("s", "sec", "secs", "second", "seconds"),
    60_000: ("m", "min", "mins", "minute", "minutes"), 3_600_000: ("h", "hour", "hours"), 86_400_000: ("d", "day", "days"),
}  # fmt: skip
_FACTORS = {name: factor for factor, names in _UNITS.items() for name in names}


def milliseconds_of(text: str, name: str) -> int:
    """Parse a duration to milliseconds; `name`: of the option, for the error. Raises InvalidInput."""
    match = re.fullmatch(r"\s*(\d+)\s*([a-zA-Z]*)\s*", text)
    if match is None or match[2].lower() not in _FACTORS:
        raise InvalidInput(f"Read option {name!r} is a duration such as 60s, 500 ms or 1 min, not {text!r}.")
    return int(match[1]) * _FACTORS[match[2].lower()]
