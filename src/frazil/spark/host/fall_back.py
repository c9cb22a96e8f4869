"""Log a warning, once, where Spark differs from what Frazil expects."""

from __future__ import annotations

import logging

_LOG = logging.getLogger("frazil")
_WARNED: set[str] = set()


def fall_back(
    part: str, error: Exception, loss: str = "Rows are the same, but reads are slower."
) -> None:
    """Log a warning, once per process and part of Spark, that Spark differs from what Frazil
    expects. `loss`: what is lost by that.
    """
    if part not in _WARNED:
        _WARNED.add(part)
        _LOG.warning(
            "%s of this Spark version differs from what Frazil expects. %s Please report it: %s",
            part,
            loss,
            error,
        )
