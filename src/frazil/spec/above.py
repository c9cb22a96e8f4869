"""Open a room above the nouns by its name, when a noun is asked for what only that room knows (docs/adr/0028).

PyIceberg's nouns turn themselves into Arrow schemas and JSON, and its `catalog` module loads catalogs. Here nouns and catalogs lie below
the rooms that do so, and imports go one way: these few calls look their function up, as `frazil.__getattr__` does.
"""

from __future__ import annotations

import importlib
from typing import Any


def from_above(module: str, name: str) -> Any:
    """What `frazil.<module>` calls `name`."""
    return getattr(importlib.import_module(f"frazil.{module}"), name)
