"""Extract the time of a partition from its values, as Flink's PartitionTimeExtractor does."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, tzinfo
from functools import cached_property
from typing import Any

from frazil.errors import FrazilError, InvalidInput
from frazil.stream.partitions.callables import loaded
from frazil.stream.partitions.fields import OF_TIME, Fields, Partition, path_of
from frazil.stream.partitions.options import PartitionCommitOptions
from frazil.stream.partitions.patterns import Parser, java_parser, parse_default
from frazil.stream.partitions.zones import instant_ms, zone_of

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
