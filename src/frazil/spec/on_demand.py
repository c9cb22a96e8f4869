"""Import a module when a call needs it, by its name: one of a higher room, which a class of the
format may not import (docs/adr/0028), or a large one that few processes need.

PyIceberg's schemas, specs and types turn themselves into Arrow schemas and JSON, and its `catalog`
module loads catalogs. In Frazil, `spec/` may not import the rooms that do this, so these few calls
look up their functions when they run, as `frazil.__getattr__` does. The back ends of catalogs and
the rooms of maintenance and of streams are loaded when the first table asks for them, so that a
command that only looks at a table starts in a third of a second.
"""

from __future__ import annotations

import importlib
from typing import Any


class _ModuleOnDemand:
    def __init__(self, name: str):
        self._name = name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # whoever looks over the names of a module asks for these
            raise AttributeError(name)
        try:
            return getattr(importlib.import_module(self._name), name)
        except ModuleNotFoundError:
            return Any


def module_on_demand(name: str) -> Any:
    """Return what stands for a module in annotations, and imports it when `typing.get_type_hints`
    evaluates one. A type of a library that is not installed is Any.
    """
    return _ModuleOnDemand(name)


def on_demand(module: str, name: str) -> Any:
    """Return the attribute `name` of the module `frazil.<module>`."""
    return getattr(importlib.import_module(f"frazil.{module}"), name)
