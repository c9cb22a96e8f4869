"""Extract the time of a partition from its values, as Flink's PartitionTimeExtractor does: by
patterns of java.time.format.DateTimeFormatter (`yyyy-MM-dd HH`), or by Flink's default format.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta, tzinfo
from functools import cached_property
from typing import Any

from frazil.errors import FrazilError, InvalidInput
from frazil.stream.partitions.callables import loaded
from frazil.stream.partitions.fields import OF_TIME, Fields, Partition, path_of
from frazil.stream.partitions.options import PartitionCommitOptions
from frazil.stream.partitions.zones import instant_ms, zone_of

Parser = Callable[[str], datetime]
_DEFAULT = re.compile(
    r"(\d{1,10})-(\d{1,2})-(\d{1,2})(?:[ T](\d{1,2}):(\d{1,2})(?::(\d{1,2})(?:\.(\d{1,9}))?)?(Z|[+-]\d{2}:\d{2})?)?",
    re.ASCII,
)
_MONTHS = (
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
)
_NUMBERS = {"M": "month", "L": "month", "d": "day", "D": "day_of_year", "H": "hour", "k": "clock", "h": "half_clock", "K": "half",
            "m": "minute", "s": "second"}  # fmt: skip
_FIELDS = {
    "year",
    "month",
    "day",
    "day_of_year",
    "hour",
    "clock",
    "half_clock",
    "half",
    "minute",
    "second",
    "fraction",
    "ampm",
}


def parse_default(text: str) -> datetime:
    """Parse Flink's default format, `y-M-d` with an optional ` H:m:s.f`, where a T may stand for
    the blank. Raises ValueError.

    Iceberg's texts of timestamps fit as well: seconds may be missing, and an offset may follow.
    """
    match = _DEFAULT.fullmatch(text)
    if match is None:
        raise ValueError(text)
    year, month, day, hour, minute, second, fraction, offset = match.groups()
    time = datetime(
        int(year),
        int(month),
        int(day),
        int(hour or 0),
        int(minute or 0),
        int(second or 0),
        _micros(fraction),
    )
    return time if offset is None else datetime.fromisoformat(time.isoformat() + offset)


def _micros(fraction: str | None) -> int:
    return int((fraction or "0").ljust(6, "0")[:6])


def java_parser(pattern: str, option: str) -> Parser:
    """Make a parser for a DateTimeFormatter pattern of the letters y u M L d D H k h K m s S a,
    quotes, and optional parts in brackets.

    A pattern without a time of day means midnight, as in Flink. The parser raises ValueError; this
    function raises InvalidInput, naming the option, for other letters and for a pattern that does
    not give a date.
    """
    regex, names = [], set[str]()
    for token in _tokens(pattern, option):
        piece = _piece(token, pattern, option)
        regex.append(piece)
        names |= set(re.findall(r"\?P<(\w+)>", piece))
    text = "".join(regex)
    if repeated := [n for n in _FIELDS if text.count(f"?P<{n}>") > 1]:
        raise InvalidInput(
            f"{option}: the pattern {pattern!r} names the {repeated[0]} twice.", option=option
        )
    if "year" not in names or not ("day_of_year" in names or {"month", "day"} <= names):
        hint = "For example yyyy-MM-dd; a part that the partitions lack can be written into timestamp-pattern."
        raise InvalidInput(
            f"{option}: the pattern {pattern!r} does not give a date of year, month and day.",
            hint=hint,
            option=option,
        )
    if ("ampm" in names) != bool(names & {"half_clock", "half"}):
        raise InvalidInput(
            f"{option}: in the pattern {pattern!r} the letters h or K and a need each other.",
            option=option,
        )
    try:
        compiled = re.compile(text, re.ASCII)
    except re.error:
        raise InvalidInput(
            f"{option}: the brackets of the pattern {pattern!r} do not match.", option=option
        ) from None
    return lambda value: _made(compiled, value)


def _tokens(pattern: str, option: str) -> Iterator[str]:
    """Split a pattern into runs of one letter, quoted texts (without the quotes, after a quote
    sign) and single characters.
    """
    for match in re.finditer(
        r"''|'(?P<quoted>(?:[^']|'')*)'|(?P<letters>([A-Za-z])\3*)|(?P<other>.)", pattern, re.DOTALL
    ):
        if match[0] == "'":
            raise InvalidInput(
                f"{option}: a quote in the pattern {pattern!r} is not closed.", option=option
            )
        yield match[0] if match["quoted"] is None else "'" + match["quoted"].replace("''", "'")


def _piece(token: str, pattern: str, option: str) -> str:
    """Make the regular expression of one token."""
    letter, count = token[0], len(token)
    if token == "''":
        return "'"
    if letter == "'":
        return re.escape(token[1:])
    if not letter.isalpha():
        if letter in "#{}":
            raise InvalidInput(
                f"{option}: the character {letter} in the pattern {pattern!r} must be quoted.",
                option=option,
            )
        return {"[": "(?:", "]": ")?"}.get(letter, re.escape(letter))
    if letter in "yu":
        return (
            r"(?P<year>\d{2})"
            if count == 2
            else r"(?P<year>\d{4})"
            if count in (3, 4)
            else r"(?P<year>\d{1,4})"
        )
    if letter in "ML" and count in (3, 4):
        names = [m.title()[: 3 if count == 3 else None] for m in _MONTHS]
        return f"(?P<month>{'|'.join(names)})"
    if letter == "S":
        return rf"(?P<fraction>\d{{{count}}})"
    if letter == "a" and count == 1:
        return "(?P<ampm>[AaPp][Mm])"
    longest = 3 if letter == "D" else 2
    if letter in _NUMBERS and count <= longest:
        digits = rf"\d{{1,{longest}}}" if count == 1 else rf"\d{{{count},{longest}}}"
        return f"(?P<{_NUMBERS[letter]}>{digits})"
    hint = "There are y u M L d D H k h K m s S a; other letters stand in quotes, and time zones in watermark-time-zone."
    raise InvalidInput(
        f"{option}: {token} in the pattern {pattern!r} is not supported.", hint=hint, option=option
    )


def _made(compiled: re.Pattern[str], text: str) -> datetime:
    match = compiled.fullmatch(text)
    if match is None:
        raise ValueError(text)
    part = {k: v for k, v in match.groupdict().items() if v is not None}
    year = int(part["year"]) + (2000 if len(part["year"]) == 2 else 0)
    hour = int(part.get("hour", part.get("half", 0)))
    if "clock" in part:
        hour = _clock(int(part["clock"]), 24)
    if "half_clock" in part:
        hour = _clock(int(part["half_clock"]), 12)
    if "ampm" in part:
        if hour > 11:
            raise ValueError(text)
        hour += 12 * (part["ampm"].lower() == "pm")
    time = (
        hour,
        int(part.get("minute", 0)),
        int(part.get("second", 0)),
        _micros(part.get("fraction")),
    )
    if "day_of_year" in part and "day" not in part:
        day = datetime(year, 1, 1, *time) + timedelta(days=int(part["day_of_year"]) - 1)
        if day.year != year:
            raise ValueError(text)
        return day
    return datetime(year, _month(part["month"]), int(part["day"]), *time)


def _clock(hour: int, hours: int) -> int:
    """Convert an hour that counts from 1 (24 or 12 is midnight)."""
    if not 1 <= hour <= hours:
        raise ValueError(hour)
    return hour % hours


def _month(text: str) -> int:
    return (
        int(text)
        if text.isdigit()
        else next(n for n, m in enumerate(_MONTHS, 1) if m.startswith(text.lower()))
    )


_REFERENCE = re.compile(r"\$\{([^}]*)\}|\$([^\W\d]\w*)")
_FORMATTER = "partition.time-extractor.timestamp-formatter"
_PATTERN = "partition.time-extractor.timestamp-pattern"


class UnparsablePartition(FrazilError, ValueError):
    """Report that the time of a partition cannot be determined from its values."""


@dataclass(frozen=True)
class TimeExtractor:
    """Extract the times of partitions by the options partition.time-extractor.*.

    Without a pattern, the time of a partition is that of its field with the transform `hour`, else
    `day`, `month` or `year`; without such a field the first field's value is parsed, as in Flink.
    """

    options: PartitionCommitOptions

    @cached_property
    def _zone(self) -> tzinfo:
        zone = zone_of(self.options.zone)
        assert zone is not None  # checked when the options were parsed
        return zone

    @cached_property
    def _parser(self) -> Parser:
        formatter = self.options.timestamp_formatter
        return parse_default if formatter is None else java_parser(formatter, _FORMATTER)

    @cached_property
    def _custom(self) -> Callable[..., Any] | None:
        name = self.options.extractor_class
        return None if name is None else loaded(name, "partition.time-extractor.class", "extract")

    def check(self, fields: Fields) -> None:
        """Check the options against the partition fields before the first batch. Raises
        InvalidInput.
        """
        if (
            self._custom is None
            and self._parser is not None
            and self.options.timestamp_pattern is not None
        ):
            pattern, names = self.options.timestamp_pattern, [f.name for f in fields]
            if wrong := _unknown(pattern, names):
                hint = f"The partition fields are {', '.join(names)}; where letters follow a name, write ${{name}}."
                raise InvalidInput(
                    f"{_PATTERN}: {wrong[0]} in {pattern!r} is not a partition field.",
                    hint=hint,
                    option=_PATTERN,
                )

    def time_ms(self, partition: Partition, fields: Fields) -> int:
        """Extract the time of a partition, in milliseconds since 1970 UTC. Raises
        UnparsablePartition naming partition and pattern.
        """
        try:
            if self._custom is not None:
                return self._custom_time(partition, fields)
            if (
                self.options.timestamp_pattern is None
                and (index := _time_field(fields)) is not None
            ):
                return self._transformed(
                    fields[index].transform, fields[index].zoned, partition.values[index]
                )
            return instant_ms(self._parser(self._text(partition, fields)), self._zone)
        except InvalidInput:
            raise
        except (ValueError, TypeError, OverflowError) as e:
            pattern = self.options.timestamp_pattern or f"${fields[0].name}"
            formatter = self.options.timestamp_formatter or "y-M-d[ H:m:s[.f]]"
            path = path_of(partition, fields, self.options.default_name)
            raise UnparsablePartition(
                f"Cannot find the time of partition {path} by the pattern {pattern!r} and the format {formatter!r}: {e}",
                hint="Mend the pattern, or leave such partitions out with partition.time-extractor.on-unparsable=warn.",
                partition=path,
                pattern=pattern,
            ) from e

    def _text(self, partition: Partition, fields: Fields) -> str:
        values = {
            f.name: self.options.default_name if v is None else v
            for f, v in zip(fields, partition.values, strict=True)
        }
        pattern = self.options.timestamp_pattern
        if pattern is None:
            return next(iter(values.values()))
        if wrong := _unknown(pattern, list(values)):  # the partition is of an older spec
            raise ValueError(f"{wrong[0]} is no field of the partition's spec")
        return _REFERENCE.sub(lambda m: values[m[1] or m[2]], pattern)

    def _transformed(self, transform: str, zoned: bool, text: str | None) -> int:
        match = re.fullmatch(OF_TIME[transform], text or "")
        if match is None:
            raise ValueError(f"the value is {'null' if text is None else repr(text)}")
        year, month, day, hour = (*map(int, match.groups()), *(1, 1, 1, 0)[len(match.groups()) :])
        utc = zone_of("UTC")
        assert utc is not None
        return instant_ms(datetime(year, month, day, hour), utc if zoned else self._zone)

    def _custom_time(self, partition: Partition, fields: Fields) -> int:
        assert self._custom is not None
        texts = [self.options.default_name if v is None else v for v in partition.values]
        time = self._custom([f.name for f in fields], texts)
        if isinstance(time, date) and not isinstance(time, datetime):
            time = datetime(time.year, time.month, time.day)
        if not isinstance(time, datetime):
            raise TypeError(
                f"{self.options.extractor_class} answered {time!r}, which is no datetime"
            )
        return instant_ms(time, self._zone)


def _unknown(pattern: str, names: Sequence[str]) -> list[str]:
    """List the references of a pattern that name no partition field."""
    return [m[0] for m in _REFERENCE.finditer(pattern) if (m[1] or m[2]) not in names]


def _time_field(fields: Fields) -> int | None:
    """Find the field with the finest transform of time."""
    for transform in OF_TIME:
        for index, field in enumerate(fields):
            if field.transform == transform:
                return index
    return None
