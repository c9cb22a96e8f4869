"""Import a module of a higher layer by its name, when a class of the format is asked for what only that layer knows (docs/adr/0028).

PyIceberg's schemas, specs and types turn themselves into Arrow schemas and JSON, and its `catalog` module loads catalogs. Here they lie
below the rooms that do so, and imports go one way: these few calls look up their functions, as `frazil.__getattr__` does.
"""

from __future__ import annotations

import importlib
from typing import Any


def from_above(module: str, name: str) -> Any:
    """Return the attribute `name` of the module `frazil.<module>`."""
    return getattr(importlib.import_module(f"frazil.{module}"), name)
