"""Apply row-level deletes in Spark's own plan: positions and vectors as bitmaps, equality deletes as anti joins."""

__all__ = ["native_deletes"]
