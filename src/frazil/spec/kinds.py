"""Define the kinds of values that options and table properties have: truths, numbers, sizes,
durations, choices, names. Each is read from text in one way."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final, Generic, TypeVar

from frazil.errors import FrazilError, InvalidInput

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


T = TypeVar("T")
W = TypeVar("W", bound=str)


@dataclass(frozen=True)
class ValueKind(Generic[T]):
    """Describe a type of values. `read` makes a value of the stripped text and raises ValueError;
    `description` completes "must be …".

    `as_given`: `read` gets what was given, such as a list, with the blanks around a text.
    `choices`: the words that it takes, if it takes these only."""

    read: Callable[[Any], T]
    description: str
    as_given: bool = False
    choices: tuple[str, ...] = ()

    def parse(
        self, label: str, given: Any, error: type[InvalidInput] = InvalidInput, **facts: Any
    ) -> T:
        """Parse a value. Raises `error` with what `label` names, the value and what it takes."""
        try:
            return self.read(given if self.as_given else str(given).strip())
        except ValueError as e:
            why = f" ({e.message})" if isinstance(e, FrazilError) else ""
            raise error(
                f"{label} must be {self.description}{why}, not {given!r}.", **facts
            ) from None


def matching(
    pattern: str, description: str, convert: Callable[[str], T], as_given: bool = False
) -> ValueKind[T]:
    """Return the kind of texts that a regular expression matches, in any case."""
    compiled = re.compile(pattern, re.IGNORECASE)

    def read(text: str) -> T:
        if not compiled.fullmatch(text):
            raise ValueError(text)
        return convert(text)

    return ValueKind(read, description, as_given)


def one_of(*words: W) -> ValueKind[W]:
    """Return the kind of some words, in any case."""

    def read(text: str) -> W:
        if (word := next((w for w in words if w.lower() == text.lower()), None)) is None:
            raise ValueError(text)
        return word

    return ValueKind(
        read, " or ".join(words) if len(words) == 2 else f"one of {', '.join(words)}", choices=words
    )


def whole(least: int | None = None, most: int | None = None) -> ValueKind[int]:
    """Return the kind of whole numbers of at least `least` and at most `most`."""

    def read(text: str) -> int:
        if not re.fullmatch(r"-?[0-9]+" if most else r"[+-]?[0-9]+", text):
            raise ValueError(text)
        number = int(text)
        if (least is not None and number < least) or (most is not None and number > most):
            raise ValueError(text)
        return number

    if most is not None:
        return ValueKind(read, f"a number from {least} to {most}")
    return ValueKind(
        read, "a whole number" if least is None else f"a whole number of at least {least}"
    )


def between(low: float, high: float, description: str, with_high: bool = False) -> ValueKind[float]:
    """Return the kind of numbers above `low` and below `high`, or up to it."""

    def read(text: str) -> float:
        number = float(text)
        if not (low < number < high or (with_high and number == high)):
            raise ValueError(text)
        return number

    return ValueKind(read, description)


_BYTES: Final = {
    "": 1,
    "b": 1,
    "k": 1 << 10,
    "kb": 1 << 10,
    "m": 1 << 20,
    "mb": 1 << 20,
    "g": 1 << 30,
    "gb": 1 << 30,
}


def size_in_bytes(text: str) -> int:
    """Parse a number of bytes such as `64MB`, `1g`, `4096`. Raises ValueError."""
    match = re.fullmatch(r"(\d+)\s*([kmg]?b?)", text.strip(), re.IGNORECASE)
    if match is None:
        raise ValueError(text)
    return int(match[1]) * _BYTES[match[2].lower()]


def _positive_size(text: str) -> int:
    if (size := size_in_bytes(text)) <= 0:
        raise ValueError(text)
    return size


def _interval(given: Any) -> int:
    if (duration := milliseconds(given)) <= 0:
        raise ValueError(given)
    return duration


def _text(given: Any) -> str:
    if not isinstance(given, str):
        raise ValueError(given)
    return given


def _name(given: Any) -> str:
    if not (name := _text(given)).strip():
        raise ValueError(given)
    return name


def _names(given: Any) -> tuple[str, ...]:
    parts = [p.strip() for p in given.split(",")] if isinstance(given, str) else given
    if (
        not isinstance(parts, Sequence)
        or not parts
        or not all(isinstance(p, str) and p for p in parts)
    ):
        raise ValueError(given)
    return tuple(parts)


_TRUTHS: Final = {"true": True, "false": False}
BOOLEAN = ValueKind(lambda text: _TRUTHS[one_of(*_TRUTHS).read(text)], "true or false")
NATURAL, POSITIVE, INTEGER = whole(0), whole(1), whole()
FRACTION = between(0, 1, "a number between 0 and 1")
SHARE = between(0, 1, "above 0 and at most 1", with_high=True)
FACTOR = between(0, float("inf"), "a number above 0")
SIZE = ValueKind(_positive_size, "a size in bytes")
DURATION = ValueKind(milliseconds, "a duration such as 30 min, 1 h or 1 d", as_given=True)
INTERVAL = ValueKind(_interval, "a duration above 0, such as 30 min, 1 h or 1 d", as_given=True)
TEXT = ValueKind(_text, "text", as_given=True)
NAME = ValueKind(_name, "text", as_given=True)
NAMES = ValueKind(_names, "a list of names, or names with commas between them", as_given=True)
