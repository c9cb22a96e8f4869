"""Parse dates and timestamps as Spark does, for any year, and convert time zones as Java does at
gaps and overlaps.
"""

from __future__ import annotations

import datetime as dt
import re
from functools import lru_cache
from zoneinfo import ZoneInfo

DAY_MICROS = 86_400_000_000
_EPOCH = dt.datetime(1970, 1, 1)
_DATE = r"(?P<year>[+-]?\d{4,7})(?:-(?P<month>\d{1,2})(?:-(?P<day>\d{1,2})(?P<tail>[ T].*)?)?)?"
_DATE_TEXT = re.compile(_DATE, re.DOTALL)
_CLOCK = re.compile(
    r"(?P<hour>\d{1,2}):(?P<minute>\d{1,2})(?::(?P<second>\d{1,2})(?:\.(?P<fraction>\d*))?)?\s*(?P<zone>\S.*)?"
)
_OFFSET = re.compile(
    r"(?:UTC|GMT|UT)?(?P<sign>[+-])(?P<hours>\d{1,2})(?::?(?P<minutes>\d{2})(?::?(?P<seconds>\d{2}))?)?"
)


class NoTime(ValueError):
    """Report text that is not a date, time or timestamp, or not a time zone."""


def civil(days: int) -> tuple[int, int, int]:
    """Convert days since 1970-01-01 to (year, month, day), proleptic Gregorian, for any year
    (datetime knows 1 to 9999 only).
    """
    era, doe = divmod(days + 719_468, 146_097)
    yoe = (doe - doe // 1460 + doe // 36_524 - doe // 146_096) // 365
    doy = doe - (365 * yoe + yoe // 4 - yoe // 100)
    mp = (5 * doy + 2) // 153
    month = mp + 3 if mp < 10 else mp - 9
    return yoe + era * 400 + (month <= 2), month, doy - (153 * mp + 2) // 5 + 1


def days_of(year: int, month: int, day: int) -> int:
    """Convert a date to days since 1970-01-01; the inverse of `civil`."""
    year -= month <= 2
    era, yoe = divmod(year, 400)
    doy = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5 + day - 1
    return era * 146_097 + yoe * 365 + yoe // 4 - yoe // 100 + doy - 719_468


def parse_date(text: str) -> int:
    """Parse `yyyy[-m[m][-d[d]]]` to days since the epoch; text after a blank or T is ignored, as in
    Spark's cast. Raises NoTime.
    """
    match = _DATE_TEXT.fullmatch(text.strip())
    if not match:
        raise NoTime(text)
    return _date(match)


def _date(match: re.Match[str]) -> int:
    year, month, day = int(match["year"]), int(match["month"] or 1), int(match["day"] or 1)
    if (
        not 1 <= month <= 12
        or day < 1
        or civil(days := days_of(year, month, day)) != (year, month, day)
    ):
        raise NoTime(match.string)
    return days


def parse_moment(text: str, zone: str | None) -> int:
    """Parse a date with or without time, fraction (9 digits at most) and zone to nanoseconds since
    the epoch.

    Text without a zone is local time in `zone`; `zone` None: the time is taken as written, and a
    zone in the text is ignored (timestamp_ntz). Raises NoTime.
    """
    match = _DATE_TEXT.fullmatch(text.strip())
    if not match:
        raise NoTime(text)
    days, tail = _date(match), (match["tail"] or "")[1:].strip()
    clock, written = _clock(tail) if tail else (0, None)
    local = days * DAY_MICROS * 1000 + clock
    if zone is None:
        return local
    return to_utc(local // 1000, written or zone) * 1000 + local % 1000


def _clock(text: str) -> tuple[int, str | None]:
    """Parse a time of day to (nanoseconds of the day, zone or None)."""
    match = _CLOCK.fullmatch(text)
    if not match:
        raise NoTime(text)
    hour, minute, second = int(match["hour"]), int(match["minute"]), int(match["second"] or 0)
    if hour > 23 or minute > 59 or second > 59:
        raise NoTime(text)
    fraction = int((match["fraction"] or "")[:9].ljust(9, "0"))
    zone = match["zone"]
    if zone is not None and offset_of(zone) is None:
        _zone(zone)
    return ((hour * 60 + minute) * 60 + second) * 1_000_000_000 + fraction, zone


def has_zone(text: str) -> bool:
    """Tell whether a timestamp is written with a zone."""
    match = _DATE_TEXT.fullmatch(text.strip())
    tail = (match["tail"] or "")[1:].strip() if match else ""
    return bool(tail) and _clock(tail)[1] is not None


def parse_time(text: str) -> int:
    """Parse `h[h]:m[m][:s[s][.fraction]]` to microseconds of the day. Raises NoTime."""
    nanos, zone = _clock(text.strip())
    if zone is not None:
        raise NoTime(text)
    return nanos // 1000


def offset_of(zone: str) -> int | None:
    """Return the seconds east of UTC of a fixed zone (`Z`, `UTC`, `+02:00`, `GMT+2`); None for a
    zone with rules.
    """
    if zone.upper() in ("Z", "UTC", "GMT", "UT"):
        return 0
    match = _OFFSET.fullmatch(zone)
    if not match:
        return None
    seconds = (
        int(match["hours"]) * 3600 + int(match["minutes"] or 0) * 60 + int(match["seconds"] or 0)
    )
    if seconds > 18 * 3600:
        raise NoTime(zone)
    return -seconds if match["sign"] == "-" else seconds


@lru_cache(64)
def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError) as e:
        raise NoTime(f"{name!r} is not a time zone") from e


def to_utc(local_micros: int, zone: str) -> int:
    """Convert local time to an instant as in Java: in a gap the time moves on by the gap, in an
    overlap the earlier instant counts.
    """
    fixed = offset_of(zone)
    if fixed is None:
        fixed = int(_naive(local_micros).replace(tzinfo=_zone(zone)).utcoffset().total_seconds())  # type: ignore[union-attr]
    return local_micros - fixed * 1_000_000


def to_local(utc_micros: int, zone: str) -> int:
    """Convert an instant to local time."""
    fixed = offset_of(zone)
    if fixed is None:
        aware = _naive(utc_micros).replace(tzinfo=dt.UTC).astimezone(_zone(zone))
        fixed = int(aware.utcoffset().total_seconds())  # type: ignore[union-attr]
    return utc_micros + fixed * 1_000_000


def _naive(micros: int) -> dt.datetime:
    """Make a datetime of the same day and time; years out of its range take the zone rules of a
    year that is a multiple of 400 away.
    """
    days, rest = divmod(micros, DAY_MICROS)
    year = civil(days)[0]
    if not 2 <= year <= 9998:
        days += ((2000 if year > 9998 else 400) - year) // 400 * 146_097
    return _EPOCH + dt.timedelta(days=days, microseconds=rest)


def check_zone(zone: str) -> None:
    """Raise NoTime for an unknown time zone."""
    if offset_of(zone) is None:
        _zone(zone)
