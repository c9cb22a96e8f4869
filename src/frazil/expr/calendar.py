"""Parse dates and timestamps as Spark does, for any year, and convert time zones as Java does at
gaps and overlaps.
"""

from __future__ import annotations

import datetime as dt
import re
import time
from functools import lru_cache
from zoneinfo import ZoneInfo

DAY_MICROS = 86_400_000_000
_EPOCH = dt.datetime(1970, 1, 1)
BLANKS = "".join(map(chr, (*range(0x21), 0x7F)))
"""What Spark takes from the ends of a text that is cast: Java's white space and control characters
of one byte.
"""
_DATE_TEXT = re.compile(
    r"(?P<year>[+-]?[0-9]{4,7})(?:-(?P<month>[0-9]{1,2})(?:-(?P<day>[0-9]{1,2})(?P<tail>[ T].*)?)?)?",
    re.DOTALL,
)
_CLOCK = re.compile(
    r"(?P<hour>[0-9]{1,2})(?::(?P<minute>[0-9]{1,2})(?::(?P<second>[0-9]{1,2})(?:\.(?P<fraction>[0-9]*))?(?P<zone>[^0-9.].*)?)?)?",
    re.DOTALL,
)
_HOUR_OF_ONE_DIGIT = re.compile(r"([+-])([0-9]:)")
_MINUTE_OF_ONE_DIGIT = re.compile(r"([+-][0-9]{2}:)([0-9])\Z")
_OFFSET = re.compile(
    r"(?:UTC|GMT|UT)?(?P<sign>[+-])(?P<hours>[0-9]{1,2})"
    r"(?:(?<=[0-9]{2})(?P<colon>:?)(?P<minutes>[0-5][0-9])(?:(?P=colon)(?P<seconds>[0-5][0-9]))?)?"
)
_SHORT_NAMES = {
    "ACT": "Australia/Darwin", "AET": "Australia/Sydney", "AGT": "America/Argentina/Buenos_Aires", "ART": "Africa/Cairo",
    "AST": "America/Anchorage", "BET": "America/Sao_Paulo", "BST": "Asia/Dhaka", "CAT": "Africa/Harare", "CNT": "America/St_Johns",
    "CST": "America/Chicago", "CTT": "Asia/Shanghai", "EAT": "Africa/Addis_Ababa", "ECT": "Europe/Paris",
    "IET": "America/Indiana/Indianapolis", "IST": "Asia/Kolkata", "JST": "Asia/Tokyo", "MIT": "Pacific/Apia", "NET": "Asia/Yerevan",
    "NST": "Pacific/Auckland", "PLT": "Asia/Karachi", "PNT": "America/Phoenix", "PRT": "America/Puerto_Rico",
    "PST": "America/Los_Angeles", "SST": "Pacific/Guadalcanal", "VST": "Asia/Ho_Chi_Minh", "EST": "-05:00", "MST": "-07:00",
    "HST": "-10:00",
}  # fmt: skip
"""Java's `ZoneId.SHORT_IDS`."""
_NO_ZONES = ("posix/", "right/", "posixrules", "localtime", "Factory")
"""Files beside the zones' that Java has no zones of."""


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
    match = _DATE_TEXT.fullmatch(text.strip(BLANKS))
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

    Text without a zone is local time in `zone`, and a time without a date is of the current day, as
    in Spark; `zone` None: the time is taken as written, and a zone in the text is ignored
    (timestamp_ntz). Raises NoTime.
    """
    days, clock, written = _moment(text)
    zone = None if zone is None else written or zone
    if days is None:
        if zone is None:
            raise NoTime(text)
        days = to_local(time.time_ns() // 1000, zone) // DAY_MICROS
    local = days * DAY_MICROS * 1000 + clock
    if zone is None:
        return local
    return to_utc(local // 1000, zone) * 1000 + local % 1000


def _moment(text: str) -> tuple[int | None, int, str | None]:
    """Parse a timestamp to (days since the epoch, nanoseconds of the day, zone); a time of day
    alone has no days.
    """
    trimmed = text.strip(BLANKS)
    match = _DATE_TEXT.fullmatch(trimmed)
    if not match and (text.startswith("T") or trimmed[1:3].find(":") >= 0):
        return (None, *_clock(trimmed.removeprefix("T") if text.startswith("T") else trimmed))
    if not match or len(match["year"].lstrip("+-")) > 6:
        raise NoTime(text)
    return (_date(match), *((0, None) if match["tail"] is None else _clock(match["tail"][1:])))


def _clock(text: str) -> tuple[int, str | None]:
    """Parse a time of day to (nanoseconds of the day, zone or None)."""
    match = _CLOCK.fullmatch(text)
    if not match:
        raise NoTime(text)
    hour, minute, second = (int(match[part] or 0) for part in ("hour", "minute", "second"))
    if hour > 23 or minute > 59 or second > 59:
        raise NoTime(text)
    fraction = int((match["fraction"] or "")[:9].ljust(9, "0"))
    zone = match["zone"]
    if zone is not None:
        check_zone(zone := zone.strip(BLANKS[:-1]))
    return ((hour * 60 + minute) * 60 + second) * 1_000_000_000 + fraction, zone


def has_zone(text: str) -> bool:
    """Tell whether a timestamp is written with a zone. Raises NoTime."""
    return _moment(text)[2] is not None


def parse_time(text: str) -> int:
    """Parse `h[h]:m[m][:s[s][.fraction]]` to microseconds of the day. Raises NoTime."""
    days, nanos, zone = _moment(text)
    if days is not None or zone is not None:
        raise NoTime(text)
    return nanos // 1000


@lru_cache(64)
def offset_of(zone: str) -> int | None:
    """Return the seconds east of UTC of a fixed zone (`Z`, `UTC`, `+02:00`, `GMT+2`); None for a
    zone with rules.
    """
    if zone in ("Z", "UTC", "GMT", "UT"):
        return 0
    padded = _HOUR_OF_ONE_DIGIT.sub(r"\g<1>0\2", _SHORT_NAMES.get(zone, zone), count=1)
    match = _OFFSET.fullmatch(_MINUTE_OF_ONE_DIGIT.sub(r"\g<1>0\2", padded))
    if not match:
        return None
    hours, minutes, seconds = (int(match[part] or 0) for part in ("hours", "minutes", "seconds"))
    seconds += 60 * (minutes + 60 * hours)
    if seconds > 18 * 3600:
        raise NoTime(zone)
    return -seconds if match["sign"] == "-" else seconds


@lru_cache(64)
def zone_of(name: str) -> ZoneInfo:
    """Return a zone with rules by one of the names that Java has for it. Raises NoTime."""
    try:
        if name.startswith(_NO_ZONES):
            raise ValueError(name)
        return ZoneInfo(_SHORT_NAMES.get(name, name))
    except (KeyError, ValueError, OSError) as e:
        raise NoTime(f"{name!r} is not a time zone") from e


def to_utc(local_micros: int, zone: str) -> int:
    """Convert local time to an instant as in Java: in a gap the time moves on by the gap, in an
    overlap the earlier instant counts.
    """
    fixed = offset_of(zone)
    if fixed is None:
        fixed = int(_naive(local_micros).replace(tzinfo=zone_of(zone)).utcoffset().total_seconds())  # type: ignore[union-attr]
    return local_micros - fixed * 1_000_000


def to_local(utc_micros: int, zone: str) -> int:
    """Convert an instant to local time."""
    fixed = offset_of(zone)
    if fixed is None:
        aware = _naive(utc_micros).replace(tzinfo=dt.UTC).astimezone(zone_of(zone))
        fixed = int(aware.utcoffset().total_seconds())  # type: ignore[union-attr]
    return utc_micros + fixed * 1_000_000


def _naive(micros: int) -> dt.datetime:
    """Make a datetime of the same day and time; years out of its range take the zone rules of a
    year that is a multiple of 400 away.
    """
    days, rest = divmod(micros, DAY_MICROS)
    year = civil(days)[0]
    if not 2 <= year <= 9998:
        days += ((9998 if year > 9998 else 799) - year) // 400 * 146_097
    return _EPOCH + dt.timedelta(days=days, microseconds=rest)


def check_zone(zone: str) -> None:
    """Raise NoTime for an unknown time zone."""
    if offset_of(zone) is None:
        zone_of(zone)
