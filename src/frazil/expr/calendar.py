"""Dates and points in time as numbers: text as Spark reads it, any year, zones with Java's choice at gaps and overlaps."""

from __future__ import annotations

def civil(days: int) -> tuple[int, int, int]:
    """(year, month, day) of days since 1970-01-01, proleptic Gregorian, any year (datetime ends at 1 and 9999)."""
    era, doe = divmod(days + 719_468, 146_097)
    yoe = (doe - doe // 1460 + doe // 36_524 - doe // 146_096) // 365
    doy = doe - (365 * yoe + yoe // 4 - yoe // 100)
    mp = (5 * doy + 2) // 153
    month = mp + 3 if mp < 10 else mp - 9
    return yoe + era * 400 + (month <= 2), month, doy - (153 * mp + 2) // 5 + 1


def days_of(year: int, month: int, day: int) -> int:
    """Days since 1970-01-01; the inverse of `civil`."""
    year -= month <= 2
    era, yoe = divmod(year, 400)
    doy = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5 + day - 1
    return era * 146_097 + yoe * 365 + yoe // 4 - yoe // 100 + doy - 719_468
