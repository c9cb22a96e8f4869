"""Tell by Spark's own estimate whether a DataFrame is small."""

from __future__ import annotations

from pyspark.sql import DataFrame

from frazil.spark.host.fall_back import fall_back
from frazil.spark.host.jvm import NOT_AS_KNOWN, is_classic
from frazil.spark.host.jvm_plans import estimated_bytes


def is_small(frame: DataFrame, most: int) -> bool:
    """Tell whether Spark expects the rows of a DataFrame to take at most so many bytes. False where
    Spark does not say: on Spark Connect, and if its plans have changed."""
    if not is_classic(frame):
        return False
    try:
        return estimated_bytes(frame) <= most
    except NOT_AS_KNOWN as error:
        fall_back(
            "The estimated size of a frame",
            error,
            "Rows are the same, but small frames are written as if they were large.",
        )
        return False
