"""Arguments of reads and writes as users type them, checked before anything is done; the errors name the argument and its value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from frazil.errors import InvalidInput


def names(argument: str, given: Any) -> tuple[str, ...]:
    """Names of columns: one as text, or several. Raises InvalidInput."""
    if isinstance(given, str):
        return (given,)
    if not isinstance(given, Sequence) or isinstance(given, bytes) or not all(isinstance(n, str) for n in given):
        raise InvalidInput(f"{argument} is a list of column names, not {given!r}.")
    return tuple(given)


def number(argument: str, given: Any, least: int | None = None) -> int | None:
    """A whole number, as such or as text; None stays None. Raises InvalidInput."""
    if given is None:
        return None
    try:
        found = int(str(given))
    except ValueError:
        raise InvalidInput(f"{argument} is a whole number, not {given!r}.") from None
    if least is not None and found < least:
        raise InvalidInput(f"{argument} must not be negative, got {given!r}.")
    return found


def flag(argument: str, given: Any) -> bool | None:
    if given is not None and not isinstance(given, bool):
        raise InvalidInput(f"{argument} is True or False, not {given!r}.")
    return given


def mapping(argument: str, given: Any) -> dict[str, Any]:
    """Raises InvalidInput for what is no mapping."""
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise InvalidInput(f"{argument} is a dict, not {given!r}.")
    return {str(k): v for k, v in given.items()}
