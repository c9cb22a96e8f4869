"""Import a module of a higher layer by its name, when a class of the format is asked for what only
that layer knows (docs/adr/0028).

PyIceberg's schemas, specs and types turn themselves into Arrow schemas and JSON, and its `catalog`
module loads catalogs. In Frazil, `spec/` may not import the rooms that do this, so these few calls
look up their functions when they run, as `frazil.__getattr__` does.
"""

from __future__ import annotations

import importlib
from typing import Any


def from_above(module: str, name: str) -> Any:
    """Return the attribute `name` of the module `frazil.<module>`."""
    return getattr(importlib.import_module(f"frazil.{module}"), name)
