"""The public classes and functions, for the tests that each has a docstring, and a place on a page of
the reference that `make docs` makes of them.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Iterator
from functools import cached_property
from typing import Any

from tests.house.test_public_names import CLASSES, PYICEBERG_MODULES, RESULTS

MODULES = ("frazil", "frazil.errors", "frazil.testing", *PYICEBERG_MODULES)


def exported() -> dict[str, Any]:
    """The classes and functions of Frazil that public modules export, by their full names."""
    found: dict[str, Any] = {}
    for module in MODULES:
        room = importlib.import_module(module)
        for name in getattr(room, "__all__", vars(room)):
            value = getattr(room, name, None)
            if (
                not name.startswith("_")
                and (inspect.isclass(value) or inspect.isfunction(value))
                and value.__module__.startswith("frazil")
            ):
                found[f"{module}.{name}"] = value
    return found


def public_classes() -> list[type[Any]]:
    """The classes whose methods users call."""
    classes = {value for value in exported().values() if inspect.isclass(value)}
    return sorted({*classes, *CLASSES, *RESULTS}, key=lambda c: (c.__module__, c.__name__))


def own_methods(cls: type[Any]) -> Iterator[tuple[type[Any], str, Any]]:
    """The public methods and properties of a class that Frazil wrote, with the class that defines
    each.
    """
    for name in dir(cls):
        owner = next((c for c in cls.__mro__ if name in vars(c)), None)
        if name.startswith("_") or owner is None or not owner.__module__.startswith("frazil"):
            continue
        member = vars(owner)[name]
        function = member.__func__ if isinstance(member, classmethod | staticmethod) else member
        if inspect.isfunction(function) or isinstance(function, property | cached_property):
            yield owner, name, function
