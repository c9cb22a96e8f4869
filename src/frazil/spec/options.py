"""Define options of reads, writes and procedures: the name, kind, default and verbs of each, as
`spec.properties` defines table properties.

An `OptionTable` holds the options that are given together and reads them, in one way for all
tables; rules about several options are for its users. Adding an option is one entry of its table.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Any, Generic, TypeVar

from frazil.errors import InvalidInput, Unsupported
from frazil.spec.kinds import ValueKind

T = TypeVar("T")
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


def folded(name: Any) -> str:
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

    def find(self, key: Any) -> Option[Any, Any] | None:
        """Return the option that a name, however it is spelt, stands for; None where there is none."""
        return self._by_folded.get(folded(key))

    def knows(self, key: Any) -> bool:
        """Tell whether a name stands for an option, be it one that is refused."""
        return self.find(key) is not None or self._reason(folded(key)) is not None

    def _reason(self, name: str) -> str | None:
        return next((why for n, why in self._reasons.items() if fnmatchcase(name, n)), None)

    def named(self, key: Any) -> Option[Any, Any]:
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
