"""The rows of Spark's DataFrames."""

from __future__ import annotations

from typing import Any


def ids(frame: Any) -> list[int]:
    """The column `id` of a DataFrame, sorted."""
    return sorted(r["id"] for r in frame.select("id").collect())
