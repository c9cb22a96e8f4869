"""Define options of reads, writes and procedures: the name, kind, default and verbs of each, as
`spec.properties` defines table properties; and the kinds of values that both have (truths, numbers,
sizes, durations, choices, names), each read from text in one way.

An `OptionTable` holds the options that are given together and reads them, in one way for all
tables; rules about several options are for its users. Adding an option is one entry of its table.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Any, Final, Generic, TypeVar

from frazil.errors import FrazilError, InvalidInput, Unsupported

_UNITS = {
    "d": 86_400_000, "day": 86_400_000, "h": 3_600_000, "hour": 3_600_000, "m": 60_000, "min": 60_000, "minute": 60_000, "s": 1000,
    "sec": 1000, "second": 1000, "ms": 1, "milli": 1, "millisecond": 1, "": 1,
}  # fmt: skip
_PLURALS = {f"{unit}s": ms for unit, ms in _UNITS.items() if len(unit) > 2}


def milliseconds(duration: object) -> int:
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

    `as_given`: `read` gets what was given, such as a list, with the blanks around a text. Other
    kinds take no collections, of which no text says what was meant.
    `choices`: the words that it takes, if it takes these only."""

    read: Callable[[Any], T]
    description: str
    as_given: bool = False
    choices: tuple[str, ...] = ()

    def parse(
        self, label: str, given: object, error: type[InvalidInput] = InvalidInput, **facts: Any
    ) -> T:
        """Parse a value. Raises `error` with what `label` names, the value and what it takes."""
        try:
            if not self.as_given and isinstance(given, Collection) and not isinstance(given, str):
                raise ValueError(given)
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

    def read(given: object) -> T:
        if not compiled.fullmatch(text := _text(given)):
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


def _interval(given: object) -> int:
    if (duration := milliseconds(given)) <= 0:
        raise ValueError(given)
    return duration


def _text(given: object) -> str:
    if not isinstance(given, str):
        raise ValueError(given)
    return given


def _name(given: object) -> str:
    if not (name := _text(given)).strip():
        raise ValueError(given)
    return name


def _names(given: object) -> tuple[str, ...]:
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


D = TypeVar("D")


@dataclass(frozen=True)
class Option(Generic[T, D]):
    """Describe one option. `default` is the value when it is absent; None where a default depends
    on other things.

    `field`: of the class that holds the parsed options, if the value goes there as it is. `verbs`:
    to which it means something, all without them; `why` says why it means nothing to the others.
    `fixed`: only its default is served, for the reason `why`. `aliases`: other spellings. `secret`:
    errors do not show its values. For the documents: `text` says what it does, `otherwise` what
    holds without it, if this is not the default, `origin` who named it.
    """

    name: str
    kind: ValueKind[T]
    default: D
    field: str = ""
    text: str = ""
    otherwise: str = ""
    verbs: tuple[str, ...] = ()
    why: str = ""
    aliases: tuple[str, ...] = ()
    secret: bool = False
    fixed: bool = False
    origin: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        """Return its name and its aliases."""
        return (self.name, *self.aliases)

    @property
    def spellings(self) -> tuple[str, ...]:
        """Return its name and its aliases, folded."""
        return tuple(folded(n) for n in self.names)

    def given(self, options: Mapping[str, Any]) -> Any:
        """Return the value that a caller gives, in any spelling of the name and as it is; None
        without one.
        """
        values = (v for k, v in options.items() if folded(k) in self.spellings)
        return next((v for v in values if v is not None), None)

    def of(self, values: Mapping[str, Any]) -> T | D:
        """Return the value that was read by an `OptionTable`, else the default."""
        value: T | D = values.get(self.name, self.default)
        return value

    def means_something_to(self, verb: str | None) -> bool:
        """Tell whether a verb has a use for the option."""
        return verb is None or not self.verbs or verb in self.verbs


def folded(name: object) -> str:
    """Normalise an option's name: in lower case, with `-` for `_` and, since keywords have no dots,
    for `.`.
    """
    return str(name).strip().lower().replace("_", "-").replace(".", "-")


def did_you_mean(name: str, names: Collection[str]) -> str:
    """Suggest the option whose name a misspelt one resembles, as a sentence after a blank; the
    empty text where it resembles none.
    """
    by_folded = {folded(n): n for n in names}
    near = difflib.get_close_matches(folded(name), by_folded, 1, 0.8)
    return f" Did you mean {by_folded[near[0]]!r}?" if near else ""


