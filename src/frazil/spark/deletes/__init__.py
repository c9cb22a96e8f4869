"""Apply row-level deletes in Spark's own plan: position deletes and deletion vectors as bitmaps,
equality deletes as anti joins.

Start at `native_deletes`: `one_bitmap` for few positions, `bitmaps` for many; files with more than
that are read by Arrow (`spark.read.groups`).
"""

__all__ = ["native_deletes"]
