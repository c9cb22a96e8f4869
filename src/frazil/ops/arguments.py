"""Check the arguments of reads and writes before anything is done. The errors name the argument and
its value.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from frazil.errors import InvalidInput

T = TypeVar("T")
Check = Callable[[str, Any], Any]


def checked(checks: Mapping[str, Check]) -> Callable[[type[T]], type[T]]:
    """Return a decorator of classes, which checks arguments of these names at every call of a
    public method. A check may return another value."""

    def decorate(cls: type[T]) -> type[T]:
        for name, method in [*vars(cls).items()]:
            public = inspect.isfunction(method) and not name.startswith("_")
            if public and not checks.keys().isdisjoint(inspect.signature(method).parameters):
                setattr(cls, name, _checked(method, checks))
        return cls

    return decorate


def _checked(method: Callable[..., Any], checks: Mapping[str, Check]) -> Callable[..., Any]:
    signature = inspect.signature(method)

    @functools.wraps(method)
    def call(*args: Any, **named: Any) -> Any:
        bound = signature.bind(*args, **named)
        bound.arguments.update(
            {
                name: checks[name](name, value)
                for name, value in bound.arguments.items()
                if name in checks
            }
        )
        return method(*bound.args, **bound.kwargs)

    return call


def names(argument: str, given: Any) -> tuple[str, ...]:
    """Return column names as a tuple, from one name or a sequence of names. Raises InvalidInput for
    anything else.
    """
    if isinstance(given, str):
        return (given,)
    if (
        not isinstance(given, Sequence)
        or isinstance(given, bytes)
        or not all(isinstance(n, str) for n in given)
    ):
        raise InvalidInput(f"{argument} must be a list of column names, not {given!r}.")
    return tuple(given)


def number(argument: str, given: Any, least: int | None = None) -> int | None:
    """Return a whole number, given as such or as text; None stays None. Raises InvalidInput for
    anything else and for less than `least`, which is 0 or None (no limit)."""
    if given is None:
        return None
    try:
        value = int(str(given))
    except ValueError:
        raise InvalidInput(f"{argument} must be a whole number, not {given!r}.") from None
    if least is not None and value < least:
        raise InvalidInput(f"{argument} must not be negative, got {given!r}.")
    return value


def numbers(argument: str, given: Any) -> tuple[int, ...] | None:
    """Return whole numbers, each given as such or as text; None stays None. Raises InvalidInput for
    anything else.
    """
    if given is None:
        return None
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise InvalidInput(f"{argument} must be a list of whole numbers, not {given!r}.")
    return tuple(value for value in (number(argument, each) for each in given) if value is not None)


def flag(argument: str, given: Any) -> bool | None:
    """Return True, False or None as given. Raises InvalidInput for anything else."""
    if given is not None and not isinstance(given, bool):
        raise InvalidInput(f"{argument} must be True or False, not {given!r}.")
    return given


def text(argument: str, given: Any) -> str | None:
    """Return a text or None as given. Raises InvalidInput for anything else."""
    if given is not None and not isinstance(given, str):
        raise InvalidInput(f"{argument} must be a text, not {given!r}.")
    return given


def function(argument: str, given: Any) -> Any:
    """Return a function or None as given. Raises InvalidInput for anything else."""
    if given is not None and not callable(given):
        raise InvalidInput(f"{argument} must be a function, not {given!r}.")
    return given


def mapping(argument: str, given: Any) -> dict[str, Any]:
    """Return a mapping as a dict with text keys; None gives an empty one. Raises InvalidInput for
    anything that is not a mapping.
    """
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise InvalidInput(f"{argument} must be a dict, not {given!r}.")
    return {str(k): v for k, v in given.items()}
