"""Apply row-level deletes in Spark's own plan: position deletes and deletion vectors as bitmaps,
equality deletes as anti joins.

Start at `native_deletes`: `one_bitmap` for few positions, `bitmaps` for many; files with more than
that are read by Arrow (`spark.read.groups`). `equality` compares sequence number and partition
again in each anti join (`scan.equality_relations`). `native_deletes` decides which files are left
to Arrow.
"""

__all__ = ["native_deletes"]
