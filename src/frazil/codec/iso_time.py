"""Format and parse dates and times as ISO text, for the whole range of the format: Python's
datetime ends at year 9999.

The forms are those of Java's ISO_LOCAL_DATE, ISO_LOCAL_TIME and ISO_LOCAL_DATE_TIME.
"""

from __future__ import annotations

import datetime as dt
import re

DAY = {
    6: 86_400_000_000,
    9: 86_400_000_000_000,
}  # units per day, by the digits of a second's fraction
_EPOCH_ORDINAL = dt.date(1970, 1, 1).toordinal()
_DATE = re.compile(r"([+-]?\d{4,10})-(\d{2})-(\d{2})")
_TIME = re.compile(r"(\d{2}):(\d{2})(?::(\d{2})(?:\.(\d{1,9}))?)?")
_ZONES = ("+00:00", "Z", "-00:00", "+00", "z")


def civil(days: int) -> tuple[int, int, int]:
    """Convert days since 1970-01-01 to (year, month, day) in the proleptic Gregorian calendar."""
    eras, day = divmod(days + 719_468, 146_097)  # eras of 400 years from 0000-03-01
    year = (day - day // 1_460 + day // 36_524 - day // 146_096) // 365
    day -= 365 * year + year // 4 - year // 100
    month = (5 * day + 2) // 153
    day -= (153 * month + 2) // 5
    month = month + 3 if month < 10 else month - 9
    return eras * 400 + year + (month <= 2), month, day + 1


def days_of(year: int, month: int, day: int) -> int:
    """Convert a date to days since 1970-01-01. Raises ValueError when there is no such day."""
    moved = (year - 2000) % 400 + 2000  # the calendar repeats every 400 years
    return dt.date(moved, month, day).toordinal() - _EPOCH_ORDINAL + (year - moved) // 400 * 146_097


def date_text(days: int) -> str:
    """Format days since 1970-01-01 as `2017-11-16`; years above 9999 have a plus sign, as in Java's
    ISO_LOCAL_DATE.
    """
    year, month, day = civil(days)
    head = f"+{year}" if year > 9999 else f"{year:04d}" if year >= 0 else f"-{-year:04d}"
    return f"{head}-{month:02d}-{day:02d}"


def time_text(units: int, digits: int = 6) -> str:
    """Format units of 10^-digits seconds since midnight as `22:31:08`, with as many digits of
    fraction as needed.
    """
    seconds, fraction = divmod(units, 10**digits)
    text = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    return f"{text}.{fraction:0{digits}d}".rstrip("0") if fraction else text


def timestamp_text(units: int, digits: int = 6, zone: bool = False) -> str:
    """Format units of 10^-digits seconds since the epoch as `2017-11-16T22:31:08.123456`, with
    `+00:00` for a type with a zone.
    """
    days, rest = divmod(units, DAY[digits])
    return f"{date_text(days)}T{time_text(rest, digits)}{'+00:00' if zone else ''}"


def parse_date(text: str) -> int:
    """Parse a date to days since 1970-01-01. Raises ValueError."""
    match = _DATE.fullmatch(text)
    if not match:
        raise ValueError(f"{text!r} is not a date")
    return days_of(int(match[1]), int(match[2]), int(match[3]))


def parse_time(text: str, digits: int = 6) -> int:
    """Parse a time to units of 10^-digits seconds since midnight. Raises ValueError, also for
    digits that would be lost.
    """
    match = _TIME.fullmatch(text)
    if not match or int(match[1]) > 23 or int(match[2]) > 59 or int(match[3] or 0) > 59:
        raise ValueError(f"{text!r} is not a time of day")
    fraction = (match[4] or "").ljust(digits, "0")
    if fraction[digits:].strip("0"):
        raise ValueError(f"{text!r} has more than {digits} digits of a second")
    seconds = (int(match[1]) * 60 + int(match[2])) * 60 + int(match[3] or 0)
    return seconds * int(10**digits) + int(fraction[:digits])


def parse_timestamp(text: str, digits: int = 6, zone: bool = False) -> int:
    """Parse a timestamp to units of 10^-digits seconds since the epoch; with `zone` it must end in
    a UTC offset of 0. Raises ValueError.
    """
    body = text
    if zone:
        mark = next((z for z in _ZONES if text.endswith(z)), None)
        if mark is None:
            raise ValueError(f"{text!r} has no UTC offset +00:00")
        body = text[: -len(mark)]
    day, separator, time = body.partition("T")
    if not separator:
        raise ValueError(f"{text!r} is not a timestamp")
    return parse_date(day) * DAY[digits] + parse_time(time, digits)
