"""Encode lower and upper bounds of columns for manifests, truncated by the metrics mode (spec,
"Manifests"; Java's UnicodeUtil).
"""

from __future__ import annotations

from typing import Any

from frazil.arrow.write.metrics_config import MetricsMode
from frazil.codec.single_value import to_bytes
from frazil.spec.types import BinaryType, IcebergType, StringType

_SURROGATES, _LAST = range(0xD800, 0xE000), 0x10FFFF


def lower_bound(type_: IcebergType, value: Any, mode: MetricsMode) -> bytes | None:
    """Encode a lower bound: of a long value its first characters (bytes), which are not above it.
    None stays None.
    """
    if value is None or not mode.has_bounds:
        return None
    return to_bytes(type_, value[: mode.length] if _cuts(type_, mode) else value)


def upper_bound(type_: IcebergType, value: Any, mode: MetricsMode) -> bytes | None:
    """Encode an upper bound: of a long value its first characters, the last that can be increased
    increased by one; None when none can.
    """
    if value is None or not mode.has_bounds:
        return None
    if _cuts(type_, mode) and len(value) > mode.length:
        value = (
            next_text(value[: mode.length])
            if isinstance(value, str)
            else next_bytes(value[: mode.length])
        )
    return None if value is None else to_bytes(type_, value)


def _cuts(type_: IcebergType, mode: MetricsMode) -> bool:
    return mode.kind == "truncate" and isinstance(type_, StringType | BinaryType)


def next_text(text: str) -> str | None:
    """Find the least text of at most the same length that is above every text that begins with
    `text`; None when there is none.
    """
    for i in range(len(text) - 1, -1, -1):
        code = ord(text[i]) + 1
        code = _SURROGATES.stop if code in _SURROGATES else code
        if code <= _LAST:
            return text[:i] + chr(code)
    return None


def next_bytes(data: bytes) -> bytes | None:
    """Find the least bytes above all that begin with `data`, as `next_text` does for text."""
    prefix = data.rstrip(b"\xff")
    return prefix[:-1] + bytes([prefix[-1] + 1]) if prefix else None
