"""Translate Spark's limits of a micro-batch, which PySpark knows from 4.2 on, to ours."""

from __future__ import annotations

import importlib
from typing import Any

from frazil.stream.source.options import Limits

try:
    _limits: Any = importlib.import_module("pyspark.sql.streaming.datasource")
except ImportError:  # PySpark 4.1 has no limits, and its availableNow reads one batch up to the head
    _limits = None

_MANY = 2**63 - 1


def default_limit(limits: Limits) -> Any:
    """Return a limit that tells Spark that the options bound a batch; Spark has none that joins several, so all of them apply whenever it
    asks for a bounded batch."""
    if not limits.any:
        return _limits.ReadAllAvailable()
    if limits.files is not None:
        return _limits.ReadMaxFiles(limits.files)
    if limits.rows is not None:
        return _limits.ReadMaxRows(limits.rows)
    return _limits.ReadMaxRows(_MANY) if limits.bytes is None else _limits.ReadMaxBytes(limits.bytes)


def limits_of(limit: Any, options: Limits) -> Limits:
    """Return the limits of one batch: those of the options and Spark's; none where Spark wants all there is (trigger once)."""
    if limit is None or _limits is None:
        return options
    if isinstance(limit, _limits.ReadAllAvailable):
        return Limits()
    given = {name: getattr(limit, f"max_{name}", None) for name in ("files", "rows", "bytes")}
    return options.and_(**given)
