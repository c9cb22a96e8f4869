"""Import the callables that options name as `module:callable`."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from frazil.errors import InvalidInput


def loaded(
    name: str, option: str, method: str, parameters: tuple[str, ...] = ()
) -> Callable[..., Any]:
    """Import `module:callable`. A class is instantiated with the parameters. An object that has the
    method `method` is called by it.
    """
    module, colon, path = name.partition(":")
    try:
        if not colon:
            raise ImportError("it has no colon")
        target: Any = importlib.import_module(module)
        for part in path.split("."):
            target = getattr(target, part)
    except (ImportError, AttributeError) as e:
        raise InvalidInput(
            f"{option}: cannot import {name!r}: {e}.",
            hint="Write it as module:callable.",
            option=option,
        ) from e
    if isinstance(target, type):
        target = target(*parameters)
    elif parameters:
        raise InvalidInput(
            f"{option}: {name!r} is no class, and takes no parameters.", option=option
        )
    target = getattr(target, method, target)
    if not callable(target):
        raise InvalidInput(f"{option}: {name!r} is not callable.", option=option)
    return target  # type: ignore[no-any-return]
