"""Translate Spark's limits of a micro-batch (ReadLimit, which PySpark has from 4.2 on) to those of
Frazil's options and back.
"""

from __future__ import annotations

import importlib
from typing import Any

from frazil.stream.source.options import Limits

try:
    _limits: Any = importlib.import_module("pyspark.sql.streaming.datasource")
except (
    ImportError
):  # PySpark 4.1 has no limits, and its availableNow reads one batch up to the head
    _limits = None

_MANY = 2**63 - 1


def default_limit(limits: Limits) -> Any:
    """Return a Spark limit that stands for the limits of the options. PySpark has no limit that
    combines several, so one of them is returned, and `limits_of` applies all of them."""
    if not limits.any:
        return _limits.ReadAllAvailable()
    if limits.files is not None:
        return _limits.ReadMaxFiles(limits.files)
    if limits.rows is not None:
        return _limits.ReadMaxRows(limits.rows)
    return (
        _limits.ReadMaxRows(_MANY) if limits.bytes is None else _limits.ReadMaxBytes(limits.bytes)
    )


def limits_of(limit: Any, options: Limits) -> Limits:
    """Return the limits of one batch: those of the options and Spark's own; no limit where Spark
    asks for all rows (trigger once).
    """
    if limit is None or _limits is None:
        return options
    if isinstance(limit, _limits.ReadAllAvailable):
        return Limits()
    maxima = {name: getattr(limit, f"max_{name}", None) for name in ("files", "rows", "bytes")}
    return options.and_(**maxima)
