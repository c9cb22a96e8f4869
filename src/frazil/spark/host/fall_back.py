"""Log a warning, once, where Spark differs from what Frazil expects."""

from __future__ import annotations

import logging

_LOG = logging.getLogger("frazil")
_WARNED: set[str] = set()


def fall_back(part: str, error: Exception) -> None:
    """Log a warning, once per process and part of Spark, that Spark differs from what Frazil expects and that a slower way is used."""
    if part not in _WARNED:
        _WARNED.add(part)
        text = "%s of this Spark version differs from what Frazil expects. Rows are the same, but reads are slower. Please report it: %s"
        _LOG.warning(text, part, error)