@dataclass(frozen=True)
class OptionTable:
    """Hold options that are given together. `noun`: what they are called in errors, as in "write
    option" or "option of partition commit". `refused`: options of other engines that are not
    served, each with the reason or what to write instead; `*` in a name stands for any text.
    `families`: options that errors and documents list and others read; `catalog.<key>` is listed
    in place of all options with such names."""

    noun: str
    options: tuple[Option[Any, Any], ...]
    refused: Mapping[str, str] = field(default_factory=dict)
    families: tuple[Option[Any, Any], ...] = ()

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(o.name for o in self.options)

    @cached_property
    def _by_folded(self) -> Mapping[str, Option[Any, Any]]:
        return {n: o for o in self.options for n in o.spellings}

    @cached_property
    def _reasons(self) -> Mapping[str, str]:
        return {folded(n): reason for n, reason in self.refused.items()}

    @cached_property
    def listed(self) -> tuple[Option[Any, Any], ...]:
        """Return the options that errors and documents list."""
        patterns = [re.sub("<.*?>", "*", f.name) for f in self.families]
        own = (o for o in self.options if not any(fnmatchcase(o.name, p) for p in patterns))
        return (*own, *self.families)

    def label(self, name: str) -> str:
        """Name an option at the beginning of a message: `Write option 'branch'`."""
        return f"{self.noun.split(' of ')[0].capitalize()} {name!r}"

    def find(self, key: str) -> Option[Any, Any] | None:
        """Return the option that a name, however it is spelt, stands for; None where there is none."""
        return self._by_folded.get(folded(key))

    def knows(self, key: str) -> bool:
        """Tell whether a name stands for an option, be it one that is refused."""
        return self.find(key) is not None or self._reason(folded(key)) is not None

    def _reason(self, name: str) -> str | None:
        return next((why for n, why in self._reasons.items() if fnmatchcase(name, n)), None)

    def named(self, key: str) -> Option[Any, Any]:
        """Return the option that a name stands for. Raises Unsupported for one that is refused,
        InvalidInput for an unknown one.
        """
        if (option := self.find(key)) is not None:
            return option
        if (reason := self._reason(folded(key))) is not None:
            raise Unsupported(
                f"{self.label(str(key))} is not supported here: {reason}.", option=key
            )
        listed = sorted(o.name for o in self.listed)
        raise InvalidInput(
            f"Unknown {self.noun}: {key!r}.{did_you_mean(key, (*self.names, *listed))}",
            hint=f"Known: {', '.join(listed)}.",
            option=key,
        )

    def read(
        self, given: Mapping[str, Any], verb: str | None = None, label: str | None = None
    ) -> dict[str, Any]:
        """Parse options as a caller gives them; returns those that are not None by their names.
        `label` with `{}` for the name: what messages call an option, if it is not the table's noun.

        Raises InvalidInput for an unknown option, for a value that is not of its kind, for an
        option that is given twice, and for one that means nothing to the verb; Unsupported for one
        that is refused.
        """
        values: dict[str, Any] = {}
        for key, value in given.items():
            option = self.named(key)
            if value is None:
                continue
            if not option.means_something_to(verb):
                reason = f": {option.why}" if option.why else ""
                hint = f"Leave it out: it belongs to {', '.join(option.verbs)}."
                raise InvalidInput(
                    f"{self.label(option.name)} means nothing to {verb}{reason}.",
                    hint=hint,
                    option=option.name,
                )
            called = label.format(option.name) if label else self.label(option.name)
            parsed = option.kind.parse(called, value, option=option.name)
            if option.fixed and parsed != option.default:
                raise Unsupported(
                    f"{called} cannot be {str(value).strip().lower()} here: {option.why}.",
                    hint="Leave it out.",
                    option=option.name,
                )
            if values.setdefault(option.name, parsed) != parsed:
                both = "" if option.secret else f", as {values[option.name]!r} and as {parsed!r}"
                raise InvalidInput(
                    f"{called} is given twice{both}.", hint="Give it once.", option=option.name
                )
        return values

    def fields(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the values that were read, else the defaults, by the fields that hold them as they
        are.
        """
        return {o.field: o.of(values) for o in self.options if o.field}
