"""What lies below a table."""

from __future__ import annotations

import os
from typing import Any


def leftovers(t: Any) -> list[str]:
    """Files below the table's data that no snapshot knows."""
    root = t.location().removeprefix("file://")
    known = {p.removeprefix("file://") for p in t.inspect.all_files().column("file_path").to_pylist()}
    found = [os.path.join(d, n) for d, _, names in os.walk(f"{root}/data") for n in names]
    return [f for f in found if f not in known and not f.endswith(".crc")]
